// SPDX-License-Identifier: Apache-2.0
// Plans as step programs and as MSCCL's files: written, read back, checked.
#include <blink/interop/check_program.hpp>
#include <blink/interop/make_step_program.hpp>
#include <blink/interop/read_msccl_xml.hpp>
#include <blink/interop/write_msccl_xml.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/subset.hpp>

#include <gtest/gtest.h>
#include <support/random_plans.hpp>
#include <support/small_machines.hpp>

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace blink;

using test::tree_collectives;

/// Sound with a single slot in each queue, and the same after a file.
void expect_sound(step_program const& program) {
  auto const report = check_program(program, {1});
  EXPECT_EQ(report.fault.value_or("sound"), "sound");
  for (auto const& note : report.notes) ADD_FAILURE() << note;
  EXPECT_EQ(report.root, program.root);
  auto read = read_msccl_xml(write_msccl_xml(program), "program.xml");
  EXPECT_EQ(check_program(read).fault.value_or("sound"), "sound");
  EXPECT_FALSE(read.root.has_value());  // has no place in the format
  read.root = program.root;
  read.collective_name.clear();
  read.name = program.name;
  EXPECT_EQ(read, program);
}

void expect_limits(step_program_result const& result, step_program_limits const& limits = {}) {
  EXPECT_LE(result.program.channel_count, limits.channels);
  for (auto const& rank : result.program.ranks) {
    EXPECT_LE(std::ssize(rank.blocks), limits.blocks);
    std::map<std::pair<int, bool>, int> used;
    for (auto const& block : rank.blocks) {
      EXPECT_LE(std::ssize(block.steps), limits.steps);
      EXPECT_LT(block.channel, result.program.channel_count);
      for (auto const& step : block.steps) EXPECT_LE(step.count, limits.chunks_per_step);
      if (block.send_peer >= 0) ++used[{block.channel, true}];
      if (block.receive_peer >= 0) ++used[{block.channel, false}];
    }
    for (auto const& [key, count] : used) EXPECT_LE(count, limits.blocks_per_channel);
  }
}

topology built_in(std::string const& name) {
  auto machine = make_built_in_machine(name);
  EXPECT_TRUE(machine.has_value()) << name;
  return *machine;
}

TEST(make_step_program, every_collective_on_many_machines) {
  for (auto const* name :
       {"dgx1v", "dgx1p", "dgx2", "dgx_a100", "ring:5", "torus:3x3", "mesh:3x2"}) {
    auto const machine = built_in(name);
    for (auto const kind : tree_collectives) {
      auto const plan = make_plan(machine, {kind, {}, "exact"});
      for (int const instances : {1, 2, 4}) {
        SCOPED_TRACE(std::string(name) + " " + std::string(to_text(kind)) + " x" +
                     std::to_string(instances));
        auto const result = make_step_program(machine, plan, {instances});
        EXPECT_EQ(result.rate, plan.rate);
        EXPECT_EQ(result.loss, 0);
        expect_limits(result);
        expect_sound(result.program);
      }
    }
  }
}

// What one block for each edge of each tree would need at the busiest rank, in both directions.
int edges_of_busiest_rank(plan const& p) {
  std::map<int, int> edges;
  for (auto const& t : p.trees) {
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      for (auto const& e : *phase) {
        ++edges[e.from];
        ++edges[e.to];
      }
    }
  }
  int most = 0;
  for (auto const& [rank, count] : edges) most = std::max(most, count);
  return most;
}

TEST(make_step_program, trees_that_share_an_edge_share_its_blocks) {
  auto const two = machines::dgx_a100(2);
  int most_edges = 0;
  for (auto const kind : tree_collectives) {
    auto const plan = make_plan(two, {kind, {}, "exact"});
    most_edges = std::max(most_edges, edges_of_busiest_rank(plan));
    for (auto const dialect : {msccl_dialect::azure, msccl_dialect::rccl, msccl_dialect::legacy}) {
      SCOPED_TRACE(to_text(kind));
      step_program_options options;
      options.limits = limits_of(dialect);
      auto const result = make_step_program(two, plan, options);
      EXPECT_EQ(result.rate, plan.rate);      // nothing lost to fit
      EXPECT_LE(result.most_blocks, 2 * 15);  // the neighbours, not the trees, count
      expect_limits(result, options.limits);
      expect_sound(result.program);
    }
  }
  EXPECT_GT(most_edges, step_program_limits().blocks);
}

