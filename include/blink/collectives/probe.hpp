// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/all_reduce.hpp>
#include <blink/collectives/barrier.hpp>
#include <blink/collectives/permute.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/communicator_buffer.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/topology/detail/measure_rates.hpp>
#include <blink/topology/detail/message_pattern.hpp>
#include <blink/topology/host_clusters.hpp>
#include <blink/topology/measured_rates.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Options of `probe`. Equal on all ranks.
struct probe_options {
  std::size_t bytes = std::size_t{4} << 20;  ///< of a large message
  double seconds = 10;                       ///< for all: then the remaining pairs are left out
  int calls = 5;                             ///< of each pattern; the fastest counts
};

namespace detail {

/// Measures patterns of messages between the ranks of a communicator: a `pattern_meter`.
template <communicator Comm>
class communicator_meter {
 public:
  communicator_meter(Comm& comm, probe_options const& options, bool is_one_host)
      : me_(comm),
        options_(options),
        meeting_(comm.prepare(meeting_schedule(comm.rank_count()))),
        count_(std::max<std::size_t>(1, options.bytes / sizeof(float))),
        input_(communicator_buffer<float>(comm, std::max(count_, small_chunks))),
        output_(communicator_buffer<float>(comm, std::max(count_, small_chunks))),
        is_one_host_(is_one_host),
        agreed_(communicator_buffer<double>(
            comm, std::max(static_cast<std::size_t>(comm.rank_count()),
                           static_cast<std::size_t>(options.calls) + 1))) {}

  /// Measures the fastest call, from a barrier to the last rank. Small messages are an exception:
  /// each rank's fastest exchange counts, because pairs do not compete.
  [[nodiscard]] pattern_seconds measure(message_pattern const& pattern) {
    auto& prepared = prepare(permute_schedule(pattern.to));
    auto const calls = static_cast<std::size_t>(options_.calls);
    std::vector<double> own;
    for (std::size_t call = 0; call <= calls; ++call) {  // the first one makes connections
      auto const seconds =
          pattern.is_small ? small_seconds(prepared) : large_seconds(prepared, pattern.combines);
      if (call > 0) own.push_back(seconds);
    }
    auto longest = own;  // by call, of all ranks; then the time since the beginning
    longest.push_back(seconds_since(begin_));
    agree_on_largest(longest);
    spent_ = longest.back();
    longest.pop_back();
    auto const fastest = std::ranges::min_element(longest);
    std::vector<double> by_rank(pattern.to.size(), 0);
    auto const rank = static_cast<std::size_t>(me_.rank());
    by_rank[rank] = pattern.is_small ? *std::ranges::min_element(own)
                                     : own[static_cast<std::size_t>(fastest - longest.begin())];
    agree_on_largest(by_rank);
    pattern_seconds result{std::max(*fastest, least_seconds),
                           std::vector<double>(by_rank.size(), 0)};
    for (std::size_t r = 0; r < by_rank.size(); ++r) {
      if (pattern.to[r] < 0) continue;
      result.of[r] = std::max(by_rank[static_cast<std::size_t>(pattern.to[r])], least_seconds);
    }
    return result;
  }
  [[nodiscard]] double bytes() const { return static_cast<double>(count_ * sizeof(float)); }
  /// Equal on all ranks.
  [[nodiscard]] bool has_time(double share) const { return spent_ < share * options_.seconds; }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr double least_seconds = 1e-9;
  static constexpr std::size_t small_chunks = 32;

