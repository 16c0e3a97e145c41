// SPDX-License-Identifier: Apache-2.0
// Plans as execution plans of MSCCL++: written as JSON, run from it on numbers, read and checked.
#include <blink/interop/check_mscclpp_program.hpp>
#include <blink/interop/make_mscclpp_program.hpp>
#include <blink/interop/make_step_program.hpp>
#include <blink/interop/mscclpp_load.hpp>
#include <blink/interop/program_load.hpp>
#include <blink/interop/read_mscclpp_json.hpp>
#include <blink/interop/write_mscclpp_json.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/built_in_machines.hpp>

#include <gtest/gtest.h>
#include <support/mscclpp_runner.hpp>
#include <support/random_plans.hpp>
#include <support/small_machines.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace mscclpp_test { namespace {

using namespace blink;
using test::tree_collectives;
using values = test::mscclpp_runner::values;

topology built_in(std::string const& name) {
  return make_built_in_machine(name).value();
}

/// By definition of the collective.
values wanted(collective kind, int root, std::vector<values> const& inputs, int rank) {
  auto const n = inputs.size();
  auto const r = static_cast<std::size_t>(rank);
  values sum(inputs[0].size());
  for (auto const& input : inputs) {
    for (std::size_t i = 0; i < input.size(); ++i) sum[i] += input[i];
  }
  auto const part = sum.size() / n;
  auto const begin = static_cast<std::ptrdiff_t>(r * part);
  auto const length = static_cast<std::ptrdiff_t>(part);
  values result;
  switch (kind) {
    case collective::all_reduce:
      return sum;
    case collective::reduce:
      return rank == root ? sum : values{};
    case collective::broadcast:
      return inputs[static_cast<std::size_t>(root)];
    case collective::all_gather:
      for (auto const& input : inputs) result.insert(result.end(), input.begin(), input.end());
      return result;
    case collective::reduce_scatter:
      return {sum.begin() + begin, sum.begin() + begin + length};
    default:  // all_to_all
      for (auto const& input : inputs) {
        result.insert(result.end(), input.begin() + begin, input.begin() + begin + length);
      }
      return result;
  }
}

/// The checker's fault of what a file with this text holds.
std::string fault_of(std::string const& text) {
  return check_mscclpp_program(read_mscclpp_json(text, "m.json")).fault.value_or("sound");
}

/// Runs it in several orders, with chunks that are no multiple of the loops' units. Also reads and
/// checks the file.
void expect_right(plan const& p, mscclpp_program const& program, bool in_place, int schedules = 2) {
  auto const text = write_mscclpp_json(program);
  EXPECT_EQ(write_mscclpp_json(read_mscclpp_json(text, "m.json")), text);
  EXPECT_EQ(fault_of(text), "sound");
  int const root = static_cast<int>(
      std::find(p.ranks.begin(), p.ranks.end(), p.trees.front().root) - p.ranks.begin());
  for (int seed = 0; seed < schedules; ++seed) {
    try {
      test::mscclpp_runner(text, 1 + static_cast<std::size_t>(seed) * 2, in_place,
                           static_cast<std::uint64_t>(seed))
          .run([&](auto const& inputs,
                   int rank) { return wanted(p.collective, root, inputs, rank); },
               2);
    } catch (test::mscclpp_fault const& fault) {
      ADD_FAILURE() << fault.what() << ", seed " << seed;
    }
  }
}

mscclpp_options small_units(bool in_place = true) {
  mscclpp_options options;
  options.in_place = in_place;
  options.unit_bytes = 32;
  return options;
}

