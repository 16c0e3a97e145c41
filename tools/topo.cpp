// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/write_json.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

struct topo_options {
  std::string machine;
  std::string ranks;
  std::string links = "all";
  std::string json;
  bool list = false;
};

/// Machines of more ranks get no matrix: it would not fit on a screen.
constexpr std::size_t widest_matrix = 32;

std::string number(topology const& machine, rational const& steps) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", machine.in_units(steps).to_double());
  return text;
}

struct node const& node_at(topology const& machine, int position) {
  return machine.nodes[static_cast<std::size_t>(position)];
}

void print_list() {
  std::size_t width = 0;
  for (auto const& each : built_in_machines()) width = std::max(width, usage(each).size());
  for (auto const& each : built_in_machines()) {
    std::printf("  %-*s  %s\n", static_cast<int>(width), usage(each).c_str(),
                std::string(each.about).c_str());
  }
}

void print_summary(topology const& machine) {
  std::vector<int> ranks;
  std::vector<int> relays;
  for (auto const& n : machine.nodes) (n.kind == node_kind::rank ? ranks : relays).push_back(n.id);
  std::printf("machine   %s\n", machine.name.c_str());
  std::printf("unit      %s, of one direction of a link\n", machine.unit.c_str());
  std::printf("ranks     %zu: %s\n", ranks.size(), in_words(ranks).c_str());
  if (!relays.empty()) std::printf("relays    %zu: %s\n", relays.size(), in_words(relays).c_str());
  std::map<link_kind, std::pair<std::size_t, rational>> totals;
  for (auto const& l : machine.links) {
    auto& [count, steps] = totals[l.kind];
    ++count;
    steps += l.capacity;
  }
  std::printf("links     %zu, each one direction\n", machine.links.size());
  for (auto const& [kind, total] : totals) {
    std::printf("          %-8s %5zu, together %s %s\n", std::string(to_text(kind)).c_str(),
                total.first, number(machine, total.second).c_str(), machine.unit.c_str());
  }
  auto const groups = rank_groups(machine);
  if (groups.size() == 1) return;
  std::printf("groups    %zu, with no path between them:", groups.size());
  for (auto const& group : groups) std::printf(" {%s}", in_words(group).c_str());
  std::printf("\n");
}

void print_nodes(topology const& machine) {
  std::vector<rational> out(machine.nodes.size());
  std::vector<rational> in(machine.nodes.size());
  for (auto const& l : machine.links) {
    out[static_cast<std::size_t>(l.tail)] += l.capacity;
    in[static_cast<std::size_t>(l.head)] += l.capacity;
  }
  std::size_t width = 5;
  for (auto const& n : machine.nodes) width = std::max(width, n.label.size());
  auto const label_width = static_cast<int>(width);
  std::printf("\n  %5s  %-5s  %-*s  %4s %10s %10s\n", "id", "what", label_width, "label", "box",
              "out", "in");
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    auto const& n = machine.nodes[i];
    std::printf("  %5d  %-5s  %-*s  %4s %10s %10s\n", n.id,
                n.kind == node_kind::rank ? "rank" : "relay", label_width, n.label.c_str(),
                n.box < 0 ? "-" : std::to_string(n.box).c_str(), number(machine, out[i]).c_str(),
                number(machine, in[i]).c_str());
  }
}

/// Capacity of the direct links from rank (row) to rank (column).
void print_matrix(topology const& machine) {
  auto const ranks = machine.rank_positions();
  std::map<std::pair<int, int>, rational> direct;
  for (auto const& l : machine.links) {
    if (node_at(machine, l.tail).kind == node_kind::relay) continue;
    if (node_at(machine, l.head).kind == node_kind::relay) continue;
    direct[{l.tail, l.head}] += l.capacity;
  }
  if (direct.empty()) return;
  if (ranks.size() > widest_matrix) {
    std::printf("\nno matrix of direct links: more than %zu ranks\n", widest_matrix);
    return;
  }
  std::size_t widest = 3;
  for (auto const& [ends, steps] : direct) widest = std::max(widest, number(machine, steps).size());
  auto const width = static_cast<int>(widest + 1);
  std::printf("\ndirect links, from the row's rank to the column's, %s\n\n  %5s ",
              machine.unit.c_str(), "");
  for (int const column : ranks) std::printf("%*d", width, node_at(machine, column).id);
  std::printf("\n");
  for (int const row : ranks) {
    std::printf("  %5d ", node_at(machine, row).id);
    for (int const column : ranks) {
      auto const found = direct.find({row, column});
      std::printf("%*s", width,
                  row == column           ? "-"
                  : found == direct.end() ? "."
                                          : number(machine, found->second).c_str());
    }
    std::printf("\n");
  }
}

