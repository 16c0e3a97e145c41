// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/program_clocks.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// An event of a process: of a thread block, of a port channel, or of a rank's user.
struct process_event {
  int process = 0;
  std::uint32_t position = 0;  ///< counted from 1
  friend auto operator<=>(process_event const&, process_event const&) = default;
};

/// The events that a process knows to have happened before.
///
/// There are two kinds of knowledge. An event is over if its loads have ended, so that its sources
/// may change. It is visible if its stores can also be read. Relaxed signals and packets only show
/// that an event is over.
///
/// Source: vector clocks: F. Mattern, "Virtual time and global states of distributed systems",
///         1989. Exceptions beyond the prefix, as in version vectors: D. Malkhi, D. Terry, "Concise
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
    for (std::size_t i = 0; i < visible_.size(); ++i) {
      visible_[i] = std::max(visible_[i], other.visible_[i]);
    }
    learn_over(other);
  }
  /// Learns only that the other's events are over.
  void learn_over(process_knowledge const& other) {
    for (std::size_t i = 0; i < over_.size(); ++i) over_[i] = std::max(over_[i], other.over_[i]);
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
