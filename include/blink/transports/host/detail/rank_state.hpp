// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/transports/host/detail/doorbell.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Returns a stall as one word, so that peers read it whole; never 0. Peer and tree have 15 bits,
/// the chunk 32.
[[nodiscard]] inline std::uint64_t encode_stall(stall const& where) {
  auto const bits = [](long long number, int count) {  // -1 as 0
    return static_cast<std::uint64_t>(number + 1) & ((std::uint64_t{1} << count) - 1);
  };
  return std::uint64_t{1} << 63 | (where.sends ? std::uint64_t{1} << 62 : 0) |
         bits(where.peer, 15) << 47 | bits(where.tree, 15) << 32 | bits(where.chunk, 32);
}
/// Returns the stall of such a word. 0 means none. The kind and the number of chunks are lost.
[[nodiscard]] inline reported_stall decode_stall(std::uint64_t word) {
  if (word == 0) return {};
  auto const number = [&](int shift, int count) {
    return static_cast<long long>(word >> shift & ((std::uint64_t{1} << count) - 1)) - 1;
  };
  stall where;
  where.sends = (word >> 62 & 1) != 0;
  where.peer = static_cast<int>(number(47, 15));
  where.tree = static_cast<int>(number(32, 15));
  where.chunk = number(0, 32);
  return {true, where};
}

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The times that one rank took to move chunks, in its last calls with an even and with an odd
/// number. Its peers read them in the next call. All bytes are 0 at first.
struct published_times {
  std::array<std::atomic<std::uint64_t>, 2> of_calls;

  /// Publishes the time of a call. The rank calls it in the call of that number.
  void report(std::uint64_t call, std::uint64_t nanoseconds) {
    std::uint64_t const reported = nanoseconds < most ? nanoseconds : most;
    of_calls[call % 2].store(reported << call_bits | call % calls, std::memory_order_release);
  }
  /// Returns the time of a call in nanoseconds; 0 if the rank has published nothing for it.
  ///
  /// Pre: the rank has not entered the call two later.
  [[nodiscard]] std::uint64_t of(std::uint64_t call) const {
    std::uint64_t const reported = of_calls[call % 2].load(std::memory_order_acquire);
    return reported % calls == call % calls ? reported >> call_bits : 0;
  }

 private:
  static constexpr unsigned call_bits = 24;
  static constexpr std::uint64_t calls = std::uint64_t{1} << call_bits;
  static constexpr std::uint64_t most = ~std::uint64_t{0} >> call_bits;
};

}}}  // namespace blink::BLINK_ABI::detail

// The layout of the memory of a `shared_state`: plain bytes that may belong to several processes,
// all 0 at first.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The part of a call that peers read, in one cache line.
///
/// A peer that sees the call's number also has the rest, so that a small call costs one transfer
/// between two cores. Addresses count from the begin of the memory that all ranks share
/// (`shared_state::set_addresses`).
struct alignas(64) call_entry {
  counter call = 0;           ///< its number; published after the rest is written
  std::uint64_t call_id = 0;  ///< hash
  std::uintptr_t input = 0;
  std::uintptr_t output = 0;
  std::array<std::byte, 32> eager{};  ///< the eager payload, if it is no longer than this
};
static_assert(sizeof(call_entry) == 64);

/// The words that one rank writes. Those of a call have two places, for calls with even and odd
/// numbers.
struct alignas(128) rank_state {
  // Peers read this in every call …
  std::array<call_entry, 2> entries;
  // eager payloads that do not fit into the entry
  std::array<std::array<std::byte, largest_eager_bytes>, 2> eager;
  alignas(128) published_times moved;  // … this in the call after a timed one …
  // … and the rest rarely, so that it stays in the owner's cache. The owner does not load its own
  // entries, because peers may be fetching those cache lines.
  alignas(128) std::atomic<std::uint32_t> is_inside;  // a `shared_state::place_in_call`
  std::atomic<std::uint32_t> is_gone;
  detail::doorbell doorbell;
  std::atomic<std::uint32_t> asks;       // 1 once the rank has called shrink
  std::atomic<std::uint64_t> waits_for;  // an encoded stall; 0: none
  std::atomic<std::uint64_t> heartbeats;
  std::atomic<std::uint64_t> barriers;  // that it has entered
  std::uint64_t calls;                  // that it has entered
  std::array<std::uint64_t, 2> hashes;
  std::array<call_description, 2> call_ids;
  std::atomic<std::uint32_t> has_reported;  // 1 once the rank reports a failure
  failure_note failure;
};

/// The words that all ranks write.
struct alignas(128) common_state_of_ranks {
  std::atomic<std::uint64_t> failure;  // number of the call, and the rank that reports it; 0: none
  std::atomic<std::uint32_t> sleepers;
  // the rank whose proposal of the remaining ranks counts, plus 1
  std::atomic<std::uint32_t> decided_by;
  alignas(128) std::atomic<std::uint64_t> arrivals;  // at barriers, of all ranks
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}}}  // namespace blink::BLINK_ABI::detail
