// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/order.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/detail/call_frame.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/schedule_blocks.hpp>

#include <cstddef>
#include <cstdint>

// The tasks of a call: what each moves, in which chunks, and where it adds early arrivals.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Returns a number that is equal for calls of a rank whose tasks are set in the same way. Other
/// calls have it only by chance, and other ranks have other numbers.
[[nodiscard]] inline std::uint64_t id_of(call_frame const& call,
                                         call_parameters const& parameters) {
  auto const types = reinterpret_cast<std::uintptr_t>(&call.types);
  return parameters.hash() + types * 0x8cb92ba72f3d8dd7u + static_cast<std::uint64_t>(call.order) +
         1;
}

/// The segment of a task's tree, in elements.
template <class = when_used>
[[nodiscard]] block_range block_of(call_frame const& call, tree_task const& here) {
  if (call.size.blocks == nullptr) {
    return call.prepared.equal_block(here, call.kind, call.size.count);
  }
  auto const& source = call.prepared.source();
  return call.size.blocks[block_number(source, source.trees[here.tree], call.kind)];
}

/// Gives memory for sums to tasks that may combine some arrivals before others.
template <class = when_used>
void give_memory_for_sums(call_frame& call) {
  auto const has_sums = [](tree_task const& here) {
    return here.in_count > 1 && here.in_count <= early_sums::most_arrivals;
  };
  auto const bytes = [&](tree_task const& here) {
    std::size_t const most = here.chunk < here.count ? here.chunk : here.count;
    std::size_t const all = most * call.types.accumulator_bytes;
    return has_sums(here) ? whole_lines(all) : 0;
  };
  std::size_t needed = 0;
  for (std::size_t k = 0; k < call.task_count(); ++k) needed += bytes(call.tasks.first[k]);
  std::byte* next = needed == 0 ? nullptr : call.prepared.sums_of(call.rank).at_least(needed);
  for (std::size_t k = 0; k < call.task_count(); ++k) {
    auto& here = call.tasks.first[k];
    here.early.sums = has_sums(here) ? next : nullptr;
    next += bytes(here);
  }
}

/// Sets what follows from the sizes and types of a call in its tasks. It does nothing if the rank's
/// last call along this schedule was the same: programs repeat calls, and setting the tasks is a
/// fifth of the instructions of an all-reduce of 8 KiB among 8 threads.
///
/// Time:   O(connections of the tasks), or a comparison.
/// Throws: what the allocation and the chunking policy throw.
template <class = when_used>
void set_tasks(call_frame& call, call_parameters const& parameters) {
  auto const id = id_of(call, parameters);
  auto& set_for = call.prepared.set_for(call.rank);
  bool const has_equal_blocks = call.size.blocks == nullptr;  // others may have equal ids
  if (call.is_eager || (has_equal_blocks && set_for == id)) return;
  set_for = 0;
  auto const& types = call.types;
  for (std::size_t k = 0; k < call.task_count(); ++k) {
    auto& here = call.tasks.first[k];
    call.prepared.set_call(here, call.kind, block_of(call, here), types.sizes, call.order,
                           types.cut, call.size.chunk_bytes, call.size.unit);
  }
  if (call.order == order_promise::any) give_memory_for_sums(call);
  if (has_equal_blocks) set_for = id;
}

}}}  // namespace blink::BLINK_ABI::detail
