// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/counted.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/eager_payload.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/detail/store_mode_tuner.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/agree_on_survivors.hpp>
#include <blink/transports/host/describe_failures.hpp>
#include <blink/transports/host/host_wait.hpp>
#include <blink/transports/host/shared_state.hpp>
#include <blink/transports/host/transport_parts.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The common part of communicators whose ranks share memory, threads or processes: all but the
/// preparation of schedules.
template <transport Transport, thread_group Group>
class shared_memory_communicator {
 public:
  using transport_type = Transport;

  /// The state that the threads of one rank share. It has separate cache lines, because every call
  /// writes it.
  struct alignas(128) rank_part final : host_rank {
    rank_part(shared_state& its_state, int its_rank)
        : seen(memory_source{},
               static_cast<std::size_t>(its_state.rank_count()) * sizeof(std::uint64_t)),
          state(&its_state),
          rank(its_rank) {
      std::memset(seen.data(), 0, seen.size());
      waits.heartbeats.resize(static_cast<std::size_t>(its_state.rank_count()));
    }
    [[nodiscard]] std::uint64_t* seen_calls() const {
      return reinterpret_cast<std::uint64_t*>(seen.data());
    }

    BLINK_COLD void report_stall(stall const& where) override {
      state->fail(rank, describe_stall(where, rank, *state, call, waits));
    }
    BLINK_COLD void report_other_call(int peer) override {
      state->fail(rank, describe_other_call(rank, peer, *state, call));
    }
    BLINK_COLD void report_missing(int peer, std::uint64_t round) override {
      state->fail(rank, describe_missing(rank, peer, *state, round));
    }
    BLINK_COLD void report_cause(std::string const& why) override {
      state->fail(rank, {detail::text_of({"rank ", rank, " gave up: ", why}), rank, rank, -1, -1});
    }
    status wait_long(host_wait& wait) override { return wait.wait_long(); }

    memory_block seen;  // see `transport_parts`; on separate cache lines
    shared_state* state;
    int rank;
    wait_record waits;
    Transport transport{};
    std::uint64_t call = 0;
    collective kind = collective::broadcast;
    task_list tasks{};
    int missing = -1;       // see `wait_context`
    bool is_eager = false;  // in this call
    eager_payload eager;
    std::atomic<void const*> active_queue = nullptr;
    detail::timed_store_mode last_timed{};
  };

  shared_memory_communicator(communicator_options const& options, Group group,
                             detail::counted<rank_part> own)
      : state_(own->state),
        options_(&options),
        rank_(own->rank),
        group_(group),
        own_(std::move(own)) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rank_count() const { return state_->rank_count(); }
  [[nodiscard]] Group const& group() const { return group_; }
  [[nodiscard]] communicator_options const& options() const { return *options_; }
  [[nodiscard]] Transport const& transport() const { return own_->transport; }

  [[nodiscard]] std::atomic<void const*>& active_queue() { return own_->active_queue; }
  void expect_idle(collective kind) const {
    if (state_->is_inside(rank_)) detail::refuse_second_call(rank_, kind, own_->kind);
  }
  [[nodiscard]] void const* owner() const { return state_; }
  [[nodiscard]] status enter(prepared_schedule& prepared, call_record const& record) {
    auto& own = *own_;
    if (state_->is_aborted(rank_)) return status::aborted;  // the last entries may be in use
    own.waits.has_listened = false;
    own.kind = record.kind();
    bool const can = !Transport::is_shaped && can_be_eager(record) && eager_limit() > 0;
    auto const eager = can ? payload_of(prepared, record, rank_) : eager_payload{};
    own.is_eager = can && eager.whole(rank_count()) <= eager_limit();
    own.eager = own.is_eager ? eager : eager_payload{};
    own.tasks = own.is_eager ? task_list{} : prepared.tables().tasks(rank_, own.kind);
    own.call = state_->enter(rank_, record, own.eager, options_->eager_payload, !own.is_eager);
    own.seen_calls()[rank_] = own.call;
    own.transport =
        Transport(transport_parts{state_, &prepared, own.seen_calls(), own.call, rank_, &own});
    return state_->is_aborted(rank_) ? status::aborted : status::ok;
  }
  /// See `detail::eager_communicator`.
  [[nodiscard]] bool is_eager() const { return own_->is_eager; }
  [[nodiscard]] void const* eager_input(int peer) const {
    auto const& eager = own_->eager;  // the same on all ranks
    std::size_t const own_block = eager.count * static_cast<std::size_t>(rank_);
    return state_->eager_data_of(peer, own_->call, eager.whole(rank_count())) +
           (eager.has_blocks ? own_block : 0);
  }
  [[nodiscard]] host_wait waits() const {
    return {waits_over<Transport>(options_->waits, rank_count()),
            {state_, &own_->waits, own_->call, rank_, own_->kind, own_->tasks, &own_->missing,
             own_.operator->()}};
  }

