// SPDX-License-Identifier: Apache-2.0
// Plans in blink's simulation beside the same plans in SimGrid, which shares no code with it.
//
//   usage: referee_bench [--table] [MACHINE…]
//
// Prints the time of each size. `--table` prints the table of docs/results/referee.md instead, with
// a row for each collective. Machines are those of `referee_machines`; default: all.
#include "referee_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace blink_bench;

constexpr double mebibyte = 1 << 20;

std::vector<double> const sizes{mebibyte,      4 * mebibyte,   16 * mebibyte,
                                64 * mebibyte, 256 * mebibyte, 1024 * mebibyte};

struct difference {
  double percent = 0;
  double bytes = 0;
};

/// The difference of the largest size, with its sign.
template <class Time>
difference largest_difference(std::vector<compared_times> const& rows, Time blink, Time simgrid) {
  difference result;
  for (auto const& row : rows) {
    double const percent = 100 * (row.*blink / row.*simgrid - 1);
    if (std::abs(percent) > std::abs(result.percent)) result = {percent, row.bytes};
  }
  return result;
}

std::string in_words(difference const& of) {
  char text[64];
  if (std::abs(of.percent) < 0.005) return "0.00 %";
  std::snprintf(text, sizeof text, "%+.2f %% at %.0f MiB", of.percent, of.bytes / mebibyte);
  return text;
}

void print_table_row(std::string const& machine, std::string const& collective,
                     std::vector<compared_times> const& rows) {
  std::printf(
      "| %s | %s | %.1f | %.0f at %.0f MiB | %s | %s | %s |\n", machine.c_str(), collective.c_str(),
      rows.front().simgrid_fair * 1e6, rows.back().simgrid_fair * 1e6, rows.back().bytes / mebibyte,
      in_words(largest_difference(rows, &compared_times::blink_fair, &compared_times::simgrid_fair))
          .c_str(),
      in_words(
          largest_difference(rows, &compared_times::blink_fifo, &compared_times::simgrid_in_turn))
          .c_str(),
      in_words(largest_difference(rows, &compared_times::blink_fifo, &compared_times::simgrid_fair))
          .c_str());
}

void print_rows(std::string const& machine, std::string const& collective,
                std::vector<compared_times> const& rows) {
  for (auto const& row : rows) {
    std::printf("%-22s %-15s %6.0f %12.2f %12.2f %9.5f %12.2f %12.2f %9.5f\n", machine.c_str(),
                collective.c_str(), row.bytes / mebibyte, row.simgrid_fair * 1e6,
                row.blink_fair * 1e6, row.blink_fair / row.simgrid_fair, row.simgrid_in_turn * 1e6,
                row.blink_fifo * 1e6, row.blink_fifo / row.simgrid_in_turn);
  }
}

void run(std::vector<std::string_view> const& arguments) {
  bool as_table = false;
  std::vector<std::string_view> chosen;
  for (auto const argument : arguments) {
    if (argument == "--table") {
      as_table = true;
    } else {
      chosen.push_back(argument);
    }
  }
  auto machines = referee_machines();
  for (auto const name : chosen) {
    if (std::ranges::find(machines, name, &referee_machine::name) != machines.end()) continue;
    std::string message = "found '" + std::string(name) + "', expected --table or a machine of";
    for (auto const& each : machines) message += "\n  " + each.name;
    throw std::runtime_error(message);
  }
  if (as_table) {
    std::puts(
        "| machine | collective | 1 MiB, us | largest size, us | fair sharing | in turn | "
        "blink in turn beside fair sharing |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |");
  } else {
    std::printf("%-22s %-15s %6s %12s %12s %9s %12s %12s %9s\n", "machine", "collective", "MiB",
                "SimGrid fair", "blink, us", "ratio", "in turn", "blink, us", "ratio");
  }
  for (auto const& each : machines) {
    if (!chosen.empty() && std::ranges::find(chosen, each.name) == chosen.end()) continue;
    for (auto const kind : {blink::collective::all_reduce, blink::collective::broadcast,
                            blink::collective::all_gather, blink::collective::reduce_scatter}) {
      auto const rows = compare_simulators(each, kind, sizes);
      if (rows.empty()) continue;  // all sizes have too many messages
      (as_table ? print_table_row : print_rows)(each.name, std::string(blink::to_text(kind)), rows);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int count, char** texts) {
  try {
    run({texts + 1, texts + count});
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "referee_bench: %s\n", problem.what());
    return 2;
  }
}
