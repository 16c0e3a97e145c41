// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/reducers/order.hpp>
#include <blink/running/call/call_event.hpp>
#include <blink/running/call/call_signature.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/detail/call_description.hpp>
#include <blink/running/call/detail/call_frame.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/running/call/detail/checked_call.hpp>
#include <blink/running/call/detail/shown_inputs.hpp>
#include <blink/running/call/session.hpp>
#include <blink/running/connections/detail/write_search.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/detail/early_arrivals.hpp>
#include <blink/running/walk/lane.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/running/walk/zero_copy.hpp>
#include <blink/schedule/schedule_blocks.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// See `call_steps`.
template <session Me>
struct steps_of_session {
  using frame = call_frame<Me>;
  static constexpr auto& ways = ways_to_write_over<typename Me::link_type>;

  static void check(frame& call) {
    auto& me = call.me;
    auto const& size = call.size;
    auto const* const owner = call.plan.tables().layout().owner;
    expects(owner == nullptr || owner == me.owner(), "schedule: prepared by another session");
    if (size.blocks != nullptr) {
      call.needs_copy = check_all(call);
      return;
    }
    static thread_local known_call known;  // a rank's calls may be made by a thread of a queue, too
    checked_call const now{call.plan.fingerprint(),
                           me.rank(),
                           me.rank_count(),
                           call.kind,
                           size.count,
                           call.input,
                           call.output,
                           &call.types};
    if (known.call != now) known = {now, check_all(call)};
    call.needs_copy = known.needs_copy;
    expect_reached(call);
  }

  static void begin(frame& call) {
    auto& me = call.me;
    if (call.leads()) me.expect_outside(call.kind);
    if (call.needs_copy) copy_input(call);
    choose_way_of_writing(call);
    call.idle = {};
    status result = status::ok;
    if (call.leads()) {
      call_record const record{
          terms_of(call.plan, call.kind, call.size, call.types, call.common_state), call.input,
          call.output, shows_inputs(call.types) && call.size.blocks == nullptr,
          &call.types.names_begin};
      call.observed.begin([&] {
        return call_event{.kind = call.kind,
                          .rank = me.rank(),
                          .rank_count = me.rank_count(),
                          .plan = record.terms.plan,
                          .count = call.size.count,
                          .element_bytes = call.types.sizes.value,
                          .types = call.types.names};
      });
      result = me.enter(call.plan, record);
      if constexpr (showing_session<Me>) call.shows = me.shows_inputs();
      guarded(call, &give_up, [&] {  // memory may be short
        for (std::size_t k = 0; k < call.lane_count(); ++k) {
          set_lane(call, call.lanes.first[k], result);
        }
        if (call.types.order == order_promise::any) give_memory_for_sums(call);
      });
    }
    if constexpr (showing_session<Me>) call.shows = me.group().from_leader(call.shows);
    bool const begins = me.group().from_leader(result == status::ok);
    call.is_walking = begins && !call.shows;
    if (!begins) end(call, status::aborted);
  }

  static void go_on(frame& call, bool waits) {
    if (std::exchange(call.is_resting, false)) {
      call.me.go_on();
      if (call.me.link().is_aborted()) end(call, status::aborted);
    }
    if (waits) forget_idle_tests(call);
  }

  static void rest(frame& call, bool has_moved) {
    if (call.me.link().is_aborted()) end(call, status::aborted);
    if (has_moved) {
      forget_idle_tests(call);
    } else if (after_idle_test(call) != status::ok) {
      fail_stalled(call);
      end(call, status::timed_out);
    }
    call.me.rest();
    call.is_resting = true;
  }

  static bool meet_now(frame& call, bool has_moved) {
    no_patience wait;
    if (call.me.meet(wait) == status::ok) return true;
    rest(call, has_moved);
    return false;
  }

  static status meet(frame& call, call_patience<Me>& wait, status result) {
    if (!call.leads()) return result;
    if (result == status::ok) result = call.me.meet(wait);
    if (result == status::timed_out) fail_stalled(call);
    return result;
  }

  static void end(frame& call, status result) {
    auto& me = call.me;
    if (call.leads()) {
      if (result == status::ok) {
        if constexpr (showing_session<Me>) {
          if (call.shows) {
            int const root = root_of(call.plan.source(), call.kind);
            copy_shown_inputs(me, call.kind, root, call.input, call.output, call.size.count,
                              call.types.sizes.value);
            call.observed.count_shown(me.rank() == root);
          }
        }
        for (std::size_t k = 0; k < call.lane_count(); ++k) close_lane(call.lanes.first[k]);
        report_times(call);
        me.leave();
      } else {
        me.leave_after_failure();
      }
      call.observed.end(result == status::ok, call.lanes.first, call.lane_count(),
                        call.types.sizes);
    }
    if (me.group().from_leader(result == status::ok)) return;
    throw_failure(me, call.kind);
  }

