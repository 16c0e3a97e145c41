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
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/topology/measured_rates.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
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

/// Measures patterns of messages between ranks.
template <communicator Comm>
class prober {
 public:
  prober(Comm& comm, probe_options const& options)
      : me_(comm),
        options_(options),
        meeting_(comm.prepare(star_schedule(comm.rank_count()))),
        count_(std::max<std::size_t>(1, options.bytes / sizeof(float))),
        input_(communicator_buffer<float>(comm, count_)),
        output_(communicator_buffer<float>(comm, count_)),
        longest_(communicator_buffer<double>(comm, 2)) {}

  [[nodiscard]] measured_rates measure() {
    measured_rates result;
    number_hosts(result);
    auto const count = result.ranks();
    result.alone.assign(count, std::vector<double>(count, 0));
    result.start_up = result.alone;
    result.together.assign(count, 0);
    measure_hosts(result);
    measure_pairs(result);
    return result;
  }

 private:
  using destinations = std::vector<int>;  // by rank; -1: sends nothing

  void number_hosts(measured_rates& result) {
    auto const hosts = hosts_of(me_);
    std::map<std::uint64_t, int> numbers;
    for (int rank = 0; rank < me_.rank_count(); ++rank) {
      auto const host = hosts.empty() ? 0 : hosts[static_cast<std::size_t>(rank)];
      result.host_of.push_back(
          numbers.try_emplace(host, static_cast<int>(numbers.size())).first->second);
    }
    ranks_.resize(numbers.size());
    for (std::size_t r = 0; r < result.ranks(); ++r) {
      ranks_[static_cast<std::size_t>(result.host_of[r])].push_back(static_cast<int>(r));
    }
    result.between.assign(ranks_.size(), std::vector<double>(ranks_.size(), 0));
    result.out.assign(ranks_.size(), 0);
    result.in.assign(ranks_.size(), 0);
  }

  [[nodiscard]] destinations no_messages() const {
    return destinations(static_cast<std::size_t>(me_.rank_count()), -1);
  }

  /// Measures ranks and hosts while all of their ranks send.
  void measure_hosts(measured_rates& result) {
    auto next_of_host = no_messages();
    bool has_any = false;
    for (auto const& ranks : ranks_) {
      for (std::size_t i = 0; i < ranks.size() && ranks.size() > 1; ++i) {
        next_of_host[static_cast<std::size_t>(ranks[i])] = ranks[(i + 1) % ranks.size()];
        has_any = true;
      }
    }
    if (has_any) {
      // Half of what an all-reduce moves is combined on arrival.
      auto const rate =
          2 * bytes() / (seconds_of(next_of_host, count_) + seconds_of(next_of_host, count_, true));
      for (std::size_t r = 0; r < next_of_host.size(); ++r) {
        if (next_of_host[r] >= 0) result.together[r] = rate;
      }
    }
    auto const hosts = ranks_.size();
    for (std::size_t a = 0; a < hosts; ++a) {
      for (std::size_t b = 0; b < hosts; ++b) {
        if (a == b || !has_time()) continue;
        auto pattern = no_messages();
        auto const flows = std::min(ranks_[a].size(), ranks_[b].size());
        for (std::size_t k = 0; k < flows; ++k) {
          pattern[static_cast<std::size_t>(ranks_[a][k])] = ranks_[b][k];
        }
        result.between[a][b] = rate_of(pattern) * static_cast<double>(flows);
      }
    }
    for (std::size_t a = 0; a < hosts && hosts > 1; ++a) {
      result.out[a] = spread(a, true);
      result.in[a] = spread(a, false);
      for (std::size_t b = 0; b < hosts; ++b) {
        result.out[a] = std::max(result.out[a], result.between[a][b]);
        result.in[a] = std::max(result.in[a], result.between[b][a]);
      }
    }
  }

  /// The rate out of a host or into it while each of its ranks has a partner on another host.
  [[nodiscard]] double spread(std::size_t host, bool is_out) {
    std::vector<int> others;  // one rank of each host, then the second of each, …
    for (std::size_t k = 0; others.size() < ranks_[host].size(); ++k) {
      bool has_more = false;
      for (std::size_t b = 0; b < ranks_.size(); ++b) {
        if (b == host || k >= ranks_[b].size()) continue;
        others.push_back(ranks_[b][k]);
        has_more = true;
      }
      if (!has_more) break;
    }
    auto pattern = no_messages();
    auto const flows = std::min(others.size(), ranks_[host].size());
    for (std::size_t k = 0; k < flows; ++k) {
      int const own = ranks_[host][k];
      pattern[static_cast<std::size_t>(is_out ? own : others[k])] = is_out ? others[k] : own;
    }
    return rate_of(pattern) * static_cast<double>(flows);
  }

