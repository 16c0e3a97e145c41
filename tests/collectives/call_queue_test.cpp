// SPDX-License-Identifier: Apache-2.0
// Calls that are started, tested and waited for.

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/running/call/detail/call_frame.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/collective_case.hpp"
#include "support/expect_error.hpp"
#include "support/random_schedules.hpp"
#include "support/started_calls.hpp"
#include "support/unequal_case.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace call_queue_test { namespace {

using blink_test::below;
using blink_test::collective_case;

template <class Ranks>
class call_queue : public testing::Test {};
using rank_owners =
    testing::Types<blink::thread_ranks, blink::basic_thread_ranks<blink::slot_transport>>;
TYPED_TEST_SUITE(call_queue, rank_owners);

struct random_call {
  collective_case what;
  blink::prepared_schedule* prepared;
};

// Starts `made` in order and waits in any order, for some calls twice. Checks every element.
template <class Context>
void run_calls(Context& comm, std::vector<random_call> const& made, std::uint64_t seed,
               blink::progress how) {
  std::mt19937_64 own(seed * 31 + static_cast<std::uint64_t>(comm.rank()));  // differs by rank
  std::vector<blink_test::rank_buffers<std::int32_t>> buffers;
  buffers.reserve(made.size());
  for (auto const& one : made) buffers.emplace_back(one.what, comm.rank_count(), comm.rank());
  {
    blink::call_queue queue(comm, how);
    std::vector<blink::queued_call> calls;
    for (std::size_t k = 0; k < made.size(); ++k) {
      auto const& what = made[k].what;
      std::int32_t const* const input = buffers[k].input;
      bool const reduces =
          blink::has_reduce_phase(what.kind) && what.kind != blink::collective::barrier;
      calls.push_back(reduces ? queue.start(what.kind, *made[k].prepared, input, buffers[k].output,
                                            what.count, blink::sum{})
                              : queue.start(what.kind, *made[k].prepared, input, buffers[k].output,
                                            what.count));
      if (own() % 4 == 0) (void)calls[own() % calls.size()].test();
    }
    std::shuffle(calls.begin(), calls.end(), own);
    for (auto& call : calls) {
      if (own() % 4 == 0) continue;  // the end of the queue waits for it
      if (own() % 2 == 0) call.wait();
      while (!call.test()) std::this_thread::yield();
    }
  }
  for (std::size_t k = 0; k < made.size(); ++k) {
    EXPECT_EQ(blink_test::what_is_wrong(made[k].what, made[k].prepared->source(), buffers[k],
                                        blink::sum{}),
              "")
        << k;
  }
}

TYPED_TEST(call_queue, random_calls_end_in_any_order_of_waiting) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 5);
    blink::communicator_options options;
    options.window = 1 + static_cast<std::uint32_t>(random() % 3);
    options.slot_bytes = 256;
    TypeParam threads(ranks, options);
    std::vector<random_call> made;
    for (int call = 0; call < 6; ++call) {
      auto const kind = static_cast<blink::collective>(random() % blink::collective_names.size());
      if (kind == blink::collective::send_to_next && ranks == 1) continue;
      auto& prepared = threads.prepare(blink_test::random_schedule(random, ranks, kind));
      made.push_back({{kind, random() % 700, random() % 2 == 0, 0, seed * 10}, &prepared});
    }
    auto const how = seed % 2 == 0 ? blink::progress::in_waits : blink::progress::thread;
    threads.run([&](auto& comm) { run_calls(comm, made, seed, how); });
  }
}