TEST(make_step_program, shorter_blocks_of_rccl) {
  auto const machine = built_in("torus:4x4");
  auto const plan = make_plan(machine, {collective::all_reduce, {}, "exact"});
  step_program_options options;
  options.most_chunks = 4096;
  options.limits.steps = 2;
  try {
    (void)make_step_program(machine, plan, options);
    ADD_FAILURE() << "fits";
  } catch (planning_error const& reason) {
    EXPECT_NE(std::string(reason.what()).find(" needs steps: "), std::string::npos);
    EXPECT_NE(std::string(reason.what()).find("at most 2 fit"), std::string::npos);
  }
  EXPECT_EQ(limits_of(msccl_dialect::rccl).steps, 64);
  EXPECT_EQ(limits_of(msccl_dialect::azure).steps, 256);
}

TEST(make_step_program, connected_parts_of_a_dgx1) {
  int tried = 0;
  for (unsigned chosen = 3; chosen < 256; chosen += 6) {  // a sample of all 2^8
    if (std::popcount(chosen) < 2) continue;
    auto const machine = test::direct_machine(test::part_of(test::dgx1v_matrix(25), chosen));
    for (auto const kind : {collective::all_reduce, collective::reduce_scatter}) {
      SCOPED_TRACE(std::to_string(chosen) + " " + std::string(to_text(kind)));
      plan p;
      try {
        p = make_plan(machine, {kind, {}, "exact"});
      } catch (planning_error const&) {
        continue;  // not connected
      }
      try {
        expect_sound(make_step_program(machine, p).program);
        ++tried;
      } catch (planning_error const& reason) {  // ways through ranks are not for this format
        ADD_FAILURE() << reason.what();
      }
    }
  }
  EXPECT_GE(tried, 40);
}

TEST(make_step_program, every_planner_and_root) {
  auto const machine = built_in("dgx1v");
  for (auto const* planner : {"blink", "ring", "double_tree"}) {
    for (auto const kind : {collective::all_reduce, collective::broadcast}) {
      SCOPED_TRACE(std::string(planner) + " " + std::string(to_text(kind)));
      auto const plan = make_plan(machine, {kind, {}, planner});
      try {
        auto const result = make_step_program(machine, plan, {1, 4096});
        expect_sound(result.program);
        EXPECT_EQ(result.loss, 0);
      } catch (planning_error const& reason) {
        EXPECT_NE(std::string(reason.what()).find("leads through rank"), std::string::npos);
      }
    }
  }
  for (int root = 0; root < 8; ++root) {
    auto const plan = make_plan(machine, {collective::reduce, root, "exact"});
    auto const result = make_step_program(machine, plan);
    EXPECT_EQ(result.program.root, root);
    expect_sound(result.program);
  }
}

TEST(make_step_program, flows_over_other_ranks) {
  auto const machine = test::make_full_machine(5);
  for (auto const kind : {collective::gather, collective::scatter, collective::all_to_all}) {
    for (int const instances : {1, 3}) {
      SCOPED_TRACE(to_text(kind));
      auto const result = make_step_program(machine, test::make_flows(kind, 5, 2), {instances});
      expect_limits(result);
      expect_sound(result.program);
      EXPECT_EQ(result.program.chunk_count, instances * (kind == collective::all_to_all ? 15 : 3));
    }
  }
}

TEST(make_step_program, random_forests) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto const [machine, p] = test::make_random_forest(seed);
    for (int const most : {4096, 10}) {
      auto const result = make_step_program(machine, p, {1 + static_cast<int>(seed) % 2, most});
      expect_limits(result);
      expect_sound(result.program);
    }
    // The same in fewer blocks: every connection paired.
    step_program_options few;
    few.most_chunks = 64;
    few.limits.blocks = static_cast<int>(p.ranks.size());
    try {
      expect_sound(make_step_program(machine, p, few).program);
    } catch (planning_error const& reason) {
      EXPECT_NE(std::string(reason.what()).find("needs thread blocks"), std::string::npos);
    }
  }
}

