// SPDX-License-Identifier: Apache-2.0
// The checker of execution plans: plans by hand that are sound, and the first fault of broken ones.
#include <blink/interop/check_mscclpp_program.hpp>
#include <blink/interop/mscclpp_program.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace check_mscclpp_program_test { namespace {

using namespace blink;
using kind = mscclpp_kind;
using operations = std::vector<mscclpp_operation>;

constexpr auto in = step_buffer::input;
constexpr auto out = step_buffer::output;
constexpr auto scratch = step_buffer::scratch;
constexpr auto memory = mscclpp_channel_type::memory;
constexpr auto port = mscclpp_channel_type::port;

mscclpp_place here(step_buffer buffer, int chunk) {
  return {-1, buffer, chunk};
}
mscclpp_place at(int rank, step_buffer buffer, int chunk) {
  return {rank, buffer, chunk};
}
mscclpp_place all(int group, int chunk) {
  return {-1, in, chunk, group};
}

mscclpp_operation sync() {
  return {kind::sync};
}
mscclpp_operation on(kind of, mscclpp_channel_type type, std::vector<int> const& ids = {0}) {
  mscclpp_operation op{of};
  for (int const id : ids) op.channels.push_back({type, id});
  return op;
}
mscclpp_operation move(kind of, std::vector<mscclpp_place> sources,
                       std::vector<mscclpp_place> destinations, int count = 1) {
  mscclpp_operation op{of};
  op.sources = std::move(sources);
  op.destinations = std::move(destinations);
  op.count = count;
  return op;
}
mscclpp_operation over_port(kind of, std::vector<mscclpp_place> sources,
                            std::vector<mscclpp_place> destinations) {
  auto op = move(of, std::move(sources), std::move(destinations));
  op.channels = {{port, 0}};
  return op;
}
mscclpp_operation semaphore(kind of, int id) {
  mscclpp_operation op{of};
  op.semaphores = {id};
  return op;
}

/// Two ranks, with a channel of each type between them.
mscclpp_program pair_of_ranks(collective collective, int input, int output,
                              int scratch_chunks = 0) {
  mscclpp_program program;
  program.collective = collective;
  program.ranks.resize(2);
  for (int r = 0; r < 2; ++r) {
    auto& rank = program.ranks[static_cast<std::size_t>(r)];
    rank.input_chunks = input;
    rank.output_chunks = output;
    rank.scratch_chunks = scratch_chunks;
    rank.memory_peers = rank.port_peers = {1 - r};
  }
  return program;
}
/// Gives each rank a block with the operations that a function returns for it.
void add_blocks(mscclpp_program& program, std::function<operations(int)> const& operations_of) {
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    program.ranks[r].blocks.push_back({{{0, operations_of(static_cast<int>(r))}}});
  }
}
operations& block(mscclpp_program& program, int rank, int index = 0) {
  return program.ranks[static_cast<std::size_t>(rank)]
      .blocks[static_cast<std::size_t>(index)]
      .segments[0]
      .operations;
}

std::string fault_of(mscclpp_program const& program) {
  return check_mscclpp_program(program).fault.value_or("sound");
}
std::string first_note(mscclpp_program const& program) {
  auto const report = check_mscclpp_program(program);
  EXPECT_TRUE(report) << *report.fault;
  return report.notes.empty() ? "none" : report.notes[0];
}

struct mutation {
  std::string name;
  std::function<void(mscclpp_program&)> apply;
  std::string fault;  // the begin of the text
};

void expect_faults(mscclpp_program const& sound, std::vector<mutation> const& mutations) {
  EXPECT_EQ(fault_of(sound), "sound");
  for (auto const& m : mutations) {
    SCOPED_TRACE(m.name);
    auto program = sound;
    m.apply(program);
    auto const report = check_mscclpp_program(program);
    if (!report.fault) {
      ADD_FAILURE() << "sound";
      continue;
    }
    EXPECT_EQ(report.fault->substr(0, m.fault.size()), m.fault) << *report.fault;
  }
}

/// In place, each rank adds up one of two chunks and stores it at both.
mscclpp_program half_each() {
  auto program = pair_of_ranks(collective::all_reduce, 2, 2);
  add_blocks(program, [](int r) -> operations {
    return {on(kind::relaxed_signal, memory),
            on(kind::relaxed_wait, memory),
            sync(),
            move(kind::read_reduce_put, {here(in, r), at(1 - r, in, r)},
                 {here(in, r), at(1 - r, in, r)}),
            sync(),
            on(kind::signal, memory),
            on(kind::wait, memory)};
  });
  return program;
}

