// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/collective_error.hpp>
#include <blink/collectives/detail/check_buffers.hpp>
#include <blink/collectives/detail/fingerprint.hpp>
#include <blink/collectives/detail/shown_inputs.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/collectives/order.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/session.hpp>
#include <blink/collectives/stall.hpp>
#include <blink/collectives/status.hpp>
#include <blink/collectives/tree_walk.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/transports/prepared_schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace blink::inline BLINK_ABI::detail {

/// Names its arguments, for comparing what ranks called and for telling it.
template <class... Types>
[[nodiscard]] constexpr std::string_view names_of() {
  std::string_view const text = __PRETTY_FUNCTION__;
  auto const first = text.find("Types");
  auto const last = text.find_first_of(";]", first);  // gcc goes on with "; std::string_view = …"
  return text.substr(first, last == std::string_view::npos ? last : last - first);
}

[[nodiscard]] constexpr std::uint64_t fingerprint_of(std::string_view text) {
  fingerprint result;
  result.add(text);
  return result.value();
}

/// The element types that cross links: bytes are all that is needed to copy them.
template <class T>
inline constexpr bool is_element = std::is_trivially_copyable_v<T> && !std::is_const_v<T>;

/// Stands where a collective does not reduce.
struct no_reducer {
  template <class T>
  BLINK_HOST_DEVICE T const& operator()(T const& a, T const&) const {
    return a;
  }
};

/// What a rank with these lanes does with its buffers.
[[nodiscard]] inline buffer_use use_of(lane_list const& lanes) {
  buffer_use result;
  for (std::size_t k = 0; k < lanes.count; ++k) {
    result.reads = result.reads || lanes.first[k].reads_input;
    result.writes = result.writes || lanes.first[k].writes_output;
  }
  return result;
}

/// Do ranks send other data from the place where they receive, if the output is in the input's place?
[[nodiscard]] constexpr bool sends_and_receives(collective kind) {
  return kind == collective::all_to_all || kind == collective::send_to_next ||
         kind == collective::permute;
}

/// The walls around `walk` on host threads: agree, cut, walk, and turn failure into an exception.
///
/// count: elements of the whole buffer, or of one block where the collective has blocks
template <chunking Chunks, session Me, class T, class Reducer>
void run_collective(Me& me, prepared_schedule& plan, collective kind, T const* input, T* output,
                    std::size_t count, Reducer const& reduce) {
  static_assert(is_element<T>, "blink: elements of collectives are trivially copyable types");
  static_assert(combines<Reducer, T>,
                "blink: this reducer cannot combine two elements of this type into a third");
  static_assert(comes_back_from_wires<Reducer, T>,
                "blink: a reducer that sends needs recv(wire), which gives the accumulator back");
  static_assert(ends_as_an_element<Reducer, T>,
                "blink: what this reducer's finish returns does not convert to this element type");
  static_assert(reducer_for<Reducer, T>,
                "blink: reducers are copied; accumulators and what is sent are copied as bytes");
  static_assert(alignof(T) <= 128, "blink: elements need an alignment of at most 128 bytes");
  plan.expect_carries(kind);
  if (plan.source().rank_count != me.rank_count()) {
    throw precondition_error("schedule: prepared for another number of ranks");
  }
  if constexpr (!is_commutative<Reducer>) {
    expects(plan.keeps_order(),
            "a reducer that is not commutative needs a schedule that keeps the order of the ranks");
  }
  auto const ranks = static_cast<std::size_t>(me.rank_count());
  lane_list const lanes = plan.tables().lanes(me.rank(), kind);
  auto const overlap = check_buffers(kind, use_of(lanes), me.rank(), me.rank_count(), input, output,
                                     count, sizeof(T));
  constexpr element_sizes sizes = sizes_of<Reducer, T>();
  expects(sizes.largest() <= plan.tables().layout().slot_bytes,
          "world_options: slot_bytes is less than the size of one element");

  auto const group = me.group();
  bool const leads = group.thread_rank() == 0;
  int const rank = me.rank();
  std::size_t const in_count = has_input_blocks(kind) ? ranks * count : count;
  std::size_t const out_count = has_output_blocks(kind) ? ranks * count : count;
  if (overlap == buffer_overlap::in_place && sends_and_receives(kind)) {
    // What is sent lies where others write: they get it from a copy.
    if (leads) {
      std::memcpy(plan.copy_of(rank).at_least(in_count * sizeof(T)), input, in_count * sizeof(T));
    }
    group.sync();
    input = reinterpret_cast<T const*>(plan.copy_of(rank).data());
  }
  status result = status::ok;
  bool shows = false;
  constexpr bool may_show = order_of<Reducer> != order_promise::shape && alignof(T) <= 32;
  if (leads) {
    constexpr std::string_view names = names_of<T, Reducer, Chunks>();
    constexpr std::uint64_t types = fingerprint_of(names);
    result = me.enter(plan, {{kind, plan.fingerprint(), count, sizeof(T), names, types},
                             input,
                             static_cast<void*>(output),
                             may_show});
    if constexpr (showing_session<Me>) shows = me.shows_inputs();
    for (std::size_t k = 0; k < lanes.count && !shows; ++k) {
      auto& here = lanes.first[k];
      plan.set_call<Chunks>(here, kind, plan.equal_block(here, kind, count), sizes,
                            order_of<Reducer>);
      if (result == status::ok) open_lane(me.link(), here, sizeof(T));
    }
  }

  call_buffers<T> buffers{input, output, false};
  buffers.streams = out_count * sizeof(T) >= me.options().streaming_bytes;
  bool const begins = group.from_leader(result == status::ok);
  auto wait = me.waits();
  if (begins && !shows) {
    result = walk(group, me.link(), lanes.first, lanes.count, buffers, reduce, wait);
  }
  if (leads) {
    if (result == status::ok) result = me.meet(wait);
    if (result == status::timed_out)
      me.fail(find_stall(kind, lanes.first, shows ? 0 : lanes.count));
    if (result == status::ok) {
      if constexpr (showing_session<Me>) {
        if (shows)
          use_shown_inputs(me, kind, plan.source().trees[0].root, input, output, count, reduce);
      }
      for (std::size_t k = 0; k < lanes.count && !shows; ++k) close_lane(lanes.first[k]);
      me.leave();
    } else {
      me.leave_after_failure();
    }
  }
  if (group.from_leader(result == status::ok)) return;
  collective_error const cause = me.failure();
  if (cause.rank == rank || cause.peer < 0) throw cause;
  throw collective_error("rank " + std::to_string(rank) + ", " + std::string(to_text(kind)) +
                             ": ended because of " + cause.what(),
                         rank, cause.peer == rank ? cause.rank : cause.peer, cause.tree,
                         cause.chunk);
}

}  // namespace blink::inline BLINK_ABI::detail