/// What is connected to each relay, ports of equal capacity on one line.
void print_ports(topology const& machine) {
  bool first = true;
  for (std::size_t v = 0; v < machine.nodes.size(); ++v) {
    if (machine.nodes[v].kind == node_kind::rank) continue;
    auto const relay = static_cast<int>(v);
    std::map<std::pair<int, link_kind>, std::pair<rational, rational>> ports;  // out, in
    for (auto const& l : machine.links) {
      if (l.tail == relay) ports[{l.head, l.kind}].first += l.capacity;
      if (l.head == relay) ports[{l.tail, l.kind}].second += l.capacity;
    }
    std::map<std::tuple<link_kind, rational, rational>, std::vector<int>> equal;
    for (auto const& [port, capacity] : ports) {
      equal[{port.second, capacity.first, capacity.second}].push_back(
          node_at(machine, port.first).id);
    }
    if (first) std::printf("\n  %5s  %-8s %10s %10s  %s\n", "relay", "links", "out", "in", "to");
    first = false;
    bool named = false;
    for (auto const& [port, ids] : equal) {
      auto const& [kind, out, in] = port;
      std::printf("  %5s  %-8s %10s %10s  %s\n",
                  named ? "" : std::to_string(machine.nodes[v].id).c_str(),
                  std::string(to_text(kind)).c_str(), number(machine, out).c_str(),
                  number(machine, in).c_str(), in_words(ids).c_str());
      named = true;
    }
  }
}

void run_topo(topo_options const& options) {
  if (options.list) {
    print_list();
    return;
  }
  if (options.machine.empty()) {
    throw input_error("topo: MACHINE is missing; blink topo --list shows the built-in ones");
  }
  auto const machine = read_part(options.machine, options.ranks, options.links).machine;
  if (options.json == "-") {
    std::fputs(write_json(machine).c_str(), stdout);
    return;
  }
  print_summary(machine);
  print_nodes(machine);
  print_matrix(machine);
  print_ports(machine);
  if (options.json.empty()) return;
  std::ofstream file(options.json, std::ios::binary);
  file << write_json(machine) << std::flush;
  if (!file) throw input_error(options.json + ": cannot be written");
  std::printf("\nmachine written to %s\n", options.json.c_str());
}

}  // namespace

void add_topo_command(CLI::App& app) {
  auto options = std::make_shared<topo_options>();
  auto* command = app.add_subcommand(
      "topo",
      "Show a machine: ranks, relays, links and their capacities; cut it down to an allocation;\n"
      "convert it to JSON. A machine in several unconnected groups is shown, not refused.\n"
      "\n"
      "  blink topo --list                          built-in machines\n"
      "  blink topo dgx1v --ranks 0,1,4,5           what a job on four GPUs has\n"
      "  blink topo dump.xml --links nvlink         NVLinks of an NCCL topology dump\n"
      "  blink topo dgx_a100:2 --json machine.json  a file to edit\n");
  command->add_option("MACHINE", options->machine, "built-in name, JSON file or NCCL XML file");
  command->add_option("--ranks,-r", options->ranks, "keep these ranks only, such as 0,1,4-6");
  command
      ->add_option("--links", options->links,
                   "keep one kind of link (nvlink, xgmi, pcie, ...), all, or auto: the one that\n"
                   "blink plan would use")
      ->capture_default_str();
  command->add_option("--json,-o", options->json, "write the machine as JSON here; - for stdout");
  command->add_flag("--list", options->list, "list the built-in machines");
  command->callback([options] { run_topo(*options); });
}

}  // namespace blink::tools
