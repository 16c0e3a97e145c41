// SPDX-License-Identifier: Apache-2.0
// Faults at random places in communicators of processes. All other ranks must name the faulty rank
// in time, shrink the communicator, and continue.
//
// BLINK_FAULTS=200 runs more faults than the default. Prints the table of docs/faults.md.

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/transports/host/processes.hpp>

#include "support/expect_error.hpp"
#include "support/fault_injection.hpp"
#include "support/faulty_transport.hpp"
#include "support/forked_ranks.hpp"
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace process_faults_test { namespace {

using blink_test::forked_ranks;
using slot_thread_ranks =
    blink::basic_process_communicator<blink_test::faulty<blink::slot_transport>>;
using direct_thread_ranks =
    blink::basic_process_communicator<blink_test::faulty<blink::direct_transport>>;
using clock_type = std::chrono::steady_clock;

using blink_test::harm;
using blink_test::harms;
using blink_test::injection;
constexpr std::string_view went_on = "went on, reported after ";  // followed by seconds

constexpr auto deadline = std::chrono::milliseconds(600);

template <class Ranks>
std::string run_rank(std::string const& path, int rank, injection const& fault) {
  blink::communicator_options options;
  options.slot_bytes = 512;
  options.window = 2;
  options.waits.deadline = deadline;
  bool const is_victim = rank == fault.victim;
  if (is_victim) {
    blink_test::arm(
        fault,
        fault.what == harm::kill ? [] { (void)raise(SIGKILL); } : [] { (void)raise(SIGSTOP); },
        [] { std::this_thread::sleep_for(deadline / 6); });
  }
  Ranks comm(path, rank, options);
  auto const end = blink_test::run_planned(comm, fault);
  // Peers may be in the call before, and slow on a busy machine.
  if (end.seconds > 5 * std::chrono::duration<double>(deadline).count()) {
    return "late: " + std::to_string(end.seconds);
  }
  return end.text == "reported" ? std::string(went_on) + std::to_string(end.seconds) : end.text;
}

class injected_faults : public testing::Test {
 protected:
  /// Checks that every rank ended as expected. Returns 1 if the fault happened, else 0.
  static int check(injection const& fault, forked_ranks& all) {
    SCOPED_TRACE(fault.seed);
    auto const ends = all.finish(fault.what == harm::stop ? fault.victim : -1);
    // The victim may run fewer operations than planned; a delay is no fault.
    bool const happened =
        ends[fault.victim == 0 ? 1 : 0].text != "no fault" && fault.what != harm::delay;
    EXPECT_TRUE(happened || fault.what <= harm::delay);
    for (int rank = 0; rank < fault.ranks; ++rank) {
      auto const& end = ends[static_cast<std::size_t>(rank)];
      // A rank that should stop and does not may end with its peers, and is killed then.
      bool const is_killed = happened || (fault.what == harm::stop && WIFSIGNALED(end.status));
      if (rank == fault.victim && fault.what <= harm::stop && is_killed) {
        EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL) << end.text;
      } else {
        bool const is_reported = end.text.starts_with(went_on);
        EXPECT_TRUE(happened ? is_reported : end.text == "no fault")
            << "rank " << rank << ", victim " << fault.victim << ": " << end.text;
        if (!is_reported) continue;
        reported[static_cast<std::size_t>(fault.what)].push_back(
            std::stod(end.text.substr(went_on.size())));
      }
    }
    ++injected[static_cast<std::size_t>(fault.what)];
    if (happened) ++came_to_pass[static_cast<std::size_t>(fault.what)];
    return happened ? 1 : 0;
  }

  static void print_table() {
    std::printf(
        "| a rank is | injected | came to pass | ranks reported | least, median, most seconds |\n");
    std::printf("| --- | --- | --- | --- | --- |\n");
    for (std::size_t k = 0; k < harms; ++k) {
      auto& times = reported[k];
      std::sort(times.begin(), times.end());
      std::printf("| %s | %d | %d | %zu |", blink_test::harm_names[k], injected[k], came_to_pass[k],
                  times.size());
      if (times.empty()) {
        std::printf(" |\n");
      } else {
        std::printf(" %.3f, %.3f, %.3f |\n", times.front(), times[times.size() / 2], times.back());
      }
    }
  }

  inline static std::array<int, harms> injected{};
  inline static std::array<int, harms> came_to_pass{};
  inline static std::array<std::vector<double>, harms> reported;  // on all ranks that should report
                                                                  // it
};

TEST_F(injected_faults, are_named_by_all_others_who_then_go_on) {
  int happened = 0;
  int const number = blink_test::number_of_faults();
  constexpr int at_once = 3;  // most of their time is waiting
  for (int first = 0; first < number; first += at_once) {
    std::vector<injection> faults;
    std::vector<std::unique_ptr<forked_ranks>> rank_owners;
    for (int seed = first; seed < std::min(number, first + at_once); ++seed) {
      auto const& fault = faults.emplace_back(static_cast<std::uint64_t>(seed));
      auto& all = *rank_owners.emplace_back(
          std::make_unique<forked_ranks>(fault.ranks, std::size_t{1} << 26));
      all.start([&](int rank) {
        return seed / harms % 2 == 0 ? run_rank<slot_thread_ranks>(all.path(), rank, fault)
                                     : run_rank<direct_thread_ranks>(all.path(), rank, fault);
      });
    }
    for (std::size_t k = 0; k < faults.size(); ++k) happened += check(faults[k], *rank_owners[k]);
  }
  EXPECT_GT(happened, number / 2);
  print_table();
  // A rank that dies is noticed at once, and one that is stopped at the deadline. With direct
  // buffers the call ends one deadline later.
  auto const median = [](harm what) {
    auto times = reported[static_cast<std::size_t>(what)];
    std::sort(times.begin(), times.end());
    return times.empty() ? 0 : times[times.size() / 2];
  };
  double const limit = std::chrono::duration<double>(deadline).count();
  EXPECT_LT(median(harm::kill), limit / 2);
  EXPECT_LT(median(harm::stop), 3 * limit);
}

// A rank that only tests also learns that another rank was killed, within milliseconds.
template <class Ranks>
void test_until_reported() {
  forked_ranks all(3, std::size_t{1} << 26);
  all.start([&](int rank) -> std::string {
    blink::communicator_options options;
    options.waits.deadline = std::chrono::seconds(60);
    options.eager_payload = 0;
    Ranks comm(all.path(), rank, options);
    auto in = blink_test::make_buffer<int>(comm, 3000);
    auto out = blink_test::make_buffer<int>(comm, 3000);
    blink::barrier(comm);
    if (rank == 1) (void)raise(SIGKILL);
    blink::call_queue queue(comm);
    auto call = queue.start(blink::collective::all_reduce, blink::star_schedule(3),
                            static_cast<int const*>(in.data()), out.data(), 3000, blink::sum{});
    auto const end = clock_type::now() + std::chrono::seconds(20);
    try {
      while (clock_type::now() < end) {
        if (call.test()) return "ended";
      }
    } catch (blink::collective_error const& failure) {
      return std::to_string(failure.peer) + ": " + failure.what();
    }
    (void)raise(SIGKILL);  // the end of the queue would wait
    return {};
  });
  auto const ends = all.finish();
  for (std::size_t const rank : {0U, 2U}) {
    EXPECT_TRUE(ends[rank].text.starts_with("1: ")) << ends[rank].text;
    EXPECT_NE(ends[rank].text.find(" died "), std::string::npos) << ends[rank].text;
  }
}
TEST(tests_of_calls, report_who_was_killed) {
  test_until_reported<slot_thread_ranks>();
  test_until_reported<direct_thread_ranks>();
}

// More ranks than one search asks the system about.
TEST(process_faults, a_death_among_many_ranks_is_noticed_at_once) {
  constexpr int ranks = 20;
  for (int const victim : {3, 18}) {
    forked_ranks all(ranks);
    all.start([&](int rank) -> std::string {
      blink::communicator_options options;
      options.waits.deadline = std::chrono::seconds(60);
      options.eager_payload = 0;
      blink::process_communicator comm(all.path(), rank, options);
      std::vector<int> data(100, 1);
      blink::all_reduce(comm, blink::star_schedule(ranks), data, data);
      if (rank == victim) (void)raise(SIGKILL);
      auto const begin = clock_type::now();
      auto const text = blink_test::error_of(
          [&] { blink::all_reduce(comm, blink::star_schedule(ranks), data, data); });
      bool const is_late = clock_type::now() - begin > std::chrono::seconds(30);
      return is_late ? "late: " + text : text;
    });
    auto const ends = all.finish();
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == victim) continue;
      auto const& text = ends[static_cast<std::size_t>(rank)].text;
      EXPECT_NE(text.find("rank " + std::to_string(victim)), std::string::npos) << text;
      EXPECT_NE(text.find(" died "), std::string::npos) << text;
      EXPECT_FALSE(text.starts_with("late")) << text;
    }
  }
}

