// SPDX-License-Identifier: Apache-2.0
// Communicators of processes that find each other by a bootstrap; deadlines and ends from outside.

#include <blink/collectives.hpp>
#include <blink/transports/host/file_bootstrap.hpp>
#include <blink/transports/host/processes.hpp>

#include "support/forked_ranks.hpp"
#include "support/fresh_folder.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace made_communicators_test { namespace {

using namespace std::chrono_literals;
using blink_test::forked_ranks;

/// Makes a communicator in each of `count` processes, and returns what each of them says.
template <class Function>
std::vector<std::string> among_processes(int count, Function const& function) {
  blink_test::fresh_folder const folder;
  forked_ranks ranks(count);
  ranks.start([&](int rank) {
    blink::file_bootstrap all(folder.name(), rank, count, 20s);
    return function(all);
  });
  std::vector<std::string> result;
  for (auto const& end : ranks.finish()) result.push_back(end.text);
  return result;
}

TEST(made_communicators, processes_of_any_bootstrap_reduce) {
  for (int const count : {1, 2, 5}) {
    auto const said = among_processes(count, [&](blink::file_bootstrap& all) {
      blink::process_communicator comm(all);
      std::vector<int> data(1000, comm.rank() + 1);
      blink::all_reduce(comm, data);
      return std::to_string(data.front()) + " " + std::to_string(data.back());
    });
    auto const sum = std::to_string(count * (count + 1) / 2);
    for (auto const& each : said) EXPECT_EQ(each, sum + " " + sum);
  }
}

TEST(made_communicators, one_bootstrap_makes_several) {
  auto const said = among_processes(3, [&](blink::file_bootstrap& all) {
    blink::process_communicator one(all);
    blink::process_communicator other(all);
    std::vector<int> data(1, one.rank());
    blink::all_reduce(other, data);
    blink::all_reduce(one, data);
    return std::to_string(data[0]);
  });
  for (auto const& each : said) EXPECT_EQ(each, "9");
}

TEST(made_communicators, options_that_differ_are_refused_by_all) {
  auto const said = among_processes(3, [&](blink::file_bootstrap& all) {
    blink::communicator_options options;
    if (all.process() == 2) options.slot_bytes = 4096;
    blink::process_communicator const comm(all, options);
    return std::string("made");
  });
  for (auto const& each : said) {
    EXPECT_NE(each.find("slot_bytes differs between ranks, 0 and 2"), std::string::npos) << each;
  }
}

TEST(made_communicators, an_option_out_of_range_is_reported_by_all) {
  auto const said = among_processes(2, [&](blink::file_bootstrap& all) {
    blink::communicator_options options;
    if (all.process() == 1) options.waits.deadline = 0s;
    blink::process_communicator const comm(all, options);
    return std::string("made");
  });
  for (auto const& each : said) {
    EXPECT_NE(each.find("rank 1: communicator_options: the deadline is not positive"),
              std::string::npos)
        << each;
  }
}

TEST(made_communicators, the_order_of_the_environment_counts) {
  auto const said = among_processes(2, [&](blink::file_bootstrap& all) {
    setenv("BLINK_ORDER", "ranks", 1);
    blink::process_communicator const comm(all);
    return std::string(comm.options().order == blink::order_promise::ranks ? "ranks" : "run");
  });
  for (auto const& each : said) EXPECT_EQ(each, "ranks");
}

TEST(made_communicators, an_order_of_one_process_alone_is_refused_by_all) {
  for (std::string const order : {"ranks", "sometimes"}) {
    auto const said = among_processes(2, [&](blink::file_bootstrap& all) {
      if (all.process() == 1) setenv("BLINK_ORDER", order.c_str(), 1);
      blink::process_communicator const comm(all);
      return std::string("made");
    });
    for (auto const& each : said) {
      EXPECT_NE(each.find(order == "ranks" ? "order differs between ranks, 0 and 1"
                                           : "BLINK_ORDER is 'sometimes'"),
                std::string::npos)
          << each;
    }
  }
}

TEST(made_communicators, a_deadline_holds_for_the_calls_after_it) {
  auto const said = among_processes(2, [&](blink::file_bootstrap& all) {
    blink::process_communicator comm(all);
    comm.set_deadline(50ms);
    std::vector<int> data(1, 1);
    blink::all_reduce(comm, data);
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(2s);
      return std::string("late");
    }
    auto const start = std::chrono::steady_clock::now();
    try {
      blink::all_reduce(comm, data);
    } catch (blink::collective_error const& failure) {
      auto const waited = std::chrono::steady_clock::now() - start;
      return std::string(waited < 1s ? "soon: " : "late: ") + failure.what();
    }
    return std::string("no error");
  });
  EXPECT_EQ(said[0].substr(0, 6), "soon: ") << said[0];
  EXPECT_NE(said[0].find("rank 1"), std::string::npos) << said[0];
  EXPECT_EQ(said[1], "late");
}

TEST(made_communicators, a_deadline_is_positive) {
  auto const said = among_processes(1, [&](blink::file_bootstrap& all) {
    blink::process_communicator comm(all);
    comm.set_deadline(0s);
    return std::string("taken");
  });
  EXPECT_NE(said[0].find("the deadline is not positive"), std::string::npos) << said[0];
}

TEST(made_communicators, another_thread_ends_a_call_on_all_ranks) {
  auto const said = among_processes(3, [&](blink::file_bootstrap& all) {
    blink::process_communicator comm(all);
    std::thread other;
    if (comm.rank() == 0) {
      other = std::thread([&] {
        std::this_thread::sleep_for(100ms);
        comm.fail(std::string("the user has enough"));
      });
    }
    std::string result = "no error";
    try {
      std::vector<int> data(1, 1);
      // Rank 2 never comes.
      if (comm.rank() != 2) blink::all_reduce(comm, data);
      while (comm.rank() == 2 && comm.failure().rank < 0) std::this_thread::sleep_for(1ms);
      if (comm.rank() == 2) blink::all_reduce(comm, data);
    } catch (blink::collective_error const& failure) {
      result = failure.what();
    }
    if (other.joinable()) other.join();
    return result;
  });
  for (auto const& each : said) {
    EXPECT_NE(each.find("rank 0 gave up: the user has enough"), std::string::npos) << each;
  }
}

}}  // namespace made_communicators_test
