// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/transports/host/failure_reporters.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

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
