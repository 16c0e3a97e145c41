// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include "../arguments.hpp"
#include "../checked_plan.hpp"
#include "../plan_sizes.hpp"
#include "../progress.hpp"
#include "../recorded_calls.hpp"
#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The data of `blink report`: one JSON document, whose tables the page shows and --csv writes.
//
// The document has "title", "sentence", "remarks" and "tables". Of a machine it also has "machine",
// "plan" (a plan file), "proof" and "time_line", of records "calls", and of a program "program".

namespace blink::tools {

using report_json = nlohmann::ordered_json;

/// A column of a table of a report. Its cells are numbers, texts or null.
struct report_column {
  std::string title;
  std::string unit = {};  ///< of numbers
  bool has_bar = false;   ///< the page draws a bar beside the number
  std::string of = {};    ///< title of the column that a full bar stands for; empty: the largest
};

/// Adds a table with its columns and rows to a report.
///
/// caption: a sentence that says how to read it
void add_table(report_json& report, std::string const& name, std::string const& title,
               std::string const& caption, std::vector<report_column> const& columns,
               report_json rows);

/// The settings of a report of a machine and its plan.
struct plan_report_settings {
  machine_choice choice;  ///< by which the machine was reduced
  plan_request request;
  cost_options cost;
  double bytes = 0;  ///< of the buffer of the time line
  work_budget budget{};
};

/// A plan beside the plan of the planner `ring`.
struct plan_and_ring {
  plan_and_report planned;
  std::optional<plan> ring;  ///< nothing: no ring, or one that takes long to find
};

/// Returns the plan beside the ring of the same collective and root.
[[nodiscard]] plan_and_ring beside_ring(allocation const& place, plan_and_report planned);

/// Adds the nodes and links of a machine.
void describe_machine(report_json& report, topology const& machine);

/// Adds the plan, its trees, its loads and the proof of its bound.
void describe_plan(report_json& report, allocation const& place, plan_and_ring const& plans);

/// Adds the simulated time line, and the times for sizes of the buffer beside those of the ring.
void describe_times(report_json& report, allocation const& place, plan_and_ring const& plans,
                    plan_report_settings const& settings, progress& bar);

/// Adds the rates of other sets of ranks beside their rings, and the rates of changed machines.
void describe_changes(report_json& report, allocation const& place, plan_and_report const& planned,
                      plan_report_settings const& settings, progress& bar);

/// Adds the differences from `before` to `after`.
void describe_difference(report_json& report, plan_and_report const& before,
                         plan_and_report const& after, topology const& machine);

/// Adds what records of calls show.
void describe_records(report_json& report, calls_of_ranks const& calls);

/// True for an algorithm of MSCCL, an execution plan of MSCCL++, a schedule in GOAL or a Chakra
/// trace.
[[nodiscard]] bool is_reported_program(std::string_view text);

/// Adds the steps of a program of another runtime and the verdict of its checker; with a machine,
/// also the load on its links.
///
/// Throws: input_error if the text is no such program.
void describe_program(report_json& report, std::string const& text, std::string const& file,
                      std::optional<topology> const& machine);

/// Returns the page with the data, and with a drawing that may be empty.
[[nodiscard]] std::string report_page(report_json const& report, std::string const& drawing);

/// Returns the data as JSON text in ASCII.
[[nodiscard]] std::string report_text(report_json const& report);

/// A file that a report consists of.
struct report_file {
  std::string path;
  std::string text;
};

/// Returns the tables as CSV files of a folder.
[[nodiscard]] std::vector<report_file> report_csv(report_json const& report,
                                                  std::string const& folder);

/// Writes all files or none.
///
/// may_replace: false: a file that exists is refused
/// Throws:      input_error that names the file or folder.
void write_report_files(std::vector<report_file> const& files, bool may_replace);

}  // namespace blink::tools
