// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/prepared_tuning.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/block.hpp>

#include "launcher.hpp"
#include "perf_engine.hpp"
#include "plain_loops.hpp"
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace blink::tools {

/// Small whole numbers, so that sums and products of all ranks are exact in every type.
template <class T>
T perf_input(int rank, std::size_t index, int iteration) {
  auto const mixed =
      (index + static_cast<std::size_t>(iteration) * 7919 + static_cast<std::size_t>(rank) * 31) *
      0x9e3779b97f4a7c15u;
  return static_cast<T>(1 + (mixed >> 62));
}

/// The segments of ranks in a call: of `count` elements each, or in proportion to the shares of the
/// schedule.
inline std::vector<block> perf_blocks(perf_request const& request, std::size_t elements,
                                      std::size_t count) {
  auto const& source = request.algorithms.algorithms[0].source;
  if (!source.shares.empty()) return proportional_blocks(elements, source.shares);
  return consecutive_blocks(
      std::vector<std::size_t>(static_cast<std::size_t>(source.rank_count), count));
}

/// One rank's memory. `input` and `output` may be parts of each other.
template <class T>
struct perf_buffers {
  perf_buffers(perf_request const& request, std::vector<block> const& blocks, int rank) {
    auto const [begin, count] = blocks[static_cast<std::size_t>(rank)];
    auto const whole = blocks.back().begin + blocks.back().count;
    auto const kind = request.algorithms.collective;
    input_count = has_input_blocks(kind) ? whole : count;
    output_count = has_output_blocks(kind) ? whole : count;
    memory.resize(request.in_place ? std::max(input_count, output_count)
                                   : input_count + output_count);
    input = memory.data();
    output = memory.data() + (request.in_place ? 0 : input_count);
    if (request.in_place && has_output_blocks(kind) && !has_input_blocks(kind)) input += begin;
    if (request.in_place && has_input_blocks(kind) && !has_output_blocks(kind)) output += begin;
  }
  std::vector<T> memory;
  std::size_t input_count = 0, output_count = 0;
  T* input = nullptr;
  T* output = nullptr;
};

/// Returns the rank whose data a rank gets; any rank if it gets data of all ranks; -1 if it gets
/// nothing.
inline int source_of(schedule const& source, collective kind, int rank) {
  auto const& first = source.trees[0];
  if (is_to_root(kind)) return rank == root_of(source, kind) ? rank : -1;
  if (!is_permutation(kind)) return first.root;
  for (auto const& tree : source.trees) {
    if (flow_end(tree) == rank) return tree.root;
  }
  return -1;
}

/// Counts the elements of a rank's result that differ from a serial loop.
template <class T, class Reducer>
std::uint64_t count_wrong(perf_request const& request, perf_buffers<T> const& mine,
                          std::vector<block> const& blocks, int rank, int iteration,
                          Reducer const& reducer) {
  auto const kind = request.algorithms.collective;
  if (!moves_data(kind)) return 0;
  int const source = source_of(request.algorithms.algorithms[0].source, kind, rank);
  if (source < 0) return 0;
  auto const ranks = static_cast<int>(blocks.size());
  std::size_t const own_block =
      has_input_blocks(kind) ? blocks[static_cast<std::size_t>(rank)].begin : 0;
  std::size_t from = 0;  // the rank whose segment of the output an element is in
  std::uint64_t wrong = 0;
  for (std::size_t k = 0; k < mine.output_count; ++k) {
    T expected{};
    if (!has_reduce_phase(kind)) {
      if (has_output_blocks(kind)) {
        while (k >= blocks[from].begin + blocks[from].count) ++from;
        expected =
            perf_input<T>(static_cast<int>(from), own_block + k - blocks[from].begin, iteration);
      } else {
        expected = perf_input<T>(source, own_block + k, iteration);
      }
    } else {
      expected = perf_input<T>(0, own_block + k, iteration);
      for (int other = 1; other < ranks; ++other) {
        expected = reducer(expected, perf_input<T>(other, own_block + k, iteration));
      }
      if constexpr (has_finish<Reducer, T>) expected = reducer.finish(expected, ranks);
    }
    wrong += mine.output[k] == expected ? 0 : 1;
  }
  return wrong;
}

template <class Context, class T, class Reducer>
void call_with_blocks(Context& comm, prepared_tuning const& tuning, collective kind, T const* input,
                      T* output, std::vector<block> const& blocks, Reducer const& reducer) {
  if (kind == collective::all_gather) return all_gather_v(comm, tuning, input, output, blocks);
  reduce_scatter_v(comm, tuning, input, output, blocks, reducer);
}

template <class Context, class T, class Reducer>
void call(Context& comm, prepared_tuning const& tuning, collective kind, T const* input, T* output,
          std::size_t count, Reducer const& reducer) {
  switch (kind) {
    case collective::broadcast:
      return broadcast(comm, tuning, input, output, count);
    case collective::reduce:
      return reduce(comm, tuning, input, output, count, reducer);
    case collective::all_reduce:
      return all_reduce(comm, tuning, input, output, count, reducer);
    case collective::all_gather:
      return all_gather(comm, tuning, input, output, count);
    case collective::reduce_scatter:
      return reduce_scatter(comm, tuning, input, output, count, reducer);
    case collective::gather:
      return gather(comm, tuning, input, output, count);
    case collective::scatter:
      return scatter(comm, tuning, input, output, count);
    case collective::all_to_all:
      return all_to_all(comm, tuning, input, output, count);
    case collective::send_to_next:
      return send_to_next(comm, tuning, input, output, count);
    case collective::permute:
      return permute(comm, tuning, input, output, count);
    case collective::barrier:
      return barrier(comm, tuning);
  }
}

template <class Ranks, class T, class Reducer>
perf_result measure_in(perf_request const& request, Reducer const& reducer) {
  using clock = std::chrono::steady_clock;
  int const ranks = request.algorithms.algorithms[0].source.rank_count;
  bool const is_cut = has_blocks(request.algorithms.collective);
  std::size_t const elements = request.bytes / sizeof(T);
  std::size_t const count = elements / (is_cut ? static_cast<std::size_t>(ranks) : 1);
  auto const blocks = perf_blocks(request, elements, count);
  bool const is_unequal = !request.algorithms.algorithms[0].source.shares.empty();
  auto const rounds = static_cast<std::size_t>(request.iterations);
  Ranks all_threads(ranks, request.options);
  meeting_point meeting(ranks);
  auto const kind = request.algorithms.collective;
  auto const& source = request.algorithms.algorithms[0].source;
  plain_loops<T> loops(kind, has_root(kind) ? root_of(source, kind) : -1, blocks);
  // By iteration and rank: from the last rank that enters to the last that leaves, so that leaving
  // the barrier does not count.
  struct visit {
    clock::time_point enters, leaves;
  };
  std::vector<std::vector<visit>> visits(rounds,
                                         std::vector<visit>(static_cast<std::size_t>(ranks)));
  std::vector<std::uint64_t> wrong(static_cast<std::size_t>(ranks), 0);
  auto const measure = [&](auto& comm) {
    prepared_tuning const tuning(comm, request.algorithms);
    int const rank = comm.rank();
    if (request.binds) {
      auto const cores = share_of_cores(rank, ranks);
      // otherwise the rank runs where the system puts it
      ::sched_setaffinity(0, sizeof cores, &cores);
    }
    perf_buffers<T> mine(request, blocks, rank);
    loops.join(rank, mine.input, mine.output);
    for (int iteration = -request.warm_up; iteration < request.iterations; ++iteration) {
      std::fill(mine.memory.begin(), mine.memory.end(), T{});
      for (std::size_t k = 0; k < mine.input_count; ++k) {
        mine.input[k] = perf_input<T>(rank, k, iteration);
      }
      meeting.wait();
      auto const start = clock::now();
      T const* const input = mine.input;
      if (request.by_plain_loops) {
        loops.run(rank, count, *request.by_plain_loops, reducer);
      } else if (is_unequal) {
        call_with_blocks(comm, tuning, request.algorithms.collective, input, mine.output, blocks,
                         reducer);
      } else {
        call(comm, tuning, request.algorithms.collective, input, mine.output, count, reducer);
      }
      auto const end = clock::now();
      if (iteration >= 0) {
        visits[static_cast<std::size_t>(iteration)][static_cast<std::size_t>(rank)] = {start, end};
        wrong[static_cast<std::size_t>(rank)] +=
            count_wrong(request, mine, blocks, rank, iteration, reducer);
      }
      meeting.wait();
    }
  };
  all_threads.run([&](auto& comm) {
    try {
      measure(comm);
    } catch (...) {
      meeting.leave();
      loops.leave();
      throw;
    }
  });
  std::vector<double> seconds;
  for (auto const& all : visits) {
    auto const enters = std::max_element(all.begin(), all.end(), [](auto const& a, auto const& b) {
                          return a.enters < b.enters;
                        })->enters;
    auto const leaves = std::max_element(all.begin(), all.end(), [](auto const& a, auto const& b) {
                          return a.leaves < b.leaves;
                        })->leaves;
    seconds.push_back(std::chrono::duration<double>(leaves - enters).count());
  }
  std::sort(seconds.begin(), seconds.end());
  perf_result result;
  result.count = count;
  result.bytes = (is_cut ? blocks.back().begin + blocks.back().count : count) * sizeof(T);
  result.seconds = rounds == 0 ? 0 : seconds[rounds / 2];
  result.least_seconds = rounds == 0 ? 0 : seconds[0];
  for (auto const of_rank : wrong) result.wrong += of_rank;
  if (result.seconds > 0) {
    double const n = ranks;
    result.algbw = static_cast<double>(result.bytes) / result.seconds;
    result.busbw = result.algbw * (has_both_phases(request.algorithms.collective) ? 2 * (n - 1) / n
                                   : is_cut                                       ? (n - 1) / n
                                                                                  : 1);
  }
  return result;
}

template <class T, class Reducer>
perf_result measure_over(perf_request const& request, Reducer const& reducer) {
  return request.is_shaped ? measure_in<shaped_thread_ranks, T>(request, reducer)
                           : measure_in<thread_ranks, T>(request, reducer);
}

template <class T>
perf_result measure_type(perf_request const& request) {
  if (request.op == "sum") return measure_over<T>(request, sum{});
  if (request.op == "prod") return measure_over<T>(request, prod{});
  if (request.op == "min") return measure_over<T>(request, min{});
  if (request.op == "max") return measure_over<T>(request, max{});
  if (request.op == "avg") return measure_over<T>(request, avg{});
  throw input_error("unknown operation '" + request.op + "', expected sum, prod, min, max or avg");
}

}  // namespace blink::tools
