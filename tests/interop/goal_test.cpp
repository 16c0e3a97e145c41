// SPDX-License-Identifier: Apache-2.0
// Schedules in GOAL: written, read back, of other authors, and with faults.
#include <blink/interop/check_message_program.hpp>
#include <blink/interop/read_goal.hpp>
#include <blink/interop/write_goal.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/built_in_machines.hpp>

#include <gtest/gtest.h>
#include <support/expect_error.hpp>
#include <support/message_programs.hpp>
#include <support/random_plans.hpp>

#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace goal_test { namespace {

using namespace blink;
using test::make_messages;

/// The program without the labels that a reader sets.
message_program without_labels(message_program program) {
  for (auto& rank : program.ranks) {
    for (auto& each : rank.operations) each.label.clear();
  }
  return program;
}

void expect_same_after_a_file(message_program const& program) {
  auto const text = write_goal(program);
  EXPECT_TRUE(is_goal(text));
  auto const read = read_goal(text, "a.goal");
  EXPECT_EQ(without_labels(read), program);
  EXPECT_EQ(write_goal(read), text);
  EXPECT_EQ(check_message_program(read).fault.value_or("sound"), "sound");
}

TEST(write_goal, a_broadcast_to_the_letter) {
  auto const machine = test::make_full_machine(3);
  plan p;
  p.collective = collective::broadcast;
  p.unit = "GB/s";
  p.ranks = {0, 1, 2};
  p.rate = rational(1);
  p.trees = {{0, rational(1), {}, {{0, 1, {0, 1}}, {1, 2, {1, 2}}}}};
  auto const program = make_messages(machine, p, {1000, 1, 0.25});
  EXPECT_EQ(write_goal(program),
            R"(// blink program: broadcast chunks 1 bytes 1000 in_place out_of_place root 0
num_ranks 3

rank 0 {
// blink buffers: input 1 output 1 scratch 0
// blink data: message = input[0]
l1: send 1000b to 1 tag 0
// blink data: output[0] = input[0]
l2: calc 0 cpu 1
}

rank 1 {
// blink buffers: input 1 output 1 scratch 0
// blink data: output[0] = message
l1: recv 1000b from 0 tag 0
// blink data: message = output[0]
l2: send 1000b to 2 tag 0
l2 requires l1
}

rank 2 {
// blink buffers: input 1 output 1 scratch 0
// blink data: output[0] = message
l1: recv 1000b from 1 tag 0
}
)");
}

TEST(write_goal, a_reduction_in_slices) {
  auto const machine = test::make_full_machine(2);
  plan p;
  p.collective = collective::reduce;
  p.unit = "GB/s";
  p.ranks = {0, 1};
  p.rate = rational(3);
  p.trees.assign(1, {0, rational(3), {{1, 0, {1, 0}}}, {}});
  auto const text = write_goal(make_messages(machine, p, {8, 2, 0.5}));
  EXPECT_SAYS(text, "// blink program: reduce chunks 2 bytes 4 in_place out_of_place root 0\n");
  EXPECT_SAYS(text,
              "// blink data: output[1] = scratch[1] + input[1]\n"
              "l4: calc 2\n"
              "l4 requires l3\n");
}

TEST(write_goal, numbers_that_simulators_count_in_eight_bits) {
  message_program program;
  program.ranks.resize(2);
  for (int const number : {0, 1, 254, 255, 256, 510}) {
    program_operation message{message_kind::send, 1, number, 8, 0, number, number};
    program.ranks[0].operations.push_back(message);
    message.kind = message_kind::receive;
    message.peer = 0;
    program.ranks[1].operations.push_back(message);
  }
  program_operation computation;
  computation.processor = 255;
  computation.interface = 3;
  program.ranks[1].operations.push_back(computation);
  auto const text = write_goal(program);
  EXPECT_SAYS(text,
              "l1: send 8b to 1 tag 0\n"
              "l2: send 8b to 1 tag 1 cpu 1 nic 1\n"
              "l3: send 8b to 1 tag 254 cpu 254 nic 254\n"
              "l4: send 8b to 1 tag 255\n"
              "l5: send 8b to 1 tag 256 cpu 1 nic 1\n"
              "l6: send 8b to 1 tag 510\n}");
  EXPECT_SAYS(text, "l7: calc 0\n}");
  EXPECT_EQ(check_message_program(read_goal(text, "x")).fault.value_or("sound"), "sound");
}

TEST(goal, every_collective_and_random_forests) {
  test::for_each_message_program(expect_same_after_a_file);
}

// Comments, no labels, both kinds of dependencies, ranks in any order.
constexpr char const* tree = R"(/* a tree,
   by hand */
