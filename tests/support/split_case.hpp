// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random splits of a communicator, for any kind of ranks.

#include <blink/collectives.hpp>
#include <blink/transports/host/split_communicator.hpp>

#include "support/random_schedules.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace blink_test {

/// The sum of one number of each rank. It uses shared memory if peers access each other's buffers.
template <class Comm>
int sum_over(Comm& comm, int mine) {
  if constexpr (requires { comm.template allocate<int>(1); }) {
    auto const data = comm.template allocate<int>(1);
    data[0] = mine;
    blink::all_reduce(comm, blink::star_schedule(comm.rank_count()), data.data(), data.data(), 1,
                      blink::sum{});
    return data[0];
  } else {
    int sum = 0;
    blink::all_reduce(comm, blink::star_schedule(comm.rank_count()), &mine, &sum, 1, blink::sum{});
    return sum;
  }
}

/// Splits `comm` by random colours and keys, equal on all ranks, calls in the part, and splits the
/// part again. Returns the faults, or an empty text.
template <class Comm>
std::string split_at_random(Comm& comm, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto const ranks = static_cast<std::size_t>(comm.rank_count());
  std::vector<int> colours, keys;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    colours.push_back(below(random, 4) - 1);
    keys.push_back(below(random, 3) - 1);
  }
  auto const own = static_cast<std::size_t>(comm.rank());
  auto part = blink::split(comm, colours[own], keys[own]);
  auto const wrong = [&](std::string const& what) {
    return "seed " + std::to_string(seed) + ", rank " + std::to_string(own) + ": " + what + "\n";
  };
  if (part.has_value() != (colours[own] >= 0)) return wrong("has_value");
  if (!part) return "";

  std::vector<int> members;
  for (int key = -1; key < 2; ++key) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (colours[rank] == colours[own] && keys[rank] == key) {
        members.push_back(static_cast<int>(rank));
      }
    }
  }
  if (part->parent_ranks() != members) return wrong("parent_ranks");
  if (part->rank_count() != static_cast<int>(members.size())) return wrong("rank_count");
  if (members[static_cast<std::size_t>(part->rank())] != comm.rank()) return wrong("rank");
  int total = 0;
  for (int const member : members) total += member + 1;
  for (int round = 0; round < 3; ++round) {
    if (sum_over(*part, comm.rank() + 1) != total) return wrong("sum");
  }

  auto half = blink::split(*part, part->rank() % 2, -part->rank());
  if (!half) return wrong("no half");
  int const first = half->parent_ranks().front();
  if (sum_over(*half, half->rank() == 0 ? part->rank() : 0) != first) return wrong("half");
  int const last = part->rank_count() - 1;
  if (first != last - (last - part->rank()) % 2) return wrong("first of half");
  static_assert(std::is_same_v<decltype(half), decltype(part)>);
  auto alone = blink::split(*half, half->rank(), 0);
  if (!alone || alone->rank_count() != 1) return wrong("not alone");
  return "";
}

/// Checks, in a part of all ranks in reverse order, that a schedule prepared for the whole is
/// refused. The part must still work afterwards.
template <class Comm>
std::string call_with_the_plan_of_the_whole(Comm& comm) {
  auto part = blink::split(comm, 0, -comm.rank());
  auto& of_whole = comm.prepare(blink::star_schedule(comm.rank_count()));
  std::string wrong;
  try {
    blink::barrier(*part, of_whole);
    wrong = "taken\n";
  } catch (blink::precondition_error const& refused) {
    if (std::string(refused.what()).find("another communicator") == std::string::npos) {
      wrong = refused.what();
    }
  }
  if (sum_over(*part, 1) != comm.rank_count()) wrong += "the part makes no progress\n";
  return wrong;
}

}  // namespace blink_test
