// SPDX-License-Identifier: Apache-2.0
// All-reduce of floats among threads, beside the ceiling of this memory: every thread sums its
// slice of all inputs and writes it to all outputs, with plain or with streaming stores, between
// two barriers; the better of both counts. `of_ceiling` is the ratio of both times in this run.
//
// Bus bandwidth is nccl-tests' measure: bytes / time * 2 (n - 1) / n.

#include <blink/collectives.hpp>

#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace {

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

struct buffers {
  buffers(int ranks, std::size_t count) {
    for (int rank = 0; rank < ranks; ++rank) {
      inputs.push_back(std::make_unique<page_buffer>(count));
      outputs.push_back(std::make_unique<page_buffer>(count));
    }
  }
  std::vector<std::unique_ptr<page_buffer>> inputs, outputs;
};

/// One monotone counter: the quickest barrier on few cores.
class counting_barrier {
 public:
  explicit counting_barrier(int threads) : threads_(threads) {}
  void wait() {
    int const ticket = arrived_.fetch_add(1) / threads_;
    for (int spins = 0; arrived_.load() / threads_ == ticket; ++spins) {
      if (spins > 100) std::this_thread::yield();
    }
  }

 private:
  int threads_;
  std::atomic<int> arrived_ = 0;
};

template <int Ranks, bool Streams>
void ceiling_slice(buffers const& all, std::size_t first, std::size_t last) {
  float const* in[Ranks];
  float* out[Ranks];
  for (std::size_t k = 0; k < Ranks; ++k) {
    in[k] = all.inputs[k]->data();
    out[k] = all.outputs[k]->data();
  }
  constexpr std::size_t lanes = 16;
  using vector [[gnu::vector_size(64)]] = float;
  for (std::size_t i = first; i + lanes <= last; i += lanes) {
    vector total = *reinterpret_cast<vector const*>(in[0] + i);
    for (int k = 1; k < Ranks; ++k) total += *reinterpret_cast<vector const*>(in[k] + i);
    for (int k = 0; k < Ranks; ++k) {
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
    for (int k = 0; k < Ranks; ++k) out[k][i] = total;
  }
  if constexpr (Streams) _mm_sfence();
}

using clock_type = std::chrono::steady_clock;

double seconds_since(clock_type::time_point start) {
  return std::chrono::duration<double>(clock_type::now() - start).count();
}

/// Seconds of one call when `calls` follow each other.
template <int Ranks, bool Streams>
double time_ceiling(buffers const& all, std::size_t count, int calls) {
  counting_barrier barrier(Ranks);
  double result = 0;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < Ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto const slice = (count / Ranks + 15) / 16 * 16;
      auto const first = std::min(count, slice * static_cast<std::size_t>(rank));
      auto const last = rank + 1 == Ranks ? count : std::min(count, first + slice);
      clock_type::time_point start;
      for (int call = -1; call < calls; ++call) {
        if (call == 0) start = clock_type::now();
        barrier.wait();
        ceiling_slice<Ranks, Streams>(all, first, last);
        barrier.wait();
      }
      if (rank == 0) result = seconds_since(start) / calls;
    });
  }
  threads.clear();
  return result;
}

template <int Ranks>
double time_blink(blink::thread_world& world, blink::prepared_schedule& plan, buffers const& all,
                  std::size_t count, int calls) {
  double result = 0;
  world.run([&](auto& me) {
    auto const rank = static_cast<std::size_t>(me.rank());
    clock_type::time_point start;
    for (int call = -1; call < calls; ++call) {
      if (call == 0) start = clock_type::now();
      blink::all_reduce(me, plan, static_cast<float const*>(all.inputs[rank]->data()),
                        all.outputs[rank]->data(), count, blink::sum{});
    }
    if (me.rank() == 0) result = seconds_since(start) / calls;
  });
  return result;
}

/// Calls that follow each other in one measurement: about 50 ms, at least 3.
int calls_for(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>((std::size_t{1} << 28) / (bytes + 1), 3, 20000));
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

template <int Ranks>
void all_reduce(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  auto const count = bytes / sizeof(float);
  buffers const all(Ranks, count);
  blink::thread_world world(Ranks);
  auto& plan = world.prepare(blink::star_schedule(Ranks));
  int const calls = calls_for(bytes);
  std::vector<double> ours, plain, streaming;
  for (auto _ : state) {  // taken in turn, so that a busy moment hits all
    plain.push_back(time_ceiling<Ranks, false>(all, count, calls));
    streaming.push_back(time_ceiling<Ranks, true>(all, count, calls));
    ours.push_back(time_blink<Ranks>(world, plan, all, count, calls));
    state.SetIterationTime(ours.back());
  }
  double const best = std::min(median(plain), median(streaming));
  double const mine = median(ours);
  state.counters["us"] = mine * 1e6;
  state.counters["ceiling_us"] = best * 1e6;
  state.counters["of_ceiling"] = best / mine;
  state.counters["busbw_GB/s"] = static_cast<double>(bytes) / mine * 2 * (Ranks - 1) / Ranks * 1e-9;
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (std::int64_t const bytes : {8, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 64 << 20}) {
    bench->Arg(bytes);
  }
  bench->UseManualTime()->Iterations(7)->Unit(benchmark::kMicrosecond);
}

BENCHMARK(all_reduce<2>)->Apply(sizes);
BENCHMARK(all_reduce<4>)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
