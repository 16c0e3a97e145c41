// SPDX-License-Identifier: Apache-2.0
// The program that `./check --gpu` runs on one GPU. It runs all collectives, types, reducers and
// sizes on 2 to 16 virtual ranks. It also runs forests of real machines, replays of graphs,
// refusals and measurements. Plans also run over links as slow as their machine's. NCCL runs for
// comparison if it accepts several ranks on one GPU. Exits with 77, "skipped", without a GPU.
//
//   gpu_suite [--seconds S] [--quick] [--json FILE] [--shaped METHODS.json]... [METHODS.json ...]

#include <blink/core/version.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/bitwise.hpp>
#include <blink/reducers/compensated_sum.hpp>
#include <blink/reducers/located.hpp>
#include <blink/reducers/logical.hpp>
#include <blink/reducers/reproducible_sum.hpp>
#include <blink/reducers/small_float.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/transports/cuda.cuh>
#include <blink/transports/cuda/copy/copy_ranks.hpp>

#include "buffers.cuh"
#include "nccl.hpp"
#include "report.hpp"
#include "tuning.hpp"
#include <cuda/std/complex>
#include <cuda/std/functional>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpu_suite {

constexpr int skipped = 77;
using blink::collective;

struct settings {
  double seconds = 240;
  bool is_quick = false;
  std::string json;
  std::vector<std::string> algorithms;
  std::vector<std::string>
      shaped;  ///< files of algorithms whose rates are measured; the first is compared with each
               ///< other one
};

blink::device_options on_gpu_0(int ranks) {
  blink::device_options options;
  options.devices.assign(static_cast<std::size_t>(ranks), 0);
  options.memory_cap = std::size_t{12} << 30;
  options.deadline = std::chrono::seconds(20);
  return options;
}

/// The call for a collective.
template <class Ranks, class T, class Reducer>
void call(Ranks& all_ranks, typename Ranks::prepared_type& plan, collective kind,
          std::vector<blink::rank_buffers<T>> const& buffers, Reducer const& reduce,
          cudaStream_t on) {
  typename Ranks::streams const streams{on};
  switch (kind) {
    case collective::broadcast:
      return blink::broadcast(all_ranks, plan, buffers, streams);
    case collective::reduce:
      return blink::reduce(all_ranks, plan, buffers, reduce, streams);
    case collective::all_reduce:
      return blink::all_reduce(all_ranks, plan, buffers, reduce, streams);
    case collective::all_gather:
      return blink::all_gather(all_ranks, plan, buffers, streams);
    case collective::reduce_scatter:
      return blink::reduce_scatter(all_ranks, plan, buffers, reduce, streams);
    case collective::gather:
      return blink::gather(all_ranks, plan, buffers, streams);
    case collective::scatter:
      return blink::scatter(all_ranks, plan, buffers, streams);
    case collective::all_to_all:
      return blink::all_to_all(all_ranks, plan, buffers, streams);
    case collective::send_to_next:
      return blink::send_to_next(all_ranks, plan, buffers, streams);
    case collective::permute:
      return blink::permute(all_ranks, plan, buffers, streams);
    case collective::barrier:
      return blink::barrier(all_ranks, plan, streams);
  }
}

struct named_schedule {
  std::string name;
  blink::schedule plan;
};

std::vector<named_schedule> schedules_for(collective kind, int ranks) {
  std::vector<int> next(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    next[static_cast<std::size_t>(rank)] = (rank + 1) % ranks;
  }
  switch (kind) {
    case collective::broadcast:
    case collective::reduce:
      return {{"binomial", blink::binomial_schedule(ranks, 0)},
              {"chain", blink::chain_schedule(ranks, ranks - 1)}};
    case collective::all_reduce:
      return {{"star", blink::star_schedule(ranks)},
              {"ring", blink::ring_schedule(ranks)},
              {"one-shot", blink::one_shot_schedule(ranks)}};
    case collective::all_gather:
    case collective::reduce_scatter:
    case collective::barrier:
      return {{"star", blink::star_schedule(ranks)}, {"ring", blink::ring_schedule(ranks)}};
    case collective::gather:
      return {{"flows", blink::gather_schedule(ranks, 0)}};
    case collective::scatter:
      return {{"flows", blink::scatter_schedule(ranks, ranks - 1)}};
    case collective::all_to_all:
      return {{"flows", blink::all_to_all_schedule(ranks)}};
    case collective::send_to_next:
      return {{"flows", blink::send_to_next_schedule(ranks)}};
    case collective::permute:
      return {{"flows", blink::permute_schedule(next)}};
  }
  return {};
}

/// The state that all parts share.
struct bench {
  settings const& what;
  arena memory;
  cudaStream_t stream = nullptr;
  std::map<int, std::unique_ptr<blink::device_ranks>> worlds;  // by number of ranks

  bench(settings const& options, std::size_t bytes) : what(options), memory(bytes) {
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
  }
  blink::device_ranks& all_ranks(int ranks) {
    auto& own = worlds[ranks];
    if (own == nullptr) own = std::make_unique<blink::device_ranks>(on_gpu_0(ranks));
    return *own;
  }
};

