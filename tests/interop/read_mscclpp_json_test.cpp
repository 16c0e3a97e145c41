// SPDX-License-Identifier: Apache-2.0
// Execution plans of MSCCL++ by hand and from other authors: read, written again, checked; and
// errors that name the place.
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/check_mscclpp_program.hpp>
#include <blink/interop/read_mscclpp_json.hpp>
#include <blink/interop/write_mscclpp_json.hpp>

#include <gtest/gtest.h>
#include <support/damaged_text.hpp>
#include <support/expect_error.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace read_mscclpp_json_test { namespace {

using namespace blink;

std::string plan_text(std::string const& name) {
  return detail::file_text(std::string(BLINK_TEST_DATA_DIR) + "/plans/" + name, "a plan");
}

std::string verdict(std::string const& text) {
  try {
    auto const report = check_mscclpp_program(read_mscclpp_json(text, "m.json"));
    if (!report) return *report.fault;
    return report.notes.empty() ? "sound" : "sound, but " + report.notes.front();
  } catch (input_error const& error) {
    return error.what();
  }
}

std::string replaced(std::string text, std::string const& what, std::string const& by) {
  auto const at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

TEST(read_mscclpp_json, plans_of_others_are_sound) {
  for (auto const* name :
       {"mscclpp_all_reduce.json", "mscclpp_all_gather.json", "mscclpp_earlier.json"}) {
    SCOPED_TRACE(name);
    auto const text = plan_text(name);
    EXPECT_TRUE(is_mscclpp_plan(text));
    EXPECT_EQ(verdict(text), "sound");
    // What is read can be written and read again.
    auto const program = read_mscclpp_json(text, name);
    EXPECT_EQ(read_mscclpp_json(write_mscclpp_json(program), name), program);
  }
}

TEST(read_mscclpp_json, what_a_plan_says) {
  auto const program = read_mscclpp_json(plan_text("mscclpp_all_gather.json"), "m.json");
  EXPECT_EQ(program.collective, collective::all_gather);
  EXPECT_FALSE(program.in_place);
  EXPECT_FALSE(program.has_packets);
  EXPECT_EQ(program.unit_bytes, 65536);
  EXPECT_EQ(program.threads, 1024);
  EXPECT_EQ(program.alignment, 16);
  EXPECT_EQ(program.most_bytes, std::numeric_limits<std::uint64_t>::max());
  ASSERT_EQ(program.ranks.size(), 2U);
  auto const& rank = program.ranks[1];
  EXPECT_EQ(rank.input_chunks, 1);
  EXPECT_EQ(rank.output_chunks, 2);
  EXPECT_EQ(rank.port_peers, std::vector<int>{0});
  ASSERT_EQ(rank.blocks.size(), 2U);
  ASSERT_EQ(rank.blocks[0].segments.size(), 2U);
  auto const& loop = rank.blocks[0].segments[1];
  EXPECT_EQ(loop.loop_chunks, 1);
  ASSERT_EQ(loop.operations.size(), 2U);
  mscclpp_operation put{mscclpp_kind::put_signal_flush};
  put.channels = {{mscclpp_channel_type::port, 0}};
  put.sources = {{-1, step_buffer::input, 0}};
  put.destinations = {{0, step_buffer::output, 1}};
  put.count = 1;
  EXPECT_EQ(loop.operations[0], put);
}

/// A program with every operation, each with some places. It makes no sense.
mscclpp_program all_operations() {
  mscclpp_program program;
  program.name = "all";
  program.collective.reset();
  program.collective_name = "custom";
  program.in_place = false;
  program.has_packets = program.shares_scratch = program.doubles_scratch = true;
  program.alignment = 32;
  program.threads = 256;
  program.least_bytes = 1024;
  program.most_bytes = std::uint64_t{1} << 40;
  program.unit_bytes = 8192;
  program.ranks.resize(2);
  for (int r = 0; r < 2; ++r) {
    auto& rank = program.ranks[static_cast<std::size_t>(r)];
    rank.input_chunks = 3;
    rank.output_chunks = 4;
    rank.scratch_chunks = 5;
    rank.memory_peers = {1 - r, 1 - r};
    rank.port_peers = {1 - r};
    rank.groups = {{step_buffer::output, {0, 1}, 4}, {step_buffer::scratch, {0, 1}, 5}};
    rank.semaphores = 3;
    rank.semaphore_values = {0, 7, 0};
    rank.blocks.resize(2);
    for (std::size_t k = 0; k < mscclpp_kinds.size(); ++k) {
      mscclpp_operation op{static_cast<mscclpp_kind>(k)};
      bool const is_group = op.kind >= mscclpp_kind::group_reduce;
      auto const type = op.kind == mscclpp_kind::flush || op.kind == mscclpp_kind::put_signal
                            ? mscclpp_channel_type::port
                            : mscclpp_channel_type::memory;
      if (!is_group && op.kind != mscclpp_kind::copy)
        op.channels = {{type, type == mscclpp_channel_type::port ? 0 : 1}};
      op.sources = {{-1, step_buffer::input, 1}};
      op.destinations = {{1 - r, step_buffer::output, 0}, {-1, step_buffer::scratch, 2}};
      if (is_group) op.destinations = {{-1, step_buffer::input, 2, 1}};
      if (op.kind == mscclpp_kind::copy) op.destinations = {{-1, step_buffer::output, 2}};
      op.count = 2;
      if (op.kind == mscclpp_kind::put) {
        op.sources.push_back(op.sources[0]);
        op.counts = {1, 2};
        op.count = 0;
      }
      if (op.kind == mscclpp_kind::acquire) op.semaphores = {2, 0};
      if (op.kind == mscclpp_kind::barrier) {
        op.barrier = 3;
        op.barrier_blocks = 2;
      }
      if (adds_up(op.kind)) {
        op.slice = 1;
        op.slices = 2;
      }
      auto& segments = rank.blocks[k % 2].segments;
      segments.push_back({k % 3 == 0 ? 0 : 2, {op}, k % 3 == 1 ? 4096 : 0});
    }
  }
  return program;
}

TEST(read_mscclpp_json, every_operation_is_read_as_written) {
  auto const program = all_operations();
  auto const text = write_mscclpp_json(program);
  auto const again = read_mscclpp_json(text, "m.json");
  EXPECT_EQ(write_mscclpp_json(again), text);
  EXPECT_EQ(again.ranks[0].groups, program.ranks[0].groups);
  EXPECT_EQ(again.ranks[0].semaphore_values, program.ranks[0].semaphore_values);
  EXPECT_EQ(again, program);
}

TEST(read_mscclpp_json, absent_values_of_semaphores_are_written_as_0) {
  auto program = all_operations();
  program.ranks[1].semaphore_values = {5};
  auto const again = read_mscclpp_json(write_mscclpp_json(program), "m.json");
  EXPECT_EQ(again.ranks[1].semaphores, 3);
  EXPECT_EQ(again.ranks[1].semaphore_values, (std::vector<int>{5, 0, 0}));
}

TEST(read_mscclpp_json, names_file_line_rank_block_and_operation) {
  auto const memory = plan_text("mscclpp_all_reduce.json");
  auto const port = plan_text("mscclpp_all_gather.json");
  auto const earlier = plan_text("mscclpp_earlier.json");
  struct change {
    std::string const* text;
    std::string what, by, expected;
  };
  change const cases[] = {
      {&memory, "\"rres\"", "\"rrs\"",
       "m.json:21: rank 0, block 0, operation 3: found 'rrs', expected one of nop, wait, signal,"},
      {&memory, "\"name\": \"nop\"", "\"nom\": \"nop\"",
       "m.json:19: rank 0, block 0, operation 2: 'name' is missing"},
      {&memory, "\"type\": \"i\"", "\"type\": \"x\"",
       "m.json:22: rank 0, block 0, operation 3: src_buff[0]: type: found 'x', expected i, o or s"},
      {&memory, "\"buffer_id\": 0", "\"buffer_id\": 1",
       "operation 3: src_buff[1]: found 1, expected one of the 1 remote buffers of the block"},
      {&memory, "\"index\": 0", "\"index\": -1",
       "src_buff[0]: index: found -1, expected an integer"},
      {&memory, "\"size\": 1", "\"size\": 2",
       "operation 3: size: found 2 and 1 chunks, expected one number of chunks at all places"},
      {&memory, "\"reduce_op\": \"sum\"", "\"reduce_op\": \"max\"",
       "reduce_op: found 'max', expected sum"},
      {&memory, "\"channel_ids\": [0]", "\"channel_ids\": [3]",
       "operation 0: channel_ids: found 3, expected one of the 1 channels of type memory"},
      {&memory, "\"channel_type\": \"memory\"", "\"channel_type\": \"wire\"",
       "operation 0: channel_type: found 'wire', expected memory, port, switch or none"},
      {&memory, "\"connected_to\": [1]", "\"connected_to\": []",
       "rank 0, block 0: channel_ids: found 0, expected one of the rank's 0 memory channels"},
      {&memory, "\"connected_to\": [1]", "\"connected_to\": 1",
       "connected_to: found 1, expected a list"},
      {&memory, "\"access_channel_types\": [\"memory\"]", "\"access_channel_types\": [\"port\"]",
       "found 0, expected a remote buffer with access over memory channels"},
      {&memory, "\"id\": 1", "\"id\": 2", "rank 1: id: found 2, expected 1, the position"},
      {&memory, "\"input_chunks\": 2", "\"input_chunks\": 9999999",
       "rank 0: input_chunks: found 9999999, expected an integer from 0 to 1048576"},
      {&memory, "\"scratch_chunks\": 0,", "", "rank 0: 'scratch_chunks' is missing"},
      {&memory, "\"protocol\": \"Simple\"", "\"protocol\": \"LL128\"",
       "m.json:4: protocol: found 'LL128', expected Simple or LL"},
      {&memory, "\"inplace\": true", "\"inplace\": 1", "inplace: found 1, expected true or false"},
      {&memory, "\"collective\": \"allreduce\",", "", "the plan: 'collective' is missing"},
      {&memory, "18446744073709551615", "-1",
       "max_message_size: found -1, expected a number of bytes"},
      {&memory, "\"num_threads_per_block\": 512", "\"num_threads_per_block\": 0",
       "num_threads_per_block: found 0, expected an integer from 1"},
      {&memory, "\"id\": 0,", "\"id\": 0, \"id\": 0,", "key 'id' appears twice"},
      {&port, "\"num_chunks\": 1", "\"num_chunks\": 0",
       "operation 2: iter_context.num_chunks: found 0, expected an integer from 1"},
      {&port, "\"name\": \"pwsf\"", "\"name\": \"pipeline\"",
       "rank 0, block 0, operation 2.0: found a pipeline in a pipeline"},
      {&port, "\"remote_buffer_ids\": [0]", "\"remote_buffer_ids\": [4]",
       "rank 0, block 0, remote_buffer_refs: found 4, expected one of the 1 remote buffers"},
      {&earlier, "\"rspkt\"", "\"respkt\"",
       "rank 0, block 0, operation 1: found 'respkt', expected one of nop, wait, signal, put"},
      {&earlier, "\"cids\": [0]", "\"cids\": [1]",
       "rank 0, block 0, channel: found 1, expected one of the 1 channels of the rank"},
      {&earlier, "\"o_cids\": [{\"id\": 0", "\"o_cids\": [{\"id\": 1",
       "operation 0: o_cids: found 1, expected one of the 1 channels of the block"},
      {&earlier, "\"srcs\": [{\"buff\": \"i\"", "\"srcs\": [{\"buff\": \"o\"",
       "operation 0: srcs: found output memory, expected the channel's, input"},
      {&earlier, "\"protocol\": \"LL\"", "\"protocol\": \"Simple\"",
       "operation 0: found packets with protocol Simple, expected protocol LL"},
      {&earlier, "\"cnt\": 1", "\"cnt\": {}", "cnt: found an object, expected an integer"}};
  for (auto const& [text, what, by, expected] : cases) {
    SCOPED_TRACE(by);
    auto const found = verdict(replaced(*text, what, by));
    EXPECT_EQ(found.rfind("m.json:", 0), 0U) << found;
    EXPECT_SAYS(found, expected);
  }
}

TEST(read_mscclpp_json, well_formed_and_wrong) {
  auto const memory = plan_text("mscclpp_all_reduce.json");
  EXPECT_EQ(verdict(replaced(memory, "{\"name\": \"wait\", \"channel_ids\": [0]",
                             "{\"name\": \"rlxwait\", \"channel_ids\": [0]"))
                .rfind("sound, but relies on relaxed signals for data", 0),
            0U);
  EXPECT_SAYS(
      verdict(replaced(memory, "{\"name\": \"rlxwait\"", "{\"name\": \"rlxsignal\"")),
      "operation 3, chunk 0: reads input of rank 1, whose call may not have begun or may have");
  EXPECT_SAYS(
      verdict(replaced(memory, "\"index\": 0, \"size\": 1}]", "\"index\": 2, \"size\": 1}]")),
      "rank 0, block 0, operation 3, chunk 2: uses input chunk 2 of 2 at rank 1");
  EXPECT_SAYS(verdict(replaced(memory, "\"allreduce\"", "\"allgather\"")),
              "rank 0: 2 input chunks and 2 output chunks, expected 1 and 2 in all_gather");
}

TEST(read_mscclpp_json, an_unknown_collective_is_only_run) {
  auto const text = replaced(plan_text("mscclpp_all_reduce.json"), "allreduce", "my own\\u001b[1m");
  auto const program = read_mscclpp_json(text, "m.json");
  EXPECT_FALSE(program.collective);
  EXPECT_EQ(program.collective_name, "my own\x1b[1m");
  auto const report = check_mscclpp_program(program);
  EXPECT_TRUE(report) << *report.fault;
  ASSERT_FALSE(report.notes.empty());
  EXPECT_SAYS(report.notes[0], "the meaning of the collective is not known");
}

TEST(read_mscclpp_json, other_texts_are_no_plans) {
  for (auto const* text : {"", "{}", "[]", "{\"gpus\": []}", "<algo/>", "{\"name\": 1}"}) {
    EXPECT_FALSE(is_mscclpp_plan(text)) << text;
    EXPECT_SAYS(verdict(text), "m.json:");
  }
  EXPECT_TRUE(is_mscclpp_plan("\n {\"gpus\": [], \"protocol\": 1, \"name\": 2}"));
  EXPECT_SAYS(verdict("{\"name\": \"x\", \"collective\": \"allreduce\", \"protocol\": \"LL\", "
                      "\"inplace\": true, \"gpus\": []}"),
              "gpus: found an empty list, expected one entry for each rank");
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "[";
  EXPECT_SAYS(verdict("{\"gpus\": " + deep), "more than 100 values inside each other");
  EXPECT_THROW((void)read_mscclpp_json_file("/no/such.json"), input_error);
}

TEST(read_mscclpp_json, damaged_texts_are_read_or_refused) {
  for (auto const* name : {"mscclpp_all_reduce.json", "mscclpp_earlier.json"}) {
    SCOPED_TRACE(name);
    auto const read = [](std::string const& text) {
      (void)check_mscclpp_program(read_mscclpp_json(text, "t.json"));
    };
    EXPECT_GT(blink_test::read_damaged(plan_text(name), read), 5);
  }
}

}}  // namespace read_mscclpp_json_test
