// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/cluster.hpp>
#include <blink/topology/readers/reading_options.hpp>
#include <blink/topology/topology.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Common code of the subcommands: parsing arguments, and formatting numbers.

namespace blink::tools {

/// Parses ids such as "0,1,4-6". Throws input_error with the option and the part that is no number.
[[nodiscard]] std::vector<int> read_ids(std::string const& option, std::string const& text);

/// Parses a size such as "64", "4K", "16M" or "1G" in bytes. Throws input_error with the option.
[[nodiscard]] std::size_t read_bytes(std::string const& option, std::string const& text);

/// The sizes of a table's rows: "8:1G" is 8, 16, 32 ... 1G; "1M" is one size.
struct size_range {
  std::size_t first = 0;
  std::size_t last = 0;
  /// Returns `first`, doubled while less than `last`, then `last`.
  [[nodiscard]] std::vector<std::size_t> sizes() const;
};

/// Parses a range of sizes. Throws: input_error with the option, unless 1 <= first <= last.
[[nodiscard]] size_range read_sizes(std::string const& option, std::string const& text);

/// Parses a collective, with "-" and "_" alike. Throws input_error with all names.
[[nodiscard]] collective read_collective(std::string const& text);

/// Parses --root: an id, or nullopt for "best". Throws input_error.
[[nodiscard]] std::optional<int> read_root(std::string const& text);

/// The arguments of a command that choose its machine.
struct machine_choice {
  std::string machine;  ///< a built-in name or a file
  std::string ranks;    ///< empty for all
  /// a kind, "all", or "auto": the fastest kind that alone joins all ranks
  std::string links = "auto";
  reading_options reading;
  std::vector<std::string> nodes;  ///< machines of the nodes, where `machine` is that of a cluster
  cluster_options cluster;

  /// Reads the machine. Throws: input_error.
  [[nodiscard]] topology read() const;
  [[nodiscard]] machine_choice on_all_links() const {
    auto result = *this;
    result.links = "all";
    return result;
  }
};

/// The text of MACHINE in help.
inline constexpr char const* about_machines =
    "built-in name (blink topo --list) or a file, - for standard input: JSON,\n"
    "XML of NCCL, RCCL or hwloc, tables of nvidia-smi, rocm-smi, amd-smi or xpu-smi, a\n"
    "matrix of GB/s, TACCL, ASTRA-sim, ns-3; FILE:4 for four joined, or Slurm's\n"
    "topology.conf with --node";

/// Adds --ranks, --link-rate and --strict to a command. An empty text for --ranks is refused: it
/// comes from a script whose variable is unset.
///
/// about: what the ranks of --ranks do
void add_reading_options(CLI::App& command, machine_choice& choice, std::string const& about);

/// Adds the same and MACHINE, and returns the option MACHINE.
CLI::Option* add_machine_options(CLI::App& command, machine_choice& choice,
                                 std::string const& about);

/// The arguments of a command that plans one collective on its machine.
struct plan_choice : machine_choice {
  std::string collective = "all_reduce";
  std::string root = "best";
  std::string planner = planned_by::exact;

  /// Throws: input_error that names the option.
  [[nodiscard]] plan_request request() const {
    return {read_collective(collective), read_root(root), planner};
  }
};

/// Adds --collective, --root, --planner and --links to a command.
void add_plan_options(CLI::App& command, plan_choice& choice);

/// Adds an option for a file that the command writes, and --force once. Without --force a file that
/// exists is refused, before any work is done.
CLI::Option* add_output_option(CLI::App& command, std::string const& names, std::string& file,
                               std::string const& about);

/// Returns why a command may not write a file; empty if the file is new, or --force was given.
[[nodiscard]] std::string kept_file(CLI::App const& command, std::string const& path);

/// The machine that a command works on: MACHINE reduced to --ranks and --links.
struct allocation {
  topology machine;   ///< the requested ranks, and the links that may be used
  std::string links;  ///< the only kind of link that is used; empty: all
  topology whole;     ///< MACHINE, against which plans are checked
};

/// Reads a machine and reduces it to ranks and links. Throws: input_error.
[[nodiscard]] allocation read_part(machine_choice const& choice);
/// The same of a machine that was read before: a pipe can be read once.
[[nodiscard]] allocation part_of(topology whole, machine_choice const& choice);

/// The same for planning a collective. Throws input_error also if some ranks have no path between
/// them, unless the collective has a root: then its planner decides which paths it needs.
[[nodiscard]] allocation read_allocation(machine_choice const& choice, collective kind);
/// The same of a machine that was read before.
[[nodiscard]] allocation allocation_of(topology whole, machine_choice const& choice,
                                       collective kind);

/// Returns text such as "62.5 GB/s (125/2)", with the fraction only if the decimal is not exact.
[[nodiscard]] std::string in_words(rational const& value, std::string const& unit);

/// Returns text such as "97.4 %". A rate below the bound never shows as "100.0 %": it has as many
/// decimals as that takes.
[[nodiscard]] std::string share_of_bound(rational const& rate, rational const& bound);

/// Returns text such as "0 1 2 5-9", with runs of at least `shortest_run` numbers as their ends.
template <class Number>
[[nodiscard]] std::string in_runs(std::vector<Number> const& numbers, std::size_t shortest_run) {
  std::string result;
  auto const add = [&](std::string const& text) { result += (result.empty() ? "" : " ") + text; };
  for (std::size_t i = 0; i < numbers.size();) {
    auto end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i >= shortest_run) {
      add(std::to_string(numbers[i]) + "-" + std::to_string(numbers[end - 1]));
      i = end;
    }
    for (; i < end; ++i) add(std::to_string(numbers[i]));
  }
  return result;
}

/// Returns text such as "0 1 2 3", or "0-511" for more than 16 ids in a row.
[[nodiscard]] std::string in_words(std::vector<int> const& ids);

/// Amounts of links, by (from, to) node ids.
using link_amounts = std::map<std::pair<int, int>, rational>;

/// Prints the load on each link, or for hundreds of links a summary.
/// all: each link, however many
void print_loads(link_amounts const& capacity, link_amounts const& load, bool all);

/// Returns one line that describes the certificate.
[[nodiscard]] std::string in_words(certificate const& proof);

}  // namespace blink::tools
