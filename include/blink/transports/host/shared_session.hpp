// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/counted.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/call_signature.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/session.hpp>
#include <blink/running/call/shown_bytes.hpp>
#include <blink/running/call/world_options.hpp>
#include <blink/running/connections/detail/write_search.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/wire_tables.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/agree_on_survivors.hpp>
#include <blink/transports/host/failure_tellers.hpp>
#include <blink/transports/host/link_parts.hpp>
#include <blink/transports/host/patience.hpp>
#include <blink/transports/host/told_failures.hpp>
#include <blink/transports/host/world_state.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// What ranks that share memory, threads or processes, have in common as sessions: all but where a
/// schedule is prepared.
template <transport Link, thread_group Group>
class shared_session {
 public:
  using link_type = Link;

  /// What the threads of one rank share; on lines of its own, as it is written in every call.
  struct alignas(128) rank_part {
    explicit rank_part(int ranks)
        : seen(memory_source{}, static_cast<std::size_t>(ranks) * sizeof(std::uint64_t)) {
      std::memset(seen.data(), 0, seen.size());
      waits.beats.resize(static_cast<std::size_t>(ranks));
    }
    [[nodiscard]] std::uint64_t* seen_calls() const {
      return reinterpret_cast<std::uint64_t*>(seen.data());
    }
    memory_block seen;  // see `link_parts`; on lines of its own
    failure_tellers const* tell = &told_failures<Link>;
    status (*wait_long)(host_patience&) = &host_patience::wait_long<Link>;
    waiting_memory waits;
    Link link{};
    std::uint64_t call = 0;
    collective kind = collective::broadcast;
    lane_list lanes{};
    bool shows = false;  // what is in its input
    shown_bytes shown;
    std::atomic<void const*> holder = nullptr;
    detail::timed_writing last_timed{};
  };

  shared_session(world_state& state, world_options const& options, int rank, Group group,
                 detail::counted<rank_part> own)
      : state_(&state), options_(&options), rank_(rank), group_(group), own_(std::move(own)) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rank_count() const { return state_->rank_count(); }
  [[nodiscard]] Group const& group() const { return group_; }
  [[nodiscard]] world_options const& options() const { return *options_; }
  [[nodiscard]] Link const& link() const { return own_->link; }

  [[nodiscard]] std::atomic<void const*>& holder() { return own_->holder; }
  void expect_outside(collective kind) const {
    if (state_->is_inside(rank_)) detail::refuse_second_call(rank_, kind, own_->kind);
  }
  [[nodiscard]] void const* owner() const { return state_; }
  [[nodiscard]] status enter(prepared_schedule& plan, call_record const& record) {
    auto& own = *own_;
    if (state_->is_aborted(rank_)) return status::aborted;  // the last entries may be in use
    own.waits.has_listened = false;
    own.kind = record.kind();
    bool const can = !Link::is_shaped && can_show(record) && most_to_show() > 0;
    auto const shown = can ? bytes_to_show(plan, record, rank_) : shown_bytes{};
    own.shows = can && shown.whole(rank_count()) <= most_to_show();
    own.shown = own.shows ? shown : shown_bytes{};
    own.lanes = own.shows ? lane_list{} : plan.tables().lanes(rank_, own.kind);
    own.call = state_->enter(rank_, record, own.shown, options_->shown_bytes, !own.shows);
    own.seen_calls()[rank_] = own.call;
    own.link = Link(link_parts{state_, &plan, own.seen_calls(), own.call, rank_, own.tell});
    return state_->is_aborted(rank_) ? status::aborted : status::ok;
  }
  /// See `detail::showing_session`.
  [[nodiscard]] bool shows_inputs() const { return own_->shows; }
  [[nodiscard]] void const* shown_input(int peer) const {
    auto const& shown = own_->shown;  // the same of all ranks
    std::size_t const own_block = shown.count * static_cast<std::size_t>(rank_);
    return state_->shown_by(peer, own_->call, shown.whole(rank_count())) +
           (shown.has_blocks ? own_block : 0);
  }
  [[nodiscard]] host_patience waits() const {
    return {waits_over<Link>(options_->waits),
            {state_, &own_->waits, own_->call, rank_, own_->kind, own_->lanes, own_->wait_long}};
  }