  BLINK_COLD static void give_up(frame& call) {
    if (!call.leads()) return;
    try {
      throw;
    } catch (std::exception const& thrown) {
      call.me.fail(std::string(thrown.what()));
    } catch (...) {
      call.me.fail(std::string("something was thrown"));
    }
    call.me.leave_after_failure();
    call.observed.end(false, call.lanes.first, call.lane_count(), call.types.sizes);
  }

  static void stands(frame& call) {
    auto const* const blocked = find_blocked(call.lanes.first, call.lane_count());
    bool const is_for_peers =
        blocked == nullptr || !call.me.link().is_present(blocked->blocked_on->peer);
    call.observed.stands(is_for_peers                 ? stall_cause::peers
                         : blocked->blocked_on->sends ? stall_cause::send
                                                      : stall_cause::receive);
  }

  static void expect_free(Me& me, collective kind) {
    if (me.holder().load(std::memory_order_acquire) != nullptr) {
      throw precondition_error(text_of({"rank ", me.rank(), " calls ", to_text(kind),
                                        " while calls that it has started have not ended"}));
    }
    me.expect_outside(kind);
  }

  [[noreturn]] BLINK_COLD static void throw_failure(Me& me, collective kind) {
    int const rank = me.rank();
    collective_error const cause = me.failure();
    if (cause.rank == rank || cause.peer < 0) throw cause;
    throw collective_error(
        text_of({"rank ", rank, ", ", to_text(kind), ": ended because: ", cause.what()}), rank,
        cause.peer == rank ? cause.rank : cause.peer, cause.tree, cause.chunk, cause.disagrees);
  }

 private:
  /// Returns: does the call need a copy of its input?
  [[nodiscard]] static bool check_all(frame& call) {
    auto const& size = call.size;
    int const ranks = call.me.rank_count();
    call.plan.expect_carries(call.kind);
    call.plan.expect_carries_blocks(call.kind, [&size](std::size_t rank) {
      return size.blocks == nullptr ? size.count : size.blocks[rank].count;
    });
    expect_runs(call.plan, call.types.sizes, call.types.is_commutative, ranks, "world_options");
    if (size.blocks != nullptr) return false;
    auto const overlap = check_buffers(call.kind, use_of(call.lanes), call.me.rank(), ranks,
                                       call.input, call.output, size.count, call.types.sizes.value);
    bool const keeps_input = sends_and_receives(call.kind) || call.plan.source().is_one_shot;
    return overlap == buffer_overlap::in_place && keeps_input;
  }

  // In every call: what was registered before may not be any more. Callers with unequal blocks have checked.
  static void expect_reached(frame const& call) {
    if constexpr (allocating_session<Me>) {
      auto const use = use_of(call.lanes);
      auto const name = to_text(call.kind);
      if (use.reads) expect_reachable(call.me, call.input, input_bytes(call), name, "the input");
      if (use.writes) {
        expect_reachable(call.me, call.output, output_bytes(call), name, "the output");
      }
    }
  }

  static void set_lane(frame& call, lane& here, status entered) {
    auto const& types = call.types;
    call.plan.set_call(here, call.kind, block_of(call, here), types.sizes, types.order, types.cut,
                       call.size.chunk_bytes);
    if (entered != status::ok) return;
    if constexpr (zero_copy_transport<typename Me::link_type>) {
      lend_buffers(call.me.link(), here, has_reduce_phase(call.kind), types.has_epilogue,
                   call.template buffers<std::byte>(), types.sizes.value);
    }
    open_lane(call.me.link(), here, types.sizes.value);
  }
  [[nodiscard]] static block_range block_of(frame const& call, lane const& here) {
    if (call.size.blocks == nullptr) {
      return call.plan.equal_block(here, call.kind, call.size.count);
    }
    auto const& plan = call.plan.source();
    return call.size.blocks[block_number(plan, plan.trees[here.tree], call.kind)];
  }

