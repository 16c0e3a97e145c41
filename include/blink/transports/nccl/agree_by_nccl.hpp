// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>
#include <blink/transports/nccl/nccl_calls.hpp>
#include <blink/transports/nccl/nccl_options.hpp>
#include <blink/transports/nccl/nccl_team.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Gathers the records of all ranks, by rank. All processes call it together. Records go around in
/// a ring, so that each rank has only two neighbours. A process that has all ranks does not
/// communicate.
///
/// what:   the subject of the agreement, for the error
/// Time:   as many groups as there are ranks.
/// Throws: what `issue` and `wait` of the team throw.
template <polled_runtime Devices, nccl_calls Calls, class Record>
[[nodiscard]] std::vector<Record> gather_by_nccl(nccl_team<Devices, Calls>& team,
                                                 std::string const& what,
                                                 std::vector<Record> const& by_rank_here) {
  static_assert(std::is_trivially_copyable_v<Record>);
  auto const ranks = static_cast<std::size_t>(team.rank_count());
  auto const first = static_cast<std::size_t>(team.first_rank());
  if (by_rank_here.size() == ranks) return by_rank_here;
  std::vector<device_allocation<Devices>> memory;
  for (std::size_t k = 0; k < by_rank_here.size(); ++k) {
    int const device = team.devices()[k];
    auto* const records = memory.emplace_back(team.driver(), device, ranks * sizeof(Record)).get();
    team.driver().write(device, records + (first + k) * sizeof(Record), &by_rank_here[k],
                        sizeof(Record));
  }
  try {
    for (std::size_t round = 0; round + 1 < ranks; ++round) {
      std::vector<nccl_transfer> group;
      for (std::size_t k = 0; k < memory.size(); ++k) {
        std::size_t const rank = first + k;
        std::size_t const before = (rank + ranks - 1) % ranks;
        std::size_t const goes = (rank + ranks - round) % ranks,
                          comes = (before + ranks - round) % ranks;
        auto const at = [&](std::size_t record) {
          return memory[k].get() + record * sizeof(Record);
        };
        group.push_back({true, static_cast<int>(rank), static_cast<int>((rank + 1) % ranks),
                         at(goes), sizeof(Record)});
        group.push_back(
            {false, static_cast<int>(rank), static_cast<int>(before), at(comes), sizeof(Record)});
      }
      team.issue(group, team.own_streams());
    }
    team.wait(team.own_streams(), what, [] { return 0; });
  } catch (...) {
    if (!team.let_end()) {
      for (auto& each : memory) each.keep_for_ever();
    }
    throw;
  }
  std::vector<Record> result(ranks);
  team.driver().read(team.devices()[0], result.data(), memory[0].get(), ranks * sizeof(Record));
  return result;
}

/// A value that must be the same in all processes.
struct common_value {
  std::uint64_t hash = 0;
  /// the rule in words, for the error: "schedules are the same in all processes"
  std::string text;
  std::string own = {};  ///< the value here in words, for the error; may be empty
};

/// A rank's message to all others at a step that they take together.
struct rank_note {
  std::array<std::uint64_t, 2> hashes{};
  std::int32_t first_rank = 0;  ///< of its process
  std::int32_t device = 0;
  std::array<char, 240> refusal{};  ///< why its process refuses the step; empty: it does not
  std::array<std::array<char, 120>, 2> values{};  ///< the hashed values, in words
};

/// A step that all processes take together. No process takes it if one refuses, or if they differ.
///
/// same:    at most two values
/// refusal: why this process refuses; empty: it does not
/// Returns: the notes of all ranks.
/// Throws:  precondition_error with the first refusal, or the first rank that differs; what
///          `gather_by_nccl` throws.
template <class Team>
std::vector<rank_note> agree_by_nccl(Team& team, std::string const& step,
                                     std::vector<common_value> const& same,
                                     std::string const& refusal) {
  std::vector<rank_note> own;
  for (int const device : team.devices()) {
    auto& note = own.emplace_back();
    for (std::size_t k = 0; k < same.size(); ++k) {
      note.hashes[k] = same[k].hash;
      std::string_view(same[k].own).copy(note.values[k].data(), note.values[k].size() - 1);
    }
    note.first_rank = team.first_rank();
    note.device = device;
    std::string_view(refusal).copy(note.refusal.data(), note.refusal.size() - 1);
  }
  auto const all = gather_by_nccl(team, step, own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].refusal[0] == '\0') continue;
    throw precondition_error(step + ": rank " + std::to_string(rank) + ": " +
                             all[rank].refusal.data());
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    for (std::size_t k = 0; k < same.size(); ++k) {
      if (all[rank].hashes[k] == same[k].hash) continue;
      auto const in_words = [&](std::size_t of) {
        std::string const value = all[of].values[k].data();
        return " of rank " + std::to_string(of) + (value.empty() ? "" : " (" + value + ")");
      };
      throw precondition_error(
          step + ": " + same[k].text + " differ between processes, expected the same: those" +
          in_words(rank) + " and those" + in_words(static_cast<std::size_t>(team.first_rank())));
    }
  }
  return all;
}

/// The placement of all ranks, if all processes have valid and equal options.
///
/// Throws: precondition_error if not; what `gather_by_nccl` throws.
template <class Team>
[[nodiscard]] rank_placement agree_on_places(Team& team, nccl_options const& options) {
  std::string refusal;
  try {
    validate(options);
  } catch (precondition_error const& failure) {
    refusal = failure.what();
  }
  common_value const same{hash(device_options_of(options, team.devices())),
                          "nccl_options: slot_bytes and costs"};
  auto const all = agree_by_nccl(team, "construction", {same}, refusal);
  std::vector<std::vector<int>> by_process;
  int own = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].first_rank == static_cast<int>(rank)) by_process.emplace_back();
    if (all[rank].first_rank == team.first_rank()) own = static_cast<int>(by_process.size()) - 1;
    by_process.back().push_back(all[rank].device);
  }
  return {by_process, own};
}

}}  // namespace blink::BLINK_ABI
