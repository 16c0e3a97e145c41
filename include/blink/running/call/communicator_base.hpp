// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/reducers/order.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/call_event.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/call_frame.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/running/call/detail/eager_inputs.hpp>
#include <blink/running/call/detail/set_tasks.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/call/tuning_store.hpp>
#include <blink/running/connections/detail/store_mode_tuner.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/detail/early_arrivals.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/running/walk/tree_task.hpp>
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

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// The last call that this thread checked. It is compared by value, so that neither communicator
/// nor schedule need outlive it. Programs repeat calls, and checking each one again is a large part
/// of a small call.
struct checked_call {
  std::uint64_t schedule_hash = 0;  ///< `prepared_schedule::hash`
  int rank = -1;
  int rank_count = 0;
  collective kind{};
  std::size_t count = 0;
  void const* input = nullptr;
  void const* output = nullptr;
  void const* types = nullptr;  ///< `call_types`
  order_promise order = order_promise::run;
  std::size_t unit = 1;
  friend bool operator==(checked_call const&, checked_call const&) = default;
};

/// A call that was checked, and whether it needs a copy of its input.
struct known_call {
  checked_call call;
  bool needs_copy = false;
};

/// Base of a communicator: the part of its calls that does not depend on types, and the choice of
/// schedules for calls that name none.
///
/// Comm: the communicator, which derives from this. A class that derives from `Comm` may replace
///       `waits()`, and no other member that calls use.
template <class Comm>
class communicator_base : public call_steps, public with_tuning<Comm> {
 public:
  void check_call(call_frame& call) final {
    auto const& size = call.size;
    if (comm().options().order == order_promise::ranks) call.order = order_promise::ranks;
    auto const* const owner = call.prepared.tables().layout().owner;
    expects(owner == nullptr || owner == comm().owner(),
            "schedule: prepared by another communicator, expected one of this communicator");
    if (size.blocks != nullptr) {
      call.needs_copy = check_all(call);
      return;
    }
    static thread_local known_call known;  // the thread of a queue may also make a rank's calls
    checked_call const now{call.prepared.hash(), call.rank,  comm().rank_count(), call.kind,
                           size.count,           call.input, call.output,         &call.types,
                           call.order,           size.unit};
    if (known.call != now) known = {now, check_all(call)};
    call.needs_copy = known.needs_copy;
    expect_reached(call);
  }

  void begin_call(call_frame& call) final {
    auto& comm = this->comm();
    if (call.leads) comm.expect_idle(call.kind);
    if (call.needs_copy) copy_input(call);
    choose_store_mode(call);
    call.idle = {};
    status result = status::ok;
    if (call.leads) {
      call_record record{
          parameters_of(call.prepared, call.kind, call.size, call.types, call.common_state),
          call.input, call.output, is_eager(call.types) && call.size.blocks == nullptr,
          &call.types.names_begin};
      // Ranks with options of another order do not match.
      if (call.order != call.types.order) record.parameters.types += 1;
      call.observed.begin([&] {
        return call_event{.kind = call.kind,
                          .rank = comm.rank(),
                          .rank_count = comm.rank_count(),
                          .schedule_hash = record.parameters.schedule_hash,
                          .count = record.parameters.count,
                          .element_bytes = record.parameters.element_bytes,
                          .types = call.types.names};
      });
      result = comm.enter(call.prepared, record);
      if constexpr (eager_communicator<Comm>) call.is_eager = comm.is_eager();
      guarded(call, [&] { set_tasks(call, record.parameters); });  // allocation may fail
      if (result == status::ok) open_tasks(call);
    }
    if constexpr (eager_communicator<Comm>) call.is_eager = comm.group().from_leader(call.is_eager);
    bool const begins = comm.group().from_leader(result == status::ok);
    call.is_walking = begins && !call.is_eager;
    if (!begins) end_call(call, status::aborted);
  }

  void resume_call(call_frame& call, bool waits) final {
    if (std::exchange(call.is_resting, false)) {
      comm().resume();
      if (comm().transport().is_aborted()) end_call(call, status::aborted);
    }
    if (waits) forget_idle_tests(call);
  }

  void suspend_call(call_frame& call, bool has_moved) final {
    if (comm().transport().is_aborted()) end_call(call, status::aborted);
    if (has_moved) {
      forget_idle_tests(call);
    } else if (on_idle_test(call) != status::ok) {
      fail_stalled(call);
      end_call(call, status::timed_out);
    }
    comm().suspend();
    call.is_resting = true;
  }

  bool match_call_now(call_frame& call, bool has_moved) final {
    non_blocking wait;
    if (comm().match(wait) == status::ok) return true;
    suspend_call(call, has_moved);
    return false;
  }

