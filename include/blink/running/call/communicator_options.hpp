// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/duration.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/reducers/order.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/slot_rotation.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Limits for a rank that cannot make progress: it spins, then yields, then sleeps.
struct wait_options {
  nanoseconds deadline{30'000'000'000};  ///< the longest time without any progress
  int spins = 200;    ///< rounds over the tasks before it yields; few if ranks share cores
  int yields = 1000;  ///< rounds with a yield before it sleeps
  /// The longest sleep of up to 64 ranks, and in proportion of more. Events wake a rank earlier,
  /// except in rare races.
  nanoseconds sleep{500'000};
};

/// Nanoseconds after which a waiting rank checks again whether its wait can still succeed.
///
/// ranks: that may all wait. Many look less often, because those that look may keep the cores from
///        those that work.
[[nodiscard]] inline std::uint64_t time_between_looks(wait_options const& options, int ranks) {
  auto const groups = (static_cast<std::uint64_t>(ranks) + 63) / 64;
  auto const sleep = static_cast<std::uint64_t>(options.sleep.count()) * groups;
  auto const part = static_cast<std::uint64_t>(options.deadline.count()) / 16 + 1;
  return sleep < part ? sleep : part;
}

/// The eager limit of one rank: the most bytes of its input that travel with the call.
inline constexpr std::size_t largest_eager_bytes = 2048;

/// Options of a communicator. Equal on all its ranks.
struct communicator_options {
  wait_options waits{};
  /// slots of a connection, the most chunks in flight; 0: 2, or `default_window`
  std::uint32_t window = 0;
  /// The largest chunk; larger elements are refused. The default is halved where the slots of a
  /// schedule would take more than 128 MiB of shared memory, to no less than 8 KiB.
  std::size_t slot_bytes = 1 << 18;
  pipeline_costs costs{};  ///< for the chunk sizes that the schedule leaves open
  /// Outputs from this size on bypass caches, unless a measurement chooses otherwise.
  std::size_t streaming_bytes = std::size_t{1} << 23;
  /// Outputs from this size on are written in the fastest measured store mode (`store_mode_tuner`).
  ///
  /// Each rank measures while it runs, up to 64 MiB unless it copies outputs out of slots of shared
  /// memory. With the largest std::size_t, `streaming_bytes` decides. A team of threads does not
  /// measure.
  std::size_t measured_bytes = std::size_t{1} << 12;
  /// Eager limit: inputs of up to this size together, each at most `largest_eager_bytes`, travel
  /// with the call, and no tree is walked. 0: all inputs use the trees.
  std::size_t eager_payload = 8192;
  /// True: ranks of one host pass data in memory that they share. False: communicators over
  /// messages, such as `mpi_communicator`, pass all data in messages.
  bool shares_memory = true;
  /// With `ranks` every reduction keeps this promise, whatever its reducer promises. With `run` the
  /// reducer decides.
  order_promise order = order_promise::run;
  /// False: communicators over messages have no sends and receives of two ranks
  /// (`point_to_point.hpp`), which take a channel of their own.
  bool point_to_point = true;
  std::uint32_t team_size = 1;  ///< threads for each rank; more than 1 only for `team_group`
  /// The most memory for copies of messages that this rank has sent and no rank has received
  /// (`point_to_point.hpp`). A pair of ranks may exceed it by 256 KiB. Ranks may
  /// have different limits.
  std::size_t kept_message_bytes = std::size_t{1} << 30;
};

/// Throws: precondition_error if an option is out of range.
template <class = when_used>
void validate(communicator_options const& options) {
  expects(options.slot_bytes >= 1, "communicator_options: slot_bytes is 0, expected at least 1");
  expects(options.team_size >= 1, "communicator_options: team_size is 0, expected at least 1");
  expects(options.waits.deadline.count() > 0,
          "communicator_options: the deadline is not positive, expected more than 0");
  expects(options.order == order_promise::run || options.order == order_promise::ranks,
          "communicator_options: order is neither run nor ranks, expected one of them; reducers "
          "make the other promises (with_order)");
  expects(options.waits.spins >= 0, "communicator_options: spins is negative, expected at least 0");
  expects(options.waits.yields >= 0,
          "communicator_options: yields is negative, expected at least 0");
}

/// Returns options with few spins if ranks share cores, because spinning keeps the core from a rank
/// with work.
[[nodiscard]] inline communicator_options spinning_no_longer_than_fits(communicator_options options,
                                                                       int rank_count) {
  auto const threads = static_cast<unsigned>(rank_count) * options.team_size;
  if (threads > detail::core_count() && options.waits.spins > 2) {
    options.waits.spins = 2;
  }
  // Very many ranks on a core would use it up by looking whether they can go on: 512 threads on two
  // cores entered a call after 31 s, and so after 4 to 7.
  constexpr unsigned many = 16;
  auto const for_each_core = threads / (detail::core_count() * many);
  if (for_each_core > 0) {
    options.waits.yields = options.waits.yields < 10 ? options.waits.yields : 10;
    options.waits.sleep = nanoseconds(options.waits.sleep.count() * (for_each_core + 1));
  }
  return options;
}

/// Returns the layout of a schedule's connections between ranks of such a communicator.
///
/// shares: false if no ranks share memory, although the transport could
/// Pre:    `validate(schedule)` passed.
template <transport Transport>
[[nodiscard]] connection_layout connection_layout_of(communicator_options const& options,
                                                     schedule const& source,
                                                     bool shares = shares_memory<Transport>) {
  connection_layout layout;
  layout.reaches = Transport::reaches;
  layout.shares_memory = shares;
  layout.is_shaped = Transport::is_shaped;
  layout.slot_bytes = options.slot_bytes;
  layout.window = options.window != 0             ? options.window
                  : shares && !Transport::reaches ? default_window(source, options.slot_bytes)
                                                  : 2;
  constexpr std::size_t most = std::size_t{1} << 27, least = std::size_t{1} << 13;
  if (shares && options.slot_bytes == communicator_options{}.slot_bytes) {
    auto bytes = connection_tables::shared_bytes(source, layout);
    for (; bytes > most && layout.slot_bytes > least; bytes /= 2) layout.slot_bytes /= 2;
  }
  return layout;
}

/// Throws: precondition_error if the schedule is for another number of ranks.
template <class = when_used>
void expect_ranks(schedule const& source, int rank_count) {
  if (source.rank_count == rank_count) return;
  throw precondition_error(detail::text_of(
      {"schedule: for ", source.rank_count, " ranks, expected the communicator's ", rank_count}));
}

}}  // namespace blink::BLINK_ABI