TEST(check_mscclpp_program, an_all_reduce_by_hand) {
  EXPECT_EQ(first_note(half_each()), "none");
  expect_faults(
      half_each(),
      {{"no wait at the start", [](auto& p) { block(p, 0).erase(block(p, 0).begin() + 1); },
        "rank 0, block 0, operation 2, chunk 0: reads input of rank 1, whose call may not have "
        "begun or may have ended"},
       {"no wait at the end", [](auto& p) { block(p, 0).pop_back(); },
        "rank 1, block 0, operation 3, chunk 1: writes input of rank 0, whose call may not have"},
       {"no signal at the end", [](auto& p) { block(p, 0).erase(block(p, 0).begin() + 5); },
        "rank 0, block 0, operation 5: waits without end for a signal of rank 1 over memory "
        "channel 0, in call 1"},
       {"a signal before all threads have written",
        [](auto& p) { block(p, 0).erase(block(p, 0).begin() + 4); },
        "rank 0, block 0, operation 3, chunk 0: writes input of rank 1, whose call"},
       {"another chunk stored", [](auto& p) { block(p, 0)[3].destinations[0].chunk = 1; },
        "rank 0, block 0, operation 3, chunk 1: writes input, which rank 1"},
       {"another chunk added", [](auto& p) { block(p, 0)[3].sources[0].chunk = 1; },
        "rank 0, block 0, operation 3, chunk 1: reads input, which rank 1, block 0, operation 3"},
       {"another chunk of the peer added", [](auto& p) { block(p, 1)[3].sources[1].chunk = 0; },
        "rank 1, block 0, operation 3"},
       {"added twice", [](auto& p) { block(p, 0).insert(block(p, 0).begin() + 4, block(p, 0)[3]); },
        "rank 0, block 0, operation 4: adds the contribution of rank 0 to chunk 0 a second time"},
       {"not added", [](auto& p) { block(p, 0)[3].sources.pop_back(); },
        "rank 0, block 0, operation 3, chunk 0: the output misses chunk 0 of rank 1"},
       {"both wait first",
        [](auto& p) {
          for (int r : {0, 1}) std::swap(block(p, r)[5], block(p, r)[6]);
        },
        "rank 0, block 0, operation 5: waits without end for a signal of rank 1"},
       {"a signal without a wait",
        [](auto& p) {
          for (int r : {0, 1}) p.ranks[static_cast<std::size_t>(r)].memory_peers.push_back(1 - r);
          block(p, 0).push_back(on(kind::signal, memory, {1}));
        },
        "rank 1: never waits for 2 signals of rank 0 over memory channel 1"}});
}

TEST(check_mscclpp_program, relaxed_signals_publish_no_data) {
  auto program = half_each();
  block(program, 0)[5].kind = kind::relaxed_signal;
  EXPECT_EQ(first_note(program).rfind("relies on relaxed signals for data, or on a flush that", 0),
            0U);
  // A second fault stays one.
  block(program, 1)[3].sources.pop_back();
  EXPECT_NE(fault_of(program).find("the output misses"), std::string::npos);
}