  status match_call(call_frame& call, any_wait& wait, status walked) final {
    if (!call.leads) return walked;
    if (walked == status::ok) walked = comm().match(wait);
    if (walked == status::timed_out) fail_stalled(call);
    return walked;
  }

  void end_call(call_frame& call, status result) final {
    auto& comm = this->comm();
    if (call.leads) {
      if (result == status::ok) {
        if constexpr (eager_communicator<Comm>) {
          if (call.is_eager) {
            int const root = root_of(call.prepared.source(), call.kind);
            copy_eager_inputs(comm, call.kind, root, call.input, call.output, call.size.count,
                              call.types.sizes.value);
            call.observed.count_eager(comm.rank() == root);
          }
        }
        for (std::size_t k = 0; k < call.task_count(); ++k)
          close_task(lone_thread{}, call.tasks.first[k]);
        report_times(call);
        comm.exit_call();
      } else {
        comm.exit_failed_call();
      }
      call.observed.end(result == status::ok, call.tasks.first, call.task_count(), call.types.sizes,
                        call.prepared);
    }
    if (comm.group().from_leader(result == status::ok)) return;
    throw_failure(call.kind);
  }

  BLINK_COLD void give_up_call(call_frame& call) final {
    if (!call.leads) return;
    try {
      throw;
    } catch (std::exception const& thrown) {
      comm().fail(std::string(thrown.what()));
    } catch (...) {
      comm().fail(std::string("an exception of unknown type"));
    }
    comm().exit_failed_call();
    call.observed.end(false, call.tasks.first, call.task_count(), call.types.sizes, call.prepared);
  }

  void record_stall(call_frame& call) final {
    auto const* const blocked = find_blocked(call.tasks.first, call.task_count());
    bool const is_for_peers =
        blocked == nullptr || !comm().transport().is_present(blocked->blocked_on->peer);
    call.observed.on_stall(is_for_peers                 ? stall_cause::peers
                           : blocked->blocked_on->sends ? stall_cause::send
                                                        : stall_cause::receive);
  }

  void expect_free(collective kind) final {
    if (comm().active_queue().load(std::memory_order_acquire) != nullptr) {
      throw precondition_error(text_of({"rank ", comm().rank(), " calls ", to_text(kind),
                                        " while calls that it has started have not ended"}));
    }
    comm().expect_idle(kind);
  }

  [[noreturn]] BLINK_COLD void throw_failure(collective kind) final {
    int const rank = comm().rank();
    collective_error const cause = comm().failure();
    if (cause.rank == rank || cause.peer < 0) throw cause;
    throw collective_error(
        text_of({"rank ", rank, ", ", to_text(kind), ": ended because: ", cause.what()}), rank,
        cause.peer == rank ? cause.rank : cause.peer, cause.tree, cause.chunk, cause.disagrees);
  }

  chosen_schedule choose_tuned(collective kind, std::size_t bytes, int root,
                               operand_order needed) final {
    return comm().tuning().choose(comm(), kind, bytes, root, needed);
  }

 private:
  [[nodiscard]] Comm& comm() { return static_cast<Comm&>(*this); }

  [[nodiscard]] static operand_order needed_by(call_frame const& call) {
    if (!combines_elements_of_ranks(call.kind)) return operand_order::any;
    return operands_needed_for(call.order, call.types.is_commutative);
  }

  /// Returns true if the call needs a copy of its input.
  [[nodiscard]] bool check_all(call_frame& call) {
    auto const& size = call.size;
    int const ranks = comm().rank_count();
    call.prepared.expect_carries(call.kind);
    call.prepared.expect_carries_blocks(call.kind, [&size](std::size_t rank) {
      return size.blocks == nullptr ? size.count : size.blocks[rank].count;
    });
    expect_items(call);
    expect_runs(call.prepared, item_sizes(call.types.sizes, size.unit), needed_by(call), ranks,
                "communicator_options");
    if (size.blocks != nullptr) {  // the caller has checked them otherwise
      auto const use = use_of(call.tasks);
      if (use.reads)
        expect_aligned(call.kind, call.rank, "input", call.input, call.types.alignment);
      if (use.writes)
        expect_aligned(call.kind, call.rank, "output", call.output, call.types.alignment);
      return false;
    }
    auto const overlap =
        check_buffers(call.kind, use_of(call.tasks), call.rank, ranks, call.input, call.output,
                      size.items(), call.types.sizes.value * size.unit, call.types.alignment);
    bool const keeps_input = sends_and_receives(call.kind) || call.prepared.source().is_one_shot;
    return overlap == buffer_overlap::in_place && keeps_input;
  }

