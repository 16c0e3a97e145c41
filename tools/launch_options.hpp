// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher.hpp"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace blink::tools {

/// The options of commands that start a program in several processes.
struct launch_options {
  int rank_count = 0;  ///< 0: not given
  std::string hosts;
  std::string shell = "ssh";
  std::string blink;
  std::vector<std::string> environment;
  std::string memory;
  double deadline = 0;
  bool no_labels = false;
  bool bind = false;
  std::vector<std::string> program;
};

/// Adds the options and PROGRAM to a command.
///
/// count: the names of the option for the number of ranks
void add_launch_options(CLI::App& command, launch_options& options, std::string const& count);

/// Returns the request that the options describe. Throws: input_error.
[[nodiscard]] launch_request make_launch_request(launch_options const& options);

}  // namespace blink::tools
