// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/call_signature.hpp>
#include <blink/running/call/failure_note.hpp>
#include <blink/running/call/world_options.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/transports/host/detail/told_times.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

// How the memory of a `world_state` is laid out: plain bytes that may belong to several processes, all 0 at first.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// What peers read of a call that a rank has entered, in one cache line: whoever sees that the rank has come has the
/// rest, too, and a small call costs one transfer between two cores. Addresses are counted from the begin of the memory
/// that all ranks share (`world_state::set_addresses`).
struct alignas(64) call_entry {
  counter call = 0;             ///< its number; published when the rest is written
  std::uint64_t signature = 0;  ///< fingerprint
  std::uintptr_t input = 0;
  std::uintptr_t output = 0;
  std::array<std::byte, 32> shown{};  ///< what the rank shows, if it is no more than this
};
static_assert(sizeof(call_entry) == 64);

/// What one rank writes. What belongs to a call has two places, for calls with even and odd numbers.
struct alignas(128) notice_board {
  // What the others read in every call …
  std::array<call_entry, 2> entries;
  std::array<std::array<std::byte, most_shown_bytes>, 2> shown;  // what does not fit into the entry
  alignas(128) told_times moved;  // … in the call after one that was timed …
  // … and what only its owner touches while all goes well: if it loaded an entry of its own, which others may be fetching,
  // 8 bytes would take 0.18 us instead of 0.14 (`peers_threads`, all_reduce, two cores near each other).
  alignas(128) std::atomic<std::uint32_t> is_inside;  // a `world_state::place_in_call`
  std::atomic<std::uint32_t> is_gone;
  std::atomic<std::uint32_t> doorbell;  // changes whenever a sleeper is to wake up
  std::atomic<std::uint32_t> is_asleep;
  std::atomic<std::uint32_t> asks;       // who is left?
  std::atomic<std::uint64_t> waits_for;  // a packed stall; 0: none
  std::atomic<std::uint64_t> beats;
  std::atomic<std::uint64_t> barriers;  // that it has come to
  std::uint64_t calls;                  // that it has entered
  std::array<std::uint64_t, 2> fingerprints;
  std::array<call_signature, 2> signatures;
  std::atomic<std::uint32_t> has_told;  // of a failure
  failure_note failure;
};

/// What all ranks write.
struct alignas(128) common_notices {
  std::atomic<std::uint64_t> failure;  // number of the call, and the rank that says so; 0: none
  std::atomic<std::uint32_t> sleepers;
  std::atomic<std::uint32_t> decided_by;             // whose proposal of who is left counts, plus 1
  alignas(128) std::atomic<std::uint64_t> arrivals;  // at barriers, of all ranks
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}}}  // namespace blink::BLINK_ABI::detail
