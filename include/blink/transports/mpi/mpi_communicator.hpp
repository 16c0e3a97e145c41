// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/communicator_base.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/detail/call_frame.hpp>
#include <blink/running/call/detail/eager_inputs.hpp>
#include <blink/running/call/eager_payload.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/host/host_wait.hpp>
#include <blink/transports/mpi/agree_on_options.hpp>
#include <blink/transports/mpi/channel.hpp>
#include <blink/transports/mpi/connections.hpp>
#include <blink/transports/mpi/describe_stall.hpp>
#include <blink/transports/mpi/notices.hpp>
#include <blink/transports/mpi/survivors.hpp>
#include <blink/transports/mpi/transport.hpp>
#include <blink/transports/mpi/wait.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Needs an MPI library of version 3 or newer. No other header of the project includes this one.

namespace blink { inline namespace BLINK_ABI {

/// Default options of communicators over MPI: large chunks, most of which need no slot.
///
/// A large message of an MPI library begins with a handshake. Within a host only the receiver
/// copies it, so a pipeline gains nothing.
[[nodiscard]] inline communicator_options mpi_options() {
  communicator_options result;
  result.slot_bytes = std::size_t{4} << 20;
  result.costs.chunk_seconds = 1e-4;
  return result;
}

/// The arrival times of a communicator's messages: none, except over links of `mpi/shaped.hpp`.
template <class Transport>
class mpi_times {
 public:
  mpi_times(mpi_channel const&, std::chrono::nanoseconds) {}
  [[nodiscard]] static void* of(schedule const&, connection_layout const&, pipeline_costs const&) {
    return nullptr;
  }
};

/// This process as a rank of an MPI communicator: `mpi_communicator comm(MPI_COMM_WORLD);
/// all_reduce(comm, trees, input, output, count, sum{});`
///
/// Several of them may exist side by side, also over one MPI communicator. Only the thread that
/// made one uses it, or with MPI_THREAD_MULTIPLE one thread at a time. All ranks prepare the same
/// schedules in the same order. A call along a new schedule prepares it.
///
/// Link: `mpi_transport`, or `shaped_mpi_transport` (`mpi/shaped.hpp`)
template <transport Transport>
class basic_mpi_communicator : public communicator_base<basic_mpi_communicator<Transport>> {
 public:
  using transport_type = Transport;

  /// Collective over `of_user`, of which it makes two duplicates. One is for announcements of
  /// calls.
  ///
  /// eager_limit: largest input that is sent to every other rank when a call is announced. That
  ///              takes one message for each rank instead of two along a tree. The limit holds for
  ///              two ranks. With n ranks, at most eight, it is divided by n - 1, so that a rank
  ///              sends no more in all. It is also less than what trees carry without slots.
  /// zero_copy_threshold: messages of at least so many bytes leave from the buffers of calls and
  ///                      arrive in them, without a copy in a slot
  /// Throws: precondition_error if MPI does not run or this communicator cannot carry it;
  ///         precondition_error on all ranks if an option is out of range on one, or differs
  ///         between ranks; error if the library refuses.
  explicit basic_mpi_communicator(MPI_Comm of_user,
                                  communicator_options const& options = mpi_options(),
                                  std::size_t eager_limit = std::size_t{512} << 10,
                                  std::size_t zero_copy_threshold = std::size_t{16} << 10)
      : options_(options),
        state_(new detail::mpi_state(mpi_channel(of_user), eager_limit, zero_copy_threshold)) {
    agree_on_options(state_->channel, options_, eager_limit, zero_copy_threshold);
    begin();
  }
  basic_mpi_communicator(basic_mpi_communicator&&) noexcept = default;
  basic_mpi_communicator& operator=(basic_mpi_communicator&&) = delete;
  /// Waits until all ranks have come here, at most as long as the deadline. Communicators end in
  /// the same order on all ranks, or after `try_end`, and before MPI_Finalize.
  ~basic_mpi_communicator() {
    if (!state_) return;  // it was moved
    auto const end =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.waits.deadline);
    bool is_over = false;
    while (mpi_channel::runs() && !is_over && std::chrono::steady_clock::now() < end) {
      is_over = try_end();
      if (!is_over) std::this_thread::yield();
    }
    if (is_over && state_->channel.is_intact() && state_->control.is_intact()) {
      for (auto& known : prepared_) known->connections.close();
      state_->notices.close();
    } else {
      abandon();
    }
  }

