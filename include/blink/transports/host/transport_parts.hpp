// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

class host_wait;

/// One rank of a communicator in shared memory: the part of its calls that is needed rarely.
///
/// The functions are virtual so that they are compiled where ranks are made, and not in each unit
/// that calls. Building the texts of failures takes much code.
class host_rank {
 public:
  /// Fails the call on all ranks: this rank gives up waiting.
  virtual void report_stall(stall const& where) = 0;
  /// Fails the call on all ranks: `peer` has called something else.
  virtual void report_other_call(int peer) = 0;
  /// Fails the call on all ranks: `peer` does not enter this barrier.
  virtual void report_missing(int peer, std::uint64_t round) = 0;
  /// Fails the call on all ranks for a cause of this rank's own.
  virtual void report_cause(std::string const& why) = 0;
  /// Yields, then sleeps, after the spins of a wait.
  virtual status wait_long(host_wait& wait) = 0;

 protected:
  ~host_rank() = default;
};

/// The parts of a transport: one rank's view of one call.
struct transport_parts {
  shared_state* state = nullptr;
  prepared_schedule* prepared = nullptr;
  /// by peer, private to this rank: the last call in which the peer was present
  std::uint64_t* seen = nullptr;
  std::uint64_t call = 0;
  int rank = 0;
  host_rank* own = nullptr;
};

}}  // namespace blink::BLINK_ABI