TEST(check_mscclpp_program, names_the_first_fault_of_the_structure) {
  auto const sound = half_each();
  expect_faults(
      sound,
      {{"no ranks", [](auto& p) { p.ranks.clear(); }, "the program has no ranks"},
       {"a gather", [](auto& p) { p.collective = collective::gather; }, "MSCCL++ has no gather"},
       {"no chunks",
        [](auto& p) {
          for (auto& rank : p.ranks) rank.input_chunks = rank.output_chunks = 0;
        },
        "0 chunks, expected 1 at least"},
       {"negative", [](auto& p) { p.ranks[1].scratch_chunks = -1; }, "rank 1: a negative number"},
       {"unequal", [](auto& p) { p.ranks[1].input_chunks = 3; },
        "rank 1: 3 input chunks and 2 output chunks, expected 2 and 2 in all_reduce"},
       {"indivisible",
        [](auto& p) {
          p.collective = collective::all_to_all;
          for (auto& rank : p.ranks) rank.input_chunks = rank.output_chunks = 3;
        },
        "3 chunks do not divide by 2 ranks"},
       {"no such peer", [](auto& p) { p.ranks[0].memory_peers[0] = 2; },
        "rank 0: memory channel to rank 2, expected another of the 2 ranks"},
       {"itself as peer", [](auto& p) { p.ranks[1].port_peers[0] = 1; },
        "rank 1: port channel to rank 1"},
       {"no such channel", [](auto& p) { block(p, 0)[0].channels[0].id = 1; },
        "rank 0, block 0, operation 0: 'rlxsignal' uses memory channel 1 of 1"},
       {"no channel", [](auto& p) { block(p, 0)[1].channels.clear(); },
        "rank 0, block 0, operation 1: 'rlxwait' without a channel"},
       {"two types", [](auto& p) { block(p, 0)[0].channels.push_back({port, 0}); },
        "rank 0, block 0, operation 0: 'rlxsignal' over channels of two types"},
       {"no chunk", [](auto& p) { block(p, 0)[3].count = 0; },
        "rank 0, block 0, operation 3: 'rres' of 0 chunks"},
       {"beyond the buffer", [](auto& p) { block(p, 0)[3].count = 3; },
        "rank 0, block 0, operation 3, chunk 0: uses input chunks 0 to 2 of 2"},
       {"beyond the peer's buffer", [](auto& p) { block(p, 1)[3].destinations[1].chunk = 2; },
        "rank 1, block 0, operation 3, chunk 2: uses input chunk 2 of 2 at rank 0"},
       {"no such rank", [](auto& p) { block(p, 0)[3].sources[1].rank = 2; },
        "rank 0, block 0, operation 3: 'rres' uses rank 2 of 2"},
       {"its own peer", [](auto& p) { block(p, 0)[3].sources[1].rank = 0; },
        "rank 0, block 0, operation 3: 'rres' at its own rank as a peer"},
       {"a peer first",
        [](auto& p) { std::swap(block(p, 0)[3].sources[0], block(p, 0)[3].sources[1]); },
        "rank 0, block 0, operation 3: 'rres' with source 0 at a peer, expected it inside the "
        "rank"},
       {"a copy to a peer", [](auto& p) { block(p, 0)[3].kind = kind::copy; },
        "rank 0, block 0, operation 3: 'copy' with 2 sources, expected 1"},
       {"a get of unequal chunks",
        [](auto& p) { block(p, 0)[3] = move(kind::get, {at(1, in, 0)}, {here(in, 1)}); },
        "rank 0, block 0, operation 3: 'get' from chunk 0 to chunk 1, expected equal ones"},
       {"a put without a pair",
        [](auto& p) {
          block(p, 0)[3] = move(kind::put, {here(in, 0)}, {at(1, in, 0), at(1, in, 1)});
        },
        "rank 0, block 0, operation 3: 'put' of 1 sources to 2 destinations"},
       {"a put from two buffers",
        [](auto& p) {
          block(p, 0)[3] =
              move(kind::put, {here(in, 0), here(out, 0)}, {at(1, in, 0), at(1, in, 1)});
        },
        "rank 0, block 0, operation 3: 'put' from two buffers, expected one"},
       {"a put over a switch channel",
        [](auto& p) {
          for (auto& rank : p.ranks) rank.groups.assign(2, {in, {0, 1}, 2});
          block(p, 0)[3] = move(kind::put, {here(in, 0)}, {at(1, in, 0)});
          block(p, 0)[3].channels = {{mscclpp_channel_type::multimem, 1}};
        },
        "rank 0, block 0, operation 3: 'put' over switch channels, expected memory or port"},
       {"a signal with a put over memory",
        [](auto& p) {
          block(p, 0)[3] = move(kind::put_signal, {here(in, 0)}, {at(1, in, 0)});
          block(p, 0)[3].channels = {{memory, 0}};
        },
        "rank 0, block 0, operation 3: 'pws' over memory channels, expected port channels"},
       {"a flush of memory", [](auto& p) { block(p, 0)[3] = on(kind::flush, memory); },
        "rank 0, block 0, operation 3: 'flush' over memory channels, expected port channels"},
       {"sums over a port", [](auto& p) { block(p, 0)[3].channels = {{port, 0}}; },
        "rank 0, block 0, operation 3: 'rres' over port channels, expected memory channels"},
       {"no such semaphore", [](auto& p) { block(p, 0)[2] = semaphore(kind::release, 0); },
        "rank 0, block 0, operation 2: 'sem_release' uses semaphore 0 of 0"},
       {"a channel twice", [](auto& p) { block(p, 0)[6].channels.push_back({memory, 0}); },
        "rank 0, block 0, operation 6: 'wait' for one channel twice, expected each once"},
       {"a semaphore twice",
        [](auto& p) {
          p.ranks[0].semaphores = 1;
          block(p, 0)[2] = semaphore(kind::acquire, 0);
          block(p, 0)[2].semaphores.push_back(0);
        },
        "rank 0, block 0, operation 2: 'sem_acquire' of one semaphore twice, expected each once"},
       {"no such part", [](auto& p) { block(p, 0)[3].slice = 1; },
        "rank 0, block 0, operation 3: 'rres' of part 1 of 1"},
       {"different numbers", [](auto& p) { block(p, 0)[3].counts = {1, 1}; },
        "rank 0, block 0, operation 3: 'rres' with different numbers of chunks"},
       {"packets in the input",
        [](auto& p) { block(p, 0)[3] = move(kind::pack, {here(in, 0)}, {here(in, 1)}); },
        "rank 0, block 0, operation 3: 'cpkt' with packets in the input, expected them in scratch"},
       {"no room for packets",
        [](auto& p) {
          for (auto& rank : p.ranks) rank.scratch_chunks = 1;
          block(p, 0)[3] = move(kind::pack, {here(in, 0)}, {here(scratch, 0)});
        },
        "rank 0, block 0, operation 3, chunk 0: uses scratch chunk 0 of 0"},
       {"units",
        [](auto& p) {
          p.ranks[0].blocks[0].segments[0].loop_chunks = 1;
          p.unit_bytes = 100;
        },
        "rank 0, block 0, operation 0.0: 'rlxsignal' in a loop with units of 100 bytes"},
       {"too large",
        [](auto& p) {
          for (auto& rank : p.ranks) rank.input_chunks = rank.output_chunks = 1 << 24;
        },
        "too many chunks and operations to check"}});
}

