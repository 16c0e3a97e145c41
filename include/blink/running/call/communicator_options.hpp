// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/duration.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/slot_rotation.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// How long a rank that cannot go on spins, yields and sleeps.
struct wait_options {
  nanoseconds deadline{30'000'000'000};  ///< without any progress
  int spins = 200;    ///< rounds over the tasks before it yields; few if ranks share cores
  int yields = 1000;  ///< rounds with a yield before it sleeps
  /// The longest nap: what happens wakes a rank up, but for rare accidents.
  nanoseconds sleep{500'000};
};

/// Nanoseconds after which a rank that waits looks again whether it waits in vain.
[[nodiscard]] inline std::uint64_t longest_sleep(wait_options const& options) {
  auto const sleep = static_cast<std::uint64_t>(options.sleep.count());
  auto const part = static_cast<std::uint64_t>(options.deadline.count()) / 16 + 1;
  return sleep < part ? sleep : part;
}

/// Bytes of its input that a rank can show.
inline constexpr std::size_t largest_eager_bytes = 2048;

/// How a communicator runs its calls. Equal on all its ranks.
struct communicator_options {
  wait_options waits{};
  std::uint32_t window = 0;  ///< slots of a wire: chunks in flight; 0: 2, or `default_window`
  std::size_t slot_bytes = 1 << 18;  ///< the largest chunk; elements that are larger are refused
  pipeline_costs costs{};            ///< for choosing chunks that the schedule leaves open
  /// Outputs from this size on bypass caches, unless measuring says otherwise.
  std::size_t streaming_bytes = std::size_t{1} << 23;
  /// Each rank measures, while it runs, which way to write outputs from this size on is the fastest (`store_mode_tuner`), up to
  /// 64 MiB where it does not copy them out of slots of shared memory; the largest std::size_t: `streaming_bytes` decides. A team of threads
  /// does not measure.
  std::size_t measured_bytes = std::size_t{1} << 12;
  /// Inputs that have up to so many bytes together, each at most `largest_eager_bytes`, are shown to
  /// all ranks when a call is entered; no tree is walked then. 0: everything takes the trees.
  std::size_t eager_payload = 8192;
  std::uint32_t team_size = 1;  ///< threads for each rank; more than 1 for `team_group` only
};

/// Throws: precondition_error if an option is out of range.
template <class = when_used>
void validate(communicator_options const& options) {
  expects(options.slot_bytes >= 1, "communicator_options: slot_bytes >= 1");
  expects(options.team_size >= 1, "communicator_options: team_size >= 1");
  expects(options.waits.deadline.count() > 0, "communicator_options: deadline > 0");
  expects(options.waits.spins >= 0, "communicator_options: spins >= 0");
  expects(options.waits.yields >= 0, "communicator_options: yields >= 0");
}

/// Ranks that share cores must hardly spin: somebody else has the work.
[[nodiscard]] inline communicator_options spinning_no_longer_than_fits(communicator_options options,
                                                                       int rank_count) {
  auto const threads = static_cast<unsigned>(rank_count) * options.team_size;
  if (threads > detail::core_count() && options.waits.spins > 2) {
    options.waits.spins = 2;
  }
  return options;
}

/// How the connections of a schedule between ranks of such a communicator are laid out.
///
/// Pre: `validate(schedule)` passed.
template <transport Transport>
[[nodiscard]] connection_layout connection_layout_of(communicator_options const& options,
                                                     schedule const& source) {
  connection_layout layout;
  layout.reaches = Transport::reaches;
  layout.shares_memory = shares_memory<Transport>;
  layout.is_shaped = Transport::is_shaped;
  layout.slot_bytes = options.slot_bytes;
  layout.window = options.window != 0          ? options.window
                  : passes_by_slots<Transport> ? default_window(source, options.slot_bytes)
                                               : 2;
  return layout;
}

/// Throws: precondition_error if the schedule is for another number of ranks.
template <class = when_used>
void expect_ranks(schedule const& source, int rank_count) {
  if (source.rank_count == rank_count) return;
  throw precondition_error(detail::text_of(
      {"schedule: for ", source.rank_count, " ranks, the communicator has ", rank_count}));
}

}}  // namespace blink::BLINK_ABI
