// SPDX-License-Identifier: Apache-2.0
// Collectives of ranks that exchange messages, over a channel of threads. The tests of
// tests/transports/mpi do the same over MPI.

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/running/call/detail/call_frame.hpp>
#include <blink/running/call/detail/eager_inputs.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/running/walk/zero_copy.hpp>
#include <blink/transports/host/split_communicator.hpp>

#include "support/collective_case.hpp"
#include "support/expect_error.hpp"
#include "support/front_door_case.hpp"
#include "support/lazy_channel.hpp"
#include "support/message_ranks.hpp"
#include "support/random_schedules.hpp"
#include "support/split_case.hpp"
#include "support/started_calls.hpp"
#include "support/unequal_case.hpp"
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace message_communicator_test { namespace {

using blink::collective;
using blink_test::collective_case;
using blink_test::message_options;
using blink_test::run_case;
using blink_test::run_over_messages;
using blink_test::thread_communicator;

static_assert(blink::zero_copy_transport<blink_test::thread_message_transport> &&
              !blink::reaching_transport<blink_test::thread_message_transport>);
static_assert(blink::tested_wait_policy<blink::message_wait<blink_test::thread_channel>>);
static_assert(blink::survivor_words<blink::control_messages<blink_test::thread_channel>>);
static_assert(blink::detail::eager_communicator<thread_communicator>);
static_assert(blink::splittable_communicator<thread_communicator>);
static_assert(!blink::thread_bound_communicator<thread_communicator>);

/// Options by seed: in every second case all inputs take the trees, with zero copy for all
/// messages, some or none; ranks on hosts of their own, on some hosts, or on one.
message_options random_options(std::mt19937_64& random, std::uint64_t seed) {
  constexpr std::size_t thresholds[] = {1, 600, std::numeric_limits<std::size_t>::max()};
  message_options result;
  result.options.window = 1 + static_cast<std::uint32_t>(random() % 5);
  result.options.slot_bytes = 12 + random() % 3000;
  result.eager_limit = seed % 2 * 4096;
  result.zero_copy_threshold = thresholds[seed % 3];
  result.options.eager_payload = result.eager_limit;
  result.ranks_of_host = std::array{1, 2, 8}[seed / 3 % 3];
  return result;
}

TEST(message_cases, are_exact) {
  for (std::uint64_t seed = 0; seed < 18; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 first(seed);
    int const ranks = 2 + static_cast<int>(first() % 4);
    auto const with = random_options(first, seed);
    run_over_messages(ranks, with, [&](thread_communicator& comm) {
      auto random = first;  // equal on all ranks
      for (int call = 0; call < 8; ++call) {
        auto const kind = static_cast<collective>(
            blink_test::below(random, static_cast<int>(blink::collective_names.size())));
        auto const source = blink_test::random_schedule(random, ranks, kind);
        collective_case const what{kind, random() % 3000, random() % 2 == 0, random() % 5, seed};
        auto const wrong =
            random() % 2 == 0
                ? run_case<float>(comm, source, what, blink::sum{}, 2)
                : run_case<blink_test::triple>(comm, source, what, blink_test::triple_reducer{}, 2);
        ASSERT_EQ(wrong, "") << to_text(kind) << ", count " << what.count << ", seed " << seed;
      }
    });
  }
}

TEST(message_cases, of_unequal_blocks_are_exact) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 first(seed);
    auto const with = random_options(first, seed);
    run_over_messages(3, with, [&](thread_communicator& comm) {
      auto random = first;
      for (int call = 0; call < 4; ++call) {
        auto const [source, what] = blink_test::random_unequal_case(random, comm.rank_count(), 800);
        ASSERT_EQ(blink_test::run_unequal<float>(comm, source, what, blink::sum{}), "");
      }
    });
  }
}

TEST(message_cases, that_are_started) {
  for (auto const how : {blink::progress::in_waits, blink::progress::thread}) {
    message_options with;
    with.options.slot_bytes = 512;
    with.ranks_of_host = 2;
    run_over_messages(3, with, [&](thread_communicator& comm) {
      auto const own = static_cast<std::uint64_t>(comm.rank());
      EXPECT_EQ(blink_test::run_started_calls(comm, how, own), "");
    });
  }
}

// Repeated calls above the eager size of the channel, 1000 bytes, go in parts.
TEST(message_communicator, calls_that_repeat_are_exact_at_every_size) {
  run_over_messages(3, {}, [](thread_communicator& comm) {
    for (auto const kind : {collective::all_reduce, collective::all_gather}) {
      for (std::size_t const bytes : {1U, 999U, 1000U, 1001U, 2000U, 2999U, 3000U, 3001U}) {
        for (int call = 0; call < 4; ++call) {
          collective_case const what{kind, bytes, false, 0, static_cast<std::uint64_t>(call)};
          auto const source = blink::default_schedule(kind, comm.rank_count(), 0);
          ASSERT_EQ(run_case<std::uint8_t>(comm, source, what, blink::bit_xor{}, 1), "")
              << to_text(kind) << ", " << bytes << " bytes, call " << call;
        }
      }
    }
  });
}

// The last host has ranks whose blocks lie behind those of as many ranks as there are.
TEST(message_communicator, blocks_of_eager_payloads_are_those_of_the_rank) {
  message_options with;
  with.ranks_of_host = 2;
  run_over_messages(5, with, [](thread_communicator& comm) {
    auto const source = blink::all_to_all_schedule(comm.rank_count());
    for (std::size_t const count : {1U, 8U, 500U, 4000U}) {  // the last ones beyond 2048 bytes
      collective_case const what{collective::all_to_all, count, false, 0, count};
      EXPECT_EQ(run_case<float>(comm, source, what, blink::sum{}, 2), "") << count;
    }
  });
}

