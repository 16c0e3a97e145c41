// SPDX-License-Identifier: Apache-2.0
// Chakra execution traces: written, read back, of other authors, and with faults.
#include <blink/interop/check_message_program.hpp>
#include <blink/interop/read_chakra.hpp>
#include <blink/interop/write_chakra.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/built_in_machines.hpp>

#include <gtest/gtest.h>
#include <support/expect_error.hpp>
#include <support/fresh_folder.hpp>
#include <support/message_programs.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace chakra_test { namespace {

using namespace blink;
using test::make_messages;

std::vector<chakra_file> files_of(message_program const& program) {
  std::vector<chakra_file> result;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    result.push_back({chakra_file_name("x", rank), write_chakra(program, rank)});
  }
  return result;
}

/// The program without what traces do not hold, and without the labels that a reader sets.
message_program as_traced(message_program program) {
  for (auto& rank : program.ranks) {
    for (auto& each : rank.operations) {
      each.label.clear();
      each.processor = 0;
      each.cost = (each.cost + 500) / 1000 * 1000;
    }
  }
  return program;
}

void expect_same_after_files(message_program const& program) {
  auto const files = files_of(program);
  for (auto const& file : files) EXPECT_TRUE(is_chakra(file.bytes));
  auto const read = read_chakra(files);
  EXPECT_EQ(as_traced(read), as_traced(program));
  EXPECT_EQ(check_message_program(read).fault.value_or("sound"), "sound");
}

std::string in_hexadecimal(std::string_view bytes) {
  std::string result;
  for (char const c : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(c));
    result += digits;
  }
  return result;
}

// Of a file without places of data, each byte.
TEST(write_chakra, a_send_and_a_computation_to_the_byte) {
  message_program program;
  program.ranks.resize(2);
  program.ranks[0].operations.push_back({message_kind::send, 1, 3, 300});
  program.ranks[0].operations.push_back({message_kind::compute, -1, 0, 0, 2000, 1, 0, {0}});
  std::string const text =
      "08"
      "00"  // id 0
      "12"
      "0f" +
      in_hexadecimal("send of block 0") +  // name
      "18"
      "05"  // COMM_SEND_NODE
      "52"
      "0e"
      "0a"
      "09" +
      in_hexadecimal("is_cpu_op") +
      "d801"
      "00" +
      "52"
      "0e"
      "0a"
      "09" +
      in_hexadecimal("comm_size") +
      "48"
      "ac02" +
      "52"
      "0c"
      "0a"
      "08" +
      in_hexadecimal("comm_src") +
      "38"
      "00" +
      "52"
      "0c"
      "0a"
      "08" +
      in_hexadecimal("comm_dst") +
      "38"
      "01" +
      "52"
      "0c"
      "0a"
      "08" +
      in_hexadecimal("comm_tag") +
      "38"
      "03" +
      "52"
      "1a"
      "0a"
      "0d" +
      in_hexadecimal("msg_chunk_cnt") +
      "38"
      "ffffffffffffffffff01" +
      "52"
      "1a"
      "0a"
      "0d" +
      in_hexadecimal("msg_chunk_idx") +
      "38"
      "ffffffffffffffffff01" +
      "52"
      "1c"
      "0a"
      "0f" +
      in_hexadecimal("total_chunk_cnt") +
      "38"
      "ffffffffffffffffff01";
  std::string const second =
      "08"
      "01"
      "12"
      "12" +
      in_hexadecimal("compute of block 1") +
      "18"
      "04"  // COMP_NODE
      "2a"
      "01"
      "00"  // depends on node 0
      "38"
      "02"  // microseconds
      "52"
      "0e"
      "0a"
      "09" +
      in_hexadecimal("is_cpu_op") +
      "d801"
      "00";
  EXPECT_EQ(text.size() / 2, 0xb5U);
  EXPECT_EQ(second.size() / 2, 0x2dU);
  EXPECT_EQ(in_hexadecimal(write_chakra(program, 0)),
            "07"
            "0a"
            "05" +
                in_hexadecimal("1.0.0") + "b501" + text + "2d" + second);
  EXPECT_ERROR((void)write_chakra(program, 2), "expected a rank of the program");
}

TEST(chakra, every_collective_and_random_forests) {
  test::for_each_message_program(expect_same_after_files);
}

