// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// Finds the fastest way to write large results while a program runs, for one rank and one schedule: which one it is
/// depends on the caches that cores share, and on who else uses them.
///
/// Use: `next` before a call, `report` after it, with what moving the chunks took. Results are the same bit by bit,
/// so ranks need not agree, and nobody else takes part. The first call of a kind and size is not counted (it finds
/// pages that nobody has touched), then the ways are tried in turn, `trials` times each, of which the quickest call counts,
/// then the fastest stays; every `period` calls another one is tried: after three of these each way's cost is known anew.
///
/// Why measured: an all-reduce of 2 MiB among two threads on an AMD EPYC takes 46 us by pairs, 59 plain and 150 past
/// the caches if the two cores share a third-level cache, and 900, 470 and 180 if they do not.
///
/// Time: O(kinds and sizes of the schedule's calls), a few.
class write_search {
 public:
  static constexpr std::size_t most_bytes = std::size_t{1} << 26;  ///< larger ones: as guessed
  static constexpr std::uint32_t ways = 3;
  static constexpr std::uint32_t trials = 3;
  static constexpr std::uint32_t period = 128;

  /// The way for the next call.
  /// bytes: of its output  guess: to begin with
  template <class = when_used>
  [[nodiscard]] write_way next(collective kind, std::size_t bytes, write_way guess) {
    if (bytes >= most_bytes) return guess;
    auto const& known = record_of(kind, bytes);
    if (known.calls == 0) return guess;
    if (known.calls <= all_trials) return turn(guess, known.calls - 1);
    auto const best = known.best();
    bool const explores = known.calls % period == 0;
    if (!explores) return best;
    auto const other = static_cast<write_way>(known.calls / period % ways);
    return other == best ? turn(best, 1) : other;
  }

  /// What a call took to move its chunks on this rank; 0 if it moved none: not counted.
  template <class = when_used>
  void report(collective kind, std::size_t bytes, write_way way, std::uint64_t nanoseconds) {
    if (bytes >= most_bytes || nanoseconds == 0) return;
    auto& known = record_of(kind, bytes);
    bool const is_first = known.calls++ == 0;
    if (is_first) return;
    double const cost = static_cast<double>(nanoseconds) / static_cast<double>(bytes);
    double& present = known.cost[static_cast<std::size_t>(way)];
    if (known.calls <= all_trials + 1) {
      if (present == 0 || cost < present) present = cost;
    } else if (way != known.best()) {
      present = cost;
    } else {  // whoever is interrupted once is not slow: it takes some calls until another one is the best
      present = 0.75 * present + 0.25 * (cost < 2 * present ? cost : 2 * present);
    }
  }

 private:
  static constexpr std::uint32_t all_trials = ways * trials;

  struct record {
    collective kind{};
    std::size_t octave = 0;
    std::uint32_t calls = 0;
    std::array<double, ways> cost{};  ///< nanoseconds for a byte of output

    [[nodiscard]] write_way best() const {
      std::size_t least = 0;
      for (std::size_t k = 1; k < ways; ++k) {
        if (cost[k] < cost[least]) least = k;
      }
      return static_cast<write_way>(least);
    }
  };

  // The way so many places after another one.
  [[nodiscard]] static write_way turn(write_way from, std::uint32_t places) {
    return static_cast<write_way>((static_cast<std::uint32_t>(from) + places) % ways);
  }

  template <class = when_used>
  record& record_of(collective kind, std::size_t bytes) {
    std::size_t octave = 0;
    for (; bytes > 1; bytes /= 2) ++octave;
    for (auto& known : records_) {
      if (known.kind == kind && known.octave == octave) return known;
    }
    return records_.emplace_back(record{kind, octave});
  }

  std::vector<record> records_;
};

}  // namespace blink::inline BLINK_ABI::detail
