// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs an all-gather or a reduce-scatter with blocks of any sizes, and compares every element with
// a serial loop.

#include <blink/collectives/all_gather_v.hpp>
#include <blink/core/collective.hpp>
#include <blink/schedule/block.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule.hpp>

#include "collective_case.hpp"
#include "random_schedules.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace blink_test {

struct unequal_case {
  blink::collective kind = blink::collective::all_gather;
  std::vector<blink::block> blocks{};
  bool is_in_place = false;
  std::size_t offset = 0;  ///< of the buffers, in elements from an aligned address
  std::uint64_t seed = 0;

  [[nodiscard]] bool gathers() const { return kind == blink::collective::all_gather; }
  [[nodiscard]] blink::block const& of(int rank) const {
    return blocks[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::size_t end() const {
    std::size_t result = 0;
    for (auto const& one : blocks) result = std::max(result, one.begin + one.count);
    return result;
  }
};

/// Blocks with gaps between them, in random order. Some are empty, none has more than `most`
/// elements.
inline std::vector<blink::block> random_blocks(std::mt19937_64& random, int ranks,
                                               std::size_t most = 200) {
  std::vector<std::size_t> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<blink::block> result(order.size());
  std::size_t begin = 0;
  for (auto const rank : order) {
    begin += random() % 3;
    result[rank] = {begin, random() % 4 == 0 ? 0 : random() % (most + 1)};
    begin += result[rank].count;
  }
  return result;
}

/// A random case along a random schedule with shares. A rank with share 0 may still have a block;
/// otherwise it roots no tree.
inline std::pair<blink::schedule, unequal_case> random_unequal_case(std::mt19937_64& random,
                                                                    int ranks,
                                                                    std::size_t most = 200) {
  unequal_case what;
  what.kind = random() % 2 == 0 ? blink::collective::all_gather : blink::collective::reduce_scatter;
  what.blocks = random_blocks(random, ranks, most);
  what.is_in_place = random() % 3 == 0;
  what.offset = random() % 3;
  what.seed = random();
  auto source = random_schedule(random, ranks, what.kind);
  auto const last = static_cast<std::size_t>(ranks - 1);
  for (std::size_t rank = 0; rank <= last; ++rank) {
    bool const has_none = rank < last && random() % 4 == 0;  // the last rank always has a share
    source.shares.push_back(has_none ? 0 : 1 + random() % 9);
    if (!has_none || random() % 2 == 0) continue;
    std::erase_if(source.trees, [&](auto const& t) { return t.root == static_cast<int>(rank); });
    what.blocks[rank].count = 0;
  }
  return {std::move(source), std::move(what)};
}

/// The buffers of one rank for one case.
template <class T>
struct unequal_buffers {
  unequal_buffers(unequal_case const& what, int own_rank)
      : rank(own_rank),
        all_count(what.end() + 3),
        all(all_count, what.offset),
        one(what.of(rank).count, what.offset + (what.seed & 1)) {
    auto const& own = what.of(rank);
    T* const mine = what.is_in_place ? all.data() + own.begin : one.data();
    input = what.gathers() ? mine : all.data();
    output = what.gathers() ? all.data() : mine;
    std::size_t const count = what.gathers() ? own.count : all_count;
    T* const to = what.gathers() ? mine : all.data();
    for (std::size_t k = 0; k < count; ++k) to[k] = input_element<T>(what.seed, rank, k);
  }
  int rank;
  std::size_t all_count;
  guarded_buffer<T> all;  ///< with all blocks
  guarded_buffer<T> one;  ///< with the rank's own, unless that is in its place
  T const* input = nullptr;
  T* output = nullptr;
};

template <class Chunks = blink::scheduled_chunks, class Context, class Source, class T,
          class Reducer>
void call_unequal(Context& comm, Source&& trees, unequal_case const& what, T const* input,
                  T* output, Reducer const& reducer) {
  if (what.gathers()) {
    blink::all_gather_v<Chunks>(comm, trees, input, output, what.blocks);
  } else {
    blink::reduce_scatter_v<Chunks>(comm, trees, input, output, what.blocks, reducer);
  }
}

/// Compares a rank's buffers after the call with the expected ones; empty if nothing is wrong.
template <class T, class Reducer>
std::string what_is_wrong(unequal_case const& what, unequal_buffers<T>& mine,
                          Reducer const& reducer) {
  if (!mine.all.is_intact() || !mine.one.is_intact()) return "wrote outside of the buffers";
  int const ranks = static_cast<int>(what.blocks.size());
  auto const& own = what.of(mine.rank);
  auto const differs = [](char const* where, std::size_t k) {
    return std::string(where) + " " + std::to_string(k);
  };
  std::vector<T> expected(mine.all_count, value_from<T>(0x55aa55aa));
  if (what.gathers()) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t k = 0; k < what.of(rank).count; ++k) {
        expected[what.of(rank).begin + k] = input_element<T>(what.seed, rank, k);
      }
    }
  } else {
    for (std::size_t k = 0; k < mine.all_count; ++k) {
      expected[k] = input_element<T>(what.seed, mine.rank, k);
    }
    collective_case const as_one{blink::collective::all_reduce, mine.all_count, false, 0,
                                 what.seed};
    for (std::size_t k = 0; k < own.count; ++k) {
      T const sum =
          expected_element<T>(as_one, ranks, mine.rank, mine.rank, own.begin + k, reducer);
      if (!(mine.output[k] == sum)) return differs("result", k);
      if (what.is_in_place) expected[own.begin + k] = sum;
    }
  }
  for (std::size_t k = 0; k < mine.all_count; ++k) {
    if (!(mine.all.data()[k] == expected[k])) return differs("element", k);
  }
  return "";
}

/// Runs the case. Returns the faults in this process, or an empty text.
template <class T, class Chunks = blink::scheduled_chunks, class Ranks, class Reducer>
std::string run_unequal(Ranks& threads, blink::schedule const& source, unequal_case const& what,
                        Reducer const& reducer) {
  auto& prepared = threads.prepare(source);
  std::vector<unequal_buffers<T>> buffers;
  for (int rank = 0; rank < source.rank_count; ++rank) buffers.emplace_back(what, rank);
  threads.run([&](auto& comm) {
    auto const& mine = buffers[static_cast<std::size_t>(comm.rank())];
    call_unequal<Chunks>(comm, prepared, what, mine.input, mine.output, reducer);
  });
  std::string wrong;
  for (int const rank : ranks_here(threads)) {
    auto const text = what_is_wrong(what, buffers[static_cast<std::size_t>(rank)], reducer);
    if (!text.empty()) wrong += "rank " + std::to_string(rank) + ": " + text + "\n";
  }
  return wrong;
}

}  // namespace blink_test
