// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/call_signature.hpp>
#include <blink/collectives/collective_error.hpp>
#include <blink/collectives/session.hpp>
#include <blink/collectives/status.hpp>
#include <blink/collectives/thread_group.hpp>
#include <blink/collectives/transport.hpp>
#include <blink/config.hpp>
#include <blink/transports/describe_stall.hpp>
#include <blink/transports/link_parts.hpp>
#include <blink/transports/patience.hpp>
#include <blink/transports/prepared_schedule.hpp>
#include <blink/transports/world_options.hpp>
#include <blink/transports/world_state.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

namespace blink::inline BLINK_ABI {

/// What ranks that share memory, threads or processes, have in common as sessions: all but where a
/// schedule is prepared.
template <transport Link, thread_group Group>
class shared_session {
 public:
  using link_type = Link;

  /// What the threads of one rank share.
  struct rank_part {
    explicit rank_part(int ranks)
        : seen(std::make_unique<bool[]>(static_cast<std::size_t>(ranks))) {}
    std::unique_ptr<bool[]> seen;
    Link link{};
    std::uint64_t call = 0;
  };

  shared_session(world_state& state, world_options const& options, int rank, Group group,
                 std::shared_ptr<rank_part> own)
      : state_(&state), options_(&options), rank_(rank), group_(group), own_(std::move(own)) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rank_count() const { return state_->rank_count(); }
  [[nodiscard]] Group const& group() const { return group_; }
  [[nodiscard]] world_options const& options() const { return *options_; }
  [[nodiscard]] Link const& link() const { return own_->link; }

  [[nodiscard]] status enter(prepared_schedule& plan, call_record const& record) {
    std::fill_n(own_->seen.get(), rank_count(), false);
    own_->call = state_->enter(rank_, record);
    own_->link = Link(link_parts{state_, &plan, own_->seen.get(), own_->call, rank_});
    return state_->is_aborted() ? status::aborted : status::ok;
  }
  [[nodiscard]] host_patience waits() const { return {options_->waits, *state_}; }

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
  void fail(stall const& where) {
    auto const seconds = std::chrono::duration<double>(options_->waits.deadline).count();
    state_->fail(rank_, describe_stall(where, rank_, *state_, own_->call, seconds));
  }
  void leave_after_failure() {
    state_->leave_after_failure(rank_, [] { std::this_thread::yield(); });
  }
  [[nodiscard]] collective_error failure() const { return state_->failure(); }

 private:
  world_state* state_;
  world_options const* options_;
  int rank_;
  Group group_;
  std::shared_ptr<rank_part> own_;
};

}  // namespace blink::inline BLINK_ABI