TEST(mscclpp, every_collective_on_many_machines) {
  for (auto const* name : {"dgx1v", "dgx2", "ring:5", "mesh:3x2"}) {
    auto const machine = built_in(name);
    for (auto const kind : tree_collectives) {
      auto const plan = make_plan(machine, {kind, {}, "exact"});
      for (bool const in_place : {true, false}) {
        SCOPED_TRACE(std::string(name) + " " + std::string(to_text(kind)));
        auto const result = make_mscclpp_program(machine, plan, small_units(in_place));
        EXPECT_EQ(result.rate, plan.rate);
        EXPECT_EQ(result.loss, 0);
        expect_right(plan, result.program, in_place, 1);
        // The same transfers as in the form of MSCCL.
        auto const load = load_of(machine, result.program);
        auto const steps = load_of(machine, make_step_program(machine, plan).program);
        EXPECT_EQ(load.part, steps.part);
        EXPECT_EQ(load.rate, steps.rate);
        bool const has_one_route = std::string(name) != "mesh:3x2";
        if (has_one_route) {
          EXPECT_EQ(load.rate, plan.rate);
        }
      }
    }
  }
}

TEST(mscclpp, servers_are_joined_by_ports) {
  auto const machine = machines::dgx_a100(2);
  for (auto const kind : tree_collectives) {
    SCOPED_TRACE(to_text(kind));
    auto const plan = make_plan(machine, {kind, {}, "exact"});
    auto const result = make_mscclpp_program(machine, plan, small_units());
    EXPECT_EQ(result.loss, 0);
    expect_right(plan, result.program, true, 1);
    for (int r = 0; r < 16; ++r) {
      auto const& rank = result.program.ranks[static_cast<std::size_t>(r)];
      for (int const peer : rank.memory_peers) EXPECT_EQ(peer / 8, r / 8);
      for (int const peer : rank.port_peers) EXPECT_NE(peer / 8, r / 8);
    }
  }
}

TEST(mscclpp, random_forests_of_any_width) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    int const ranks = seed % 5 == 0 ? 20 : 2 + below(6);  // wider than a block has channels
    std::vector<std::vector<std::int64_t>> matrix(
        static_cast<std::size_t>(ranks),
        std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 9));
    for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i][i] = 0;
    auto machine = test::direct_machine(matrix);
    if (seed % 2 == 1) {
      for (auto& n : machine.nodes) n.server = n.id % 2;
    }
    plan p;
    p.collective = tree_collectives[seed % 5];
    p.planner = "random";
    p.unit = "GB/s";
    for (int r = 0; r < ranks; ++r) p.ranks.push_back(r);
    bool const equal = has_equal_roots(p.collective);
    int const one_root = below(ranks);
    auto const edges = [&](int root, bool up) {
      return test::make_grown_tree(ranks, root, up, [&](std::size_t size) {
        return seed % 5 == 0 ? 0 : below(static_cast<int>(size));
      });
    };
    for (int i = 0; i < (equal ? ranks : 1 + below(4)); ++i) {
      tree t{equal                                    ? i
             : p.collective == collective::all_reduce ? below(ranks)
                                                      : one_root,
             equal ? rational(1) : rational(1 + below(3)),
             {},
             {}};
      if (has_reduce_phase(p.collective)) t.reduce = edges(t.root, true);
      if (has_broadcast_phase(p.collective)) t.broadcast = edges(t.root, false);
      p.rate += t.weight;
      p.trees.push_back(t);
    }
    for (bool const in_place : {true, false}) {
      auto options = small_units(in_place);
      options.instances = 1 + below(2);
      auto const result = make_mscclpp_program(machine, p, options);
      expect_right(p, result.program, in_place);
      // Fewer blocks: trees take turns.
      options.limits.blocks = (result.most_blocks + 1) / 2;
      try {
        auto const few = make_mscclpp_program(machine, p, options);
        EXPECT_LE(few.most_blocks, options.limits.blocks);
        expect_right(p, few.program, in_place);
      } catch (planning_error const& reason) {
        EXPECT_NE(std::string(reason.what()).find("needs thread blocks: "), std::string::npos);
      }
    }
  }
}

