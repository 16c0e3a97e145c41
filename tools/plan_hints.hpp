// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include "arguments.hpp"
#include "checked_plan.hpp"
#include "table_files.hpp"

#include <string>

namespace CLI {
class App;
}

namespace blink::tools {

/// Options of `blink plan` that restrict the plan.
struct hint_options {
  std::string file;
  std::string weight_unit;
  int max_trees = 0;       ///< 0: any
  int max_height = 0;      ///< 0: any
  int trees_per_root = 0;  ///< 0: any
  int frontier = 0;        ///< 0: not requested

  /// Returns the options of the file, with those of the command line in their place. Throws
  /// input_error.
  [[nodiscard]] plan_constraints options() const;
};
void add_hint_options(CLI::App& command, hint_options& options);

/// Returns a restricted plan that the checker accepts. Prints the cost of each restriction.
///
/// files: of the table of restrictions
[[nodiscard]] plan_and_report plan_with_hints(allocation const& place, plan_request const& request,
                                              table_files const& files);

/// Prints the rate for each number of trees per root at which it grows, up to `most`.
///
/// files: of the table
void show_frontier(topology const& machine, plan_request const& request, int most,
                   table_files const& files);

}  // namespace blink::tools
