// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/call_timer.hpp>
#include <blink/collectives/probe.hpp>
#include <blink/core/collective.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/topology/best_ring.hpp>
#include <blink/topology/fit_machine.hpp>
#include <blink/topology/measured_rates.hpp>
#include <blink/topology/slow_links.hpp>
#include <blink/topology/topology.hpp>
#include <blink/topology/write_json.hpp>

#include "progress.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// What a probe shows. Shared by `blink probe` and the program for ranks of MPI.

namespace blink::tools {

struct probe_request {
  probe_options options;
  std::optional<topology> described;  ///< the machine as it should be
  double bytes_per_unit = 1e9;        ///< bytes per second of one unit of `described`
};

/// An all-reduce that checks the machine.
struct probe_check {
  char const* planner;
  double predicted;  ///< seconds
  double measured;
  double rate = 0;  ///< of the plan, in GB/s
  std::size_t bytes = 0;
};

struct probe_result {
  measured_rates rates;
  topology machine;
  ring_order ring;  ///< for a library of one ring; rank 0 only
  std::vector<link_difference> slow;
  std::vector<probe_check> checks;
};

namespace probe_text {

inline void print_matrix(char const* title, std::vector<std::vector<double>> const& table,
                         double scale) {
  constexpr std::size_t widest = 16;
  if (table.size() < 2) return;
  if (table.size() > widest) {
    std::printf("\n%s: more than %zu, not shown\n", title, widest);
    return;
  }
  std::printf("\n%s\n\n  %5s", title, "");
  for (std::size_t b = 0; b < table.size(); ++b) std::printf(" %8zu", b);
  std::printf("\n");
  for (std::size_t a = 0; a < table.size(); ++a) {
    std::printf("  %5zu", a);
    for (std::size_t b = 0; b < table.size(); ++b) {
      a == b || table[a][b] <= 0 ? std::printf(" %8s", a == b ? "-" : "?")
                                 : std::printf(" %8.3f", table[a][b] * scale);
    }
    std::printf("\n");
  }
}

/// A rate in GB/s; "?" if no time was left for it.
inline std::string gigabytes(double bytes_per_second) {
  if (bytes_per_second <= 0) return "?";
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", bytes_per_second * 1e-9);
  return text;
}

/// Numbers such as 0-3,8.
inline std::string ranges_of(std::vector<std::size_t> const& sorted) {
  std::string result;
  for (std::size_t first = 0, end = 0; first < sorted.size(); first = end) {
    for (end = first + 1; end < sorted.size() && sorted[end] == sorted[end - 1] + 1;) ++end;
    result += (first == 0 ? "" : ",") + std::to_string(sorted[first]);
    if (end > first + 1) result += "-" + std::to_string(sorted[end - 1]);
  }
  return result;
}

/// The ratio of what the parts of a cluster can move to its uplink, as text; empty: not known.
inline std::string shared_by(double uplink, std::vector<double> const& of_parts) {
  double all = 0;
  for (double const each : of_parts) all += each;
  if (uplink <= 0 || all <= 0 || of_parts.size() < 2) return "";
  char text[64];
  std::snprintf(text, sizeof text, ", shared %.1f to 1", all / uplink);
  return text;
}

/// The clusters of all levels, the innermost first, and what shares their uplinks.
inline void print_clusters(measured_rates const& rates, char const* of) {
  detail::cluster_flows const flows(rates);
  for (std::size_t level = 0; level < rates.levels.size(); ++level) {
    auto const& here = rates.levels[level];
    auto const title = level == 0 ? std::string("clusters of ") + of
                                  : "level " + std::to_string(level + 1) + ", of those clusters";
    std::printf("\n%s, and their rates to all others\n\n", title.c_str());
    auto const parts = flows.parts(level);
    auto const members = rates.hosts_of_clusters(level);
    for (std::size_t c = 0; c < members.size(); ++c) {
      std::vector<double> below;
      for (auto const part : parts[c]) {
        below.push_back(level == 0 ? rates.out[part] : rates.levels[level - 1].out[part]);
      }
      std::printf("cluster %zu: %s out, %s in%s, %s %s\n", c, gigabytes(here.out[c]).c_str(),
                  gigabytes(here.in[c]).c_str(), shared_by(here.out[c], below).c_str(), of,
                  ranges_of(members[c]).c_str());
    }
    print_matrix("clusters, with all that they have", here.between, 1e-9);
  }
}

inline void print(measured_rates const& rates, char const* joined, probe_options const& options) {
  std::printf("# blink probe: %zu ranks as %s on %zu host%s, messages of %zu bytes, GB/s\n",
              rates.ranks(), joined, rates.hosts(), rates.hosts() == 1 ? "" : "s", options.bytes);
  print_matrix("a pair alone, from the row's rank to the column's", rates.alone, 1e-9);
  print_matrix("microseconds from a small message to its answer", rates.start_up, 1e6);
  bool has_any = false;
  for (double const each : rates.together) has_any = has_any || each > 0;
  if (has_any) {
    std::printf("\neach rank while all ranks of its host send to the next one:");
    for (double const each : rates.together) {
      each > 0 ? std::printf(" %.3f", each * 1e-9) : std::printf(" -");
    }
    std::printf("\n");
  }
  print_matrix("hosts, with all of their ranks", rates.between, 1e-9);
  print_matrix("the same while all hosts exchange data in pairs", rates.loaded, 1e-9);
  for (std::size_t host = 0; host < rates.hosts() && rates.hosts() > 1; ++host) {
    std::printf("%shost %zu: %s out, %s in\n", host == 0 ? "\n" : "", host,
                gigabytes(rates.out[host]).c_str(), gigabytes(rates.in[host]).c_str());
  }
  print_clusters(rates, "hosts");
}

inline std::string comma_list(std::vector<int> const& numbers) {
  std::string result;
  for (int const each : numbers) result += (result.empty() ? "" : ",") + std::to_string(each);
  return result;
}

/// The order of a ring's ranks, where it is faster than that of their numbers.
inline void print_ring(ring_order const& order, measured_rates const& rates, double bytes,
                       double step_seconds) {
  constexpr double least_gain = 1.05;
  if (order.gain() <= least_gain) return;
  auto const milliseconds = [&](ring_cost const& cost) {
    return 1e3 * ring_all_reduce_seconds(cost, rates.ranks(), bytes, step_seconds);
  };
  std::printf(
      "\nfor a library of one ring, ranks in this order are %.2f times as fast:\n"
      "  all-reduce of %.0f bytes: %.3g ms as they are, %.3g ms in this order, predicted\n"
      "  ranks %s\n",
      order.gain(), bytes, milliseconds(order.as_they_are), milliseconds(order.cost),
      comma_list(order.ranks).c_str());
  std::vector<int> hosts;
  for (int const rank : order.ranks) {
    int const host = rates.host_of[static_cast<std::size_t>(rank)];
    if (std::ranges::count(hosts, host) == 0) hosts.push_back(host);
  }
  if (hosts.size() > 1) std::printf("  hosts %s\n", comma_list(hosts).c_str());
}

/// Links whose rates are not those described.
inline void print_links(char const* how, std::vector<link_difference> const& links) {
  std::printf("\nlinks more than 20 %% %s than described: %zu\n", how, links.size());
  for (auto const& one : links) {
    std::printf("  %d -> %d: %.4g GB/s, described %.4g\n", one.from, one.to, one.measured * 1e-9,
                one.described * 1e-9);
  }
}

/// A rankfile of Open MPI that gives the ranks this order: rank k of the next job is where rank
/// `order[k]` was.
///
/// names: by rank: the name of its host
inline std::string rankfile(std::vector<int> const& order, std::vector<std::string> const& names) {
  std::map<std::string, int> found;  // by host: ranks so far
  std::vector<int> place;            // by rank: its number on its host
  for (auto const& name : names) place.push_back(found[name]++);
  std::string result;
  for (std::size_t k = 0; k < order.size(); ++k) {
    auto const old = static_cast<std::size_t>(order[k]);
    result += "rank " + std::to_string(k) + "=" + names[old] +
              " slot=" + std::to_string(place[old]) + "\n";
  }
  return result;
}

}  // namespace probe_text

/// Probes, fits a machine, and checks it by all-reduces along two plans for it. All ranks call it,
/// and rank 0 prints.
///
/// joined: the kind of ranks, in words
/// Throws: what `probe`, `make_plan` and calls throw.
template <communicator Comm>
[[nodiscard]] probe_result run_probe(Comm& comm, probe_request const& request, char const* joined) {
  namespace show = probe_text;
  bool const prints = comm.rank() == 0;
  std::optional<progress> bar;
  if (prints) bar.emplace("measuring pairs of ranks", 0, request.options.seconds);
  auto const rates = probe(comm, request.options);
  bar.reset();
  probe_result result;
  result.rates = rates;
  result.machine = fit_machine(rates);
  result.machine.name = "probe";
  if (prints) show::print(rates, joined, request.options);
  if (rates.ranks() > 1) {
    cost_parameters parameters;
    parameters.step_seconds = common_start_up(rates) / 2;
    // A message for each rank, of at most 16.
    constexpr std::size_t most_messages = 16;
    auto const checked_bytes = request.options.bytes * std::min(rates.ranks(), most_messages);
    detail::call_timer<Comm> timer(comm, collective::all_reduce, checked_bytes);
    if (prints) {
      std::printf("\nall-reduce of %zu bytes %14s %14s %14s\n", checked_bytes, "GB/s",
                  "predicted us", "measured us");
    }
    // Optimal trees among many unequal hosts may take longer to find than all measurements.
    constexpr std::size_t most_ranks = 64;
    auto const* const trees =
        rates.ranks() <= most_ranks ? planned_by::exact : planned_by::double_tree;
    for (auto const* const planner : {trees, planned_by::ring}) {
      // All ranks find the same plan, because they have the same rates.
      plan_request wanted{collective::all_reduce};
      wanted.planner = planner;
      auto const plan = make_plan(result.machine, wanted);
      probe_check check{planner, 0, 0, plan.rate.to_double(), checked_bytes};
      check.predicted =
          predict(cost_of(result.machine, plan, parameters), static_cast<double>(checked_bytes))
              .seconds;
      auto& prepared = comm.prepare(make_schedule(result.machine, plan));
      check.measured = timer.quartiles({{&prepared, 0}}, 9, 2.0)[0];
      if (prints) {
        std::printf("  %-20s %19.4g %14.0f %14.0f\n", planner, plan.rate.to_double(),
                    check.predicted * 1e6, check.measured * 1e6);
      }
      result.checks.push_back(check);
    }
    if (prints) {
      result.ring = best_ring(result.machine);
      show::print_ring(result.ring, rates, static_cast<double>(checked_bytes),
                       parameters.step_seconds);
    }
  }
  if (request.described) {
    result.slow = slow_links(*request.described, rates, request.bytes_per_unit);
    if (prints) {
      show::print_links("slower", result.slow);
    }
  }
  return result;
}

}  // namespace blink::tools
