// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

// Starts the processes of a communicator on this machine and watches them.

namespace blink::tools {

/// The program to start, and its options.
struct launch_request {
  std::vector<std::string> program;  ///< with its arguments; looked up in PATH
  int rank_count = 1;
  std::size_t memory_bytes = 0;            ///< limit of the shared memory; 0: `default_bytes`
  std::optional<double> deadline_seconds;  ///< of each wait, for all ranks
  bool labels = true;                      ///< put "[rank] " before each line of output
  bool keeps_going = false;                ///< let the other ranks continue when a rank fails
  bool binds = false;                      ///< each rank to its share of the cores
  /// before the remaining ranks are stopped
  std::chrono::milliseconds grace = std::chrono::seconds(1);
};

/// Starts one process for each rank, passes signals on to them and waits until all have ended.
///
/// When a rank fails (a status other than 0, or a signal), the other ranks have `grace` to end by
/// themselves, because their errors name the missing rank. Then they get SIGTERM and, after another
/// `grace`, SIGKILL. They also get SIGKILL when the launcher itself dies.
///
/// Returns: the status of the first rank that failed, or 128 plus the number of its signal; 0 if
///          none.
/// Throws:  input_error if the program cannot be run; resource_error if the system has no memory or
///          no processes left.
[[nodiscard]] int launch(launch_request const& request);

/// Returns a rank's share of the cores that this process may use, in the order of their numbers. It
/// is at least one core for each rank if there are enough, else one core that as few ranks as
/// possible share.
///
/// Throws: resource_error if the system does not report them.
[[nodiscard]] cpu_set_t share_of_cores(int rank, int rank_count);

}  // namespace blink::tools
