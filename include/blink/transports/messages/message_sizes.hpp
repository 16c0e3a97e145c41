// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/schedule/host_schedules.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <algorithm>
#include <cstddef>

// The sizes that decide how data crosses between hosts: with the announcement of the call (eager),
// through slots, or from buffer to buffer (zero copy). All in bytes.

namespace blink { inline namespace BLINK_ABI {

/// The default eager limit with two ranks.
inline constexpr std::size_t default_eager_limit = std::size_t{512} << 10;

/// The smallest message that usually leaves from a buffer and arrives in one.
inline constexpr std::size_t usual_zero_copy_threshold = std::size_t{16} << 10;
/// A threshold of zero copy that no message reaches.
inline constexpr std::size_t no_zero_copy = static_cast<std::size_t>(-1);

/// The default threshold of zero copy: none over channels that cannot abandon a peer.
///
/// There the library may use the buffer of a message for as long as the peer hangs. So it gets
/// buffers that outlive the call: slots.
template <message_channel Channel>
inline constexpr std::size_t default_zero_copy_threshold =
    loss_tolerant_channel<Channel> ? usual_zero_copy_threshold : no_zero_copy;

namespace detail {

/// Returns the eager limit of a rank. It is below the size from which on trees are faster:
/// `usual_zero_copy_threshold`, or a smaller one, for each step and peer.
///
/// with_two: the limit with two ranks
/// steps:    steps of the trees: one, or two for an all-reduce
[[nodiscard]] inline std::size_t eager_limit_of(int rank_count, std::size_t with_two,
                                                std::size_t zero_copy_threshold,
                                                std::size_t steps) {
  auto const peers = static_cast<std::size_t>(std::max(1, rank_count - 1));
  std::size_t const message = std::min(zero_copy_threshold, usual_zero_copy_threshold);
  return std::min(with_two / peers, std::max<std::size_t>(1, message * peers * steps) - 1);
}

/// Returns the largest eager payload with which no host sends more than 64 KiB in all. Trees send
/// each byte to another host once, and eager payloads once for each pair of ranks.
[[nodiscard]] inline std::size_t largest_eager_between(hosts_of_ranks const& all) {
  constexpr std::size_t most = std::size_t{64} << 10;
  std::size_t pairs = 1;
  for (auto const& here : all.ranks) {
    pairs = std::max(pairs, here.size() * (all.host_of.size() - here.size()));
  }
  return most / pairs;
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
