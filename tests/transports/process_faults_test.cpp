// SPDX-License-Identifier: Apache-2.0
// Faults put into worlds of processes at random places: whatever happens to a rank, all others name
// it in time, shrink the world to those that are left, and go on.
//
// BLINK_FAULTS=200 runs as many instead of the few of every day. Prints the table of docs/faults.md.

#include <blink/collectives.hpp>
#include <blink/collectives/all_reduce_sparse.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/collectives/exchange.hpp>
#include <blink/collectives/grouped.hpp>
#include <blink/transports/processes.hpp>

#include "support/collective_case.hpp"
#include "support/faulty_link.hpp"
#include "support/forked_ranks.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

// Rooms may be compiled as one source.
namespace process_faults_test {

namespace {

using blink_test::forked_ranks;
using slot_world = blink::basic_process_world<blink_test::faulty<blink::slot_link>>;
using direct_world = blink::basic_process_world<blink_test::faulty<blink::direct_link>>;
using clock_type = std::chrono::steady_clock;

enum class harm { kill, stop, delay, count, type, reducer, operation, order };
constexpr int harms = 8;
constexpr std::array<char const*, harms> harm_names{
    "killed",       "stopped (SIGSTOP)", "late, within the deadline", "another count",
    "another type", "another reducer",   "another collective",        "a call left out"};
constexpr std::string_view went_on = "went on, told after ";  // and seconds

constexpr auto deadline = std::chrono::milliseconds(600);

/// What the calls of a loop are, in turn.
enum class form { sum, gather, grouped, started, sparse, exchange };
constexpr int calls = 6;
/// Can a rank call it with another count, type or reducer, which ends the call of all? Where sizes are agreed
/// about first, those that differ are told and the next call follows.
bool compares_at_once(form what) {
  return what != form::sparse && what != form::exchange;
}
/// Those that are all an all-reduce of as many elements are the same call.
bool is_sum(form what) {
  return what == form::sum || what == form::grouped || what == form::started;
}

/// A seeded fault: which rank of how many, what, in which call or at which operation.
struct injection {
  explicit injection(std::uint64_t its_seed) : seed(its_seed) {
    std::mt19937_64 random(seed * 7919 + 1);
    what = static_cast<harm>(seed % harms);
    ranks = 2 + blink_test::below(random, 3);
    victim = blink_test::below(random, ranks);
    call = blink_test::below(random, calls);
    first_form = blink_test::below(random, calls);
    auto const fits = [&] {
      if (what == harm::reducer) return is_sum(form_of(call));
      if (what == harm::order) {
        auto const next = call + 1 < calls ? form_of(call + 1) : form::sum;
        return !is_sum(form_of(call)) || !is_sum(next);
      }
      return (what != harm::count && what != harm::type) || compares_at_once(form_of(call));
    };
    while (!fits()) call = (call + 1) % calls;
    operation = blink_test::below(random, 60);
    // Every kind of call in one loop needs trees that carry all of them.
    plan = blink_test::random_schedule(random, ranks, blink::collective::all_gather);
    for (auto& tree : plan.trees) {
      tree.reduce_parent = blink_test::random_parents(random, ranks, tree.root);
      tree.broadcast_parent = blink_test::random_parents(random, ranks, tree.root);
      tree.reduce_route.clear();
      tree.broadcast_route.clear();
    }
    count = 1 + static_cast<std::size_t>(blink_test::below(random, 1500));
  }

  [[nodiscard]] form form_of(int of_call) const {
    return static_cast<form>((first_form + of_call) % calls);
  }

