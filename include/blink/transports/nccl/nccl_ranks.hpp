// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/epilogue.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/calls/call_validation.hpp>
#include <blink/transports/cuda/calls/completion_tracker.hpp>
#include <blink/transports/cuda/calls/device_order.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>
#include <blink/transports/cuda/kernels/copy_step.hpp>
#include <blink/transports/cuda/runtime/copy_pieces.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/nccl/agree_by_nccl.hpp>
#include <blink/transports/nccl/nccl_call.hpp>
#include <blink/transports/nccl/nccl_calls.hpp>
#include <blink/transports/nccl/nccl_options.hpp>
#include <blink/transports/nccl/nccl_schedule.hpp>
#include <blink/transports/nccl/nccl_team.hpp>
#include <blink/transports/nccl/progress_marks.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Ranks that are devices of any machines that NCCL reaches, joined by its sends and receives.
/// Schedules, elements, reducers and memory are blink's; NCCL carries the bytes. Each step of a
/// call is a small kernel if elements are combined, and one group of sends and receives.
/// `transfer_rounds.hpp` defines the steps and proves that they do not deadlock.
///
/// The caller makes the communicators of NCCL, one for each rank of this process, in any way.
/// Nothing else uses them while a call runs. All processes make, prepare and end their
/// communicators together, and make the same calls in the same order. `prepare` and `compare_calls`
/// find calls that differ. Without them, differing calls are noticed only if their transfers do not
/// match. Then NCCL's error or the deadline ends them.
///
/// Calls are asynchronous: they put steps into the given streams, one for each device, and wait for
/// no stream. They may be captured into graphs after their schedule is prepared.
///
/// Only one thread of the host uses a communicator at a time.
template <polled_runtime Devices, nccl_calls Calls>
  requires std::same_as<typename Devices::stream, typename Calls::stream>
class basic_nccl_ranks : public call_validation<basic_nccl_ranks<Devices, Calls>, Devices> {
  using ranks = call_validation<basic_nccl_ranks, Devices>;
  friend ranks;
  using team = nccl_team<Devices, Calls>;

 public:
  using prepared_type = nccl_schedule<Devices>;
  using communicator = typename Calls::communicator;
  using typename ranks::stream;
  using typename ranks::streams;

  /// all:    by rank of this process: consecutive ranks, each on a separate device
  /// Throws: precondition_error, on all processes, for options that are out of range or differ
  ///         between them; precondition_error for communicators of NCCL that do not follow each
  ///         other; nccl_error, device_error; collective_error if a process does not arrive.
  basic_nccl_ranks(Devices& driver, Calls& calls, std::vector<communicator> const& all,
                   nccl_options const& options)
      : basic_nccl_ranks(driver, options,
                         std::make_unique<team>(driver, calls, all, deadline_of(options))) {}
  /// Waits for calls outside of graphs, at most for the deadline; then ends them.
  ~basic_nccl_ranks() {
    try {
      end_calls();
    } catch (error const&) {  // memory that may still be used is kept
      for (auto& source : prepared_) source->leak_memory();
      marks_.leak_memory();
      this->leak_memory();
    }
  }

  /// Allocates the memory for calls along `schedule`, compares it with the schedules of other
  /// processes, and lets NCCL open the connections. The same schedule returns the same object
  /// again. It waits for earlier calls and for all processes, so it cannot be part of a graph.
  ///
  /// Pre:    no graph with calls runs.
  /// Throws: precondition_error if it is no schedule, has another number of ranks, or differs from
  ///         the schedule of another process; resource_error if it needs more than the cap. All
  ///         processes throw if one refuses. Also nccl_error, device_error; collective_error if a
  ///         process does not arrive.
  prepared_type& prepare(schedule const& source) {
    team_->check();
    for (auto const& each : prepared_) {
      if (each->prepared().source() == source) return *each;
    }
    wait_for_calls("prepare");
    prepared_type* made = nullptr;
    std::exception_ptr refusal;
    std::string why;
    try {
      made = &this->find_or_prepare(prepared_, source, connection_layout{});
    } catch (error const& failure) {
      refusal = std::current_exception();
      why = failure.what();
    }
    try {
      std::uint64_t const own = made == nullptr ? 0 : made->prepared().hash();
      agree_by_nccl(*team_, "prepare", {calls_before(), {own, same_schedules}}, why);
      if (refusal) std::rethrow_exception(refusal);
      connect(*made);
    } catch (...) {
      if (made != nullptr) {
        if (team_->has_failed() && !team_->let_end()) made->leak_memory();
        prepared_.pop_back();
      }
      if (refusal && !team_->has_failed()) std::rethrow_exception(refusal);
      throw;
    }
    return *made;
  }

