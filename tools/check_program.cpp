// SPDX-License-Identifier: Apache-2.0
#include "check_program.hpp"

#include <blink/interop/check_message_program.hpp>
#include <blink/interop/check_mscclpp_program.hpp>
#include <blink/interop/check_program.hpp>
#include <blink/interop/graph_load.hpp>
#include <blink/interop/message_program.hpp>
#include <blink/interop/mscclpp_load.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/interop/program_load.hpp>
#include <blink/interop/read_chakra.hpp>
#include <blink/interop/read_goal.hpp>
#include <blink/interop/read_msccl_xml.hpp>
#include <blink/interop/read_mscclpp_json.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/connectivity.hpp>

#include "arguments.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>

namespace blink::tools {
namespace {

bool is_xml(std::string const& text) {
  auto const begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string::npos && text[begin] == '<';
}

/// of: the links whose bound it is
void print_bound(topology const& machine, plan_request const& request, rational const& rate,
                 std::string const& of) {
  try {
    auto const best = make_plan(machine, request);
    std::printf("bound        %s%s, rate/bound %s\n", in_words(best.bound, best.unit).c_str(),
                of.c_str(), share_of_bound(rate, best.bound).c_str());
  } catch (planning_error const& reason) {
    std::printf("bound        not known%s: %s\n", of.c_str(), reason.what());
  }
}

/// Prints the bounds of all links and of the fastest kind beside the rate of a load.
void print_bounds(topology const& machine, plan_request const& request, rational const& rate) {
  auto const kind = fastest_connecting_kind(machine);
  print_bound(machine, request, rate, kind ? " of all links" : "");
  if (kind) {
    auto const name = " of " + std::string(to_text(*kind)) + " links";
    print_bound(only_links(machine, *kind), request, rate, name);
  }
}

void print_links(program_load const& load) {
  std::printf("\n  %-12s %14s %10s %7s\n", "link", "of the buffer", "capacity", "use");
  for (auto const& [link, capacity] : load.capacity) {
    auto const found = load.part.find(link);
    auto const part = found == load.part.end() ? rational(0) : found->second;
    std::printf("  %4d -> %-4d %14s %10s %6.1f%%\n", link.first, link.second,
                part.to_text().c_str(), capacity.to_text().c_str(),
                100 * ratio(part * load.rate, capacity));
  }
}

void print_rate(topology const& machine, program_load const& load) {
  std::printf("machine      %s, routes of fewest links\n", detail::printable(machine.name).c_str());
  std::printf("rate         %s at most, by the link %d -> %d\n",
              in_words(load.rate, machine.unit).c_str(), load.narrowest.first,
              load.narrowest.second);
}

/// Program: of MSCCL or of MSCCL++
template <class Program>
void print_load(topology const& machine, Program const& program, program_report const& report) {
  auto const load = load_of(machine, program);
  print_rate(machine, load);
  if (program.collective) {
    plan_request request;
    request.collective = *program.collective;
    if (report.root) {
      auto const at = machine.rank_positions()[static_cast<std::size_t>(*report.root)];
      request.root = machine.nodes[static_cast<std::size_t>(at)].id;
    }
    print_bounds(machine, request, load.rate);
  }
  print_links(load);
}

/// other_name: of a collective that blink does not know
template <class Program>
void print_collective(Program const& program, std::string const& other_name,
                      program_report const& report) {
  auto const name = program.collective   ? std::string(to_text(*program.collective))
                    : other_name.empty() ? "not named"
                                         : detail::printable(other_name);
  std::printf("collective   %s over %zu ranks%s%s\n", name.c_str(), program.ranks.size(),
              report.root ? (", root " + std::to_string(*report.root)).c_str() : "",
              program.collective ? "" : ", whose meaning is not known: only run");
}

void print_notes(program_report const& report) {
  for (auto const& note : report.notes) std::printf("note         %s\n", note.c_str());
}

void check_msccl(std::string const& text, std::string const& file,
                 std::optional<topology> const& machine) {
  auto const program = read_msccl_xml(text, file);
  auto const report = check_program(program);
  if (!report) throw input_error(file + ": " + *report.fault);
  std::size_t blocks = 0;
  std::size_t steps = 0;
  for (auto const& rank : program.ranks) {
    blocks = std::max(blocks, rank.blocks.size());
    for (auto const& block : rank.blocks) steps = std::max(steps, block.steps.size());
  }
  std::printf("%s: sound%s\n", file.c_str(),
              program.runs_in_place && program.runs_out_of_place ? ", in place and out of place"
              : program.runs_in_place                            ? ", in place"
                                                                 : ", out of place");
  print_collective(program, program.collective_name, report);
  std::printf(
      "program      %d chunks, %d channels, at most %zu blocks a rank, %zu steps a block, %s\n",
      program.chunk_count, program.channel_count, blocks, steps, program.protocol.c_str());
  print_notes(report);
  if (machine) print_load(*machine, program, report);
}

void check_mscclpp(std::string const& text, std::string const& file,
                   std::optional<topology> const& machine) {
  auto const program = read_mscclpp_json(text, file);
  auto const report = check_mscclpp_program(program);
  if (!report) throw input_error(file + ": " + *report.fault);
  int chunks = 0;
  std::size_t blocks = 0;
  int operations = 0;
  for (auto const& rank : program.ranks) {
    chunks = std::max({chunks, rank.input_chunks, rank.output_chunks});
    blocks = std::max(blocks, rank.blocks.size());
    for (auto const& block : rank.blocks) operations = std::max(operations, operation_count(block));
  }
  std::printf("%s: sound%s\n", file.c_str(), program.in_place ? ", in place" : ", out of place");
  print_collective(program, program.collective_name, report);
  std::printf("program      %d chunks, at most %zu blocks a rank, %d operations a block, %s\n",
              chunks, blocks, operations, program.has_packets ? "LL" : "Simple");
  print_notes(report);
  if (machine) print_load(*machine, program, report);
}

/// what: the format of the files
void check_messages(message_program const& program, std::string const& file, char const* what,
                    std::optional<topology> const& machine) {
  auto const report = check_message_program(program);
  if (!report) throw input_error(file + ": " + *report.fault);
  std::size_t operations = 0;
  std::size_t messages = 0;
  for (auto const& rank : program.ranks) {
    operations = std::max(operations, rank.operations.size());
    for (auto const& each : rank.operations) messages += each.kind == message_kind::send ? 1 : 0;
  }
  std::printf("%s: sound%s%s\n", file.c_str(), program.runs_in_place ? ", in place" : "",
              !program.runs_out_of_place ? ""
              : program.runs_in_place    ? " and out of place"
                                         : ", out of place");
  print_collective(program, "", report);
  std::printf("program      %s, %zu messages, at most %zu operations a rank\n", what, messages,
              operations);
  if (program.has_data) {
    std::printf("chunks       %d of %lld bytes\n", program.chunk_count,
                static_cast<long long>(program.chunk_bytes));
  }
  print_notes(report);
  if (!machine) return;
  if (program.has_data) {
    print_load(*machine, program, report);
  } else {
    std::printf("load         not known without the size of the buffer\n");
  }
}

/// Shows what NCCL has found, and with a machine its rings beside the optimum.
void check_graphs(std::string const& text, std::string const& file,
                  std::optional<topology> const& machine) {
  constexpr std::array<char const*, 5> names{"ring", "tree", "CollNet chain", "NVLS",
                                             "CollNet direct"};
  auto const found = read_nccl_graphs(text, file);
  std::printf("%s: graphs of NCCL\n", file.c_str());
  for (auto const& remark : found.remarks) {
    std::printf("remark       %s\n", detail::printable(remark).c_str());
  }
  for (auto const& graph : found.graphs) {
    auto const id = static_cast<std::size_t>(graph.id);
    std::printf(
        "%-12s %zu channels of %s GB/s, paths %s\n",
        graph.id >= 0 && id < names.size() ? names[id] : "graph", graph.channels.size(),
        graph.speed_intra.to_text().c_str(),
        graph.type_intra.empty() ? "not stated" : detail::printable(graph.type_intra).c_str());
  }
  if (!machine) return;
  for (auto const& graph : found.graphs) {
    if (graph.id != 0 || graph.channels.empty()) continue;
    std::printf("\nall_reduce along the rings\n");
    // NVLinks alone where NCCL found paths over them
    auto const kind = fastest_connecting_kind(*machine);
    bool const is_fast = kind && graph.type_intra.starts_with("NV");
    auto const load = load_of(is_fast ? only_links(*machine, *kind) : *machine, graph);
    print_rate(*machine, load);
    print_bounds(*machine, {}, load.rate);
    print_links(load);
  }
}

}  // namespace

bool is_program_text(std::string const& text) {
  return is_xml(text) || is_mscclpp_plan(text) || is_goal(text) || is_chakra(text);
}

void check_program_text(std::string const& text, std::string const& file,
                        std::optional<topology> const& machine) {
  if (is_xml(text)) {
    return is_nccl_graph(text) ? check_graphs(text, file, machine)
                               : check_msccl(text, file, machine);
  }
  if (is_mscclpp_plan(text)) return check_mscclpp(text, file, machine);
  if (is_goal(text)) return check_messages(read_goal(text, file), file, "GOAL", machine);
  check_messages(read_chakra_files(file), file, "Chakra", machine);
}

}  // namespace blink::tools
