// SPDX-License-Identifier: Apache-2.0
// Communicators of devices of several processes. Devices are emulated: blocks are threads, and
// other processes map their memory. The tests make random calls; processes die, stop, do not come
// or make another call.

#include <blink/reducers/arithmetic.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/ranks/protocol_schedules.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>
#include <blink/transports/host/communicator_bootstrap.hpp>
#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/segment_bootstrap.hpp>

#include "support/collective_case.hpp"
#include "support/device_case.hpp"
#include "support/device_process.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include "support/forked_ranks.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

// The sources of a folder may be compiled as one.
namespace device_processes_test { namespace {

using blink_test::below;
using blink_test::border_at;
using blink_test::case_of;
using blink_test::device_case;
using blink_test::emulated_devices;
using blink_test::error_of;
using blink_test::forked_ranks;
using chunks = blink::fixed_protocol<blink::whole_chunks>;
using packets = blink::fixed_protocol<blink::small_packets>;
using model = blink::modelled_protocol;
template <class Protocols>
using world_of = blink::basic_device_ranks<emulated_devices, blink::slot_peer_transport, Protocols>;
using all_ranks = world_of<model>;

template <class Protocols>
using part_with = blink_test::device_process<world_of<Protocols>>;
using part = part_with<model>;

/// Deadline of tests that wait for it. It is long enough for the calls before on a busy machine.
constexpr std::chrono::milliseconds short_deadline(1500);

blink::device_options options_of(std::vector<int> devices) {
  auto options = blink_test::options_in_vectors(std::move(devices));
  options.deadline = std::chrono::seconds(20);
  return options;
}

/// The same calls in every process, drawn from the seed; each checks the results of its ranks.
template <class Protocols>
std::string random_calls(std::string const& path, int process, int processes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<int>> devices(static_cast<std::size_t>(processes));
  int ranks = 0;
  for (auto& own : devices) {
    own.resize(static_cast<std::size_t>((processes == 1 ? 2 : 1) + below(random, 2)));
    for (int& device : own) device = below(random, 3);
    ranks += static_cast<int>(own.size());
  }
  auto options = options_of(devices[static_cast<std::size_t>(process)]);
  options.window = 1 + static_cast<std::uint32_t>(random() % 4);
  options.slot_bytes = 16 + random() % 2000;
  options.packet_slot_bytes = 1 << 14;  // room for a whole call, because tasks share blocks
  options.protocols = border_at(400);
  emulated_devices::options const machine{
      .devices = 3,
      .room = 128U * static_cast<std::uint32_t>(ranks + below(random, 12)),
      .threads_each = seed % 4 == 0 ? 3U : 1U};
  part_with<Protocols> mine(path, process, options, machine);
  if (mine.all.rank_count() != ranks) return "ranks: " + std::to_string(mine.all.rank_count());
  for (int call = 0; call < 3; ++call) {
    auto const kind = static_cast<blink::collective>(random() % 11);
    auto const trees = blink::replicate_trees(blink_test::random_schedule(random, ranks, kind),
                                              1 + below(random, 3));
    auto what = case_of(kind, random() % 2 == 0 ? random() % 60 : random() % 1500, seed);
    what.is_in_place = random() % 3 == 0;
    what.offset = random() % 3;
    auto const check = [&](auto zero, auto const& reduce) {
      device_case<decltype(zero)> now(what, trees, mine.all.first_rank(), mine.all.ranks_here());
      for (int repeat = 0; repeat < (what.is_in_place ? 1 : 2); ++repeat) {
        now.enqueue(mine.all, reduce);
        mine.all.wait();
        auto const wrong = now.wrong(reduce);
        if (!wrong.empty()) return std::string(blink::to_text(kind)) + ": " + wrong;
        if (!what.is_in_place) now.forget();
      }
      return std::string();
    };
    auto const wrong = random() % 2 == 0
                           ? check(std::int32_t{0}, blink::avg{})
                           : check(blink_test::triple(0, 0, 0), blink_test::triple_reducer{});
    if (!wrong.empty()) return "call " + std::to_string(call) + ", " + wrong;
  }
  return "right";
}

template <class Protocols>
class device_processes_with : public testing::Test {};
using protocols = testing::Types<chunks, packets, model>;
TYPED_TEST_SUITE(device_processes_with, protocols);

TYPED_TEST(device_processes_with, random_calls_are_exact) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    int const processes = 1 + static_cast<int>(seed % 3);
    forked_ranks all(processes);
    all.start(
        [&](int process) { return random_calls<TypeParam>(all.path(), process, processes, seed); });
    for (auto const& end : all.finish()) EXPECT_EQ(end.text, "right");
  }
}

