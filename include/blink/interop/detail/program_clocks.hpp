// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

// What the blocks of a step program, and the processes of an execution plan, know of each other.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// By block or process: the number of its chunks or events that are known to be finished.
///
/// Source: vector clocks: F. Mattern, "Virtual time and global states of distributed systems",
///         1989.
using block_clock = std::vector<std::uint32_t>;

/// Adds all that another clock knows.
/// Pre: the clocks are of the same blocks or processes.
inline void join(block_clock& clock, block_clock const& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

/// The chunks that each block of a step program knows to be finished.
///
/// These are the block's own chunks, and the chunks known to the blocks that it waited for or
/// received from.
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
  void learn(int block, block_clock const& other) { join(known_[index(block)], other); }
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

/// An event of a process: of a thread block, of a port channel, or of a rank's user.
struct process_event {
  int process = 0;
  std::uint32_t position = 0;  ///< counted from 1
  friend auto operator<=>(process_event const&, process_event const&) = default;
  friend bool operator==(process_event const&, process_event const&) = default;
};

/// The events that a process knows to have happened before.
///
/// There are two kinds of knowledge. An event is over if its loads have ended, so that its sources
/// may change. It is visible if its stores can also be read. Relaxed signals and packets only show
/// that an event is over.
///
/// Source: exceptions beyond the prefix, as in version vectors: D. Malkhi, D. Terry, "Concise
///         version vectors in WinFS", 2007.
class process_knowledge {
 public:
  process_knowledge() = default;
  explicit process_knowledge(std::size_t processes) : visible_(processes, 0), over_(visible_) {}

  [[nodiscard]] bool sees(process_event const& event) const {
    return visible_[index(event)] >= event.position;
  }
  [[nodiscard]] bool is_over(process_event const& event) const {
    return over_[index(event)] >= event.position ||
           std::binary_search(single_.begin(), single_.end(), event);
  }

  /// Adds all events of a process up to a position.
  void add_until(process_event const& event) {
    auto& visible = visible_[index(event)];
    visible = std::max(visible, event.position);
    auto& over = over_[index(event)];
    over = std::max(over, event.position);
  }
  /// Adds one event, which is over.
  void add_over(process_event const& event) {
    if (is_over(event)) return;
    single_.insert(std::lower_bound(single_.begin(), single_.end(), event), event);
  }

  void learn(process_knowledge const& other) {
    join(visible_, other.visible_);
    learn_over(other);
  }
  /// Learns only that the other's events are over.
  void learn_over(process_knowledge const& other) {
    join(over_, other.over_);
    if (single_.empty() && other.single_.empty()) return;
    std::vector<process_event> all;
    std::set_union(single_.begin(), single_.end(), other.single_.begin(), other.single_.end(),
                   std::back_inserter(all));
    single_.clear();
    for (auto const& event : all) {  // in the order of positions
      auto& over = over_[index(event)];
      if (event.position <= over) continue;
      if (event.position == over + 1) {
        over = event.position;
      } else {
        single_.push_back(event);
      }
    }
  }

 private:
  [[nodiscard]] static std::size_t index(process_event const& event) {
    return static_cast<std::size_t>(event.process);
  }

  block_clock visible_;                // by process
  block_clock over_;                   // at least as much
  std::vector<process_event> single_;  // over beyond that, in order
};

}}}  // namespace blink::BLINK_ABI::detail
