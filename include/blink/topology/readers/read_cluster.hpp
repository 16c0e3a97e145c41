// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/cluster.hpp>
#include <blink/topology/readers/detail/cluster_builder.hpp>
#include <blink/topology/readers/detail/slurm_conf.hpp>
#include <blink/topology/readers/detail/slurm_yaml.hpp>
#include <blink/topology/readers/detail/topograph_instances.hpp>
#include <blink/topology/readers/reading_options.hpp>
#include <blink/topology/topology.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// True for the text of Slurm's topology.conf: a line begins with SwitchName= or BlockName=.
[[nodiscard]] inline bool is_slurm_topology(std::string_view text) {
  return detail::slurm_conf_reader::accepts(text);
}

/// True for the text of Slurm's topology.yaml: a list of mappings that begin with `topology:`.
[[nodiscard]] inline bool is_slurm_topology_yaml(std::string_view text) {
  return detail::slurm_yaml_reader::accepts(text);
}

/// True for the JSON of topograph's engine "graph": instances with network layers.
[[nodiscard]] inline bool is_topograph_instances(std::string_view text) {
  return detail::topograph_reader::accepts(text);
}

/// True for the text of any file that `read_cluster` reads.
[[nodiscard]] inline bool is_cluster(std::string_view text) {
  return is_slurm_topology(text) || is_slurm_topology_yaml(text) || is_topograph_instances(text);
}

/// Reads the network of a cluster from Slurm's topology.conf or topology.yaml, or from the JSON of
/// topograph's engine "graph". topograph writes all three.
///
/// topology.conf: entries with SwitchName, Nodes, Switches and LinkSpeed, or BlockName and Nodes.
///   Names are Slurm's host lists. Comments begin with #. A backslash continues a line. Lines that
///   begin with other keys are remarks, so a whole slurm.conf may surround the entries.
/// topology.yaml: the topology with `cluster_default: true` counts, else the first with a tree or
///   blocks.
/// topograph: an instance is a node, and its layers are the switches above it, the nearest first.
///
/// A block counts as a switch. What joins several blocks is not in such files, so one more switch
/// joins them.
///
/// file:   the name that errors start with
/// Source: Slurm 25.11, topology.conf(5) and topology.yaml(5); NVIDIA topograph 1.1
/// Time:   O(length of the text + names), at most 65536 nodes and as many switches.
/// Post:   parents form trees. Every node has one switch.
/// Throws: input_error with file and line for text of another form, unknown switches and cycles.
///         Also for switches and nodes in two places, host lists of too many names, and files
///         without nodes. With `is_strict` also the first remark about a line.
[[nodiscard]] inline cluster_tree read_cluster(std::string_view text, std::string const& file,
                                               reading_options const& options = {}) {
  expect_no_rate_but(options.rates, {}, file);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // byte order mark
  detail::cluster_builder builder(file, options.is_strict);
  if (is_topograph_instances(text)) {
    detail::topograph_reader(text, file, builder).read();
  } else if (is_slurm_topology_yaml(text)) {
    detail::slurm_yaml_reader(text, file, builder).read();
  } else {
    detail::slurm_conf_reader(text, file, builder).read();
  }
  return builder.build();
}

/// Refuses the network of a cluster where a machine is expected. For the table of machine formats.
///
/// Throws: input_error that says what is missing; as `read_cluster` for a faulty file.
[[nodiscard]] inline topology refuse_cluster(std::string_view text, std::string const& file,
                                             reading_options const& options = {}) {
  auto const tree = read_cluster(text, file, options);
  throw input_error(file + ": the network of a cluster with " + std::to_string(tree.nodes.size()) +
                    " nodes, which does not say what a node is, expected --node MACHINE beside it");
}

/// Reads the machine of a cluster, as command lines name it.
///
/// file:   a file of `read_cluster`
/// nodes:  "MACHINE" for all nodes, or "gpu[0-63]=MACHINE" for those of a host list; a text that
///         names a file is a machine
/// read:   makes a machine of its text: `topology read(std::string const&)`
/// Throws: input_error as `read_cluster` and `cluster_of`; what `read` throws.
template <class Read>
[[nodiscard]] topology read_cluster_machine(std::string const& file,
                                            std::vector<std::string> const& nodes, Read const& read,
                                            cluster_options const& options = {},
                                            reading_options const& reading = {}) {
  auto const text = detail::file_text(file, "the network of a cluster", input_limits{}.bytes);
  auto own = reading;
  own.rates.clear();  // they are for the machines of nodes
  auto const tree = read_cluster(text, file, own);
  if (nodes.empty()) {
    throw input_error(file + ": no machine for its nodes, expected --node MACHINE");
  }
  std::vector<node_type> types;
  for (auto const& each : nodes) {
    std::error_code fault;
    auto const mark = each.find('=');
    bool const is_machine = mark == std::string::npos || std::filesystem::exists(each, fault) ||
                            each.find_first_of("/+@") < mark;
    types.push_back(is_machine ? node_type{"", read(each)}
                               : node_type{each.substr(0, mark), read(each.substr(mark + 1))});
  }
  return cluster_of(tree, types, options);
}

}}  // namespace blink::BLINK_ABI
