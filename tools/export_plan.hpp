// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace blink::tools {

/// Plan files of other runtimes.
struct export_options {
  std::string msccl;  ///< file; empty: none
  std::string dialect = "azure";
  std::string mscclpp;  ///< file; empty: none
  bool out_of_place = false;
  std::string goal;    ///< file; empty: none
  std::string chakra;  ///< prefix of the ranks' files; empty: none
  int slices = 1;
  double add_nanoseconds = 0;  ///< to add a byte
  int instances = 1;
  int chunks = 512;
};

void add_export_options(CLI::App& command, export_options& options);

/// Writes the requested files, and prints what they hold.
///
/// bytes:  of the buffer, for formats with sizes; 0: not stated
/// Throws: planning_error if the plan does not fit; input_error.
void export_plan(topology const& machine, plan const& p, export_options const& options,
                 std::int64_t bytes);

}  // namespace blink::tools
