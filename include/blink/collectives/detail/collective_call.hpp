// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/call_event.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/collective_error.hpp>
#include <blink/collectives/detail/call_description.hpp>
#include <blink/collectives/detail/check_buffers.hpp>
#include <blink/collectives/detail/early_arrivals.hpp>
#include <blink/collectives/detail/idle_tests.hpp>
#include <blink/collectives/detail/no_patience.hpp>
#include <blink/collectives/detail/no_reducer.hpp>
#include <blink/collectives/detail/observed_call.hpp>
#include <blink/collectives/detail/shown_inputs.hpp>
#include <blink/collectives/epilogue.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/collectives/order.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/schedule_blocks.hpp>
#include <blink/collectives/session.hpp>
#include <blink/collectives/stall.hpp>
#include <blink/collectives/status.hpp>
#include <blink/collectives/tree_walk.hpp>
#include <blink/collectives/zero_copy.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/text.hpp>
#include <blink/transports/prepared_schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace blink::inline BLINK_ABI::detail {

/// Tells this rank's caller why the call of all ranks has failed.
template <session Me>
[[noreturn]] BLINK_COLD void throw_failure(Me& me, collective kind) {
  int const rank = me.rank();
  collective_error const cause = me.failure();
  if (cause.rank == rank || cause.peer < 0) throw cause;
  throw collective_error(
      text_of({"rank ", rank, ", ", to_text(kind), ": ended because: ", cause.what()}), rank,
      cause.peer == rank ? cause.rank : cause.peer, cause.tree, cause.chunk, cause.disagrees);
}

/// One call on host threads: agree, cut, walk, and turn failure into an exception. It can begin anew
/// when it has ended.
///
/// Pre: buffers and what is referred to outlive it; all threads of the group do the same.
template <chunking Chunks, session Me, class T, class Reducer>
class collective_call {
  static_assert(is_element<T>, "blink: elements of collectives are trivially copyable types");
  static_assert(combines<Reducer, T>,
                "blink: this reducer cannot combine two elements of this type into a third");
  static_assert(comes_back_from_wires<Reducer, T>,
                "blink: a reducer that sends needs recv(wire), which gives the accumulator back");
  static_assert(ends_as_an_element<Reducer, T>,
                "blink: what this reducer's finish returns does not convert to this element type");
  static_assert(reducer_for<Reducer, T>,
                "blink: reducers are copied; accumulators and what is sent are copied as bytes");
  static_assert(is_commutative<Reducer> || order_of<Reducer> != order_promise::any,
                "blink: a reducer that is not commutative cannot combine in order of arrival");
  static_assert(!lifts_at_home<Reducer> || !Me::link_type::reaches,
                "blink: a reducer that lifts at home needs links over which ranks send; here they "
                "read the buffers of others");
  static_assert(alignof(T) <= 128, "blink: elements need an alignment of at most 128 bytes");

 public:
  /// Throws: precondition_error for what this rank can know to be wrong; nobody else is concerned
  ///         then.
  collective_call(Me& me, prepared_schedule& plan, collective kind, T const* input, T* output,
                  call_size const& size, Reducer const& reduce)
      : me_(me),
        plan_(plan),
        kind_(kind),
        size_(size),
        lanes_(plan.tables().lanes(me.rank(), kind)),
        buffers_{input, output},
        reduce_(reduce) {
    plan.expect_carries(kind);
    plan.expect_carries_blocks(kind, [&size](std::size_t rank) {
      return size.blocks == nullptr ? size.count : size.blocks[rank].count;
    });
    expect_runs<T, Reducer>(plan, me.rank_count(), "world_options");
    if (size.count > 0) {
      expect_reachable(me, input);
      expect_reachable(me, output);
    }
    if (size.blocks == nullptr) {
      auto const overlap = check_buffers(kind, use_of(lanes_), me.rank(), me.rank_count(), input,
                                         output, size.count, sizeof(T));
      bool const keeps_input = sends_and_receives(kind) || plan.source().is_one_shot;
      needs_copy_ = overlap == buffer_overlap::in_place && keeps_input;
    }
    input_ = input;
  }

