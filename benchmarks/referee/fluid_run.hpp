// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

// A second simulator for the plans of blink: SimGrid. It shares no code with blink's own, which is
// in `blink/simulation`. This header does not know SimGrid.

namespace blink_bench {

/// A call of a plan's collective: the whole buffer, and the largest chunk of each tree.
struct fluid_call {
  double bytes = 0;
  std::vector<double> chunk_bytes;  ///< by tree
};

/// The rule by which messages share a link.
enum class fluid_sharing : std::uint8_t {
  fair,     ///< all at once, by max-min fairness
  in_turn,  ///< one after the other: a message waits until all links of its route are free
};

/// The times that no link states, and the credits of a tree edge.
struct fluid_options {
  fluid_sharing sharing = fluid_sharing::fair;
  double start_seconds = 5e-6;  ///< once, before the first chunk
  double step_seconds = 2e-6;   ///< of a rank, for each chunk and tree edge
  double bytes_per_unit = 0;    ///< bytes per second of one capacity unit; 0: from its name
  std::size_t window = 4;       ///< chunks of a tree edge that no rank has passed on; 0: any number
};

/// The time of a call in SimGrid, and the number of messages that its actors received.
struct fluid_result {
  double seconds = 0;
  std::int64_t messages = 0;
};

/// Runs calls of a plan in SimGrid, one after the other, each on idle links.
///
/// Each link of the machine is a link of SimGrid for one direction, and each path of a tree edge a
/// route. A tree edge is two actors: one sends its chunks to a mailbox, the other receives them.
///
/// SimGrid allows one platform in a process, so a child process simulates.
///
/// Pre:    the plan passes `check_plan` and is no barrier; bytes >= 0; chunk sizes are positive,
///         one for each tree.
/// Throws: blink::input_error for a unit without a known rate; std::runtime_error if the simulation
///         fails, with the cause, or if actors wait for each other without end.
[[nodiscard]] std::vector<fluid_result> run_fluid(blink::topology const& machine,
                                                  blink::plan const& plan,
                                                  std::vector<fluid_call> const& calls,
                                                  fluid_options const& options = {});

}  // namespace blink_bench
