// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/duration.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/detail/message_faults.hpp>
#include <blink/running/call/messenger.hpp>
#include <blink/running/walk/detail/host_clock.hpp>
#include <blink/transports/host/detail/message_inbox.hpp>
#include <blink/transports/host/detail/message_outbox.hpp>
#include <blink/transports/host/detail/message_pool.hpp>
#include <blink/transports/host/detail/message_stream.hpp>
#include <blink/transports/host/host_wait.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// The messenger of a rank that shares memory with all ranks of its communicator.
///
/// Messages cross in streams of memory that the sender provides, one stream for each pair of ranks
/// that is used. A send ends when its bytes are there. So it does not wait for the receiver, as
/// long as the sender has memory (`communicator_options::kept_message_bytes`). Where it has none,
/// each wait of the receiver takes in what there is.
///
/// It shares no words with collectives, except for those by which ranks learn of failures.
class host_messenger final : public messenger {
 public:
  /// state, options, memory: outlive this object
  host_messenger(shared_state& state, communicator_options const& options, int rank,
                 detail::message_memory& memory)
      : state_(&state),
        options_(&options),
        rank_(rank),
        faults_(rank),
        rows_(memory, state.rank_count()),
        own_(&rows_.of(rank)),
        inbox_(rows_, rank, memory.base()),
        outbox_(rows_, rank, memory, options.kept_message_bytes, options.waits.spins <= 2) {}

  [[nodiscard]] operation* start_send(int peer, int tag, void const* data,
                                      std::size_t bytes) override {
    expect_intact({true, peer, tag});
    if (state_->is_gone(peer)) fail_lost({true, peer, tag}, peer);
    detail::host_mutex::hold const held(sending_);
    return outbox_.start(peer, tag, static_cast<std::byte const*>(data), bytes);
  }
  [[nodiscard]] operation& start_receive(int source, int tag, void* data,
                                         std::size_t bytes) override {
    expect_intact({false, source, tag});
    detail::host_mutex::hold const held(receiving_);
    return inbox_.start(source, tag, static_cast<std::byte*>(data), bytes);
  }

  [[nodiscard]] bool test(operation& one) override {
    auto const now = advance(one);
    if (now.has_ended) return true;
    expect_intact(detail::name_of(one));
    std::uint64_t const time = detail::host_nanoseconds();
    if (one.looked == 0) one.looked = time;
    if (time - one.looked < between_looks()) return false;
    one.looked = time;
    help_senders();
    return look(one, now.peer);
  }
  void wait(operation& one, nanoseconds longest) override {
    auto const& limits = options_->waits;
    auto const deadline =
        static_cast<std::uint64_t>(longest.count() > 0 ? longest.count() : limits.deadline.count());
    idle_time idle;
    std::size_t moved = 0;
    for (int turn = 1;; ++turn) {
      auto const now = advance(one);
      if (now.has_ended) return;
      expect_intact(detail::name_of(one));
      if (std::exchange(moved, now.moved) != now.moved) turn = 1;
      if (turn <= limits.spins) {
        host_wait::pause();
      } else if (wait_long(one, now, turn - limits.spins, idle, deadline)) {
        return;
      }
    }
  }
  void release(operation& one) noexcept override {
    auto& listed = static_cast<detail::listed_operation&>(one);
    if (one.is_send) {
      detail::host_mutex::hold const held(sending_);
      outbox_.release(listed);
    } else {
      detail::host_mutex::hold const held(receiving_);
      inbox_.release(listed);
    }
  }

 private:
  /// An operation after a step.
  struct progress_seen {
    bool has_ended;
    std::size_t moved;
    int peer;  // of which the rest comes; -1: any source
  };

  // As in `host_wait`.
  static constexpr std::uint64_t longest_yielding = 1'000'000;  // nanoseconds

  [[nodiscard]] std::uint64_t between_looks() const {
    return time_between_looks(options_->waits, state_->rank_count());
  }

  // Moves what can be moved, for this operation and for the sends of this rank.
  [[nodiscard]] progress_seen advance(operation& one) {
    if (one.is_send || outbox_.has_waiting()) {
      detail::host_mutex::hold const held(sending_);
      outbox_.move_all();
      if (one.is_send) return {one.has_ended(), one.moved, one.peer};
    }
    detail::host_mutex::hold const held(receiving_);
    inbox_.move(static_cast<detail::listed_operation&>(one));
    using state = operation::state;
    if (one.at > state::done) faults_.fail_ended(one, name_of_rank(one.got.source));
    return {one.has_ended(), one.moved, one.at == state::waiting ? one.peer : one.got.source};
  }
  void help_senders() {
    detail::host_mutex::hold const held(receiving_);
    inbox_.help_senders();
  }

