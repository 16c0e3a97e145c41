// SPDX-License-Identifier: Apache-2.0
#pragma once

// Faults at random places of a loop of calls. All other ranks must name the faulty rank, and
// continue without it. For thread ranks, processes and MPI.

#include <blink/collectives.hpp>
#include <blink/collectives/all_reduce_sparse.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/collectives/exchange.hpp>
#include <blink/collectives/grouped.hpp>

#include "collective_case.hpp"
#include "faulty_transport.hpp"
#include "random_schedules.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace blink_test {

enum class harm { kill, stop, delay, count, type, reducer, operation, order };
inline constexpr int harms = 8;
inline constexpr std::array<char const*, harms> harm_names{
    "killed",       "stopped (SIGSTOP)", "late, within the deadline", "another count",
    "another type", "another reducer",   "another collective",        "a call left out"};

/// The number of faults to inject: BLINK_FAULTS, or two of each kind.
inline int number_of_faults() {
  char const* const text = std::getenv("BLINK_FAULTS");
  return text == nullptr ? 2 * harms : std::max(1, std::atoi(text));
}

/// The forms of calls in a loop, in order.
enum class form { sum, gather, grouped, started, sparse, exchange };
inline constexpr int calls_of_loop = 6;  // one of each form
/// True if a rank that calls it with another count, type or reducer ends the call of all ranks.
/// Forms that first agree on sizes report a difference, and the next call follows.
inline bool compares_at_once(form what) {
  return what != form::sparse && what != form::exchange;
}
/// True if the form is an all-reduce. Calls of these forms with equal counts are the same call.
inline bool is_sum(form what) {
  return what == form::sum || what == form::grouped || what == form::started;
}

/// A seeded fault: the number of ranks, the victim, the harm, and the call or operation where it
/// happens.
struct injection {
  /// only_ranks: the number of ranks; 0: random, two to four
  explicit injection(std::uint64_t its_seed, int only_ranks = 0) : seed(its_seed) {
    std::mt19937_64 random(seed * 7919 + 1);
    what = static_cast<harm>(seed % harms);
    ranks = only_ranks > 0 ? only_ranks : 2 + below(random, 3);
    victim = below(random, ranks);
    call = below(random, calls_of_loop);
    first_form = below(random, calls_of_loop);
    auto const fits = [&] {
      if (what == harm::reducer) return is_sum(form_of(call));
      if (what == harm::order) {
        auto const next = call + 1 < calls_of_loop ? form_of(call + 1) : form::sum;
        return !is_sum(form_of(call)) || !is_sum(next);
      }
      return (what != harm::count && what != harm::type) || compares_at_once(form_of(call));
    };
    while (!fits()) call = (call + 1) % calls_of_loop;
    operation = below(random, 60);
    // One loop with all forms needs trees that carry all of them.
    source = random_schedule(random, ranks, blink::collective::all_gather);
    for (auto& tree : source.trees) {
      tree.reduce_parent = random_parents(random, ranks, tree.root);
      tree.broadcast_parent = random_parents(random, ranks, tree.root);
      tree.reduce_route.clear();
      tree.broadcast_route.clear();
    }
    count = 1 + static_cast<std::size_t>(below(random, 1500));
  }

  /// True if the ranks disagree about a call.
  [[nodiscard]] bool is_mismatch() const { return what >= harm::count; }
  [[nodiscard]] form form_of(int of_call) const {
    return static_cast<form>((first_form + of_call) % calls_of_loop);
  }

  std::uint64_t seed;
  harm what{};
  int ranks = 0, victim = 0, call = 0, first_form = 0, operation = 0;
  blink::schedule source;
  std::size_t count = 0;
};

/// Buffers of thread ranks that live until the program ends. If a rank hangs and the call fails,
/// the rank may use them when it resumes.
template <class T>
std::vector<T>& lasting_buffer(std::size_t count) {
  static std::mutex mutex;
  static std::deque<std::vector<T>> all;
  std::lock_guard const lock(mutex);
  return all.emplace_back(count);
}

