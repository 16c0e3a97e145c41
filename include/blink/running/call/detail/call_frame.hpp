// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/call_event.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/detail/call_steps.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/detail/store_mode_tuner.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/detail/host_clock.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/running/walk/tree_walk.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Wait policy of started calls: gives up as soon as it would have to wait.
struct non_blocking {
  [[nodiscard]] status on_progress() const { return status::ok; }
  [[nodiscard]] status on_idle() const { return status::timed_out; }
  [[nodiscard]] std::uint64_t now() const { return host_nanoseconds(); }
};
static_assert(wait_policy<non_blocking>);

/// Cause of a stall.
enum class stall_cause : std::uint8_t { peers, receive, send };

/// The bytes that a rank sends in a call, by peer and by physical link.
struct sent_traffic {
  std::vector<peer_traffic> to_peers;
  std::vector<link_traffic> on_links;

  template <class = when_used>
  void add(prepared_schedule const& prepared, endpoint const& end, std::uint64_t bytes) {
    auto const place = [](auto& all, auto const& is_it, auto const& fresh) -> auto& {
      for (auto& one : all) {
        if (is_it(one)) return one;
      }
      return all.emplace_back(fresh);
    };
    place(
        to_peers, [&](peer_traffic const& one) { return one.peer == end.peer; },
        peer_traffic{end.peer, 0})
        .bytes += bytes;
    auto const& source = prepared.source();
    auto const& connection = prepared.tables().connections()[end.connection];
    for (std::uint32_t hop = 0; hop < connection.route_length; ++hop) {
      int const link = connection.route[hop].link;
      auto const number = static_cast<std::size_t>(link);
      place(
          on_links, [&](link_traffic const& one) { return one.link == link; },
          link_traffic{link,
                       source.link_names.empty() ? std::string_view()
                                                 : std::string_view(source.link_names[number]),
                       source.link_bytes_per_second[number], 0})
          .bytes += bytes;
    }
  }
};

/// The times of one call for the observer, if there is one.
class observed_call {
 public:
  observed_call() {}
  /// `make` returns the event with the fields that are known when the call begins.
  template <class Make>
  void begin(Make const& make) {
    observer_ = present_observer.load(std::memory_order_acquire);
    if (observer_ == nullptr) return;
    event_ = make();
    event_.begin = non_blocking().now();
    idle_since_ = 0;
  }
  [[nodiscard]] bool is_on() const { return observer_ != nullptr; }

  void on_stall(stall_cause cause) {
    if (idle_since_ != 0) return;
    idle_since_ = non_blocking().now();
    cause_ = cause;
  }
  void on_progress() {
    if (idle_since_ == 0) return;
    std::uint64_t const time = non_blocking().now() - idle_since_;
    idle_since_ = 0;
    (cause_ == stall_cause::peers     ? event_.waited_for_peers
     : cause_ == stall_cause::receive ? event_.waited_to_receive
                                      : event_.waited_to_send) += time;
  }

  /// Counts the bytes of eager payloads: from all ranks to all ranks, or only from or to the root.
  ///
  /// is_root: for collectives with a root, true if this rank sends to all or receives from all
  void count_eager(bool is_root) {
    if (!is_on()) return;
    event_.is_sent_with_call = true;
    if (!moves_data(event_.kind)) return;
    auto const once = std::uint64_t{event_.count} * event_.element_bytes;
    auto const often = once * static_cast<std::uint64_t>(event_.rank_count - 1);
    auto const bytes = [&](bool root_has_all, bool others_have_one) {
      if (root_has_all) return is_root ? often : 0;
      return others_have_one && is_root ? 0 : others_have_one ? once : often;
    };
    bool const from_root = is_from_root(event_.kind);
    bool const to_root = is_to_root(event_.kind);
    event_.sent_bytes = bytes(from_root, to_root);
    event_.received_bytes = bytes(to_root, from_root);
  }

  void end(bool is_ok, tree_task const* tasks, std::size_t task_count, element_sizes const& sizes,
           prepared_schedule const& prepared) {
    if (!is_on()) return;
    on_progress();
    sent_traffic sent;
    event_.is_ok = is_ok;
    event_.end = non_blocking().now();
    for (std::size_t k = 0; is_ok && k < task_count; ++k) {
      tree_task const& here = tasks[k];
      auto const bytes = [&](endpoint const& end) {
        return std::uint64_t{here.count} * (end.is_partial ? sizes.connection : sizes.value);
      };
      for (std::uint32_t i = 0; i < here.in_count; ++i) event_.received_bytes += bytes(here.in[i]);
      for (std::uint32_t i = 0; i < here.out_count; ++i) {
        event_.sent_bytes += bytes(here.out[i]);
        sent.add(prepared, here.out[i], bytes(here.out[i]));
      }
    }
    event_.to_peers = sent.to_peers.data();
    event_.peer_count = sent.to_peers.size();
    event_.on_links = sent.on_links.data();
    event_.link_count = sent.on_links.size();
    event_.core = detail::present_core();
    observer_->ended(event_);
    observer_ = nullptr;
  }