  std::uint64_t seed;
  harm what{};
  int ranks = 0, victim = 0, call = 0, first_form = 0, operation = 0;
  blink::schedule plan;
  std::size_t count = 0;
};

/// Memory that calls of such a world take.
template <class T, class World>
auto make_buffer(World& me, std::size_t count) {
  if constexpr (World::link_type::reaches) {
    return me.template allocate<T>(count);
  } else {
    return std::vector<T>(count);
  }
}

template <class T>
void expect_all(T const* data, std::size_t count, int value) {
  for (std::size_t k = 0; k < count; ++k) {
    if (data[k] != static_cast<T>(value)) throw blink::error("a wrong value");
  }
}

/// One call of a form by all ranks; throws if its result is wrong.
template <class T = int, class World, class Reducer = blink::sum>
void call_form(World& me, form what, blink::schedule const& trees, std::size_t count,
               Reducer const& reduce = {}) {
  constexpr auto all_reduce = blink::collective::all_reduce;
  auto const ranks = static_cast<std::size_t>(me.rank_count());
  auto in = make_buffer<T>(me, count);
  auto out = make_buffer<T>(me, count * ranks);
  std::fill(in.begin(), in.end(), static_cast<T>(me.rank() + 1));
  T const* const from = in.data();
  int const total = me.rank_count() * (me.rank_count() + 1) / 2;
  auto& plan = me.prepare(trees);
  switch (what) {
    case form::sum:
      blink::all_reduce(me, plan, from, out.data(), count, reduce);
      return expect_all(out.data(), count, total);
    case form::gather:
      blink::all_gather(me, plan, from, out.data(), count);
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        expect_all(out.data() + peer * count, count, static_cast<int>(peer) + 1);
      }
      return;
    case form::grouped: {
      std::size_t const half = count / 2;
      std::vector<blink::buffer_part<T>> const parts{
          {from, out.data(), half}, {from + half, out.data() + half, count - half}};
      blink::grouped(me, plan, all_reduce, parts, reduce, 1000);
      return expect_all(out.data(), count, total);
    }
    case form::started: {
      blink::call_queue queue(me);
      auto call = queue.start(all_reduce, plan, from, out.data(), count, reduce);
      while (me.rank() == 0 && !call.test()) std::this_thread::yield();
      call.wait();
      return expect_all(out.data(), count, total);
    }
    case form::sparse: {
      auto mask = blink::block_mask(count, 16);
      mask.set(0);
      std::fill(in.begin() + static_cast<std::ptrdiff_t>(mask.length(0)), in.end(), T{});
      blink::all_reduce_sparse(me, plan, in.data(), mask, reduce);
      expect_all(from, mask.length(0), total);
      return expect_all(from + mask.length(0), count - mask.length(0), 0);
    }
    case form::exchange: {
      int const next = (me.rank() + 1) % me.rank_count();
      int const last = (me.rank() + me.rank_count() - 1) % me.rank_count();
      blink::transfers list;
      list.send(next, from, count);
      list.receive(last, out.data(), count);
      blink::exchange(me, blink::all_to_all_schedule(me.rank_count()), list);
      return expect_all(out.data(), count, last + 1);
    }
  }
}

/// Calls of each form in turn; the victim does something else in one of them. `entered`: when the
/// last call began.
template <class World>
void call_on(World& me, injection const& fault, bool is_victim, clock_type::time_point& entered) {
  for (int call = 0; call < calls; ++call) {
    entered = clock_type::now();
    bool const errs = is_victim && call == fault.call;
    auto what = fault.form_of(call);
    if (errs && fault.what == harm::order) continue;  // the next call comes too early
    if (errs && fault.what == harm::operation) {
      what = what == form::gather ? form::sum : form::gather;
    }
    std::size_t const count = fault.count + (errs && fault.what == harm::count ? 1 : 0);
    if (errs && fault.what == harm::type) {
      call_form<float>(me, what, fault.plan, count);
    } else if (errs && fault.what == harm::reducer) {
      call_form(me, what, fault.plan, count, blink::max{});
    } else {
      call_form(me, what, fault.plan, count);
    }
  }
  blink_test::fault.operations_left = -1;
  entered = clock_type::now();
  // Everyone needs everyone: nobody leaves before a fault is seen.
  call_form(me, form::sum, fault.plan, fault.count);
}

template <class World>
std::string run_rank(std::string const& path, int rank, injection const& fault) {
  blink::world_options options;
  options.slot_bytes = 512;
  options.window = 2;
  options.waits.deadline = deadline;
  bool const is_victim = rank == fault.victim;
  bool const is_mismatch = fault.what >= harm::count;
  if (is_victim && !is_mismatch) {
    blink_test::fault.operations_left = fault.operation;
    blink_test::fault.happen = fault.what == harm::kill ? [] { (void)raise(SIGKILL); }
                               : fault.what == harm::stop
                                   ? [] { (void)raise(SIGSTOP); }
                                   : [] { std::this_thread::sleep_for(deadline / 6); };
  }
  World me(path, rank, options);
  clock_type::time_point entered;
  auto const is_named = [&](blink::collective_error const& failure) {
    auto const name = "rank " + std::to_string(fault.victim);
    return std::string(failure.what()).find(name) != std::string::npos;
  };
  try {
    call_on(me, fault, is_victim, entered);
  } catch (blink::collective_error const& failure) {
    auto const seconds = std::chrono::duration<double>(clock_type::now() - entered).count();
    // Others may be in the call before, and take their time on a busy machine.
    if (seconds > 5 * std::chrono::duration<double>(deadline).count())
      return "late: " + std::to_string(seconds);
    if (!is_named(failure)) return std::string("does not name the rank: ") + failure.what();
    if (!is_mismatch && failure.peer != fault.victim)
      return std::string("names: ") + failure.what();
    // Who leaves out the last call has left when the others come to it.
    if (fault.what != harm::order && failure.disagrees != is_mismatch)
      return std::string("says of calls that differ: ") + failure.what();
    if (fault.what == harm::delay) return std::string("did not wait: ") + failure.what();
    auto smaller = me.shrink();
    if (smaller.rank_count() != fault.ranks - (is_mismatch ? 0 : 1)) {
      return "shrunk to " + std::to_string(smaller.rank_count());
    }
    for (int call = 0; call < 3; ++call) {
      auto const what = static_cast<form>((call + static_cast<int>(fault.seed)) % calls);
      call_form(smaller, what, blink::star_schedule(smaller.rank_count()), fault.count);
    }
    return std::string(went_on) + std::to_string(seconds);
  }
  return "no fault";
}

class injected_faults : public testing::Test {
 protected:
  static int number_of_faults() {
    char const* const text = std::getenv("BLINK_FAULTS");
    return text == nullptr ? 2 * harms : std::max(1, std::atoi(text));
  }

