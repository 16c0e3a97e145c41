// SPDX-License-Identifier: Apache-2.0 A machine from the user's own format: lines "FROM TO GB/s",
// each a link in both directions.
#include <blink/planning.hpp>
#include <blink/topology/readers/read_machine.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace {

blink::topology read_edge_list(std::string_view text, std::string const& file,
                               blink::reading_options const&) {
  blink::topology machine;
  machine.name = file;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    int from = 0, to = 0, rate = 0;
    if (std::sscanf(line.c_str(), "%d %d %d", &from, &to, &rate) != 3 || rate < 1) {
      throw blink::input_error(file + ":" + std::to_string(number) + ": found \"" + line +
                               "\", expected FROM TO GB/s");
    }
    for (int const id : {from, to}) {
      if (machine.position_of(id) < 0) {
        machine.nodes.push_back(
            {.id = id, .kind = blink::node_kind::rank, .label = "rank" + std::to_string(id)});
      }
    }
    int const tail = machine.position_of(from), head = machine.position_of(to);
    machine.links.push_back({.tail = tail, .head = head, .capacity = rate});
    machine.links.push_back({.tail = head, .head = tail, .capacity = rate});
  }
  validate(machine);
  return machine;
}

constexpr std::array<blink::machine_format, 1> formats{
    {{"lines FROM TO GB/s", [](std::string_view beginning) { return beginning.starts_with('#'); },
      read_edge_list}}};

}  // namespace

int main() {
  std::string const path = "build/own_machine.txt";
  std::ofstream(path) << "# a ring of four with one slow link\n0 1 50\n1 2 50\n2 3 50\n3 0 25\n";
  auto const machine = blink::read_machine_file(path, formats);
  auto const plan = blink::make_plan(machine, {blink::collective::all_reduce, {}, "exact"});
  std::printf("%zu ranks, all-reduce at %s GB/s\n", machine.rank_positions().size(),
              plan.rate.to_text().c_str());
  return blink::check_plan(machine, plan) ? 0 : 1;
}
