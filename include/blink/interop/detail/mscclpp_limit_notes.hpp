// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/mscclpp_program.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Notes on the limits that an execution plan exceeds, one for each limit.
class mscclpp_limit_notes {
 public:
  [[nodiscard]] std::vector<std::string> of(mscclpp_program const& program) {
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      auto const& rank = program.ranks[r];
      program_place const at{static_cast<int>(r)};
      require(at, static_cast<std::size_t>(std::max(0, rank.semaphores)), limits_.semaphores,
              "semaphores");
      for (std::size_t b = 0; b < rank.blocks.size(); ++b) {
        check_block(rank.blocks[b], {static_cast<int>(r), static_cast<int>(b)});
      }
    }
    return std::move(notes_);
  }

 private:
  void require(program_place const& at, std::size_t found, int most, std::string const& what) {
    if (found <= static_cast<std::size_t>(most) || !seen_.insert(what).second) return;
    notes_.push_back(in_words(at) + ": " + std::to_string(found) + " " + what + ", more than the " +
                     std::to_string(most) + " of the executor");
  }

  void check_block(mscclpp_block const& block, program_place const& at) {
    std::size_t operations = 0;
    for (auto const& segment : block.segments) {
      bool const is_loop = segment.loop_chunks > 0;
      operations += segment.operations.size() + (is_loop ? 1 : 0);
      if (is_loop) {
        require(at, segment.operations.size(), limits_.loop_operations, "operations in a loop");
      }
    }
    require(at, operations, limits_.operations, "operations");
    std::set<mscclpp_channel> channels;
    for (auto const& each : operations_of(block)) {
      auto const here = each.at(at.rank, at.block);
      auto const& op = *each.op;
      channels.insert(op.channels.begin(), op.channels.end());
      require(here, op.channels.size(), limits_.operation_channels, "channels of an operation");
      auto const most_places = limits_.operation_channels + local_places;
      require(here, std::max(op.sources.size(), op.destinations.size()), most_places,
              "places of an operation");
      require(here, static_cast<std::size_t>(op.barrier + 1), limits_.semaphores, "barriers");
    }
    for (auto const type : {mscclpp_channel_type::memory, mscclpp_channel_type::port}) {
      auto const count = std::count_if(channels.begin(), channels.end(),
                                       [&](auto const& channel) { return channel.type == type; });
      require(at, static_cast<std::size_t>(count), limits_.channels,
              std::string(to_text(type)) + " channels");
    }
  }

  static constexpr int local_places = 2;  // that an operation may have beside its channels
  mscclpp_limits limits_;
  std::set<std::string> seen_;
  std::vector<std::string> notes_;
};

[[nodiscard]] inline std::vector<std::string> limit_notes(mscclpp_program const& program) {
  return mscclpp_limit_notes().of(program);
}

}}}  // namespace blink::BLINK_ABI::detail