  /// Has everyone said what it should? Returns 1 if the fault came to pass, else 0.
  static int check(injection const& fault, forked_ranks& all) {
    SCOPED_TRACE(fault.seed);
    auto const ends = all.finish(fault.what == harm::stop ? fault.victim : -1);
    // Who is to die or stop may have fewer operations than it takes; a delay is no fault.
    bool const happened =
        ends[fault.victim == 0 ? 1 : 0].text != "no fault" && fault.what != harm::delay;
    EXPECT_TRUE(happened || fault.what <= harm::delay);
    for (int rank = 0; rank < fault.ranks; ++rank) {
      auto const& end = ends[static_cast<std::size_t>(rank)];
      // Who is to stop and does not may be at its end when the others are, and is killed then.
      bool const is_killed = happened || (fault.what == harm::stop && WIFSIGNALED(end.status));
      if (rank == fault.victim && fault.what <= harm::stop && is_killed) {
        EXPECT_TRUE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL) << end.text;
      } else {
        bool const is_told = end.text.starts_with(went_on);
        EXPECT_TRUE(happened ? is_told : end.text == "no fault")
            << "rank " << rank << ", victim " << fault.victim << ": " << end.text;
        if (!is_told) continue;
        told[static_cast<std::size_t>(fault.what)].push_back(
            std::stod(end.text.substr(went_on.size())));
      }
    }
    ++injected[static_cast<std::size_t>(fault.what)];
    if (happened) ++came_to_pass[static_cast<std::size_t>(fault.what)];
    return happened ? 1 : 0;
  }