TYPED_TEST(call_queue, blocks_of_unequal_sizes_are_exact) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 5);
    blink::communicator_options options;
    options.slot_bytes = 256;
    TypeParam threads(ranks, options);
    auto const drawn = blink_test::random_unequal_case(random, ranks, 300);
    auto& prepared = threads.prepare(drawn.first);
    auto const& what = drawn.second;
    auto const how = seed % 2 == 0 ? blink::progress::in_waits : blink::progress::thread;
    threads.run([&](auto& comm) {
      blink_test::unequal_buffers<std::int32_t> buffers(what, comm.rank());
      blink::call_queue queue(comm, how);
      auto blocks = what.blocks;
      auto call = what.gathers()
                      ? queue.start(what.kind, prepared, buffers.input, buffers.output, blocks)
                      : queue.start(what.kind, prepared, buffers.input, buffers.output, blocks,
                                    blink::sum{});
      blocks.clear();  // the call no longer needs them
      while (!call.test()) std::this_thread::yield();
      EXPECT_EQ(blink_test::what_is_wrong(what, buffers, blink::sum{}), "");
    });
  }
}

TYPED_TEST(call_queue, a_call_starts_again_with_what_its_buffers_hold) {
  for (auto const how : {blink::progress::in_waits, blink::progress::thread}) {
    TypeParam threads(3);
    auto& prepared = threads.prepare(blink::star_schedule(3));
    auto& blocks = threads.prepare(blink::all_to_all_schedule(3));
    threads.run([&](auto& comm) {
      std::vector<int> data(100);
      std::vector<int> places(3);
      blink::call_queue queue(comm, how);
      auto sum =
          queue.make(blink::collective::all_reduce, prepared, static_cast<int const*>(data.data()),
                     data.data(), data.size(), blink::sum{});
      auto swap = queue.make(blink::collective::all_to_all, blocks,
                             static_cast<int const*>(places.data()), places.data(), 1);
      EXPECT_THROW((void)sum.test(), blink::precondition_error);
      for (int round = 0; round < 20; ++round) {
        std::fill(data.begin(), data.end(), comm.rank() + round);
        for (int to = 0; to < 3; ++to) places[static_cast<std::size_t>(to)] = round + 10 * to;
        sum.start();
        swap.start();
        swap.wait();
        sum.wait();
        EXPECT_TRUE(sum.test());
        EXPECT_EQ(data.back(), 3 * round + 3);
        EXPECT_EQ(places[1], round + 10 * comm.rank());
      }
    });
  }
}

TYPED_TEST(call_queue, calls_of_every_form_start_again) {
  for (int const ranks : {1, 2, 3, 5}) {
    for (auto const how : {blink::progress::in_waits, blink::progress::thread}) {
      TypeParam threads(ranks);
      threads.run([&](auto& comm) {
        EXPECT_EQ(blink_test::run_started_calls(comm, how, static_cast<std::uint64_t>(comm.rank())),
                  "");
      });
    }
  }
}

TYPED_TEST(call_queue, calls_of_every_form_take_schedules_that_are_not_prepared) {
  TypeParam threads(2);
  threads.run([](auto& comm) {
    auto const star = blink::star_schedule(2);
    auto const flows = blink::all_to_all_schedule(2);
    int const peer = 1 - comm.rank();
    blink::call_queue queue(comm);
    int const mine[] = {comm.rank() + 1, comm.rank() + 1};
    int got[] = {0, 0};
    std::vector<blink::block> const blocks{{0, 1}, {1, 1}};
    queue.start(queue.make_all_to_all_v(flows, mine, blocks, got, blocks)).wait();
    EXPECT_TRUE(got[0] == 1 && got[1] == 2);
    int received = 0;
    blink::transfers list;
    list.send(peer, mine, 1);
    list.receive(peer, &received, 1);
    queue.start(queue.make_exchange(blink::all_to_all_schedule(2), list)).wait();
    EXPECT_EQ(received, peer + 1);
    std::vector<blink::buffer_part<int>> const parts{{mine, got, 1}, {mine + 1, got + 1, 1}};
    queue.start(queue.make_grouped(star, blink::collective::all_reduce, parts, blink::sum{}))
        .wait();
    EXPECT_TRUE(got[0] == 3 && got[1] == 3);
    blink::block_mask mask(2, 1);
    mask.set(0);
    mask.set(1);
    queue.start(queue.make_all_reduce_sparse(star, got, mask, blink::sum{})).wait();
    EXPECT_TRUE(got[0] == 6 && got[1] == 6);
  });
}