  /// Each pair alone, in a random order, so that a short time is a fair sample.
  void measure_pairs(measured_rates& result) {
    std::vector<std::pair<int, int>> pairs;
    for (int a = 0; a < me_.rank_count(); ++a) {
      for (int b = 0; b < me_.rank_count(); ++b) {
        if (a != b) pairs.emplace_back(a, b);
      }
    }
    std::mt19937 order(1);  // the same on all ranks
    std::shuffle(pairs.begin(), pairs.end(), order);
    for (auto const& [a, b] : pairs) {
      if (!has_time()) return;
      auto pattern = no_messages();
      pattern[static_cast<std::size_t>(a)] = b;
      auto const at = [](auto& table, int row, int column) -> double& {
        return table[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
      };
      at(result.alone, a, b) = rate_of(pattern);
      at(result.start_up, a, b) = seconds_of(pattern, 1);
    }
  }

  /// Bytes per second of each message of a pattern.
  [[nodiscard]] double rate_of(destinations const& pattern) {
    return bytes() / seconds_of(pattern, count_);
  }
  [[nodiscard]] double bytes() const { return static_cast<double>(count_ * sizeof(float)); }

  /// The seconds of the fastest call, the same on all ranks: from a barrier to the last rank. It
  /// writes inputs before each call, because the time depends on whose cache has them.
  ///
  /// combines: each rank then adds what has arrived to its own data
  [[nodiscard]] double seconds_of(destinations const& pattern, std::size_t count,
                                  bool combines = false) {
    using clock = std::chrono::steady_clock;
    auto& prepared = prepare(permute_schedule(pattern));
    double least = 0;
    for (int call = 0; call <= options_.calls; ++call) {  // the first one makes connections
      std::fill_n(input_.data(), count, static_cast<float>(call));
      barrier(me_);
      auto const start = clock::now();
      permute(me_, prepared, input_.data(), output_.data(), count);
      for (std::size_t k = 0; combines && k < count; ++k) output_.data()[k] += input_.data()[k];
      longest_.data()[0] = std::chrono::duration<double>(clock::now() - start).count();
      all_reduce(me_, meeting_, static_cast<double const*>(longest_.data()), longest_.data(), 1,
                 max{});
      spent_ += longest_.data()[0];
      if (call > 0) least = call == 1 ? longest_.data()[0] : std::min(least, longest_.data()[0]);
    }
    return std::max(least, 1e-9);
  }
  [[nodiscard]] prepared_schedule& prepare(schedule const& source) {
    if constexpr (forgetting_communicator<Comm>) {
      return me_.prepare_for_call(source);
    } else {
      return me_.prepare(source);
    }
  }
  [[nodiscard]] bool has_time() const { return spent_ < options_.seconds; }

  Comm& me_;
  probe_options options_;
  prepared_schedule& meeting_;
  std::size_t count_;  ///< of elements of a large message
  decltype(communicator_buffer<float>(std::declval<Comm&>(), 0)) input_, output_;
  decltype(communicator_buffer<double>(std::declval<Comm&>(), 0)) longest_;
  std::vector<std::vector<int>> ranks_;  // by host
  double spent_ = 0;                     // the same on all ranks
};

}  // namespace detail

/// Measures what ranks move between each other: each pair alone, all ranks of a host at once, and
/// hosts with all their ranks at once. `fit_machine` makes a machine of the result. All ranks call
/// it together.
///
/// Time:   about `options.seconds`, and one pattern more. Pairs for which no time was left have
///         rate 0; they are a random sample, the same on each run.
/// Memory: two large messages on each rank, and connections of each measured pair.
/// Post:   the same result on all ranks.
/// Throws: precondition_error for options that are out of range; what calls throw.
template <communicator Comm>
[[nodiscard]] measured_rates probe(Comm& comm, probe_options const& options = {}) {
  expects(options.bytes > 0 && options.seconds > 0 && options.calls > 0,
          "probe: bytes, seconds and calls are not all positive, expected more than 0");
  return detail::prober<Comm>(comm, options).measure();
}

}}  // namespace blink::BLINK_ABI
