// SPDX-License-Identifier: Apache-2.0
// Plans as programs of messages: made, checked, broken, and run by a plain interpreter.
#include <blink/interop/check_message_program.hpp>
#include <blink/interop/check_program.hpp>
#include <blink/interop/make_message_program.hpp>
#include <blink/interop/make_step_program.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/built_in_machines.hpp>

#include <gtest/gtest.h>
#include <support/expect_error.hpp>
#include <support/message_programs.hpp>
#include <support/message_runner.hpp>
#include <support/random_plans.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace message_program_test { namespace {

using namespace blink;

message_program written(topology const& machine, plan const& p, int slices = 1) {
  message_program_options options;
  options.bytes = 100'000;
  options.slices = slices;
  return test::make_messages(machine, p, options);
}

/// The first run with a wrong result; nothing if all are right.
std::optional<std::string> first_failure(message_program const& program, int runs) {
  for (bool const in_place : {true, false}) {
    if (!(in_place ? program.runs_in_place : program.runs_out_of_place)) continue;
    for (int seed = 0; seed < runs; ++seed) {
      auto const failure =
          test::message_runner(program, in_place, static_cast<std::uint64_t>(seed)).run();
      if (failure) return *failure + (in_place ? " in place" : " out of place");
    }
  }
  return std::nullopt;
}

void expect_sound(message_program const& program) {
  auto const report = check_message_program(program);
  EXPECT_EQ(report.fault.value_or("sound"), "sound");
  for (auto const& note : report.notes) ADD_FAILURE() << note;
  EXPECT_EQ(report.root, program.root);
  EXPECT_EQ(first_failure(program, 2).value_or("right"), "right");
}

TEST(make_message_program, every_collective_on_known_machines) {
  for (auto const* name : {"ring:4", "dgx1v", "mesh:3x2"}) {
    auto const machine = make_built_in_machine(name).value();
    for (auto const kind : collective_names) {
      auto const it = std::find(collective_names.begin(), collective_names.end(), kind);
      auto const collective = static_cast<blink::collective>(it - collective_names.begin());
      if (!moves_data(collective) || is_permutation(collective)) continue;
      plan p;
      step_program steps;
      try {
        p = make_plan(machine, {collective, {}, "exact"});
        steps = make_step_program(machine, p).program;
      } catch (planning_error const& reason) {  // routes through ranks are not for step programs
        EXPECT_SAYS(reason.what(), "leads through rank");
        continue;
      }
      for (int const slices : {1, 3}) {
        SCOPED_TRACE(std::string(name) + " " + std::string(kind) + " x" + std::to_string(slices));
        expect_sound(written(machine, p, slices));
      }
    }
  }
}

TEST(make_message_program, random_forests) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto const [machine, p] = test::make_random_forest(seed);
    expect_sound(written(machine, p, 1 + static_cast<int>(seed) % 2));
  }
}

TEST(make_message_program, flows_over_other_ranks) {
  auto const machine = test::make_full_machine(5);
  for (auto const kind : {collective::gather, collective::scatter, collective::all_to_all}) {
    SCOPED_TRACE(to_text(kind));
    expect_sound(written(machine, test::make_flows(kind, 5, 2)));
    expect_sound(written(machine, test::make_flows(kind, 5, 2), 2));
  }
}

/// The most messages that follow one another, each of which waits for the one before.
int longest_row(message_program const& program) {
  std::map<std::tuple<int, int, std::int64_t>, int> sent;
  std::vector<std::vector<int>> until(program.ranks.size());  // by rank and operation
  for (bool changes = true; std::exchange(changes, false);) {
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      auto const& operations = program.ranks[r].operations;
      until[r].resize(operations.size());
      for (std::size_t i = 0; i < operations.size(); ++i) {
        auto const& here = operations[i];
        int row = 0;
        for (int const before : here.after) {
          row = std::max(row, until[r][static_cast<std::size_t>(before)]);
        }
        int const rank = static_cast<int>(r);
        if (here.kind == message_kind::send) sent[{rank, here.peer, here.tag}] = row + 1;
        if (here.kind == message_kind::receive) {
          row = std::max(row, sent[{here.peer, rank, here.tag}]);
        }
        changes = changes || row != until[r][i];
        until[r][i] = row;
      }
    }
  }
  int result = 0;
  for (auto const& each : until) result = std::max(result, *std::ranges::max_element(each));
  return result;
}