// All ranks learn which rank is in a barrier and which in a collective, and continue.
template <class Ranks>
void call_against_barrier(int ranks, bool odd_one_calls) {
  SCOPED_TRACE(ranks);
  forked_ranks all(ranks, std::size_t{1} << 26);
  all.start([&](int rank) -> std::string {
    blink::communicator_options options;
    options.waits.deadline = std::chrono::seconds(20);
    options.slot_bytes = 512;
    Ranks comm(all.path(), rank, options);
    blink::barrier(comm);
    auto const begin = clock_type::now();
    try {
      if ((rank == 1) != odd_one_calls) {
        blink::barrier(comm);
      } else {
        blink_test::call_form(comm, blink_test::form::sum, blink::star_schedule(ranks), 500);
      }
    } catch (blink::collective_error const& failure) {
      if (!failure.disagrees) return std::string("no difference: ") + failure.what();
      if (clock_type::now() - begin > std::chrono::seconds(10)) return "late";
      auto smaller = comm.shrink();
      blink_test::call_form(smaller, blink_test::form::sum,
                            blink::star_schedule(smaller.rank_count()), 10);
      return std::to_string(smaller.rank_count()) + " ranks, " + failure.what();
    }
    return "no error";
  });
  for (auto const& end : all.finish()) {
    EXPECT_TRUE(end.text.starts_with(std::to_string(ranks) + " ranks, ")) << end.text;
    bool const reports_both =
        odd_one_calls ? end.text.find("rank 1 calls all_reduce, call 1, and ") != end.text.npos
                      : end.text.find("all_reduce, call 1, and rank 1 barrier 2") != end.text.npos;
    EXPECT_TRUE(reports_both) << end.text;
  }
}
TEST(differences, of_a_barrier_and_a_collective_are_reported_by_all) {
  for (int const ranks : {2, 3}) {
    for (bool const odd_one_calls : {false, true}) {
      call_against_barrier<slot_thread_ranks>(ranks, odd_one_calls);
      call_against_barrier<direct_thread_ranks>(ranks, odd_one_calls);
    }
  }
}

