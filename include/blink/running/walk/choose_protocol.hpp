// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// Costs of a step of each protocol on a machine, for the choice between them.
struct protocol_costs {
  double chunk_seconds = 4e-6;     ///< data, then a flag behind it, to a peer GPU
  double packet_seconds = 6e-7;    ///< data and flag in one word
  double bytes_per_second = 2e10;  ///< over one edge
};

/// The protocols as values: the result of a choice.
enum class protocol_choice : std::uint8_t { whole_chunks, small_packets };

/// Returns the seconds that a message of `bytes` takes over `steps` edges, one after the other.
///
/// Packets double the bytes. The message counts as one chunk, because messages for which the choice
/// matters are that small.
[[nodiscard]] inline double predicted_seconds(protocol_choice protocol, int steps,
                                              std::size_t bytes, protocol_costs const& costs) {
  bool const packets = protocol == protocol_choice::small_packets;
  double const on_edge = static_cast<double>(bytes) * (packets ? 2 : 1) / costs.bytes_per_second;
  return steps * ((packets ? costs.packet_seconds : costs.chunk_seconds) + on_edge);
}

/// A function that chooses a protocol for a message of `bytes` over `steps` edges, one after the
/// other.
///
/// Semantics beyond the syntax: the result is the same in all processes for equal arguments.
template <class C>
concept protocol_chooser = requires(C const choose, int steps, std::size_t bytes) {
  { choose(steps, bytes) } -> std::same_as<protocol_choice>;
};

/// The same protocol for all calls, fixed at compile time.
template <connection_protocol Protocol>
struct fixed_protocol {
  [[nodiscard]] protocol_choice operator()(int, std::size_t) const {
    return std::is_same_v<Protocol, small_packets> ? protocol_choice::small_packets
                                                   : protocol_choice::whole_chunks;
  }
};

/// The faster protocol by the cost model.
struct modelled_protocol {
  protocol_costs costs{};
  [[nodiscard]] protocol_choice operator()(int steps, std::size_t bytes) const {
    auto const seconds = [&](protocol_choice protocol) {
      return predicted_seconds(protocol, steps, bytes, costs);
    };
    return seconds(protocol_choice::small_packets) < seconds(protocol_choice::whole_chunks)
               ? protocol_choice::small_packets
               : protocol_choice::whole_chunks;
  }
};

static_assert(protocol_chooser<modelled_protocol>);
static_assert(protocol_chooser<fixed_protocol<whole_chunks>> && !protocol_chooser<whole_chunks>);

/// True if the choice may be this protocol. A fixed choice does not need the other's kernels and
/// memory.
template <protocol_chooser Choose, connection_protocol Protocol>
inline constexpr bool may_choose = true;
template <connection_protocol Fixed, connection_protocol Protocol>
inline constexpr bool may_choose<fixed_protocol<Fixed>, Protocol> = std::is_same_v<Fixed, Protocol>;

/// Returns a chooser with these costs, if it takes costs.
template <protocol_chooser Choose>
[[nodiscard]] Choose chooser_with(protocol_costs const& costs) {
  if constexpr (requires { Choose{costs}; }) {
    return Choose{costs};
  } else {
    return Choose{};
  }
}

/// Edges that a message passes one after the other: those of the tallest tree.
///
/// Time:   O(T V).
/// Throws: precondition_error if the schedule does not carry this collective.
[[nodiscard]] inline int steps_of(schedule const& source, collective kind) {
  validate_for(source, kind);
  int steps = 0;
  for (auto const& tree : source.trees) {
    int own = 0;
    if (has_reduce_phase(kind)) own += tree_height(tree.reduce_parent);
    if (has_broadcast_phase(source, tree, kind)) own += tree_height(tree.broadcast_parent);
    steps = std::max(steps, own);
  }
  return steps;
}

/// Returns the protocol for a call along a schedule. All ranks choose the same for equal arguments.
///
/// bytes:  of the whole buffer
/// choose: `fixed_protocol`, `modelled_protocol`, or another `protocol_chooser`
/// Time:   O(T V).
/// Throws: precondition_error if the schedule does not carry this collective.
template <protocol_chooser Choose = modelled_protocol>
[[nodiscard]] protocol_choice choose_protocol(schedule const& source, collective kind,
                                              std::size_t bytes, Choose const& choose = {}) {
  int const steps = steps_of(source, kind);
  std::uint64_t total = 0;
  std::uint64_t heaviest = 0;
  for (auto const& tree : source.trees) {
    total += tree.weight;
    heaviest = std::max(heaviest, tree.weight);
  }
  // The share of the heaviest tree, over each of its edges.
  double const share =
      static_cast<double>(heaviest) / static_cast<double>(std::max<std::uint64_t>(1, total));
  return choose(steps, static_cast<std::size_t>(static_cast<double>(bytes) * share));
}

}}  // namespace blink::BLINK_ABI
