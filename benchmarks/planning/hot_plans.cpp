// SPDX-License-Identifier: Apache-2.0
// Makes one plan, so that scripts/check_instructions can count its instructions: the growth of
// trees, the splitting of switches, the linear program of the joint packing.
#include <blink/planning/make_plan.hpp>
#include <blink/topology/readers/read_machine.hpp>

#include "planning/machine_rows.hpp"

#include <cstdio>
#include <string_view>

int main(int argc, char** argv) {
  using namespace blink;
  std::string_view const which = argc == 2 ? argv[1] : "";
  plan p;
  if (which == "growth") {
    p = make_plan(read_machine("torus:8x8"), {collective::all_gather, {}, "exact"});
  } else if (which == "splitting") {
    p = make_plan(read_machine("mi250:2"), {collective::all_gather, {}, "exact"});
  } else if (which == "joint") {
    auto const machine = bench::random_regular(32, 4);
    p = make_plan(machine, {collective::all_reduce, {}, "exact"});
  } else {
    std::fprintf(stderr, "usage: hot_plans growth|splitting|joint\n");
    return 2;
  }
  return p.rate == p.bound && !p.trees.empty() ? 0 : 1;
}