  static void print_table() {
    std::printf(
        "| a rank is | injected | came to pass | ranks told | least, median, most seconds |\n");
    std::printf("| --- | --- | --- | --- | --- |\n");
    for (std::size_t k = 0; k < harms; ++k) {
      auto& times = told[k];
      std::sort(times.begin(), times.end());
      std::printf("| %s | %d | %d | %zu |", harm_names[k], injected[k], came_to_pass[k],
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
  inline static std::array<std::vector<double>, harms> told;  // by all ranks that should be
};

TEST_F(injected_faults, are_named_by_all_others_who_then_go_on) {
  int happened = 0;
  int const number = number_of_faults();
  constexpr int at_once = 3;  // most of their time is waiting
  for (int first = 0; first < number; first += at_once) {
    std::vector<injection> faults;
    std::vector<std::unique_ptr<forked_ranks>> worlds;
    for (int seed = first; seed < std::min(number, first + at_once); ++seed) {
      auto const& fault = faults.emplace_back(static_cast<std::uint64_t>(seed));
      auto& all =
          *worlds.emplace_back(std::make_unique<forked_ranks>(fault.ranks, std::size_t{1} << 26));
      all.start([&](int rank) {
        return seed / harms % 2 == 0 ? run_rank<slot_world>(all.path(), rank, fault)
                                     : run_rank<direct_world>(all.path(), rank, fault);
      });
    }
    for (std::size_t k = 0; k < faults.size(); ++k) happened += check(faults[k], *worlds[k]);
  }
  EXPECT_GT(happened, number / 2);
  print_table();
}

// A rank that only tests is told, too, within milliseconds that another one was killed.
template <class World>
void test_until_told() {
  forked_ranks all(3, std::size_t{1} << 26);
  all.start([&](int rank) -> std::string {
    blink::world_options options;
    options.waits.deadline = std::chrono::seconds(60);
    options.shown_bytes = 0;
    World me(all.path(), rank, options);
    auto in = make_buffer<int>(me, 3000);
    auto out = make_buffer<int>(me, 3000);
    blink::barrier(me);
    if (rank == 1) (void)raise(SIGKILL);
    blink::call_queue queue(me);
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
TEST(tests_of_calls, tell_who_was_killed) {
  test_until_told<slot_world>();
  test_until_told<direct_world>();
}

// Who is in a barrier and who in a collective is told to all, and they go on.
template <class World>
void call_against_barrier(int ranks, bool odd_one_calls) {
  SCOPED_TRACE(ranks);
  forked_ranks all(ranks, std::size_t{1} << 26);
  all.start([&](int rank) -> std::string {
    blink::world_options options;
    options.waits.deadline = std::chrono::seconds(20);
    options.slot_bytes = 512;
    World me(all.path(), rank, options);
    blink::barrier(me);
    auto const begin = clock_type::now();
    try {
      if ((rank == 1) != odd_one_calls) {
        blink::barrier(me);
      } else {
        call_form(me, form::sum, blink::star_schedule(ranks), 500);
      }
    } catch (blink::collective_error const& failure) {
      if (!failure.disagrees) return std::string("no difference: ") + failure.what();
      if (clock_type::now() - begin > std::chrono::seconds(10)) return "late";
      auto smaller = me.shrink();
      call_form(smaller, form::sum, blink::star_schedule(smaller.rank_count()), 10);
      return std::to_string(smaller.rank_count()) + " ranks, " + failure.what();
    }
    return "no error";
  });
  for (auto const& end : all.finish()) {
    EXPECT_TRUE(end.text.starts_with(std::to_string(ranks) + " ranks, ")) << end.text;
    bool const tells_both =
        odd_one_calls ? end.text.find("rank 1 calls all_reduce, call 1, and ") != end.text.npos
                      : end.text.find("all_reduce, call 1, and rank 1 barrier 2") != end.text.npos;
    EXPECT_TRUE(tells_both) << end.text;
  }
}
TEST(differences, of_a_barrier_and_a_collective_are_told_by_all) {
  for (int const ranks : {2, 3}) {
    for (bool const odd_one_calls : {false, true}) {
      call_against_barrier<slot_world>(ranks, odd_one_calls);
      call_against_barrier<direct_world>(ranks, odd_one_calls);
    }
  }
}

TEST(shrink, a_rank_that_comes_too_late_is_left_out) {
  forked_ranks all(3, std::size_t{1} << 26);
  std::array<int, 2> others_went_on{};  // a pipe: a byte from each
  ASSERT_EQ(pipe(others_went_on.data()), 0);
  all.start([&](int rank) -> std::string {
    blink::world_options options;
    options.waits.deadline = std::chrono::milliseconds(1500);
    options.slot_bytes = 512;
    slot_world me(all.path(), rank, options);
    auto const star = blink::star_schedule(3);
    call_form(me, form::sum, star, 10);
    if (rank == 1) close(others_went_on[1]);
    for (int others = 0; rank == 1 && others < 2; ++others) {
      char byte = 0;
      if (read(others_went_on[0], &byte, 1) != 1) return "the others ended";
    }
    try {
      call_form(me, form::sum, star, 10);
      return "no error";
    } catch (blink::collective_error const&) {
      auto smaller = me.shrink();
      if (write(others_went_on[1], "x", 1) != 1) return "no pipe";
      call_form(smaller, form::sum, blink::chain_schedule(smaller.rank_count(), 0), 100);
      // The survivors lose another one.
      if (rank == 2) return std::to_string(smaller.rank_count()) + " ranks, left";
      try {
        call_form(smaller, form::sum, blink::star_schedule(2), 10);
      } catch (blink::collective_error const& failure) {
        auto alone = smaller.shrink();
        call_form(alone, form::sum, blink::star_schedule(1), 10);
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
  EXPECT_NE(ends[1].text.find("went on without this rank"), std::string::npos) << ends[1].text;
  EXPECT_EQ(ends[2].text, "2 ranks, left");
}

}  // namespace

}  // namespace process_faults_test
