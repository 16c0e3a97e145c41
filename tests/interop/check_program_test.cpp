// SPDX-License-Identifier: Apache-2.0
// The checker of step programs: programs that are sound, and the first fault of broken ones.
#include <blink/interop/check_program.hpp>
#include <blink/interop/step_program.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace check_program_test { namespace {

using namespace blink;

constexpr auto in = step_buffer::input;
constexpr auto out = step_buffer::output;
constexpr auto scratch = step_buffer::scratch;

// All-reduce on a chain 0 - 1 - 2, one chunk, by hand: up to rank 2, and down again.
step_program chain_all_reduce() {
  step_program p;
  p.collective = collective::all_reduce;
  p.channel_count = 1;
  p.chunk_count = 1;
  p.ranks.resize(3);
  for (auto& rank : p.ranks) rank.input_chunks = rank.output_chunks = 1;
  p.ranks[0].blocks = {{1, -1, 0, {{step_kind::send, {in, 0}, {}}}},
                       {-1, 1, 0, {{step_kind::receive, {}, {out, 0}}}}};
  p.ranks[1].blocks = {{2, 0, 0, {{step_kind::receive_reduce_send, {in, 0}, {}}}},
                       {0, 2, 0, {{step_kind::receive_copy_send, {}, {out, 0}}}}};
  p.ranks[2].blocks = {{1, 1, 0, {{step_kind::receive_reduce_copy_send, {in, 0}, {out, 0}}}}};
  return p;
}

// The same with one block for each connection, sums kept in the output, and dependencies.
step_program separate_all_reduce() {
  auto p = chain_all_reduce();
  p.ranks[1].blocks = {
      {-1, 0, 0, {{step_kind::receive_reduce_copy, {in, 0}, {out, 0}, 1, -1, -1, true}}},
      {2, -1, 0, {{step_kind::send, {out, 0}, {}, 1, 0, 0, true}}},
      {-1, 2, 0, {{step_kind::receive, {}, {out, 0}, 1, 1, 0, true}}},
      {0, -1, 0, {{step_kind::send, {out, 0}, {}, 1, 2, 0, false}}}};
  return p;
}

// Ring all-gather, in chunks of the ring's parts.
step_program ring_all_gather(int ranks) {
  step_program p;
  p.collective = collective::all_gather;
  p.channel_count = 1;
  p.chunk_count = ranks;
  p.runs_out_of_place = false;
  for (int r = 0; r < ranks; ++r) {
    rank_program here{1, ranks, 0, {}};
    program_block block{(r + 1) % ranks, (r + ranks - 1) % ranks, 0, {}};
    block.steps.push_back({step_kind::send, {out, r}, {}});
    for (int hop = 1; hop < ranks; ++hop) {
      block.steps.push_back({hop + 1 < ranks ? step_kind::receive_copy_send : step_kind::receive,
                             {},
                             {out, (r + ranks - hop) % ranks}});
    }
    here.blocks.push_back(block);
    p.ranks.push_back(here);
  }
  return p;
}

std::string fault_of(step_program const& p, program_check_options const& options = {}) {
  return check_program(p, options).fault.value_or("sound");
}

TEST(check_program, accepts_programs_by_hand) {
  for (int const slots : {1, 2, 8}) {
    EXPECT_EQ(fault_of(chain_all_reduce(), {slots}), "sound");
    EXPECT_EQ(fault_of(separate_all_reduce(), {slots}), "sound");
    // Fused all round, a ring of three or more needs a second slot.
    int const most = slots == 1 ? 2 : 8;
    for (int ranks = 2; ranks <= most; ++ranks) {
      EXPECT_EQ(fault_of(ring_all_gather(ranks), {slots}), "sound");
    }
  }
  EXPECT_TRUE(check_program(chain_all_reduce()).notes.empty());
}

TEST(check_program, the_order_of_a_loop_through_other_ranks_counts) {
  // In place, rank 1 overwrites with the total what it sent up: after the total has come back.
  auto p = separate_all_reduce();
  p.ranks[1].blocks[2].steps[0].depends_block = -1;
  p.ranks[1].blocks[2].steps[0].depends_step = -1;
  EXPECT_EQ(fault_of(p), "sound");
}

struct mutation {
  std::string name;
  std::function<void(step_program&)> apply;
  std::string fault;  // the begin of the text
};

