// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/error.hpp>

#include "recorded_calls.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

// Iterations of a training loop, found in the records of its calls, and what waiting costs in them.
// Times are in microseconds.

namespace blink::tools {

/// A part of a sequence of calls that repeats.
struct repetition {
  std::size_t first = 0;   ///< position of the first call
  std::size_t period = 0;  ///< calls of one iteration; 0: nothing repeats
  std::size_t calls = 0;   ///< of the part; the last iteration may be cut off

  [[nodiscard]] std::size_t iterations() const { return period == 0 ? 0 : calls / period; }
};

/// The longest part in which each call equals the one `period` before it; the first of equally
/// long ones.
///
/// calls: a number for each call, equal for equal calls
/// Post:  the part has two iterations or more, or `period` is 0.
/// Time:  O(calls).
[[nodiscard]] inline repetition longest_repetition(std::vector<std::size_t> const& calls,
                                                   std::size_t period) {
  repetition result;
  std::size_t equal = 0;  // calls in a row that equal the one a period before
  for (std::size_t k = period; period > 0 && k < calls.size(); ++k) {
    equal = calls[k] == calls[k - period] ? equal + 1 : 0;
    if (equal >= period && equal + period > result.calls) {
      result = {k + 1 - period - equal, period, equal + period};
    }
  }
  return result;
}

/// Periods above this are not looked for.
inline constexpr std::size_t longest_period = 1 << 14;

/// The longest part of a sequence that repeats, with its shortest period.
///
/// Calls before and behind it, such as those of a first broadcast, belong to no iteration.
///
/// Time: O(calls * periods), for periods up to `longest_period`.
[[nodiscard]] inline repetition find_repetition(std::vector<std::size_t> const& calls) {
  repetition result;
  std::size_t const most = std::min(calls.size() / 2, longest_period);
  for (std::size_t period = 1; period <= most; ++period) {
    auto const found = longest_repetition(calls, period);
    if (found.calls > result.calls) result = found;
  }
  return result;
}

/// The calls of one position in the iterations. Times are those of one call.
struct call_bucket {
  std::string collective;
  std::uint64_t bytes = 0;  ///< of one rank's buffer, or of one block
  bool is_eager = false;    ///< inputs travelled with the call
  double time = 0;          ///< the median over iterations of the mean over ranks
  // Means over iterations and ranks.
  double for_peers = 0, to_receive = 0, to_send = 0, mean = 0;
  std::map<std::pair<int, int>, double> sent;  ///< bytes by sender and receiver, means
  std::string busiest;                         ///< link or pair of ranks; empty: not known

  [[nodiscard]] double waiting() const { return for_peers + to_receive + to_send; }
  [[nodiscard]] double moving() const { return mean - waiting(); }
};

struct loop_options {
  std::size_t period = 0;   ///< calls of one iteration; 0: the shortest period is found
  std::size_t warm_up = 2;  ///< iterations that are left out first
};

/// The loop of one run.
struct loop_times {
  repetition found;
  std::size_t all_calls = 0;         ///< of each rank
  std::size_t counted = 0;           ///< iterations that count
  double iteration = 0;              ///< the median over iterations of the mean over ranks
  std::vector<call_bucket> buckets;  ///< by position in an iteration
  calls_of_ranks calls;              ///< of the iterations that count