  // To lanes that may combine some arrivals before others.
  static void give_memory_for_sums(frame& call) {
    auto const has_sums = [](lane const& here) {
      return here.in_count > 1 && here.in_count <= early_sums::most_arrivals;
    };
    constexpr std::size_t line = 128;
    auto const bytes = [&](lane const& here) {
      std::size_t const most = here.chunk < here.count ? here.chunk : here.count;
      std::size_t const all = most * call.types.accumulator_bytes;
      return has_sums(here) ? (all + line - 1) / line * line : 0;
    };
    std::size_t needed = 0;
    for (std::size_t k = 0; k < call.lane_count(); ++k) needed += bytes(call.lanes.first[k]);
    std::byte* next = needed == 0 ? nullptr : call.plan.sums_of(call.me.rank()).at_least(needed);
    for (std::size_t k = 0; k < call.lane_count(); ++k) {
      auto& here = call.lanes.first[k];
      here.early.sums = has_sums(here) ? next : nullptr;
      next += bytes(here);
    }
  }

  [[nodiscard]] static std::size_t elements(frame const& call, bool in_blocks) {
    bool const is_whole = call.size.blocks != nullptr || !in_blocks;
    return is_whole ? call.size.count
                    : call.size.count * static_cast<std::size_t>(call.me.rank_count());
  }
  [[nodiscard]] static std::size_t input_bytes(frame const& call) {
    return elements(call, has_input_blocks(call.kind)) * call.types.sizes.value;
  }
  [[nodiscard]] static std::size_t output_bytes(frame const& call) {
    return elements(call, has_output_blocks(call.kind)) * call.types.sizes.value;
  }
  static void choose_way_of_writing(frame& call) {
    auto const& options = call.me.options();
    std::size_t const bytes = output_bytes(call);
    auto const guess = bytes >= options.streaming_bytes ? write_way::streams : write_way::plain;
    call.keeps_own = bytes < options.streaming_bytes && bytes < kept_output_bytes;
    call.moving = 0;
    call.writing = {guess};
    if (bytes >= options.measured_bytes && call.me.group().size() == 1) {
      call.writing = call.plan.writing_of(call.me.rank()).next(call.kind, bytes, ways, guess);
    }
  }

  // Who shares memory learns from the next call what this one took the others.
  static void report_times(frame& call) {
    auto& me = call.me;
    timed_writing mine;
    if (call.writing.is_timed) {
      mine = {&call.plan.writing_of(me.rank()), call.kind, output_bytes(call), call.writing};
    }
    if constexpr (times_telling_session<Me>) {
      auto& last = me.last_timed();
      if (last.search != nullptr) last.report(me.longest_moved_before());
      if (mine.search != nullptr) me.tell_moved(call.moving);
      last = mine;
    } else {
      mine.report(call.moving);
    }
  }

  // What is sent lies where others write: they get it from a copy.
  static void copy_input(frame& call) {
    std::size_t const bytes = input_bytes(call);
    auto& copy = call.plan.copy_of(call.me.rank());
    if (call.leads()) std::memcpy(copy.at_least(bytes), call.callers_input, bytes);
    call.me.group().sync();
    call.input = copy.data();
  }

  static void fail_stalled(frame& call) {
    call.me.fail(find_stall(call.kind, call.lanes.first, call.lane_count()));
  }
  [[nodiscard]] static status after_idle_test(frame& call) {
    auto const& limits = call.me.options().waits;
    if (!call.idle.after_none(no_patience().now(), limits)) return status::ok;
    if constexpr (tested_patience<waits_of<Me>>) {
      return call.me.waits().after_idle_tests(call.idle.waited());
    } else {
      auto const deadline = static_cast<std::uint64_t>(limits.deadline.count());
      return call.idle.waited() > deadline ? status::timed_out : status::ok;
    }
  }
  static void forget_idle_tests(frame& call) {
    if constexpr (tested_patience<waits_of<Me>>) {
      if (call.idle.has_looked()) call.me.waits().go_on();
    }
    call.idle.after_progress();
  }
};

template <class Me>
inline constexpr call_steps<Me> steps_of_calls{
    &steps_of_session<Me>::check,        &steps_of_session<Me>::begin,
    &steps_of_session<Me>::go_on,        &steps_of_session<Me>::rest,
    &steps_of_session<Me>::meet_now,     &steps_of_session<Me>::meet,
    &steps_of_session<Me>::end,          &steps_of_session<Me>::give_up,
    &steps_of_session<Me>::stands,       &steps_of_session<Me>::expect_free,
    &steps_of_session<Me>::throw_failure};

/// The steps of a session's calls, from where they are compiled: here, if it does not say.
template <session Me>
[[nodiscard]] call_steps<Me> const& steps_of(Me const& me) {
  if constexpr (steps_carrying_session<Me>) {
    return me.steps();
  } else {
    return steps_of_calls<Me>;
  }
}

}}}  // namespace blink::BLINK_ABI::detail