  /// Enters the call.
  void begin() {
    if (leads()) me_.expect_outside(kind_);
    if (needs_copy_) copy_input();
    choose_way_of_writing();
    idle_tests_ = {};
    status result = status::ok;
    if (leads()) {
      call_record const record{signature_of<T, Reducer, Chunks>(plan_, kind_, size_, reduce_),
                               buffers_.input, static_cast<void*>(buffers_.output),
                               may_show && size_.blocks == nullptr};
      observed_.begin([&] {
        return call_event{.kind = kind_,
                          .rank = me_.rank(),
                          .rank_count = me_.rank_count(),
                          .plan = record.signature.plan,
                          .count = size_.count,
                          .element_bytes = sizeof(T),
                          .types = names_of<T, Reducer, Chunks>()};
      });
      result = me_.enter(plan_, record);
      if constexpr (showing_session<Me>) shows_ = me_.shows_inputs();
      for (std::size_t k = 0; k < lane_count(); ++k) {
        auto& here = lanes_.first[k];
        plan_.set_call<Chunks>(here, kind_, block_of(here), sizes, order_of<Reducer>,
                               size_.chunk_bytes);
        if (result != status::ok) continue;
        if constexpr (zero_copy_transport<typename Me::link_type>) {
          lend_buffers(me_.link(), here, has_reduce_phase(kind_), carries_epilogue<Reducer>,
                       buffers_);
        }
        open_lane(me_.link(), here, sizeof(T));
      }
      if constexpr (combines_on_arrival<Reducer>) guarded([&] { give_memory_for_sums(); });
    }
    if constexpr (showing_session<Me>) shows_ = me_.group().from_leader(shows_);
    bool const begins = me_.group().from_leader(result == status::ok);
    is_walking_ = begins && !shows_;
    if (!begins) end(status::aborted);
  }

  /// Goes on as far as it can without waiting; has the call ended? Tested again and again while nothing
  /// moves, it gives up as `complete` does: when a peer is lost, or at the deadline as `idle_tests` counts.
  ///
  /// Pre: it has begun and not ended; the group is a lone thread.
  [[nodiscard]] bool advance() {
    go_on();
    no_patience wait;
    bool has_moved = false;
    while (is_walking_) {
      auto const round = guarded([&] {
        return walk_round(me_.group(), me_.link(), lanes_.first, lanes_.count, buffers_, reduce_,
                          wait);
      });
      is_walking_ = round.is_open;
      has_moved = has_moved || round.moved || !round.is_open;
      if (!round.is_open || round.moved) continue;
      if (!me_.link().is_aborted()) return rest(has_moved);
      end(status::aborted);
    }
    if (me_.meet(wait) != status::ok) {
      if (!me_.link().is_aborted()) return rest(has_moved);
      end(status::aborted);
    }
    end(status::ok);
    return true;
  }

  /// Waits for the end.
  ///
  /// Pre: it has begun and not ended.
  void complete() {
    go_on();
    forget_idle_tests();
    auto patient = me_.waits();
    observed_patience wait(patient, observed_, [this] { return cause(); });
    status result = status::ok;
    if (is_walking_) {
      result = guarded([&] {
        return walk(me_.group(), me_.link(), lanes_.first, lanes_.count, buffers_, reduce_, wait);
      });
    }
    if (leads()) {
      if (result == status::ok) result = me_.meet(wait);
      if (result == status::timed_out) fail_stalled();
    }
    end(result);
  }

 private:
  static constexpr element_sizes sizes = sizes_of<Reducer, T>();
  static constexpr bool may_show = order_of<Reducer> != order_promise::shape && alignof(T) <= 32 &&
                                   !carries_epilogue<Reducer> &&  // those see chunks
                                   !lifts_at_home<Reducer>;

  // What a reducer throws ends the call of all, and goes on to the caller once no peer touches its
  // buffers any more.
  template <class Work>
  auto guarded(Work const& work) {
    try {
      return work();
    } catch (std::exception const& thrown) {
      give_up(thrown.what());
      throw;
    } catch (...) {
      give_up("something was thrown");
      throw;
    }
  }
  void fail_stalled() { me_.fail(find_stall(kind_, lanes_.first, lane_count())); }
  void give_up(char const* why) {
    if (!leads()) return;
    me_.fail(std::string(why));
    me_.leave_after_failure();
    observed_.end(false, lanes_.first, lane_count(), sizes);
  }

  // Until the caller tests or waits again, if it is not in vain.
  bool rest(bool has_moved) {
    if (has_moved) {
      forget_idle_tests();
    } else if (after_idle_test() != status::ok) {
      fail_stalled();
      end(status::timed_out);
    }
    me_.rest();
    is_resting_ = true;
    return false;
  }
  void go_on() {
    if (!std::exchange(is_resting_, false)) return;
    me_.go_on();
    if (me_.link().is_aborted()) end(status::aborted);
  }
  [[nodiscard]] status after_idle_test() {
    auto const& limits = me_.options().waits;
    if (!idle_tests_.after_none(no_patience().now(), limits)) return status::ok;
    if constexpr (tested_patience<waits_of<Me>>) {
      return me_.waits().after_idle_tests(idle_tests_.waited());
    } else {
      auto const deadline = static_cast<std::uint64_t>(limits.deadline.count());
      return idle_tests_.waited() > deadline ? status::timed_out : status::ok;
    }
  }
  void forget_idle_tests() {
    if constexpr (tested_patience<waits_of<Me>>) {
      if (idle_tests_.has_looked()) me_.waits().go_on();
    }
    idle_tests_.after_progress();
  }