TEST(make_step_program, rounds_weights_to_the_fastest_chunks) {
  auto const machine = test::direct_machine({{0, 3}, {3, 0}});
  plan p;
  p.collective = collective::broadcast;
  p.unit = "GB/s";
  p.ranks = {0, 1};
  p.rate = rational(3);
  for (int i = 0; i < 2; ++i) {
    p.trees.push_back({0, i == 0 ? rational(1, 1000) : rational(2999, 1000), {}, {{0, 1, {0, 1}}}});
  }
  auto const result = make_step_program(machine, p, {1, 50});
  EXPECT_EQ(result.loss, 0);  // both trees use the same link: any split is as fast
  EXPECT_EQ(result.program.chunk_count, 1);
  EXPECT_EQ(make_step_program(machine, p, {1, 3000}).program.chunk_count, 3000);

  auto const two = test::direct_machine({{0, 3, 5}, {3, 0, 3}, {5, 5, 0}});
  p.ranks = {0, 1, 2};
  p.trees = {{0, rational(3), {}, {{0, 1, {0, 1}}, {1, 2, {1, 2}}}},
             {0, rational(5), {}, {{0, 2, {0, 2}}, {2, 1, {2, 1}}}}};
  p.rate = rational(8);
  auto const exact = make_step_program(two, p, {1, 8});
  EXPECT_EQ(exact.program.chunk_count, 8);
  EXPECT_EQ(exact.loss, 0);
  auto const rounded = make_step_program(two, p, {1, 5});
  EXPECT_EQ(rounded.program.chunk_count, 3);  // 1 and 2; 2 and 3 of 5 are no faster
  EXPECT_EQ(rounded.rate, rational(15, 2));
  EXPECT_EQ(rounded.loss, 1.0 / 16);
  auto const one = make_step_program(two, p, {1, 1});  // the lighter tree is left out
  EXPECT_EQ(one.rate, rational(5));
  expect_sound(one.program);
}

TEST(make_step_program, says_what_does_not_fit) {
  auto const machine = built_in("dgx2");
  auto const plan = make_plan(machine, {collective::all_gather, {}, "exact"});
  auto const reason = [&](blink::plan const& p, step_program_options const& options) {
    try {
      (void)make_step_program(machine, p, options);
    } catch (planning_error const& error) {
      return std::string(error.what());
    }
    return std::string("fits");
  };
  EXPECT_EQ(reason(plan, {4}), "fits");
  EXPECT_EQ(reason(plan, {8}), "rank 0 needs thread blocks: 121, at most 108 fit into the runtime");
  EXPECT_EQ(reason(plan, {33}), "channels: 33, at most 32 fit into the runtime");
  step_program_options options;
  options.limits.elements = 40;
  EXPECT_EQ(reason(plan, options),
            "rank 0 needs XML elements: 64, at most 40 fit into the runtime");
  options = {};
  options.limits.blocks_per_channel = 4;  // 15 neighbours: four channels
  auto const narrow = make_step_program(machine, plan, options);
  EXPECT_GE(narrow.program.channel_count, 4);
  expect_limits(narrow, options.limits);
  expect_sound(narrow.program);
  auto shared = plan;
  shared.shares.assign(16, 1);
  EXPECT_NE(reason(shared, {}).find("unequal shares"), std::string::npos);
  auto barrier = plan;
  barrier.collective = collective::barrier;
  EXPECT_EQ(reason(barrier, {}), "step programs have no barrier");
  auto through = plan;
  through.trees[0].broadcast[0].path = {0, 16, 5, 16, 1};
  EXPECT_NE(reason(through, {}).find("leads through rank 5"), std::string::npos);
  auto at_switch = plan;
  at_switch.trees[0].broadcast[0].to = 16;
  EXPECT_NE(reason(at_switch, {}).find("node 16 is an end of a tree edge"), std::string::npos);
  auto alone = plan;
  alone.ranks = {0};
  EXPECT_NE(reason(alone, {}).find("needs two ranks and a tree"), std::string::npos);
}

TEST(write_msccl_xml, names_by_dialect) {
  auto const machine = built_in("ring:4");
  auto const plan = make_plan(machine, {collective::reduce_scatter, {}, "exact"});
  auto const program = make_step_program(machine, plan).program;
  auto const azure = write_msccl_xml(program);
  auto const legacy = write_msccl_xml(program, msccl_dialect::legacy);
  EXPECT_EQ(
      azure.find("<algo name=\"blink_reduce_scatter_exact\" proto=\"Simple\" nchannels=\"1\""), 0U);
  EXPECT_NE(azure.find(" coll=\"reducescatter\" inplace=\"1\" outofplace=\"1\" minBytes=\"0\" "
                       "maxBytes=\"0\">"),
            std::string::npos);
  EXPECT_NE(legacy.find(" coll=\"reduce_scatter\""), std::string::npos);
  EXPECT_NE(legacy.find(" maxBytes=\"1099511627776\""), std::string::npos);
  for (auto const& text : {azure, legacy}) {
    EXPECT_EQ(check_program(read_msccl_xml(text, "f")).fault.value_or("sound"), "sound");
  }
  auto gathers = program;
  gathers.collective = collective::gather;
  EXPECT_THROW((void)write_msccl_xml(gathers, msccl_dialect::legacy), planning_error);
  EXPECT_THROW(write_msccl_xml_file(program, "/nowhere/at/all.xml"), input_error);
}

}  // namespace