/// Each rank sends one chunk as packets; the peer adds it and sends the sum back as packets.
mscclpp_program exchange_of_packets() {
  auto program = pair_of_ranks(collective::all_reduce, 2, 2, 2);
  program.has_packets = program.doubles_scratch = true;
  add_blocks(program, [](int r) -> operations {
    return {move(kind::put_packets, {here(in, 1 - r)}, {at(1 - r, scratch, 0)}),
            move(kind::reduce_packets_put, {here(in, r), here(scratch, 0)},
                 {here(in, r), at(1 - r, scratch, 1)})};
  });
  add_blocks(program, [](int r) -> operations {
    return {move(kind::unpack, {here(scratch, 1)}, {here(in, 1 - r)})};
  });
  return program;
}

TEST(check_mscclpp_program, packets_order_themselves) {
  // The second block overwrites what the first one has sent. The sum that comes back shows that it
  // has.
  EXPECT_EQ(first_note(exchange_of_packets()), "none");
  expect_faults(
      exchange_of_packets(),
      {{"packets from nowhere", [](auto& p) { block(p, 1).erase(block(p, 1).begin()); },
        "rank 0, block 0, operation 1: waits without end for packets"},
       {"packets twice", [](auto& p) { block(p, 0).insert(block(p, 0).begin(), block(p, 0)[0]); },
        "rank 0, block 1, operation 0, chunk 1: writes input, which block 0, operation 1 reads"},
       {"other packets to the same place",
        [](auto& p) {
          block(p, 0).push_back(move(kind::put_packets, {here(in, 0)}, {at(1, scratch, 0)}));
        },
        "rank 0, block 0, operation 2, chunk 0: writes packets to scratch of rank 1 a second time"},
       {"packets as data",
        [](auto& p) {
          block(p, 0, 1).push_back(move(kind::copy, {here(scratch, 0)}, {here(in, 0)}));
        },
        "rank 0, block 1, operation 1, chunk 0: reads packets as data from scratch"},
       {"a chunk that is not sent yet",
        [](auto& p) { block(p, 0, 1)[0].destinations[0].chunk = 0; },
        "rank 0, block 1, operation 0, chunk 0: writes input, which block 0, operation 1"}});
  // Packets pass over ports as they are: after all threads have written them.
  auto ports = pair_of_ranks(collective::all_gather, 1, 2, 2);
  ports.has_packets = ports.doubles_scratch = true;
  add_blocks(ports, [](int r) -> operations {
    return {move(kind::pack, {here(out, r)}, {here(scratch, r)}), sync(),
            over_port(kind::put_packets, {here(scratch, r)}, {at(1 - r, scratch, r)}),
            move(kind::unpack, {here(scratch, 1 - r)}, {here(out, 1 - r)})};
  });
  expect_faults(ports,
                {{"before all threads have written",
                  [](auto& p) { block(p, 0).erase(block(p, 0).begin() + 1); },
                  "rank 0, block 0, operation 1, chunk 0: reads scratch, which block 0, "
                  "operation 0 writes"},
                 {"never written", [](auto& p) { block(p, 0).erase(block(p, 0).begin()); },
                  "rank 0, block 0, operation 1: puts packets that are not there yet"},
                 {"in one half of scratch memory", [](auto& p) { p.doubles_scratch = false; },
                  "rank 0, block 0, operation 0, chunk 0: writes scratch, which block 0, "
                  "operation 2 reads, without waiting for it"}});
  // To forward packets, the threads wait for them first.
  block(ports, 0)[1].kind = kind::sync;
  block(ports, 0)[2].kind = kind::forward_packets;
  EXPECT_EQ(fault_of(ports), "sound");
}