  [[nodiscard]] int rank() const { return state_->channel.rank(); }
  [[nodiscard]] int rank_count() const { return state_->channel.rank_count(); }
  [[nodiscard]] lone_thread group() const { return {}; }
  [[nodiscard]] communicator_options const& options() const { return options_; }
  [[nodiscard]] Transport const& transport() const { return transport_; }

  /// Allocates what calls along a schedule need. The same schedule returns the same object again.
  ///
  /// Throws: precondition_error if the schedule is not valid, is for another number of ranks, if
  ///         MPI is finalised, or if the library has no more tags.
  prepared_schedule& prepare(schedule const& source) {
    mpi_channel::expect_not_finalised();
    expect_ranks(source, rank_count());
    for (auto& known : prepared_) {
      if (known->prepared.source() == source) return known->prepared;
    }
    validate(source);
    connection_layout layout = connection_layout_of<Transport>(options_, source);
    layout.only_rank = rank();
    layout.owner = owner();
    layout.times_share = times_->of(source, layout, options_.costs);
    auto fresh =
        std::make_unique<prepared_connections>(*state_, source, layout, options_.costs, next_tag_);
    int const tags = mpi_connections::tag_count(fresh->prepared);
    if (tags > state_->channel.largest_tag() - next_tag_) {
      throw precondition_error("mpi_communicator: " + std::to_string(prepared_.size()) +
                               " schedules are prepared and the library has tags up to " +
                               std::to_string(state_->channel.largest_tag()) + " only");
    }
    next_tag_ += tags;
    return prepared_.emplace_back(std::move(fresh))->prepared;
  }

  /// The schedule of barriers that name none: a binomial tree.
  [[nodiscard]] prepared_schedule& barrier_plan() {
    if (barrier_plan_ == nullptr) barrier_plan_ = &prepare(binomial_schedule(rank_count(), 0));
    return *barrier_plan_;
  }

  /// Throws: precondition_error unless MPI was initialised for calls from any thread at any time.
  void expect_any_thread() const { mpi_channel::expect_any_thread(); }
  [[nodiscard]] std::atomic<void const*>& active_queue() { return state_->active_queue; }
  [[nodiscard]] void const* owner() const { return state_.get(); }
  void expect_idle(collective kind) const {
    if (auto const present = state_->notices.present_kind()) {
      detail::refuse_second_call(rank(), kind, *present);
    }
  }
  /// Throws: precondition_error if MPI is finalised, or takes calls from another thread only.
  [[nodiscard]] status enter(prepared_schedule& prepared, call_record const& record) {
    if (end_of_mpi::has_arrived_at()) mpi_channel::expect_not_finalised();
    if (only_thread_ != std::thread::id() && only_thread_ != std::this_thread::get_id()) {
      mpi_channel::expect_main_thread();
    }
    auto& connections = connections_of(prepared);
    transport_ = Transport(*state_, connections);
    auto& notices = state_->notices;
    if (notices.is_aborted()) return status::aborted;
    auto const kind = record.kind();
    constexpr int most_ranks = 8;  // that are notified of every call
    std::size_t const most = state_->eager_limit_of(kind);
    bool const goes_by_trees = Transport::is_shaped || rank_count() > most_ranks;
    bool const can = !goes_by_trees && can_be_eager(record) && most > 0;
    auto const eager = can ? payload_of(prepared, record, rank()) : eager_payload{};
    is_eager_ = can && eager.count <= most;
    // A rank that its peers have given up neither ends the call alone nor sends from buffers that
    // no peer will read.
    if (notices.comes_late(options_.waits.deadline)) {
      notices.look_long();
    } else if (!is_eager_) {
      notices.look();
    }
    if (notices.has_failed(notices.next_call())) return status::aborted;
    if (!is_eager_) connections.begin_call();
    notices.enter(record, connections.first_tag(), connections.neighbours(),
                  is_eager_ ? eager : eager_payload{},
                  is_eager_ ? task_list{} : prepared.tables().tasks(rank(), kind));
    return status::ok;
  }
  /// See `detail::eager_communicator`.
  [[nodiscard]] bool is_eager() const { return is_eager_; }
  [[nodiscard]] void const* eager_input(int peer) const {
    return state_->notices.eager_data_of(peer);
  }
  [[nodiscard]] mpi_wait waits() const {
    return {waits_over<Transport>(options_.waits), state_->notices};
  }

