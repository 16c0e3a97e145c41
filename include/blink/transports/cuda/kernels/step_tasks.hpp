// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/transports/cuda/kernels/copy_step.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// One task of one rank.
struct placed_task {
  tree_task* here = nullptr;
  int rank = 0;
};

namespace detail {

/// Returns the layout of tables whose slots another class makes.
[[nodiscard]] inline connection_layout without_slots(connection_layout layout) {
  layout.reaches = false;
  layout.ranks_share =
      reinterpret_cast<void*>(std::uintptr_t{128});  // only an address: never accessed
  return layout;
}

/// Throws: precondition_error if a rank has more children than one kernel combines.
inline void expect_few_sources(prepared_schedule const& prepared) {
  for (int rank = 0; rank < prepared.source().rank_count; ++rank) {
    for (auto const kind : {collective::reduce, collective::broadcast, collective::all_reduce}) {
      auto const tasks = prepared.tables().tasks(rank, kind);
      for (std::size_t k = 0; k < tasks.count; ++k) {
        auto const& here = tasks.first[k];
        if (here.in_count <= copy_step::most_sources) continue;
        throw precondition_error("the schedule: rank " + std::to_string(rank) + " has " +
                                 std::to_string(here.in_count) + " children in tree " +
                                 std::to_string(here.tree) + ", expected at most " +
                                 std::to_string(copy_step::most_sources));
      }
    }
  }
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