/// Out of place over ports, unit by unit, with a flush of each put.
mscclpp_program gather_over_ports() {
  auto program = pair_of_ranks(collective::all_gather, 1, 2);
  program.in_place = false;
  add_blocks(program,
             [](int) -> operations { return {on(kind::signal, port), on(kind::wait, port)}; });
  for (int r = 0; r < 2; ++r) {
    auto& rank = program.ranks[static_cast<std::size_t>(r)];
    rank.blocks[0].segments.push_back(
        {1,
         {over_port(kind::put_signal_flush, {here(in, 0)}, {at(1 - r, out, r)}),
          on(kind::wait, port)}});
    rank.blocks.push_back({{{0, {move(kind::copy, {here(in, 0)}, {here(out, r)})}}}});
  }
  return program;
}

TEST(check_mscclpp_program, ports_read_memory_later) {
  EXPECT_EQ(first_note(gather_over_ports()), "none");
  auto const loop = [](mscclpp_program& p, int r) -> operations& {
    return p.ranks[static_cast<std::size_t>(r)].blocks[0].segments[1].operations;
  };
  expect_faults(
      gather_over_ports(),
      {{"no flush", [&](auto& p) { loop(p, 0)[0].kind = kind::put_signal; },
        "rank 0, block 0, operation 2.0, chunk 0: reads input, whose call may not have begun or "
        "may have ended"},
       {"no signal",
        [&](auto& p) {
          loop(p, 1)[0].kind = kind::put;
          loop(p, 1).insert(loop(p, 1).begin() + 1, loop(p, 1)[0]);
          loop(p, 1)[1].kind = kind::flush;
        },
        "rank 0, block 0, operation 1: waits without end for a signal of rank 1 over port channel "
        "0"},
       {"more units than chunks",
        [](auto& p) {
          for (auto& rank : p.ranks) rank.blocks[0].segments[1].loop_chunks = 2;
        },
        "rank 0, block 0, operation 2.0: is in a loop over 2 chunks, more than it moves (chunks of "
        "two units)"},
       {"one rank has fewer units",
        [](auto& p) { p.ranks[0].blocks[0].segments[1].unit_bytes = 1 << 20; },
        "rank 1, block 0, operation 2.0, chunk 1: writes output of rank 0, whose call may not "
        "have"},
       {"to another rank than the channel's",
        [&](auto& p) {
          p.ranks.push_back(p.ranks[0]);
          p.collective.reset();
          loop(p, 0)[0].destinations[0].rank = 2;
        },
        "rank 0, block 0, operation 2.0: 'pwsf' to rank 2 over a channel to rank 1"}});
  // A flush by itself: the executor takes the number of destinations.
  auto flushed = gather_over_ports();
  for (int r = 0; r < 2; ++r) {
    loop(flushed, r)[0].kind = kind::put_signal;
    auto flush = on(kind::flush, port);
    flush.destinations = {at(1 - r, out, r)};
    flush.count = 1;
    loop(flushed, r).insert(loop(flushed, r).begin() + 1, flush);
  }
  EXPECT_EQ(first_note(flushed), "none");
  loop(flushed, 0)[1].destinations.clear();
  EXPECT_NE(first_note(flushed).find("a flush that MSCCL++ 0.8 to 0.10 leave out"),
            std::string::npos);
}