  /// Waits until all ranks have entered, because their entries are used again afterwards.
  template <wait_policy Wait>
  [[nodiscard]] status match(Wait& wait) {
    for (int peer = 0; peer < rank_count(); ++peer) {
      while (!own_->transport.is_present(peer)) {
        own_->missing = peer;
        if (auto const result = wait.on_idle(); result != status::ok) return result;
      }
    }
    own_->missing = -1;
    return wait.on_progress();
  }
  void exit_call() { state_->exit_call(rank_); }
  void suspend() { state_->suspend(rank_); }
  void resume() { state_->resume(rank_); }

  /// See `detail::time_publishing_communicator`.
  [[nodiscard]] detail::timed_store_mode& last_timed() { return own_->last_timed; }
  void publish_moved(std::uint64_t nanoseconds) {
    state_->moved(rank_).report(own_->call, nanoseconds);
  }
  [[nodiscard]] std::uint64_t longest_moved_before() const {
    std::uint64_t longest = 0;
    for (int peer = 0; peer < rank_count(); ++peer) {
      std::uint64_t const reported = state_->moved(peer).of(own_->call - 1);
      longest = reported > longest ? reported : longest;
    }
    return longest;
  }

  /// A barrier: every rank increases one counter and waits until all have.
  ///
  /// Time: O(n) moves of one cache line between cores; two moves with two ranks.
  [[nodiscard]] status wait_for_all() {
    expect_idle(collective::barrier);
    if (state_->is_aborted(rank_)) return status::aborted;
    std::uint64_t const round = state_->come(rank_);
    for (int spin = 0; spin < quick_looks; ++spin) {
      if (state_->all_arrived(round)) return status::ok;
    }
    own_->kind = collective::barrier;
    own_->tasks = {};
    auto wait = waits();
    for (unsigned turn = 1; !state_->all_arrived(round); ++turn) {
      auto result = wait.on_idle();
      if (result == status::ok && turn % turns_between_searches != 0) continue;
      int const missing = result == status::aborted ? -1 : first_missing(round, result);
      if (missing >= 0) {
        own_->report_missing(missing, round);
        result = status::timed_out;
      }
      if (result != status::ok) {  // a barrier that all ranks have entered succeeds
        return state_->all_arrived(round) ? status::ok : result;
      }
    }
    (void)wait.on_progress();
    return status::ok;
  }
  void fail(stall const& where) { own_->report_stall(where); }
  /// Ends the present call, or the next one, and all later ones, on all ranks. Any thread may call
  /// it, also while this rank waits inside a call.
  void fail(std::string const& why) { own_->report_cause(why); }
  void exit_failed_call() {
    if constexpr (reaching_transport<Transport>) {
      state_->exit_failed_call(rank_, options_->waits.deadline, [] { detail::yield_core(); });
    } else {
      state_->exit_call(rank_);
    }
  }
  [[nodiscard]] collective_error failure() const { return state_->failure(); }

 protected:
  /// Returns the ranks that remain after a failure, and this rank's new number.
  ///
  /// Throws: collective_error if this rank is not among them.
  [[nodiscard]] rank_selection agree_on_survivors() {
    rank_selection result{blink::agree_on_survivors(*state_, rank_, options_->waits.deadline)};
    for (int const member : result.members) {
      if (member == rank_) return result;
      ++result.rank;
    }
    throw collective_error(detail::text_of({"rank ", rank_,
                                            ", shrink: the other ranks continued without this "
                                            "rank, expected it before the deadline"}),
                           rank_, -1, -1, -1);
  }

 private:
  [[nodiscard]] std::size_t eager_limit() const {
    auto const share = options_->eager_payload / static_cast<std::size_t>(rank_count());
    return share < largest_eager_bytes ? share : largest_eager_bytes;
  }

  static constexpr int quick_looks = 200;  // before a rank waits in the way that shares cores
  // Turns between two searches for lost ranks, because a search asks the system.
  static constexpr unsigned turns_between_searches = 64;

  // Returns a rank that keeps a barrier from its end: a lost rank or, if `result` is `timed_out`, a
  // late one. -1: none yet.
  [[nodiscard]] int first_missing(std::uint64_t round, status result) const {
    for (int peer = 0; peer < rank_count(); ++peer) {
      if (state_->loss_before_arrival(peer, round) != shared_state::loss::none) return peer;
      if (result == status::timed_out && !state_->has_arrived_at(peer, round)) return peer;
    }
    return -1;
  }

  shared_state* state_;
  communicator_options const* options_;
  int rank_;
  Group group_;
  detail::counted<rank_part> own_;
};

}}  // namespace blink::BLINK_ABI