/// A buffer that calls of such a communicator accept.
template <class T, class Ranks>
decltype(auto) make_buffer(Ranks& comm, std::size_t count) {
  if constexpr (!Ranks::transport_type::reaches) {
    return std::vector<T>(count);
  } else if constexpr (requires { comm.template allocate<T>(count); }) {
    return comm.template allocate<T>(count);
  } else {
    return lasting_buffer<T>(count);
  }
}

template <class T>
void expect_all(T const* data, std::size_t count, int value) {
  for (std::size_t k = 0; k < count; ++k) {
    if (data[k] != static_cast<T>(value)) throw blink::error("a wrong value");
  }
}

/// One call of a form by all ranks; throws if its result is wrong.
template <class T = int, class Ranks, class Reducer = blink::sum>
void call_form(Ranks& comm, form what, blink::schedule const& trees, std::size_t count,
               Reducer const& reduce = {}) {
  constexpr auto all_reduce = blink::collective::all_reduce;
  auto const ranks = static_cast<std::size_t>(comm.rank_count());
  auto&& in = make_buffer<T>(comm, count);
  auto&& out = make_buffer<T>(comm, count * ranks);
  std::fill(in.begin(), in.end(), static_cast<T>(comm.rank() + 1));
  T const* const from = in.data();
  int const total = comm.rank_count() * (comm.rank_count() + 1) / 2;
  auto& prepared = comm.prepare(trees);
  switch (what) {
    case form::sum:
      blink::all_reduce(comm, prepared, from, out.data(), count, reduce);
      return expect_all(out.data(), count, total);
    case form::gather:
      blink::all_gather(comm, prepared, from, out.data(), count);
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        expect_all(out.data() + peer * count, count, static_cast<int>(peer) + 1);
      }
      return;
    case form::grouped: {
      std::size_t const half = count / 2;
      std::vector<blink::buffer_part<T>> const parts{
          {from, out.data(), half}, {from + half, out.data() + half, count - half}};
      blink::grouped(comm, prepared, all_reduce, parts, reduce, 1000);
      return expect_all(out.data(), count, total);
    }
    case form::started: {
      // Ranks may choose different progress. Over MPI, only some threads may call.
      bool const has_thread = !requires { comm.expect_any_thread(); } && (count + ranks) % 2 == 0;
      blink::call_queue queue(comm,
                              has_thread ? blink::progress::thread : blink::progress::in_waits);
      auto call = queue.start(all_reduce, prepared, from, out.data(), count, reduce);
      while (comm.rank() == 0 && !call.test()) std::this_thread::yield();
      call.wait();
      return expect_all(out.data(), count, total);
    }
    case form::sparse: {
      auto mask = blink::block_mask(count, 16);
      mask.set(0);
      std::fill(in.begin() + static_cast<std::ptrdiff_t>(mask.length(0)), in.end(), T{});
      blink::all_reduce_sparse(comm, prepared, in.data(), mask, reduce);
      expect_all(from, mask.length(0), total);
      return expect_all(from + mask.length(0), count - mask.length(0), 0);
    }
    case form::exchange: {
      int const next = (comm.rank() + 1) % comm.rank_count();
      int const last = (comm.rank() + comm.rank_count() - 1) % comm.rank_count();
      blink::transfers list;
      list.send(next, from, count);
      list.receive(last, out.data(), count);
      blink::exchange(comm, blink::all_to_all_schedule(comm.rank_count()), list);
      return expect_all(out.data(), count, last + 1);
    }
  }
}

/// Makes the victim fail: `happen` or `nap` at the planned operation of this thread.
inline void arm(injection const& planned, void (*happen)(), void (*nap)()) {
  if (planned.is_mismatch()) return;
  injected_fault.operations_left = planned.operation;
  injected_fault.happen = planned.what == harm::delay ? nap : happen;
}