/// A block passes units of its input to another one of the same rank through one chunk of scratch.
mscclpp_program two_blocks_with_semaphores(int credit) {
  mscclpp_program program;
  program.collective = collective::all_reduce;
  program.in_place = false;
  program.ranks.resize(1);
  auto& rank = program.ranks[0];
  rank.input_chunks = rank.output_chunks = rank.scratch_chunks = 1;
  rank.semaphores = 2;
  rank.semaphore_values = {0, credit};
  rank.blocks.resize(2);
  rank.blocks[0].segments = {
      {1,
       {semaphore(kind::acquire, 1), sync(), move(kind::copy, {here(in, 0)}, {here(scratch, 0)}),
        sync(), semaphore(kind::release, 0)}}};
  rank.blocks[1].segments = {
      {1,
       {semaphore(kind::acquire, 0), sync(), move(kind::copy, {here(scratch, 0)}, {here(out, 0)}),
        sync(), semaphore(kind::release, 1)}}};
  return program;
}

TEST(check_mscclpp_program, semaphores) {
  auto const first = [](mscclpp_program& p) -> operations& {
    return p.ranks[0].blocks[0].segments[0].operations;
  };
  auto const second = [](mscclpp_program& p) -> operations& {
    return p.ranks[0].blocks[1].segments[0].operations;
  };
  EXPECT_EQ(first_note(two_blocks_with_semaphores(1)), "none");
  expect_faults(
      two_blocks_with_semaphores(1),
      {{"no credit", [](auto& p) { p.ranks[0].semaphore_values.clear(); },
        "rank 0, block 0, operation 0.0: waits without end for semaphore 1"},
       {"no acquire", [&](auto& p) { second(p).erase(second(p).begin()); },
        "rank 0, block 1, operation 0.1, chunk 0: reads scratch, which block 0, operation 0.2 "
        "writes, without waiting for it"},
       {"no sync after the acquire", [&](auto& p) { second(p).erase(second(p).begin() + 1); },
        "rank 0, block 1, operation 0.1, chunk 0: reads scratch, which block 0, operation 0.2"},
       {"no sync before the release", [&](auto& p) { first(p).erase(first(p).begin() + 3); },
        "rank 0, block 1, operation 0.2, chunk 0: reads scratch, which block 0"},
       {"one release more", [&](auto& p) { first(p).push_back(semaphore(kind::release, 0)); },
        "rank 0, block 1, operation 0.2, chunk 0: reads scratch, which block 0, operation 0.2"},
       {"a release without an acquire",
        [&](auto& p) {
          p.ranks[0].semaphores = 3;
          first(p).push_back(semaphore(kind::release, 2));
        },
        "rank 0: semaphore 2 ends 2 above its first value"},
       {"two blocks acquire it",
        [&](auto& p) {
          p.ranks[0].blocks.push_back(p.ranks[0].blocks[1]);
          first(p).push_back(semaphore(kind::release, 0));
        },
        "rank 0, block 2, operation 0.0: waits for what another block waits for too"}});
  // Two blocks release one semaphore. Only together do the acquires know what both know.
  auto program = two_blocks_with_semaphores(0);
  auto& rank = program.ranks[0];
  rank.semaphore_values.clear();
  rank.input_chunks = rank.output_chunks = rank.scratch_chunks = 2;
  auto const producer = [](int chunk) -> mscclpp_block {
    return {{{0,
              {move(kind::copy, {here(in, chunk)}, {here(scratch, chunk)}), sync(),
               semaphore(kind::release, 0)}}}};
  };
  auto const acquire = semaphore(kind::acquire, 0);
  auto const copy = move(kind::copy, {here(scratch, 0)}, {here(out, 0)}, 2);
  rank.blocks = {producer(0), producer(1), {{{0, {acquire, acquire, sync(), copy}}}}};
  EXPECT_EQ(fault_of(program), "sound");
  auto too_early = program;
  too_early.ranks[0].blocks[2].segments[0].operations = {acquire, sync(), copy, acquire};
  EXPECT_EQ(fault_of(too_early).rfind("rank 0, block 2, operation 2, chunk 0: reads scratch", 0),
            0U);
}

