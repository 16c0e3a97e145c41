// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/cuda/calls/device_stall.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>
#include <blink/transports/host/host_processes.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One process's report to the others about a call that failed on its devices.
struct device_process_report {
  /// hash of the schedule; 0: no kernel of this process has failed
  std::uint64_t schedule_hash = 0;
  collective kind = collective::broadcast;
  /// of a call from the user's kernel; -1: it is the communicator's own call
  std::int64_t channel = -1;
  std::uint32_t count = 0;
  std::array<device_rank_report, device_call::most_ranks> ranks{};

  /// Throws nothing: at most `most_ranks` reports are kept, which is the largest number of ranks.
  void set(std::uint64_t its_schedule, collective its_kind,
           std::vector<device_rank_report> const& its_ranks, std::int64_t its_channel = -1) {
    schedule_hash = its_schedule;
    kind = its_kind;
    channel = its_channel;
    count = static_cast<std::uint32_t>(std::min(its_ranks.size(), ranks.size()));
    std::copy_n(its_ranks.begin(), count, ranks.begin());
  }
  /// The call in words, such as "all_reduce in channel 3".
  [[nodiscard]] std::string call() const {
    std::string const name(to_text(kind));
    return channel < 0 ? name : name + " in channel " + std::to_string(channel);
  }
};

/// Returns the first report of a failed kernel, because other processes may be in other calls.
///
/// Pre: there is a report.
[[nodiscard]] inline device_process_report const& call_reported_of(
    std::vector<device_process_report> const& reports) {
  for (auto const& each : reports) {
    if (each.schedule_hash != 0) return each;
  }
  return reports[0];
}

/// True if two reports are about the same call: schedule, collective and channel.
[[nodiscard]] inline bool are_of_one_call(device_process_report const& a,
                                          device_process_report const& b) {
  return a.schedule_hash == b.schedule_hash && a.kind == b.kind && a.channel == b.channel;
}

/// The reports of the ranks in one call.
struct ranks_reported_of {
  std::vector<device_rank_report> all{};
  std::uint64_t newest = 0;  ///< the most calls that one of them has begun
};
/// Returns the reports of the ranks about `call`, out of the reports of all processes.
[[nodiscard]] inline ranks_reported_of ranks_in(device_process_report const& call,
                                                std::vector<device_process_report> const& reports) {
  ranks_reported_of result;
  for (auto const& each : reports) {
    if (!are_of_one_call(each, call)) continue;
    result.all.insert(result.all.end(), each.ranks.begin(), each.ranks.begin() + each.count);
  }
  for (auto const& each : result.all) result.newest = std::max(result.newest, each.calls);
  return result;
}

/// The state of each rank in the failed call. A rank of another process has not begun it unless
/// that process reports it.
[[nodiscard]] inline std::vector<device_rank_state> judge_reports(
    rank_placement const& where, std::vector<device_process_report> const& reports) {
  auto const& call = call_reported_of(reports);
  auto const ranks = ranks_in(call, reports);
  auto result = judge_ranks(where, ranks.all);
  if (call.channel < 0) return result;
  // A process whose kernels have all ended well reports nothing, so a kernel may have begun and
  // ended.
  for (auto& state : result) state.absence = "its kernel has not made this call";
  for (auto const& each : ranks.all) {
    auto& state = result[static_cast<std::size_t>(each.rank)];
    if (state.has_begun) continue;
    state.absence = "its kernel has made " + std::to_string(each.calls) +
                    " calls in this channel, others " + std::to_string(ranks.newest);
  }
  for (auto const& each : reports) {
    if (each.schedule_hash == 0 || are_of_one_call(each, call)) continue;
    for (std::uint32_t k = 0; k < each.count; ++k) {
      result[static_cast<std::size_t>(each.ranks[k].rank)].absence =
          "its process reports " + each.call();
    }
  }
  return result;
}

/// Returns the error about two ranks that have begun a call from their kernels with different
/// counts, if there are such ranks.
[[nodiscard]] inline std::optional<collective_error> find_unlike_counts(
    rank_placement const& where, std::vector<device_process_report> const& reports) {
  auto const& call = call_reported_of(reports);
  auto [begun, newest] = ranks_in(call, reports);
  std::erase_if(begun, [most = newest](auto const& each) { return each.calls != most; });
  for (auto const& each : begun) {
    if (each.count == begun[0].count) continue;
    return collective_error(call.call() + ": ranks disagree: " + where.name(begun[0].rank) +
                                " has called it with count " + std::to_string(begun[0].count) +
                                ", " + where.name(each.rank) + " with count " +
                                std::to_string(each.count),
                            begun[0].rank, each.rank, -1, -1, true);
  }
  return std::nullopt;
}

/// Returns the error that follows from all reports of a failed call.
[[nodiscard]] inline collective_error describe_reports(
    rank_placement const& where, std::vector<device_process_report> const& reports,
    std::vector<device_rank_state> const& states, double deadline_seconds) {
  if (auto const difference = find_unlike_counts(where, reports)) return *difference;
  return describe_device_stall(where, call_reported_of(reports).call(), states, deadline_seconds);
}

/// Returns the cause of a failed call of several processes: the first failure that one of them has
/// found, or else the result of all reports.
///
/// Waits for the reports of the other processes, but no longer than a second or a deadline: a
/// process need not look at its devices.
[[nodiscard]] inline collective_error find_cause_among(host_processes& all,
                                                       rank_placement const& where,
                                                       device_process_report const& own) {
  all.report(own);
  auto const end = std::chrono::steady_clock::now() +
                   std::min<std::chrono::nanoseconds>(all.deadline(), std::chrono::seconds(1));
  auto const is_expected = [&](int peer) {
    return all.loss_of(peer).empty() && all.calls(peer) >= all.calls(all.process()) &&
           !all.report_of<device_process_report>(peer);
  };
  for (int peer = 0; peer < all.count() && !all.has_failed();) {
    if (!is_expected(peer) || std::chrono::steady_clock::now() > end) {
      ++peer;
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  if (!all.has_failed()) {
    std::vector<device_process_report> reports{own};
    for (int peer = 0; peer < all.count(); ++peer) {
      if (peer == all.process()) continue;
      if (auto const theirs = all.report_of<device_process_report>(peer))
        reports.push_back(*theirs);
    }
    auto states = judge_reports(where, reports);
    for (std::size_t rank = 0; rank < states.size(); ++rank) {
      auto& state = states[rank];
      if (state.has_begun) continue;
      int const process = where.of_rank(static_cast<int>(rank)).process;
      auto const lost = all.loss_of(process);
      auto const calls = all.calls(process), mine = all.calls(all.process());
      if (!lost.empty()) {
        state.absence = all.name(process) + " " + lost;
      } else if (calls < mine) {
        state.absence = all.name(process) + " has made " + std::to_string(calls) +
                        " calls, process " + std::to_string(all.process()) + " has made " +
                        std::to_string(mine);
      }
    }
    double const seconds = std::chrono::duration<double>(all.deadline()).count();
    all.fail(describe_reports(where, reports, states, seconds));
  }
  return all.failure();
}

}}  // namespace blink::BLINK_ABI
