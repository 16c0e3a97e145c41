// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/collectives/transport.hpp>
#include <blink/config.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// The ways that a transport offers; `plain` and `streams` are among them.
struct write_ways {
  static constexpr std::uint32_t most = 3;
  std::array<write_way, most> each{};
  std::uint32_t count = 0;

  /// The way so many places after another one.
  [[nodiscard]] constexpr write_way after(write_way from, std::uint32_t places) const {
    std::uint32_t at = 0;
    while (each[at] != from) ++at;
    return each[(at + places) % count];
  }
};

/// Own outputs of fewer bytes go through the caches even if those of peers go past them, unless
/// `world_options::streaming_bytes` is less: what a rank has made itself it finds in its own cache.
inline constexpr std::size_t kept_output_bytes = std::size_t{1} << 20;

/// Over links that reach buffers, over slots in memory that ranks share, and over others, which hand what is sent to a
/// library that reads it on this core.
template <transport Link>
inline constexpr write_ways ways_to_write_over =
    Link::reaches         ? write_ways{{write_way::plain, write_way::pairs, write_way::streams}, 3}
    : shares_memory<Link> ? write_ways{{write_way::plain, write_way::slots, write_way::streams}, 3}
                          : write_ways{{write_way::plain, write_way::streams}, 2};

/// Finds the fastest way to write large results while a program runs, for one rank and one schedule: which one it is
/// depends on the caches that cores share, and on who else uses them.
///
/// Use: `next` before a call, `report` after it, if it is timed, with what moving the chunks took. Results are the same bit
/// by bit, so ranks need not agree, and nobody else takes part. The first call of a kind and size is not counted (it finds
/// pages that nobody has touched), then each way is tried, then the fastest stays; every `period` calls another one is
/// tried. A way is tried in `tries` calls one after the other, of which the quickest counts: the first ones find outputs
/// and slots where another way has left them. What no cache holds is tried once.
///
/// Why measured: an all-reduce of 2 MiB among two threads on an AMD EPYC takes 46 us by pairs, 59 plain and 150 past
/// the caches if the two cores share a third-level cache, and 900, 470 and 180 if they do not; of 512 KiB among two
/// processes by slots 36 us where they do (plain), else 250 plain and 54 by `slots`.
///
/// Time: O(kinds and sizes of the schedule's calls), a few.
class write_search {
 public:
  static constexpr std::size_t most_bytes = std::size_t{1} << 26;      ///< larger ones: as guessed
  static constexpr std::size_t uncached_bytes = std::size_t{1} << 23;  ///< no cache holds so much
  static constexpr std::uint32_t tries = 4;  ///< in a row; more than a wire has slots, as a rule
  static constexpr std::uint32_t period = 256;
  /// Reading the clock takes a tenth of a call of 8 KiB: once it is known which way is the fastest, only some calls of
  /// fewer bytes than this are timed, one after so many that are not. `period` counts those that are.
  static constexpr std::size_t quick_bytes = std::size_t{1} << 16;
  static constexpr std::uint32_t untimed_calls = 15;
  /// How fast the quickest call of the best way is forgotten when calls are slower.
  static constexpr double forgetting = 0.125;

  /// How often a way is tried in a row.
  [[nodiscard]] static constexpr std::uint32_t tries_of(std::size_t bytes) {
    return bytes < uncached_bytes ? tries : 1;
  }

  /// How to do a call.
  struct choice {
    write_way way{};
    bool is_timed = false;  ///< is it to be reported what the call took?
  };

  /// The way for the next call.
  /// bytes: of its output  ways: the same in all calls  guess: one of them, to begin with
  template <class = when_used>
  [[nodiscard]] choice next(collective kind, std::size_t bytes, write_ways const& ways,
                            write_way guess) {
    if (bytes >= most_bytes) return {guess, false};
    auto& known = record_of(kind, bytes);
    if (known.calls == 0) return {guess, true};
    std::uint32_t const in_a_row = tries_of(bytes);
    if (known.calls <= ways.count * in_a_row) {
      return {ways.after(guess, (known.calls - 1) / in_a_row), true};
    }
    auto const best = known.best(ways);
    std::uint32_t const place = known.calls % period;
    if (place >= in_a_row) {
      if (known.untimed > 0) {
        --known.untimed;
        return {best, false};
      }
      if (bytes < quick_bytes) known.untimed = untimed_calls;
      return {best, true};
    }
    if (place == 0) {
      auto const next = ways.each[known.calls / period % ways.count];
      known.other = next == best ? ways.after(best, 1) : next;
    }
    return {known.other, true};
  }

  /// What a call took to move its chunks on this rank; 0 if it moved none: not counted.
  template <class = when_used>
  void report(collective kind, std::size_t bytes, write_ways const& ways, write_way way,
              std::uint64_t nanoseconds) {
    if (bytes >= most_bytes || nanoseconds == 0) return;
    auto& known = record_of(kind, bytes);
    std::uint32_t const call = known.calls++;
    if (call == 0) return;
    double const cost = static_cast<double>(nanoseconds) / static_cast<double>(bytes);
    double& present = known.cost[static_cast<std::size_t>(way)];
    std::uint32_t const in_a_row = tries_of(bytes);
    bool const is_trial = call <= ways.count * in_a_row;
    if (is_trial || way != known.best(ways)) {
      std::uint32_t const place = is_trial ? (call - 1) % in_a_row : call % period;
      if (place == 0 || cost < present) present = cost;
    } else if (cost < present) {  // the quickest of some calls, as of those that tried other ways
      present = cost;
    } else {  // whoever is interrupted once is not slow: it takes some calls until another one is the best
      present += forgetting * ((cost < 2 * present ? cost : 2 * present) - present);
    }
  }

 private:
  struct record {
    collective kind{};
    std::size_t octave = 0;
    std::uint32_t calls = 0;       ///< that were timed
    std::uint32_t untimed = 0;     ///< the next so many calls are not
    write_way other{};             ///< that is tried now
    std::array<double, 4> cost{};  ///< by way: nanoseconds for a byte of output

    [[nodiscard]] write_way best(write_ways const& ways) const {
      // Whoever takes from a slot that is in no cache pays for it, too, which is not measured here. Between cores near
      // each other both ways cost the writer 0.12 ns a byte, far apart 0.45 plain and 0.11 past the caches.
      constexpr double of_takers = 2;
      auto const cost_of = [&](write_way way) {
        return cost[static_cast<std::size_t>(way)] * (way == write_way::slots ? of_takers : 1);
      };
      auto least = ways.each[0];
      for (std::uint32_t k = 1; k < ways.count; ++k) {
        if (cost_of(ways.each[k]) < cost_of(least)) least = ways.each[k];
      }
      return least;
    }
  };

  template <class = when_used>
  record& record_of(collective kind, std::size_t bytes) {
    auto const octave = static_cast<std::size_t>(std::bit_width(bytes));
    for (auto& known : records_) {
      if (known.kind == kind && known.octave == octave) return known;
    }
    return records_.emplace_back(record{kind, octave});
  }

  std::vector<record> records_;
};

}  // namespace blink::inline BLINK_ABI::detail
