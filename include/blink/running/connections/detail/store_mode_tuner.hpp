// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The ways that a transport offers; `plain` and `streams` are among them.
struct store_modes {
  static constexpr std::uint32_t most = 3;
  std::array<store_mode, most> each{};
  std::uint32_t count = 0;
  std::size_t measured_below = SIZE_MAX;  ///< outputs of so many bytes are written as guessed

  /// The way so many places after another one.
  [[nodiscard]] constexpr store_mode after(store_mode from, std::uint32_t places) const {
    std::uint32_t at = 0;
    while (each[at] != from) ++at;
    return each[(at + places) % count];
  }
};

/// Own outputs of fewer bytes go through the caches even if those of peers go past them, unless
/// `communicator_options::streaming_bytes` is less: what a rank has made itself it finds in its own cache.
inline constexpr std::size_t kept_output_bytes = std::size_t{1} << 20;

/// Outputs of so many bytes are the quickest past the caches, near or far, if they are not copied out of slots: to try other ways made
/// calls of 256 MiB among threads take 48 ms instead of 24 (`scripts/bench_peers --only threads`, a tenth of a second).
inline constexpr std::size_t streamed_output_bytes = std::size_t{1} << 26;

/// Over links that reach buffers, over slots in memory that ranks share, and over others, which hand what is sent to a
/// library that reads it on this core. Slots are in caches even if outputs are not.
template <transport Transport>
inline constexpr store_modes store_modes_over =
    Transport::reaches ? store_modes{{store_mode::plain, store_mode::pairs, store_mode::streams},
                                     3,
                                     streamed_output_bytes}
    : shares_memory<Transport>
        ? store_modes{{store_mode::plain, store_mode::slots, store_mode::streams}, 3}
        : store_modes{{store_mode::plain, store_mode::streams}, 2, streamed_output_bytes};

/// Finds the fastest way to write large results while a program runs, for one rank and one schedule: which one it is
/// depends on the caches that cores share, and on who else uses them.
///
/// Use: `next` before a call, `report` if it is timed, with what moving the chunks took: the rank for which it took
/// longest, as who reads what another one has written pays for how it did. Then all ranks do the same. Where ranks do
/// not know that of each other, each goes by its own time; results are the same bit by bit.
///
/// A way is tried in some calls one after the other (`tries_of`), of which the quickest counts: the first ones find
/// outputs and slots where another way has left them, and any may be interrupted. The first calls of a kind and size are not
/// counted (they find pages that nobody has touched), then each way is tried, then the fastest stays; every so often another
/// one is tried.
///
/// Why measured: an all-reduce of 2 MiB among two threads on an AMD EPYC takes 46 us by pairs, 59 plain and 150 past
/// the caches if the two cores share a third-level cache, and 900, 470 and 180 if they do not; of 512 KiB among two
/// processes by slots 36 us where they do (plain), else 250 plain and 54 by `slots`; of 256 MiB 32 ms past the caches
/// and 55 by `slots` where they do, else 200 and 39 (a program that fixed the way, cores of an AMD EPYC).
///
/// Time: O(kinds and sizes of the schedule's calls), a few.
class store_mode_tuner {
 public:
  static constexpr std::size_t uncached_bytes = std::size_t{1} << 23;  ///< no cache holds so much
  /// Reading the clock takes a tenth of a call of 8 KiB, and what peers say a cache line of each: once it is known which way is the fastest,
  /// only some calls of fewer bytes than this are timed, one after so many that are not.
  static constexpr std::size_t quick_bytes = std::size_t{1} << 20;
  static constexpr std::uint32_t untimed_calls = 15;
  /// How fast the quickest call of the best way is forgotten when calls are slower. One that lasts so long that no cache holds its
  /// data is hardly slow by an accident.
  [[nodiscard]] static constexpr double forgetting_of(std::size_t bytes) {
    return bytes >= uncached_bytes ? 0.25 : 0.125;
  }

  /// How often a way is tried in a row: what no cache holds twice, as a call may be interrupted, else until a good part of a
  /// wire's slots has been written (`default_window`). Pre: bytes > 0.
  [[nodiscard]] static constexpr std::uint32_t tries_of(std::size_t bytes) {
    constexpr std::size_t written = std::size_t{1} << 20, least = 4, most = 32;
    if (bytes >= uncached_bytes) return 2;
    std::size_t const tries =
        written / std::bit_floor(bytes);  // one number for what `next` takes as one size
    return static_cast<std::uint32_t>(tries < least ? least : tries > most ? most : tries);
  }
  /// The same once the fastest way is known: another one may take five times as long.
  [[nodiscard]] static constexpr std::uint32_t retries_of(std::size_t bytes) {
    return bytes >= uncached_bytes ? 1 : tries_of(bytes);
  }
  /// So many timed calls after the begin of one trial the next one begins. What no cache holds is tried sooner, as it takes
  /// long until so many calls are made, but what takes n times as long as the best way in one of n turns only.
  [[nodiscard]] static constexpr std::uint32_t period_of(std::size_t bytes) {
    return bytes >= uncached_bytes ? 32 : 64 * tries_of(bytes);
  }

