// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that make unique ids, and make, split and end communicators, on
// `blink_nccl::chosen_platform`. Included by one source.

#include "dispatch.hpp"
#include "functions.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace blink_nccl {

result ncclGetUniqueId(unique_id* id) {
  using P = chosen_platform;
  return guarded<P>("ncclGetUniqueId", [&]() -> outcome {
    expect_result(id);
    auto& ids = library<P>::the().ids;
    if (fallback() == nullptr) {
      auto const held = library<P>::the().lock();
      *id = ids.make();
      return {};
    }
    auto const how = call_there(fallback()->GetUniqueId, id);
    auto const held = library<P>::the().lock();
    if (how.code != result::success) return how;
    bool const has_meeting = unique_ids::is_markable(*id) && covers_processes();
    *id = has_meeting ? ids.make(*id) : ids.remember(*id);
    return how;
  });
}

/// A rank that joins a communicator.
struct joining {
  communicator** where;
  int rank_count;
  unique_id id;
  int rank;
  int device;
  bool is_blocking;
  bool may_forward = false;  ///< true if the other library, if there is one, may make it
  configuration* config = nullptr;
  bool grows = false;  ///< see `group::beginning`
};
/// Makes the handle of a rank that joins.
///
/// target: as in `group::beginning`
inline group<chosen_platform>::beginning begin_joining(joining const& what, communicator** target) {
  using P = chosen_platform;
  auto& home = library<P>::the();
  auto* const mine = home.make_handle(what.rank, what.rank_count, what.device, what.is_blocking);
  try {
    auto const here = home.join(what.id, *mine, what.may_forward);
    return {mine, target, here, what.id, what.config, what.grows};
  } catch (...) {
    (void)home.forget(*mine);
    throw;
  }
}
/// Adds a rank to a communicator. The group begins it without the lock.
inline outcome join_rank(joining const& what, library<chosen_platform>::lock_type& held) {
  auto const begun = begin_joining(what, what.where);
  *what.where = begun.mine;
  held.unlock();
  return group<chosen_platform>::of_thread().add(begun);
}

/// Adds a rank to the communicator with this unique id, on the device of the thread.
inline outcome begin_rank(communicator** where, int rank_count, unique_id const& id, int rank,
                          configuration* config) {
  using P = chosen_platform;
  expect_result(where);
  *where = nullptr;
  if (rank_count < 1) refuse_argument(std::to_string(rank_count) + " ranks, expected at least 1");
  expect_rank("rank", rank, rank_count);
  joining const what{where,          rank_count, id,    rank, P::current_device(),
                     blocks(config), true,       config};
  auto held = library<P>::the().lock();
  return join_rank(what, held);
}

result ncclCommInitRankConfig(communicator** where, int rank_count, unique_id id, int rank,
                              configuration* config) {
  return guarded<chosen_platform>("ncclCommInitRankConfig",
                                  [&] { return begin_rank(where, rank_count, id, rank, config); });
}
result ncclCommInitRank(communicator** where, int rank_count, unique_id id, int rank) {
  return guarded<chosen_platform>("ncclCommInitRank",
                                  [&] { return begin_rank(where, rank_count, id, rank, nullptr); });
}
/// In NCCL several ids spread the bootstrap over processes; here one id is enough.
result ncclCommInitRankScalable(communicator** where, int rank_count, int rank, int id_count,
                                unique_id* ids, configuration* config) {
  return guarded<chosen_platform>("ncclCommInitRankScalable", [&] {
    if (ids == nullptr || id_count < 1) refuse_argument("no unique id, expected at least one");
    return begin_rank(where, rank_count, ids[0], rank, config);
  });
}

result ncclCommInitAll(communicator** where, int rank_count, int const* devices) {
  using P = chosen_platform;
  return guarded<P>("ncclCommInitAll", [&]() -> outcome {
    expect_result(where);
    if (rank_count < 1) refuse_argument(std::to_string(rank_count) + " ranks, expected at least 1");
    (void)P::current_device();  // throws if there is no driver
    auto options = options_wanted();
    for (int rank = 0; rank < rank_count; ++rank) {
      options.devices.push_back(devices == nullptr ? rank : devices[rank]);
    }
    auto& home = library<P>::the();
    auto const held = home.lock();
    auto const all = std::make_shared<team<P>>(options);
    for (int rank = 0; rank < rank_count; ++rank) {
      int const device = options.devices[static_cast<std::size_t>(rank)];
      auto* const mine = home.make_handle(rank, rank_count, device, true);
      mine->all = all;
      where[rank] = mine;
    }
    return {};
  });
}

/// Adopts a communicator of the other library. `make(&made)` calls that library, which may make
/// none.
template <class Make>
outcome adopt_made(communicator** where, Make const& make) {
  using P = chosen_platform;
  expect_result(where);
  *where = nullptr;
  communicator* made = nullptr;
  outcome const how = make(&made);
  if (made == nullptr) return how;
  auto& home = library<P>::the();
  auto const held = home.lock();
  auto* const mine = home.make_handle(0, 0, 0, true);
  mine->forwarded = made;
  *where = mine;
  return how;
}