// LogGOPSim and ASTRA-sim took up to five times the plan's time where a message waited for those
// of other trees on its link.
TEST(make_message_program, messages_wait_only_for_those_of_their_tree) {
  for (auto const* name : {"ring:8", "dgx1v", "fully_connected:4"}) {
    auto const machine = make_built_in_machine(name).value();
    for (auto const kind : {collective::broadcast, collective::reduce, collective::all_gather,
                            collective::reduce_scatter, collective::all_reduce}) {
      SCOPED_TRACE(std::string(name) + " " + std::string(to_text(kind)));
      auto const p = make_plan(machine, {kind, {}, "exact"});
      int deepest = 0;
      for (auto const& t : p.trees) {
        int both = 0;
        for (auto const* phase : {&t.reduce, &t.broadcast}) {
          std::map<int, int> beyond;  // by node: edges between it and the root, or a leaf
          for (std::size_t left = phase->size(); left > 0; --left) {
            for (auto const& e : *phase) beyond[e.to] = std::max(beyond[e.to], beyond[e.from] + 1);
          }
          int longest = 0;
          for (auto const& [node, edges] : beyond) longest = std::max(longest, edges);
          both += longest;
        }
        deepest = std::max(deepest, both);
      }
      for (int const slices : {1, 4}) EXPECT_EQ(longest_row(written(machine, p, slices)), deepest);
    }
  }
}

TEST(make_message_program, sizes_tags_and_costs) {
  auto const machine = make_built_in_machine("ring:3").value();
  auto const steps = make_step_program(machine, make_plan(machine, {})).program;
  message_program_options options;
  options.bytes = 3001;
  options.slices = 2;
  options.cost_per_byte = 0.5;
  auto const program = make_message_program(steps, options);
  EXPECT_EQ(program.chunk_count, 2 * steps.chunk_count);
  EXPECT_EQ(program.chunk_bytes, (3001 + program.chunk_count - 1) / program.chunk_count);
  std::set<std::tuple<int, int, std::int64_t>> tags;
  int added = 0;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (auto const& each : program.ranks[r].operations) {
      if (each.kind == message_kind::send) {
        EXPECT_TRUE(tags.insert({static_cast<int>(r), each.peer, each.tag}).second);
        EXPECT_EQ(each.bytes, each.data->sources.front().count * program.chunk_bytes);
      }
      bool const adds = each.kind == message_kind::compute && each.data->sources.size() == 2;
      auto const bytes = each.data->destination ? each.data->destination->count : 0;
      EXPECT_EQ(each.cost, adds ? std::llround(0.5 * static_cast<double>(bytes) *
                                               static_cast<double>(program.chunk_bytes))
                                : 0);
      added += adds ? 1 : 0;
    }
  }
  EXPECT_EQ(added, 2 * 6);  // three trees of two edges each, in two slices
}

TEST(make_message_program, refuses) {
  auto const machine = make_built_in_machine("ring:3").value();
  auto steps = make_step_program(machine, make_plan(machine, {})).program;
  EXPECT_ERROR((void)make_message_program(steps, {0}), "expected from 1 to 2^50 bytes");
  EXPECT_ERROR((void)make_message_program(steps, {1, 0}), "expected a slice at least");
  EXPECT_ERROR((void)make_message_program(steps, {1, 1, -1}), "expected a cost per byte");
  EXPECT_ERROR((void)make_message_program(steps, {1, 1 << 30}), "expected at most 16777216 slices");
  auto& blocks = steps.ranks[0].blocks;
  blocks[0].steps[0].depends_block = 7;
  blocks[0].steps[0].depends_step = 0;
  EXPECT_ERROR((void)make_message_program(steps), "expected steps that wait for steps");
  blocks[0].steps[0].depends_block = 0;
  EXPECT_ERROR((void)make_message_program(steps),
               "wait for each other or for messages without end");
}

