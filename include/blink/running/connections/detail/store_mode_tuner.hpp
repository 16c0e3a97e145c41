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

/// The store modes of a transport; `plain` and `streams` are among them.
struct store_modes {
  static constexpr std::uint32_t most = 3;
  std::array<store_mode, most> each{};
  std::uint32_t count = 0;
  std::size_t measured_below = SIZE_MAX;  ///< outputs of at least this size are written as guessed

  /// The mode `places` places after another one.
  [[nodiscard]] constexpr store_mode after(store_mode from, std::uint32_t places) const {
    std::uint32_t at = 0;
    while (each[at] != from) ++at;
    return each[(at + places) % count];
  }
};

/// Own outputs of fewer bytes go through the caches even if those of peers bypass them, unless
/// `communicator_options::streaming_bytes` is less. A rank then finds its own results in its cache.
inline constexpr std::size_t kept_output_bytes = std::size_t{1} << 20;

/// Outputs of at least this size are fastest past the caches, unless they are copied out of slots.
/// Trials of other modes would slow the calls down.
inline constexpr std::size_t streamed_output_bytes = std::size_t{1} << 26;

/// The modes over transports that reach buffers, over slots in memory that ranks share, and over
/// other transports, whose library reads messages on this core. Slots are in caches even if outputs
/// are not.
template <transport Transport>
inline constexpr store_modes store_modes_over =
    Transport::reaches ? store_modes{{store_mode::plain, store_mode::pairs, store_mode::streams},
                                     3,
                                     streamed_output_bytes}
    : shares_memory<Transport>
        ? store_modes{{store_mode::plain, store_mode::slots, store_mode::streams}, 3}
        : store_modes{{store_mode::plain, store_mode::streams}, 2, streamed_output_bytes};

/// Finds the fastest store mode for large results while a program runs, for one rank and one
/// schedule. It depends on the caches that cores share, and on their other users.
///
/// Use: `next` before a call. If the call is timed, `report` the time of moving the chunks. The
///      time is that of the slowest rank, because a reader pays for the writer's store mode. Then
///      all ranks choose the same. Ranks that do not know the times of peers use their own. Results
///      are the same bit by bit.
///
/// A mode is tried in some successive calls (`tries_of`), of which the fastest counts. The first
/// ones find outputs and slots where another mode has left them, and any may be interrupted. The
/// first calls of a kind and size are not counted, because they meet new pages. Then each mode is
/// tried, and the fastest stays. Now and then another one is tried.
///
/// It measures because the order of the modes reverses with the size and with whether the cores
/// share a third-level cache.
///
/// Time: O(kinds and sizes of the schedule's calls), a few.
class store_mode_tuner {
 public:
  static constexpr std::size_t uncached_bytes = std::size_t{1} << 23;  ///< no cache holds so much
  /// Limit of calls that are timed rarely. Reading the clock and the times of peers costs a notable
  /// part of a small call. Once the fastest mode is known, one of these calls is timed after each
  /// `untimed_calls` that are not.
  static constexpr std::size_t quick_bytes = std::size_t{1} << 20;
  static constexpr std::uint32_t untimed_calls = 15;
  /// Speed with which the best time of a mode is forgotten when calls are slower. A call whose data
  /// no cache holds is hardly slow by accident.
  [[nodiscard]] static constexpr double forgetting_of(std::size_t bytes) {
    return bytes >= uncached_bytes ? 0.25 : 0.125;
  }

  /// Number of successive calls that try a mode. Without caching it is two, because a call may be
  /// interrupted. Otherwise the tries write a good part of a connection's slots (`default_window`).
  /// Pre: bytes > 0.
  [[nodiscard]] static constexpr std::uint32_t tries_of(std::size_t bytes) {
    constexpr std::size_t written = std::size_t{1} << 20, least = 4, most = 32;
    if (bytes >= uncached_bytes) return 2;
    std::size_t const tries =
        written / std::bit_floor(bytes);  // one number for all sizes that `next` treats as one
    return static_cast<std::uint32_t>(tries < least ? least : tries > most ? most : tries);
  }
  /// The same once the fastest mode is known, because another one may take much longer.
  [[nodiscard]] static constexpr std::uint32_t retries_of(std::size_t bytes) {
    return bytes >= uncached_bytes ? 1 : tries_of(bytes);
  }
  /// Timed calls from the begin of one trial to that of the next. Sizes without caching are tried
  /// sooner, because their calls take long. A mode that takes n times as long as the best one is
  /// tried in one of n turns only.
  [[nodiscard]] static constexpr std::uint32_t period_of(std::size_t bytes) {
    return bytes >= uncached_bytes ? 32 : 64 * tries_of(bytes);
  }

  /// The store mode of a call, and its role in the search.
  struct choice {
    store_mode way{};
    bool is_timed = false;  ///< true if the time of the call is to be reported
    bool is_trial = false;  ///< of this mode, to compare it
    bool begins = false;    ///< true for the first call of a trial
  };

  /// Returns the mode for the next call.
  ///
  /// bytes: of its output
  /// ways:  the modes, the same in all calls
  /// guess: one of them, to begin with
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

  /// Reports the time of moving a call's chunks. 0 means that there were none, and is not counted.
  template <class = when_used>
  void report(collective kind, std::size_t bytes, choice const& chosen, std::uint64_t nanoseconds) {
    if (nanoseconds == 0) return;
    double const cost = static_cast<double>(nanoseconds) / static_cast<double>(bytes);
    double& present = record_of(kind, bytes).cost[static_cast<std::size_t>(chosen.way)];
    // The fastest of some calls, both of a trial and of the best mode.
    if (present == 0 || chosen.begins || cost < present) {
      present = cost;
    } else if (!chosen.is_trial) {
      // One interrupted call does not make a mode slow. It takes some calls until another one is
      // the best.
      present += forgetting_of(bytes) * ((cost < 2 * present ? cost : 2 * present) - present);
    }
  }

 private:
  struct record {
    collective kind{};
    std::size_t octave = 0;
    std::uint32_t first_calls = 0;  ///< that were not timed
    std::uint32_t timed = 0;        ///< calls
    std::uint32_t untimed = 0;      ///< number of next calls that are not timed
    store_mode other{};             ///< that is tried now
    std::array<double, 4> cost{};   ///< by mode: nanoseconds for a byte of output; 0: not known

    /// The time of another mode as a multiple of the best one's, rounded down; at most 8.
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

/// A timed call whose time is not yet known.
struct timed_store_mode {
  store_mode_tuner* search = nullptr;  ///< null: there is none
  collective kind{};
  std::size_t bytes = 0;
  store_mode_tuner::choice chosen{};

  void report(std::uint64_t nanoseconds) const {
    if (search != nullptr) search->report(kind, bytes, chosen, nanoseconds);
  }
};

/// A communicator whose ranks publish to each other how long moving chunks takes.
///
/// Semantics beyond the syntax: `publish_moved` is of the present call. `longest_moved_before()` is
/// of all ranks in the call before it, 0 if they published nothing. Both are called at the end of a
/// call, which all ranks have entered. `last_timed()` is state that the rank keeps from call to
/// call.
template <class S>
concept time_publishing_communicator = requires(S& comm, std::uint64_t nanoseconds) {
  { comm.last_timed() } -> std::same_as<timed_store_mode&>;
  { comm.publish_moved(nanoseconds) } -> std::same_as<void>;
  { comm.longest_moved_before() } -> std::same_as<std::uint64_t>;
};

}}}  // namespace blink::BLINK_ABI::detail
