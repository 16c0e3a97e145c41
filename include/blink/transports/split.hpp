// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/all_gather.hpp>
#include <blink/collectives/default_schedules.hpp>
#include <blink/collectives/thread_group.hpp>
#include <blink/collectives/transport.hpp>
#include <blink/config.hpp>
#include <blink/transports/prepared_schedule.hpp>
#include <blink/transports/world.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {

/// One rank's session with some ranks of a larger world: they are numbered anew, and schedules are
/// prepared for their number.
template <transport Link, thread_group Group>
class split_context : public rank_context<Link, Group> {
 public:
  using world = basic_world<Link, Group>;

  split_context(std::shared_ptr<world> owner, int rank, std::vector<int> ranks)
      : rank_context<Link, Group>(
            *owner, rank, Group{},
            std::make_shared<typename rank_context<Link, Group>::rank_part>(owner->rank_count())),
        owner_(std::move(owner)),
        ranks_(std::move(ranks)) {}
  split_context(split_context&&) noexcept = default;
  split_context& operator=(split_context&&) = delete;
  /// The others find out that this rank calls nothing any more.
  ~split_context() {
    if (owner_) owner_->state().set_gone(this->rank(), true);
  }

  /// By new rank: the rank in the world that was split.
  [[nodiscard]] std::vector<int> const& parent_ranks() const { return ranks_; }

 private:
  std::shared_ptr<world> owner_;
  std::vector<int> ranks_;
};

/// Splits the ranks of a world: those of one colour become a world of their own, numbered by rising
/// key and among equal keys by rank. All ranks call it together. A negative colour joins nothing.
///
/// Calls of the parts do not disturb each other or those of the whole. A failure in one part does not
/// end the others; a rank whose part goes out of scope counts as having left it.
///
/// Time:   three all-gathers of some bytes.
/// Throws: collective_error as every call.
template <transport Link, thread_group Group>
[[nodiscard]] std::optional<split_context<Link, Group>> split(rank_context<Link, Group>& me,
                                                              int colour, int key) {
  static_assert(std::is_default_constructible_v<Group>,
                "blink: only sessions whose group is a lone thread can be split");
  using world = basic_world<Link, Group>;
  auto& plan = me.prepare(star_schedule(me.rank_count()));
  auto const ranks = static_cast<std::size_t>(me.rank_count());
  struct wish {
    int colour, key;
  };
  wish const own{colour, key};
  std::vector<wish> wishes(ranks);
  all_gather(me, plan, &own, wishes.data(), 1);
  std::vector<int> members;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (wishes[rank].colour == colour) members.push_back(static_cast<int>(rank));
  }
  std::sort(members.begin(), members.end(), [&](int a, int b) {
    return std::tuple(wishes[static_cast<std::size_t>(a)].key, a) <
           std::tuple(wishes[static_cast<std::size_t>(b)].key, b);
  });
  // The first of a colour makes the world and the others take a share in it.
  std::shared_ptr<world> part;
  bool const is_first = colour >= 0 && members.front() == me.rank();
  if (is_first) part = std::make_shared<world>(static_cast<int>(members.size()), me.options());
  std::shared_ptr<world>* const mine = &part;
  std::vector<std::shared_ptr<world>*> parts(ranks);
  all_gather(me, plan, &mine, parts.data(), 1);
  if (colour >= 0 && !is_first) part = *parts[static_cast<std::size_t>(members.front())];
  char const taken = 1;
  std::vector<char> all_taken(ranks);
  all_gather(me, plan, &taken, all_taken.data(), 1);  // nobody copies from `part` any more
  if (colour < 0) return std::nullopt;
  auto const at = std::find(members.begin(), members.end(), me.rank()) - members.begin();
  return std::optional<split_context<Link, Group>>(std::in_place, std::move(part),
                                                   static_cast<int>(at), std::move(members));
}

}  // namespace blink::inline BLINK_ABI