TEST(mscclpp, all_to_all) {
  auto const machine = built_in("mesh:2x2");  // 0 - 1, 0 - 2, 1 - 3, 2 - 3
  plan p;
  p.collective = collective::all_to_all;
  p.unit = machine.unit;
  p.ranks = {0, 1, 2, 3};
  p.rate = rational(4);
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      if (from == to) continue;
      tree t{from, rational(1), {}, {{from, to, {from, to}}}, {from, to}};
      if (from + to == 3) {  // across: half of it on each side
        t.weight = rational(1, 2);
        for (int const by : {from ^ 1, from ^ 2}) {
          t.broadcast = {{from, by, {from, by}}, {by, to, {by, to}}};
          p.trees.push_back(t);
        }
        continue;
      }
      p.trees.push_back(t);
    }
  }
  auto const result = make_mscclpp_program(machine, p, small_units());
  EXPECT_FALSE(result.program.in_place);
  expect_right(p, result.program, false, 3);
}

/// Runs it in several orders. Returns the first fault, or "right".
std::string first_failure(mscclpp_program const& program, collective kind, int root,
                          std::uint64_t schedules) {
  auto const text = write_mscclpp_json(program);
  try {
    for (std::uint64_t seed = 0; seed < schedules; ++seed) {
      test::mscclpp_runner(text, 1 + seed % 3, program.in_place, seed)
          .run([&](auto const& inputs, int rank) { return wanted(kind, root, inputs, rank); }, 2);
    }
  } catch (std::exception const& fault) {
    return fault.what();
  }
  return "right";
}

TEST(mscclpp, the_run_and_the_checker_find_what_is_missing) {
  auto machine = built_in("ring:4");
  for (auto& node : machine.nodes) node.server = 0;
  auto const plan = make_plan(machine, {collective::all_reduce, {}, "exact"});
  auto const sound = make_mscclpp_program(machine, plan, small_units()).program;
  int tried = 0;
  for (std::size_t b = 0; b < sound.ranks[1].blocks.size(); ++b) {
    for (std::size_t s = 0; s < sound.ranks[1].blocks[b].segments.size(); ++s) {
      auto const count = sound.ranks[1].blocks[b].segments[s].operations.size();
      for (std::size_t o = 0; o < count && count > 1; ++o) {
        auto broken = sound;
        auto& operations = broken.ranks[1].blocks[b].segments[s].operations;
        operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(o));
        ++tried;
        SCOPED_TRACE("block " + std::to_string(b) + " segment " + std::to_string(s) +
                     " without operation " + std::to_string(o));
        auto const failure = first_failure(broken, collective::all_reduce, -1, 6);
        EXPECT_NE(failure, "right");
        // The runner needs a sync after each wait, also where nothing was written since the last
        // call.
        bool const is_of_threads = failure == "put before all threads know of the signal";
        EXPECT_TRUE(is_of_threads || fault_of(write_mscclpp_json(broken)) != "sound") << failure;
      }
    }
  }
  EXPECT_GT(tried, 10);
}

/// Changes one thing; says what.
std::string break_one(mscclpp_program& program, std::mt19937& random) {
  auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  auto& rank = program.ranks[below(program.ranks.size())];
  auto& block = rank.blocks[below(rank.blocks.size())];
  auto& operations = block.segments[below(block.segments.size())].operations;
  if (operations.empty()) return "nothing";
  auto const o = below(operations.size());
  auto& op = operations[o];
  int const by = random() % 2 == 0 ? 1 : -1;
  auto const some_place = [&]() -> mscclpp_place* {
    auto& places = random() % 2 == 0 ? op.sources : op.destinations;
    return places.empty() ? nullptr : &places[below(places.size())];
  };
  switch (below(10)) {
    case 0:
      if (auto* place = some_place()) place->chunk += by;
      return "chunk";
    case 1:
      if (auto* place = some_place()) place->buffer = static_cast<step_buffer>(below(3));
      return "buffer";
    case 2:
      operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(o));
      return "removed operation";
    case 3:
      operations.insert(operations.begin() + static_cast<std::ptrdiff_t>(o), mscclpp_operation(op));
      return "operation twice";
    case 4:
      std::swap(op, operations[below(operations.size())]);
      return "order of operations";
    case 5:
      if (!op.channels.empty()) op.channels[below(op.channels.size())].id += by;
      return "channel";
    case 6:
      if (!op.channels.empty()) op.channels.pop_back();
      return "a channel less";
    case 7:
      if (op.count > 0) op.count += by;
      return "count";
    case 8:
      if (!op.sources.empty()) op.sources.push_back(op.sources.front());
      return "a source more";
    default:
      if (op.kind == mscclpp_kind::wait || op.kind == mscclpp_kind::signal) {
        op.kind = op.kind == mscclpp_kind::wait ? mscclpp_kind::signal : mscclpp_kind::wait;
      }
      return "direction";
  }
}