  /// Checks that all processes have made the same calls so far: kinds, counts, types, schedules.
  /// All processes call it together; `prepare` also does. Waits for these calls.
  ///
  /// Pre:    no graph with calls runs.
  /// Throws: precondition_error on all processes if they differ; what `wait` throws.
  void compare_calls() {
    team_->check();
    wait_for_calls("compare_calls");
    agree_by_nccl(*team_, "compare_calls", {calls_before()}, "");
  }

  /// Copies between ranks of this process, and sends and receives to and from ranks of other
  /// processes, as one group; see `exchange`. All ranks that a piece names call it. Sizes are not
  /// compared between processes. Pairs of ranks that no schedule has joined wait for each other on
  /// the host.
  ///
  /// Throws: nccl_error, device_error; collective_error if an earlier call has failed.
  void send_and_receive(std::vector<piece_copy> const& copies,
                        std::vector<device_piece> const& pieces, streams const& on) {
    team_->check();
    std::vector<nccl_transfer> group;
    for (auto const& one : copies) {
      group.push_back({true, one.sender, one.receiver, const_cast<void*>(one.from), one.bytes});
      group.push_back({false, one.receiver, one.sender, one.to, one.bytes});
    }
    for (auto const& one : pieces) {
      if (one.bytes > 0) group.push_back({one.sends, one.rank, one.peer, one.data, one.bytes});
    }
    auto const& all = this->expect_streams(on);
    take_turn(all, [&] {
      mark(all);
      team_->issue(group, all);
    });
  }

  /// Waits until the work in these streams is done. `on` has one stream for each device, or none
  /// for the default ones.
  ///
  /// Throws: collective_error if a communicator has failed, or no stream progresses for the
  ///         deadline. Then all calls have ended here, and the communicators of NCCL are gone, as
  ///         after `abort`.
  void wait(streams const& on = {}) {
    team_->wait(this->expect_streams(on), "nccl_ranks", [&] { return marks_.seen(); });
  }

  /// True if a call has failed. Does not wait for running calls.
  [[nodiscard]] bool has_failed() {
    try {
      team_->check();
    } catch (collective_error const&) {
    }
    return team_->has_failed();
  }
  /// Throws: collective_error if a call has failed.
  void check() { team_->check(); }

  /// Ends the calls in streams, and the communicators of NCCL (`ncclCommAbort`), which must not be
  /// destroyed afterwards. To continue, make new communicators of NCCL and a new object of them.
  void abort() { team_->fail({team_->own_name() + ": aborted by its owner", -1, -1, -1, -1}); }

 private:
  using ranks::driver_;
  using ranks::where_;
  static constexpr std::uint64_t rounds_of_mark = 16;
  static constexpr char const* same_schedules = "schedules";

  [[nodiscard]] static std::chrono::nanoseconds deadline_of(nccl_options const& options) {
    expects(options.deadline.count() > 0, "nccl_options: deadline out of range, expected > 0");
    return options.deadline;
  }
  basic_nccl_ranks(Devices& driver, nccl_options const& options, std::unique_ptr<team> all)
      : ranks(driver, device_options_of(options, all->devices()), agree_on_places(*all, options)),
        team_(std::move(all)),
        marks_(driver, this->budget_, where_.devices),
        running_(driver, where_.devices) {}

  // Sends a message over each pair of ranks that a tree joins. NCCL opens a connection when both
  // ends are in a group, and its host waits for that.
  void connect(prepared_type& prepared) {
    std::set<std::pair<int, int>> known;
    std::vector<nccl_transfer> group;
    auto const& places = prepared.prepared().tables().places();
    for (std::uint32_t connection = 0; connection < places.size(); ++connection) {
      int const from = places[connection].from, to = places[connection].to;
      if (!known.insert({from, to}).second) continue;
      if (prepared.is_here(from))
        group.push_back({true, from, to, prepared.outbox(connection, 0), 1});
      if (prepared.is_here(to))
        group.push_back({false, to, from, prepared.inbox(connection, 0), 1});
    }
    team_->issue(group, team_->own_streams());
    team_->wait(team_->own_streams(), "prepare", [] { return 0; });
  }