  struct idle_time {
    std::uint64_t since = 0;   // without progress and without spins, in nanoseconds
    std::uint64_t looked = 0;  // when it was last checked that the operation can end
  };
  // Yields, then sleeps. Returns true if the operation has ended.
  //
  // turn: of this idle time, from 1 on
  [[nodiscard]] bool wait_long(operation& one, progress_seen const& now, int turn, idle_time& idle,
                               std::uint64_t deadline) {
    help_senders();
    std::uint64_t const time = detail::host_nanoseconds();
    if (turn == 1) idle = {time, time};
    std::uint64_t const waited = time - idle.since;
    if (waited > deadline) fail_timed_out(one, now, waited);
    if (turn <= options_->waits.yields && waited < longest_yielding) {
      detail::yield_core();
      return false;
    }
    if (time - idle.looked >= between_looks()) {
      idle.looked = time;
      if (look(one, now.peer)) return true;
    }
    return sleep(one, deadline - waited);
  }
  // Returns true if the operation ended before the rank slept.
  [[nodiscard]] bool sleep(operation& one, std::uint64_t longest) {
    struct sleeper {
      explicit sleeper(detail::message_row& its) : row(its) { row.sleepers.fetch_add(1); }
      sleeper(sleeper const&) = delete;
      sleeper& operator=(sleeper const&) = delete;
      ~sleeper() { row.sleepers.fetch_sub(1); }
      detail::message_row& row;
    } const here(*own_);
    std::uint32_t const ticket = own_->rings.load();
    if (advance(one).has_ended) return true;
    std::uint64_t const most = between_looks();
    detail::sleep_on(own_->rings, ticket,
                     nanoseconds(static_cast<std::int64_t>(longest < most ? longest : most)));
    return false;
  }

  // Returns true if the operation has ended. Throws if it cannot end because a rank is lost.
  //
  // peer: that it waits for; -1: any source
  [[nodiscard]] bool look(operation& one, int peer) {
    int const lost = peer < 0 ? lost_source(one.next_looked) : is_lost(peer) ? peer : -1;
    if (lost < 0) return false;
    if (advance(one).has_ended) return true;  // it had sent all before
    fail_lost(detail::name_of(one), lost);
  }
  [[nodiscard]] bool is_lost(int peer) const {
    return peer != rank_ && (state_->is_gone(peer) || state_->is_dead(peer));
  }
  // Returns a rank because of which a receive from any source fails: one that died, or any if all
  // others have left. -1: there is none. Looks at some peers, next time at the following ones.
  [[nodiscard]] int lost_source(int& next) const {
    int const ranks = state_->rank_count();
    constexpr int most = 8;  // each takes a microsecond, because the system is asked
    for (int k = 0; k < most && k < ranks; ++k) {
      next = (next + 1) % ranks;
      if (!state_->is_gone(next) && is_lost(next)) return next;
    }
    int left = -1;
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank_) continue;
      if (!state_->is_gone(peer)) return -1;
      left = peer;
    }
    return left;
  }

  // --- errors ---

  void expect_intact(detail::message_name const& one) const {
    if (state_->has_failed()) faults_.fail_with_communicator(one, state_->failure());
  }
  [[nodiscard]] BLINK_COLD std::string name_of_rank(int rank) const {
    auto const more = rank < 0 ? std::string() : state_->describe(rank);
    if (more.empty()) return detail::text_of({"rank ", rank});
    return detail::text_of({"rank ", rank, " (", more, ")"});
  }
  [[noreturn]] BLINK_COLD void fail_lost(detail::message_name const& one, int peer) const {
    faults_.fail_lost(one, peer, name_of_rank(peer), state_->is_gone(peer));
  }
  [[noreturn]] BLINK_COLD void fail_timed_out(operation const& one, progress_seen const& now,
                                              std::uint64_t waited) {
    std::string more;
    if (one.is_send) {
      detail::host_mutex::hold const held(sending_);
      more = detail::text_of({"messages that no rank has received take ", outbox_.pool().bytes(),
                              " bytes, at most ", options_->kept_message_bytes,
                              " (kept_message_bytes)"});
      if (!outbox_.pool().refusal().empty()) more += "; " + outbox_.pool().refusal();
    } else if (now.moved == 0) {
      detail::host_mutex::hold const held(receiving_);
      auto const kept = inbox_.kept();
      more = detail::message_faults::unasked(kept.count, kept.first);
    }
    faults_.fail_timed_out(one, now.peer, name_of_rank(now.peer), now.moved, waited, more);
  }

  shared_state* state_;
  communicator_options const* options_;
  int rank_;
  detail::message_faults faults_;
  detail::message_rows rows_;
  detail::message_row* own_;
  detail::host_mutex receiving_;  // guards the inbox
  detail::message_inbox inbox_;
  detail::host_mutex sending_;  // guards the outbox
  detail::message_outbox outbox_;
};

}}  // namespace blink::BLINK_ABI