void expect_faults(step_program const& sound, std::vector<mutation> const& mutations) {
  for (auto const& m : mutations) {
    SCOPED_TRACE(m.name);
    auto p = sound;
    m.apply(p);
    auto const report = check_program(p);
    ASSERT_TRUE(report.fault.has_value());
    EXPECT_EQ(report.fault->substr(0, m.fault.size()), m.fault) << *report.fault;
    EXPECT_EQ(report.fault->rfind(in_words(report.at), 0), 0U);
  }
}

program_step& step_of(step_program& p, int rank, int block, int step = 0) {
  return p.ranks[static_cast<std::size_t>(rank)]
      .blocks[static_cast<std::size_t>(block)]
      .steps[static_cast<std::size_t>(step)];
}

TEST(check_program, names_the_first_fault_of_the_structure) {
  expect_faults(
      separate_all_reduce(),
      {{"no ranks", [](auto& p) { p.ranks.clear(); }, "the program has no ranks"},
       {"no chunks", [](auto& p) { p.chunk_count = 0; }, "0 chunks, expected 1 at least"},
       {"too large", [](auto& p) { p.chunk_count = 1 << 30; },
        "1073741824 chunks on 3 ranks are too many"},
       {"indivisible", [](auto& p) { p.collective = collective::reduce_scatter; },
        "1 chunks do not divide by 3 ranks"},
       {"peer outside", [](auto& p) { p.ranks[1].blocks[0].receive_peer = 3; },
        "rank 1, block 0: receive peer 3, expected another of the 3 ranks or -1"},
       {"peer itself", [](auto& p) { p.ranks[1].blocks[1].send_peer = 1; },
        "rank 1, block 1: send peer 1"},
       {"channel", [](auto& p) { p.ranks[2].blocks[0].channel = 1; },
        "rank 2, block 0: channel 1 of 1"},
       {"no send peer", [](auto& p) { p.ranks[0].blocks[0].send_peer = -1; },
        "rank 0, block 0, step 0: 's' sends, and the block has no send peer"},
       {"no receive peer", [](auto& p) { p.ranks[1].blocks[0].receive_peer = -1; },
        "rank 1, block 0, step 0: 'rrc' receives, and the block has no receive peer"},
       {"no chunk", [](auto& p) { step_of(p, 0, 0).count = 0; },
        "rank 0, block 0, step 0: 's' of 0 chunks"},
       {"source outside", [](auto& p) { step_of(p, 0, 0).source.chunk = 1; },
        "rank 0, block 0, step 0, chunk 1: uses input chunk 1 of 1"},
       {"negative source", [](auto& p) { step_of(p, 0, 0).source.chunk = -1; },
        "rank 0, block 0, step 0: uses input chunk -1"},
       {"count outside", [](auto& p) { step_of(p, 1, 2).count = 2; },
        "rank 1, block 2, step 0, chunk 0: uses output chunks 0 to 1 of 1"},
       {"no scratch", [](auto& p) { step_of(p, 0, 1).destination.buffer = scratch; },
        "rank 0, block 1, step 0, chunk 0: uses scratch chunk 0 of 0"},
       {"beyond the collective",
        [](auto& p) {
          p.ranks[0].output_chunks = 5;
          step_of(p, 0, 1).destination.chunk = 4;
        },
        "rank 0, block 1, step 0, chunk 4: uses output chunk 4, and all_reduce has 1 there"},
       {"dependency on no block", [](auto& p) { step_of(p, 1, 1).depends_block = 4; },
        "rank 1, block 1, step 0: waits for block 4 step 0, which does not exist"},
       {"dependency on no step", [](auto& p) { step_of(p, 1, 1).depends_step = 1; },
        "rank 1, block 1, step 0: waits for block 0 step 1, which does not exist"},
       {"half a dependency", [](auto& p) { step_of(p, 1, 1).depends_step = -1; },
        "rank 1, block 1, step 0: waits for block 0 step -1, which does not exist"},
       {"nothing published", [](auto& p) { step_of(p, 1, 0).is_awaited = false; },
        "rank 1, block 1, step 0: waits for block 0 step 0, which does not publish its end"},
       {"connection twice", [](auto& p) { p.ranks[0].blocks.push_back(p.ranks[0].blocks[0]); },
        "rank 0, block 2: sends to the same rank on channel 0, as block 0 does"},
       {"nobody sends", [](auto& p) { p.ranks[0].blocks.erase(p.ranks[0].blocks.begin()); },
        "rank 1, block 0: receives from rank 0 on channel 0, where no block sends to it"},
       {"nobody receives", [](auto& p) { p.ranks[0].blocks.pop_back(); },
        "rank 1, block 3: sends to rank 0 on channel 0, where no block receives from it"},
       {"another number of chunks",
        [](auto& p) {
          p.chunk_count = 2;
          for (auto& rank : p.ranks) rank.input_chunks = rank.output_chunks = 2;
          step_of(p, 0, 0).count = 2;
        },
        "rank 0, block 0, step 0: sends 2 chunks, and rank 1, block 0, step 0 receives 1"},
       {"another number of times",
        [](auto& p) { p.ranks[0].blocks[0].steps.push_back(p.ranks[0].blocks[0].steps[0]); },
        "rank 0, block 0: sends 2 times, and rank 1, block 0 receives 1 times"},
       {"copy outside", [](auto& p) { p.ranks[1].copies = {{0, 7}}; },
        "rank 1, chunk 7: uses output chunk 7 of 1"}});
}

