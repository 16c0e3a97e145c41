// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

// Starts the processes of a communicator, on this machine or on several, and watches them.

namespace blink::tools {

/// A host, and how many ranks run there.
struct launch_host {
  std::string name;
  int rank_count = 1;
};

/// The program to start, and its options.
struct launch_request {
  std::vector<std::string> program;  ///< with its arguments; looked up in PATH
  int rank_count = 1;                ///< of all hosts
  std::vector<launch_host> hosts;    ///< in the order of their ranks; empty: this machine
  /// the words of a command that runs `COMMAND HOST SCRIPT` on a host, such as ssh
  std::vector<std::string> shell{"ssh"};
  std::string blink = "blink";             ///< this command on the hosts
  std::vector<std::string> environment;    ///< NAME=VALUE, besides this process's own
  std::size_t memory_bytes = 0;            ///< limit of the shared memory; 0: `default_bytes`
  std::optional<double> deadline_seconds;  ///< of each wait, for all ranks
  bool labels = true;                      ///< put "[rank] " before each line of output
  bool keeps_going = false;                ///< let the other ranks continue when a rank fails
  bool binds = false;                      ///< each rank to its share of the cores
  /// how often a rank that fails is started again, all ranks together; the others continue
  int restarts = 0;
  /// before the remaining ranks are stopped
  std::chrono::milliseconds grace = std::chrono::seconds(1);
};

/// Starts one process for each rank, passes signals on to them and waits until all have ended.
///
/// On other hosts an agent (`run_agent`), which the shell starts, starts the ranks there.
///
/// When a rank fails (a status other than 0, or a signal), the other ranks have `grace` to end by
/// themselves, because their errors name the missing rank. Then they get SIGTERM and, after another
/// `grace`, SIGKILL. They also get SIGKILL when the launcher itself dies.
///
/// Returns: the status of the first rank that failed, or 128 plus the number of its signal; 0 if
///          none.
/// Throws:  input_error if the program cannot be run, or an agent cannot be started; resource_error
///          if the system has no memory or no processes left.
[[nodiscard]] int launch(launch_request const& request);

/// Starts ranks of this host for a launcher, with which it exchanges messages on standard input and
/// output. It ends when all ranks have ended, or with the launcher. Returns the status of this
/// process.
[[nodiscard]] int run_agent();

/// Returns a rank's share of the cores that this process may use, in the order of their numbers. It
/// is at least one core for each rank if there are enough, else one core that as few ranks as
/// possible share.
///
/// Throws: resource_error if the system does not report them.
[[nodiscard]] cpu_set_t share_of_cores(int rank, int rank_count);

}  // namespace blink::tools