/// Runs one case. Returns an empty text if all elements are right. After a failure the communicator
/// can run the next case.
template <class T, class Ranks, class Reducer>
std::string run_case_in(Ranks& all_ranks, bench& on, named_schedule const& way, collective kind,
                        std::size_t count, std::size_t offset, Reducer const& reduce,
                        bool is_in_place = false) {
  static std::uint32_t seed = 0;
  try {
    auto& plan = all_ranks.prepare(way.plan);
    for (int repeat = 0; repeat < 2; ++repeat) {
      ++seed;
      auto const buffers = on.memory.buffers<T>(kind, way.plan.rank_count, count, offset, seed,
                                                on.stream, is_in_place);
      call(all_ranks, plan, kind, buffers, reduce, on.stream);
      all_ranks.wait({on.stream});
      if (kind == collective::barrier) continue;
      auto const wrong = on.memory.wrong(way.plan, kind, buffers, seed, reduce, on.stream);
      if (wrong != 0) return std::to_string(wrong) + " wrong elements";
    }
    return "";
  } catch (blink::collective_error const& failure) {
    if constexpr (requires { all_ranks.recover(); }) all_ranks.recover();
    return failure.what();
  } catch (blink::error const& failure) {
    return failure.what();
  }
}

template <class T, class Reducer>
std::string run_case(bench& on, named_schedule const& way, collective kind, std::size_t count,
                     std::size_t offset, Reducer const& reduce) {
  return run_case_in<T>(on.all_ranks(way.plan.rank_count), on, way, kind, count, offset, reduce);
}

std::vector<std::size_t> counts_for(bool is_quick) {
  if (is_quick) return {0, 1, 1000, 65539};
  return {0, 1, 3, 17, 1000, 65539, std::size_t{1} << 20, (std::size_t{1} << 24) + 1};
}

