// SPDX-License-Identifier: Apache-2.0
// Ever new schedules: the shared memory of those that are not used any more is used again.

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/transports/host/processes.hpp>

#include "support/forked_ranks.hpp"
#include "support/message_ranks.hpp"
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace schedule_store_test { namespace {

/// A schedule of a shift by one rank whose weights no other number has.
blink::schedule numbered(int ranks, std::uint64_t number) {
  auto result = blink::ring_schedule(ranks);
  for (auto& tree : result.trees) tree.weight = 1 + number;
  return result;
}

template <class Comm>
void add_up(Comm& comm, std::size_t count, auto&& trees) {
  std::vector<int> in(count, comm.rank() + 1), out(count);
  blink::all_reduce(comm, std::forward<decltype(trees)>(trees), in.data(), out.data(), count,
                    blink::sum{});
  int const sum = comm.rank_count() * (comm.rank_count() + 1) / 2;
  if (std::count(out.begin(), out.end(), sum) != static_cast<std::ptrdiff_t>(count)) {
    throw blink::error("a wrong sum");
  }
}

TEST(schedule_store, memory_of_unused_schedules_is_used_again) {
  constexpr int ranks = 3;
  // A schedule takes about 200 KiB, and half of the memory is for schedules.
  blink_test::forked_ranks all(ranks, std::size_t{8} << 20);
  all.start([&](int rank) {
    blink::communicator_options options;
    options.slot_bytes = 4096;
    options.eager_payload = 0;
    options.waits.deadline = std::chrono::seconds(20);
    blink::process_communicator comm(all.path(), rank, options);
    // One rank keeps references to schedules that the others forget, and a call that it repeats.
    auto* const kept = rank == 1 ? &comm.prepare(numbered(ranks, 5)) : nullptr;
    blink::call_queue queue(comm, blink::progress::in_waits);
    std::vector<int> in(300, rank), out(300);
    auto repeated = queue.make(blink::collective::all_reduce, numbered(ranks, 7), in.data(),
                               out.data(), in.size(), blink::sum{});
    std::mt19937_64 random(1);
    for (std::uint64_t step = 0; step < 400; ++step) {
      std::size_t const count = 1 + random() % 2000;
      if (step % 40 == 13) {
        repeated.start();
        repeated.wait();
        if (out[299] != 3) return "a wrong repeated sum in step " + std::to_string(step);
      } else if (step % 40 == 9 && kept != nullptr) {
        add_up(comm, count, *kept);
      } else {
        add_up(comm, count,
               numbered(ranks, step % 40 == 9      ? 5
                               : random() % 3 == 0 ? step
                                                   : step / 50));
      }
    }
    return std::string("done");
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "done");
}

TEST(schedule_store, ranks_over_messages_that_share_memory_do_the_same) {
  blink_test::message_options with;
  with.ranks_of_host = 2;
  with.options.eager_payload = 0;
  with.options.slot_bytes = std::size_t{1} << 20;
  blink_test::run_over_messages(2, with, [&](blink_test::thread_communicator& comm) {
    for (std::uint64_t step = 0; step < 120; ++step) {  // of about 4 MiB each, 256 MiB are kept
      add_up(comm, 1000, numbered(2, step));
      if (step % 30 == 29) add_up(comm, 1000, numbered(2, 2));
    }
  });
}

TEST(schedule_store, released_memory_is_zero_and_is_used_again_once_all_have_released_it) {
  auto memory = blink::shared_segment::create(2, std::size_t{1} << 20);
  constexpr std::size_t bytes = std::size_t{300} << 10;
  auto* const first = static_cast<char*>(memory.hold(11, bytes));
  EXPECT_EQ(memory.hold(11, bytes), first);  // by the other rank
  std::fill(first, first + bytes, 'x');
  memory.let_go(11);
  auto* const second = static_cast<char*>(memory.hold(12, bytes));
  EXPECT_NE(second, first);
  memory.let_go(11);
  auto* const third = static_cast<char*>(memory.hold(13, bytes));
  EXPECT_EQ(third, first);
  EXPECT_EQ(std::count(third, third + bytes, '\0'), static_cast<std::ptrdiff_t>(bytes));
  EXPECT_EQ(memory.hold(13, bytes), third);
  EXPECT_THROW(static_cast<void>(memory.hold(14, 2 * bytes)), blink::resource_error);
}

TEST(schedule_store, released_memory_beyond_512_gib_is_used_again) {
  constexpr std::size_t bytes = std::size_t{1} << 40, block = 8192;
  int const file = memfd_create("far", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(bytes)), 0);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const head = static_cast<blink::detail::shared_blocks::directory*>(memory);
  blink::detail::shared_blocks const blocks(file, static_cast<std::byte*>(memory), bytes, *head);
  blocks.begin(4096);
  head->used = bytes - 8 * block;
  void* const first = blocks.hold(1, block);
  void* const second = blocks.hold(2, block);
  blocks.let_go(1);
  blocks.let_go(2);
  EXPECT_EQ(blocks.hold(3, block), second);
  EXPECT_EQ(blocks.hold(4, block), first);
  EXPECT_THROW((void)blocks.hold(5, std::size_t{1} << 60), blink::resource_error);
  munmap(memory, bytes);
  close(file);
}

}}  // namespace schedule_store_test