  [[nodiscard]] std::size_t counted_calls() const { return counted * found.period; }
};

/// A number for each call of a rank, equal for calls of one collective and size.
[[nodiscard]] inline std::vector<std::size_t> numbered(std::vector<recorded_call> const& calls) {
  std::map<std::pair<std::string, std::uint64_t>, std::size_t> number;
  std::vector<std::size_t> result;
  for (auto const& call : calls) {
    auto const key = std::pair(call.collective, call.count * call.element_bytes);
    result.push_back(number.emplace(key, number.size()).first->second);
  }
  return result;
}

namespace stall_detail {

/// Throws: input_error for ranks with other numbers of calls, or a call that failed.
inline void expect_whole(calls_of_ranks const& calls) {
  auto const& [first, own] = *calls.begin();
  for (auto const& [rank, all] : calls) {
    if (all.size() != own.size()) {
      throw input_error("rank " + std::to_string(rank) + " ended " + std::to_string(all.size()) +
                        " calls, rank " + std::to_string(first) + " " + std::to_string(own.size()) +
                        ", expected equal numbers");
    }
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (all[k].is_ok) continue;
      throw input_error("call " + std::to_string(k + 1) + " of rank " + std::to_string(rank) +
                        " (" + all[k].collective + ") failed, expected calls without failures");
    }
  }
}

/// Returns calls [first, first + count) of each rank.
[[nodiscard]] inline calls_of_ranks part_of_calls(calls_of_ranks const& calls, std::size_t first,
                                                  std::size_t count) {
  calls_of_ranks result;
  for (auto const& [rank, all] : calls) {
    auto const begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    result[rank].assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  return result;
}

/// The name of the link with the most bytes for its rate, or of the pair with the most bytes.
[[nodiscard]] inline std::string busiest_of(calls_of_ranks const& calls) {
  auto const count = calls.begin()->second.size();
  auto used = links_of(calls, count);
  if (used.links.empty()) used = pairs_of(calls, count);
  std::string result;
  double most = 0;
  for (auto const& [name, use] : used.links) {
    auto const load =
        static_cast<double>(use.bytes) / (use.bytes_per_second > 0 ? use.bytes_per_second : 1);
    if (load > most) result = name;
    most = std::max(most, load);
  }
  return result;
}

/// calls: whole iterations of each rank
[[nodiscard]] inline call_bucket bucket_at(calls_of_ranks const& calls, std::size_t period,
                                           std::size_t position) {
  calls_of_ranks own;
  for (auto const& [rank, all] : calls) {
    for (auto k = position; k < all.size(); k += period) own[rank].push_back(all[k]);
  }
  auto const& first = own.begin()->second;
  call_bucket result;
  result.collective = first[0].collective;
  result.bytes = first[0].count * first[0].element_bytes;
  result.is_eager = true;
  double const weight = 1 / static_cast<double>(own.size() * first.size());
  std::vector<double> means(first.size(), 0);
  for (auto const& [rank, all] : own) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto const& call = all[i];
      means[i] += call.time / static_cast<double>(own.size());
      result.is_eager = result.is_eager && call.is_eager;
      result.mean += weight * call.time;
      result.for_peers += weight * call.for_peers;
      result.to_receive += weight * call.to_receive;
      result.to_send += weight * call.to_send;
      for (auto const& [peer, bytes] : call.to_peers) {
        result.sent[{rank, peer}] += static_cast<double>(bytes) / static_cast<double>(all.size());
      }
    }
  }
  result.time = median(means);
  result.busiest = busiest_of(own);
  return result;
}

}  // namespace stall_detail

/// Finds the loop of a run and its times.
///
/// An iteration lasts from the begin of its first call to that of the next iteration. So the last
/// one, whose end is not known, does not count.
///
/// Pre:    each rank has records; they are of equal calls, as `read_records` checks.
/// Throws: input_error if ranks ended different numbers of calls, a call failed, nothing repeats,
///         or no iteration is left.
[[nodiscard]] inline loop_times analyse_loop(calls_of_ranks const& calls,
                                             loop_options const& options) {
  stall_detail::expect_whole(calls);
  auto const numbers = numbered(calls.begin()->second);
  loop_times result;
  result.all_calls = numbers.size();
  result.found =
      options.period > 0 ? longest_repetition(numbers, options.period) : find_repetition(numbers);
  auto const& found = result.found;
  if (found.iterations() < options.warm_up + 2) {
    auto const what =
        found.period == 0
            ? "no repeated sequence" + (options.period > 0
                                            ? " of " + std::to_string(options.period) + " calls"
                                            : std::string())
            : std::to_string(found.iterations()) + " iterations of " +
                  std::to_string(found.period) + " calls";
    throw input_error(what + " among " + std::to_string(numbers.size()) +
                      " calls of each rank, expected at least " +
                      std::to_string(options.warm_up + 2) + " iterations: --warm-up leaves out " +
                      std::to_string(options.warm_up) + ", and the last has no end");
  }
  result.counted = found.iterations() - options.warm_up - 1;
  auto const first = found.first + options.warm_up * found.period;
  std::vector<double> durations(result.counted, 0);
  for (auto const& [rank, all] : calls) {
    for (std::size_t i = 0; i < result.counted; ++i) {
      auto const begin = first + i * found.period;
      durations[i] +=
          (all[begin + found.period].begin - all[begin].begin) / static_cast<double>(calls.size());
    }
  }
  result.iteration = median(durations);
  result.calls = stall_detail::part_of_calls(calls, first, result.counted_calls());
  for (std::size_t position = 0; position < found.period; ++position) {
    result.buckets.push_back(stall_detail::bucket_at(result.calls, found.period, position));
  }
  return result;
}

/// The time that an iteration takes longer than with fewer ranks and the same work for each.
struct stall_time {
  double microseconds = 0;
  double share = 0;  ///< of the iteration with fewer ranks; 0 if that takes no time
};

/// The interconnect stall of one rank alone and all ranks of a host, or the network stall of one
/// host and several.
///
/// Source: A. Sharma et al., "Stash: A Comprehensive Stall-Centric Characterization of Public Cloud
///         VMs for Distributed Deep Learning", ICDCS 2023.
[[nodiscard]] inline stall_time stall_between(loop_times const& fewer, loop_times const& more) {
  double const longer = more.iteration - fewer.iteration;
  return {longer, fewer.iteration > 0 ? longer / fewer.iteration : 0};
}

/// The time that a bucket would take if its data moved in `ratio` of the time. Waits for ranks that
/// enter late stay.
[[nodiscard]] inline double scaled_time(call_bucket const& bucket, double ratio) {
  double const late = bucket.mean > 0 ? bucket.time * bucket.for_peers / bucket.mean : 0;
  return late + (bucket.time - late) * ratio;
}

}  // namespace blink::tools
