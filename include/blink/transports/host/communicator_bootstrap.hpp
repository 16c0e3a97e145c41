// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/all_gather.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/schedule/default_schedules.hpp>

#include <cstddef>

namespace blink { inline namespace BLINK_ABI {

/// A bootstrap over the ranks of a communicator, each a process: `communicator_bootstrap
/// all(comm);`
///
/// The communicator is a `process_communicator`, started by `blink run`, or an `mpi_communicator`.
template <communicator Comm>
class communicator_bootstrap {
 public:
  /// Pre: each rank of `comm` is a process; `comm` outlives this object.
  explicit communicator_bootstrap(Comm& comm) : me_(comm) {}

  [[nodiscard]] int process() const { return me_.rank(); }
  [[nodiscard]] int process_count() const { return me_.rank_count(); }
  /// Throws: collective_error if a process does not arrive before the communicator's deadline.
  void all_gather(void const* own, void* all, std::size_t bytes) {
    blink::all_gather(me_, star_schedule(me_.rank_count()), static_cast<std::byte const*>(own),
                      static_cast<std::byte*>(all), bytes);
  }

 private:
  Comm& me_;
};

}}  // namespace blink::BLINK_ABI