// Copies before all steps, steps that only wait, local reductions: forms that blink's own programs
// do not have.
TEST(make_message_program, every_kind_of_step) {
  step_program program;
  program.collective = collective::all_reduce;
  program.channel_count = 1;
  program.chunk_count = 1;
  program.runs_in_place = false;
  auto const input = chunk_place{step_buffer::input, 0};
  auto const output = chunk_place{step_buffer::output, 0};
  auto const scratch = chunk_place{step_buffer::scratch, 0};
  for (int rank = 0; rank < 2; ++rank) {
    rank_program here{1, 1, 1, {}, {{0, 0}}};
    here.blocks.push_back({1 - rank, 1 - rank, 0, {}});
    here.blocks[0].steps.push_back({step_kind::send, input, {}});
    here.blocks[0].steps.push_back({step_kind::receive, {}, scratch});
    here.blocks[0].steps.back().is_awaited = true;
    here.blocks.push_back({});
    here.blocks[1].steps.push_back({step_kind::nothing, {}, {}, 1, 0, 1});
    here.blocks[1].steps.push_back({step_kind::reduce, scratch, output});
    here.blocks[1].steps.push_back({step_kind::copy, output, scratch});
    program.ranks.push_back(here);
  }
  ASSERT_EQ(check_program(program).fault.value_or("sound"), "sound");
  for (int const slices : {1, 3}) {
    auto const messages = make_message_program(program, {1 << 20, slices});
    auto const report = check_message_program(messages);
    EXPECT_EQ(report.fault.value_or("sound"), "sound");
    EXPECT_TRUE(report.notes.empty());  // receives do not wait for the sends before them
    EXPECT_EQ(first_failure(messages, 5).value_or("right"), "right");
  }
}

// One planted fault each: its change, and the words that the check finds for it.
struct planted_fault {
  char const* name;
  std::function<void(message_program&)> plant;
  char const* text;
};

/// A rank's first operation of a kind.
program_operation& first_of(message_program& program, int rank, message_kind kind) {
  for (auto& each : program.ranks[static_cast<std::size_t>(rank)].operations) {
    if (each.kind == kind) return each;
  }
  throw precondition_error("no such operation");
}

TEST(check_message_program, planted_faults) {
  auto const machine = make_built_in_machine("ring:3").value();
  auto const sound = written(machine, make_plan(machine, {}));
  auto const send = message_kind::send;
  auto const receive = message_kind::receive;
  auto const compute = message_kind::compute;
  std::vector<planted_fault> const faults{
      {"lost send", [&](auto& p) { first_of(p, 1, send).kind = compute; },
       "receives from rank 1 with tag 0, and that rank has no such send, expected 1"},
      {"lost receive", [&](auto& p) { first_of(p, 1, receive).kind = compute; },
       "with tag 0, and that rank has no such receive, expected 1"},
      {"wrong peer", [&](auto& p) { first_of(p, 1, send).peer = 2 - first_of(p, 1, send).peer; },
       "and that rank has no such "},
      {"no peer", [&](auto& p) { first_of(p, 1, send).peer = 7; }, "sends with rank 7 of 3"},
      {"wrong tag", [&](auto& p) { first_of(p, 0, send).tag = 99; },
       "with tag 99, and that rank has no such receive"},
      {"wrong size", [&](auto& p) { first_of(p, 0, send).bytes += 1; },
       " bytes, expected 1 chunks of "},
      {"another number of chunks",
       [&](auto& p) {
         first_of(p, 0, send).data->sources[0] = {step_buffer::input, 0, 2};
         first_of(p, 0, send).bytes *= 2;
       },
       " receives "},
      {"dependency in a circle",
       [&](auto& p) {
         auto& all = p.ranks[1].operations;
         int const last = static_cast<int>(all.size()) - 1;
         all[static_cast<std::size_t>(all.back().after.front())].after.push_back(last);
       },
       "depends on its own end, through operation "},
      {"dependency on itself", [&](auto& p) { p.ranks[1].operations[0].after_start = {0}; },
       "rank 1, operation 0: depends on its own end, through operation 0 of rank 1"},
      {"no dependency", [&](auto& p) { p.ranks[1].operations[0].after.push_back(500); },
       "rank 1, operation 0: depends on operation 500 of "},
      {"reduced twice",
       [&](auto& p) {
         auto& data = *first_of(p, 0, compute).data;
         data.sources[1] = data.sources[0];
       },
       "a second time"},
      {"another chunk reduced",
       [&](auto& p) {
         auto& chunk = first_of(p, 0, compute).data->sources[1].first;
         chunk = (chunk + 1) % 3;
       },
       "adds chunk "},
      {"a sum lost", [&](auto& p) { first_of(p, 0, compute).data->sources.pop_back(); },
       "the output misses "},
      {"outside of the buffer", [&](auto& p) { first_of(p, 0, send).data->sources[0].first = 3; },
       " chunk 3 of 3"},
      {"data of another kind",
       [&](auto& p) { first_of(p, 0, send).data = first_of(p, 0, receive).data; },
       "the data of a send are those of another operation"},
      {"no data", [&](auto& p) { first_of(p, 0, send).data.reset(); }, "sends without its data"},
      {"no order",
       [&](auto& p) {
         for (auto& each : p.ranks[0].operations) each.after.clear();
       },
       "before anything is written there"},
      {"deadlock by order",
       [&](auto& p) {
         // Every rank waits for its last arrival before its first operation.
         for (auto& rank : p.ranks) {
           auto& all = rank.operations;
           int last = static_cast<int>(all.size()) - 1;
           while (all[static_cast<std::size_t>(last)].kind != receive) --last;
           for (int i = 0; i < static_cast<int>(all.size()); ++i) {
             if (i == last) all[static_cast<std::size_t>(i)].after.clear();
             if (i != last) all[static_cast<std::size_t>(i)].after.push_back(last);
           }
         }
       },
       " without end, for operation "},
      {"root of no collective",
       [&](auto& p) {
         p.collective = collective::reduce;
         p.root.reset();
       },
       "the root is not named"},
      {"too large", [&](auto& p) { p.ranks[0].scratch_chunks = 1 << 28; }, "are too many to check"},
  };
  ASSERT_EQ(check_message_program(sound).fault.value_or("sound"), "sound");
  for (auto const& each : faults) {
    SCOPED_TRACE(each.name);
    auto broken = sound;
    each.plant(broken);
    ASSERT_NE(broken, sound);
    auto const report = check_message_program(broken);
    ASSERT_FALSE(report);
    EXPECT_SAYS(*report.fault, each.text);
  }
}

