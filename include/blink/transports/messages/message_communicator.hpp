// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/call_records.hpp>
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
#include <blink/running/call/messenger.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/host_schedules.hpp>
#include <blink/transports/host/host_wait.hpp>
#include <blink/transports/messages/agree_on_options.hpp>
#include <blink/transports/messages/communicator_ends.hpp>
#include <blink/transports/messages/control_messages.hpp>
#include <blink/transports/messages/describe_stall.hpp>
#include <blink/transports/messages/host_ranks.hpp>
#include <blink/transports/messages/message_channel.hpp>
#include <blink/transports/messages/message_schedules.hpp>
#include <blink/transports/messages/message_sizes.hpp>
#include <blink/transports/messages/message_state.hpp>
#include <blink/transports/messages/message_transport.hpp>
#include <blink/transports/messages/message_wait.hpp>
#include <blink/transports/messages/survivors.hpp>

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

namespace blink { inline namespace BLINK_ABI {

/// The arrival times of a communicator's messages: none, unless specialised for a shaped transport.
template <class Transport>
class arrival_times {
 public:
  arrival_times(typename Transport::channel_type const&, std::chrono::nanoseconds) {}
  [[nodiscard]] static void* of(schedule const&, connection_layout const&, pipeline_costs const&) {
    return nullptr;
  }
};

/// One rank's communicator over a message channel, such as `mpi_communicator`.
///
/// Ranks of one host pass data in memory that they share (`communicator_options::shares_memory`),
/// ranks of different hosts in messages. If any ranks share memory, slots that were left at the
/// default of the channel have the default size of shared memory. If all ranks do, so have costs.
///
/// Several communicators may exist side by side. One thread uses a communicator at a time; a
/// library may allow fewer threads (`library_channel`). All ranks prepare the same schedules in the
/// same order. A call along a new schedule prepares it.
///
/// Transport: `message_transport`, or derived from it
template <transport Transport>
class basic_message_communicator : public communicator_base<basic_message_communicator<Transport>> {
 public:
  using transport_type = Transport;
  using channel_type = typename Transport::channel_type;
  static_assert(message_channel<channel_type>);

  /// Collective over the ranks of the channel, of which it makes a duplicate for announcements of
  /// calls.
  ///
  /// ranks:               the channel, or an argument that its constructor takes, such as an
  ///                      MPI_Comm
  /// eager_limit:         among several hosts, the largest input that is sent to every other rank
  ///                      when a call is announced; 0: none, also within a host. That takes one
  ///                      message for each rank instead of two along a tree. The limit holds for
  ///                      two ranks. With n ranks, at most eight, it is divided by n - 1, so that a
  ///                      rank sends no more in all. It is also less than
  ///                      `usual_zero_copy_threshold`, or a smaller threshold, for each other rank.
  /// zero_copy_threshold: messages of at least this many bytes leave from the buffers of calls and
  ///                      arrive in them, without a copy in a slot. If the channel cannot abandon
  ///                      a peer, as MPI cannot, the default is `no_zero_copy`: the library might
  ///                      use the buffers of a failed call for as long as a rank hangs
  /// Throws:              precondition_error if the channel refuses the argument;
  ///                      precondition_error on all ranks if an option is out of range on one, or
  ///                      differs between ranks; resource_error on all ranks if one gets no
  ///                      memory to share with its host; collective_error if a peer does not
  ///                      answer; error if the channel fails.
  template <class Ranks>
    requires std::constructible_from<channel_type, Ranks>
  explicit basic_message_communicator(
      Ranks&& ranks, communicator_options const& options = channel_type::default_options(),
      std::size_t eager_limit = default_eager_limit,
      std::size_t zero_copy_threshold = default_zero_copy_threshold<channel_type>)
      : options_(options),
        state_(new state(channel_over(std::forward<Ranks>(ranks), options), eager_limit,
                         zero_copy_threshold)) {
    begin();
  }
  basic_message_communicator(basic_message_communicator&&) noexcept = default;
  basic_message_communicator& operator=(basic_message_communicator&&) = delete;
  /// Waits until all ranks have arrived here, at most until the deadline. Communicators end before
  /// the library ends.
  ///
  /// If the thread that made it has made others, it waits for some milliseconds only. The rest of
  /// the end then happens when the others are made or end, because ranks may end them in another
  /// order.
  ~basic_message_communicator() {
    if (!state_) return;               // it was moved
    auto const ends_of_maker = ends_;  // the communicator may be moved
    auto& all = *ends_of_maker;
    all.end_others();
    using clock = std::chrono::steady_clock;
    auto const begun = clock::now();
    bool is_over = false;
    while (library_runs() && !is_over &&
           clock::now() < begun + std::chrono::nanoseconds(options_.waits.deadline)) {
      is_over = try_end();
      if (is_over) break;
      if (clock::now() > begun + all.longest_wait && all.takes(*this)) return;
      all.advance_others();
      std::this_thread::yield();
    }
    if (is_over && state_->is_intact()) {
      state_->messenger.close();
      schedules_.close();
      state_->messages.close();
    } else {
      abandon();
    }
    all.leave();
  }