/// Joins a rank of a split whose ranks are in several processes. Returns the query for the state of
/// the new communicator. The communicator is written to `where` when it is ready, if it is still
/// wanted.
inline parting<chosen_platform>::question join_part(communicator** where, unique_id const& id,
                                                    handle<chosen_platform>* mine) {
  using P = chosen_platform;
  auto& home = library<P>::the();
  auto const gone = std::make_shared<std::unique_ptr<handle<P>>>();  // destroyed with the query
  std::shared_ptr<gathering<P>> here;
  try {
    here = home.join(id, *mine, false);
  } catch (...) {
    *gone = home.forget(*mine);
    return [how = current_outcome(), gone](bool) -> std::optional<outcome> { return how; };
  }
  return [=, &home](bool is_wanted) -> std::optional<outcome> {
    home.expect_all(here);
    if (is_wanted && !here->is_over) return std::nullopt;
    if (is_wanted && here->ending.code == result::success) {
      *where = mine;
    } else if (*gone == nullptr) {
      *gone = home.forget(*mine);
    }
    return here->ending;
  };
}

/// Splits a communicator that all its ranks have revoked. They make a communicator of all of them
/// first, which takes calls and ends with the group.
inline outcome split_revoked(handle<chosen_platform>& mine, request<chosen_platform> split,
                             library<chosen_platform>::lock_type& held) {
  using P = chosen_platform;
  auto const what = mine.next(derivation::kind::whole);
  auto const id = mine.all->id_of(what, library<P>::the().ids);
  mine.count(what);
  auto const whole =
      begin_joining({nullptr, mine.rank_count, id, mine.rank, mine.device, true}, nullptr);
  held.unlock();
  return group<P>::of_thread().add(whole, std::move(split));
}

result ncclCommSplit(communicator* given, int color, int key, communicator** where,
                     configuration* config) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto& held) -> outcome {
    expect_result(where);
    *where = nullptr;
    mine.expect_complete();
    if (color < 0 && color != no_color) {
      refuse_argument("color " + std::to_string(color) + ", expected >= 0 or -1");
    }
    bool const is_blocking = blocks(config, mine.blocks);
    request<P> one;
    one.name = "ncclCommSplit";
    one.what = request<P>::shape::split;
    one.color = color;
    one.key = key;
    one.part.deliver = [where, is_blocking, device = mine.device](std::shared_ptr<team<P>> all,
                                                                  int rank) {
      auto* const made =
          library<P>::the().make_handle(rank, all->rank_count(), device, is_blocking);
      made->all = std::move(all);
      *where = made;
    };
    one.part.make_id = [] { return library<P>::the().ids.make(); };
    one.part.join = [where, is_blocking, device = mine.device](unique_id const& id, int rank,
                                                               int rank_count) {
      auto& home = library<P>::the();
      return join_part(where, id, home.make_handle(rank, rank_count, device, is_blocking));
    };
    if (mine.is_revoked) return split_revoked(mine, std::move(one), held);
    return group<P>::of_thread().add(mine, std::move(one), held);
  };
  return with_communicator<P>("ncclCommSplit", given, own, [&](auto const& there, auto* theirs) {
    return adopt_made(where, [&](communicator** made) {
      return call_there(there.CommSplit, theirs, color, key, made, config);
    });
  });
}

/// Announces that no call will follow, except for those that end the communicator.
result ncclCommFinalize(communicator* given) {
  using P = chosen_platform;
  return with_communicator<P>(
      "ncclCommFinalize", given,
      [](handle<P>& mine, auto&) -> outcome {
        if (mine.is_revoked) {
          refuse_usage("the communicator was revoked, expected ncclCommDestroy");
        }
        mine.is_finalized = true;
        return {};
      },
      passed_on(&other_library::CommFinalize, given));
}

/// Ends a rank's part, after `leave(team)`.
template <class Leave, class There>
result end_communicator(char const* name, communicator* given, Leave const& leave,
                        There const& there) {
  using P = chosen_platform;
  if (given == nullptr) return result::success;
  return guarded<P>(name, [&]() -> outcome {
    auto& home = library<P>::the();
    // destroyed without the lock: the last rank waits for the devices
    std::unique_ptr<handle<P>> gone;
    auto held = home.lock();
    auto& mine = home.find(given);
    auto* const theirs = mine.forwarded;
    if (mine.all != nullptr) leave(*mine.all, mine.rank);
    gone = home.forget(mine);
    home.notify();
    held.unlock();
    return theirs == nullptr ? outcome{} : there(*fallback(), theirs);
  });
}
result ncclCommDestroy(communicator* given) {
  return end_communicator(
      "ncclCommDestroy", given, [](auto& all, int rank) { all.leave(rank); },
      passed_on(&other_library::CommDestroy, given));
}
result ncclCommAbort(communicator* given) {
  return end_communicator(
      "ncclCommAbort", given, [](auto& all, int rank) { all.abort(rank); },
      passed_on(&other_library::CommAbort, given));
}

}  // namespace blink_nccl