// All ranks learn of mismatched sizes before data moves; later calls of the queue run.
TYPED_TEST(call_queue, a_stage_that_refuses_ends_the_call_on_all_ranks) {
  for (auto const how : {blink::progress::in_waits, blink::progress::thread}) {
    TypeParam threads(2);
    auto& star = threads.prepare(blink::star_schedule(2));
    auto& flows = threads.prepare(blink::all_to_all_schedule(2));
    threads.run([&](auto& comm) {
      std::vector<int> in(4, 1), out(4, 0);
      std::size_t const expected = comm.rank() == 0 ? 2 : 1;
      blink::call_queue queue(comm, how);
      auto flow = queue.make_all_to_all_v(flows, in.data(), {{0, 2}, {2, 2}}, out.data(),
                                          {{0, expected}, {2, 2}});
      blink::block_mask mask(in.size(), 1 + static_cast<std::size_t>(comm.rank()));
      auto sparse = queue.make_all_reduce_sparse(star, in.data(), mask, blink::sum{});
      for (int time = 0; time < 2; ++time) {
        flow.start();
        sparse.start();
        auto sum = queue.start(blink::collective::all_reduce, star, in.data(), in.data(), in.size(),
                               blink::sum{});
        EXPECT_THROW(flow.wait(), blink::precondition_error);
        EXPECT_THROW(sparse.wait(), blink::precondition_error);
        sum.wait();
      }
      EXPECT_EQ(in, (std::vector<int>(4, 4)));
      EXPECT_EQ(out, (std::vector<int>(4, 0)));
    });
  }
}

TYPED_TEST(call_queue, mistakes_are_reported_at_once) {
  TypeParam threads(2);
  auto& prepared = threads.prepare(blink::star_schedule(2));
  threads.run([&](auto& comm) {
    std::vector<int> data(8, 1);
    int const* const in = data.data();
    int* const nothing = nullptr;
    blink::call_queue queue(comm);
    EXPECT_THROW((void)queue.make(blink::collective::all_reduce, prepared, in, data.data(), 8),
                 blink::precondition_error);
    EXPECT_THROW(
        (void)queue.make(blink::collective::all_gather, prepared, in, data.data(), 8, blink::sum{}),
        blink::precondition_error);
    EXPECT_THROW(
        (void)queue.make(blink::collective::all_reduce, prepared, in, nothing, 8, blink::sum{}),
        blink::precondition_error);
    EXPECT_THROW((void)queue.make(blink::collective::broadcast, prepared, in, data.data(), 8),
                 blink::precondition_error);
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    auto sum =
        queue.start(blink::collective::all_reduce, prepared, in, data.data(), 8, blink::sum{});
    if (comm.rank() == 0 && !sum.test()) {
      EXPECT_THROW(sum.start(), blink::precondition_error);
      EXPECT_THROW(blink::all_reduce(comm, prepared, in, data.data(), 8, blink::sum{}),
                   blink::precondition_error);
    }
    sum.wait();
    EXPECT_EQ(data[7], 2);
    blink::block_mask mask(8, 1);
    auto sparse = queue.make_all_reduce_sparse(prepared, data.data(), mask, blink::sum{});
    mask = blink::block_mask(9, 1);
    sparse.start();
    EXPECT_ERROR(sparse.wait(), "the mask is of another buffer");
    blink::all_reduce(comm, prepared, in, data.data(), 8, blink::sum{});
    EXPECT_EQ(data[7], 4);
  });
}

