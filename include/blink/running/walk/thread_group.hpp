// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <concepts>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// The threads that execute one call together: a CUDA block, or one host thread.
///
/// Semantics beyond the syntax: `thread_rank()` is below `size()` and different for each thread.
/// Thread 0 is the leader. All threads call `sync` and `from_leader` together. Both are barriers:
/// writes of a thread before them are visible to the other threads afterwards. `from_leader`
/// returns the leader's argument to all threads.
template <class G>
concept thread_group = requires(G const group, bool said) {
  { group.thread_rank() } -> std::same_as<std::uint32_t>;
  { group.size() } -> std::same_as<std::uint32_t>;
  { group.sync() } -> std::same_as<void>;
  { group.from_leader(said) } -> std::same_as<bool>;
};

/// A group whose threads can also ask whether any of them passes true.
///
/// Semantics beyond the syntax: all threads call `any` together. It is a barrier, and returns to
/// all threads whether one passed true.
template <class G>
concept voting_group = thread_group<G> && requires(G const group, bool said) {
  { group.any(said) } -> std::same_as<bool>;
};

/// One of the groups that the threads of a block are divided into, each with a barrier of its own:
/// `warps<4>`.
///
/// Semantics beyond the syntax: `index()` is below `count()`, and different for each group of the
/// block.
template <class G>
concept block_part = thread_group<G> && requires(G const group) {
  { group.index() } -> std::same_as<std::uint32_t>;
  { group.count() } -> std::same_as<std::uint32_t>;
};

/// A group of host threads that moves data as a device does, 16 bytes for each access. Kernels are
/// tested with it where there is no GPU.
template <class G>
concept device_like_group = thread_group<G> && G::moves_as_device;

/// A single host thread.
struct lone_thread {
  [[nodiscard]] BLINK_HOST_DEVICE constexpr std::uint32_t thread_rank() const { return 0; }
  [[nodiscard]] BLINK_HOST_DEVICE constexpr std::uint32_t size() const { return 1; }
  BLINK_HOST_DEVICE constexpr void sync() const {}
  [[nodiscard]] BLINK_HOST_DEVICE constexpr bool from_leader(bool said) const { return said; }
  [[nodiscard]] BLINK_HOST_DEVICE constexpr bool any(bool said) const { return said; }
};
static_assert(voting_group<lone_thread> && !device_like_group<lone_thread>);
static_assert(!block_part<lone_thread>);
static_assert(!thread_group<int>);

namespace detail {

/// True if the group works as a block of a device does: its threads share the work on connections,
/// and move 16 bytes for each access. On hosts the leader works on connections alone, because a
/// barrier costs more.
template <class Group>
inline constexpr bool works_as_device = BLINK_DEVICE_PASS != 0 || device_like_group<Group>;

/// The numbers below `count` that one thread of a group has of them, as a range.
struct thread_share {
  struct iterator {
    std::uint32_t at;
    std::uint32_t step;
    [[nodiscard]] BLINK_HOST_DEVICE constexpr std::uint32_t operator*() const { return at; }
    BLINK_HOST_DEVICE constexpr iterator& operator++() {
      at += step;
      return *this;
    }
    [[nodiscard]] BLINK_HOST_DEVICE constexpr bool operator!=(std::uint32_t end) const {
      return at < end;
    }
  };
  std::uint32_t first;
  std::uint32_t step;
  std::uint32_t count;
  [[nodiscard]] BLINK_HOST_DEVICE constexpr iterator begin() const { return {first, step}; }
  [[nodiscard]] BLINK_HOST_DEVICE constexpr std::uint32_t end() const { return count; }
};

/// Divides the numbers below `count` among the threads of a group.
template <thread_group Group>
[[nodiscard]] BLINK_HOST_DEVICE constexpr thread_share share_of(Group const group,
                                                                std::uint32_t count) {
  return {group.thread_rank(), group.size(), count};
}

/// Calls `use(group)` with the threads that work on connections.
BLINK_EITHER_SIDE
template <thread_group Group, class Use>
BLINK_HOST_DEVICE void on_connections(Group const group, Use const& use) {
  if constexpr (works_as_device<Group>) {
    use(group);
  } else {
    if (group.thread_rank() == 0) use(lone_thread{});
  }
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