 private:
  call_observer* observer_ = nullptr;
  union {
    call_event event_;  // only with an observer
  };
  std::uint64_t idle_since_ = 0;  // 0: not idle
  stall_cause cause_ = stall_cause::peers;
};

/// The time for which a call has been tested in a loop while nothing of it moved.
///
/// The time between two tests counts, but at most a sixteenth of the deadline each time, because a
/// caller that computes does not wait. So a stalled call is given up after that many tests or more,
/// however far they are apart. It is never given up at the first test after a long computation.
class idle_tests {
 public:
  void on_progress() { *this = {}; }
  /// Counts a test without progress at `time`, in nanoseconds. Returns true if it is time to look
  /// for the cause, which costs more than a test. Ranks in a wait look as often.
  [[nodiscard]] bool on_idle(std::uint64_t time, wait_options const& limits, int ranks) {
    if (last_ == 0) last_ = looked_ = time;
    std::uint64_t const most = static_cast<std::uint64_t>(limits.deadline.count()) / 16 + 1;
    waited_ += time - last_ < most ? time - last_ : most;
    last_ = time;
    if (time - looked_ < time_between_looks(limits, ranks)) return false;
    looked_ = time;
    has_looked_ = true;
    return true;
  }
  [[nodiscard]] std::uint64_t waited() const { return waited_; }  ///< nanoseconds
  [[nodiscard]] bool has_looked() const { return has_looked_; }

 private:
  std::uint64_t last_ = 0;  // 0: none since the last progress
  std::uint64_t looked_ = 0;
  std::uint64_t waited_ = 0;
  bool has_looked_ = false;
};

/// One rank's call, without the types of elements and reducers. It is not movable.
struct call_frame {
  call_steps& steps;  ///< of the communicator
  int rank;
  bool leads;  ///< true for the leader of the rank's threads
  prepared_schedule& prepared;
  collective kind;
  call_size size;
  call_types const& types;
  std::uint64_t common_state;  ///< of the reducer (`common_state_of`)
  void const* callers_input;
  void* output;

  order_promise order = types.order;  ///< the stronger promise of reducer and communicator
  task_list tasks = prepared.tables().tasks(rank, kind);
  void const* input = callers_input;  ///< `callers_input`, or a copy of it
  store_mode_tuner::choice writing{};
  bool keeps_own = false;    ///< true if the output goes through the caches in any case
  std::uint64_t moving = 0;  ///< nanoseconds that moving chunks took, if that is timed
  observed_call observed{};  ///< by the leader
  idle_tests idle{};
  bool needs_copy = false;
  bool is_walking = false;  ///< true if there is data to move or to wait for
  bool is_resting = false;  ///< true while the call is suspended
  bool is_eager = false;    ///< true if all inputs travelled with the call

  /// The number of tasks that this call needs; 0 if all inputs travelled with the call.
  [[nodiscard]] std::size_t task_count() const { return is_eager ? 0 : tasks.count; }

  template <class T>
  [[nodiscard]] call_buffers<T> buffers() {
    return {static_cast<T const*>(input), static_cast<T*>(output), writing.way, keeps_own,
            writing.is_timed ? &moving : nullptr};
  }
};

/// Runs `work`. An exception of a reducer in it ends the call on all ranks, and reaches the caller
/// once no peer touches its buffers any more.
template <class Work>
auto guarded(call_frame& call, Work const& work) {
  try {
    return work();
  } catch (...) {
    call.steps.give_up_call(call);
    throw;
  }
}

/// The wait policy of a group's leader in a call. It also records the stalls.
template <class Comm>
class call_wait final : public any_wait {
 public:
  call_wait(call_frame& frame, Comm const& comm) : frame_(frame), wait_(comm.waits()) {}

  [[nodiscard]] status on_progress() override {
    if (frame_.observed.is_on()) frame_.observed.on_progress();
    return wait_.on_progress();
  }
  [[nodiscard]] status on_idle() override {
    if (frame_.observed.is_on()) frame_.steps.record_stall(frame_);
    return wait_.on_idle();
  }
  [[nodiscard]] std::uint64_t now() override { return wait_.now(); }

 private:
  call_frame& frame_;
  waits_of<Comm> wait_;
};

}}}  // namespace blink::BLINK_ABI::detail