TEST(message_communicator, every_collective_runs_without_a_schedule) {
  for (int const ranks_of_host : {1, 2, 3}) {
    message_options with;
    with.ranks_of_host = ranks_of_host;
    run_over_messages(3, with, [](thread_communicator& comm) {
      for (std::size_t const count : {0U, 1U, 700U, 20'000U}) {
        EXPECT_EQ(blink_test::calls_without_a_schedule(comm, count), "") << count;
      }
    });
  }
}

// A chain of hosts from a rank in the middle does not keep the order of the ranks.
TEST(message_communicator, without_a_schedule_reducers_get_their_operands_in_order) {
  for (int const ranks_of_host : {1, 2, 5}) {
    message_options with;
    with.ranks_of_host = ranks_of_host;
    with.eager_limit = with.options.eager_payload = 0;
    run_over_messages(5, with, [](thread_communicator& comm) {
      using blink_test::affine;
      std::size_t const count = 1000;
      std::vector<affine> in(count), sum(count), result(count);
      for (std::size_t k = 0; k < count; ++k) {
        in[k] = blink_test::input_element<affine>(3, comm.rank(), k);
      }
      blink::all_reduce(comm, in, sum, blink_test::compose{});
      for (int root = 0; root < comm.rank_count(); ++root) {
        blink::reduce(comm, in, result, root, blink_test::compose{});
        if (comm.rank() == root) {
          EXPECT_EQ(result, sum) << root;
        }
      }
      affine expected = blink_test::input_element<affine>(3, 0, 7);
      for (int rank = 1; rank < comm.rank_count(); ++rank) {
        expected = blink_test::compose{}(expected, blink_test::input_element<affine>(3, rank, 7));
      }
      EXPECT_EQ(sum[7], expected);
    });
  }
}

TEST(message_communicator, parts_are_numbered_by_key_and_run_side_by_side) {
  for (int const ranks_of_host : {1, 2, 4}) {
    message_options with;
    with.ranks_of_host = ranks_of_host;
    run_over_messages(4, with, [](thread_communicator& comm) {
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        EXPECT_EQ(blink_test::split_at_random(comm, seed), "");
      }
      EXPECT_EQ(blink_test::call_with_the_plan_of_the_whole(comm), "");
    });
  }
}

TEST(message_communicator, ranks_end_communicators_in_orders_of_their_own) {
  blink_test::thread_network first_network(2);
  blink_test::thread_network second_network(2);
  blink_test::run_threads(2, [&](int rank) {
    std::optional<thread_communicator> first(std::in_place,
                                             blink_test::thread_channel(first_network, rank));
    std::optional<thread_communicator> second(std::in_place,
                                              blink_test::thread_channel(second_network, rank));
    std::optional<thread_communicator>* order[] = {&first, &second};
    if (rank == 0) std::swap(order[0], order[1]);
    static_cast<void>((*order[0])->try_end());
    while (!(*order[1])->try_end() || !(*order[0])->try_end()) std::this_thread::yield();
    (*order[0]).reset();
    (*order[1]).reset();
  });
}

// After its call a rank may only compute, and then it sends nothing. So its messages have left.
TEST(message_communicator, a_call_ends_when_its_messages_have_left) {
  using communicator =
      blink::basic_message_communicator<blink::message_transport<blink_test::lazy_channel>>;
  constexpr int ranks = 3;
  for (int sleeper = 0; sleeper < ranks; ++sleeper) {
    for (auto const kind :
         {collective::all_reduce, collective::broadcast, collective::all_gather}) {
      for (std::size_t const count : {4U, 4000U, 40'000U}) {
        for (std::size_t const threshold : {std::size_t{1}, blink::no_zero_copy}) {
          blink_test::thread_network network(ranks);
          std::atomic<int> others = 0;
          blink_test::run_threads(ranks, [&](int rank) {
            blink::communicator_options options;
            options.waits.deadline = std::chrono::seconds(5);
            communicator comm(blink_test::lazy_channel(network, rank), options, 1000, threshold);
            std::vector<float> data(count * ranks, 1);
            if (kind == collective::all_reduce) blink::all_reduce(comm, data.data(), count);
            if (kind == collective::broadcast) blink::broadcast(comm, data.data(), count, sleeper);
            if (kind == collective::all_gather) {
              blink::all_gather(comm, data.data() + count * static_cast<std::size_t>(rank),
                                data.data(), count);
            }
            if (rank != sleeper) ++others;
            while (rank == sleeper && others < ranks - 1) {
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
              if (comm.failure().rank >= 0) return;
            }
          });
          EXPECT_EQ(others, ranks - 1) << to_text(kind) << " of " << count << ", rank " << sleeper;
        }
      }
    }
  }
}

TEST(message_communicator, options_that_differ_or_are_out_of_range_are_refused_on_all_ranks) {
  blink_test::thread_network network(3);
  blink_test::run_threads(3, [&](int rank) {
    message_options with;
    auto const make = [&] {
      thread_communicator(blink_test::thread_channel(network, rank).duplicate(), with.options,
                          with.eager_limit, with.zero_copy_threshold);
    };
    with.options.window = rank == 0 ? 3 : 4;
    EXPECT_ERROR(make(), "thread_communicator: window differs between ranks");
    with.options.window = 2;
    with.zero_copy_threshold = rank == 2 ? 100 : 200;
    EXPECT_ERROR(make(), "zero_copy_threshold differs between ranks");
    with.zero_copy_threshold = 100;
    with.options.team_size = rank == 1 ? 2 : 1;
    EXPECT_ERROR(make(), rank == 1 ? "team_size above 1" : "out of range on rank 1");
  });
}

}}  // namespace message_communicator_test
