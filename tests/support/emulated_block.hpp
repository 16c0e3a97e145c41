// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/running/walk/team_group.hpp>
#include <blink/running/walk/thread_group.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace blink_test {

/// The state that the threads of an emulated block share, and that of each part of it.
class emulated_team : public blink::team {
 public:
  explicit emulated_team(std::uint32_t size) : blink::team(size) {
    for (std::uint32_t each = 1; each <= size; ++each) {
      auto& parts = parts_.emplace_back();
      for (std::uint32_t k = 0; k < size / each; ++k) {
        parts.push_back(std::make_unique<blink::team>(each));
      }
    }
  }
  /// The team of part `index`, with `threads` threads in each part.
  [[nodiscard]] blink::team& part(std::uint32_t threads, std::uint32_t index) const {
    return *parts_[threads - 1][index];
  }
  [[nodiscard]] std::uint32_t parts(std::uint32_t threads) const {
    return static_cast<std::uint32_t>(parts_[threads - 1].size());
  }

 private:
  std::vector<std::vector<std::unique_ptr<blink::team>>>
      parts_;  // by threads of a part, then index
};

/// Host threads that act as a CUDA block, or as a part of one. They move chunks by the code of
/// kernels. Only load and store instructions and barriers differ from a device.
class emulated_group : public blink::team_group {
 public:
  static constexpr bool moves_as_device = true;
  using blink::team_group::team_group;
};
static_assert(blink::voting_group<emulated_group> && blink::device_like_group<emulated_group>);
static_assert(!blink::device_like_group<blink::team_group>);

/// The emulated `blink::warps<Count>`. Its warps have one thread each.
template <std::uint32_t Count>
class emulated_warps : public emulated_group {
 public:
  emulated_warps(emulated_team const& block, std::uint32_t thread_rank)
      : emulated_group(block.part(Count, thread_rank / Count), thread_rank % Count),
        index_(thread_rank / Count),
        count_(block.parts(Count)) {}
  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  std::uint32_t index_, count_;
};
static_assert(blink::block_part<emulated_warps<2>>);

/// A whole block.
class emulated_block : public emulated_group {
 public:
  emulated_block(emulated_team& shared, std::uint32_t thread_rank)
      : emulated_group(shared, thread_rank), shared_(&shared) {}

  /// Pre: the block has a multiple of `Count` threads.
  template <std::uint32_t Count>
  [[nodiscard]] friend emulated_warps<Count> part_of(emulated_block const& block) {
    return {*block.shared_, block.thread_rank()};
  }

 private:
  emulated_team* shared_;
};

}  // namespace blink_test