TEST(mscclpp, what_the_checker_accepts_runs_to_the_right_result) {
  std::mt19937 random(5);
  int refused = 0;
  int seen = 0;  // of the refused ones, by running them
  int passed = 0;
  for (auto const* name : {"ring:4", "mesh:2x2", "dgx1v"}) {
    auto machine = built_in(name);
    for (auto const kind : tree_collectives) {
      SCOPED_TRACE(std::string(name) + " " + std::string(to_text(kind)));
      // Every second server, so that some transfers use ports.
      for (auto& node : machine.nodes) node.server = node.id % 2;
      auto const plan = make_plan(machine, {kind, {}, "exact"});
      auto const sound = make_mscclpp_program(machine, plan, small_units()).program;
      int const root = check_mscclpp_program(sound).root.value_or(-1);
      for (int trial = 0; trial < 30; ++trial) {
        auto broken = sound;
        auto const what = break_one(broken, random);
        if (broken == sound) continue;
        SCOPED_TRACE(what);
        auto const report = check_mscclpp_program(broken);
        if (report) {
          ++passed;
          auto const failure = first_failure(broken, kind, report.root.value_or(root), 6);
          // A thread that has waited may put over a port by itself. The runner does not model that.
          bool const is_of_threads = failure.find("before all threads") != std::string::npos;
          EXPECT_TRUE(failure == "right" || is_of_threads) << failure;
          continue;
        }
        ++refused;
        EXPECT_EQ(report.fault->rfind(report.at.rank < 0 ? "" : "rank ", 0), 0U) << *report.fault;
        if (report.at.operation < 0 || report.at.chunk < 0) continue;
        EXPECT_NE(report.fault->find(in_words(report.at)), std::string::npos) << *report.fault;
        seen += first_failure(broken, kind, root, 4) == "right" ? 0 : 1;
      }
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(seen, 50);
  EXPECT_GT(passed, 5);
}

TEST(mscclpp, says_what_does_not_fit) {
  auto const machine = built_in("dgx2");
  auto const plan = make_plan(machine, {collective::all_reduce, {}, "exact"});
  auto const reason = [&](blink::plan const& p, mscclpp_options const& options) {
    try {
      (void)make_mscclpp_program(machine, p, options);
    } catch (planning_error const& error) {
      return std::string(error.what());
    }
    return std::string("fits");
  };
  EXPECT_EQ(reason(plan, {}), "fits");
  mscclpp_options options;
  options.instances = 100;
  EXPECT_NE(reason(plan, options).find("rank 0 needs semaphores: "), std::string::npos);
  options = {};
  options.limits.blocks = 1;
  EXPECT_NE(reason(plan, options).find("rank 0 needs thread blocks: "), std::string::npos);
  EXPECT_NE(reason(plan, options).find("at most 1 fit into MSCCL++"), std::string::npos);
  options = {};
  options.limits.operations = 3;
  EXPECT_NE(reason(plan, options).find("needs operations in a thread block: "), std::string::npos);
  auto const gather = make_plan(machine, {collective::gather, 0, "exact"});
  EXPECT_NE(reason(gather, {}).find("MSCCL++ has no gather"), std::string::npos);
  EXPECT_THROW(write_mscclpp_json_file(make_mscclpp_program(machine, plan).program, "/no/where"),
               input_error);
}

}}  // namespace mscclpp_test