template <class Body>
std::vector<std::string> run(int processes, blink::device_options const& options,
                             Body const& body) {
  return blink_test::run_device_processes<part>(processes, options, body);
}

std::string sum_up(part& mine, std::size_t count = 100) {
  device_case<int> now(case_of(blink::collective::all_reduce, count, 1),
                       blink::ring_schedule(mine.all.rank_count()), mine.all.first_rank(),
                       mine.all.ranks_here());
  now.enqueue(mine.all, blink::sum{});
  mine.all.wait();
  return now.wrong(blink::sum{});
}

// Calls do not wait for those of other processes, and memory is never released under a running
// kernel.
TEST(device_processes, one_may_be_many_calls_ahead_and_ends_when_all_do) {
  auto const texts = run(2, options_of({0, 1}), [](part& mine, int process) {
    auto const trees = blink::chain_schedule(4, 0);
    std::vector<device_case<int>> calls;
    for (int call = 0; call < 20; ++call) {
      calls.emplace_back(case_of(blink::collective::reduce, 10, 1), trees, mine.all.first_rank(),
                         2);
    }
    (void)mine.all.prepare(trees);
    if (process == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::string wrong;
    for (auto& call : calls) call.enqueue(mine.all, blink::sum{});
    mine.all.wait();
    for (auto& call : calls) wrong += call.wrong(blink::sum{});
    return wrong;
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
}

TEST(device_processes, other_calls_are_named_on_all) {
  auto const texts = run(2, options_of({0}), [](part& mine, int process) {
    (void)sum_up(mine);
    auto const counts = error_of([&] { (void)sum_up(mine, process == 0 ? 100 : 101); });
    mine.all.recover();
    if (auto const wrong = sum_up(mine); !wrong.empty()) return wrong;
    auto const types = error_of([&] {
      auto const trees = blink::ring_schedule(2);
      auto const what = case_of(blink::collective::all_reduce, 10, 1);
      if (process == 0) {
        device_case<int> now(what, trees, 0, 1);
        now.enqueue(mine.all, blink::sum{});
        mine.all.wait();
      } else {
        device_case<float> now(what, trees, 1, 1);
        now.enqueue(mine.all, blink::sum{});
        mine.all.wait();
      }
    });
    return counts + "|" + types;
  });
  for (auto const& text : texts) {
    EXPECT_SAYS(text, "call 2: process ");
    EXPECT_SAYS(text, "calls all_reduce, with count 10");
    EXPECT_SAYS(text, "|call 2: process ");
    EXPECT_SAYS(text, "with types ");
  }
}

TEST(device_processes, another_schedule_is_refused_on_all) {
  auto const texts = run(2, options_of({0}), [](part& mine, int process) {
    return error_of([&] {
      (void)mine.all.prepare(process == 0 ? blink::ring_schedule(2) : blink::star_schedule(2));
      (void)mine.all.prepare(process == 0 ? blink::chain_schedule(2, 0)
                                          : blink::chain_schedule(2, 1));
    });
  });
  for (auto const& text : texts) EXPECT_SAYS(text, "another schedule");
}

TEST(device_processes, a_schedule_for_other_ranks_is_refused_on_all) {
  auto const texts = run(2, options_of({0}), [](part& mine, int process) {
    auto const text =
        error_of([&] { (void)mine.all.prepare(blink::ring_schedule(process == 0 ? 2 : 3)); });
    return sum_up(mine) + text;  // the communicator still works
  });
  EXPECT_SAYS(texts[0], "prepare: process 1 (process ");
  EXPECT_SAYS(texts[0], "refuses: ");
  for (auto const& text : texts)
    EXPECT_SAYS(text, "schedule: for 3 ranks, expected the communicator's 2");
}

/// The errors of the other processes after a fault in process 1 of 3, which comes after a
/// successful call.
template <class Fault>
std::vector<std::string> say_of(Fault const& fault, bool is_killed = true) {
  auto options = options_of({0});
  options.deadline = short_deadline;
  forked_ranks all(3);
  all.start([&](int process) {
    part mine(all.path(), process, options);
    (void)sum_up(mine);
    if (process == 1) return fault(mine);
    auto const text = error_of([&] { (void)sum_up(mine); });
    auto const again = error_of([&] { (void)sum_up(mine); });
    return again == text ? text : "then: " + again;
  });
  std::vector<std::string> texts;
  for (auto const& end : all.finish(is_killed ? 1 : -1)) texts.push_back(end.text);
  return texts;
}

TEST(device_processes, who_dies_is_named) {
  auto const texts = say_of([](part&) -> std::string {
    (void)raise(SIGKILL);
    return "";
  });
  for (int const process : {0, 2}) {
    auto const& text = texts[static_cast<std::size_t>(process)];
    EXPECT_SAYS(text, "waits for rank 1 (process 1, device 0)");
    EXPECT_SAYS(text, "; process 1 (process ");
    EXPECT_SAYS(text, ") has died");
  }
}

TEST(device_processes, who_stops_is_named) {
  auto const texts = say_of([](part&) -> std::string {
    (void)raise(SIGSTOP);
    return "";
  });
  for (int const process : {0, 2}) {
    auto const& text = texts[static_cast<std::size_t>(process)];
    EXPECT_SAYS(text, "waits for rank 1 (process 1, device 0)");
    EXPECT_SAYS(text, ", stopped) has made 1 calls, process ");
  }
}

// By packets, and by chunks, because a communicator that chooses has both.
void expect_a_new_beginning(double border) {
  auto options = options_of({0});
  options.deadline = short_deadline;
  options.protocols = border_at(border);
  auto const texts = run(3, options, [&](part& mine, int process) -> std::string {
    (void)sum_up(mine);
    (void)sum_up(mine, 3000);
    std::string text;
    if (process == 1) {
      while (!mine.all.has_failed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      text = error_of([&] { mine.all.check(); });
    } else {
      text = error_of([&] { (void)sum_up(mine); });
    }
    mine.all.recover();
    auto const wrong = sum_up(mine) + sum_up(mine, 3000) + sum_up(mine, 101);
    auto const chose = mine.machine.packet_launches() > 0;
    return !wrong.empty() ? wrong : chose == (border > 1) ? text : "took the other protocol";
  });
  for (auto const& text : texts) {
    EXPECT_SAYS(text, "waits for rank 1 (process 1, device 0)");
    EXPECT_SAYS(text, "has made 2 calls, process ");
  }
}
TEST(device_processes, who_never_calls_is_named_and_all_begin_anew) {
  expect_a_new_beginning(0.1);
}
TEST(device_processes, who_never_sends_packets_is_named_and_all_begin_anew) {
  expect_a_new_beginning(1000);
}

/// The second of two processes has its stream held up; `failure_of(mine, stream)` returns the error
/// of each.
template <class FailureOf>
void expect_held_stream_named(FailureOf const& failure_of) {
  auto options = options_of({0});
  options.deadline = short_deadline;
  auto const texts = run(2, options, [&](part& mine, int process) -> std::string {
    (void)sum_up(mine);
    auto const stream = mine.machine.make_stream();
    if (process == 1) mine.machine.hold_stream(0, stream);
    device_case<int> now(case_of(blink::collective::all_reduce, 10, 1), blink::ring_schedule(2),
                         mine.all.first_rank(), 1);
    now.enqueue(mine.all, blink::sum{}, {stream});
    auto const text = failure_of(mine, stream);
    mine.machine.release_stream(0, stream);
    mine.all.recover();
    auto const wrong = sum_up(mine);
    return wrong.empty() ? text : wrong;
  });
  for (auto const& text : texts) {
    EXPECT_SAYS(text, "waits for rank 1 (process 1, device 0)");
    EXPECT_SAYS(text, "whose kernel has not begun");
  }
}
TEST(device_processes, a_kernel_that_does_not_begin_is_named) {
  expect_held_stream_named([](part& mine, auto const&) {
    while (!mine.all.has_failed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return error_of([&] { mine.all.check(); });
  });
}
TEST(device_processes, a_wait_ends_though_a_stream_of_one_is_held_up) {
  expect_held_stream_named(
      [](part& mine, auto const& stream) { return error_of([&] { mine.all.wait({stream}); }); });
}

TEST(device_processes, who_cannot_begin_anew_is_named_on_all) {
  auto options = options_of({0});
  options.deadline = std::chrono::seconds(4);  // a process waits for half of it, and the others
                                               // wait for that process
  auto const texts = run(2, options, [](part& mine, int process) -> std::string {
    (void)sum_up(mine);
    (void)mine.all.prepare(blink::chain_schedule(2, 0));  // all have ended the call
    auto const stream = mine.machine.make_stream();
    if (process == 1) mine.machine.hold_stream(0, stream);
    device_case<int> now(case_of(blink::collective::all_reduce, 10, 1), blink::ring_schedule(2),
                         mine.all.first_rank(), 1);
    (void)error_of(
        [&] { now.enqueue(mine.all, blink::sum{}, {stream}); });  // the other process may be faster
    if (process == 1) mine.all.abort();
    while (!mine.all.has_failed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    auto const text = error_of([&] { mine.all.recover(); });
    mine.machine.release_stream(0, stream);
    mine.all.recover();
    auto const wrong = sum_up(mine);
    return wrong.empty() ? text : wrong;
  });
  EXPECT_SAYS(texts[0], "process 1 (process ");
  EXPECT_SAYS(texts[0], "refuses: recover: a call on device 0 has not ended");
  EXPECT_SAYS(texts[1], "recover: a call on device 0 has not ended: its stream is held up");
}

// A kernel that begins after its communicator has ended writes to memory of the other process.
TEST(device_processes, what_a_held_stream_may_use_is_kept_by_all) {
  auto options = options_of({0});
  options.deadline = std::chrono::seconds(4);
  forked_ranks all(2);
  all.start([&](int process) -> std::string {
    emulated_devices machine({.devices = 1, .shares_memory = true});
    blink::process_communicator communicator(all.path(), process);
    blink::communicator_bootstrap bootstrap(communicator);
    auto mine = std::make_unique<all_ranks>(machine, options, bootstrap);
    auto const trees = blink::ring_schedule(2);
    (void)mine->prepare(trees);
    auto const bytes = machine.allocated_bytes();
    auto const imports = machine.imports();
    auto const stream = machine.make_stream();
    if (process == 1) machine.hold_stream(0, stream);
    device_case<int> now(case_of(blink::collective::all_reduce, 10, 1), trees, process, 1);
    (void)error_of(
        [&] { now.enqueue(*mine, blink::sum{}, {stream}); });  // the other process may be
                                                               // faster
    if (process == 1) mine->abort();
    mine.reset();
    // Memory that other processes never reach is released when its kernels have ended.
    bool const is_kept = process == 1 ? machine.allocated_bytes() == bytes
                                      : machine.allocated_bytes() > 0 &&
                                            machine.allocated_bytes() <= bytes &&
                                            machine.released_while_open() == 0;
    bool const is_open = machine.imports() == imports;
    machine.release_stream(0, stream);
    machine.synchronize(0, stream);
    return std::string(is_kept ? "kept" : "released") + (is_open ? ", open" : ", closed");
  });
  auto const ends = all.finish();
  EXPECT_EQ(ends[0].text, "kept, closed");  // its own kernel has ended
  EXPECT_EQ(ends[1].text, "kept, open");
}

TEST(device_processes, an_owner_may_abort_all) {
  auto const texts = run(3, options_of({0}), [&](part& mine, int process) -> std::string {
    (void)sum_up(mine);
    if (process == 1) mine.all.abort();
    return error_of([&] { (void)sum_up(mine); });  // ends long before the deadline
  });
  for (auto const& text : texts) EXPECT_SAYS(text, "process 1 was aborted by its owner");
}

TEST(device_processes, what_one_refuses_all_refuse) {
  forked_ranks all(2);
  all.start([&](int process) {
    auto options = options_of({process == 0 ? 0 : 7});
    auto text = error_of([&] { part mine(all.path(), process, options); });
    return text;
  });
  auto ends = all.finish();
  EXPECT_SAYS(ends[0].text, "process 1 (process ");
  EXPECT_SAYS(ends[0].text,
              "refuses: device_ranks: rank 0 is on device 7, expected a number below 3");
  EXPECT_SAYS(ends[1].text, "rank 0 is on device 7, expected a number below 3");

  forked_ranks second(2);
  second.start([&](int process) {
    auto options = options_of({0});
    options.memory_cap = std::size_t{1} << (process == 0 ? 24 : 16);
    part mine(second.path(), process, options);
    auto const text = error_of(
        [&] { (void)mine.all.prepare(blink::replicate_trees(blink::ring_schedule(2), 64)); });
    auto const small = sum_up(mine);
    auto const bytes = mine.machine.allocated_bytes();
    std::size_t counted = 0;
    for (auto const& [device, use] : mine.all.memory().held()) counted += use.total();
    return small + text + (bytes == counted ? "" : "; not all is counted");
  });
  ends = second.finish();
  EXPECT_SAYS(ends[0].text, "refuses: the schedule needs");
  EXPECT_SAYS(ends[1].text, "the schedule needs");
  for (auto const& end : ends) {
    EXPECT_SAYS(end.text, "memory_cap");
    EXPECT_EQ(end.text.find("counted"), std::string::npos);
  }
}

TEST(device_processes, memory_that_is_not_reached_is_named) {
  forked_ranks all(2);
  all.start([&](int process) {
    part mine(all.path(), process, options_of({process}), {.devices = 2, .unreachable = {{1, 0}}});
    return error_of([&] { (void)mine.all.prepare(blink::chain_schedule(2, 0)); });
  });
  for (auto const& end : all.finish()) {
    EXPECT_SAYS(
        end.text,
        "joins rank 1 (process 1, device 1) and rank 0 (process 0, device 0), and its memory "
        "cannot be opened: peer access is refused");
  }
}

/// A protocol chooser that does not choose the same in all processes.
struct by_process {
  static inline int process = 0;
  blink::protocol_choice operator()(int, std::size_t) const {
    return process == 0 ? blink::protocol_choice::small_packets
                        : blink::protocol_choice::whole_chunks;
  }
};

TEST(device_processes, another_protocol_is_named_on_all) {
  forked_ranks all(2);
  all.start([&](int process) {
    by_process::process = process;
    part_with<by_process> mine(all.path(), process, options_of({0}));
    return error_of([&] {
      device_case<int> now(case_of(blink::collective::all_reduce, 10, 1), blink::ring_schedule(2),
                           process, 1);
      now.enqueue(mine.all, blink::sum{});
      mine.all.wait();
    });
  });
  for (auto const& end : all.finish()) {
    EXPECT_SAYS(end.text, "call 1: process ");
    EXPECT_SAYS(end.text, "small_packets");
    EXPECT_SAYS(end.text, "whole_chunks");
  }
}

TEST(device_processes, another_way_to_choose_is_refused) {
  forked_ranks all(2);
  all.start([&](int process) {
    return error_of([&] {
      if (process == 0) {
        part_with<chunks> mine(all.path(), process, options_of({0}));
      } else {
        part_with<model> mine(all.path(), process, options_of({0}));
      }
    });
  });
  for (auto const& end : all.finish())
    EXPECT_SAYS(end.text, "the protocol chooser differ between processes");
}

TEST(device_processes, other_options_are_refused) {
  forked_ranks all(2);
  all.start([&](int process) {
    auto options = options_of({0});
    options.window = process == 0 ? 2 : 3;
    return error_of([&] { part mine(all.path(), process, options); });
  });
  for (auto const& end : all.finish())
    EXPECT_SAYS(end.text, "differ between processes, expected the same");
}

// The shared memory of the launch is enough: no other bootstrap is needed.
TEST(device_processes, a_launch_is_a_bootstrap) {
  forked_ranks all(2);
  all.start([&](int process) {
    emulated_devices machine({.shares_memory = true});
    blink::segment_bootstrap bootstrap(all.path(), process, std::chrono::seconds(20));
    std::string wrong;
    for (int k = 0; k < 2; ++k) {
      all_ranks here(machine, options_of({0}), bootstrap);
      device_case<int> now(case_of(blink::collective::all_gather, 30, 1), blink::ring_schedule(2),
                           process, 1);
      now.enqueue(here, blink::sum{});
      here.wait();
      wrong += now.wrong(blink::sum{});
    }
    return wrong;
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "");
  forked_ranks lonely(2);
  lonely.start([&](int process) {
    if (process == 1) return std::string();
    return error_of([&] {
      blink::segment_bootstrap bootstrap(lonely.path(), 0, std::chrono::milliseconds(50));
      emulated_devices machine({.shares_memory = true});
      all_ranks here(machine, options_of({0}), bootstrap);
    });
  });
  EXPECT_SAYS(lonely.finish()[0].text, "waits for process 1 (not started), which has not arrived");
}

TEST(device_processes, memory_goes_when_nobody_has_it_open) {
  auto const texts = run(2, options_of({0, 1}), [](part& mine, int process) -> std::string {
    emulated_devices machine({.devices = 2, .shares_memory = true});
    std::string wrong;
    {
      all_ranks inner(machine, options_of({0, 1}), mine.bootstrap);
      (void)inner.prepare(blink::ring_schedule(4));
      if (machine.imports() == 0) wrong += "nothing was opened; ";
      if (process == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    if (machine.released_while_open() != 0) wrong += "released while open; ";
    if (machine.imports() != 0) wrong += "memory of others is still open; ";
    if (machine.allocated_bytes() != 0) wrong += "memory is kept";
    return wrong;
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
}

}}  // namespace device_processes_test