// For any started call, any progress, and any refused call, in the same queue or another one. Both
// calls may use the memory of one schedule, and the refused one may need more of it.
TYPED_TEST(call_queue, a_refused_call_leaves_the_started_one_alone) {
  using blink::collective;
  blink::communicator_options options;
  options.eager_payload = 0;
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    TypeParam threads(2, options);
    auto& flows = threads.prepare(blink::all_to_all_schedule(2));
    auto& star = threads.prepare(blink::star_schedule(2));
    std::latch refused(1);
    threads.run([&](auto& comm) {
      bool const swaps = round % 2 == 0;
      std::size_t const other_count = round % 4 < 2 ? 100 : 15000;
      std::vector<int> data(2000, comm.rank() + 1), other(2 * other_count, 99);
      auto const parts_of = [](std::vector<int>& all, std::size_t count) {
        std::vector<blink::buffer_part<int>> parts;
        for (std::size_t k = 0; k < all.size(); k += count) {
          parts.push_back({all.data() + k, all.data() + k, count});
        }
        return parts;
      };
      if (comm.rank() == 1) refused.wait();
      blink::call_queue queue(comm,
                              round % 3 == 0 ? blink::progress::thread : blink::progress::in_waits);
      auto call = queue.start(
          swaps ? queue.make(collective::all_to_all, flows, data.data(), data.data(), 1000)
                : queue.make_grouped(star, collective::all_reduce, parts_of(data, 100),
                                     blink::sum{}));
      if (comm.rank() == 0) {
        blink::block_mask mask(other.size(), 1);
        blink::call_queue second(comm);
        auto sparse = second.make_all_reduce_sparse(star, other.data(), mask, blink::sum{});
        EXPECT_ERROR(sparse.start(), "calls of another queue of the communicator have not ended");
        EXPECT_THROW(blink::all_reduce_sparse(comm, star, other.data(), mask, blink::sum{}),
                     blink::precondition_error);
        EXPECT_THROW(blink::all_to_all(comm, flows, other.data(), other.data(), other_count),
                     blink::precondition_error);
        EXPECT_THROW(blink::grouped(comm, star, collective::all_reduce,
                                    parts_of(other, other_count), blink::sum{}, SIZE_MAX),
                     blink::precondition_error);
        EXPECT_ERROR(blink::barrier(comm), "while calls that it has started have not ended");
        refused.count_down();
      }
      call.wait();
      EXPECT_EQ(data.front(), swaps ? 1 : 3);
      EXPECT_EQ(data.back(), swaps ? 2 : 3);
      blink::barrier(comm);
    });
  }
}

// A call may be tested and dropped when its queue and its buffers are gone.
TYPED_TEST(call_queue, ends_with_all_calls_also_those_that_are_held) {
  blink::communicator_options options;
  options.eager_payload = 0;
  for (auto const how : {blink::progress::in_waits, blink::progress::thread}) {
    TypeParam threads(2, options);
    auto& star = threads.prepare(blink::star_schedule(2));
    auto& flows = threads.prepare(blink::all_to_all_schedule(2));
    threads.run([&](auto& comm) {
      blink::queued_call sums, flow, unused;
      {
        std::vector<int> data(1000, 1), other(2);
        std::vector<blink::block> const blocks{{0, 1}, {1, 1}};
        if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        blink::call_queue queue(comm, how);
        sums = queue.start(queue.make_grouped(
            star, blink::collective::all_reduce,
            std::vector<blink::buffer_part<int>>{{data.data(), data.data(), 400},
                                                 {data.data() + 500, data.data() + 500, 400}},
            blink::sum{}));
        flow = queue.start(
            queue.make_all_to_all_v(flows, data.data() + 990, blocks, other.data(), blocks));
        unused = queue.make_exchange(flows, {});
      }
      EXPECT_TRUE(sums.test());
      flow.wait();
      EXPECT_ERROR(sums.start(), "the call's queue has ended");
      EXPECT_ERROR((void)unused.test(), "has not been started");
    });
  }
}

// Rank 1 has started the call and returns to it only after rank 0 has given up.
TYPED_TEST(call_queue, no_rank_waits_for_one_that_does_something_else) {
  blink::communicator_options options;
  options.waits.deadline = std::chrono::milliseconds(200);
  options.eager_payload = 0;
  options.slot_bytes = 256;
  TypeParam threads(2, options);
  std::latch started(1), gave_up(1), both_ended(2);
  threads.run([&](auto& comm) {
    std::vector<int> data(1000, 1);
    if (comm.rank() == 0) started.wait();
    blink::call_queue queue(comm);
    auto call = queue.start(blink::collective::all_reduce, blink::star_schedule(2), data.data(),
                            data.data(), data.size(), blink::sum{});
    if (comm.rank() == 1) {
      started.count_down();
      gave_up.wait();
    }
    EXPECT_THROW(call.wait(), blink::collective_error);
    std::vector<int> const own(data.size(), 10 + comm.rank());
    data = own;  // the buffer is this rank's again
    if (comm.rank() == 0) gave_up.count_down();
    both_ended.arrive_and_wait();
    EXPECT_EQ(data, own);
  });
}