/// All numbers of ranks for small buffers, some for large ones.
std::vector<int> ranks_for(bool is_quick, std::size_t count) {
  if (is_quick) return {2, 5};
  if (count > 1000) return {2, 3, 4, 6, 8, 16};
  return {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
}

template <class T, class Reducer>
void run_reducer(part& results, bench& on, Reducer const& reduce) {
  for (std::size_t const count : counts_for(on.what.is_quick)) {
    for (auto const kind :
         {collective::all_reduce, collective::reduce, collective::reduce_scatter}) {
      for (int const ranks : ranks_for(on.what.is_quick, count)) {
        if (arena::needed<T>(kind, ranks, count) > on.memory.bytes()) continue;
        for (auto const& way : schedules_for(kind, ranks)) {
          if (!results.has_time()) continue;
          std::size_t const offset = count % 3 == 0 ? 1 : 0;
          results.add(std::string(blink::to_text(kind)) + ", " + way.name + ", " +
                          std::to_string(ranks) + " ranks, count " + std::to_string(count),
                      run_case<T>(on, way, kind, count, offset, reduce));
        }
      }
    }
  }
}

void run_moves(part& results, bench& on) {
  for (std::size_t const count : counts_for(on.what.is_quick)) {
    for (auto const kind : {collective::broadcast, collective::all_gather, collective::gather,
                            collective::scatter, collective::all_to_all, collective::send_to_next,
                            collective::permute, collective::barrier}) {
      for (int const ranks : ranks_for(on.what.is_quick, count)) {
        if (arena::needed<float>(kind, ranks, count) > on.memory.bytes()) continue;
        for (auto const& way : schedules_for(kind, ranks)) {
          if (!results.has_time()) continue;
          results.add(std::string(blink::to_text(kind)) + ", " + way.name + ", " +
                          std::to_string(ranks) + " ranks, count " + std::to_string(count),
                      run_case<float>(on, way, kind, count, count % 2, blink::sum{}));
        }
      }
    }
  }
}

/// All collectives in one communicator; `use(kind, way, count)` returns the error of a case.
template <class Use>
void run_all_kinds(part& results, std::vector<int> const& numbers_of_ranks,
                   std::vector<std::size_t> const& counts, Use const& use) {
  for (auto const kind :
       {collective::all_reduce, collective::reduce, collective::reduce_scatter,
        collective::broadcast, collective::all_gather, collective::gather, collective::scatter,
        collective::all_to_all, collective::send_to_next, collective::permute}) {
    for (int const ranks : numbers_of_ranks) {
      for (auto const& way : schedules_for(kind, ranks)) {
        for (std::size_t const count : counts) {
          if (!results.has_time()) continue;
          results.add(std::string(blink::to_text(kind)) + ", " + way.name + ", " +
                          std::to_string(ranks) + " ranks, count " + std::to_string(count),
                      use(kind, way, count));
        }
      }
    }
  }
}

void run_in_place(part& results, bench& on) {
  run_all_kinds(results, {2, 5, 8}, counts_for(true), [&](auto kind, auto const& way, auto count) {
    return run_case_in<float>(on.all_ranks(way.plan.rank_count), on, way, kind, count, count % 2,
                              blink::sum{}, true);
  });
}

/// Packets only; communicators choose them by the size of a call.
void run_packets(part& results, bench& on) {
  using packet_thread_ranks = blink::device_ranks_with<blink::fixed_protocol<blink::small_packets>>;
  for (int const ranks : {2, 5, 8}) {
    packet_thread_ranks all_ranks(on_gpu_0(ranks));
    run_all_kinds(results, {ranks}, {0, 1, 17, 257}, [&](auto kind, auto const& way, auto count) {
      return run_case_in<float>(all_ranks, on, way, kind, count, count % 2, blink::sum{});
    });
  }
}

void run_copy_engines(part& results, bench& on) {
  for (int const ranks : {2, 5}) {
    blink::basic_copy_ranks<blink::cuda_devices> all_ranks(blink::cuda_devices::of_process(),
                                                           on_gpu_0(ranks));
    run_all_kinds(results, {ranks}, counts_for(true), [&](auto kind, auto const& way, auto count) {
      return run_case_in<float>(all_ranks, on, way, kind, count, count % 2, blink::sum{});
    });
  }
}

/// 2^28 elements, if the memory suffices.
void run_large(part& results, bench& on) {
  std::size_t const count = std::size_t{1} << 28;
  for (int const ranks : {2, 8}) {
    for (auto const kind : {collective::all_reduce, collective::broadcast}) {
      if (arena::needed<float>(kind, ranks, count) > on.memory.bytes()) {
        results.note("2^28 floats on " + std::to_string(ranks) + " ranks: not enough memory");
        continue;
      }
      for (auto const& way : schedules_for(kind, ranks)) {
        if (way.name == "one-shot" || !results.has_time()) continue;
        results.add(std::string(blink::to_text(kind)) + ", " + way.name + ", " +
                        std::to_string(ranks) + " ranks, 2^28 floats",
                    run_case<float>(on, way, kind, count, 0, blink::sum{}));
      }
    }
  }
}

/// Plans of real machines, read from files of algorithms.
void run_forests(part& results, bench& on) {
  if (on.what.algorithms.empty()) results.note("no files of algorithms were given");
  for (auto const& file : on.what.algorithms) {
    for (auto const& table : read_tuning(file)) {
      for (auto const& each : table.algorithms) {
        for (std::size_t const count : counts_for(on.what.is_quick)) {
          if (arena::needed<float>(table.collective, each.source.rank_count, count) >
                  on.memory.bytes() ||
              !results.has_time()) {
            continue;
          }
          results.add(file + ", " + std::string(blink::to_text(table.collective)) + ", " +
                          each.name + ", count " + std::to_string(count),
                      run_case<float>(on, {each.name, each.source}, table.collective, count, 0,
                                      blink::sum{}));
        }
      }
    }
  }
}

/// A graph of the work that a function puts into a stream.
class captured_graph {
 public:
  template <class Work>
  captured_graph(cudaStream_t stream, Work const& work) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    work();
    check(cudaStreamEndCapture(stream, &graph_), "cudaStreamEndCapture");
    check(cudaGraphInstantiateWithFlags(&launchable_, graph_, 0), "cudaGraphInstantiate");
  }
  captured_graph(captured_graph const&) = delete;
  captured_graph& operator=(captured_graph const&) = delete;
  ~captured_graph() {
    cudaGraphExecDestroy(launchable_);
    cudaGraphDestroy(graph_);
  }
  void replay(cudaStream_t stream) const {
    check(cudaGraphLaunch(launchable_, stream), "cudaGraphLaunch");
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t launchable_ = nullptr;
};

/// A graph of two calls along one schedule and a copy between them, replayed.
void run_graphs(part& results, bench& on) {
  int const ranks = 8;
  auto& all_ranks = on.all_ranks(ranks);
  auto const plan = blink::ring_schedule(ranks);
  auto& prepared = all_ranks.prepare(plan);
  std::size_t const count = 10007;
  std::uint32_t const seed = 12345;
  auto const buffers =
      on.memory.buffers<float>(collective::all_reduce, ranks, count, 0, seed, on.stream);
  check(cudaStreamSynchronize(on.stream), "fill");
  captured_graph const graph(on.stream, [&] {
    blink::all_reduce(all_ranks, prepared, buffers, blink::sum{}, {on.stream});
    for (auto const& own : buffers) {
      check(cudaMemsetAsync(own.output, 0, count * sizeof(float), on.stream), "cudaMemsetAsync");
    }
    blink::all_reduce(all_ranks, prepared, buffers, blink::sum{}, {on.stream});
  });
  int const replays = on.what.is_quick ? 20 : 1000;
  for (int replay = 0; replay < replays; ++replay) {
    graph.replay(on.stream);
    if (replay % 100 == 7)
      blink::all_reduce(all_ranks, prepared, buffers, blink::sum{}, {on.stream});
    bool const looks = replay < 3 || replay + 1 == replays;
    if (!looks) continue;
    std::string what;
    try {
      all_ranks.wait({on.stream});
      auto const wrong =
          on.memory.wrong(plan, collective::all_reduce, buffers, seed, blink::sum{}, on.stream);
      if (wrong != 0) what = std::to_string(wrong) + " wrong elements";
    } catch (blink::collective_error const& failure) {
      all_ranks.recover();
      what = failure.what();
    }
    results.add("replay " + std::to_string(replay), what);
  }
}

template <class Call>
void expect_refusal(part& results, std::string const& name, std::string const& part_of_text,
                    Call const& what) {
  try {
    what();
    results.add(name, "was accepted");
  } catch (blink::error const& refusal) {
    bool const says = std::string(refusal.what()).find(part_of_text) != std::string::npos;
    results.add(name, says ? "" : std::string("the error is: ") + refusal.what());
  }
}

void run_refusals(part& results, bench& on) {
  int const ranks = 4;
  auto& all_ranks = on.all_ranks(ranks);
  auto const plan = blink::star_schedule(ranks);
  auto const good = on.memory.buffers<float>(collective::all_reduce, ranks, 1000, 0, 1, on.stream);
  auto const with = [&](auto const& change) {
    auto buffers = good;
    change(buffers);
    blink::all_reduce(all_ranks, plan, buffers, blink::sum{}, {on.stream});
  };
  std::vector<float> ordinary(1000);
  expect_refusal(results, "memory of the host", "memory of the host, expected memory of device 0",
                 [&] { with([&](auto& b) { b[1].input = ordinary.data(); }); });
  expect_refusal(results, "misaligned", "the alignment of its elements", [&] {
    with([&](auto& b) {
      b[1].input = reinterpret_cast<float const*>(reinterpret_cast<char const*>(b[1].input) + 2);
    });
  });
  expect_refusal(results, "overlap", "begins inside",
                 [&] { with([&](auto& b) { b[1].output = b[0].output + 8; }); });
  expect_refusal(results, "counts", "rank 0 has count 1000, rank 2 has 999",
                 [&] { with([&](auto& b) { b[2].count = 999; }); });
  expect_refusal(results, "memory cap", "memory_cap", [&] {
    auto options = on_gpu_0(ranks);
    options.memory_cap = 1000;
    blink::device_ranks small(options);
    (void)small.prepare(plan);
  });
  expect_refusal(results, "no such device", "expected a number below", [&] {
    auto options = on_gpu_0(1);
    options.devices = {1000};
    blink::device_ranks none(options);
  });
  // Abort while calls run; the device works as before.
  std::string what;
  try {
    for (int k = 0; k < 50; ++k) {
      blink::all_reduce(all_ranks, plan, good, blink::sum{}, {on.stream});
    }
    all_ranks.abort();
    check(cudaStreamSynchronize(on.stream), "after an abort");
    all_ranks.recover();
    what = run_case<float>(on, {"star", plan}, collective::all_reduce, 1000, 0, blink::sum{});
  } catch (std::exception const& failure) {
    what = failure.what();
  }
  results.add("abort and recover", what);
}

/// Milliseconds of one run of `work` in the stream, averaged over `repeats` runs.
template <class Work>
double milliseconds_of(cudaStream_t stream, int repeats, Work const& work) {
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  work();  // warm-up
  check(cudaEventRecord(begin, stream), "cudaEventRecord");
  for (int k = 0; k < repeats; ++k) work();
  check(cudaEventRecord(end, stream), "cudaEventRecord");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float result = 0;
  check(cudaEventElapsedTime(&result, begin, end), "cudaEventElapsedTime");
  check(cudaEventDestroy(begin), "cudaEventDestroy");
  check(cudaEventDestroy(end), "cudaEventDestroy");
  return static_cast<double>(result) / repeats;
}

/// Each block publishes a flag and waits for those of all others: the least cost of a call with
/// this number of blocks.
__global__ void exchange_flags(blink::counter* flags, blink::counter* rounds) {
  if (threadIdx.x != 0) return;
  auto& mine = flags[16 * blockIdx.x];
  blink::counter const round = rounds[16 * blockIdx.x] + 1;
  rounds[16 * blockIdx.x] = round;
  blink::publish(mine, round);
  for (unsigned block = 0; block < gridDim.x; ++block) {
    while (blink::observe(flags[16 * block]) < round) {
    }
  }
}

double flag_exchange_milliseconds(cudaStream_t stream, unsigned blocks) {
  blink::counter* memory = nullptr;
  std::size_t const bytes = 2 * 16 * blocks * sizeof(blink::counter);
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  check(cudaMemset(memory, 0, bytes), "cudaMemset");
  blink::counter* rounds = memory + 16 * blocks;
  void* arguments[] = {&memory, &rounds};
  double const result = milliseconds_of(stream, 200, [&] {
    check(cudaLaunchCooperativeKernel(reinterpret_cast<void const*>(&exchange_flags), dim3(blocks),
                                      dim3(128), arguments, 0, stream),
          "exchange_flags");
  });
  check(cudaFree(memory), "cudaFree");
  return result;
}

/// Bytes that kernels read and write in an all-reduce along the plan, if they reach each other's
/// buffers. All inputs are read once, and all outputs are written once. Partial results of an inner
/// rank go through a slot. A root writes the broadcast data to its peers, and each further edge of
/// a tree reads it once.
double traffic_of(blink::schedule const& plan, double bytes) {
  double weights = 0, moved = 0;
  for (auto const& tree : plan.trees) {
    double edges = 0;
    std::vector<bool> is_inner(tree.reduce_parent.size(), false);
    for (int const parent : tree.reduce_parent) {
      if (parent >= 0) is_inner[static_cast<std::size_t>(parent)] = true;
    }
    for (std::size_t rank = 0; rank < is_inner.size(); ++rank) {
      if (tree.reduce_parent[rank] >= 0 && is_inner[rank]) edges += 2;
      int const parent = tree.broadcast_parent[rank];
      if (parent >= 0 && tree.broadcast_parent[static_cast<std::size_t>(parent)] >= 0) edges += 1;
    }
    weights += static_cast<double>(tree.weight);
    moved += static_cast<double>(tree.weight) * edges;
  }
  return bytes * (2 * plan.rank_count + moved / weights);
}

void run_speed(part& results, bench& on) {
  int const ranks = 8;
  auto& all_ranks = on.all_ranks(ranks);
  std::size_t const bytes = std::size_t{1} << 28;
  std::size_t const count = bytes / sizeof(float);
  if (arena::needed<float>(collective::all_reduce, ranks, count) > on.memory.bytes()) {
    return results.note("not enough memory for 8 times 2 x 256 MiB");
  }
  auto const buffers =
      on.memory.buffers<float>(collective::all_reduce, ranks, count, 0, 1, on.stream);
  double const copy = milliseconds_of(on.stream, 20, [&] {
    check(cudaMemcpyAsync(buffers[0].output, buffers[0].input, bytes, cudaMemcpyDeviceToDevice,
                          on.stream),
          "cudaMemcpyAsync");
  });
  double const copy_rate = 2 * static_cast<double>(bytes) / copy * 1e-6;  // read and written
  results.figure("device-to-device copy, GB/s read and written", copy_rate);
  for (auto const& way : schedules_for(collective::all_reduce, ranks)) {
    if (way.name == "one-shot") continue;
    double best = 0;
    for (int const parts : {1, 2, 4, 8}) {
      auto& plan = all_ranks.prepare(blink::replicate_trees(way.plan, parts));
      double const time = milliseconds_of(on.stream, 10, [&] {
        blink::all_reduce(all_ranks, plan, buffers, blink::sum{}, {on.stream});
      });
      all_ranks.wait({on.stream});
      results.figure(
          "all_reduce, 8 ranks, 256 MiB, " + way.name + ", " + std::to_string(parts) + " parts, ms",
          time);
      best = std::max(best, traffic_of(way.plan, static_cast<double>(bytes)) / time * 1e-6);
    }
    results.at_least("  " + way.name + ", traffic of its plan over copy rate", 0.8,
                     best / copy_rate);
  }
  {
    // The rate of one rank's kernel alone: a copy, and a sum of two buffers.
    auto& two = on.all_ranks(2);
    std::vector<blink::rank_buffers<float>> const both(buffers.begin(), buffers.begin() + 2);
    // A part of a tree is one block's work on each rank.
    double best_broadcast = 0, best_reduce = 0;  // over the rate of a copy
    for (int const parts : {1, 2, 4, 8, 16, 32, 64}) {
      auto& chain = two.prepare(blink::replicate_trees(blink::chain_schedule(2, 0), parts));
      auto const rate_of = [&](std::string const& name, double buffers_moved, auto const& work) {
        double const time = milliseconds_of(on.stream, 10, work);
        two.wait({on.stream});
        results.figure(name + ", 2 ranks, 256 MiB, " + std::to_string(parts) + " parts, ms", time);
        return buffers_moved * static_cast<double>(bytes) / time * 1e-6 / copy_rate;
      };
      // The root fills its own output too.
      best_broadcast = std::max(best_broadcast, rate_of("broadcast", 4, [&] {
                                  blink::broadcast(two, chain, both, {on.stream});
                                }));
      best_reduce = std::max(best_reduce, rate_of("reduce", 3, [&] {
                               blink::reduce(two, chain, both, blink::sum{}, {on.stream});
                             }));
    }
    results.at_least("  broadcast, read and written over copy rate", 0.85, best_broadcast);
    results.at_least("  reduce, read and written over copy rate", 0.85, best_reduce);
  }
  double least = 0;  // of 8 B
  for (std::size_t const small : {std::size_t{2}, std::size_t{256}, std::size_t{16384}}) {
    auto few = buffers;
    for (auto& own : few) own.count = small;
    for (auto const& way : schedules_for(collective::all_reduce, ranks)) {
      auto& plan = all_ranks.prepare(way.plan);
      double const time = milliseconds_of(on.stream, 200, [&] {
        blink::all_reduce(all_ranks, plan, few, blink::sum{}, {on.stream});
      });
      all_ranks.wait({on.stream});
      results.figure("all_reduce, 8 ranks, " + std::to_string(small * sizeof(float)) + " B, " +
                         way.name + ", us",
                     1000 * time);
      captured_graph const graph(
          on.stream, [&] { blink::all_reduce(all_ranks, plan, few, blink::sum{}, {on.stream}); });
      double const replayed = milliseconds_of(on.stream, 200, [&] { graph.replay(on.stream); });
      all_ranks.wait({on.stream});
      results.figure("  the same, replayed as a graph, us", 1000 * replayed);
      if (small == 2 && (least == 0 || time < least)) least = time;
    }
  }
  double const bare = flag_exchange_milliseconds(on.stream, 8);  // a block for each rank
  results.figure("bare exchange of flags, 8 blocks, us", 1000 * bare);
  results.at_most("  8 B on 8 ranks, the best way, over that", 2, least / bare);
  results.figure("bare exchange of flags, 120 blocks, us",
                 1000 * flag_exchange_milliseconds(on.stream, 120));
}

/// A separate link for each edge of a ring.
blink::schedule ring_over_links(int ranks, double bytes_per_second) {
  auto plan = blink::ring_schedule(ranks);
  plan.link_bytes_per_second.assign(static_cast<std::size_t>(ranks * ranks), bytes_per_second);
  for (auto& tree : plan.trees) {
    auto const add = [&](blink::by_rank<int> const& parents,
                         blink::by_rank<std::vector<int>>& routes) {
      routes.assign(parents.size(), {});
      for (auto const& edge : parents.entries()) {
        routes.set(static_cast<std::size_t>(edge.rank), {edge.rank * ranks + edge.value});
      }
    };
    add(tree.reduce_parent, tree.reduce_route);
    add(tree.broadcast_parent, tree.broadcast_route);
  }
  return plan;
}

/// Rates of one plan over shaped links, in bytes per second; 0: not measured.
struct shaped_rates {
  std::string name;
  double predicted = 0;
  double reached = 0;
};

/// A plan over links so slow that the GPU's own time to move data is negligible.
shaped_rates run_shaped_plan(part& results, bench& on, collective kind, named_schedule way,
                             blink::device_options options) {
  constexpr double scale = 0.1;
  std::size_t const bytes = on.what.is_quick ? std::size_t{1} << 20 : std::size_t{1} << 28;
  std::size_t const count = bytes / sizeof(float);
  int const ranks = way.plan.rank_count;
  shaped_rates rates;
  rates.name = std::string(blink::to_text(kind)) + ", " + way.name;
  if (arena::needed<float>(kind, ranks, count) > on.memory.bytes()) {
    results.note(rates.name + ": not enough memory");
    return rates;
  }
  if (!results.has_time()) return rates;
  for (auto& rate : way.plan.link_bytes_per_second) rate *= scale;
  options.devices.assign(static_cast<std::size_t>(ranks), 0);
  blink::shaped_device_ranks all_ranks(options);
  results.add(rates.name, run_case_in<float>(all_ranks, on, way, kind, count, 0, blink::sum{}));
  rates.predicted = blink::predicted_bytes_per_second(way.plan, kind);
  if (on.what.is_quick || rates.predicted == 0) return rates;
  auto& plan = all_ranks.prepare(way.plan);
  auto const buffers = on.memory.buffers<float>(kind, ranks, count, 0, 1, on.stream);
  double const time = milliseconds_of(
      on.stream, 5, [&] { call(all_ranks, plan, kind, buffers, blink::sum{}, on.stream); });
  all_ranks.wait({on.stream});
  bool const has_blocks = blink::has_input_blocks(kind) || blink::has_output_blocks(kind);
  rates.reached = static_cast<double>(bytes) * (has_blocks ? ranks : 1) / time * 1e3;
  results.figure(rates.name + ", predicted GB/s", rates.predicted * 1e-9);
  results.figure(rates.name + ", reached GB/s", rates.reached * 1e-9);
  results.figure("  reached over predicted", rates.reached / rates.predicted);
  return rates;
}

/// Links as slow as a schedule's: correct results, then the first plan of --shaped compared with
/// the others.
void run_shaped(part& results, bench& on) {
  auto options = on_gpu_0(6);
  options.slot_bytes = std::size_t{1} << 16;  // takes many ticks of the clock
  options.window = 8;
  {
    blink::shaped_device_ranks all_ranks(options);
    for (std::size_t const count : counts_for(true)) {
      for (auto const kind :
           {collective::all_reduce, collective::reduce_scatter, collective::all_gather}) {
        results.add(std::string(blink::to_text(kind)) + ", ring, count " + std::to_string(count),
                    run_case_in<float>(all_ranks, on, {"ring", ring_over_links(6, 1e10)}, kind,
                                       count, count % 2, blink::sum{}));
      }
    }
  }
  if (on.what.shaped.empty()) results.note("no files of algorithms for shaped links were given");
  shaped_rates first;
  for (auto const& file : on.what.shaped) {
    for (auto const& table : read_tuning(file)) {
      for (auto const& each : table.algorithms) {
        auto const rates =
            run_shaped_plan(results, on, table.collective, {each.name, each.source}, options);
        if (first.reached == 0 || rates.reached == 0) {
          first = first.reached == 0 ? rates : first;
          continue;
        }
        auto const ratio = first.name + " over " + rates.name;
        double const predicted = first.predicted / rates.predicted;
        double const reached = first.reached / rates.reached;
        results.figure(ratio + ", predicted", predicted);
        results.figure(ratio + ", reached", reached);
        if (reached < 0.9 * predicted || reached > 1.1 * predicted) {
          results.note(ratio + ": not as predicted within 10 %");
        }
      }
    }
  }
}

/// NCCL and the fastest of blink's schedules, timed alike. One stream waits for all others by
/// events, and the host never waits.
void run_nccl_on(part& results, bench& on, nccl_library& nccl, int ranks) {
  auto& all_ranks = on.all_ranks(ranks);
  std::size_t const most = std::size_t{1} << 24;
  auto const buffers =
      on.memory.buffers<float>(collective::all_reduce, ranks, most, 0, 7, on.stream);
  std::vector<cudaStream_t> streams{on.stream};
  std::vector<cudaEvent_t> ends;
  for (int rank = 1; rank < ranks; ++rank) {
    check(cudaStreamCreate(&streams.emplace_back()), "cudaStreamCreate");
    check(cudaEventCreateWithFlags(&ends.emplace_back(), cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
  }
  for (std::size_t const count :
       {std::size_t{2}, std::size_t{256}, std::size_t{1} << 14, std::size_t{1} << 20, most}) {
    auto some = buffers;
    for (auto& own : some) own.count = count;
    double const theirs = milliseconds_of(on.stream, 20, [&] {
      nccl.all_reduce(some, streams);
      for (std::size_t k = 0; k < ends.size(); ++k) {
        check(cudaEventRecord(ends[k], streams[k + 1]), "cudaEventRecord");
        check(cudaStreamWaitEvent(on.stream, ends[k], 0), "cudaStreamWaitEvent");
      }
    });
    auto const wrong = on.memory.wrong(blink::star_schedule(ranks), collective::all_reduce, some, 7,
                                       blink::sum{}, on.stream);
    auto const size = std::to_string(count * sizeof(float)) + " B";
    results.add("NCCL, " + std::to_string(ranks) + " ranks, " + size,
                wrong == 0 ? "" : std::to_string(wrong) + " elements are not as blink's oracle");
    double ours = 0;
    for (auto const& way : schedules_for(collective::all_reduce, ranks)) {
      auto& plan = all_ranks.prepare(way.plan);
      double const time = milliseconds_of(on.stream, 20, [&] {
        blink::all_reduce(all_ranks, plan, some, blink::sum{}, {on.stream});
      });
      all_ranks.wait({on.stream});
      if (ours == 0 || time < ours) ours = time;
    }
    auto const name = "all_reduce, " + std::to_string(ranks) + " ranks, " + size;
    results.figure(name + ", us: NCCL", 1000 * theirs);
    results.figure(name + ", us: blink, the best way", 1000 * ours);
    results.at_most("  " + name + ", blink over NCCL", 1, ours / theirs);
  }
  for (std::size_t k = 0; k < ends.size(); ++k) {
    check(cudaEventDestroy(ends[k]), "cudaEventDestroy");
    check(cudaStreamDestroy(streams[k + 1]), "cudaStreamDestroy");
  }
}

void run_nccl(part& results, bench& on) {
  std::string why;
  auto nccl = load_nccl(why);
  if (!nccl) return results.note(why);
  results.figure("version", nccl->version());
  for (int const ranks : {2, 4, 8}) {
    if (!nccl->begin(ranks, why)) return results.note(why);
    run_nccl_on(results, on, *nccl, ranks);
    nccl->end();
  }
}

std::string about_device() {
  cudaDeviceProp all{};
  int driver = 0, runtime = 0;
  check(cudaGetDeviceProperties(&all, 0), "cudaGetDeviceProperties");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  char const* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  return "\"device\": " + quoted(all.name) +
         ", \"compute_capability\": " + std::to_string(10 * all.major + all.minor) +
         ", \"multiprocessors\": " + std::to_string(all.multiProcessorCount) +
         ", \"memory_bytes\": " + std::to_string(all.totalGlobalMem) +
         ", \"driver\": " + std::to_string(driver) + ", \"runtime\": " + std::to_string(runtime) +
         ", \"nvcc\": " + std::to_string(CUDART_VERSION) +
         ", \"blink\": " + quoted(BLINK_VERSION_TEXT) +
         ", \"launch_blocking\": " + quoted(blocking == nullptr ? "" : blocking);
}

settings read_arguments(int count, char** words) {
  settings result;
  for (int k = 1; k < count; ++k) {
    std::string const word = words[k];
    auto const next = [&]() -> std::string {
      if (k + 1 == count) throw std::runtime_error(word + " needs a value");
      return words[++k];
    };
    if (word == "--quick") {
      result.is_quick = true;
      result.seconds = 30;
    } else if (word == "--seconds") {
      std::string const text = next();
      char* end = nullptr;
      result.seconds = std::strtod(text.c_str(), &end);
      if (*end != '\0' || !(result.seconds > 0)) {
        throw std::runtime_error("--seconds " + text + ": expected a positive number");
      }
    } else if (word == "--json") {
      result.json = next();
    } else if (word == "--shaped") {
      result.shaped.push_back(next());
    } else if (word.starts_with("--")) {
      throw std::runtime_error("unknown option " + word);
    } else {
      result.algorithms.push_back(word);
    }
  }
  return result;
}

/// The parts of a run, each with its share of the time.
struct all_parts {
  bench& on;
  std::vector<part> parts{};

  template <class Body>
  void run(char const* name, double share, Body const& body) {
    auto& results = parts.emplace_back(name, share * on.what.seconds);
    try {
      body(results);
    } catch (std::exception const& failure) {
      results.add("ended early", failure.what());
    }
    results.end();
  }
  /// A part for one type and reducer, so that each gets its time.
  template <class T, class Reducer>
  void reduce(char const* name, Reducer const& reducer) {
    constexpr double share = 0.5 / 18;
    run(name, share, [&](part& p) { run_reducer<T>(p, on, reducer); });
  }
};

int run(settings const& what) {
  std::size_t free = 0, total = 0;
  check(cudaSetDevice(0), "cudaSetDevice");
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  std::size_t const most = what.is_quick ? std::size_t{1} << 28 : std::size_t{36} << 30;
  bench on(what, std::min(most, free / 2));
  std::printf("%s\n", about_device().c_str());
  all_parts all{on};
  // The shares of the time sum to 1 with those of the reductions.
  all.run("refusals", 0.01, [&](part& p) { run_refusals(p, on); });
  all.run("moves", 0.12, [&](part& p) { run_moves(p, on); });
  all.run("in place", 0.03, [&](part& p) { run_in_place(p, on); });
  all.run("packets", 0.02, [&](part& p) { run_packets(p, on); });
  all.run("copy engines", 0.02, [&](part& p) { run_copy_engines(p, on); });
  all.run("forests", 0.05, [&](part& p) { run_forests(p, on); });
  all.run("graphs", 0.02, [&](part& p) { run_graphs(p, on); });
  all.run("shaped", 0.03, [&](part& p) { run_shaped(p, on); });
  all.reduce<float>("float sum", blink::sum{});
  all.reduce<float>("float max", blink::max{});
  all.reduce<double>("double product", blink::prod{});
  all.reduce<std::int32_t>("int32 average", blink::avg{});
  all.reduce<std::int64_t>("int64 min", blink::min{});
  all.reduce<std::uint8_t>("uint8 xor", blink::bit_xor{});
  all.reduce<std::uint32_t>("uint32 or", blink::bit_or{});
  all.reduce<float>("float multiplied by 2 before its sum", blink::scaled_sum<float>{2});
  all.reduce<std::int32_t>("int32 logical and", blink::logical_and{});
  all.reduce<float>("float compensated sum", blink::compensated_sum{});
  all.reduce<float>("float reproducible sum", blink::reproducible_sum{});
  all.reduce<float>("float by cuda::std::plus", cuda::std::plus<>{});
  all.reduce<cuda::std::complex<float>>("complex sum", blink::sum{});
  all.reduce<blink::located<float>>("float min and its place", blink::min_location<>{});
  all.reduce<blink::located<float>>("float max and its place", blink::max_location<>{});
  auto const in_float = blink::accumulate_in<float>(blink::sum{});
  all.reduce<blink::float8_e4m3>("float8 sum in float", in_float);
  all.reduce<blink::bfloat16>("bfloat16 sum in float", in_float);
  all.reduce<blink::float16>("float16 sum in float", in_float);
  if (!what.is_quick) {
    all.run("large", 0.05, [&](part& p) { run_large(p, on); });
    all.run("speed", 0.05, [&](part& p) { run_speed(p, on); });
    all.run("nccl", 0.1, [&](part& p) { run_nccl(p, on); });
  }
  std::size_t failed = 0;
  std::string json = "{" + about_device();
  for (auto const& each : all.parts) {
    failed += each.failed();
    json += ",\n " + each.json();
  }
  json += "}\n";
  if (!what.json.empty()) {
    std::FILE* const file = std::fopen(what.json.c_str(), "w");
    if (file == nullptr) throw std::runtime_error(what.json + ": cannot be written");
    std::fputs(json.c_str(), file);
    std::fclose(file);
  }
  std::printf("%zu wrong\n", failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace gpu_suite

int main(int count, char** words) {
  try {
    auto const what = gpu_suite::read_arguments(count, words);
    if (blink::cuda_devices::of_process().device_count() == 0) {
      std::printf("skipped: no GPU (%s)\n", blink::cuda_devices::why_none().c_str());
      return gpu_suite::skipped;
    }
    return gpu_suite::run(what);
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "gpu_suite: %s\n", failure.what());
    return 2;
  }
}
