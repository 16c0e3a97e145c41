// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that prepare calls from a program's own kernels. Communicators of this library take
// no such calls. Included by one source.

#include "dispatch.hpp"
#include "functions.hpp"

#include <cstddef>
#include <string>

namespace blink_nccl {

inline constexpr char const* no_kernels = "calls from a program's own kernels are not supported";
inline outcome of_no_kernels() {
  return {result::invalid_usage, no_kernels};
}

result ncclDevCommCreate(communicator* given, void const* wanted, void* where) {
  return refuse_own<chosen_platform>(
      "ncclDevCommCreate", no_kernels, given, [&](auto const& there, auto* theirs) {
        return call_there(there.DevCommCreate, theirs, wanted, where);
      });
}
result ncclDevCommDestroy(communicator* given, void const* made) {
  return refuse_own<chosen_platform>(
      "ncclDevCommDestroy", "no device communicator, because ncclDevCommCreate is not supported",
      given, [&](auto const& there, auto* theirs) {
        return call_there(there.DevCommDestroy, theirs, made);
      });
}
result ncclGinBarrierCreateRequirement(communicator* given, rank_team team, int barriers,
                                       void* where, void* wanted) {
  return refuse_own<chosen_platform>(
      "ncclGinBarrierCreateRequirement", no_kernels, given, [&](auto const& there, auto* theirs) {
        return call_there(there.GinBarrierCreateRequirement, theirs, team, barriers, where, wanted);
      });
}
result ncclLsaBarrierCreateRequirement(rank_team team, int barriers, void* where, void* wanted) {
  return only_there<chosen_platform>("ncclLsaBarrierCreateRequirement", of_no_kernels(),
                                     &other_library::LsaBarrierCreateRequirement, team, barriers,
                                     where, wanted);
}
result ncclLLA2ACreateRequirement(int blocks, int slots, void* where, void* wanted) {
  return only_there<chosen_platform>("ncclLLA2ACreateRequirement", of_no_kernels(),
                                     &other_library::LLA2ACreateRequirement, blocks, slots, where,
                                     wanted);
}
result ncclGinOutboxCreateRequirement(int blocks, int logarithm, void* where, void* wanted) {
  return only_there<chosen_platform>("ncclGinOutboxCreateRequirement", of_no_kernels(),
                                     &other_library::GinOutboxCreateRequirement, blocks, logarithm,
                                     where, wanted);
}
result ncclGinInboxA2ACreateRequirement(rank_team peers, int blocks, int logarithm, void* where,
                                        void* wanted) {
  return only_there<chosen_platform>("ncclGinInboxA2ACreateRequirement", of_no_kernels(),
                                     &other_library::GinInboxA2ACreateRequirement, peers, blocks,
                                     logarithm, where, wanted);
}
/// The slots of 8 bytes for `elements` elements.
int ncclLLA2ACalcSlots(int elements, int element_bytes) {
  return elements * ((element_bytes + 7) / 8);
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
        if (there.*function == nullptr) refuse_usage("the other library lacks the function");
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