TEST(check_program, names_the_first_fault_of_the_run) {
  expect_faults(
      separate_all_reduce(),
      {{"nothing there yet", [](auto& p) { step_of(p, 0, 0).source.buffer = out; },
        "rank 0, block 0, step 0, chunk 0: reads output before anything is written there (out of "
        "place)"},
       {"without waiting for the sum",
        [](auto& p) { step_of(p, 1, 1).depends_block = step_of(p, 1, 1).depends_step = -1; },
        "rank 1, block 1, step 0, chunk 0: reads output, which block 0 step 0 writes, without "
        "waiting for it"},
       {"without waiting for the total",
        [](auto& p) { step_of(p, 1, 3).depends_block = step_of(p, 1, 3).depends_step = -1; },
        "rank 1, block 3, step 0, chunk 0: reads output, which block 0 step 0 writes"},
       {"too early", [](auto& p) { step_of(p, 1, 3).depends_block = 0; },
        "rank 1, block 2, step 0, chunk 0: writes output, which block 3 step 0 reads"},
       {"waits for itself",
        [](auto& p) {
          step_of(p, 1, 0).depends_block = 0;
          step_of(p, 1, 0).depends_step = 0;
        },
        "rank 1, block 0, step 0, chunk 0: waits without end for block 0 step 0; iteration 0"},
       {"circle",
        [](auto& p) {
          step_of(p, 1, 0).depends_block = 2;
          step_of(p, 1, 0).depends_step = 0;
        },
        "rank 1, block 0, step 0, chunk 0: waits without end for block 2 step 0; iteration 0, rank "
        "1 "
        "block 2 is at step 0"},
       {"twice",
        [](auto& p) {
          step_of(p, 1, 3) = {step_kind::send, {out, 0}, {}, 1, 2, 0, false};
          step_of(p, 2, 0) = {step_kind::receive_reduce_copy_send, {in, 0}, {out, 0}};
          step_of(p, 1, 2).kind = step_kind::receive_reduce_copy;
          step_of(p, 1, 2).source = {out, 0};
        },
        "rank 1, block 2, step 0, chunk 0: adds the contribution of rank 0 to chunk 0 a second "
        "time"},
       {"contribution lost",
        [](auto& p) {
          step_of(p, 1, 0).kind = step_kind::receive;
          step_of(p, 1, 0).source = {};
        },
        "rank 0, block 1, step 0, chunk 0: the output misses chunk 0 of rank 1"},
       {"own sum kept back", [](auto& p) { step_of(p, 1, 3).source.buffer = in; },
        "rank 0, block 1, step 0, chunk 0: the output misses chunk 0 of rank"},
       {"sum in a broadcast",
        [](auto& p) {
          p.collective = collective::broadcast;
          p.root = 0;
        },
        "rank 1, block 0, step 0, chunk 0: adds chunks up in broadcast"}});
}

TEST(check_program, names_what_is_never_written) {
  auto p = ring_all_gather(3);
  p.ranks[1].blocks[0].steps[2].destination.chunk = 0;  // writes rank 0's part twice
  EXPECT_EQ(fault_of(p),
            "rank 1, block 0, step 2, chunk 0: the output misses chunk 0 of rank 0 (in place)");
  p = ring_all_gather(3);
  p.runs_out_of_place = true;  // no step puts the own part into the output
  EXPECT_EQ(fault_of(p),
            "rank 0, block 0, step 0, chunk 0: reads output before anything is written there (out "
            "of place)");
  for (int r = 0; r < 3; ++r) p.ranks[static_cast<std::size_t>(r)].copies = {{0, r}};
  EXPECT_EQ(fault_of(p), "sound");
}