/// Changes one thing of one operation.
void break_one(message_program& program, std::mt19937& random) {
  auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  auto& rank = program.ranks[below(program.ranks.size())];
  auto& here = rank.operations[below(rank.operations.size())];
  int const by = random() % 2 == 0 ? 1 : -1;
  auto const change = [&](chunk_range& range) {
    switch (below(4)) {
      case 0:
        range.first += by;
        break;
      case 1:
        range.buffer = static_cast<step_buffer>(below(3));
        break;
      case 2:
        range.count += by;
        break;
      default:
        range.stride += by;
    }
  };
  switch (below(9)) {
    case 0:
      here.peer = static_cast<int>(below(program.ranks.size()));
      break;
    case 1:
      here.tag += by;
      break;
    case 2:
      here.bytes += by;
      break;
    case 3:
      if (!here.after.empty()) here.after.erase(here.after.begin());
      break;
    case 4:
      here.after.push_back(static_cast<int>(below(rank.operations.size())));
      break;
    case 5:
      here.kind = static_cast<message_kind>(below(3));
      break;
    case 6:
      std::swap(here.data, rank.operations[below(rank.operations.size())].data);
      break;
    case 7:
      if (here.data && here.data->destination) change(*here.data->destination);
      break;
    default:
      if (here.data && !here.data->sources.empty()) change(here.data->sources.back());
  }
}

TEST(check_message_program, what_passes_runs_to_the_right_result) {
  std::mt19937 random(7);
  int refused = 0;
  int seen = 0;  // of the refused ones, by running them
  int passed = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    auto const [machine, p] = test::make_random_forest(seed);
    auto const program = written(machine, p);
    for (int trial = 0; trial < 60; ++trial) {
      auto broken = program;
      break_one(broken, random);
      if (broken == program) continue;
      SCOPED_TRACE(std::to_string(seed) + ", trial " + std::to_string(trial));
      auto const report = check_message_program(broken);
      if (report) {
        ++passed;
        EXPECT_EQ(first_failure(broken, 6).value_or("right"), "right");
        continue;
      }
      ++refused;
      EXPECT_GE(report.at.rank, 0) << *report.fault;
      EXPECT_EQ(report.fault->rfind("rank ", 0), 0U) << *report.fault;
      // Places and sizes that do not fit together are not for running.
      if (report.at.chunk >= 0) seen += first_failure(broken, 4).has_value() ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 400);
  EXPECT_GT(seen, 50);
  EXPECT_GT(passed, 10);  // such as dependencies that another one implies
}