TEST(chakra, files_of_all_ranks) {
  auto const machine = make_built_in_machine("ring:4").value();
  auto const program = make_messages(machine, make_plan(machine, {}), {4096, 1, 0});
  blink_test::fresh_folder const folder;
  auto const prefix = folder.name() + "/a.b";
  write_chakra_files(program, prefix);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(as_traced(read_chakra_files(chakra_file_name(prefix, rank))), as_traced(program));
  }
  std::filesystem::remove(chakra_file_name(prefix, 1));
  EXPECT_ERROR((void)read_chakra_files(prefix + ".3.et"), ".1.et: cannot be opened");
  EXPECT_SAYS(check_message_program(read_chakra_files(prefix + ".0.et")).fault.value_or("sound"),
              "with rank ");
  for (auto const* name : {"a.et", "a.x.et", "a.01.et", "a.0.txt", ".et", "a.-1.et"}) {
    EXPECT_ERROR((void)read_chakra_files(name), "expected a name such as PREFIX.0.et");
  }
  EXPECT_ERROR(write_chakra_files(program, "/nowhere/at/all"), "cannot be written");
}

using fields = std::initializer_list<std::pair<int, std::uint64_t>>;

/// A message of numbers.
std::string message(fields numbers) {
  std::string result;
  for (auto const& [field, value] : numbers) detail::append_field(result, field, value);
  return result;
}
/// The field of an attribute of a node.
std::string attribute(std::string_view name, int type, std::uint64_t value) {
  std::string inner;
  detail::append_field(inner, 1, name);
  detail::append_field(inner, type, value);
  std::string result;
  detail::append_field(result, 10, inner);
  return result;
}
/// A file: metadata, then nodes.
std::string file(std::initializer_list<std::string> nodes) {
  std::string result;
  std::string metadata;
  detail::append_field(metadata, 1, "0.0.4");
  detail::append_sized(result, metadata);
  for (auto const& node : nodes) detail::append_sized(result, node);
  return result;
}

// Ids in any order, other types of numbers, dependencies one by one and packed, unknown fields.
TEST(read_chakra, of_other_authors) {
  std::string packed;
  detail::append_field(packed, 5, std::string_view("\x07", 1));
  std::string shapes;
  detail::append_field(shapes, 8, "shapes");
  auto const sends = message({{1, 700}, {3, 5}, {4, 9}, {5, 3}}) + attribute("comm_size", 13, 64) +
                     attribute("comm_dst", 11, 1) + attribute("comm_tag", 15, 10) +
                     attribute("comm_type", 9, 5);
  auto const receives = message({{1, 7}, {3, 6}}) + attribute("comm_size", 9, 64) +
                        attribute("comm_src", 7, 0) + attribute("comm_tag", 7, 5);
  auto const program =
      read_chakra({{"a.0.et", file({sends, message({{1, 3}, {3, 4}, {7, 2}}) + shapes})},
                   {"a.1.et", file({receives, message({{1, 8}, {3, 1}}) + packed})}});
  ASSERT_EQ(program.ranks.size(), 2U);
  EXPECT_FALSE(program.has_data);
  EXPECT_EQ(program.ranks[0].operations[0],
            (program_operation{message_kind::send, 1, 5, 64, 0, 0, 0, {1}, {}, {}, "node 700"}));
  EXPECT_EQ(program.ranks[0].operations[1].cost, 2000);
  EXPECT_EQ(program.ranks[1].operations[1].after, std::vector<int>{0});
  auto const report = check_message_program(program);
  EXPECT_EQ(report.fault.value_or("sound"), "sound");
  EXPECT_EQ(report.notes, std::vector<std::string>{
                              "the places of data are not known: only messages are checked"});
}

