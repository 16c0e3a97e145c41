// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/all_gather.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/session.hpp>
#include <blink/schedule/default_schedules.hpp>

#include <cstddef>

namespace blink { inline namespace BLINK_ABI {

/// The processes that are the ranks of a session: `process_world`, started by `blink run`, or
/// `mpi_session`. `session_bootstrap all(me);`
template <session Me>
class session_bootstrap {
 public:
  /// Pre: each rank of `me` is a process; `me` outlives this object.
  explicit session_bootstrap(Me& me) : me_(me) {}

  [[nodiscard]] int process() const { return me_.rank(); }
  [[nodiscard]] int process_count() const { return me_.rank_count(); }
  /// Throws: collective_error if a process does not come before the session's deadline.
  void all_gather(void const* own, void* all, std::size_t bytes) {
    blink::all_gather(me_, star_schedule(me_.rank_count()), static_cast<std::byte const*>(own),
                      static_cast<std::byte*>(all), bytes);
  }

 private:
  Me& me_;
};

}}  // namespace blink::BLINK_ABI