  /// Everyone has to come: records are reused afterwards.
  template <patience Wait>
  [[nodiscard]] status meet(Wait& wait) {
    for (int peer = 0; peer < rank_count(); ++peer) {
      while (!own_->link.is_present(peer)) {
        if (auto const result = wait.after_none(); result != status::ok) return result;
      }
    }
    return wait.after_progress();
  }
  void leave() { state_->leave(rank_); }
  void rest() { state_->rest(rank_); }
  void go_on() { state_->go_on(rank_); }

  /// See `detail::times_telling_session`.
  [[nodiscard]] detail::timed_writing& last_timed() { return own_->last_timed; }
  void tell_moved(std::uint64_t nanoseconds) { state_->moved(rank_).tell(own_->call, nanoseconds); }
  [[nodiscard]] std::uint64_t longest_moved_before() const {
    std::uint64_t longest = 0;
    for (int peer = 0; peer < rank_count(); ++peer) {
      std::uint64_t const told = state_->moved(peer).of(own_->call - 1);
      longest = told > longest ? told : longest;
    }
    return longest;
  }

  /// A barrier: every rank raises one number and waits until all have.
  ///
  /// Time: two passes of one cache line between two cores.
  [[nodiscard]] status wait_for_all() {
    expect_outside(collective::barrier);
    if (state_->is_aborted(rank_)) return status::aborted;
    std::uint64_t const round = state_->come(rank_);
    for (int spin = 0; spin < quick_looks; ++spin) {
      if (state_->have_all_come(round)) return status::ok;
    }
    own_->kind = collective::barrier;
    own_->lanes = {};
    auto wait = waits();
    for (unsigned turn = 1; !state_->have_all_come(round); ++turn) {
      auto result = wait.after_none();
      if (result == status::ok && turn % turns_between_searches != 0) continue;
      int const missing = result == status::aborted ? -1 : first_missing(round, result);
      if (missing >= 0) {
        own_->tell->missing(*state_, rank_, missing, round);
        result = status::timed_out;
      }
      if (result != status::ok) {  // a barrier to which all have come has ended well
        return state_->have_all_come(round) ? status::ok : result;
      }
    }
    (void)wait.after_progress();
    return status::ok;
  }
  void fail(stall const& where) {
    own_->tell->stalled(*state_, rank_, where, own_->call, own_->waits);
  }
  void fail(std::string const& why) { own_->tell->gave_up(*state_, rank_, why); }
  void leave_after_failure() {
    if constexpr (reaching_transport<Link>) {
      state_->leave_after_failure(rank_, options_->waits.deadline, [] { detail::yield_core(); });
    } else {
      state_->leave(rank_);
    }
  }
  [[nodiscard]] collective_error failure() const { return state_->failure(); }

 protected:
  /// Who goes on.
  ///
  /// Throws: collective_error if this rank is not among them.
  [[nodiscard]] rank_selection agree_on_survivors() {
    rank_selection result{blink::agree_on_survivors(*state_, rank_, options_->waits.deadline)};
    for (int const member : result.members) {
      if (member == rank_) return result;
      ++result.rank;
    }
    throw collective_error(
        detail::text_of(
            {"rank ", rank_, ", shrink: the others went on without this rank, it came too late"}),
        rank_, -1, -1, -1);
  }

 private:
  [[nodiscard]] std::size_t most_to_show() const {
    auto const share = options_->shown_bytes / static_cast<std::size_t>(rank_count());
    return share < most_shown_bytes ? share : most_shown_bytes;
  }

  static constexpr int quick_looks = 200;  // before it waits in the way that shares cores
  // For ranks that are lost: the system is asked.
  static constexpr unsigned turns_between_searches = 64;

  // Who keeps a barrier from its end: for ever, or for too long if `result` says so. -1: nobody yet.
  [[nodiscard]] int first_missing(std::uint64_t round, status result) const {
    for (int peer = 0; peer < rank_count(); ++peer) {
      if (state_->has_come(peer, round)) continue;
      bool const is_lost = state_->is_gone(peer) || state_->has_died(peer);
      if (is_lost || result == status::timed_out) return peer;
    }
    return -1;
  }

  world_state* state_;
  world_options const* options_;
  int rank_;
  Group group_;
  detail::counted<rank_part> own_;
};

}}  // namespace blink::BLINK_ABI
