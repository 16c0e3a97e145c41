// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/call_timer.hpp>
#include <blink/collectives/probe.hpp>
#include <blink/core/collective.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/topology/measured_rates.hpp>
#include <blink/topology/topology.hpp>
#include <blink/topology/write_json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
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
};

struct probe_result {
  topology machine;
  std::vector<slow_link> slow;
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

inline double median_of(std::vector<std::vector<double>> const& table) {
  std::vector<double> all;
  for (auto const& row : table) {
    for (double const each : row) {
      if (each > 0) all.push_back(each);
    }
  }
  if (all.empty()) return 0;
  auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

inline void print(measured_rates const& rates, char const* joined, probe_options const& options) {
  std::printf("# blink probe: %zu ranks as %s on %zu host%s, messages of %zu bytes, GB/s\n",
              rates.ranks(), joined, rates.hosts(), rates.hosts() == 1 ? "" : "s", options.bytes);
  print_matrix("a pair alone, from the row's rank to the column's", rates.alone, 1e-9);
  print_matrix("microseconds of a byte", rates.start_up, 1e6);
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
  for (std::size_t host = 0; host < rates.hosts() && rates.hosts() > 1; ++host) {
    std::printf("%shost %zu: %.3f out, %.3f in\n", host == 0 ? "\n" : "", host,
                rates.out[host] * 1e-9, rates.in[host] * 1e-9);
  }
}

inline void print_ring(ring_order const& order) {
  constexpr double least_gain = 1.05;
  if (order.slowest <= order.slowest_as_they_are * least_gain) return;
  std::printf("\nfor a library of one ring, ranks in this order are %.2f times as fast:\n ",
              order.slowest / order.slowest_as_they_are);
  for (int const rank : order.ranks) std::printf(" %d", rank);
  std::printf("\n");
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
  auto const rates = probe(comm, request.options);
  probe_result result;
  result.machine = fit_machine(rates);
  result.machine.name = "probe";
  if (prints) show::print(rates, joined, request.options);
  if (rates.ranks() > 1) {
    cost_parameters parameters;
    parameters.step_seconds = show::median_of(rates.start_up) / 2;
    auto const checked_bytes = request.options.bytes * rates.ranks();  // a message for each rank
    detail::call_timer<Comm> timer(comm, collective::all_reduce, checked_bytes);
    if (prints) {
      std::printf("\nall-reduce of %zu bytes %14s %14s %14s\n", checked_bytes, "GB/s",
                  "predicted us", "measured us");
    }
    for (auto const* const planner : {planned_by::exact, planned_by::ring}) {
      // All ranks find the same plan, because they have the same rates.
      plan_request wanted{collective::all_reduce};
      wanted.planner = planner;
      auto const plan = make_plan(result.machine, wanted);
      probe_check check{planner, 0, 0};
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
    if (prints) show::print_ring(best_ring(rates));
  }
  if (request.described) {
    result.slow = slow_links(*request.described, rates, request.bytes_per_unit);
    if (prints) {
      std::printf("\nlinks more than 20 %% slower than described: %zu\n", result.slow.size());
      for (auto const& one : result.slow) {
        std::printf("  %d -> %d: %.4g GB/s, described %.4g\n", one.from, one.to,
                    one.measured * 1e-9, one.described * 1e-9);
      }
    }
  }
  return result;
}

}  // namespace blink::tools