  [[nodiscard]] int rank() const { return state_->channel.rank(); }
  [[nodiscard]] int rank_count() const { return state_->channel.rank_count(); }
  [[nodiscard]] lone_thread group() const { return {}; }
  [[nodiscard]] communicator_options const& options() const { return options_; }
  [[nodiscard]] Transport const& transport() const { return transport_; }
  /// See `host_aware_communicator`, here and below.
  [[nodiscard]] bool all_share_memory() const { return state_->messages.all_share_memory(); }
  [[nodiscard]] std::vector<std::uint64_t> const& hosts() const { return hosts_; }

  /// Allocates what calls along a schedule need. The same schedule returns the same object again.
  ///
  /// Throws: precondition_error if the schedule is not valid or for another number of ranks;
  ///         precondition_error if the library has ended, or the channel has no more tags;
  ///         resource_error if the shared memory is full.
  prepared_schedule& prepare(schedule const& source) { return prepare(source, true); }
  /// See `forgetting_communicator`.
  prepared_schedule& prepare_for_call(schedule const& source) { return prepare(source, false); }

  /// Sets the deadline of this rank's calls from now on. Ranks may have different ones.
  ///
  /// Throws: precondition_error if it is not positive.
  void set_deadline(nanoseconds deadline) {
    auto changed = options_;
    changed.waits.deadline = deadline;
    validate(changed);
    options_ = changed;
  }
  /// See `messaging_communicator`. Sends and receives may wait for each other's rank: a message of
  /// more than some kilobytes leaves while its receiver is in a receive.
  ///
  /// Throws: precondition_error unless `communicator_options::point_to_point` is true
  [[nodiscard]] messenger& messages() const
    requires independent_channel<channel_type>
  {
    return state_->messenger.get();
  }

  /// The schedule of barriers that name none: a binomial tree.
  [[nodiscard]] prepared_schedule& barrier_schedule() {
    if (barrier_schedule_ == nullptr)
      barrier_schedule_ = &prepare(binomial_schedule(rank_count(), 0));
    return *barrier_schedule_;
  }

  /// Throws: precondition_error unless any thread may call the library at any time.
  void expect_any_thread() const
    requires library_channel<channel_type>
  {
    state_->channel.expect_any_thread();
  }
  [[nodiscard]] std::atomic<void const*>& active_queue() { return state_->active_queue; }
  [[nodiscard]] void const* owner() const { return state_.get(); }
  void expect_idle(collective kind) const {
    if (auto const present = state_->messages.present_kind()) {
      detail::refuse_second_call(rank(), kind, *present);
    }
  }
  /// Throws: precondition_error if the library has ended, or takes calls from another thread only.
  [[nodiscard]] status enter(prepared_schedule& prepared, call_record const& record) {
    if constexpr (library_channel<channel_type>) state_->channel.expect_call();
    auto& messages = state_->messages;
    auto& connections = begin_use(prepared);
    transport_ = Transport(*state_, connections);
    if (messages.is_aborted()) return status::aborted;
    auto const kind = record.kind();
    bool const can = !Transport::is_shaped && can_be_eager(record);
    auto const eager = can ? payload_of(prepared, record, rank()) : eager_payload{};
    is_eager_ = can && state_->takes_eager(kind, eager, options_.eager_payload);
    // A rank that its peers have given up neither ends the call alone nor sends from buffers that
    // no peer will read.
    if (messages.comes_late(options_.waits.deadline)) {
      messages.look_long();
    } else if (sends_messages()) {
      messages.look();
    }
    if (messages.has_failed(messages.next_call())) return status::aborted;
    if (!is_eager_) connections.begin_call();
    messages.enter(record, connections.first_tag(), connections.neighbours(),
                   is_eager_ ? eager : eager_payload{},
                   is_eager_ ? task_list{} : prepared.tables().tasks(rank(), kind));
    return status::ok;
  }
  /// See `detail::eager_communicator`.
  [[nodiscard]] bool is_eager() const { return is_eager_; }
  [[nodiscard]] void const* eager_input(int peer) const {
    return state_->messages.eager_data_of(peer);
  }
  [[nodiscard]] message_wait<channel_type> waits() const {
    return {waits_over<Transport>(options_.waits), state_->messages};
  }