num_ranks 3
// blinking is no word of blink
rank 0 {
l1: send 8b to 1 tag 4 cpu 1 nic 2
send 8b to 2
  big_1 : calc 100 cpu 3
l1 irequires big_1
}
rank 2 { /* one */ recv 8b from 0
}
rank 1 {
recv 8 b from 0 tag 4
})";

TEST(read_goal, of_other_authors) {
  EXPECT_TRUE(is_goal(tree));
  auto const program = read_goal(tree, "tree.goal");
  EXPECT_FALSE(program.has_data);
  ASSERT_EQ(program.ranks.size(), 3U);
  auto const& first = program.ranks[0].operations;
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first[0],
            (program_operation{message_kind::send, 1, 4, 8, 0, 1, 2, {}, {2}, {}, "l1, line 6"}));
  EXPECT_EQ(first[1].label, "line 7");
  EXPECT_EQ(first[2].cost, 100);
  EXPECT_EQ(first[2].processor, 3);
  auto const report = check_message_program(program);
  EXPECT_EQ(report.fault.value_or("sound"), "sound");
  EXPECT_EQ(report.notes, std::vector<std::string>{
                              "the places of data are not known: only messages are checked"});
  auto changed = std::string(tree);
  changed.replace(changed.find("tag 4\n}"), 5, "tag 5");
  EXPECT_EQ(check_message_program(read_goal(changed, "x")).fault.value_or("sound"),
            "rank 0, operation 0: sends to rank 1 with tag 4, and that rank has no such receive, "
            "expected 1 (l1, line 6)");
}

TEST(read_goal, other_texts) {
  for (auto const* text :
       {"", "\n", "num", "<algo", "{\"a\": 1}", "// a\n", "/* num_ranks", "rank 0 {"}) {
    EXPECT_FALSE(is_goal(text)) << text;
  }
  EXPECT_TRUE(is_goal("\t// a\n/* b */ num_ranks 1"));
}

