// SPDX-License-Identifier: Apache-2.0
#include "check_program.hpp"

#include <blink/interop/check_program.hpp>
#include <blink/interop/program_load.hpp>
#include <blink/interop/read_msccl_xml.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/connectivity.hpp>

#include "arguments.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>

namespace blink::tools {
namespace {

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

void print_load(topology const& machine, step_program const& program,
                program_report const& report) {
  auto const load = load_of(machine, program);
  std::printf("machine      %s, routes of fewest links\n", detail::printable(machine.name).c_str());
  std::printf("rate         %s at most, by the link %d -> %d\n",
              in_words(load.rate, machine.unit).c_str(), load.narrowest.first,
              load.narrowest.second);
  if (program.collective) {
    plan_request request;
    request.collective = *program.collective;
    if (report.root) {
      auto const at = machine.rank_positions()[static_cast<std::size_t>(*report.root)];
      request.root = machine.nodes[static_cast<std::size_t>(at)].id;
    }
    auto const kind = fastest_connecting_kind(machine);
    print_bound(machine, request, load.rate, kind ? " of all links" : "");
    if (kind) {
      auto const name = " of " + std::string(to_text(*kind)) + " links";
      print_bound(only_links(machine, *kind), request, load.rate, name);
    }
  }
  std::printf("\n  %-12s %14s %10s %7s\n", "link", "of the buffer", "capacity", "use");
  for (auto const& [link, capacity] : load.capacity) {
    auto const found = load.part.find(link);
    auto const part = found == load.part.end() ? rational(0) : found->second;
    std::printf("  %4d -> %-4d %14s %10s %6.1f%%\n", link.first, link.second,
                part.to_text().c_str(), capacity.to_text().c_str(),
                100 * ratio(part * load.rate, capacity));
  }
}

}  // namespace

bool is_xml_file(std::string const& file) {
  std::ifstream stream(file, std::ios::binary);
  char first = 0;
  return static_cast<bool>(stream >> first) && first == '<';
}

void check_program_file(std::string const& file, std::optional<topology> const& machine) {
  auto const program = read_msccl_xml_file(file);
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
  std::printf("collective   %s over %zu ranks%s%s\n",
              program.collective ? std::string(to_text(*program.collective)).c_str()
                                 : program.collective_name.c_str(),
              program.ranks.size(),
              report.root ? (", root " + std::to_string(*report.root)).c_str() : "",
              program.collective ? "" : ", whose meaning is not known: only run");
  std::printf(
      "program      %d chunks, %d channels, at most %zu blocks a rank, %zu steps a block, %s\n",
      program.chunk_count, program.channel_count, blocks, steps, program.protocol.c_str());
  for (auto const& note : report.notes) std::printf("note         %s\n", note.c_str());
  if (machine) print_load(*machine, program, report);
}

}  // namespace blink::tools
