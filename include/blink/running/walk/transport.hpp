// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// One rank's handle to its peers, passed to a kernel by value.
///
/// A connection is one direction between two ranks. Its messages are numbered 0, 1, 2, … over its
/// whole life.
///
/// Semantics beyond the syntax:
/// - `has_credit(connection, m)`: the sender may write message m into `outbox(connection, m)`. The
///   outbox is a window of slots of `slot_bytes()` bytes. There is credit once the slot of message
///   m - window is free again.
/// - `post(connection, m, bytes)`: message m and all before it are complete. Earlier writes of the
///   sender's thread are visible to the receiver once `has_arrived(connection, m)` returned true.
///   `bytes` belong to message m. Only the sender calls it, with growing m.
/// - Before one or more calls of `post` and `consume` the thread calls `begin_publishing`.
/// - `consume(connection, m)`: the receiver has finished with message m and all before it.
///   Afterwards `consumed(connection, m)` becomes true at the sender.
/// - `is_present(peer)`: the peer runs the same call. Nothing is read from or written to a peer
///   that is not present.
/// - None of them waits. `is_aborted` is true once every wait must end.
/// - One thread of a group calls these. All threads use `inbox` and `outbox`.
template <class L>
concept transport = std::is_trivially_copyable_v<L> &&
                    requires(L const transport, int peer, std::uint32_t connection,
                             std::uint64_t message, std::size_t bytes) {
                      { transport.rank() } -> std::same_as<int>;
                      { transport.rank_count() } -> std::same_as<int>;
                      { transport.slot_bytes() } -> std::same_as<std::size_t>;
                      { transport.is_present(peer) } -> std::same_as<bool>;
                      { transport.is_aborted() } -> std::same_as<bool>;
                      { transport.has_credit(connection, message) } -> std::same_as<bool>;
                      { transport.outbox(connection, message) } -> std::same_as<std::byte*>;
                      { transport.post(connection, message, bytes) } -> std::same_as<void>;
                      { transport.has_arrived(connection, message) } -> std::same_as<bool>;
                      { transport.inbox(connection, message) } -> std::same_as<std::byte const*>;
                      { transport.consume(connection, message) } -> std::same_as<void>;
                      { transport.consumed(connection, message) } -> std::same_as<bool>;
                    };

/// A transport whose ranks load from and store to each other's buffers, so that data need not pass
/// through slots: threads of one process, GPUs with peer access.
///
/// Semantics beyond the syntax: `input_of` and `output_of` are the buffers that a present peer
/// passed to the call.
template <class L>
concept reaching_transport = transport<L> && requires(L const transport, int peer) {
  { transport.input_of(peer) } -> std::same_as<void const*>;
  { transport.output_of(peer) } -> std::same_as<void*>;
};
static_assert(!transport<int>);

// Further properties of a transport: static members of these names. Without the member the property
// is false.

/// True if connections lie in memory that ranks on other cores use in place, in the layout of
/// `connection_tables`.
///
/// Then writes may bypass the caches, and the counters of both directions of an edge share one
/// cache line. Messages use the parts of their slots in turn. `outbox` and `inbox` have a third
/// parameter, `endpoint::slot_subdivision`.
template <transport L>
inline constexpr bool shares_memory = requires { requires L::shares_memory; };

/// True if all data in such memory goes through slots, copied in by one core and out by another.
template <transport L>
inline constexpr bool passes_by_slots = shares_memory<L> && !reaching_transport<L>;

/// True if the input of a rank is ready as soon as the rank is present. Then it is not posted to
/// peers that read it themselves.
template <transport L>
inline constexpr bool presence_offers_input = requires { requires L::presence_offers_input; };

namespace detail {

/// The name of a transport in tuning tables; empty if it has none.
template <class Transport>
[[nodiscard]] constexpr std::string_view name_of_transport() {
  if constexpr (requires { std::string_view(Transport::name); }) {
    return Transport::name;
  } else {
    return {};
  }
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