TEST(check_message_program, messages_without_data) {
  message_program program;
  auto const add = [&](std::size_t rank, message_kind kind, int peer, std::vector<int> after = {}) {
    program.ranks[rank].operations.push_back({kind, peer, 0, 8, 0, 0, 0, std::move(after)});
  };
  program.ranks.resize(2);
  // Both send first: sound, unless sends wait for their receives.
  for (std::size_t rank = 0; rank < 2; ++rank) {
    int const other = rank == 0 ? 1 : 0;
    add(rank, message_kind::send, other);
    add(rank, message_kind::receive, other, {0});
  }
  auto report = check_message_program(program);
  EXPECT_EQ(report.fault.value_or("sound"), "sound");
  ASSERT_EQ(report.notes.size(), 2U);
  EXPECT_EQ(report.notes[0],
            "hangs if sends wait for their receives: rank 0, operation 0: sends to rank 1 without "
            "end, for operation 1 of rank 1 waits for it in turn");
  EXPECT_SAYS(report.notes[1], "data are not known");
  // Equal messages side by side: a note. One after the other: none.
  add(0, message_kind::send, 1);
  add(1, message_kind::receive, 0, {1});
  report = check_message_program(program);
  EXPECT_EQ(report.fault.value_or("sound"), "sound");
  ASSERT_EQ(report.notes.size(), 3U);
  EXPECT_SAYS(report.notes[2], "its message may overtake that of operation");
  program.ranks[0].operations[2].after_start = {0};
  EXPECT_EQ(check_message_program(program).notes.size(), 2U);
  program.ranks[0].operations[2].after_start.clear();
  program.ranks[0].operations[2].after = {0};
  EXPECT_EQ(check_message_program(program).notes.size(), 2U);
  // Of other sizes.
  program.ranks[1].operations[2].bytes = 9;
  EXPECT_SAYS(*check_message_program(program).fault,
              "rank 0, operation 2: sends 8 bytes, and operation 2 of rank 1 receives 9");
  // Both receive first.
  program.ranks.clear();
  program.ranks.resize(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    int const other = rank == 0 ? 1 : 0;
    add(rank, message_kind::receive, other);
    add(rank, message_kind::send, other, {0});
  }
  EXPECT_SAYS(*check_message_program(program).fault,
              "rank 0, operation 0: waits for a message from rank 1 without end, for operation 1 "
              "of rank 1 waits for it in turn");
  program.ranks.clear();
  EXPECT_SAYS(*check_message_program(program).fault, "no ranks");
}

// Equal tags are sound where the messages have an order, and a fault where they have none.
TEST(check_message_program, messages_that_may_overtake) {
  auto const machine = test::make_full_machine(2);
  plan p;
  p.collective = collective::broadcast;
  p.unit = "GB/s";
  p.ranks = {0, 1};
  p.rate = rational(2);
  p.trees.assign(2, {0, rational(1), {}, {{0, 1, {0, 1}}}});
  p.trees[1].weight = rational(2);
  auto program = written(machine, p, 2);
  ASSERT_EQ(check_message_program(program).fault.value_or("sound"), "sound");
  for (auto& rank : program.ranks) {
    int before = -1;
    for (int i = 0; i < std::ssize(rank.operations); ++i) {
      auto& each = rank.operations[static_cast<std::size_t>(i)];
      if (each.kind == message_kind::compute) continue;
      each.tag = 0;
      if (before >= 0) each.after.push_back(before);
      before = i;
    }
  }
  EXPECT_EQ(check_message_program(program).fault.value_or("sound"), "sound");
  for (auto& each : program.ranks[0].operations) each.after.clear();
  EXPECT_SAYS(check_message_program(program).fault.value_or("sound"),
              "its message may overtake that of operation");
}

TEST(check_message_program, many_operations_side_by_side) {
  message_program program;
  program.ranks.resize(2);
  int const count = 20'000;
  for (int i = 0; i < count; ++i) {
    program.ranks[0].operations.push_back({message_kind::send, 1, i, 8});
    program.ranks[1].operations.push_back({message_kind::receive, 0, i, 8});
  }
  EXPECT_EQ(check_message_program(program).notes.size(), 1U);  // pairs of their own
  program_operation all;
  for (int i = 0; i < count; ++i) all.after.push_back(i);
  program.ranks[0].operations.push_back(all);
  program.ranks[1].operations.push_back(all);
  auto const report = check_message_program(program);
  EXPECT_EQ(report.fault.value_or("sound"), "sound");
  ASSERT_EQ(report.notes.size(), 2U);
  EXPECT_SAYS(report.notes[1], "too many operations side by side");
}

}}  // namespace message_program_test
