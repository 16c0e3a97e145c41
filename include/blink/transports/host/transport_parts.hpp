// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

class shared_state;
struct wait_record;

/// Functions by which a rank fails its call on all ranks that share memory with it, with a text
/// that states the cause.
///
/// Building the text takes much code. Through this table it is compiled where ranks are made
/// (`reported_failures`), and not in each unit that calls.
struct failure_tellers {
  /// The rank gives up waiting.
  void (*stalled)(shared_state&, int rank, stall const& where, std::uint64_t call,
                  wait_record const& waits);
  /// `peer` has called something else.
  void (*unlike)(shared_state&, int rank, int peer, std::uint64_t call);
  /// `peer` does not enter this barrier.
  void (*missing)(shared_state&, int rank, int peer, std::uint64_t round);
  /// For a cause of the rank's own.
  void (*gave_up)(shared_state&, int rank, std::string const& why);
};

/// The parts of a transport: one rank's view of one call.
struct transport_parts {
  shared_state* state = nullptr;
  prepared_schedule* prepared = nullptr;
  std::uint64_t* seen =
      nullptr;  ///< by peer, private to the rank: the last call that it was found present in
  std::uint64_t call = 0;
  int rank = 0;
  failure_tellers const* report = nullptr;  ///< for ranks that have called something else
};

}}  // namespace blink::BLINK_ABI