TEST(read_goal, names_the_line_and_what_was_expected) {
  auto const one = [](std::string const& body) {
    return "num_ranks 2\nrank 0 {\n" + body + "\n}\nrank 1 {\n}\n";
  };
  auto const with_data = [&](std::string const& body) {
    return "// blink program: reduce chunks 1 bytes 1 root 0\n" + one(body);
  };
  std::vector<std::pair<std::string, std::string>> const texts{
      {"", "x:0: the file ends, expected num_ranks"},
      {"nothing", "x:1: 'nothing', expected num_ranks"},
      {"num_ranks", "x:1: the line ends, expected a number of ranks up to 1048576"},
      {"num_ranks 0", "x:1: num_ranks 0, expected a rank at least"},
      {"num_ranks 99999999999999999999", "expected a number of ranks up to"},
      {"num_ranks 2000000", "expected a number of ranks up to 1048576"},
      {"num_ranks 1\nnum_ranks 1", "x:2: num_ranks stands twice"},
      {"rank 0 {", "x:1: rank before num_ranks"},
      {"num_ranks 1\nrank 1 {", "x:2: '1 {', expected a rank up to 0"},
      {"num_ranks 1\nrank 0", "x:2: the line ends, expected '{'"},
      {"num_ranks 1\nrank 0 {\nrank 0 {", "x:3: rank inside of rank 0"},
      {"num_ranks 1\nrank 0 {\n}\nrank 0 {\n}", "x:4: rank 0 stands twice"},
      {"num_ranks 3\nrank 1 {\n}", "x:3: rank 0 is missing, expected all 3 ranks"},
      {"num_ranks 1\nrank 0 {\n", "x:2: the file ends in rank 0, expected '}'"},
      {"num_ranks 1\n}", "x:2: '}' outside of a rank"},
      {"num_ranks 1\ncalc 1", "x:2: 'calc 1', expected rank"},
      {"num_ranks 1 /* \n\n", "x:2: the file ends in a comment, expected '*/'"},
      {one("send 1b to 1;"), "x:3: ';', expected the end of the line"},
      {one("send 1 to 1"), "x:3: 'to 1', expected 'b'"},
      {one("send b to 1"), "expected a number of bytes up to"},
      {one("send -1b to 1"), "expected a number of bytes up to"},
      {one("send 1b from 1"), "x:3: 'from 1', expected 'to'"},
      {one("recv 1b to 1"), "x:3: 'to 1', expected 'from'"},
      {one("recv 1b from 2"), "x:3: '2', expected a rank up to 1"},
      {one("recv 1b from -1"), "what a message from any rank matches depends on time"},
      {one("recv 1b from 1 tag -1"), "what a message with any tag matches depends on time"},
      {one("recv 1b from 1 tag 4294967295"), "expected a tag up to 4294967294"},
      {one("calc 1 cpu 256"), "expected a number up to 255"},
      {one("calc 1 nic 1"), "x:3: 'nic 1', expected the end of the line"},
      {one("calc"), "x:3: the line ends, expected a time up to"},
      {one("l1 calc 1"), "x:3: 'calc 1', expected ':', requires or irequires"},
      {one("l1: wait"), "x:3: 'wait', expected send, recv or calc"},
      {one("1: calc 1"), "x:3: '1: calc 1', expected an operation, a label or '}'"},
      {one("l1: calc 1\nl1: calc 1"), "x:4: label 'l1' stands twice in its rank"},
      {one("l1: calc 1\nl1 requires l2"), "x:4: label 'l2' stands nowhere above"},
      {one("l1: calc 1\nl1 requires l1 l1"), ""},
      {one("l1: calc 1\nl1 requires"), "x:4: the line ends, expected a label"},
      {one("\x01\xff"),
       "x:3: '?"
       "?', expected an operation"},
      {one("// blink what"), "x:3: 'what', expected program, buffers or data after blink"},
      {one("// blink data: message = input[0]"), "x:3: blink data without blink program"},
      {with_data("// blink data: message = input[0]"), "x:5: blink data before no operation"},
      {with_data("// blink data: message = input[0]\n// blink data: message = input[0]"),
       "x:5: blink data before no operation"},
      {with_data("// blink data: input[0]"), "x:4: the line ends, expected '='"},
      {with_data("// blink data: message = memory[0]"),
       "expected input, output, scratch or message"},
      {with_data("// blink data: message = input[2:1]"), "expected a later end and a stride"},
      {with_data("// blink data: message = input[0:2:0]"), "expected a later end and a stride"},
      {with_data("// blink data: message = input[999999999]"), "expected a chunk's position up to"},
      {with_data("// blink data: message = input[0"), "x:4: the line ends, expected ']'"},
      {with_data("// blink data: message = input[0] + input[0] + input[0]"), "expected the end"},
      {one("// blink program: all_reduce chunks 1 bytes 1"), "expected it once, before all ranks"},
      {one("calc 1\n// blink buffers: input 1 output 1 scratch 0"), "expected it after rank N {"},
      {"// blink program: all chunks", "x:1: 'all chunks', expected the name of a collective"},
      {"// blink program: reduce", "x:1: the line ends, expected 'chunks'"},
      {"// blink program: reduce chunks 1 bytes 1 root x", "expected the root's rank up to"},
      {"// blink data: message = input[0]", "x:1: blink data outside of a rank"},
  };
  for (auto const& [text, expected] : texts) {
    SCOPED_TRACE(text);
    auto const error = blink_test::error_of([&] { (void)read_goal(text, "x"); });
    EXPECT_NE(error, "no error");
    EXPECT_SAYS(error, expected);
  }
  EXPECT_ERROR((void)read_goal_file("/nowhere/at/all.goal"), "expected a schedule in GOAL");
  EXPECT_ERROR(write_goal_file({}, "/nowhere/at/all.goal"), "cannot be written");
}

// A dependency on a later operation stands behind its label.
TEST(write_goal, dependencies_on_later_operations) {
  std::string const text =
      "num_ranks 1\n\nrank 0 {\nl1: calc 1\nl2: calc 2\nl2 requires l1\nl1 irequires l2\n}\n";
  auto const program = read_goal(text, "x");
  EXPECT_EQ(program.ranks[0].operations[0].after_start, std::vector<int>{1});
  EXPECT_EQ(write_goal(program), text);
  EXPECT_SAYS(check_message_program(program).fault.value_or("sound"), "depends on its own end");
}

// Lines lost, swapped and doubled: read and checked without a crash.
TEST(read_goal, broken_files) {
  auto const machine = make_built_in_machine("ring:4").value();
  auto const text = write_goal(make_messages(machine, make_plan(machine, {}), {4096, 1, 0}));
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    auto const end = text.find('\n', at);
    lines.push_back(text.substr(at, end + 1 - at));
    at = end + 1;
  }
  std::mt19937 random(3);
  int refused = 0;
  int faults = 0;
  for (int trial = 0; trial < 300; ++trial) {
    auto broken = lines;
    auto const at = random() % lines.size();
    auto const other = random() % lines.size();
    if (trial % 3 == 0) broken.erase(broken.begin() + static_cast<std::ptrdiff_t>(at));
    if (trial % 3 == 1) std::swap(broken[at], broken[other]);
    if (trial % 3 == 2) {
      broken.insert(broken.begin() + static_cast<std::ptrdiff_t>(at), std::string(lines[other]));
    }
    std::string whole;
    for (auto const& line : broken) whole += line;
    try {
      faults += check_message_program(read_goal(whole, "x")) ? 0 : 1;
    } catch (input_error const&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(faults, 50);
}

}}  // namespace goal_test