  [[nodiscard]] static schedule meeting_schedule(int ranks) {
    constexpr int few = 8;  // ranks
    return ranks <= few ? star_schedule(ranks) : binomial_schedule(ranks, 0);
  }
  [[nodiscard]] static double seconds_since(clock::time_point begin) {
    return std::chrono::duration<double>(clock::now() - begin).count();
  }
  void agree_on_largest(std::vector<double>& values) {
    std::ranges::copy(values, agreed_.data());
    all_reduce(me_, meeting_, static_cast<double const*>(agreed_.data()), agreed_.data(),
               values.size(), max{});
    std::copy_n(agreed_.data(), values.size(), values.begin());
  }
  /// It writes inputs before the call, because the time depends on whose cache has them.
  [[nodiscard]] double large_seconds(prepared_schedule& prepared, bool combines) {
    std::fill_n(input_.data(), count_, ++round_);
    barrier(me_);
    auto const start = clock::now();
    permute(me_, prepared, input_.data(), output_.data(), count_);
    for (std::size_t k = 0; combines && k < count_; ++k) output_.data()[k] += input_.data()[k];
    return seconds_since(start);
  }
  /// The time from a small message to its answer. A message before it makes the ranks of a pair
  /// begin together.
  ///
  /// On one host that is the mean of some calls. Among hosts, calls of few ranks wait for
  /// announcements of all ranks, and so for the slowest pair. Chunks of one call do not. Two of
  /// them, the least window, are on the way until the receiver has answered.
  [[nodiscard]] double small_seconds(prepared_schedule& prepared) {
    auto const exchange = [&] { permute(me_, prepared, input_.data(), output_.data(), 1); };
    input_.data()[0] = ++round_;
    barrier(me_);
    exchange();
    auto const start = clock::now();
    if (is_one_host_) {
      constexpr int exchanges = 4;  // an even number cancels the rest of the difference
      for (int k = 0; k < exchanges; ++k) exchange();
      return seconds_since(start) / exchanges;
    }
    permute<fixed_chunks<1>>(me_, prepared, input_.data(), output_.data(), small_chunks);
    return seconds_since(start) / (small_chunks / 2);
  }
  [[nodiscard]] prepared_schedule& prepare(schedule const& source) {
    if constexpr (forgetting_communicator<Comm>) {
      return me_.prepare_for_call(source);
    } else {
      return me_.prepare(source);
    }
  }

  Comm& me_;
  probe_options options_;
  prepared_schedule& meeting_;
  std::size_t count_;  ///< of elements of a large message
  decltype(communicator_buffer<float>(std::declval<Comm&>(), 0)) input_, output_;
  bool is_one_host_;
  decltype(communicator_buffer<double>(std::declval<Comm&>(), 0)) agreed_;
  float round_ = 0;
  clock::time_point begin_ = clock::now();
  double spent_ = 0;  // the same on all ranks
};

/// The number of each rank's host, from 0 by their first ranks.
template <communicator Comm>
[[nodiscard]] std::vector<int> numbered_hosts(Comm const& comm) {
  auto hosts = hosts_of(comm);
  hosts.resize(static_cast<std::size_t>(comm.rank_count()));  // one host, if none is known
  return numbered_by_first(hosts);
}

}  // namespace detail

/// Measures what ranks move between each other: ranks of a host at once, hosts in pairs, clusters
/// of hosts, and pairs of ranks alone. `fit_machine` makes a machine of the result. All ranks call
/// it together.
///
/// Of at most 8 hosts, each pair of hosts and each pair of ranks is measured alone. Of more, the
/// patterns are
/// - start-ups of all pairs of hosts, all hosts at once: H - 1 rounds of a tournament, 8 of them
///   twice;
/// - large messages between pairs, all hosts of a cluster at once: at most 8 (log2 H + 1) rounds in
///   each level, a random sample, and two for each cluster if some hosts met none of theirs;
/// - each cluster to others and back, and pairs of clusters of all levels: at most 12 C, or twice
///   where rates are low;
/// - pairs of hosts alone, at most 11 C, and each host to others and back, one of each cluster at
///   once;
/// - pairs of ranks inside hosts, all hosts at once: at most 2 R (R - 1),
///
/// for H hosts of R ranks in C clusters of L levels: O(H + L log H + R^2) patterns.
///
/// Time:   about `options.seconds`, and one pattern more. What no time was left for has rate 0.
///         Pairs that were measured are a random sample, the same on each run.
/// Memory: two large messages on each rank, 16 n^2 bytes for n ranks, and connections of each
///         measured pair.
/// Post:   the same result on all ranks.
/// Throws: precondition_error for options that are out of range; what calls throw.
template <communicator Comm>
[[nodiscard]] measured_rates probe(Comm& comm, probe_options const& options = {}) {
  expects(options.bytes > 0 && options.seconds > 0 && options.calls > 0,
          "probe: bytes, seconds and calls are not all positive, expected more than 0");
  auto hosts = detail::numbered_hosts(comm);
  bool const is_one_host = std::ranges::count(hosts, 0) == std::ssize(hosts);
  detail::communicator_meter<Comm> meter(comm, options, is_one_host);
  return detail::rate_measurer(meter, std::move(hosts)).measure();
}

}}  // namespace blink::BLINK_ABI