TEST(check_program, adds_only_equal_chunks) {
  auto p = chain_all_reduce();
  p.chunk_count = 2;
  for (auto& rank : p.ranks) rank.input_chunks = rank.output_chunks = 2;
  step_of(p, 1, 0).source.chunk = 1;
  EXPECT_EQ(fault_of(p),
            "rank 1, block 0, step 0, chunk 1: adds chunk 0 of rank 0 to another chunk, 1 of rank "
            "1 (in place)");
}

// Two ranks that both send so many chunks before they receive any.
step_program exchange(int chunks, bool one_step) {
  step_program p;
  p.collective = collective::all_to_all;
  p.channel_count = 1;
  p.chunk_count = 2 * chunks;
  p.runs_in_place = false;
  for (int r = 0; r < 2; ++r) {
    rank_program here{2 * chunks, 2 * chunks, 0, {}};
    program_block block{1 - r, 1 - r, 0, {}};
    int const theirs = (1 - r) * chunks;
    for (auto const kind : {step_kind::send, step_kind::receive}) {
      for (int c = 0; c < (one_step ? 1 : chunks); ++c) {
        program_step step{kind, {}, {}, one_step ? chunks : 1};
        (kind == step_kind::send ? step.source : step.destination) = {
            kind == step_kind::send ? in : out, theirs + c};
        block.steps.push_back(step);
      }
    }
    here.blocks.push_back(block);
    here.blocks.push_back(
        {-1, -1, 0, {{step_kind::copy, {in, r * chunks}, {out, r * chunks}, chunks}}});
    p.ranks.push_back(here);
  }
  return p;
}

TEST(check_program, queues_are_bounded) {
  EXPECT_EQ(fault_of(exchange(2, false)), "sound");
  EXPECT_EQ(
      fault_of(exchange(3, false)),
      "rank 0, block 0, step 2, chunk 5: waits without end for room: 2 steps are in flight to "
      "rank 1; iteration 0, rank 1 block 0 is at step 2 (out of place)");
  auto eight = exchange(8, false);
  eight.protocol = "LL";
  EXPECT_EQ(fault_of(eight), "sound");
  // Three chunks in one step pass while they share a slot: a note says when they do not.
  auto const report = check_program(exchange(3, true));
  EXPECT_TRUE(report) << *report.fault;
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_NE(report.notes[0].find("hangs when messages are so large"), std::string::npos);
  EXPECT_NE(report.notes[0].find("rank 0, block 0, step 0, chunk 5"), std::string::npos);
}

TEST(check_program, later_iterations_have_to_pass_too) {
  // Each block alone is sound once. In the second round, block 1 of rank 0 waits for a step that
  // comes after the step that it feeds.
  auto p = chain_all_reduce();
  EXPECT_EQ(fault_of(p, {1, 50}), "sound");
}

TEST(check_program, finds_the_root) {
  step_program p;
  p.collective = collective::reduce;
  p.channel_count = 1;
  p.chunk_count = 1;
  p.ranks = {{1, 1, 0, {{-1, 1, 0, {{step_kind::receive_reduce_copy, {in, 0}, {out, 0}}}}}},
             {1, 1, 0, {{0, -1, 0, {{step_kind::send, {in, 0}, {}}}}}}};
  EXPECT_EQ(fault_of(p), "sound");
  EXPECT_EQ(check_program(p).root, 0);
  p.root = 1;
  EXPECT_EQ(fault_of(p), "rank 1, chunk 0: the output misses chunk 0 of rank 0 (in place)");
  p.root = 2;
  EXPECT_EQ(fault_of(p), "the root 2 is not one of the 2 ranks");
  p.root.reset();
  p.ranks.push_back({1, 1, 0, {}});
  EXPECT_EQ(fault_of(p), "2 ranks send nothing, expected one, the root: the file does not name it");
}

TEST(check_program, unknown_collectives_run_without_a_goal) {
  auto p = exchange(2, false);
  p.collective.reset();
  p.collective_name = "custom";
  EXPECT_EQ(fault_of(p), "sound");
  step_of(p, 0, 0).source.buffer = out;
  EXPECT_NE(fault_of(p), "sound");
}

TEST(check_program, notes_an_overwritten_input) {
  auto p = chain_all_reduce();
  p.runs_in_place = false;
  p.ranks[0].blocks[1].steps.push_back({step_kind::copy, {out, 0}, {in, 0}});
  auto const report = check_program(p);
  EXPECT_TRUE(report) << *report.fault;
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(report.notes[0], "out of place, the input of rank 0 is overwritten");
  p.runs_out_of_place = false;
  EXPECT_EQ(check_program(p).notes.front(), "never chosen: neither in place nor out of place");
}

}}  // namespace check_program_test
