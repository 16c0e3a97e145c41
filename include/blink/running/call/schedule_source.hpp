// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/operand_order.hpp>
#include <blink/schedule/schedule.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// The schedule and chunk size of a call.
///
/// Prepared: what a communicator prepares from a schedule
template <class Prepared>
struct chosen_from {
  Prepared* prepared = nullptr;
  std::size_t chunk_bytes = 0;  ///< 0: the chunk size of the schedule
};
using chosen_schedule = chosen_from<prepared_schedule>;

/// A chooser of schedules by collective and size, such as `prepared_tuning`.
///
/// Semantics beyond the syntax: `bytes` is the size of the whole buffer, the segments of all ranks
/// together if the collective has segments. Equal arguments give equal schedules on all ranks.
template <class S>
concept schedule_chooser = requires(S& choice, collective kind, std::size_t bytes) {
  { choice.choose(kind, bytes) } -> std::same_as<chosen_schedule>;
};

/// A prepared schedule, or a schedule, which is prepared first unless the communicator has it
/// already. Calls whose sizes differ from rank to rank take only these, because ranks might choose
/// differently by size.
template <class S>
concept single_schedule =
    std::same_as<S, prepared_schedule&> || std::same_as<std::remove_cvref_t<S>, schedule>;

/// A source of the schedule of a collective: a single schedule or a chooser.
template <class S>
concept schedule_source = single_schedule<S> || schedule_chooser<std::remove_reference_t<S>>;

namespace detail {

/// The way in which a call uses its schedule.
struct schedule_use {
  operand_order needed = operand_order::any;  ///< by the reducer
  bool is_one_call = false;  ///< nothing refers to the prepared schedule after the next call
};

/// Returns the prepared schedule of a call. Throws: as `prepare`.
template <communicator Comm, single_schedule Source>
[[nodiscard]] prepared_schedule& prepared_from(Comm& comm, Source&& trees,
                                               [[maybe_unused]] schedule_use use = {}) {
  if constexpr (std::same_as<Source, prepared_schedule&>) {
    return trees;
  } else if constexpr (forgetting_communicator<Comm>) {
    return use.is_one_call ? comm.prepare_for_call(trees) : comm.prepare(trees);
  } else {
    return comm.prepare(trees);
  }
}

/// Returns the schedule of a call.
template <communicator Comm, schedule_source Source>
[[nodiscard]] chosen_schedule choose_schedule(Comm& comm, Source&& trees, collective kind,
                                              std::size_t bytes, schedule_use use = {}) {
  if constexpr (single_schedule<Source>) {
    return {&prepared_from(comm, std::forward<Source>(trees), use), 0};
  } else if constexpr (requires { trees.choose(kind, bytes, use.needed); }) {
    return trees.choose(kind, bytes, use.needed);
  } else {
    return trees.choose(kind, bytes);
  }
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
