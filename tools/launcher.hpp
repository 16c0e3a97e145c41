// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

// Starts the processes of a communicator on this machine and looks after them.

namespace blink::tools {

/// What to start, and how.
struct launch_request {
  std::vector<std::string> program;  ///< with its arguments; looked up in PATH
  int rank_count = 1;
  std::size_t memory_bytes = 0;            ///< limit of the shared memory; 0: half of the machine's
  std::optional<double> deadline_seconds;  ///< of each wait, for all ranks
  bool labels = true;                      ///< put "[rank] " before each line of output
  bool keeps_going = false;                ///< let the others go on when a rank fails
  bool binds = false;                      ///< each rank to its share of the cores
  std::chrono::milliseconds grace = std::chrono::seconds(1);  ///< before the rest is stopped
};

/// Starts one process for each rank, passes signals on to them and waits until all have ended.
///
/// When a rank ends with another status than 0, or by a signal, the others have `grace` to end by
/// themselves (they are reported who is missing), then they get SIGTERM and, as long again, SIGKILL.
/// They also get SIGKILL when the launcher itself dies.
///
/// Returns: the status of the first rank that failed, or 128 plus the number of its signal; 0 if none.
/// Throws:  input_error if the program cannot be run, resource_error if the system has no memory or
///          no processes left.
[[nodiscard]] int launch(launch_request const& request);

/// The share that a rank has of the cores that this process may use, in the order of their numbers: several where there
/// are enough for all ranks, else one, which as few as possible share.
///
/// Throws: resource_error if the system does not tell them.
[[nodiscard]] cpu_set_t share_of_cores(int rank, int rank_count);

}  // namespace blink::tools
