// SPDX-License-Identifier: Apache-2.0
// Every wait is bounded: ranks that are absent, are late, make another call or throw.

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace faults_test { namespace {

using std::chrono::milliseconds;

template <class Transport>
class faults : public testing::Test {
 protected:
  using ranks_type = blink::basic_thread_ranks<Transport>;

  static blink::communicator_options options(milliseconds deadline) {
    blink::communicator_options result;
    result.waits.deadline = deadline;
    result.slot_bytes = 256;
    return result;
  }

  /// Runs `function` on all ranks. Returns the errors by rank, empty where it returned.
  template <class Function>
  std::vector<std::vector<blink::collective_error>> errors(ranks_type& ranks,
                                                           Function const& function) {
    std::vector<std::vector<blink::collective_error>> result(
        static_cast<std::size_t>(ranks.rank_count()));
    ranks.run([&](auto& comm) {
      try {
        function(comm);
      } catch (blink::collective_error const& failure) {
        result[static_cast<std::size_t>(comm.rank())].push_back(failure);
      }
    });
    return result;
  }

  template <class Context>
  static void sum_up(Context& comm, blink::schedule const& source, std::size_t count) {
    std::vector<int> in(count, 1);
    std::vector<int> out(count);
    blink::all_reduce(comm, source, in.data(), out.data(), count, blink::sum{});
    for (int const value : out) ASSERT_EQ(value, comm.rank_count());
  }
};

using links = testing::Types<blink::threads_link, blink::slot_transport, blink::shaped_transport>;
TYPED_TEST_SUITE(faults, links);

TYPED_TEST(faults, a_rank_that_never_comes_is_named_by_all_others) {
  auto const chain = blink::chain_schedule(4, 0);
  typename TestFixture::ranks_type threads(4, this->options(milliseconds(300)));
  std::latch others(3);  // on a busy machine threads start one after the other
  auto const errors = this->errors(threads, [&](auto& comm) {
    if (comm.rank() == 2) return;
    others.arrive_and_wait();
    this->sum_up(comm, chain, 1000);
  });
  for (std::size_t rank : {0U, 1U, 3U}) {
    ASSERT_EQ(errors[rank].size(), 1U) << rank;
    EXPECT_EQ(errors[rank][0].peer, 2) << errors[rank][0].what();
    EXPECT_EQ(errors[rank][0].rank, static_cast<int>(rank));
    EXPECT_EQ(errors[rank][0].tree, 0);
    EXPECT_GE(errors[rank][0].chunk, 0);
    EXPECT_NE(std::string(errors[rank][0].what()).find("rank 2"), std::string::npos);
  }
  EXPECT_TRUE(errors[2].empty());
}

TYPED_TEST(faults, a_rank_that_stops_coming_is_named) {
  typename TestFixture::ranks_type threads(3, this->options(milliseconds(1500)));
  auto const star = blink::star_schedule(3);
  auto const errors = this->errors(threads, [&](auto& comm) {
    for (int call = 0; call < (comm.rank() == 1 ? 3 : 4); ++call) this->sum_up(comm, star, 500);
  });
  for (std::size_t rank : {0U, 2U}) {
    ASSERT_EQ(errors[rank].size(), 1U);
    EXPECT_EQ(errors[rank][0].peer, 1) << errors[rank][0].what();
    EXPECT_NE(std::string(errors[rank][0].what()).find("call 4"), std::string::npos)
        << errors[rank][0].what();
  }
}

TYPED_TEST(faults, the_earliest_call_that_fails_is_reported) {
  // Rank 0 has ended call 1 and throws. Rank 1 waits in it for rank 2, which has started it and
  // does something else.
  auto options = this->options(milliseconds(500));
  options.eager_payload = 0;
  options.slot_bytes = 256;
  options.window = 2;
  typename TestFixture::ranks_type threads(3, options);
  std::latch started(1), failed(2);
  std::vector<int> peers(3, -1);
  EXPECT_THROW(threads.run([&](auto& comm) {
    std::vector<int> data(192, comm.rank());  // three chunks, of which two are in flight
    if (comm.rank() != 2) started.wait();
    blink::call_queue queue(comm);
    auto call = queue.start(blink::collective::broadcast, blink::chain_schedule(3, 0), data.data(),
                            data.data(), data.size());
    if (comm.rank() == 2) {
      started.count_down();
      failed.wait();
    }
    try {
      call.wait();
    } catch (blink::collective_error const& error) {
      peers[static_cast<std::size_t>(comm.rank())] = error.peer;
    }
    if (comm.rank() != 2) failed.count_down();
    if (comm.rank() == 0) throw std::runtime_error("enough");
  }),
               std::runtime_error);
  EXPECT_EQ(peers[1], 2);
}

TYPED_TEST(faults, a_reducer_that_throws_ends_the_call_of_all) {
  typename TestFixture::ranks_type threads(2, this->options(std::chrono::seconds(20)));
  auto const run = [&](int thrower) {
    threads.run([&](auto& comm) {
      std::vector<int> data(6000, 1);
      auto const add = [&](int a, int b) {
        if (comm.rank() == thrower) throw std::runtime_error("enough");
        return a + b;
      };
      blink::all_reduce(comm, blink::star_schedule(2), data.data(), data.data(), data.size(), add);
    });
  };
  EXPECT_THROW(run(1), std::runtime_error);
  EXPECT_THROW(run(-1), blink::collective_error);  // the communicator has failed; it does not hang
}

TYPED_TEST(faults, a_call_within_a_call_is_refused) {
  for (std::size_t const count : {std::size_t{5}, std::size_t{6000}}) {  // eager, along trees
    typename TestFixture::ranks_type threads(2, this->options(std::chrono::seconds(20)));
    std::string refusal;
    auto const reported = this->errors(threads, [&](auto& comm) {
      std::vector<int> data(count, 1);
      auto const add = [&](int a, int b) {
        if (comm.rank() == 1) blink::barrier(comm);
        return a + b;
      };
      try {
        blink::all_reduce(comm, blink::star_schedule(2), data.data(), data.data(), count, add);
      } catch (blink::precondition_error const& error) {
        refusal = error.what();
      }
    });
    EXPECT_EQ(refusal, "rank 1 calls barrier while its all_reduce has not ended");
    ASSERT_TRUE(reported[1].empty());
    if (count < 100) continue;  // rank 0 may have done all of it by then
    ASSERT_EQ(reported[0].size(), 1U);
    EXPECT_EQ(reported[0][0].peer, 1);
  }
}

TYPED_TEST(faults, a_late_rank_is_waited_for) {
  typename TestFixture::ranks_type threads(3, this->options(std::chrono::seconds(20)));
  auto const errors = this->errors(threads, [&](auto& comm) {
    if (comm.rank() == 1) std::this_thread::sleep_for(milliseconds(40));
    this->sum_up(comm, blink::binomial_schedule(3, 0), 300);
  });
  for (auto const& of_rank : errors) EXPECT_TRUE(of_rank.empty());
}

TYPED_TEST(faults, another_count_is_reported_by_all) {
  typename TestFixture::ranks_type threads(3, this->options(std::chrono::seconds(20)));
  auto const errors = this->errors(threads, [&](auto& comm) {
    this->sum_up(comm, blink::star_schedule(3), comm.rank() == 2 ? 99 : 100);
  });
  for (auto const& of_rank : errors) {
    ASSERT_EQ(of_rank.size(), 1U);
    std::string const text = of_rank[0].what();
    EXPECT_NE(text.find("count"), std::string::npos) << text;
    EXPECT_NE(text.find("100"), std::string::npos) << text;
    EXPECT_NE(text.find("99"), std::string::npos) << text;
  }
}

TYPED_TEST(faults, no_elements_against_some) {
  typename TestFixture::ranks_type threads(2, this->options(std::chrono::seconds(20)));
  auto const errors = this->errors(threads, [&](auto& comm) {
    this->sum_up(comm, blink::star_schedule(2), comm.rank() == 1 ? 0 : 1);
  });
  for (auto const& of_rank : errors) EXPECT_EQ(of_rank.size(), 1U);
}

TYPED_TEST(faults, another_operation_or_type_is_reported_by_all) {
  for (bool const other_type : {false, true}) {
    typename TestFixture::ranks_type threads(2, this->options(std::chrono::seconds(20)));
    auto const star = blink::star_schedule(2);
    auto const errors = this->errors(threads, [&](auto& comm) {
      std::vector<int> in(64, 1);
      std::vector<int> out(64);
      std::vector<float> floats(64);
      if (comm.rank() == 0) {
        blink::all_reduce(comm, star, in.data(), out.data(), 64, blink::sum{});
      } else if (other_type) {
        blink::all_reduce(comm, star, floats.data(), floats.data(), 64, blink::sum{});
      } else {
        blink::reduce_scatter(comm, star, in.data(), out.data(), 32, blink::sum{});
      }
    });
    for (auto const& of_rank : errors) {
      ASSERT_EQ(of_rank.size(), 1U);
      EXPECT_NE(std::string(of_rank[0].what()).find(other_type ? "float" : "reduce_scatter"),
                std::string::npos)
          << of_rank[0].what();
    }
  }
}

// Some ranks are in a barrier while the others wait in a collective, or test it.
TYPED_TEST(faults, a_barrier_against_a_collective_is_reported_by_all) {
  for (unsigned variant = 0; variant < 16; ++variant) {
    SCOPED_TRACE(variant);
    int const ranks = variant % 2 == 0 ? 2 : 3;
    bool const tests = variant / 2 % 2 != 0;
    bool const odd_one_calls = variant / 4 % 2 != 0;
    auto options = this->options(std::chrono::seconds(20));
    if (variant / 8 != 0) options.eager_payload = 0;
    typename TestFixture::ranks_type threads(ranks, options);
    auto const star = blink::star_schedule(ranks);
    auto const begin = std::chrono::steady_clock::now();
    auto const errors = this->errors(threads, [&](auto& comm) {
      this->sum_up(comm, star, 100);
      blink::barrier(comm);
      if (comm.rank() == static_cast<int>(variant % 3))
        std::this_thread::sleep_for(milliseconds(5));
      if ((comm.rank() == 1) != odd_one_calls) return blink::barrier(comm);
      if (!tests) return this->sum_up(comm, star, 100);
      std::vector<int> data(100, 1);
      blink::call_queue queue(comm);
      auto call = queue.start(blink::collective::all_reduce, star, data.data(), data.data(),
                              data.size(), blink::sum{});
      while (!call.test()) std::this_thread::yield();
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    for (std::size_t rank = 0; rank < errors.size(); ++rank) {
      ASSERT_EQ(errors[rank].size(), 1U);
      auto const& error = errors[rank][0];
      std::string const text = error.what();
      EXPECT_TRUE(error.disagrees) << text;
      EXPECT_EQ(error.rank, static_cast<int>(rank));
      EXPECT_TRUE(error.peer == 1 || (ranks == 3 ? error.peer >= 0 : rank == 1)) << text;
      EXPECT_NE(error.peer, error.rank) << text;
      bool const is_first = text.find(odd_one_calls ? "rank 1 calls all_reduce, call 2, and rank "
                                                    : "and rank 1 barrier 2") != text.npos;
      bool const is_second =
          text.find(odd_one_calls ? " barrier 2" : " calls all_reduce, call 2") != text.npos;
      EXPECT_TRUE(is_first && is_second) << text;
    }
  }
}

// Barriers between calls, waited for or tested, with ranks that are late to either. No rank is
// blamed.
TYPED_TEST(faults, late_ranks_in_calls_and_barriers_differ_in_nothing) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    int const ranks = 2 + static_cast<int>(seed % 3);
    auto options = this->options(std::chrono::seconds(60));
    options.waits.spins = seed % 2 == 0 ? 0 : 50;  // soon in the waits that look for differences
    options.waits.yields = 1;
    options.waits.sleep = std::chrono::microseconds(20);
    if (seed % 4 < 2) options.eager_payload = 0;
    typename TestFixture::ranks_type threads(ranks, options);
    auto& star = threads.prepare(blink::star_schedule(ranks));
    auto& flat = threads.prepare(blink::flat_schedule(ranks, static_cast<int>(seed % 2)));
    auto const errors = this->errors(threads, [&](auto& comm) {
      std::mt19937 common(seed);  // equal on all ranks
      std::mt19937 own(seed * 97 + static_cast<unsigned>(comm.rank()));
      auto const be_late = [&] {
        auto const how = own() % 8;
        if (how == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 400));
        if (how == 1) std::this_thread::yield();
      };
      std::vector<int> data(150);
      for (int step = 0; step < 150; ++step) {
        be_late();
        auto const what = common() % 4;
        std::size_t const count = 1 + common() % data.size();
        std::fill(data.begin(), data.end(), 1);
        if (what < 2) {
          blink::barrier(comm);
        } else if (what == 2) {  // the root has ended long before its peers
          blink::broadcast(comm, flat, data.data(), data.data(), count);
        } else {
          blink::call_queue queue(comm);
          auto call = queue.start(blink::collective::all_reduce, star, data.data(), data.data(),
                                  count, blink::sum{});
          be_late();
          for (bool ends = own() % 2 == 0; ends && !call.test();) std::this_thread::yield();
          call.wait();
          ASSERT_EQ(data[count - 1], ranks);
        }
      }
    });
    for (auto const& of_rank : errors) {
      EXPECT_TRUE(of_rank.empty()) << of_rank[0].what();
    }
  }
}

TYPED_TEST(faults, another_root_is_reported_by_all) {
  for (std::size_t const count : {8U, 80000U}) {  // eager, along the tree
    typename TestFixture::ranks_type threads(3, this->options(std::chrono::seconds(20)));
    auto const errors = this->errors(threads, [&](auto& comm) {
      std::vector<int> data(count, comm.rank());
      blink::broadcast(comm, blink::flat_schedule(3, comm.rank() == 2 ? 1 : 0), data.data(),
                       data.data(), count);
    });
    for (auto const& of_rank : errors) {
      ASSERT_EQ(of_rank.size(), 1U);
      std::string const text = of_rank[0].what();
      bool const is_by_odd_one = text.find("root 1, rank ") != std::string::npos;
      EXPECT_NE(text.find(is_by_odd_one ? "has 0" : "root 0, rank 2 has 1"), std::string::npos)
          << text;
    }
  }
}

TYPED_TEST(faults, another_lambda_of_the_same_function_is_reported_by_all) {
  typename TestFixture::ranks_type threads(2, this->options(std::chrono::seconds(20)));
  auto const star = blink::star_schedule(2);
  auto const errors = this->errors(threads, [&](auto& comm) {
    std::vector<float> data(64, 1);
    auto const sum = [](float a, float b) { return a + b; };
    auto const product = [](float a, float b) { return a * b; };
    if (comm.rank() == 0) {
      blink::all_reduce(comm, star, data.data(), data.data(), 64, sum);
    } else {
      blink::all_reduce(comm, star, data.data(), data.data(), 64, product);
    }
  });
  for (auto const& of_rank : errors) {
    ASSERT_EQ(of_rank.size(), 1U);
    EXPECT_NE(std::string(of_rank[0].what()).find("lambda"), std::string::npos)
        << of_rank[0].what();
  }
}

// A reducer that declares no common state may have any state on each rank.
struct sum_with_address {
  int const* own;
  [[nodiscard]] int operator()(int a, int b) const { return own == nullptr ? 0 : a + b; }
};

TYPED_TEST(faults, another_state_of_a_reducer_is_reported_by_all) {
  auto const reported = [&](auto const& reducer_of, std::size_t count) {
    typename TestFixture::ranks_type threads(2, this->options(std::chrono::seconds(20)));
    auto const errors = this->errors(threads, [&](auto& comm) {
      std::vector<float> data(count, 1);
      auto const star = blink::star_schedule(2);
      blink::all_reduce(comm, star, data.data(), data.data(), count, reducer_of(0.5F));
      blink::all_reduce(comm, star, data.data(), data.data(), count,
                        reducer_of(comm.rank() == 0 ? 0.5F : 0.25F));
    });
    for (auto const& of_rank : errors) {
      ASSERT_EQ(of_rank.size(), 1U);
      std::string const text = of_rank[0].what();
      EXPECT_NE(text.find("another state of the reducer than rank"), std::string::npos) << text;
      EXPECT_NE(text.find("scaled_sum"), std::string::npos) << text;
    }
  };
  using blink::scaled_sum;
  for (std::size_t const count : {8U, 80000U}) {  // eager, along the tree
    reported([](float factor) { return scaled_sum{factor}; }, count);
    reported([](float factor) { return blink::accumulate_in<double>(scaled_sum{factor}); }, count);
    reported(
        [](float factor) {
          return blink::with_order<blink::order_promise::any>(scaled_sum{factor});
        },
        count);
  }
  typename TestFixture::ranks_type threads(2);
  threads.run([&](auto& comm) {
    int const in = comm.rank() + 1;
    int out = 0;
    blink::all_reduce(comm, blink::star_schedule(2), &in, &out, 1, sum_with_address{&in});
    EXPECT_EQ(out, 3);
  });
}

TYPED_TEST(faults, ranks_that_failed_refuse) {
  typename TestFixture::ranks_type threads(2, this->options(milliseconds(10)));
  auto const star = blink::star_schedule(2);
  auto const first = this->errors(threads, [&](auto& comm) {
    if (comm.rank() == 0) this->sum_up(comm, star, 10);
  });
  EXPECT_EQ(first[0].size(), 1U);
  auto const second = this->errors(threads, [&](auto& comm) { this->sum_up(comm, star, 10); });
  for (auto const& of_rank : second) EXPECT_EQ(of_rank.size(), 1U);
}

TYPED_TEST(faults, an_exception_ends_the_others_and_reaches_the_caller) {
  typename TestFixture::ranks_type threads(3, this->options(std::chrono::seconds(20)));
  EXPECT_THROW(threads.run([&](auto& comm) {
    if (comm.rank() == 1) throw std::runtime_error("no coffee");
    this->sum_up(comm, blink::star_schedule(3), 10);
  }),
               std::runtime_error);
}

TYPED_TEST(faults, run_throws_what_ranks_did_not_catch) {
  typename TestFixture::ranks_type threads(2, this->options(milliseconds(10)));
  EXPECT_THROW(threads.run([&](auto& comm) {
    if (comm.rank() == 0) this->sum_up(comm, blink::star_schedule(2), 10);
  }),
               blink::collective_error);
}

TEST(preconditions, of_calls) {
  blink::thread_ranks threads(2);
  std::vector<int> data(8);
  auto const all_reduce_along = [&](blink::schedule const& source, auto const& reducer) {
    threads.run([&](auto& comm) {
      std::vector<int> out(8);
      blink::all_reduce(comm, source, data.data(), out.data(), 8, reducer);
    });
  };
  auto upwards = blink::flat_schedule(2, 0);
  upwards.trees[0].broadcast_parent.clear();
  EXPECT_THROW(all_reduce_along(upwards, blink::sum{}), blink::precondition_error);
  EXPECT_THROW(threads.prepare(blink::star_schedule(3)), blink::precondition_error);
  EXPECT_THROW(blink::thread_ranks(0), blink::precondition_error);
}

// Each rank finds its own mistake before its peers are affected, and can call again.
TEST(preconditions, of_buffers) {
  blink::thread_ranks threads(3);
  auto const refusal = [](auto const& call) {
    try {
      call();
    } catch (blink::precondition_error const& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  auto const names = [](std::string const& text, std::string const& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  threads.run([&](auto& comm) {
    auto const star = blink::star_schedule(3);
    auto const all = blink::all_to_all_schedule(3);
    auto const gather = blink::gather_schedule(3, 0);
    auto const scatter = blink::scatter_schedule(3, 0);
    std::vector<int> in(30);
    std::vector<int> out(30);
    int const* const nothing = nullptr;
    int* const nowhere = nullptr;
    if (comm.rank() == 1) {
      names(refusal([&] { blink::all_reduce(comm, star, nothing, out.data(), 9, blink::sum{}); }),
            "all_reduce on rank 1: the input is null");
      names(refusal([&] { blink::all_to_all(comm, all, in.data(), nowhere, 9); }),
            "all_to_all on rank 1: the output is null");
      names(refusal([&] { blink::all_to_all(comm, all, in.data(), in.data() + 2, 9); }),
            "the output begins 8 bytes behind the input");
      names(refusal([&] { blink::all_gather(comm, star, out.data() + 18, out.data(), 9); }),
            "the input begins 72 bytes behind the output");  // the place of rank 2's block
      names(refusal([&] { blink::all_gather(comm, star, out.data() + 4, out.data(), 9); }),
            "the input begins 16 bytes behind the output");
      names(refusal(
                [&] { blink::reduce_scatter(comm, star, in.data(), in.data(), 9, blink::sum{}); }),
            "overlap");
      names(refusal([&] { blink::all_gather(comm, star, in.data(), out.data(), SIZE_MAX / 8); }),
            "more than an address can name");
      // The address space has room for its last byte, but not for all of it after any address.
      names(refusal([&] {
              blink::all_reduce(comm, star, reinterpret_cast<char const*>(in.data()),
                                reinterpret_cast<char*>(out.data()), SIZE_MAX / 3 - 1,
                                blink::sum{});
            }),
            "more than an address can name");
      auto* const askew = reinterpret_cast<int*>(reinterpret_cast<char*>(in.data()) + 1);
      names(refusal([&] { blink::all_reduce(comm, star, askew, out.data(), 9, blink::sum{}); }),
            "all_reduce on rank 1: the input lies 1 bytes behind a multiple of 4");
      names(refusal([&] { blink::all_gather(comm, star, in.data(), askew, 2); }),
            "all_gather on rank 1: the output lies 1 bytes behind a multiple of 4");
      names(refusal([&] {
              blink::grouped(comm, star, blink::collective::all_reduce,
                             std::vector<blink::buffer_part<int>>{{askew, out.data(), 2}},
                             blink::sum{});
            }),
            "the input lies 1 bytes");
      names(refusal([&] {
              blink::all_gather_v(comm, star, askew, out.data(), {{0, 1}, {1, 1}, {2, 1}});
            }),
            "the input lies 1 bytes");
      names(refusal([&] { blink::gather(comm, star, in.data(), out.data(), 1); }), "gather");
      names(refusal([&] { blink::gather(comm, all, in.data(), out.data(), 1); }), "gather");
      names(refusal([&] {
              blink::gather(comm, blink::gather_schedule(4, 0), in.data(), out.data(), 1);
            }),
            "for 4 ranks");
    }
    if (comm.rank() == 0) {
      names(refusal([&] { blink::gather(comm, gather, in.data(), nowhere, 1); }), "output is null");
      names(refusal([&] { blink::scatter(comm, scatter, nothing, out.data(), 1); }),
            "input is null");
    }
    // Unused buffers may be null, and empty calls need none.
    blink::gather(comm, gather, in.data(), comm.rank() == 0 ? out.data() : nullptr, 10);
    blink::scatter(comm, scatter, comm.rank() == 0 ? in.data() : nullptr, out.data(), 10);
    blink::all_to_all(comm, all, nothing, nowhere, 0);
  });
}

struct large {
  std::array<char, 300> bytes;
};

TEST(preconditions, of_elements) {
  blink::communicator_options options;
  options.slot_bytes = 256;
  for (int const ranks : {1, 2}) {  // also alone: a program that works with one rank works with two
    blink::thread_ranks threads(ranks, options);
    threads.run([&](auto& comm) {
      large one{};
      EXPECT_ERROR(
          blink::broadcast(comm, blink::flat_schedule(ranks, 0), &one, &one, 1),
          "communicator_options: slot_bytes is less than the size of one element: a slot has 256 "
          "bytes, an element 300, a sent element 300");
    });
  }
}

struct first_wins {
  static constexpr bool is_commutative = false;
  constexpr int operator()(int a, int) const { return a; }
};

TEST(preconditions, order_that_a_schedule_cannot_keep) {
  blink::thread_ranks threads(3);
  threads.run([&](auto& comm) {
    int const mine = comm.rank() + 10;
    int result = 0;
    // Rank 0 is below rank 2, which is below rank 1.
    EXPECT_THROW(
        blink::all_reduce(comm, blink::chain_schedule(3, 1), &mine, &result, 1, first_wins{}),
        blink::precondition_error);
    blink::all_reduce(comm, blink::flat_schedule(3, 1), &mine, &result, 1, first_wins{});
    EXPECT_EQ(result, 10);
  });
}

}}  // namespace faults_test
