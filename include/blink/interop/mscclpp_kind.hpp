// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// The operations of MSCCL++'s executors: one table for readers, writer and checker.

namespace blink { inline namespace BLINK_ABI {

/// The operations of a thread block.
///
/// Packets hold data and the number of the call (LL protocol) and need twice the memory. A read of
/// packets waits until they have arrived.
enum class mscclpp_kind : std::uint8_t {
  sync,                     ///< the block's threads wait for each other
  wait,                     ///< for one more signal on each channel
  signal,                   ///< once on each channel
  put,                      ///< each source to its destination, at a peer
  copy,                     ///< the same, inside the rank
  reduce,                   ///< the sum of the sources to the destination
  acquire,                  ///< waits until each semaphore is positive, takes one off
  release,                  ///< adds one to each semaphore
  barrier,                  ///< some blocks of the rank wait for each other
  relaxed_wait,             ///< as wait, without a promise about the peer's stores
  relaxed_signal,           ///< as signal, without a promise about earlier stores
  flush,                    ///< waits until what was put over the port channels has arrived
  put_signal,               ///< over ports: put, then signal
  put_signal_flush,         ///< over ports: put, signal, flush
  get,                      ///< each source, at a peer, to its destination
  reduce_put,               ///< reduce, with more destinations at peers
  read_reduce,              ///< reduce, with all sources but the first at peers
  read_reduce_put,          ///< read_reduce, with more destinations at peers
  put_packets,              ///< put, arriving as packets; over ports, sources are packets
  forward_packets,          ///< packets to packets at peers
  pack,                     ///< copy, to packets
  unpack,                   ///< copy, from packets
  reduce_packets,           ///< reduce, with all sources but the first packets
  reduce_packets_put,       ///< the same, with more destinations: packets at peers
  reduce_packets_pack,      ///< reduce_packets, with a second destination: packets
  reduce_packets_pack_put,  ///< the same, with more destinations: packets at peers
  group_reduce,             ///< the sum over a group's ranks to all ranks of a group
  group_store,              ///< the source to all ranks of a group
  group_store_packets,      ///< packets to packets at all ranks of a group
};

/// The names of an operation, and the places that it takes.
///
/// Places are letters: l inside the rank, r at a peer, g at a group. A capital letter stands for
/// packets. A star repeats the letter before it, any number of times.
struct mscclpp_traits {
  mscclpp_kind kind = mscclpp_kind::sync;
  std::string_view name = {};          ///< in files since MSCCL++ 0.8
  std::string_view earlier_name = {};  ///< in files of MSCCL++ 0.5 to 0.7; empty: none
  std::string_view sources = {};       ///< empty: the operation moves no data
  std::string_view destinations = {};  ///< the same
  bool is_pairwise = false;  ///< each source to its destination; else the sum of all to all
};

/// The operations in the order of `mscclpp_kind`.
///
/// Source: names and handlers of MSCCL++'s executors, versions 0.5 to 0.10; places since 0.8.
inline constexpr std::array<mscclpp_traits, 29> mscclpp_kinds{{
    {mscclpp_kind::sync, "nop", "nop"},
    {mscclpp_kind::wait, "wait", "wait"},
    {mscclpp_kind::signal, "signal", "signal"},
    {mscclpp_kind::put, "put", "put", "l*", "r*", true},
    {mscclpp_kind::copy, "copy", "copy", "l", "l"},
    {mscclpp_kind::reduce, "re", "re", "l*", "l"},
    {mscclpp_kind::acquire, "sem_acquire"},
    {mscclpp_kind::release, "sem_release"},
    {mscclpp_kind::barrier, "barrier", "barrier"},
    {mscclpp_kind::relaxed_wait, "rlxwait"},
    {mscclpp_kind::relaxed_signal, "rlxsignal"},
    {mscclpp_kind::flush, "flush", "flush"},
    {mscclpp_kind::put_signal, "pws", "pws", "l*", "r*", true},
    {mscclpp_kind::put_signal_flush, "pwsf", "pwsf", "l*", "r*", true},
    {mscclpp_kind::get, "get", "get", "r*", "l*", true},
    {mscclpp_kind::reduce_put, "res", "rs", "l*", "lr*"},
    {mscclpp_kind::read_reduce, "rre", "rrc", "lr*", "l"},
    {mscclpp_kind::read_reduce_put, "rres", "rrcs", "lr*", "lr*"},
    {mscclpp_kind::put_packets, "ppkt", "ppkt", "l*", "R*", true},
    {mscclpp_kind::forward_packets, "rppkt", "rppkt", "L", "R*"},
    {mscclpp_kind::pack, "cpkt", "tpkt", "l", "L"},
    {mscclpp_kind::unpack, "upkt", "cpkt", "L", "l"},
    {mscclpp_kind::reduce_packets, "repkt", "rpkt", "lL*", "l"},
    {mscclpp_kind::reduce_packets_put, "respkt", "rspkt", "lL*", "lR*"},
    {mscclpp_kind::reduce_packets_pack, "recpkt", "", "lL*", "lL"},
    {mscclpp_kind::reduce_packets_pack_put, "recspkt", "", "lL*", "lLR*"},
    {mscclpp_kind::group_reduce, "glres", "glres", "g", "g"},
    {mscclpp_kind::group_store, "gstore", "", "l", "g"},
    {mscclpp_kind::group_store_packets, "gstorepkt", "", "L", "G"},
}};
static_assert([] {
  for (std::size_t i = 0; i < mscclpp_kinds.size(); ++i) {
    if (mscclpp_kinds[i].kind != static_cast<mscclpp_kind>(i)) return false;
  }
  return true;
}());

/// The row of an operation.
[[nodiscard]] constexpr mscclpp_traits const& traits_of(mscclpp_kind kind) {
  return mscclpp_kinds[static_cast<std::size_t>(kind)];
}
/// The name of an operation in MSCCL++'s files.
[[nodiscard]] constexpr std::string_view to_text(mscclpp_kind kind) {
  return traits_of(kind).name;
}
/// True if the operation moves data.
[[nodiscard]] constexpr bool moves_data(mscclpp_kind kind) {
  return !traits_of(kind).destinations.empty();
}
/// True if the operation adds up: several sources, or those of a group's ranks.
[[nodiscard]] constexpr bool adds_up(mscclpp_kind kind) {
  auto const& row = traits_of(kind);
  return !row.is_pairwise && (row.sources.ends_with('*') || row.sources == "g");
}
/// True if the operation waits for signals.
[[nodiscard]] constexpr bool waits(mscclpp_kind kind) {
  return kind == mscclpp_kind::wait || kind == mscclpp_kind::relaxed_wait;
}
/// True if the operation signals, after a put or without one.
[[nodiscard]] constexpr bool signals(mscclpp_kind kind) {
  return kind == mscclpp_kind::signal || kind == mscclpp_kind::relaxed_signal ||
         kind == mscclpp_kind::put_signal || kind == mscclpp_kind::put_signal_flush;
}

}}  // namespace blink::BLINK_ABI
