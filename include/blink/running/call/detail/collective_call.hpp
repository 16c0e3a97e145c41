// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/call_frame.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/call/detail/eager_inputs.hpp>
#include <blink/running/call/detail/run_time_call.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule_blocks.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// One call on host threads: agree, cut, walk, and report a failure as an exception. It can begin
/// again after it has ended. The part without types is in `call_steps`.
///
/// Pre: buffers and all arguments by reference outlive it; all threads of the group make the same
///      calls.
template <chunking Chunks, communicator Comm, class T, class Reducer>
class collective_call {
  static_assert(is_element<T>, "blink: elements of collectives are trivially copyable types");
  static_assert(combines<Reducer, T>,
                "blink: this reducer cannot combine two elements of this type into a third");
  static_assert(
      restores_what_it_sends<Reducer, T>,
      "blink: a reducer that sends needs recv(connection), which gives the accumulator back");
  static_assert(ends_as_an_element<Reducer, T>,
                "blink: what this reducer's finish returns does not convert to this element type");
  static_assert(reducer_for<Reducer, T>,
                "blink: reducers are copied; accumulators and what is sent are copied as bytes");
  static_assert(is_commutative<Reducer> || order_of<Reducer> != order_promise::any,
                "blink: a reducer that is not commutative cannot combine in order of arrival");
  static_assert(
      !lift_at_source<Reducer> || !Comm::transport_type::reaches,
      "blink: a reducer that lifts at the source needs links over which ranks send; here they "
      "read the buffers of peers");
  static_assert(alignof(T) <= 128, "blink: elements need an alignment of at most 128 bytes");

 public:
  /// Throws: precondition_error for mistakes that this rank can find alone. Peers do not notice the
  ///         attempt.
  collective_call(Comm& comm, prepared_schedule& prepared, collective kind, T const* input,
                  T* output, call_size const& size, Reducer const& reduce)
      : comm_(comm),
        frame_{comm,
               comm.rank(),
               comm.group().thread_rank() == 0,
               prepared,
               kind,
               with_unit(size, reduce),
               types_of_call<T, Reducer, Chunks>,
               common_state_of(reduce),
               input,
               output},
        reduce_(reduce) {
    frame_.steps.check_call(frame_);
  }

  /// Enters the call.
  void begin() { frame_.steps.begin_call(frame_); }

  /// Advances as far as possible without waiting. Returns true once the call has ended.
  ///
  /// In a loop without progress the call fails as in `complete`: when a peer is lost, or at the
  /// deadline as counted by `idle_tests`.
  ///
  /// Pre: it has begun and not ended; the group has one thread.
  [[nodiscard]] bool advance() {
    frame_.steps.resume_call(frame_, false);
    non_blocking wait;
    bool has_moved = false;
    while (frame_.is_walking) {
      auto const round = guarded(frame_, [&] {
        return walk_round(comm_.group(), comm_.transport(), frame_.tasks.first, frame_.tasks.count,
                          frame_.template buffers<T>(), reduce_, wait);
      });
      frame_.is_walking = round.is_open;
      has_moved = has_moved || round.moved || !round.is_open;
      if (round.is_open && !round.moved) {
        frame_.steps.suspend_call(frame_, has_moved);
        return false;
      }
    }
    if (!frame_.steps.match_call_now(frame_, has_moved)) return false;
    combine_eager();
    frame_.steps.end_call(frame_, status::ok);
    return true;
  }

  /// Waits for the end.
  ///
  /// Pre: it has begun and not ended.
  void complete() {
    if (frame_.is_resting) frame_.steps.resume_call(frame_, true);
    call_wait<Comm> wait(frame_, comm_);
    status result = status::ok;
    if (frame_.is_walking) {
      result = guarded(frame_, [&] {
        return walk(comm_.group(), comm_.transport(), frame_.tasks.first, frame_.tasks.count,
                    frame_.template buffers<T>(), reduce_, wait);
      });
    }
    result = frame_.steps.match_call(frame_, wait, result);
    if (result == status::ok) combine_eager();
    frame_.steps.end_call(frame_, result);
  }

 private:
  [[nodiscard]] static call_size with_unit(call_size size, Reducer const& reduce) {
    size.unit = unit_of(reduce);
    return size;
  }
  void combine_eager() {
    if constexpr (eager_communicator<Comm> && may_be_eager) {
      if (!frame_.is_eager || !frame_.leads || !has_reduce_phase(frame_.kind)) return;
      guarded(frame_, [&] {
        auto const to = frame_.template buffers<T>();
        combine_eager_inputs(comm_, frame_.kind, root_of(frame_.prepared.source(), frame_.kind),
                             to.input, to.output, frame_.size.count, frame_.order, reduce_);
      });
    }
  }

  static constexpr bool may_be_eager =
      is_eager(types_of_call<T, Reducer, Chunks>) && !std::is_same_v<Reducer, no_reducer>;

  Comm& comm_;
  call_frame frame_;
  Reducer reduce_;
};

/// Runs a whole call while the caller waits.
///
/// Throws: precondition_error, before the call begins, if another call of this rank has not ended;
///         what the call throws.
template <communicator Comm, class Call>
void run_to_end(Comm& comm, collective kind, Call& call) {
  if (comm.group().thread_rank() == 0) steps_of(comm).expect_free(kind);
  call.begin();
  call.complete();
}

/// Runs a whole call, from its begin to its end.
///
/// count: elements of the whole buffer, or of one segment if the collective has segments
template <chunking Chunks, communicator Comm, schedule_source Source, class T, class Reducer>
void run_collective(Comm& comm, Source&& trees, collective kind, T const* input, T* output,
                    std::size_t count, Reducer const& reduce) {
  if constexpr (chosen_at_run_time<Reducer>) {
    as_bytes(kind, comm.rank(), input, output, count, reduce,
             [&](std::byte const* from, std::byte* to, auto const& bytes) {
               run_collective<Chunks>(comm, std::forward<Source>(trees), kind, from, to,
                                      count * reduce.element_bytes, bytes);
             });
  } else {
    auto const chosen = choose_schedule(comm, std::forward<Source>(trees), kind,
                                        buffer_bytes(kind, count, sizeof(T), comm.rank_count()),
                                        {operands_needed<Reducer>, true});
    collective_call<Chunks, Comm, T, Reducer> call(comm, *chosen.prepared, kind, input, output,
                                                   {count, chosen.chunk_bytes}, reduce);
    run_to_end(comm, kind, call);
  }
}

}}}  // namespace blink::BLINK_ABI::detail
