// SPDX-License-Identifier: Apache-2.0
#include <blink/core/detail/input_text.hpp>
#include <blink/drawing/draw_text.hpp>
#include <blink/drawing/picture.hpp>
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/canonical.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/write_dot.hpp>
#include <blink/topology/write_json.hpp>
#include <blink/topology/write_nccl_xml.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "csv_text.hpp"
#include "explain_machine.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

struct topo_options : machine_choice {
  topo_options() { links = "all"; }
  std::string convert;
  std::string out;
  std::string svg;
  std::string csv;
  bool json = false;
  bool list = false;
  bool full = false;
};

// The largest tables that fit on a screen. --full shows all rows.
constexpr std::size_t widest_matrix = 32;
constexpr std::size_t longest_table = 64;

/// The longest search for the class of a symmetric machine, in refinements times links. It takes
/// well below a second.
constexpr std::int64_t class_work = 1'000'000;
constexpr std::int64_t most_work_of_step = 20'000'000;  // nodes x (nodes + links)

std::string number(topology const& machine, rational const& steps) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", machine.in_units(steps).to_double());
  return text;
}

struct node const& node_at(topology const& machine, int position) {
  return machine.nodes[static_cast<std::size_t>(position)];
}

void print_list() {
  auto const print = [](std::string const& name, std::string_view about) {
    std::printf("  %-20s %s\n", name.c_str(), std::string(about).c_str());
  };
  for (auto const& each : built_in_machines()) print(usage(each), each.about);
  print("host[:GB/s]", "this computer: cores and memories; the copy rate is measured or given");
  print("gpus", "the NVIDIA GPUs of this computer, as their driver lists them");
  for (auto const& format : machine_formats) print("FILE", format.name);
}

