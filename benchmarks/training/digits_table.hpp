// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives.hpp>
#include <blink/core/detail/input_text.hpp>

#include "contenders.hpp"
#include "csv_file.hpp"
#include "digits.hpp"
#include "iteration.hpp"
#include "replay.hpp"
#include "train_digits.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace blink_bench {

/// A training with one contender's trees. Seconds of the machine.
struct digits_row {
  std::size_t iterations = 0;
  double measured = 0;   ///< all iterations together
  double compute = 0;    ///< one iteration
  double predicted = 0;  ///< one iteration
  double accuracy = 0;
  double loss_difference = 0;  ///< from training alone, relative, at most

  [[nodiscard]] double mean() const { return measured / static_cast<double>(iterations); }
};

/// Trains over the links of one contender.
///
/// scale:  with all of the bytes
/// alone:  the same training without other ranks
/// Throws: what training throws; std::runtime_error if losses differ from those of `alone`.
[[nodiscard]] inline digits_row train_contender(contender const& planned, replay_scale const& scale,
                                                split_images const& images,
                                                digits_settings const& how,
                                                training_course const& alone) {
  step_costs const costs;
  auto const one = make_iteration(digits_network(how), how.images);
  std::size_t largest = 0;
  for (auto const& each : one.buckets) largest = std::max(largest, each.parameters);
  auto const chunk_bytes = chunks_of(planned, scale, costs, largest);
  simulated_all_reduce simulated(planned, scale, costs, chunk_bytes);
  digits_row result;
  result.compute = one.compute_seconds;
  result.predicted = overlapped_seconds(
      one, [&](std::size_t parameters) { return simulated(parameters) / scale.time; });

  auto const trees = replayed_schedule(planned, scale, chunk_bytes);
  blink::shaped_thread_ranks ranks(trees.rank_count, replay_options(scale, costs));
  auto const course = train_in_parallel(ranks, ranks.prepare(trees), one, scale.time, images, how);
  result.iterations = course.losses.size();
  result.measured = std::accumulate(course.seconds.begin(), course.seconds.end(), 0.0) / scale.time;
  result.accuracy = course.accuracy;
  result.loss_difference = expect_same_losses(course, alone);
  return result;
}

inline void print_digits_row(contender const& planned, digits_row const& row,
                             digits_row const& ring) {
  std::printf("%-12s %8.2f %10zu %10.3f %8.1f%% %12.1f %6.1f%% %13.1f %6.3f %8.1f%% %8.1e\n",
              planned.name.c_str(), planned.planned.rate.to_double(), row.iterations,
              row.measured * 1e3, 100 * row.measured / ring.measured, row.mean() * 1e6,
              100 * (1 - row.compute / row.mean()), row.predicted * 1e6, row.mean() / row.predicted,
              100 * row.accuracy, row.loss_difference);
  std::fflush(stdout);
}

/// Trains on digits over the links of all machines, and prints a table for each.
///
/// path: a CSV file of images; "-" is standard input
/// csv:  of the rows; empty for none
/// head: comment above both
inline void run_digits(std::string const& path, std::string const& csv, std::string const& head,
                       replay_scale const& scale, digits_settings const& how) {
  auto const file = path == "-" ? "/dev/stdin" : path;
  auto const images =
      split(read_digits(blink::detail::file_text(file, "a CSV file of images", 64U << 20), file));
  csv_file rows_file(csv, head +
                              "machine,trees,GB/s,iterations,ms to the loss,iteration us,"
                              "compute us,predicted us,held-out accuracy,loss difference\n");
  std::fputs(head.c_str(), stdout);
  for (auto const& machine : training_machines()) {
    auto const ranks = static_cast<int>(machine.contenders.front().planned.ranks.size());
    auto const alone = train_alone(images, how, ranks);
    std::printf("\n%s; one rank alone: %zu iterations, accuracy %.1f%%\n", machine.name.c_str(),
                alone.losses.size(), 100 * alone.accuracy);
    std::printf("%-12s %8s %10s %10s %9s %12s %7s %13s %6s %9s %8s\n", "trees", "GB/s",
                "iterations", "ms to loss", "of ring", "iteration us", "waits", "predicted us",
                "ratio", "held out", "rounding");
    std::vector<digits_row> rows;
    for (auto const& planned : machine.contenders) {
      rows.push_back(train_contender(planned, scale, images, how, alone));
      auto const& row = rows.back();
      std::ostringstream line;
      line << machine.name << ',' << planned.name << ',' << planned.planned.rate.to_double() << ','
           << row.iterations << ',' << row.measured * 1e3 << ',' << row.mean() * 1e6 << ','
           << row.compute * 1e6 << ',' << row.predicted * 1e6 << ',' << row.accuracy << ','
           << row.loss_difference << '\n';
      rows_file.add(line.str());
    }
    for (std::size_t k = 0; k < rows.size(); ++k) {
      print_digits_row(machine.contenders[k], rows[k], rows[ring_position]);
    }
  }
}

}  // namespace blink_bench
