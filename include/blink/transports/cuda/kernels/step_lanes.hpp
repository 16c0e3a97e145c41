// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/wire_tables.hpp>
#include <blink/running/walk/lane.hpp>
#include <blink/transports/cuda/kernels/copy_step.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// One lane of one rank.
struct placed_lane {
  lane* here = nullptr;
  int rank = 0;
};

namespace detail {

/// Of tables whose slots are made elsewhere.
[[nodiscard]] inline wire_layout without_slots(wire_layout layout) {
  layout.reaches = false;
  layout.ranks_share =
      reinterpret_cast<void*>(std::uintptr_t{128});  // only addresses: never touched
  return layout;
}

/// Throws: precondition_error if a rank has more children than one kernel combines.
inline void expect_few_sources(prepared_schedule const& plan) {
  for (int rank = 0; rank < plan.source().rank_count; ++rank) {
    for (auto const kind : {collective::reduce, collective::broadcast, collective::all_reduce}) {
      auto const lanes = plan.tables().lanes(rank, kind);
      for (std::size_t k = 0; k < lanes.count; ++k) {
        auto const& here = lanes.first[k];
        if (here.in_count <= copy_step::most_sources) continue;
        throw precondition_error("the schedule: rank " + std::to_string(rank) + " has " +
                                 std::to_string(here.in_count) + " children in tree " +
                                 std::to_string(here.tree) + ", a kernel combines at most " +
                                 std::to_string(copy_step::most_sources));
      }
    }
  }
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
