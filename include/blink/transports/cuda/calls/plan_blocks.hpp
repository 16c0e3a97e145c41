// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The number of tasks that one device walks in a call, by rank on it.
struct device_tasks {
  int device = 0;
  std::vector<std::uint32_t> of_rank;
  std::vector<std::uint32_t> waiting{};  ///< of these, those that only wait; empty: none
};

/// The assignment of a call's tasks to blocks, equal on all devices.
struct block_plan {
  std::uint32_t threads = 0;          ///< of a block
  std::uint32_t tasks_per_block = 1;  ///< of one rank
  bool waits_apart = true;            ///< true: a rank's tasks that only wait share one block
  std::vector<std::uint32_t> blocks;  ///< by device, in the order listed
};

namespace detail {

[[nodiscard]] inline std::uint32_t blocks_for(device_tasks const& here, block_plan const& plan) {
  std::uint32_t result = 0;
  for (std::size_t k = 0; k < here.of_rank.size(); ++k) {
    bool const is_apart = plan.waits_apart && k < here.waiting.size() && here.waiting[k] > 0;
    std::uint32_t const moving = here.of_rank[k] - (is_apart ? here.waiting[k] : 0);
    result += (moving + plan.tasks_per_block - 1) / plan.tasks_per_block + (is_apart ? 1 : 0);
  }
  return result;
}

}  // namespace detail

/// Chooses blocks that all run at once, because a task may wait for any other task of its call.
/// Each task has its own block if there is room, with as many threads as fit. Otherwise blocks have
/// the smallest size, and as few tasks as possible share one, in turns. Tasks that only wait share
/// a block of their own as long as each rank can have two blocks.
///
/// sizes:    allowed numbers of threads of a block, the preferred one first
/// capacity: (device, threads) -> how many such blocks the device runs at once
/// Throws:   precondition_error if a device has more ranks with tasks than it runs blocks at once.
template <class Capacity>
[[nodiscard]] block_plan plan_blocks(std::vector<device_tasks> const& devices,
                                     std::vector<std::uint32_t> const& sizes,
                                     Capacity const& capacity) {
  expects(!sizes.empty(), "plan_blocks: sizes is empty, expected at least one size of blocks");
  block_plan result;
  auto const fits = [&] {
    return std::all_of(devices.begin(), devices.end(), [&](device_tasks const& here) {
      return detail::blocks_for(here, result) <= capacity(here.device, result.threads);
    });
  };
  for (std::uint32_t const threads : sizes) {
    result.threads = threads;
    if (fits()) break;
  }
  std::uint32_t largest_task_count = 1;
  for (auto const& here : devices) {
    for (std::uint32_t const tasks : here.of_rank)
      largest_task_count = std::max(largest_task_count, tasks);
  }
  while (!fits()) {
    if (result.tasks_per_block >= largest_task_count && result.waits_apart) {
      result.waits_apart = false;
      result.tasks_per_block = 1;
      continue;
    }
    if (result.tasks_per_block >= largest_task_count) {
      for (auto const& here : devices) {
        std::uint32_t const wanted = detail::blocks_for(here, result);
        std::uint32_t const room = capacity(here.device, result.threads);
        if (wanted <= room) continue;
        throw precondition_error("device " + std::to_string(here.device) + " runs " +
                                 std::to_string(room) + " blocks of " +
                                 std::to_string(result.threads) + " threads at once, and its " +
                                 std::to_string(wanted) + " ranks need one each");
      }
    }
    ++result.tasks_per_block;
  }
  for (auto const& here : devices) {
    result.blocks.push_back(detail::blocks_for(here, result));
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
