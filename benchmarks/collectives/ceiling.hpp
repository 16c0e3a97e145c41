// SPDX-License-Identifier: Apache-2.0
#pragma once

// The ceiling of this memory: threads that read all inputs and write all outputs themselves.

#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <thread>

namespace blink_bench {

/// Floats on separate fresh pages. No two ranks share a line, and the speed does not depend on
/// earlier allocations.
class page_buffer {
 public:
  explicit page_buffer(std::size_t count)
      : bytes_(count * sizeof(float) + 1),
        data_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    std::fill_n(data(), count, 1.0F);
  }
  page_buffer(page_buffer const&) = delete;
  page_buffer& operator=(page_buffer const&) = delete;
  ~page_buffer() { ::munmap(data_, bytes_); }
  [[nodiscard]] float* data() const { return static_cast<float*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

/// A barrier with one monotone counter, the fastest one on few cores. Its initial state is all zero
/// bits, so that it may lie in fresh shared memory.
class counting_barrier {
 public:
  /// spins: tests before the first `idle()`
  template <class Idle>
  void wait(int threads, Idle const& idle, int spins = 1000) {
    int const all = (arrived_.fetch_add(1) / threads + 1) * threads;
    while (arrived_.load() < all) {
      if (--spins < 0) idle();
    }
  }
  /// Yields early only if threads share cores, because an unnecessary yield takes longer than the
  /// measured time.
  void wait(int threads) {
    static bool const share_cores =
        static_cast<unsigned>(threads) > std::thread::hardware_concurrency();
    wait(threads, [] { std::this_thread::yield(); }, share_cores ? 1000 : 20'000);
  }

 private:
  std::atomic<int> arrived_ = 0;
};

/// Sums elements [first, last) of all inputs, and writes them to the first `Outputs` outputs.
template <int Ranks, int Outputs, bool Streams>
void sum_slice(float* const* inputs, float* const* outputs, std::size_t first, std::size_t last) {
  float const* in[std::size_t{Ranks}];
  float* out[std::size_t{Outputs}];
  for (int k = 0; k < Ranks; ++k) in[k] = inputs[k];
  for (int k = 0; k < Outputs; ++k) out[k] = outputs[k];
  constexpr std::size_t tasks = 16;
  using vector [[gnu::vector_size(64)]] = float;
  for (std::size_t i = first; i + tasks <= last; i += tasks) {
    vector total = *reinterpret_cast<vector const*>(in[0] + i);
    for (int k = 1; k < Ranks; ++k) total += *reinterpret_cast<vector const*>(in[k] + i);
    for (int k = 0; k < Outputs; ++k) {
      if constexpr (Streams) {
#if defined(__AVX512F__)
        _mm512_stream_ps(out[k] + i, reinterpret_cast<__m512>(total));
#else
        __m128i parts[4];
        std::memcpy(parts, &total, sizeof total);
        for (int p = 0; p < 4; ++p) {
          _mm_stream_si128(reinterpret_cast<__m128i*>(out[k] + i) + p, parts[p]);
        }
#endif
      } else {
        *reinterpret_cast<vector*>(out[k] + i) = total;
      }
    }
  }
  for (std::size_t i = first + (last - first) / tasks * tasks; i < last; ++i) {
    float total = in[0][i];
    for (int k = 1; k < Ranks; ++k) total += in[k][i];
    for (int k = 0; k < Outputs; ++k) out[k][i] = total;
  }
  if constexpr (Streams) _mm_sfence();
}

/// The begin of a rank's slice: whole lines; the last rank has the rest.
[[nodiscard]] inline std::size_t slice_begin(std::size_t count, int rank, int ranks) {
  if (rank == ranks) return count;
  auto const slice = (count / static_cast<std::size_t>(ranks) + 15) / 16 * 16;
  return std::min(count, slice * static_cast<std::size_t>(rank));
}

}  // namespace blink_bench