TYPED_TEST(call_queue, a_rank_that_never_starts_is_named) {
  for (auto const how : {blink::progress::in_waits, blink::progress::thread}) {
    blink::communicator_options options;
    options.waits.deadline = std::chrono::milliseconds(300);
    TypeParam threads(3, options);
    std::latch others(2);  // on a busy machine threads start one after the other
    auto& prepared = threads.prepare(blink::chain_schedule(3, 0));
    threads.run([&](auto& comm) {
      if (comm.rank() == 2) return;
      std::vector<int> data(8, 1);
      blink::call_queue queue(comm, how);
      auto const start = [&] {
        return queue.start(blink::collective::all_reduce, prepared,
                           static_cast<int const*>(data.data()), data.data(), 8, blink::sum{});
      };
      others.arrive_and_wait();
      auto first = start();
      auto second = start();
      for (int time = 0; time < 2; ++time) {
        try {
          second.wait();
          ADD_FAILURE() << "ended";
        } catch (blink::collective_error const& error) {
          EXPECT_EQ(error.peer, 2) << error.what();
        }
      }
      EXPECT_THROW((void)first.test(), blink::collective_error);
    });
  }
}

// The outcome on a rank that tests for at most `longest`, until the call ends or throws.
struct reported_by_tests {
  int peer = -1;
  double seconds = 0;
  std::string text = "nothing";
};
reported_by_tests test_to_the_end(blink::queued_call& call, std::chrono::seconds longest) {
  auto const begin = std::chrono::steady_clock::now();
  auto const passed = [&] { return std::chrono::steady_clock::now() - begin; };
  reported_by_tests result;
  try {
    while (passed() < longest) {
      if (call.test()) return result;
    }
  } catch (blink::collective_error const& error) {
    result.peer = error.peer;
    result.text = error.what();
  }
  result.seconds = std::chrono::duration<double>(passed()).count();
  return result;
}

TYPED_TEST(call_queue, tests_report_who_does_not_come_at_the_deadline) {
  constexpr std::chrono::milliseconds deadline(300);
  blink::communicator_options options;
  options.waits.deadline = deadline;
  for (std::size_t const eager : {0U, 8192U}) {
    options.eager_payload = eager;
    TypeParam threads(3, options);
    std::latch begun(2), reported(2);
    threads.run([&](auto& comm) {
      if (comm.rank() == 2) return reported.wait();  // neither enters nor leaves
      std::vector<int> data(8, 1);
      blink::call_queue queue(comm);
      begun.arrive_and_wait();  // on a busy machine threads start one after the other
      auto call = queue.start(blink::collective::all_reduce, blink::star_schedule(3),
                              static_cast<int const*>(data.data()), data.data(), 8, blink::sum{});
      auto const end = test_to_the_end(call, std::chrono::seconds(20));
      EXPECT_EQ(end.peer, 2) << end.text;
      EXPECT_NE(end.text.find("rank 2 has not entered call 1"), std::string::npos) << end.text;
      EXPECT_THROW(call.wait(), blink::collective_error);
      reported.count_down();
    });
  }
}

TYPED_TEST(call_queue, tests_report_at_once_who_has_left) {
  blink::communicator_options options;
  options.waits.deadline = std::chrono::seconds(60);
  TypeParam threads(3, options);
  threads.run([&](auto& comm) {
    if (comm.rank() == 2) return;
    std::vector<int> data(8, 1);
    blink::call_queue queue(comm);
    auto call = queue.start(blink::collective::all_reduce, blink::star_schedule(3),
                            static_cast<int const*>(data.data()), data.data(), 8, blink::sum{});
    auto const end = test_to_the_end(call, std::chrono::seconds(20));
    EXPECT_EQ(end.peer, 2) << end.text;
    EXPECT_NE(end.text.find("rank 2 has left"), std::string::npos) << end.text;
  });
}

