// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/stall.hpp>

#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

class shared_state;
struct wait_record;

/// How a rank makes its call fail on all ranks that share memory with it, with a text that says why: what there is to say
/// is a third as much code as a call. Through this table it is compiled where ranks are made (`reported_failures`), and not in each unit
/// that calls something.
struct failure_tellers {
  /// It gives up waiting.
  void (*stalled)(shared_state&, int rank, stall const& where, std::uint64_t call,
                  wait_record const& waits);
  /// `peer` has called something else.
  void (*unlike)(shared_state&, int rank, int peer, std::uint64_t call);
  /// `peer` does not come to this barrier.
  void (*missing)(shared_state&, int rank, int peer, std::uint64_t round);
  /// For a reason of its own.
  void (*gave_up)(shared_state&, int rank, std::string const& why);
};

}}  // namespace blink::BLINK_ABI