  /// Waits until all neighbours have entered the call, because a rank may be at most one call ahead
  /// of them. Then it waits until what they need of this rank has left.
  template <wait_policy Wait>
  [[nodiscard]] status match(Wait& wait) {
    for (int const peer : schedules_.present()->neighbours()) {
      while (!transport_.is_present(peer)) {
        if (auto const result = wait.on_idle(); result != status::ok) return result;
      }
    }
    // A rank may compute for long after its call, and many libraries send nothing meanwhile.
    while (!has_sent()) {
      if (auto const result = wait.on_idle(); result != status::ok) return result;
    }
    // A peer that gave up waiting for this rank has announced that before it took its buffers back.
    // Data that was read since is invalid.
    if (sends_messages()) state_->messages.look();
    if (state_->messages.has_failed(state_->messages.call())) return status::aborted;
    return wait.on_progress();
  }
  // A failure takes buffers back before it ends the call, also of a rank that is suspended.
  void suspend() { state_->messages.end_use(); }
  void resume() { state_->messages.begin_use(); }
  void exit_call() {
    state_->messages.exit_call();
    state_->messages.end_use();
  }
  void fail(stall const& where) {
    state_->messages.fail(describe_stall(where, state_->messages, options_.waits.deadline));
  }
  /// Ends the present or the next call on all ranks; does nothing after the library has ended. Any
  /// thread that may call the library may call it, also while another one waits in a call.
  void fail(std::string const& why) {
    if (!library_runs()) return;
    state_->messages.ask_to_fail(why);
    state_->messenger.fail(state_->messages.given_up(why));
  }
  void exit_failed_call() {
    state_->messages.exit_call();
    if (auto* const connections = schedules_.present(); connections != nullptr && !is_eager_) {
      // The other ranks of this call wait for this one in `shrink`.
      connections->take_buffers_back(std::chrono::nanoseconds(options_.waits.deadline) / 4);
    }
    state_->messenger.fail(failure());
    state_->messages.end_use();
  }
  [[nodiscard]] collective_error failure() const { return state_->messages.failure(); }

  /// This rank's channel to the other ranks of its part; see `split`.
  struct part_offer {
    part_offer(basic_message_communicator const& whole, rank_selection const& part)
        : channel(part.members.empty()
                      ? std::optional<channel_type>()
                      : std::optional<channel_type>(whole.state_->channel.among(part.members))) {}
    struct nothing {};
    [[nodiscard]] static nothing handle() { return {}; }  // each rank has its own
    std::optional<channel_type> channel;                  // none: the rank joins no part
  };
  basic_message_communicator(basic_message_communicator& whole, part_offer& own,
                             typename part_offer::nothing, rank_selection const&)
      : basic_message_communicator(whole, std::move(*own.channel)) {}

  /// Returns the communicator of the ranks that remain after a failure, in their order, with
  /// separate calls and schedules.
  ///
  /// Every remaining rank calls it. It waits for late ranks until the deadline, but not for ranks
  /// whose communicator has ended.
  ///
  /// A rank that stops between the agreement and the end of this call holds up the other ranks in
  /// the library. The destructor of the failed communicator waits for ranks that hang, until the
  /// deadline.
  ///
  /// Throws: collective_error if the other ranks continued without this rank, because it called
  ///         this function too late, or did not agree in time; precondition_error if the library
  ///         has ended; precondition_error for a second call whatever the first one did, because
  ///         peers may rely on this rank's first agreement; error if the library refuses.
  [[nodiscard]] basic_message_communicator shrink() {
    expect_running();
    if (std::exchange(has_shrunk_, true)) {
      throw precondition_error(detail::communicator_text<channel_type>(
          "a second shrink(), expected one for each communicator"));
    }
    auto const left = agree_on_survivors(state_->messages, options_.waits.deadline);
    return basic_message_communicator(*this, state_->channel.among(left));
  }

  /// Announces that this rank enters no further call. Returns true if the destructor need not wait
  /// any more.
  ///
  /// That holds when all ranks have announced it and have received all messages of this rank, or
  /// when the library fails. Call it repeatedly, for communicators that may end in another order on
  /// other ranks.
  [[nodiscard]] bool try_end() {
    if (!library_runs()) return true;
    if (!is_leaving_) state_->messages.say_goodbye();
    is_leaving_ = true;
    bool is_over = state_->messages.all_are_gone();
    is_over = schedules_.are_quiet() && is_over;
    is_over = state_->messenger.try_end() && is_over;
    // Messages that match no receive are dropped. Otherwise their senders could not end, and the
    // library might deliver them to a later communicator with the same number.
    state_->channel.drop_unmatched(note_tag);
    state_->control.drop_unmatched(detail::no_tag);
    return is_over || !state_->is_intact();
  }