  static void expect_items(call_frame const& call) {
    auto const& size = call.size;
    bool const is_whole = size.unit != 0 && size.count % size.unit == 0;
    if (!is_whole || size.unit > call.types.most_unit) {
      throw precondition_error(
          text_of({to_text(call.kind), " on rank ", call.rank, ": ", size.count,
                   " elements and a reducer of items of ", size.unit,
                   ", expected whole items of 1 to ", call.types.most_unit, " elements"}));
    }
  }

  // Checked in every call, because memory may not be registered any more. Callers with unequal
  // segments have checked their buffers.
  void expect_reached(call_frame const& call) {
    if constexpr (allocating_communicator<Comm>) {
      auto const use = use_of(call.tasks);
      auto const name = to_text(call.kind);
      if (use.reads) expect_reachable(comm(), call.input, input_bytes(call), name, "the input");
      if (use.writes) {
        expect_reachable(comm(), call.output, output_bytes(call), name, "the output");
      }
    }
  }

  void open_tasks(call_frame& call) {
    for (std::size_t k = 0; k < call.task_count(); ++k) {
      auto& here = call.tasks.first[k];
      if constexpr (zero_copy_transport<typename Comm::transport_type>) {
        use_buffers_in_place(comm().transport(), here, has_reduce_phase(call.kind),
                             call.types.has_epilogue, call.template buffers<std::byte>(),
                             call.types.sizes.value);
      }
      open_task(lone_thread{}, comm().transport(), here, call.types.sizes.value);
    }
  }

  [[nodiscard]] std::size_t elements(call_frame const& call, bool in_blocks) {
    bool const is_whole = call.size.blocks != nullptr || !in_blocks;
    return is_whole ? call.size.count
                    : call.size.count * static_cast<std::size_t>(comm().rank_count());
  }
  [[nodiscard]] std::size_t input_bytes(call_frame const& call) {
    return elements(call, has_input_blocks(call.kind)) * call.types.sizes.value;
  }
  [[nodiscard]] std::size_t output_bytes(call_frame const& call) {
    return elements(call, has_output_blocks(call.kind)) * call.types.sizes.value;
  }
  void choose_store_mode(call_frame& call) {
    auto const& options = comm().options();
    std::size_t const bytes = output_bytes(call);
    auto const guess = bytes >= options.streaming_bytes ? store_mode::streams : store_mode::plain;
    call.keeps_own = bytes < options.streaming_bytes && bytes < kept_output_bytes;
    call.moving = 0;
    call.writing = {guess};
    if (bytes >= options.measured_bytes && comm().group().size() == 1) {
      call.writing = call.prepared.writing_of(call.rank).next(
          call.kind, bytes, store_modes_over<typename Comm::transport_type>, guess);
    }
  }

  [[nodiscard]] timed_store_mode timed_of(call_frame& call) {
    return {&call.prepared.writing_of(call.rank), call.kind, output_bytes(call), call.writing};
  }
  // Publishes this call's times; ranks with shared memory read them in the next call.
  void report_times(call_frame& call) {
    auto& comm = this->comm();
    if constexpr (time_publishing_communicator<Comm>) {
      auto& last = comm.last_timed();
      if (last.search != nullptr) last.report(comm.longest_moved_before());
      last.search = nullptr;
      if (!call.writing.is_timed) return;
      last = timed_of(call);
      comm.publish_moved(call.moving);
    } else if (call.writing.is_timed) {
      timed_of(call).report(call.moving);
    }
  }

  // Copies the input of a call in place, because peers write to its memory. The call then sends the
  // copy.
  void copy_input(call_frame& call) {
    std::size_t const bytes = input_bytes(call);
    auto& copy = call.prepared.copy_of(call.rank);
    if (call.leads) std::memcpy(copy.at_least(bytes), call.callers_input, bytes);
    comm().group().sync();
    call.input = copy.data();
  }

  void fail_stalled(call_frame& call) {
    comm().fail(find_stall(call.kind, call.tasks.first, call.task_count()));
  }
  [[nodiscard]] status on_idle_test(call_frame& call) {
    auto const& limits = comm().options().waits;
    auto const time = non_blocking().now();
    if (!call.idle.on_idle(time, limits, comm().rank_count())) return status::ok;
    if constexpr (tested_wait_policy<waits_of<Comm>>) {
      return comm().waits().on_idle_tests(call.idle.waited());
    } else {
      auto const deadline = static_cast<std::uint64_t>(limits.deadline.count());
      return call.idle.waited() > deadline ? status::timed_out : status::ok;
    }
  }
  void forget_idle_tests(call_frame& call) {
    if constexpr (tested_wait_policy<waits_of<Comm>>) {
      if (call.idle.has_looked()) comm().waits().resume();
    }
    call.idle.on_progress();
  }
};

}  // namespace detail

using detail::communicator_base;

}}  // namespace blink::BLINK_ABI
