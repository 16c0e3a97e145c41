// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/chunk_autotuner.hpp>
#include <blink/collectives/detail/call_timer.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/tuning_table.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Options of `tune`'s search. Equal on all ranks.
struct tuning_options {
  std::size_t first_bytes = 8;  ///< of the whole buffer
  std::size_t last_bytes = std::size_t{32} << 20;
  double growth = 4;  ///< from one size to the next
  int calls = 15;     ///< for each algorithm and size; their lower quartile counts
  /// Time limit for each algorithm and size: no further turn of three calls begins after it.
  double seconds = 0.1;
  double margin = 0.05;  ///< an algorithm replaces another only if it is faster by this fraction
  std::size_t chunks_from_bytes = 1 << 18;  ///< chunk sizes are also searched from this size on
  chunk_autotuner_options chunks{};
};

/// The measurement of one algorithm at one size.
struct tuning_sample {
  std::size_t bytes = 0;
  std::size_t algorithm = 0;
  std::size_t chunk_bytes = 0;  ///< 0: the chunk size of the schedule
  double seconds = 0;           ///< lower quartile, in seconds, of a call on its slowest rank
};

/// The tuning table, and the measurements that it was made of.
struct tuning_result {
  tuning_table table;
  std::vector<tuning_sample> samples;
};

/// Measures algorithms at growing sizes and returns which one is the fastest from which size on.
///
/// It is a short search, for a program's start or for a file (`tuning_file.hpp`). All ranks call it
/// together.
///
/// Algorithms are measured in turn, some calls each, from a barrier on, with sums of floats or
/// moves of floats. Inputs are rewritten before every call and outputs read after it. Otherwise an
/// algorithm would profit from data that is already in the right cache. Where the best algorithm
/// changes between two sizes, the table changes at their geometric mean. An algorithm that loses
/// and took twice the best time at two sizes in a row is not measured at larger ones. If messages
/// are large, `chunk_autotuner` searches chunk sizes of the best algorithm.
///
/// kind:       any but a barrier
/// algorithms: the first one is taken where no other is faster by the margin
/// Time:       for each algorithm and size at most about `seconds`, or three calls; seven times
///             that to search chunk sizes.
/// Memory:     buffers of the largest size.
/// Post:       the same table on all ranks.
/// Throws:     precondition_error for an algorithm that does not carry `kind`, or for options out
///             of range; what calls throw.
template <communicator Comm>
[[nodiscard]] tuning_result tune(Comm& comm, collective kind, std::vector<algorithm> algorithms,
                                 tuning_options const& options = {}) {
  expects(moves_data(kind), "tune: a barrier has one size, expected another collective");
  expects(comm.group().size() == 1,
          "tune: the communicator's group has several threads, expected one");
  expects(options.first_bytes >= 1 && options.first_bytes <= options.last_bytes &&
              options.growth > 1 && options.calls >= 1 && options.seconds >= 0 &&
              options.margin >= 0 && options.margin < 1,
          "tuning_options: a value is out of range, expected 1 <= first_bytes <= last_bytes, "
          "growth > 1, calls >= 1, "
          "seconds >= 0, 0 <= margin < 1");
  tuning_result result;
  result.table.collective = kind;
  result.table.algorithms = std::move(algorithms);
  result.table.ranges = {{0, 0, 0}};
  validate(result.table);
  std::vector<prepared_schedule*> plans;
  for (auto const& each : result.table.algorithms) plans.push_back(&comm.prepare(each.source));

  constexpr double too_slow = 2;      // times the best
  constexpr double chunk_search = 5;  // times an algorithm's measurement
  std::vector<int> slow_in_a_row(plans.size(), 0);
  std::size_t before = 0;
  for (auto bytes = static_cast<double>(options.first_bytes);
       bytes <= static_cast<double>(options.last_bytes); bytes *= options.growth) {
    auto const size = static_cast<std::size_t>(bytes);
    detail::call_timer<Comm> timer(comm, kind, size);
    std::vector<tuning_sample> here;
    for (std::size_t m = 0; m < plans.size(); ++m) {
      if (slow_in_a_row[m] < 2) here.push_back({size, m, 0, 0});
    }
    auto const measure = [&](std::vector<tuning_sample>& samples) {
      std::vector<typename detail::call_timer<Comm>::candidate> candidates;
      for (auto const& each : samples)
        candidates.push_back({plans[each.algorithm], each.chunk_bytes});
      auto const times = timer.quartiles(candidates, options.calls, options.seconds);
      for (std::size_t k = 0; k < samples.size(); ++k) samples[k].seconds = times[k];
    };
    measure(here);
    auto const best = *std::min_element(here.begin(), here.end(), [](auto const& a, auto const& b) {
      return a.seconds < b.seconds;
    });
    for (auto const& sample : here) {
      auto& slow = slow_in_a_row[sample.algorithm];
      slow = sample.seconds > too_slow * best.seconds ? slow + 1 : 0;
    }
    // The best algorithm for smaller sizes stays unless another is clearly better.
    auto const& last = result.table.ranges.back();
    auto chosen = best;
    for (auto const& sample : here) {
      bool const is_last = sample.algorithm == last.algorithm;
      if (is_last && best.seconds >= sample.seconds * (1 - options.margin)) chosen = sample;
    }
    if (size >= options.chunks_from_bytes) {
      chunk_autotuner search(options.chunks);
      double const end = timer.spent() + chunk_search * options.seconds;
      while (!search.settled() && timer.spent() < end) {
        search.report(1 / timer.seconds(*plans[chosen.algorithm], search.bytes()));
      }
      std::vector<tuning_sample> chunks{{size, chosen.algorithm, 0, 0},
                                        {size, chosen.algorithm, search.bytes(), 0}};
      measure(chunks);
      here.insert(here.end(), chunks.begin(), chunks.end());
      if (chunks[1].seconds < chunks[0].seconds * (1 - options.margin)) chosen = chunks[1];
    }
    result.samples.insert(result.samples.end(), here.begin(), here.end());
    if (before == 0) {
      result.table.ranges.back() = {0, chosen.algorithm, chosen.chunk_bytes};
    } else if (chosen.algorithm != last.algorithm || chosen.chunk_bytes != last.chunk_bytes) {
      auto const middle = std::sqrt(static_cast<double>(before) * bytes);
      result.table.ranges.push_back(
          {static_cast<std::size_t>(middle) + 1, chosen.algorithm, chosen.chunk_bytes});
    }
    before = size;
  }
  return result;
}

/// Measures the algorithms of `default_algorithms` for every collective of `kinds`, and returns the
/// tables.
///
/// The tables are for `use_tuning` or for a file (`write_tuning_file`). `comm.tune()` also puts
/// them to use. All ranks call it together.
///
/// root:   of broadcast, reduce, gather and scatter
/// Time:   as `tune`, for each collective.
/// Throws: as `tune`.
template <communicator Comm>
[[nodiscard]] std::vector<tuning_table> tune_all(
    Comm& comm, tuning_options const& options = {},
    std::vector<collective> const& kinds = {collective::all_reduce, collective::broadcast,
                                            collective::reduce, collective::all_gather,
                                            collective::reduce_scatter, collective::all_to_all},
    int root = 0) {
  std::vector<tuning_table> result;
  for (auto const kind : kinds) {
    auto algorithms = default_algorithms(kind, comm.rank_count(), root, detail::hosts_of(comm));
    auto& table = result.emplace_back(tune(comm, kind, std::move(algorithms), options).table);
    table.transport = detail::name_of_transport<typename Comm::transport_type>();
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