  /// How to do a call.
  struct choice {
    store_mode way{};
    bool is_timed = false;  ///< is it to be reported what the call took?
    bool is_trial = false;  ///< of this way, to compare it
    bool begins = false;    ///< is it the first one of a trial?
  };

  /// The way for the next call.
  /// bytes: of its output  ways: the same in all calls  guess: one of them, to begin with
  template <class = when_used>
  [[nodiscard]] choice next(collective kind, std::size_t bytes, store_modes const& ways,
                            store_mode guess) {
    if (bytes == 0 || bytes >= ways.measured_below) return {guess};
    auto& known = record_of(kind, bytes);
    std::uint32_t const tries = tries_of(bytes);
    if (known.first_calls < retries_of(bytes)) {
      ++known.first_calls;
      return {guess};
    }
    if (known.untimed > 0) {
      --known.untimed;
      return {known.best(ways, guess)};
    }
    std::uint32_t const call = known.timed++;
    if (call < ways.count * tries) {
      return {ways.after(guess, call / tries), true, true, call % tries == 0};
    }
    auto const best = known.best(ways, guess);
    std::uint32_t const since = call - ways.count * tries;
    std::uint32_t const place = since % period_of(bytes);
    if (since < period_of(bytes) || place >= retries_of(bytes)) {
      if (bytes < quick_bytes) known.untimed = untimed_calls;
      return {best, true};
    }
    if (place == 0) {
      std::uint32_t const turn = since / period_of(bytes);
      auto const next = ways.each[turn % ways.count];
      known.other = next == best ? ways.after(best, 1) : next;
      bool const waits = turn / ways.count % known.times_best(known.other, best) != 0;
      if (bytes >= uncached_bytes && waits) return {best, true};
    }
    return {known.other, true, true, place == 0};
  }

  /// What a call took to move its chunks; 0 if there were none: not counted.
  template <class = when_used>
  void report(collective kind, std::size_t bytes, choice const& chosen, std::uint64_t nanoseconds) {
    if (nanoseconds == 0) return;
    double const cost = static_cast<double>(nanoseconds) / static_cast<double>(bytes);
    double& present = record_of(kind, bytes).cost[static_cast<std::size_t>(chosen.way)];
    // The quickest of some calls: of those that try a way as of those by the best one.
    if (present == 0 || chosen.begins || cost < present) {
      present = cost;
    } else if (!chosen.is_trial) {
      // Whoever is interrupted once is not slow: it takes some calls until another one is the best.
      present += forgetting_of(bytes) * ((cost < 2 * present ? cost : 2 * present) - present);
    }
  }

 private:
  struct record {
    collective kind{};
    std::size_t octave = 0;
    std::uint32_t first_calls = 0;  ///< that were not timed
    std::uint32_t timed = 0;        ///< calls
    std::uint32_t untimed = 0;      ///< the next so many calls are not timed
    store_mode other{};             ///< that is tried now
    std::array<double, 4> cost{};   ///< by way: nanoseconds for a byte of output; 0: not known

    /// How often the time of the best way, in whole numbers, another one takes; at most 8.
    [[nodiscard]] std::uint32_t times_best(store_mode that, store_mode best) const {
      double const least = cost[static_cast<std::size_t>(best)];
      double const here = cost[static_cast<std::size_t>(that)];
      return here < 2 * least || least == 0 ? 1
             : here < 8 * least             ? static_cast<std::uint32_t>(here / least)
                                            : 8;
    }
    [[nodiscard]] store_mode best(store_modes const& ways, store_mode guess) const {
      auto least = guess;
      for (std::uint32_t k = 0; k < ways.count; ++k) {
        double const here = cost[static_cast<std::size_t>(ways.each[k])];
        double const before = cost[static_cast<std::size_t>(least)];
        if (here != 0 && (before == 0 || here < before)) least = ways.each[k];
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

/// A call that was timed, until it is known what it took.
struct timed_store_mode {
  store_mode_tuner* search = nullptr;  ///< null: there is none
  collective kind{};
  std::size_t bytes = 0;
  store_mode_tuner::choice chosen{};

  void report(std::uint64_t nanoseconds) const {
    if (search != nullptr) search->report(kind, bytes, chosen, nanoseconds);
  }
};

/// A communicator whose ranks tell each other what moving chunks takes them.
///
/// Semantics beyond the syntax: `publish_moved` of the present call; `longest_moved_before()` of all ranks in the call
/// before it, 0 if they reported nothing; both at the end of a call, which all have entered. `last_timed()` is what the
/// rank remembers from call to call.
template <class S>
concept time_publishing_communicator = requires(S& comm, std::uint64_t nanoseconds) {
  { comm.last_timed() } -> std::same_as<timed_store_mode&>;
  { comm.publish_moved(nanoseconds) } -> std::same_as<void>;
  { comm.longest_moved_before() } -> std::same_as<std::uint64_t>;
};

}}}  // namespace blink::BLINK_ABI::detail