TEST(check_mscclpp_program, barriers_and_shared_operations) {
  mscclpp_program program;
  program.collective = collective::all_reduce;
  program.in_place = false;
  program.ranks.resize(1);
  auto& rank = program.ranks[0];
  rank.input_chunks = rank.output_chunks = rank.scratch_chunks = 2;
  mscclpp_operation barrier{kind::barrier};
  barrier.barrier = 5;
  barrier.barrier_blocks = 3;
  for (int b = 0; b < 3; ++b) {
    auto first = move(kind::copy, {here(in, 0)}, {here(scratch, 0)}, 2);
    first.slices = 3;
    first.slice = b;
    auto second = move(kind::copy, {here(scratch, 0)}, {here(out, 0)}, 2);
    second.slices = 3;
    second.slice = 2 - b;
    rank.blocks.push_back({{{0, {first, barrier, second}}}});
  }
  expect_faults(
      program,
      {{"no barrier",
        [](auto& p) {
          for (int b : {0, 1, 2}) block(p, 0, b)[1] = sync();
        },
        "rank 0, block 0, operation 2, chunk 1: reads scratch before anything is written there"},
       {"too few blocks", [](auto& p) { block(p, 0, 2)[1] = sync(); },
        "rank 0: barrier 5 of 3 blocks is used by 2"},
       {"two sizes", [](auto& p) { block(p, 0, 2)[1].barrier_blocks = 2; },
        "rank 0, block 2, operation 1: barrier 5 of 2 blocks, and of 3 elsewhere"},
       {"one round less", [](auto& p) { block(p, 0, 0).push_back(block(p, 0, 0)[1]); },
        "rank 0, block 0, operation 3: waits without end for the other blocks of barrier 5"},
       {"a part twice", [](auto& p) { block(p, 0, 2)[0].slice = 0; },
        "rank 0, block 2, operation 0, chunk 0: writes scratch, which block 0, operation 0 writes "
        "too"}});
}

/// Each rank adds up one chunk of all ranks through the switch, and stores it at all.
mscclpp_program through_a_switch(int ranks) {
  mscclpp_program program;
  program.ranks.resize(static_cast<std::size_t>(ranks));
  std::vector<int> members;
  for (int r = 0; r < ranks; ++r) members.push_back(r);
  for (int r = 0; r < ranks; ++r) {
    auto& rank = program.ranks[static_cast<std::size_t>(r)];
    rank.input_chunks = ranks;
    std::vector<int> channels;
    for (int const peer : members) {
      if (peer == r) continue;
      channels.push_back(static_cast<int>(rank.memory_peers.size()));
      rank.memory_peers.push_back(peer);
    }
    rank.groups = {{in, members, ranks}};
    rank.blocks = {{{{0,
                      {on(kind::signal, memory, channels), on(kind::wait, memory, channels), sync(),
                       move(kind::group_reduce, {all(0, r)}, {all(0, r)}), sync(),
                       on(kind::signal, memory, channels), on(kind::wait, memory, channels)}}}}};
  }
  return program;
}

TEST(check_mscclpp_program, groups_behind_a_switch) {
  EXPECT_EQ(first_note(through_a_switch(4)), "none");
  expect_faults(
      through_a_switch(4),
      {{"a rank is left out", [](auto& p) { p.ranks[2].groups[0].ranks.pop_back(); },
        "rank 0: switch channel 0 of ranks that have no such channel: rank 2"},
       {"another buffer", [](auto& p) { p.ranks[2].groups[0].buffer = out; },
        "rank 0: switch channel 0 is on the input, and at rank 2 on the output"},
       {"not a member", [](auto& p) { p.ranks[0].groups[0].ranks = {1, 2, 3}; },
        "rank 0: switch channel 0 without the rank itself"},
       {"no such rank", [](auto& p) { p.ranks[0].groups[0].ranks = {0, 9}; },
        "rank 0: switch channel 0 with rank 9 of 4"},
       {"no such group", [](auto& p) { block(p, 0)[3].sources[0].group = 1; },
        "rank 0, block 0, operation 3: 'glres' uses switch channel 1 of 1"},
       {"added twice", [](auto& p) { block(p, 1).insert(block(p, 1).begin() + 4, block(p, 1)[3]); },
        "rank 1, block 0, operation 4, chunk 1: reads input of rank 0, which operation 3 writes, "
        "before the "
        "block's threads have waited for each other (nop)"},
       {"one wait less at the end", [](auto& p) { block(p, 3)[6].channels.pop_back(); },
        "rank 2, block 0, operation 3, chunk 2: writes input of rank 3, whose call may"}});
  // All-gather by stores: each rank's chunk to all, its own place included.
  auto stores = through_a_switch(3);
  stores.collective = collective::all_gather;
  for (int r = 0; r < 3; ++r) {
    auto& rank = stores.ranks[static_cast<std::size_t>(r)];
    rank.input_chunks = 1;
    rank.output_chunks = 3;
    rank.groups[0].buffer = out;
    block(stores, r)[3] = move(kind::group_store, {here(out, r)}, {all(0, r)});
  }
  EXPECT_EQ(fault_of(stores), "sound");
  block(stores, 1)[3].kind = kind::group_reduce;
  block(stores, 1)[3].sources = {all(0, 1)};
  EXPECT_EQ(fault_of(stores),
            "rank 1, block 0, operation 3, chunk 1: reads output of rank 0 before anything "
            "is written there");
}

