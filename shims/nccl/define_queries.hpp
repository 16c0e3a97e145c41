// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that only answer: versions, errors, properties of communicators, teams. Included by
// one source.

#include <blink/core/detail/hash.hpp>

#include "configurations.hpp"
#include "dispatch.hpp"
#include "functions.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace blink_nccl {

result ncclGetVersion(int* version) {
  return guarded<chosen_platform>("ncclGetVersion", [&]() -> outcome {
    expect_result(version);
    *version = interface_version;
    return {};
  });
}
char const* ncclGetErrorString(result code) {
  return to_text(code);
}
char const* ncclGetLastError(communicator* given) {
  using P = chosen_platform;
  try {
    auto held = library<P>::the().lock();
    if (given != nullptr) {
      auto& mine = library<P>::the().find(given);
      if (auto* const theirs = mine.forwarded; theirs != nullptr) {
        held.unlock();
        return fallback()->GetLastError == nullptr ? "" : fallback()->GetLastError(theirs);
      }
      if (mine.all != nullptr && mine.all->health().code != result::success) {
        mine.reported = mine.all->health().text;
        return mine.reported.c_str();
      }
    }
  } catch (refusal const&) {  // there may be no communicator after a failure
  }
  return last_error().c_str();
}
// Logging is not set up here, so that there is nothing to read again.
void ncclResetDebugInit() {}
void ncclResetDebugInitInternal() {}

result ncclCommGetAsyncError(communicator* given, result* code) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto&) -> outcome {
    expect_result(code);
    auto& home = library<P>::the();
    *code = mine.trouble.code;
    if (*code != result::success) return {};
    if (mine.all == nullptr) {
      home.look_after(mine);
      *code = mine.trouble.code != result::success ? mine.trouble.code : result::in_progress;
      return {};
    }
    if (mine.is_revoked) {
      *code = mine.all->is_idle() ? result::success : result::in_progress;
      return {};
    }
    if (mine.latest != nullptr) {
      mine.all->expect_progress(*mine.latest);
      home.notify();
      *code = mine.latest->is_over ? mine.latest->ending.code : result::in_progress;
    }
    if (mine.all->health().code != result::success) *code = mine.all->health().code;
    return {};
  };
  return with_communicator<P>("ncclCommGetAsyncError", given, own,
                              passed_on(&other_library::CommGetAsyncError, given, code));
}

/// Writes a property of a communicator, `take(handle)`, to `where`.
///
/// function: the same of the other library
template <class Take>
result ask(char const* name, communicator* given, int* where, Take const& take,
           result (*other_library::*function)(communicator*, int*)) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto&) -> outcome {
    expect_result(where);
    *where = take(mine);
    return {};
  };
  return with_communicator<P>(name, given, own, passed_on(function, given, where));
}
result ncclCommCount(communicator* given, int* count) {
  return ask(
      "ncclCommCount", given, count, [](auto const& mine) { return mine.rank_count; },
      &other_library::CommCount);
}
result ncclCommCuDevice(communicator* given, int* device) {
  return ask(
      "ncclCommCuDevice", given, device, [](auto const& mine) { return mine.device; },
      &other_library::CommCuDevice);
}
result ncclCommUserRank(communicator* given, int* rank) {
  return ask(
      "ncclCommUserRank", given, rank, [](auto const& mine) { return mine.rank; },
      &other_library::CommUserRank);
}

/// A number that is equal on all ranks of a communicator, and differs from that of others.
[[nodiscard]] inline std::uint64_t hash_of(handle<chosen_platform> const& mine) {
  blink::detail::hash all;
  all.add(mine.all->number());
  if (mine.all->number() == 0) all.add(reinterpret_cast<std::uintptr_t>(mine.all.get()));
  return all.value();
}
/// Fills the fields that the program's version of the structure has. Nothing that programs' own
/// kernels need is supported.
inline void describe(handle<chosen_platform> const& mine, communicator_properties& to) {
  communicator_properties all{};
  all.size = to.size;
  all.magic = to.magic;
  all.version = to.version;
  all.rank = mine.rank;
  all.rank_count = mine.rank_count;
  all.device = mine.device;
  all.management_device = -1;  // not known
  all.load_store_teams = mine.rank_count;
  all.hash = hash_of(mine);
  std::memcpy(&to, &all, std::min(to.size, sizeof all));
}
result ncclCommQueryProperties(communicator* given, communicator_properties* to) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto&) -> outcome {
    expect_result(to);
    expect_structure("structure of properties", *to,
                     offsetof(communicator_properties, load_store_teams));
    mine.expect_complete();
    describe(mine, *to);
    return {};
  };
  return with_communicator<P>("ncclCommQueryProperties", given, own,
                              passed_on(&other_library::CommQueryProperties, given, to));
}

// --- teams ---

/// Returns `own(handle)` for a communicator of this library, or `there(library, communicator)` if
/// that library has `function`; else `nothing`.
template <class T, class Own, class... Parameters, class... Arguments>
T ask_team(char const* name, T nothing, communicator* given, Own const& own,
           T (*other_library::*function)(communicator*, Parameters...), Arguments... arguments) {
  using P = chosen_platform;
  T found = nothing;
  (void)with_communicator<P>(
      name, given,
      [&](handle<P>& mine, auto&) -> outcome {
        found = own(mine);
        return {};
      },
      [&](other_library const& there, auto* theirs) -> outcome {
        expect_there(there.*function);
        found = (there.*function)(theirs, arguments...);
        return {};
      });
  return found;
}

rank_team ncclTeamWorld(communicator* given) {
  return ask_team(
      "ncclTeamWorld", rank_team{}, given,
      [](auto const& mine) { return rank_team{mine.rank_count, mine.rank, 1}; },
      &other_library::TeamWorld);
}
/// Without windows a rank reaches only itself by load and store.
rank_team ncclTeamLsa(communicator* given) {
  return ask_team(
      "ncclTeamLsa", rank_team{}, given, [](auto const&) { return rank_team{1, 0, 1}; },
      &other_library::TeamLsa);
}
/// The ranks with the same place in their teams of `ncclTeamLsa`: all.
rank_team ncclTeamRail(communicator* given) {
  return ask_team(
      "ncclTeamRail", rank_team{}, given,
      [](auto const& mine) { return rank_team{mine.rank_count, mine.rank, 1}; },
      &other_library::TeamRail);
}
/// There is no such fabric, so the team has no ranks.
rank_team ncclTeamCft(communicator* given, int mode) {
  return ask_team(
      "ncclTeamCft", rank_team{}, given, [](auto const&) { return rank_team{}; },
      &other_library::TeamCft, mode);
}
rank_team ncclTeamCftMultimem(communicator* given) {
  return ask_team(
      "ncclTeamCftMultimem", rank_team{}, given, [](auto const&) { return rank_team{}; },
      &other_library::TeamCftMultimem);
}
/// Returns the number in the communicator of a rank of a team; -1: the communicator is invalid.
int ncclTeamRankToWorld(communicator* given, rank_team team, int rank) {
  return ask_team(
      "ncclTeamRankToWorld", -1, given,
      [&](auto const& mine) { return mine.rank + (rank - team.rank) * team.stride; },
      &other_library::TeamRankToWorld, team, rank);
}
/// The same for the number in the caller's team of `ncclTeamLsa`.
int ncclTeamRankToLsa(communicator* given, rank_team team, int rank) {
  return ask_team(
      "ncclTeamRankToLsa", -1, given, [&](auto const&) { return (rank - team.rank) * team.stride; },
      &other_library::TeamRankToLsa, team, rank);
}

}  // namespace blink_nccl