  /// Runs `function(*this)`. If it throws, the other ranks learn of it in their next call.
  template <std::invocable<basic_message_communicator&> Function>
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
  using state = detail::message_state<channel_type>;
  using ends = detail::communicator_ends<basic_message_communicator>;
  static constexpr int note_tag = control_messages<channel_type>::note_tag;

  basic_message_communicator(basic_message_communicator const& whole, channel_type channel)
      : options_(whole.given_options_),
        state_(new state(std::move(channel), whole.state_->eager_limit_of_two,
                         whole.state_->zero_copy_threshold)) {
    begin();
    this->tuning().allow_other_rank_counts();
  }

  template <class Ranks>
  [[nodiscard]] static channel_type channel_over(Ranks&& ranks,
                                                 communicator_options const& options) {
    if constexpr (std::constructible_from<channel_type, Ranks, nanoseconds>) {
      return channel_type(std::forward<Ranks>(ranks), detail::longest_meeting(options));
    } else {
      return channel_type(std::forward<Ranks>(ranks));
    }
  }

  prepared_schedule& prepare(schedule const& source, bool stays) {
    expect_running();
    expect_ranks(source, rank_count());
    if (auto* const known = schedules_.find(source, stays)) return *known;
    validate(source);
    connection_layout layout = connection_layout_of<Transport>(options_, source, any_share_);
    layout.only_rank = rank();
    layout.owner = owner();
    layout.times_share = times_->of(source, layout, options_.costs);
    return schedules_.add(source, layout, options_.costs, stays);
  }

  void begin() {
    detail::record_calls_of_process();
    given_options_ = options_;
    auto& channel = state_->channel;
    hosts_ = agree_on_options(channel, note_tag, options_, state_->eager_limit_of_two,
                              state_->zero_copy_threshold);
    options_.order = detail::wanted_order(options_);
    detail::hosts_of_ranks const all(hosts_);
    auto const here = all.ranks[all.host_of[static_cast<std::size_t>(rank())]].size();
    state_->is_one_host = all.ranks.size() == 1;
    if (!Transport::is_shaped && detail::wants_shared_memory(options_)) {
      any_share_ = all.ranks.size() < hosts_.size();
    }
    if (any_share_) {
      state_->share_memory(hosts_, options_);
      if (state_->is_one_host) schedules_.share_all();
    }
    options_ = spinning_no_longer_than_fits(options_, static_cast<int>(here));
    times_ = std::make_unique<arrival_times<Transport>>(channel, options_.waits.deadline);
    state_->messages.listen();
    state_->messenger.begin(channel, state_->messages, options_);
    ends_->enter();
  }
  message_connections<channel_type>& begin_use(prepared_schedule& prepared) {
    state_->messages.begin_use();
    try {
      return schedules_.use(prepared);
    } catch (...) {
      state_->messages.end_use();
      throw;
    }
  }
  // True if what peers need to end the present call has left this rank.
  [[nodiscard]] bool has_sent() {
    if (all_share_memory()) return true;
    bool const is_announced = state_->messages.has_announced();
    return (is_eager_ || schedules_.present()->has_sent()) && is_announced;
  }
  // True if data of the present call may cross in messages.
  [[nodiscard]] bool sends_messages() const { return !is_eager_ && !all_share_memory(); }
  [[nodiscard]] static bool library_runs() {
    if constexpr (library_channel<channel_type>) {
      return channel_type::runs();
    } else {
      return true;
    }
  }
  void expect_running() const {
    if constexpr (library_channel<channel_type>) state_->channel.expect_running();
  }

  /// Leaves everything as it is until the process ends, because the library may still write into
  /// it.
  void abandon() {
    schedules_.abandon();
    static_cast<void>(state_.release());
  }

  communicator_options options_;
  communicator_options given_options_;
  std::shared_ptr<ends> ends_ = ends::of_thread();
  bool any_share_ = false;  // true if any ranks share memory
  std::vector<std::uint64_t> hosts_;
  bool has_shrunk_ = false;
  bool is_leaving_ = false;
  bool is_eager_ = false;  // in the present call
  std::unique_ptr<state> state_;
  std::unique_ptr<arrival_times<Transport>> times_;
  detail::message_schedules<channel_type> schedules_{*state_};
  prepared_schedule* barrier_schedule_ = nullptr;
  Transport transport_;
};

}}  // namespace blink::BLINK_ABI
