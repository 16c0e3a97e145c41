// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// By block of a group: the number of its chunks that are known to be finished.
using block_clock = std::vector<std::uint32_t>;

/// The chunks that each block of a step program knows to be finished.
///
/// These are the block's own chunks, and the chunks known to the blocks that it waited for or
/// received from.
///
/// Source: vector clocks: F. Mattern, "Virtual time and global states of distributed systems",
///         1989.
class program_clocks {
 public:
  /// groups: by block; blocks of one group share clocks, blocks of different groups are never
  ///         ordered
  explicit program_clocks(std::vector<int> groups) : group_(std::move(groups)) {
    std::map<int, int> size;
    for (int const group : group_) place_.push_back(size[group]++);
    for (int const group : group_) {
      known_.emplace_back(static_cast<std::size_t>(size.at(group)), 0);
    }
    ended_.resize(group_.size());
  }

  [[nodiscard]] block_clock const& known(int block) const { return known_[index(block)]; }
  /// The number of chunks that the block has handled.
  [[nodiscard]] std::uint32_t position(int block) const { return known(block)[place(block)]; }

  void count_chunk(int block) { ++known_[index(block)][place(block)]; }
  void learn(int block, block_clock const& other) {
    auto& mine = known_[index(block)];
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], other[i]);
  }
  /// Stores what the block knows now, for the blocks that wait for its step.
  void end_step(int block, std::size_t step) { ended_[index(block)][step] = known(block); }
  /// Pre: `end_step(other, step)` was called.
  void learn_from_step(int block, int other, std::size_t step) {
    learn(block, ended_[index(other)].at(step));
  }

  /// True if the block knows that the other has handled its chunk number `position`.
  [[nodiscard]] bool is_over(int block, int other, std::uint32_t position) const {
    return group_[index(block)] == group_[index(other)] && known(block)[place(other)] >= position;
  }

 private:
  [[nodiscard]] static std::size_t index(int block) { return static_cast<std::size_t>(block); }
  [[nodiscard]] std::size_t place(int block) const {
    return static_cast<std::size_t>(place_[index(block)]);
  }

  // by block
  std::vector<int> group_;
  std::vector<int> place_;  // in the clocks of its group
  std::vector<block_clock> known_;
  std::vector<std::map<std::size_t, block_clock>> ended_;  // by step
};

}}}  // namespace blink::BLINK_ABI::detail
