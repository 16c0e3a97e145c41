// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/all_gather.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/detail/session_buffer.hpp>
#include <blink/running/call/session.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/schedule/default_schedules.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A session of which some ranks can go on as a world of their own.
///
/// Semantics beyond the syntax: all ranks together make a `part_offer(me, selection)` each; what joins
/// no part selects nobody. The `handle()` of the first of a part, copied to the others of it, is good as
/// long as its offer lives; each constructs `S(me, offer, handle, selection)` with it.
template <class S>
concept splittable_session =
    session<S> && std::constructible_from<typename S::part_offer, S&, rank_selection const&> &&
    requires(typename S::part_offer& offer) {
      requires std::is_trivially_copyable_v<decltype(offer.handle())>;
      requires std::constructible_from<S, S&, typename S::part_offer&, decltype(offer.handle()),
                                       rank_selection const&>;
    };

/// One rank's session with some ranks of a larger world: they are numbered anew, and schedules are
/// prepared for their number.
template <splittable_session Me>
class part_of : public Me {
 public:
  template <class Handle>
  part_of(Me& whole, typename Me::part_offer& offer, Handle const& handle, rank_selection part)
      : Me(whole, offer, handle, part), parent_ranks_(std::move(part.members)) {}

  /// By new rank: the rank in the world that was split.
  [[nodiscard]] std::vector<int> const& parent_ranks() const { return parent_ranks_; }

 private:
  std::vector<int> parent_ranks_;
};

namespace detail {

/// The type of session that was split first: a part of a part has the type of a part, however often that goes on.
template <class Me>
struct session_split_first {
  using type = Me;
};
template <class Me>
struct session_split_first<part_of<Me>> {
  using type = Me;
};

/// A value of every rank, by rank.
template <class T, session Me>
[[nodiscard]] std::vector<T> gather_from_all(Me& me, T const& own) {
  auto const ranks = static_cast<std::size_t>(me.rank_count());
  auto all = session_buffer<T>(me, ranks);
  T* const mine = all.data() + me.rank();
  *mine = own;
  all_gather(me, star_schedule(me.rank_count()), static_cast<T const*>(mine), all.data(), 1);
  return {all.data(), all.data() + ranks};
}

/// Those of this rank's colour, by rising key and among equal keys by rank; nobody if it is negative.
template <session Me>
[[nodiscard]] rank_selection agree_on_part(Me& me, int colour, int key) {
  struct wish {
    int colour, key;
  };
  auto const wishes = gather_from_all(me, wish{colour, key});
  std::vector<std::tuple<int, int>> order;  // key, rank
  for (int rank = 0; rank < me.rank_count(); ++rank) {
    auto const& of = wishes[static_cast<std::size_t>(rank)];
    if (of.colour == colour && colour >= 0) order.emplace_back(of.key, rank);
  }
  std::sort(order.begin(), order.end());
  rank_selection result;
  for (auto const& [its_key, rank] : order) {
    if (rank == me.rank()) result.rank = static_cast<int>(result.members.size());
    result.members.push_back(rank);
  }
  return result;
}

}  // namespace detail

/// What a session is split into.
template <splittable_session Me>
using part_of_session = part_of<typename detail::session_split_first<Me>::type>;

/// Splits the ranks of a world: those of one colour become a world of their own, numbered by rising
/// key and among equal keys by rank. All ranks call it together. A negative colour joins nothing.
///
/// Parts can be split again, and so on. Calls of the parts do not disturb each other or those of the whole. A
/// failure in one part does not end the others; a rank whose part goes out of scope counts as having left it.
/// Memory of a part goes with the last of its ranks.
///
/// Time:   three all-gathers of some bytes, and what the transport needs for a world.
/// Throws: collective_error as every call; resource_error, on all ranks, if one gets no part. With
///         ranks of MPI making a communicator has no deadline.
template <splittable_session Me>
[[nodiscard]] std::optional<part_of_session<Me>> split(Me& me, int colour, int key) {
  rank_selection const part = detail::agree_on_part(me, colour, key);
  bool const joins = !part.members.empty();
  std::exception_ptr problem;
  auto const attempt = [&](auto const& step) {
    try {
      step();
    } catch (...) {  // the others must learn of it before this rank leaves
      problem = std::current_exception();
    }
  };
  std::optional<typename Me::part_offer> offer;
  attempt([&] { offer.emplace(me, part); });
  struct message {
    bool is_good;
    decltype(offer->handle()) content;
  };
  auto const offers =
      detail::gather_from_all(me, offer ? message{true, offer->handle()} : message{false, {}});
  std::optional<part_of_session<Me>> result;
  if (joins && offer) {
    auto const& taken = offers[static_cast<std::size_t>(part.members.front())];
    if (taken.is_good) attempt([&] { result.emplace(me, *offer, taken.content, part); });
  }
  // Nobody needs the offers any more, and all know whether all have what they wanted.
  bool const is_good = offer && joins == result.has_value();
  auto const have = detail::gather_from_all(me, static_cast<char>(is_good));
  if (problem) std::rethrow_exception(problem);
  for (std::size_t rank = 0; rank < have.size(); ++rank) {
    if (have[rank] != 0) continue;
    throw resource_error("split: rank " + std::to_string(rank) + " could not join its part");
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
