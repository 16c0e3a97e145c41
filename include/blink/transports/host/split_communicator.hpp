// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/all_gather.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/communicator_buffer.hpp>
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

/// A communicator whose ranks can be split into smaller communicators.
///
/// Semantics beyond the syntax: all ranks together make a `part_offer(comm, selection)` each, with
/// an empty selection for a rank that joins no part. The `handle()` of the first rank of a part is
/// copied to its other ranks, and is valid as long as that offer lives. Each rank constructs
/// `S(comm, offer, handle, selection)` with it.
template <class S>
concept splittable_communicator =
    communicator<S> && std::constructible_from<typename S::part_offer, S&, rank_selection const&> &&
    requires(typename S::part_offer& offer) {
      requires std::is_trivially_copyable_v<decltype(offer.handle())>;
      requires std::constructible_from<S, S&, typename S::part_offer&, decltype(offer.handle()),
                                       rank_selection const&>;
    };

/// One rank's communicator with some ranks of a larger communicator. The ranks have new numbers,
/// and schedules are prepared for their number.
template <splittable_communicator Comm>
class part_of : public Comm {
 public:
  template <class Handle>
  part_of(Comm& whole, typename Comm::part_offer& offer, Handle const& handle, rank_selection part)
      : Comm(whole, offer, handle, part), parent_ranks_(std::move(part.members)) {}

  /// By new rank: the rank in the communicator that was split.
  [[nodiscard]] std::vector<int> const& parent_ranks() const { return parent_ranks_; }

 private:
  std::vector<int> parent_ranks_;
};

namespace detail {

/// The type of the communicator that was split first. A part of a part has the type of a part, at
/// any depth.
template <class Comm>
struct communicator_split_first {
  using type = Comm;
};
template <class Comm>
struct communicator_split_first<part_of<Comm>> {
  using type = Comm;
};

/// Returns a value of every rank, by rank.
template <class T, communicator Comm>
[[nodiscard]] std::vector<T> gather_from_all(Comm& comm, T const& own) {
  auto const ranks = static_cast<std::size_t>(comm.rank_count());
  auto all = communicator_buffer<T>(comm, ranks);
  T* const mine = all.data() + comm.rank();
  *mine = own;
  all_gather(comm, star_schedule(comm.rank_count()), static_cast<T const*>(mine), all.data(), 1);
  return {all.data(), all.data() + ranks};
}

/// Returns the ranks of this rank's colour, by rising key and among equal keys by rank; none if the
/// colour is negative.
template <communicator Comm>
[[nodiscard]] rank_selection agree_on_part(Comm& comm, int colour, int key) {
  struct wish {
    int colour, key;
  };
  auto const wishes = gather_from_all(comm, wish{colour, key});
  std::vector<std::tuple<int, int>> order;  // key, rank
  for (int rank = 0; rank < comm.rank_count(); ++rank) {
    auto const& of = wishes[static_cast<std::size_t>(rank)];
    if (of.colour == colour && colour >= 0) order.emplace_back(of.key, rank);
  }
  std::sort(order.begin(), order.end());
  rank_selection result;
  for (auto const& [its_key, rank] : order) {
    if (rank == comm.rank()) result.rank = static_cast<int>(result.members.size());
    result.members.push_back(rank);
  }
  return result;
}

}  // namespace detail

/// The type of a part of a communicator.
template <splittable_communicator Comm>
using part_of_communicator = part_of<typename detail::communicator_split_first<Comm>::type>;

/// Splits the ranks of a communicator. The ranks of one colour become a communicator, numbered by
/// rising key and among equal keys by rank.
///
/// All ranks call it together. A rank with a negative colour joins no part.
///
/// Parts can be split again. Calls of the parts do not disturb each other or calls of the whole
/// communicator. A failure in one part does not end the others. A rank whose part is destroyed
/// counts as having left it. The memory of a part is freed with the last of its ranks.
///
/// Time:   three all-gathers of some bytes, and what the transport needs for a communicator.
/// Throws: collective_error as every call; resource_error, on all ranks, if a rank cannot join its
///         part. Over MPI, making a communicator has no deadline.
template <splittable_communicator Comm>
[[nodiscard]] std::optional<part_of_communicator<Comm>> split(Comm& comm, int colour, int key) {
  rank_selection const part = detail::agree_on_part(comm, colour, key);
  bool const joins = !part.members.empty();
  std::exception_ptr problem;
  auto const attempt = [&](auto const& step) {
    try {
      step();
    } catch (...) {  // the other ranks must learn of it before this rank leaves
      problem = std::current_exception();
    }
  };
  std::optional<typename Comm::part_offer> offer;
  attempt([&] { offer.emplace(comm, part); });
  struct message {
    bool is_good;
    decltype(offer->handle()) content;
  };
  auto const offers =
      detail::gather_from_all(comm, offer ? message{true, offer->handle()} : message{false, {}});
  std::optional<part_of_communicator<Comm>> result;
  if (joins && offer) {
    auto const& offered = offers[static_cast<std::size_t>(part.members.front())];
    if (offered.is_good) attempt([&] { result.emplace(comm, *offer, offered.content, part); });
  }
  // After this all-gather no rank needs an offer, and every rank knows whether all have joined.
  bool const is_good = offer && joins == result.has_value();
  auto const have = detail::gather_from_all(comm, static_cast<char>(is_good));
  if (problem) std::rethrow_exception(problem);
  for (std::size_t rank = 0; rank < have.size(); ++rank) {
    if (have[rank] != 0) continue;
    throw resource_error("split: rank " + std::to_string(rank) +
                         " could not join its part, expected all ranks to join theirs");
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
