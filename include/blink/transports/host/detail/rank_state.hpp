// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/stall.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// For whom a rank waits, as one word, so that others read it whole: never 0. Peer and tree are kept to 15
/// bits, the chunk to 32.
[[nodiscard]] inline std::uint64_t encode_stall(stall const& where) {
  auto const bits = [](long long number, int count) {  // -1 as 0
    return static_cast<std::uint64_t>(number + 1) & ((std::uint64_t{1} << count) - 1);
  };
  return std::uint64_t{1} << 63 | (where.sends ? std::uint64_t{1} << 62 : 0) |
         bits(where.peer, 15) << 47 | bits(where.tree, 15) << 32 | bits(where.chunk, 32);
}
/// Nothing is reported by 0. Of the kind and the number of chunks nothing is kept.
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

/// What moving chunks took one rank, for its peers to read in the call after it: of the last calls with an even and
/// with an odd number. All bytes 0 at first.
struct published_times {
  std::array<std::atomic<std::uint64_t>, 2> of_calls;

  /// By the rank, in its call of that number.
  void report(std::uint64_t call, std::uint64_t nanoseconds) {
    std::uint64_t const reported = nanoseconds < most ? nanoseconds : most;
    of_calls[call % 2].store(reported << call_bits | call % calls, std::memory_order_release);
  }
  /// Nanoseconds; 0 if the rank has reported nothing of that call.
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

// How the memory of a `shared_state` is laid out: plain bytes that may belong to several processes, all 0 at first.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// What peers read of a call that a rank has entered, in one cache line: whoever sees that the rank has come has the
/// rest, too, and a small call costs one transfer between two cores. Addresses are counted from the begin of the memory
/// that all ranks share (`shared_state::set_addresses`).
struct alignas(64) call_entry {
  counter call = 0;           ///< its number; published when the rest is written
  std::uint64_t call_id = 0;  ///< hash
  std::uintptr_t input = 0;
  std::uintptr_t output = 0;
  std::array<std::byte, 32> eager{};  ///< what the rank shows, if it is no more than this
};
static_assert(sizeof(call_entry) == 64);

/// What one rank writes. What belongs to a call has two places, for calls with even and odd numbers.
struct alignas(128) rank_state {
  // What the others read in every call …
  std::array<call_entry, 2> entries;
  std::array<std::array<std::byte, largest_eager_bytes>, 2>
      eager;                           // what does not fit into the entry
  alignas(128) published_times moved;  // … in the call after one that was timed …
  // … and what only its owner touches while all goes well: if it loaded an entry of its own, which others may be fetching,
  // 8 bytes would take 0.18 us instead of 0.14 (`peers_threads`, all_reduce, two cores near each other).
  alignas(128) std::atomic<std::uint32_t> is_inside;  // a `shared_state::place_in_call`
  std::atomic<std::uint32_t> is_gone;
  std::atomic<std::uint32_t> doorbell;  // changes whenever a sleeper is to wake up
  std::atomic<std::uint32_t> is_asleep;
  std::atomic<std::uint32_t> asks;       // who is left?
  std::atomic<std::uint64_t> waits_for;  // a packed stall; 0: none
  std::atomic<std::uint64_t> heartbeats;
  std::atomic<std::uint64_t> barriers;  // that it has come to
  std::uint64_t calls;                  // that it has entered
  std::array<std::uint64_t, 2> hashes;
  std::array<call_description, 2> call_ids;
  std::atomic<std::uint32_t> has_reported;  // of a failure
  failure_note failure;
};

/// What all ranks write.
struct alignas(128) common_state_of_ranks {
  std::atomic<std::uint64_t> failure;  // number of the call, and the rank that says so; 0: none
  std::atomic<std::uint32_t> sleepers;
  std::atomic<std::uint32_t> decided_by;             // whose proposal of who is left counts, plus 1
  alignas(128) std::atomic<std::uint64_t> arrivals;  // at barriers, of all ranks
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}}}  // namespace blink::BLINK_ABI::detail