  /// All ranks that were notified of the call have to enter it, because they may be at most one
  /// call behind.
  template <wait_policy Wait>
  [[nodiscard]] status match(Wait& wait) {
    for (int const peer : current_->connections.neighbours()) {
      while (!transport_.is_present(peer)) {
        if (auto const result = wait.on_idle(); result != status::ok) return result;
      }
    }
    // A peer that gave up waiting for this rank has announced that before it took its buffers back.
    // Data that was read since is invalid.
    if (!is_eager_) state_->notices.look();
    if (state_->notices.has_failed(state_->notices.call())) return status::aborted;
    return wait.on_progress();
  }
  void suspend() {}  // a failure takes buffers back before it ends the call
  void resume() {}
  void exit_call() { state_->notices.exit_call(); }
  void fail(stall const& where) {
    state_->notices.fail(describe_stall(where, state_->notices, options_.waits.deadline));
  }
  /// Ends the present or the next call on all ranks; does nothing after MPI has ended.
  void fail(std::string const& why) {
    if (!mpi_channel::runs()) return;
    state_->notices.fail(
        {"rank " + std::to_string(rank()) + " gave up: " + why, rank(), rank(), -1, -1});
  }
  void exit_failed_call() {
    state_->notices.exit_call();
    if (is_eager_ || current_ == nullptr) return;
    // Ranks that live answer sooner. The other ranks of this call wait for this one in `shrink`.
    auto const end =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.waits.deadline) / 4;
    while (state_->channel.is_intact() && !current_->connections.take_buffers_back() &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
  }
  [[nodiscard]] collective_error failure() const { return state_->notices.failure(); }

  /// This rank's channel to the other ranks of its part; see `split`.
  struct part_offer {
    part_offer(basic_mpi_communicator const& whole, rank_selection const& part)
        : channel(whole.state_->channel, part) {}
    struct nothing {};
    [[nodiscard]] static nothing handle() { return {}; }  // each rank has its own
    mpi_channel channel;
  };
  basic_mpi_communicator(basic_mpi_communicator& whole, part_offer& own, part_offer::nothing,
                         rank_selection const&)
      : basic_mpi_communicator(whole, std::move(own.channel)) {}

  /// Returns the communicator of the ranks that remain after a failure, in their order, with calls
  /// and schedules of its own.
  ///
  /// Every remaining rank calls it. It waits for late ranks as long as the deadline, except for
  /// ranks whose communicator has ended.
  ///
  /// A rank that stops between the agreement and the end of this call holds up the other ranks in
  /// the library. The communicator that failed waits at its end for ranks that hang, as long as the
  /// deadline.
  ///
  /// Throws: collective_error if the other ranks continued without this rank, because it came too
  ///         late, or did not agree in time; precondition_error if MPI is finalised;
  ///         precondition_error for a second call whatever the first one did, because peers may
  ///         rely on this rank's first agreement; error if the library refuses.
  [[nodiscard]] basic_mpi_communicator shrink() {
    mpi_channel::expect_not_finalised();
    expects(!std::exchange(has_shrunk_, true),
            "mpi_communicator: a second shrink(), expected one for each communicator");
    auto const left = agree_on_survivors(state_->notices, options_.waits.deadline);
    return basic_mpi_communicator(*this, mpi_channel::among(state_->channel, left));
  }