/// A short name of a class of isomorphic machines, the same on every computer (FNV-1a).
std::string short_name(std::string const& key) {
  std::uint64_t hash = 14695981039346656037U;
  for (char const c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

void print_summary(topology const& machine) {
  std::vector<int> ranks;
  std::vector<int> switches;
  for (auto const& n : machine.nodes)
    (n.kind == node_kind::rank ? ranks : switches).push_back(n.id);
  std::printf("machine   %s\n", detail::printable(machine.name).c_str());
  std::printf("unit      %s, of one direction of a link\n",
              detail::printable(machine.unit).c_str());
  std::printf("ranks     %zu: %s\n", ranks.size(), in_words(ranks).c_str());
  if (!switches.empty())
    std::printf("switches    %zu: %s\n", switches.size(), in_words(switches).c_str());
  for (auto const& remark : machine.remarks)
    std::printf("remark    %s\n", detail::printable(remark).c_str());
  std::map<link_kind, std::pair<std::size_t, rational>> totals;
  for (auto const& l : machine.links) {
    auto& [count, steps] = totals[l.kind];
    ++count;
    steps += l.capacity;
  }
  std::printf("links     %zu, each one direction\n", machine.links.size());
  for (auto const& [kind, total] : totals) {
    std::printf("          %-8s %5zu, together %s %s\n", std::string(to_text(kind)).c_str(),
                total.first, number(machine, total.second).c_str(),
                detail::printable(machine.unit).c_str());
  }
  auto const groups = rank_groups(machine);
  if (groups.size() > 1) {
    std::printf("groups    %zu, not joined both ways:", groups.size());
    for (auto const& group : groups) std::printf(" {%s}", in_words(group).c_str());
    std::printf("\n");
  } else if (auto const kind = fastest_connecting_kind(machine)) {
    std::printf("joined    by %s alone\n", std::string(to_text(*kind)).c_str());
  }
  auto const links = static_cast<std::int64_t>(machine.links.size());
  auto const nodes = static_cast<std::int64_t>(machine.nodes.size());
  if (nodes * (nodes + links) > most_work_of_step) return;
  auto const form = canonical(machine, class_work / std::max<std::int64_t>(links, 1));
  if (form.is_exact) {
    std::printf("class     %s, equal for isomorphic machines\n", short_name(form.key).c_str());
  }
}

void print_nodes(topology const& machine, std::size_t most) {
  std::vector<rational> out(machine.nodes.size());
  std::vector<rational> in(machine.nodes.size());
  for (auto const& l : machine.links) {
    out[static_cast<std::size_t>(l.tail)] += l.capacity;
    in[static_cast<std::size_t>(l.head)] += l.capacity;
  }
  std::size_t width = 5;
  for (auto const& n : machine.nodes) width = std::max(width, n.label.size());
  auto const label_width = static_cast<int>(width);
  bool const has_names = std::any_of(machine.nodes.begin(), machine.nodes.end(), [](auto const& n) {
    return !n.uuids.empty() || !n.bus_id.empty();
  });
  std::printf("\n  %5s  %-5s  %-*s  %4s %10s %10s%s\n", "id", "what", label_width, "label",
              "server", "out", "in", has_names ? "  device" : "");
  for (std::size_t i = 0; i < std::min(most, machine.nodes.size()); ++i) {
    auto const& n = machine.nodes[i];
    std::string names;
    for (auto const& uuid : n.uuids) names += " " + detail::printable(uuid);
    if (!n.bus_id.empty()) names += " " + detail::printable(n.bus_id);
    std::printf("  %5d  %-5s  %-*s  %4s %10s %10s%s%s\n", n.id,
                n.kind == node_kind::rank ? "rank" : "switch", label_width,
                detail::printable(n.label).c_str(),
                n.server < 0 ? "-" : std::to_string(n.server).c_str(),
                number(machine, out[i]).c_str(), number(machine, in[i]).c_str(),
                names.empty() ? "" : " ", names.c_str());
  }
  if (most < machine.nodes.size()) {
    std::printf("  ... %zu more, --full shows them\n", machine.nodes.size() - most);
  }
}

/// Prints the best path between each two ranks: its slowest kind of link, and the rate of its
/// narrowest one.
void print_paths(topology const& machine, machine_explanation const& found, bool full) {
  auto const ranks = machine.rank_positions();
  if (ranks.size() < 2) return;
  if (found.paths.empty() || (!full && ranks.size() > widest_matrix)) {
    std::printf("\nmore than %zu ranks: no matrix of paths%s\n", widest_matrix,
                found.paths.empty() ? "" : ", --full shows it");
    return;
  }
  std::map<link_kind, char> letters;
  std::string legend;
  auto const cell = [&](std::optional<rank_path> const& path) {
    if (!path) return std::string(".");
    constexpr std::string_view letter = "?NXLCPSWM";  // by kind
    auto const sign = letter[static_cast<std::size_t>(path->slowest)];
    if (letters.emplace(path->slowest, sign).second) {
      legend +=
          (legend.empty() ? "" : ", ") + std::string(1, sign) + " " + proper_name(path->slowest);
    }
    return std::string(1, sign) + number(machine, path->capacity);
  };
  std::vector<std::vector<std::string>> cells(ranks.size());
  std::size_t widest = 2;
  for (std::size_t a = 0; a < ranks.size(); ++a) {
    for (std::size_t b = 0; b < ranks.size(); ++b) {
      cells[a].push_back(a == b ? "-" : cell(found.paths[a][b]));
      widest = std::max(widest, cells[a].back().size());
    }
  }
  auto const width = static_cast<int>(widest + 1);
  std::printf("\nbest path from the row's rank to the column's, %s: %s\n\n  %5s ",
              detail::printable(machine.unit).c_str(), legend.c_str(), "");
  for (int const column : ranks) std::printf("%*d", width, node_at(machine, column).id);
  std::printf("\n");
  for (std::size_t a = 0; a < ranks.size(); ++a) {
    std::printf("  %5d ", node_at(machine, ranks[a]).id);
    for (auto const& text : cells[a]) std::printf("%*s", width, text.c_str());
    std::printf("\n");
  }
}

/// Prints the ports of each switch, with ports of equal capacity on one line.
void print_ports(topology const& machine, std::size_t most) {
  bool first = true;
  std::size_t lines = 0;
  for (std::size_t v = 0; v < machine.nodes.size(); ++v) {
    if (machine.nodes[v].kind == node_kind::rank) continue;
    auto const switch_node = static_cast<int>(v);
    std::map<std::pair<int, link_kind>, std::pair<rational, rational>> ports;  // out, in
    for (auto const& l : machine.links) {
      if (l.tail == switch_node) ports[{l.head, l.kind}].first += l.capacity;
      if (l.head == switch_node) ports[{l.tail, l.kind}].second += l.capacity;
    }
    std::map<std::tuple<link_kind, rational, rational>, std::vector<int>> equal;
    for (auto const& [port, capacity] : ports) {
      equal[{port.second, capacity.first, capacity.second}].push_back(
          node_at(machine, port.first).id);
    }
    if (first) std::printf("\n  %5s  %-8s %10s %10s  %s\n", "switch", "links", "out", "in", "to");
    first = false;
    bool named = false;
    for (auto const& [port, ids] : equal) {
      if (++lines > most) continue;
      auto const& [kind, out, in] = port;
      std::printf("  %5s  %-8s %10s %10s  %s\n",
                  named ? "" : std::to_string(machine.nodes[v].id).c_str(),
                  std::string(to_text(kind)).c_str(), number(machine, out).c_str(),
                  number(machine, in).c_str(), in_words(ids).c_str());
      named = true;
    }
  }
  if (lines > most) std::printf("  ... %zu more, --full shows them\n", lines - most);
}

/// The best path between each two ranks that have one.
nlohmann::ordered_json path_rows(topology const& machine, machine_explanation const& found) {
  auto const ranks = machine.rank_positions();
  auto rows = nlohmann::ordered_json::array();
  for (std::size_t a = 0; a < found.paths.size(); ++a) {
    for (std::size_t b = 0; b < found.paths.size(); ++b) {
      if (auto const& path = found.paths[a][b]) {
        rows.push_back({{"from", node_at(machine, ranks[a]).id},
                        {"to", node_at(machine, ranks[b]).id},
                        {"kind", to_text(path->slowest)},
                        {"rate", machine.in_units(path->capacity).to_double()},
                        {"unit", machine.unit}});
      }
    }
  }
  return rows;
}

nlohmann::json explanation_json(topology const& machine, machine_explanation const& found) {
  nlohmann::json result{{"blink_topo", 1},
                        {"machine", nlohmann::json::parse(write_json(machine))},
                        {"remarks", machine.remarks},
                        {"sentence", found.sentence},
                        {"pairs", found.pairs},
                        {"fastest_kind", to_text(found.fastest)},
                        {"pairs_without_fastest", found.pairs_without_fastest}};
  if (found.best) {
    result["all_reduce"] = {{"rate", found.best->to_double()},
                            {"is_exact", found.is_best_exact},
                            {"links", found.links.empty() ? "all" : found.links}};
  }
  if (found.ring) result["ring"] = {{"rate", found.ring->to_double()}};
  auto& shared = result["shared_links"] = nlohmann::json::array();
  for (auto const& one : found.shared) {
    shared.push_back({{"ranks", one.ranks},
                      {"switches", one.switches},
                      {"kind", to_text(one.kind)},
                      {"rate", one.rate.to_double()}});
  }
  result["paths"] = path_rows(machine, found);
  return result;
}

std::string converted(topology const& machine, std::string const& format) {
  if (format == "dot") return write_dot(machine);
  if (format == "nccl") return write_nccl_xml(machine);
  return write_json(machine);
}

bool has_colours() {
  auto const* const refused = std::getenv("NO_COLOR");
  return ::isatty(1) != 0 && (refused == nullptr || *refused == '\0');
}

void run_topo(topo_options const& options) {
  if (options.list) {
    print_list();
    return;
  }
  if (options.machine.empty()) {
    throw input_error("topo: MACHINE is missing, expected a machine of blink topo --list");
  }
  auto const machine = read_part(options).machine;
  if (!options.convert.empty()) {
    for (auto const& remark : machine.remarks) {
      std::fprintf(stderr, "remark    %s\n", detail::printable(remark).c_str());
    }
    auto const text = converted(machine, options.convert);
    if (options.out.empty() || options.out == "-") {
      std::fputs(text.c_str(), stdout);
      return;
    }
    detail::write_text(options.out, text);
    std::printf("machine written to %s\n", options.out.c_str());
    return;
  }
  auto const found = explain(machine);
  if (!options.csv.empty()) {
    if (found.paths.empty() && !machine.links.empty()) {
      throw input_error("--csv: " + std::to_string(machine.rank_positions().size()) +
                        " ranks, expected few enough for a matrix of paths (--ranks)");
    }
    detail::write_text(options.csv, csv_of(path_rows(machine, found)));
  }
  if (options.json) {
    std::printf("%s\n", json_text(explanation_json(machine, found), 2).c_str());
    return;
  }
  auto const most = options.full ? machine.nodes.size() + machine.links.size() : longest_table;
  print_summary(machine);
  text_picture_options picture;
  picture.has_colours = has_colours();
  if (options.full) picture.most_lines = most;
  std::printf("\n%s", draw_text(machine, picture).c_str());
  print_paths(machine, found, options.full);
  if (options.full) {
    print_nodes(machine, most);
    print_ports(machine, most);
  }
  std::printf("\n%s\n", found.sentence.c_str());
  if (!options.svg.empty()) {
    plan bare;  // no trees: the machine alone
    bare.unit = machine.unit;
    for (auto const& n : machine.nodes) {
      if (n.kind == node_kind::rank) bare.ranks.push_back(n.id);
    }
    detail::write_text(options.svg, draw_svg(machine, bare));
    std::printf("\npicture written to %s\n", options.svg.c_str());
  }
}

}  // namespace

void add_topo_command(CLI::App& app) {
  auto options = std::make_shared<topo_options>();
  auto* command = app.add_subcommand(
      "topo",
      "Show a machine: its switches, links and rates, what limits it, and the best all-reduce.\n"
      "Reduce it to an allocation, write it in another format, or draw it. Ranks of the machine\n"
      "may be disconnected.\n"
      "\n"
      "  blink topo --list                          built-in machines\n"
      "  blink topo dgx1v --ranks 0,1,4,5           the machine of a job on four GPUs\n"
      "  blink topo dump.xml --links nvlink         NVLinks of an NCCL topology dump\n"
      "  blink topo dgx_a100:2 --convert json       a file to edit\n");
  add_machine_options(*command, *options, "to keep");
  command
      ->add_option("--links", options->links,
                   "keep one kind of link (nvlink, xgmi, pcie, ...), all, or auto: the one that\n"
                   "blink plan would use")
      ->capture_default_str();
  auto* convert = command->add_option(
      "--convert", options->convert,
      "write the machine: json, nccl (a topology file of NCCL), dot (Graphviz)");
  convert->check(CLI::IsMember({"json", "nccl", "dot"}));
  add_output_option(*command, "--out,-o", options->out, "of --convert: the file; default: stdout")
      ->needs(convert);
  add_output_option(*command, "--svg", options->svg, "draw the machine into this file")
      ->excludes(convert);
  command->add_flag("--json", options->json, "all that is shown, as JSON")
      ->excludes(convert)
      ->excludes(command->get_option("--svg"));
  add_output_option(*command, "--csv", options->csv,
                    "write the best path between each two ranks as CSV to this file")
      ->excludes(convert);
  command
      ->add_flag("--full", options->full,
                 "all rows of all tables, however many; also nodes and ports of switches")
      ->excludes(convert);
  command->add_flag("--list", options->list, "list the built-in machines and the kinds of files");
  command->callback([options] { run_topo(*options); });
}

}  // namespace blink::tools