  template <chunking Chunks, class T, class Reducer>
  void enqueue(prepared_type& prepared, collective kind,
               std::vector<detail::plain_buffers> const& buffers, detail::call_size const& size,
               std::vector<std::size_t> const& copied, Reducer const& reduce, streams const& on) {
    static_assert(!detail::carries_epilogue<Reducer>,
                  "blink: NCCL delivers results and runs no epilogue; use device_ranks");
    team_->check();
    auto const& all = this->expect_streams(on);
    auto placed = buffers;
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      if (copied[rank] > 0) placed[rank].input = this->scratch_of(rank, copied[rank]);
    }
    nccl_call<Devices> now;
    now.template set<Chunks, T, Reducer>(prepared, kind, placed, size);
    last_call_ = detail::description_of_call(prepared.prepared(), kind, size,
                                             detail::types_of_call<T, Reducer, Chunks>,
                                             detail::common_state_of(reduce));
    calls_.add(last_call_.hash());
    ++call_count_;
    take_turn(all, [&] {
      for (std::size_t k = 0; k < buffers.size(); ++k) {
        if (copied[k] == 0) continue;
        driver_.copy(where_.devices[k], const_cast<void*>(placed[k].input), buffers[k].input,
                     copied[k], all[k]);
      }
      std::vector<nccl_transfer> group;
      for (std::uint64_t round = 0; round < now.rounds(); ++round) {
        if (round % rounds_of_mark == 0) mark(all);
        now.for_each_step(round, [&](int rank, copy_step const& step) {
          std::size_t const k = where_.position_of(rank);
          driver_.template combine<T>(where_.devices[k], step, reduce, all[k]);
        });
        now.list_transfers(round, group);
        team_->issue(group, all);
      }
      now.for_each_own_copy([&](int rank, void* to, void const* from, std::size_t bytes) {
        std::size_t const k = where_.position_of(rank);
        driver_.copy(where_.devices[k], to, from, bytes, all[k]);
      });
    });
  }

  // Puts a call into the streams, behind earlier calls on these devices. If that fails halfway, all
  // calls are ended, because other ranks wait for the missing transfers.
  template <class Work>
  void take_turn(streams const& all, Work const& work) {
    typename device_order<Devices>::turn turn(driver_.order(), driver_, where_.devices);
    try {
      for (std::size_t k = 0; k < all.size(); ++k) turn.begin(where_.devices[k], all[k]);
      work();
      for (std::size_t k = 0; k < all.size(); ++k) turn.end(where_.devices[k], all[k]);
      note_calls(all);
    } catch (std::exception const& failure) {
      team_->fail({team_->own_name() + ": " + failure.what(), this->first_rank(), -1, -1, -1});
      try {
        note_calls(all);
      } catch (device_error const&) {  // a device that is lost runs nothing
      }
      throw;
    }
  }
  void note_calls(streams const& all) {
    for (std::size_t k = 0; k < all.size(); ++k) running_.add(k, all[k]);
  }
  void mark(streams const& all) {
    for (std::size_t k = 0; k < all.size(); ++k) marks_.put(k, all[k]);
  }

  // Agreements use the team's own streams, and must not be mixed with sends and receives of calls.
  void wait_for_calls(std::string const& what) {
    team_->wait_until(
        what + ": calls before it", [&] { return marks_.seen(); },
        [&] { return running_.are_over(); });
  }
  [[nodiscard]] common_value calls_before() const {
    return {calls_.value(), "calls",
            std::to_string(call_count_) + " calls" +
                (call_count_ == 0 ? "" : ", the last one " + last_call_.in_words())};
  }
  // Waits until all calls have ended. The deadline aborts them; throws if they still do not end.
  void end_calls() {
    try {
      wait_for_calls("the end of nccl_ranks");
    } catch (collective_error const&) {
      if (!team_->let_end([&] { return running_.are_over(); })) throw;
    }
  }

  std::unique_ptr<team> team_;
  progress_marks<Devices> marks_;
  completion_tracker<Devices> running_;
  std::vector<std::unique_ptr<prepared_type>> prepared_;
  detail::hash calls_;            // of all calls so far
  std::uint64_t call_count_ = 0;  // number of those
  call_description last_call_{};
};

}}  // namespace blink::BLINK_ABI