  /// Announces that this rank enters no further call. Returns true if the destructor need not wait
  /// any more.
  ///
  /// That holds when all ranks have announced it and have received what this one sent, or when the
  /// library fails. Call it repeatedly, for communicators that may end in another order on other
  /// ranks.
  [[nodiscard]] bool try_end() {
    if (!mpi_channel::runs()) return true;
    if (!is_leaving_) state_->notices.say_goodbye();
    is_leaving_ = true;
    bool is_over = state_->notices.all_are_gone();
    for (auto& known : prepared_) is_over = known->connections.is_quiet() && is_over;
    // Messages that no receiver waits for are thrown away. Their sender cannot end before, and the
    // library may give the number of this communicator to another one.
    std::vector<std::byte> waste;
    while (state_->channel.throw_away(mpi_notices::note_tag, waste)) {
    }
    while (state_->control.throw_away(mpi_channel::no_tag, waste)) {
    }
    return is_over || !state_->channel.is_intact() || !state_->control.is_intact();
  }

  /// Runs `function(*this)`. If it throws, the other ranks learn of it in their next call.
  template <std::invocable<basic_mpi_communicator&> Function>
  void run(Function const& function) {
    try {
      function(*this);
    } catch (collective_error const&) {
      throw;
    } catch (std::exception const& other) {
      fail(std::string("left with an exception: ") + other.what());
      throw;
    }
  }

 private:
  basic_mpi_communicator(basic_mpi_communicator const& whole, mpi_channel channel)
      : options_(whole.options_),
        state_(new detail::mpi_state(std::move(channel), whole.state_->eager_limit_of_two,
                                     whole.state_->zero_copy_threshold)) {
    begin();
    this->tuning().allow_other_rank_counts();
  }

  struct prepared_connections {
    prepared_connections(detail::mpi_state& state, schedule const& source,
                         connection_layout const& layout, pipeline_costs const& costs,
                         int first_tag)
        : prepared(source, layout, costs),
          connections(state.channel, state.notices, prepared, first_tag, state.is_one_host) {}
    prepared_schedule prepared;
    mpi_connections connections;
  };

  [[nodiscard]] mpi_connections& connections_of(prepared_schedule const& prepared) {
    if (current_ == nullptr || &current_->prepared != &prepared) {
      current_ = nullptr;
      for (auto& known : prepared_) {
        if (&known->prepared == &prepared) current_ = known.get();
      }
      expects(current_ != nullptr, "schedule: prepared by another communicator");
    }
    return current_->connections;
  }

  void begin() {
    end_of_mpi::watch();
    if (mpi_channel::takes_main_thread_alone()) only_thread_ = std::this_thread::get_id();
    int const here = ranks_here();
    state_->is_one_host = here == rank_count();
    options_ = spinning_no_longer_than_fits(options_, here);
    times_ = std::make_unique<mpi_times<Transport>>(state_->channel, options_.waits.deadline);
    state_->notices.listen();
  }
  [[nodiscard]] int ranks_here() const {
    MPI_Comm here = MPI_COMM_NULL;
    int count = 1;
    if (MPI_Comm_split_type(state_->channel.comm(), MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL,
                            &here) == MPI_SUCCESS) {
      MPI_Comm_size(here, &count);
      MPI_Comm_free(&here);
    }
    return count;
  }

  /// Leaves everything as it is until the process ends, because the library may still write into
  /// it.
  void abandon() {
    for (auto& known : prepared_) static_cast<void>(known.release());
    static_cast<void>(state_.release());
  }

  communicator_options options_;
  std::thread::id only_thread_;  // that may call MPI; none: any may
  bool has_shrunk_ = false;
  bool is_leaving_ = false;
  bool is_eager_ = false;  // in the present call
  std::unique_ptr<detail::mpi_state> state_;
  std::unique_ptr<mpi_times<Transport>> times_;
  std::vector<std::unique_ptr<prepared_connections>> prepared_;
  prepared_connections* current_ = nullptr;
  prepared_schedule* barrier_plan_ = nullptr;
  Transport transport_;
  int next_tag_ = mpi_notices::first_free_tag;
};

/// Ranks of an MPI communicator.
using mpi_communicator = basic_mpi_communicator<mpi_transport>;
static_assert(detail::eager_communicator<mpi_communicator>);

}}  // namespace blink::BLINK_ABI