TEST(check_mscclpp_program, sums_belong_to_reductions) {
  auto program = half_each();
  program.collective = collective::broadcast;
  EXPECT_EQ(fault_of(program),
            "0 ranks receive nothing, expected one, the root: the file does not name it");
  program.collective = collective::all_to_all;
  EXPECT_EQ(fault_of(program), "rank 1, block 0, operation 3: adds chunks up in all_to_all");
}

TEST(check_mscclpp_program, finds_the_root) {
  auto program = pair_of_ranks(collective::broadcast, 1, 1);
  program.ranks[0].blocks = {{{{0, {on(kind::signal, memory), on(kind::wait, memory)}}}}};
  program.ranks[1].blocks = {
      {{{0,
         {on(kind::wait, memory), sync(), move(kind::put, {here(in, 0)}, {at(0, out, 0)}), sync(),
          on(kind::signal, memory)}}}}};
  EXPECT_EQ(fault_of(program), "sound");
  EXPECT_EQ(check_mscclpp_program(program).root, 1);
  // In a reduce, the root is the rank that sends nothing: its output misses its own part.
  program.collective = collective::reduce;
  EXPECT_EQ(check_mscclpp_program(program).root, 0);
  EXPECT_EQ(
      fault_of(program),
      "rank 1, block 0, operation 2, chunk 0: of rank 0: the output misses chunk 0 of rank 0");
  block(program, 1)[2] = move(kind::read_reduce, {here(in, 0), at(0, in, 0)}, {here(in, 0)});
  EXPECT_EQ(check_mscclpp_program(program).root, 1);
  EXPECT_EQ(fault_of(program), "sound");
}

TEST(check_mscclpp_program, large_chunks_share_scratch_memory) {
  auto program = two_blocks_with_semaphores(1);
  program.shares_scratch = true;
  program.unit_bytes = 1 << 20;
  EXPECT_EQ(first_note(program), "none");
  program.ranks[0].semaphore_values = {0, 64};  // as many units as fit
  EXPECT_EQ(first_note(program), "none");
  program.ranks[0].semaphore_values = {0, 65};
  EXPECT_NE(first_note(program).find("without waiting for it (chunks above 67108864 bytes, which "
                                     "share scratch memory)"),
            std::string::npos);
  program.most_bytes = 1 << 20;  // no such chunks
  EXPECT_EQ(first_note(program), "none");
  // Without a loop, a copy of a whole chunk passes the end of its part.
  program = two_blocks_with_semaphores(1);
  program.shares_scratch = true;
  for (auto& each : program.ranks[0].blocks) each.segments[0].loop_chunks = 0;
  EXPECT_EQ(first_note(program),
            "rank 0, block 0, operation 2, chunk 0: uses scratch beyond its end (chunks above "
            "67108864 bytes, which share scratch memory)");
}

TEST(check_mscclpp_program, notes_what_the_executor_has_no_room_for) {
  auto program = half_each();
  for (int i = 0; i < 60; ++i) block(program, 0).insert(block(program, 0).begin(), sync());
  EXPECT_EQ(first_note(program),
            "rank 0, block 0: 67 operations, more than the 64 of the executor");
  program = half_each();
  program.ranks[0].semaphores = 17;
  EXPECT_EQ(first_note(program), "rank 0: 17 semaphores, more than the 16 of the executor");
  program = half_each();
  program.in_place = false;
  EXPECT_NE(fault_of(program), "sound");
  auto gather = gather_over_ports();
  for (int r : {0, 1}) {
    auto& copies = block(gather, r, 1);
    copies.push_back(sync());
    copies.push_back(move(kind::copy, {here(out, r)}, {here(in, 0)}));
  }
  EXPECT_NE(fault_of(gather), "sound");  // the port may still read the input
}

}}  // namespace check_mscclpp_program_test
