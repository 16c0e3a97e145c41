// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/collective_error.hpp>
#include <blink/config.hpp>
#include <blink/transports/cuda/device_call.hpp>
#include <blink/transports/cuda/device_stall.hpp>
#include <blink/transports/cuda/rank_placement.hpp>
#include <blink/transports/host_processes.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace blink::inline BLINK_ABI {

/// What one process tells the others of a call that failed on its devices.
struct device_process_report {
  std::uint64_t plan = 0;  ///< fingerprint of the schedule; 0: no kernel of this process has failed
  collective kind = collective::broadcast;
  std::uint32_t count = 0;
  std::array<device_rank_report, device_call::most_ranks> ranks{};

  /// Throws nothing: at most `most_ranks` are kept, which is as many as there can be.
  void set(std::uint64_t its_plan, collective its_kind,
           std::vector<device_rank_report> const& its_ranks) {
    plan = its_plan;
    kind = its_kind;
    count = static_cast<std::uint32_t>(std::min(its_ranks.size(), ranks.size()));
    std::copy_n(its_ranks.begin(), count, ranks.begin());
  }
};

/// The first with a kernel that has failed: other processes may be in other calls.
///
/// Pre: there is a report.
[[nodiscard]] inline device_process_report const& call_told_of(
    std::vector<device_process_report> const& reports) {
  for (auto const& each : reports) {
    if (each.plan != 0) return each;
  }
  return reports[0];
}

/// Where all ranks stand in that call. Those of other processes have not begun it if these do not
/// report it.
[[nodiscard]] inline std::vector<device_rank_state> judge_reports(
    rank_placement const& where, std::vector<device_process_report> const& reports) {
  auto const& call = call_told_of(reports);
  std::vector<device_rank_report> ranks;
  for (auto const& each : reports) {
    if (each.plan != call.plan || each.kind != call.kind) continue;
    ranks.insert(ranks.end(), each.ranks.begin(), each.ranks.begin() + each.count);
  }
  return judge_ranks(where, ranks);
}

/// Why a call of several processes has failed: what the first of them has found out, or else what
/// all that is reported comes to.
///
/// Waits until the others have reported too, as far as they can be expected to, but not longer than a
/// second or a deadline: a process need not look at its devices.
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
    all.fail(describe_device_stall(where, call_told_of(reports).kind, states, seconds));
  }
  return all.failure();
}

}  // namespace blink::inline BLINK_ABI