TEST(shrink, a_rank_that_comes_too_late_is_left_out) {
  forked_ranks all(3, std::size_t{1} << 26);
  std::array<int, 2> others_went_on{};  // a pipe: one byte from each rank
  ASSERT_EQ(pipe(others_went_on.data()), 0);
  all.start([&](int rank) -> std::string {
    blink::communicator_options options;
    options.waits.deadline = std::chrono::milliseconds(1500);
    options.slot_bytes = 512;
    slot_thread_ranks comm(all.path(), rank, options);
    auto const star = blink::star_schedule(3);
    blink_test::call_form(comm, blink_test::form::sum, star, 10);
    if (rank == 1) close(others_went_on[1]);
    for (int others = 0; rank == 1 && others < 2; ++others) {
      char byte = 0;
      if (read(others_went_on[0], &byte, 1) != 1) return "the others ended";
    }
    try {
      blink_test::call_form(comm, blink_test::form::sum, star, 10);
      return "no error";
    } catch (blink::collective_error const&) {
      auto smaller = comm.shrink();
      if (write(others_went_on[1], "x", 1) != 1) return "no pipe";
      blink_test::call_form(smaller, blink_test::form::sum,
                            blink::chain_schedule(smaller.rank_count(), 0), 100);
      // The survivors lose another rank.
      if (rank == 2) return std::to_string(smaller.rank_count()) + " ranks, left";
      try {
        blink_test::call_form(smaller, blink_test::form::sum, blink::star_schedule(2), 10);
      } catch (blink::collective_error const& failure) {
        auto alone = smaller.shrink();
        blink_test::call_form(alone, blink_test::form::sum, blink::star_schedule(1), 10);
        return std::to_string(alone.rank_count()) + " rank, after: " + failure.what();
      }
    }
    return "no second error";
  });
  for (int const end : others_went_on) close(end);
  auto const ends = all.finish();
  EXPECT_EQ(ends[0].text.find("1 rank, after: rank 0"), 0U) << ends[0].text;
  EXPECT_NE(ends[0].text.find(") has left without entering call 2"), std::string::npos)
      << ends[0].text;
  EXPECT_NE(ends[1].text.find("continued without this rank"), std::string::npos) << ends[1].text;
  EXPECT_EQ(ends[2].text, "2 ranks, left");
}

}}  // namespace process_faults_test
