// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

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
  int instances = 1;
  int chunks = 512;

  [[nodiscard]] bool is_wanted() const { return !msccl.empty() || !mscclpp.empty(); }
};

void add_export_options(CLI::App& command, export_options& options);

/// Writes the requested files, and prints what they hold.
/// Throws: planning_error if the plan does not fit; input_error.
void export_plan(topology const& machine, plan const& p, export_options const& options);

}  // namespace blink::tools
