// SPDX-License-Identifier: Apache-2.0
#pragma once

// What this memory allows: threads that read all inputs and write all outputs themselves.

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <thread>

namespace blink_bench {

/// Floats on their own pages, so that no two ranks share a line.
class page_buffer {
 public:
  explicit page_buffer(std::size_t count)
      : data_(static_cast<float*>(::operator new(count * sizeof(float) + 1, page))) {
    std::fill_n(data_, count, 1.0F);
  }
  page_buffer(page_buffer const&) = delete;
  page_buffer& operator=(page_buffer const&) = delete;
  ~page_buffer() { ::operator delete(data_, page); }
  [[nodiscard]] float* data() const { return data_; }

 private:
  static constexpr std::align_val_t page{4096};
  float* data_;
};

/// One monotone counter: the quickest barrier on few cores. All zero bits are its first state, so
/// that it may lie in fresh shared memory.
class counting_barrier {
 public:
  template <class Idle>
  void wait(int threads, Idle const& idle) {
    int const ticket = arrived_.fetch_add(1) / threads;
    for (int spins = 0; arrived_.load() / threads == ticket; ++spins) {
      if (spins > 100) idle();
    }
  }
  void wait(int threads) {
    wait(threads, [] { std::this_thread::yield(); });
  }

 private:
  std::atomic<int> arrived_ = 0;
};

/// Elements [first, last) of all inputs summed and written to the first `Outputs` outputs.
template <int Ranks, int Outputs, bool Streams>
void sum_slice(float* const* inputs, float* const* outputs, std::size_t first, std::size_t last) {
  float const* in[Ranks];
  float* out[Outputs];
  for (int k = 0; k < Ranks; ++k) in[k] = inputs[k];
  for (int k = 0; k < Outputs; ++k) out[k] = outputs[k];
  constexpr std::size_t lanes = 16;
  using vector [[gnu::vector_size(64)]] = float;
  for (std::size_t i = first; i + lanes <= last; i += lanes) {
    vector total = *reinterpret_cast<vector const*>(in[0] + i);
    for (int k = 1; k < Ranks; ++k) total += *reinterpret_cast<vector const*>(in[k] + i);
    for (int k = 0; k < Outputs; ++k) {
      if constexpr (Streams) {
#if defined(__AVX512F__)
        _mm512_stream_ps(out[k] + i, reinterpret_cast<__m512>(total));
#else
        auto const* parts = reinterpret_cast<__m128i const*>(&total);
        for (int p = 0; p < 4; ++p)
          _mm_stream_si128(reinterpret_cast<__m128i*>(out[k] + i) + p, parts[p]);
#endif
      } else {
        *reinterpret_cast<vector*>(out[k] + i) = total;
      }
    }
  }
  for (std::size_t i = first + (last - first) / lanes * lanes; i < last; ++i) {
    float total = in[0][i];
    for (int k = 1; k < Ranks; ++k) total += in[k][i];
    for (int k = 0; k < Outputs; ++k) out[k][i] = total;
  }
  if constexpr (Streams) _mm_sfence();
}

/// Where the slice of a rank begins: whole lines, the last rank has the rest.
[[nodiscard]] inline std::size_t slice_begin(std::size_t count, int rank, int ranks) {
  if (rank == ranks) return count;
  auto const slice = (count / static_cast<std::size_t>(ranks) + 15) / 16 * 16;
  return std::min(count, slice * static_cast<std::size_t>(rank));
}

}  // namespace blink_bench
