// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/schedule/tuning_table.hpp>
#include <blink/simulation/simulate.hpp>
#include <blink/topology/topology.hpp>

#include "arguments.hpp"
#include "table_files.hpp"

#include <string>

namespace CLI {
class App;
}

namespace blink::tools {

/// The parameters of the cost model, as options give them.
struct cost_options {
  double step_microseconds = cost_parameters{}.step_seconds * 1e6;
  double start_microseconds = cost_parameters{}.start_seconds * 1e6;
  double unit_rate = 0;  ///< GB/s of one unit of capacity; 0: from the unit's name

  [[nodiscard]] cost_parameters parameters() const;
  [[nodiscard]] simulation_options simulated() const;  ///< with the same costs
  /// Returns bytes per second for one unit of capacity. Throws: input_error if neither the option
  /// nor the unit's name gives it.
  [[nodiscard]] double rate_of_unit(topology const& machine) const;
};
void add_cost_options(CLI::App& command, cost_options& options);

/// Options of `blink plan --sizes`.
struct size_options {
  std::string sizes;       ///< empty: not requested
  std::string algorithms;  ///< a file; also without sizes
  cost_options cost;
};
void add_size_options(CLI::App& command, size_options& options);

/// Prints the fastest planner for each size and the sizes where it changes.
///
/// files: of the table of sizes
void show_sizes(allocation const& place, plan_request const& request, size_options const& options,
                table_files const& files);

/// Returns text such as "1.5K" or "16M" if that is exact, else the number.
[[nodiscard]] std::string bytes_in_words(std::size_t bytes);

}  // namespace blink::tools