TEST(read_chakra, names_the_node_and_what_was_expected) {
  auto const send = message({{1, 4}, {3, 5}});
  auto const size = attribute("comm_size", 9, 64);
  auto const peer = attribute("comm_dst", 7, 1);
  auto const minus_one = ~std::uint64_t{0};
  std::string named = message({{1, 4}, {3, 4}, {5, 9}});
  detail::append_field(named, 2, "bad \x1b[31m");
  std::string text_id;
  detail::append_field(text_id, 1, "one");
  std::string text_data = message({{1, 4}, {3, 4}});
  {
    std::string inner;
    detail::append_field(inner, 1, "blink_data");
    detail::append_field(inner, 29, "output[0] = everything");
    detail::append_field(text_data, 10, inner);
  }
  std::vector<std::pair<std::string, std::string>> const files{
      {"", "x.0.et: metadata: the file ends within a message"},
      {std::string(20, '\xff'), "x.0.et: metadata: the file ends within a message"},
      {"\x05"
       "abc",
       "x.0.et: metadata: the file ends within a message"},
      {std::string("\x02\x0a\x05", 3), "x.0.et: metadata: a field that is cut off"},
      {file({"\x0b"}), "x.0.et: node number 0: a field that is cut off or of another type"},
      {file({std::string("\x00\x00", 2)}), "node number 0: a field that is cut off"},
      {file({text_id}), "node number 0: an id of type 2, expected 0"},
      {file({send + peer}), "x.0.et: node 4: attribute comm_size is missing, expected a number"},
      {file({send + size}), "node 4: attribute comm_dst is missing"},
      {file({send + size + attribute("comm_dst", 7, minus_one)}),
       "node 4: attribute comm_dst, expected an integer from 0 to 2147483647"},
      {file({send + peer + attribute("comm_size", 9, minus_one)}),
       "node 4: attribute comm_size, expected an integer from 0 to"},
      {file({send + size + peer + attribute("comm_src", 7, 3)}),
       "node 4: comm_src 3, expected the rank of the file, 0"},
      {file({message({{1, 4}})}), "node 4: type 0, expected a send (5)"},
      {file({message({{1, 4}, {3, 7}})}), "node 4: a collective (COMM_COLL_NODE), expected"},
      {file({message({{1, 4}, {3, 99}})}), "node 4: type 99, expected a send (5)"},
      {file({message({{1, 4}, {3, 4}}), message({{1, 4}, {3, 4}})}), "node 4: the id stands twice"},
      {file({message({{1, 4}, {3, 4}, {7, minus_one}})}), "a duration of more than 2^50"},
      {file({named}), "x.0.et: node 4, bad ?[31m: depends on node 9, which the file does not have"},
      {file({text_data}), "x.0.et: node 4: blink_data without blink_program"},
  };
  for (auto const& [bytes, expected] : files) {
    SCOPED_TRACE(expected);
    EXPECT_ERROR((void)read_chakra({{"x.0.et", bytes}}), expected);
  }
  auto const machine = make_built_in_machine("ring:4").value();
  auto traces = files_of(make_messages(machine, make_plan(machine, {}), {4096, 1, 0}));
  auto const other = files_of(make_messages(machine, make_plan(machine, {}), {8192, 1, 0}));
  std::swap(traces[1].bytes, traces[2].bytes);
  EXPECT_ERROR((void)read_chakra(traces), "x.1.et: node 0: comm_");
  detail::append_sized(traces[0].bytes, text_data);
  EXPECT_ERROR((void)read_chakra(traces),
               "x.0.et: node 4: blink_data: 'everything', expected input, output");
  traces = other;
  traces[0] = files_of(make_messages(machine, make_plan(machine, {}), {4096, 1, 0}))[0];
  EXPECT_ERROR((void)read_chakra(traces), "x.1.et: metadata: another collective than in the file");
}

TEST(read_chakra, other_bytes) {
  for (auto const* text : {"", "\n", "{\"a\": 1}", "<algo name=\"a\">", "num_ranks 4\n", "// a"}) {
    EXPECT_FALSE(is_chakra(text)) << text;
  }
}

// Bytes changed, lost and added: read and checked without a crash.
TEST(read_chakra, broken_files) {
  auto const machine = make_built_in_machine("ring:3").value();
  auto const files = files_of(make_messages(machine, make_plan(machine, {}), {4096, 1, 0}));
  std::mt19937 random(5);
  int refused = 0;
  int faults = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    auto broken = files;
    auto& bytes = broken[random() % broken.size()].bytes;
    auto const at = random() % bytes.size();
    if (trial % 3 == 0) bytes[at] = static_cast<char>(random());
    if (trial % 3 == 1) bytes.resize(at);
    if (trial % 3 == 2) bytes.insert(at, 1, static_cast<char>(random()));
    try {
      faults += check_message_program(read_chakra(broken)) ? 0 : 1;
    } catch (input_error const&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(faults, 20);
}

}}  // namespace chakra_test