// Rank 2 waits for rank 1, which tests, and rank 1 for rank 0, which is the rank to name.
TYPED_TEST(call_queue, a_rank_that_tests_says_for_whom_it_waits) {
  blink::communicator_options options;
  options.waits.deadline = std::chrono::milliseconds(600);
  options.eager_payload = 0;
  options.slot_bytes = 256;
  TypeParam threads(3, options);
  std::latch begun(1), reported(2);
  threads.run([&](auto& comm) {
    std::vector<int> data(1000, 1);
    blink::call_queue queue(comm);
    if (comm.rank() != 0) begun.wait();
    auto call =
        queue.start(blink::collective::all_reduce, blink::chain_schedule(3, 0),
                    static_cast<int const*>(data.data()), data.data(), data.size(), blink::sum{});
    if (comm.rank() == 0) {
      begun.count_down();
      reported.wait();
      EXPECT_THROW(call.wait(), blink::collective_error);
      return;
    }
    if (comm.rank() == 1) {
      auto const end = test_to_the_end(call, std::chrono::seconds(20));
      EXPECT_EQ(end.peer, 0) << end.text;
    } else {
      try {
        call.wait();
        ADD_FAILURE() << "ended";
      } catch (blink::collective_error const& error) {
        EXPECT_EQ(error.peer, 0) << error.what();
      }
    }
    reported.count_down();
  });
}

// A rank that computes between tests for longer than the deadline has not waited that long.
TYPED_TEST(call_queue, long_computations_between_tests_do_no_harm) {
  blink::communicator_options options;
  options.waits.deadline = std::chrono::milliseconds(500);
  options.eager_payload = 0;
  TypeParam threads(2, options);
  std::latch computed(1);
  threads.run([&](auto& comm) {
    std::vector<int> data(1000, 1);
    if (comm.rank() == 1) computed.wait();
    blink::call_queue queue(comm);
    auto call =
        queue.start(blink::collective::all_reduce, blink::star_schedule(2),
                    static_cast<int const*>(data.data()), data.data(), data.size(), blink::sum{});
    if (comm.rank() == 0) {
      for (int time = 0; time < 4; ++time) {
        std::this_thread::sleep_for(std::chrono::milliseconds(550));
        EXPECT_FALSE(call.test());
      }
      computed.count_down();
    }
    call.wait();
    EXPECT_EQ(data.back(), 2);
  });
}

TEST(idle_tests, each_while_between_two_tests_counts_up_to_a_sixteenth_of_the_deadline) {
  blink::wait_options limits;
  limits.deadline = std::chrono::nanoseconds(1600);
  limits.sleep = std::chrono::nanoseconds(10);
  blink::detail::idle_tests tests;
  EXPECT_FALSE(tests.on_idle(1'000'000, limits, 64));  // the first test: no time has passed
  EXPECT_FALSE(tests.on_idle(1'000'005, limits, 64));
  EXPECT_TRUE(tests.on_idle(1'000'011, limits, 64));
  EXPECT_EQ(tests.waited(), 11U);
  EXPECT_TRUE(tests.on_idle(9'000'000, limits, 64));
  EXPECT_EQ(tests.waited(), 112U);
  EXPECT_FALSE(tests.on_idle(9'000'009, limits, 64));
  EXPECT_EQ(tests.waited(), 121U);
  tests.on_progress();
  EXPECT_FALSE(tests.on_idle(99'000'000, limits, 64));
  EXPECT_EQ(tests.waited(), 0U);
  EXPECT_FALSE(tests.on_idle(99'000'015, limits, 65)) << "more ranks look less often";
  EXPECT_TRUE(tests.on_idle(99'000'020, limits, 65));
}

}}  // namespace call_queue_test
