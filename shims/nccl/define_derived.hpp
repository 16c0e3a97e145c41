// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that revoke, shrink and grow communicators, on `blink_nccl::chosen_platform`.
// Included by one source, after `define_communicators.hpp`.

#include "define_communicators.hpp"
#include "derived_ids.hpp"
#include "dispatch.hpp"
#include "functions.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace blink_nccl {

/// Ends all calls of a communicator, on all its ranks, and waits until no kernel of this process
/// runs.
///
/// what:   see `team::end_calls`
/// waits:  false: do not wait
/// Throws: refusal if a stream is held up until the deadline.
inline outcome end_calls(handle<chosen_platform> const& mine, std::string const& what, bool waits,
                         library<chosen_platform>::lock_type& held) {
  using clock = std::chrono::steady_clock;
  auto& home = library<chosen_platform>::the();
  auto const all = mine.all;  // it outlives the wait
  all->end_calls(mine.rank, what);
  home.notify();
  if (waits && !all->is_idle()) {
    auto const end = clock::now() + all->options().deadline;
    home.wait(held, [&] { return all->is_idle() || clock::now() > end; }, [] {});
  }
  if (all->is_idle()) return {};
  if (!waits) return {result::in_progress, "calls have not ended yet"};
  throw refusal(result::remote_error,
                "calls have not ended before the deadline, because their streams are held up");
}

/// Ends the calls of a communicator, from which ranks can then make others.
result ncclCommRevoke(communicator* given, int flags) {
  using P = chosen_platform;
  if (given == nullptr) return result::success;
  auto const own = [&](handle<P>& mine, auto& held) -> outcome {
    if (flags != 0) refuse_argument("flags " + std::to_string(flags) + ", expected 0");
    if (mine.is_revoked) refuse_argument("the communicator was revoked already");
    mine.expect_complete();
    mine.is_revoked = true;
    return end_calls(mine, "revoked", mine.blocks, held);
  };
  return with_communicator<P>("ncclCommRevoke", given, own,
                              passed_on(&other_library::CommRevoke, given, flags));
}

/// Makes a communicator without the excluded ranks, which do not call. They may have died.
result ncclCommShrink(communicator* given, int* excluded, int excluded_count, communicator** where,
                      configuration* config, int flags) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto& held) -> outcome {
    expect_result(where);
    *where = nullptr;
    if (flags != 0 && flags != shrink_aborts) {
      refuse_argument("flags " + std::to_string(flags) + ", expected 0 or 1");
    }
    auto const out = excluded_ranks(excluded, excluded_count, mine.rank, mine.rank_count);
    bool const is_blocking = blocks(config, mine.blocks);
    mine.expect_complete();
    if (flags == shrink_aborts) (void)end_calls(mine, "shrunk and ended", true, held);
    auto const what = mine.next(derivation::kind::shrunk, out);
    auto const id = mine.all->id_of(what, library<P>::the().ids);
    mine.count(what);
    return join_rank({where, mine.rank_count - excluded_count, id,
                      mine.rank - excluded_below(out, mine.rank), mine.device, is_blocking},
                     held);
  };
  return with_communicator<P>("ncclCommShrink", given, own, [&](auto const& there, auto* theirs) {
    return adopt_made(where, [&](communicator** made) {
      return call_there(there.CommShrink, theirs, excluded, excluded_count, made, config, flags);
    });
  });
}

/// Returns the id by which new ranks join the ranks of a communicator.
result ncclCommGetUniqueId(communicator* given, unique_id* id) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto&) -> outcome {
    expect_result(id);
    mine.expect_complete();
    auto const what = mine.next(derivation::kind::grown);
    auto const made = mine.all->id_of(what, library<P>::the().ids);
    if (mine.all->place_of(what).is_given.exchange(1) != 0) {
      refuse_usage("the id of an earlier call was not used, expected ncclCommGrow first");
    }
    *id = made;
    return {};
  };
  return with_communicator<P>("ncclCommGetUniqueId", given, own,
                              passed_on(&other_library::CommGetUniqueId, given, id));
}

/// Joins a new rank to those of a communicator, on the device of the thread.
inline outcome grow_by_rank(communicator** where, int rank_count, unique_id const* id, int rank,
                            configuration* config) {
  using P = chosen_platform;
  if (id == nullptr) refuse_argument("the unique id is null, expected that of ncclCommGetUniqueId");
  expect_rank("rank", rank, rank_count);
  // The ranks that exist are of the library that made the id.
  bool const may_forward = !unique_ids::has_mark(*id);
  joining const what{where,          rank_count,  *id,    rank, P::current_device(),
                     blocks(config), may_forward, config, true};
  auto held = library<P>::the().lock();
  return join_rank(what, held);
}
/// Joins a rank that exists to the new ones. It keeps its number.
inline outcome grow_from(handle<chosen_platform>& mine, int rank_count, unique_id const* id,
                         int rank, communicator** where, configuration* config,
                         library<chosen_platform>::lock_type& held) {
  auto const found = [](int number) { return std::to_string(number); };
  if (rank != -1) refuse_argument("rank " + found(rank) + " of a rank that exists, expected -1");
  if (rank_count <= mine.rank_count) {
    refuse_argument(found(rank_count) + " ranks, expected more than the " + found(mine.rank_count) +
                    " that exist");
  }
  bool const is_blocking = blocks(config, mine.blocks);
  mine.expect_complete();
  auto const what = mine.next(derivation::kind::grown);
  auto const agreed = mine.all->id_of(what, library<chosen_platform>::the().ids);
  if (id != nullptr && unique_ids::text_of(*id) != unique_ids::text_of(agreed)) {
    refuse_argument("the unique id is another one, expected that of ncclCommGetUniqueId");
  }
  mine.count(what);
  return join_rank({where, rank_count, agreed, mine.rank, mine.device, is_blocking}, held);
}
result ncclCommGrow(communicator* given, int rank_count, unique_id const* id, int rank,
                    communicator** where, configuration* config) {
  using P = chosen_platform;
  if (given == nullptr) {
    return guarded<P>("ncclCommGrow", [&] {
      expect_result(where);
      *where = nullptr;
      return grow_by_rank(where, rank_count, id, rank, config);
    });
  }
  auto const own = [&](handle<P>& mine, auto& held) -> outcome {
    expect_result(where);
    *where = nullptr;
    return grow_from(mine, rank_count, id, rank, where, config, held);
  };
  return with_communicator<P>("ncclCommGrow", given, own, [&](auto const& there, auto* theirs) {
    return adopt_made(where, [&](communicator** made) {
      return call_there(there.CommGrow, theirs, rank_count, id, rank, made, config);
    });
  });
}

}  // namespace blink_nccl
