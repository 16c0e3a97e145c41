// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Messages that cross at the same time.
struct message_pattern {
  std::vector<int> to{};  ///< by rank: the receiver of its message; -1: none
  bool is_small = false;  ///< one element
  bool combines = false;  ///< each rank then adds what has arrived to its own data

  explicit message_pattern(std::size_t ranks) : to(ranks, -1) {}
  void send(int from, int receiver) { to[static_cast<std::size_t>(from)] = receiver; }
  void exchange(int a, int b) {
    send(a, b);
    send(b, a);
  }
};

/// The seconds of a pattern, equal on all ranks that measure it together.
struct pattern_seconds {
  double all = 0;            ///< until the last message has arrived
  std::vector<double> of{};  ///< by rank: until its own message has arrived
};

/// Measures patterns of at least one message. `has_time(share)` is true until that share of the
/// time is over.
template <class M>
concept pattern_meter = requires(M& meter, message_pattern const& pattern, double share) {
  { meter.measure(pattern) } -> std::same_as<pattern_seconds>;
  { meter.has_time(share) } -> std::same_as<bool>;
  { meter.bytes() } -> std::same_as<double>;  // of a message that is not small
};

/// The rounds of a tournament of `players`, in which each meets each other one once. Each round is
/// a list of disjoint pairs. An odd number leaves one player out of each round.
///
/// Source: the circle method: T. Kirkman, "On a problem in combinations", 1847.
[[nodiscard]] inline std::vector<std::vector<std::pair<std::size_t, std::size_t>>>
tournament_rounds(std::size_t players) {
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> result;
  if (players < 2) return result;
  auto const places = players + players % 2;  // one more, if it is odd
  auto const circle = places - 1;
  for (std::size_t round = 0; round < circle; ++round) {
    auto& pairs = result.emplace_back();
    if (players == places) pairs.emplace_back(round, circle);
    for (std::size_t k = 1; k < places / 2; ++k) {
      pairs.emplace_back((round + k) % circle, (round + circle - k) % circle);
    }
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