/// Checks the error that `call_on` threw on a rank.
///
/// Returns: the complaint about the error; empty if it reports the fault correctly
inline std::string complaint(blink::collective_error const& reported, injection const& planned) {
  std::string const text = reported.what();
  if (text.find("rank " + std::to_string(planned.victim)) == std::string::npos) {
    return "does not name the rank: " + text;
  }
  if (!planned.is_mismatch() && reported.peer != planned.victim) return "names: " + text;
  // A rank that leaves out the last call has left when its peers enter it.
  if (planned.what != harm::order && reported.disagrees != planned.is_mismatch()) {
    return "wrong about calls that differ: " + text;
  }
  return planned.what == harm::delay ? "did not wait: " + text : "";
}

/// Calls each form in turn; the victim fails in one of them. `entered`: when the last call began.
template <class Ranks>
void call_on(Ranks& comm, injection const& planned, bool is_victim,
             std::chrono::steady_clock::time_point& entered) {
  using clock_type = std::chrono::steady_clock;
  for (int call = 0; call < calls_of_loop; ++call) {
    entered = clock_type::now();
    bool const errs = is_victim && call == planned.call;
    auto what = planned.form_of(call);
    if (errs && planned.what == harm::order) continue;  // the next call comes too early
    if (errs && planned.what == harm::operation) {
      what = what == form::gather ? form::sum : form::gather;
    }
    std::size_t const count = planned.count + (errs && planned.what == harm::count ? 1 : 0);
    if (errs && planned.what == harm::type) {
      call_form<float>(comm, what, planned.source, count);
    } else if (errs && planned.what == harm::reducer) {
      call_form(comm, what, planned.source, count, blink::max{});
    } else {
      call_form(comm, what, planned.source, count);
    }
  }
  injected_fault.operations_left = -1;
  entered = clock_type::now();
  // All ranks depend on all: no rank leaves before the fault is seen.
  call_form(comm, form::sum, planned.source, planned.count);
}

/// Calls several forms on the ranks that are left.
template <class Ranks>
void call_again(Ranks& comm, injection const& planned) {
  for (int call = 0; call < 3; ++call) {
    auto const what = static_cast<form>((call + static_cast<int>(planned.seed)) % calls_of_loop);
    call_form(comm, what, blink::star_schedule(comm.rank_count()), planned.count);
  }
}

/// The end of one rank's part of a fault.
struct fault_end {
  /// "reported", "no fault", or a complaint about the error or the ranks that remain
  std::string text;
  double seconds = 0;  ///< from the beginning of the call that failed to its error
};

/// Runs one rank's part of a fault: the loop of calls and, if it fails, calls of the ranks that
/// remain.
///
/// Pre: the victim was armed.
template <class Ranks>
fault_end run_planned(Ranks& comm, injection const& planned) {
  using clock_type = std::chrono::steady_clock;
  bool const is_victim = comm.rank() == planned.victim;
  clock_type::time_point entered;
  try {
    call_on(comm, planned, is_victim, entered);
  } catch (blink::collective_error const& failure) {
    double const seconds = std::chrono::duration<double>(clock_type::now() - entered).count();
    // A victim that goes on later finds that its peers have continued without it.
    if (is_victim && planned.what <= harm::stop) return {"reported", seconds};
    if (auto wrong = complaint(failure, planned); !wrong.empty()) return {wrong, seconds};
    auto smaller = comm.shrink();
    if (smaller.rank_count() != planned.ranks - (planned.is_mismatch() ? 0 : 1)) {
      return {"shrunk to " + std::to_string(smaller.rank_count()), seconds};
    }
    call_again(smaller, planned);
    return {"reported", seconds};
  }
  injected_fault.operations_left = -1;
  return {"no fault"};
}

}  // namespace blink_test