  // Lanes that this call needs: none where all ranks have seen all inputs.
  [[nodiscard]] std::size_t lane_count() const { return shows_ ? 0 : lanes_.count; }
  [[nodiscard]] bool leads() const { return me_.group().thread_rank() == 0; }
  [[nodiscard]] std::size_t elements(bool in_blocks) const {
    bool const is_whole = size_.blocks != nullptr || !in_blocks;
    return is_whole ? size_.count : size_.count * static_cast<std::size_t>(me_.rank_count());
  }
  [[nodiscard]] block_range block_of(lane const& here) const {
    if (size_.blocks == nullptr) return plan_.equal_block(here, kind_, size_.count);
    auto const& plan = plan_.source();
    return size_.blocks[block_number(plan, plan.trees[here.tree], kind_)];
  }

  // To lanes that may combine some arrivals before others.
  void give_memory_for_sums() {
    auto const has_sums = [](lane const& here) {
      return here.in_count > 1 && here.in_count <= early_sums::most_arrivals;
    };
    constexpr std::size_t line = 128;
    auto const bytes = [&](lane const& here) {
      std::size_t const most = here.chunk < here.count ? here.chunk : here.count;
      std::size_t const all = most * sizeof(accumulator_t<Reducer, T>);
      return has_sums(here) ? (all + line - 1) / line * line : 0;
    };
    std::size_t needed = 0;
    for (std::size_t k = 0; k < lane_count(); ++k) needed += bytes(lanes_.first[k]);
    std::byte* next = needed == 0 ? nullptr : plan_.sums_of(me_.rank()).at_least(needed);
    for (std::size_t k = 0; k < lane_count(); ++k) {
      auto& here = lanes_.first[k];
      here.early.sums = has_sums(here) ? next : nullptr;
      next += bytes(here);
    }
  }

  [[nodiscard]] std::size_t output_bytes() const {
    return elements(has_output_blocks(kind_)) * sizeof(T);
  }
  void choose_way_of_writing() {
    auto const& options = me_.options();
    std::size_t const bytes = output_bytes();
    auto const guess = bytes >= options.streaming_bytes ? write_way::streams : write_way::plain;
    bool const is_measured = bytes >= options.measured_bytes && me_.group().size() == 1;
    moving_ = 0;
    buffers_.moving = is_measured ? &moving_ : nullptr;
    buffers_.writes = is_measured ? plan_.writing_of(me_.rank()).next(kind_, bytes, guess) : guess;
  }
  void report_way_of_writing() {
    if (buffers_.moving == nullptr) return;
    plan_.writing_of(me_.rank()).report(kind_, output_bytes(), buffers_.writes, moving_);
  }

  // What is sent lies where others write: they get it from a copy.
  void copy_input() {
    std::size_t const bytes = elements(has_input_blocks(kind_)) * sizeof(T);
    auto& copy = plan_.copy_of(me_.rank());
    if (leads()) std::memcpy(copy.at_least(bytes), input_, bytes);
    me_.group().sync();
    buffers_.input = reinterpret_cast<T const*>(copy.data());
  }

  // Why the rank can do nothing at present.
  [[nodiscard]] stall_cause cause() const {
    auto const* const blocked = find_blocked(lanes_.first, lane_count());
    if (blocked == nullptr || !me_.link().is_present(blocked->blocked_on->peer)) {
      return stall_cause::peers;
    }
    return blocked->blocked_on->sends ? stall_cause::send : stall_cause::receive;
  }

  // All threads of the group; the leader knows the result.
  void end(status result) {
    if (leads()) {
      if (result == status::ok) {
        if constexpr (showing_session<Me>) {
          if (shows_) {
            int const root = root_of(plan_.source(), kind_);
            guarded([&] {
              use_shown_inputs(me_, kind_, root, buffers_.input, buffers_.output, size_.count,
                               reduce_);
            });
            observed_.count_shown(me_.rank() == root);
          }
        }
        for (std::size_t k = 0; k < lane_count(); ++k) close_lane(lanes_.first[k]);
        report_way_of_writing();
        me_.leave();
      } else {
        me_.leave_after_failure();
      }
      observed_.end(result == status::ok, lanes_.first, lane_count(), sizes);
    }
    if (me_.group().from_leader(result == status::ok)) return;
    throw_failure(me_, kind_);
  }

  Me& me_;
  prepared_schedule& plan_;
  collective kind_;
  call_size size_;
  lane_list lanes_;
  call_buffers<T> buffers_;
  T const* input_ = nullptr;  // the caller's
  Reducer reduce_;
  observed_call observed_;  // by the leader
  idle_tests idle_tests_;
  std::uint64_t moving_ = 0;  // nanoseconds
  bool needs_copy_ = false;
  bool is_walking_ = false;
  bool is_resting_ = false;
  bool shows_ = false;
};

}  // namespace blink::inline BLINK_ABI::detail
