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
#include <blink/transports/host/schedule_store.hpp>
#include <blink/transports/messages/agree_on_options.hpp>
#include <blink/transports/messages/control_messages.hpp>
#include <blink/transports/messages/describe_stall.hpp>
#include <blink/transports/messages/message_channel.hpp>
#include <blink/transports/messages/message_connections.hpp>
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
#include <mutex>
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
  ///                      when a call is announced; 0: none, also within a host.
  ///                      That takes one message for each rank instead of two along a tree. The
  ///                      limit holds for two ranks. With n ranks, at most eight, it is divided by
  ///                      n - 1, so that a rank sends no more in all. It is also less than what
  ///                      trees carry without slots.
  /// zero_copy_threshold: messages of at least this many bytes leave from the buffers of calls and
  ///                      arrive in them, without a copy in a slot
  /// Throws:              precondition_error if the channel refuses the argument;
  ///                      precondition_error on all ranks if an option is out of range on one, or
  ///                      differs between ranks; resource_error on all ranks if one gets no
  ///                      memory to share with its host; collective_error if a peer does not
  ///                      answer; error if the channel fails.
  template <class Ranks>
    requires std::constructible_from<channel_type, Ranks>
  explicit basic_message_communicator(
      Ranks&& ranks, communicator_options const& options = channel_type::default_options(),
      std::size_t eager_limit = std::size_t{512} << 10,
      std::size_t zero_copy_threshold = std::size_t{16} << 10)
      : options_(options),
        state_(
            new state(channel_type(std::forward<Ranks>(ranks)), eager_limit, zero_copy_threshold)) {
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
    if (!state_) return;  // it was moved
    auto const ends_of_maker = ends_;
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
    if (is_over && state_->channel.is_intact() && state_->control.is_intact()) {
      for (auto& known : prepared_) known->connections.close();
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
  /// True if all data crosses in memory that the ranks share.
  [[nodiscard]] bool all_share_memory() const { return state_->messages.all_share_memory(); }
  /// By rank, a number that is equal for ranks of one host; empty: not known.
  [[nodiscard]] std::vector<std::uint64_t> const& hosts() const { return hosts_; }

  /// Allocates what calls along a schedule need. The same schedule returns the same object again.
  ///
  /// Throws: precondition_error if the schedule is not valid or for another number of ranks;
  ///         precondition_error if the library has ended, or the channel has no more tags.
  prepared_schedule& prepare(schedule const& source) { return prepare(source, true); }
  /// Internal: the same for one call, after which nothing refers to the result.
  prepared_schedule& prepare_for_call(schedule const& source) { return prepare(source, false); }

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
    auto& connections = connections_of(prepared);
    if (store_) {
      store_->use(prepared);
      for (auto const* const gone : store_->dropped()) drop(gone);
    }
    transport_ = Transport(*state_, connections);
    auto& messages = state_->messages;
    if (messages.is_aborted()) return status::aborted;
    auto const kind = record.kind();
    bool const can = !Transport::is_shaped && can_be_eager(record);
    auto const eager = can ? payload_of(prepared, record, rank()) : eager_payload{};
    is_eager_ = can && state_->takes_eager(kind, eager, options_.eager_payload);
    // A rank that its peers have given up neither ends the call alone nor sends from buffers that
    // no peer will read.
    if (messages.comes_late(options_.waits.deadline)) {
      messages.look_long();
    } else if (lends_buffers()) {
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
  /// of them.
  template <wait_policy Wait>
  [[nodiscard]] status match(Wait& wait) {
    for (int const peer : current_->connections.neighbours()) {
      while (!transport_.is_present(peer)) {
        if (auto const result = wait.on_idle(); result != status::ok) return result;
      }
    }
    // A peer that gave up waiting for this rank has announced that before it took its buffers back.
    // Data that was read since is invalid.
    if (lends_buffers()) state_->messages.look();
    if (state_->messages.has_failed(state_->messages.call())) return status::aborted;
    return wait.on_progress();
  }
  void suspend() {}  // a failure takes buffers back before it ends the call
  void resume() {}
  void exit_call() { state_->messages.exit_call(); }
  void fail(stall const& where) {
    state_->messages.fail(describe_stall(where, state_->messages, options_.waits.deadline));
  }
  /// Ends the present or the next call on all ranks; does nothing after the library has ended.
  void fail(std::string const& why) {
    if (!library_runs()) return;
    state_->messages.fail(
        {"rank " + std::to_string(rank()) + " gave up: " + why, rank(), rank(), -1, -1});
  }
  void exit_failed_call() {
    state_->messages.exit_call();
    if (is_eager_ || current_ == nullptr) return;
    // Ranks that live answer sooner. The other ranks of this call wait for this one in `shrink`.
    auto const end =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.waits.deadline) / 4;
    while (state_->channel.is_intact() && !current_->connections.take_buffers_back() &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    if constexpr (loss_tolerant_channel<channel_type>) current_->connections.abandon_borrowers();
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
    for (auto& known : prepared_) is_over = known->connections.is_quiet() && is_over;
    // Messages that match no receive are dropped. Otherwise their senders could not end, and the
    // library might deliver them to a later communicator with the same number.
    state_->channel.drop_unmatched(note_tag);
    state_->control.drop_unmatched(detail::no_tag);
    return is_over || !state_->channel.is_intact() || !state_->control.is_intact();
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
  static constexpr int note_tag = control_messages<channel_type>::note_tag;
  static constexpr std::uint64_t key_of_schedules = 3;  // among the blocks of `host_ranks`

  basic_message_communicator(basic_message_communicator const& whole, channel_type channel)
      : options_(whole.given_options_),
        state_(new state(std::move(channel), whole.state_->eager_limit_of_two,
                         whole.state_->zero_copy_threshold)) {
    begin();
    this->tuning().allow_other_rank_counts();
  }

  struct prepared_connections {
    prepared_connections(state& its_state, prepared_schedule& its_schedule, int first_tag)
        : prepared(&its_schedule),
          connections(its_state.channel, its_state.messages, its_schedule, first_tag,
                      its_state.is_one_host, its_state.here) {}
    std::unique_ptr<prepared_schedule> own;  // unless `store_` owns it
    prepared_schedule* prepared;
    message_connections<channel_type> connections;
  };

  /// The communicators that a thread has made, and those of them whose end waits for other ranks.
  /// Other threads may end them.
  class ends {
   public:
    static constexpr std::chrono::milliseconds longest_wait{10};

    void enter() {
      end_others();
      std::lock_guard const lock(access_);
      ++living_;
    }
    /// Takes a communicator whose ranks have not all left, if there are others that will end.
    [[nodiscard]] bool takes(basic_message_communicator& one) {
      std::lock_guard const lock(access_);
      if (living_ - leaving_.size() < 2) return false;
      leaving_.push_back(std::make_unique<basic_message_communicator>(std::move(one)));
      return true;
    }
    void advance_others() {
      std::lock_guard const lock(access_);
      for (auto& one : leaving_) static_cast<void>(one->try_end());
    }
    /// Ends those whose ranks have all left.
    void end_others() {
      while (auto const one = next([](auto& other) { return other.try_end(); })) {
      }
    }
    /// Called at the end of each. The last one ends those that still wait.
    void leave() {
      {
        std::lock_guard const lock(access_);
        --living_;
        if (living_ > leaving_.size()) return;
      }
      while (auto const one = next([](auto&) { return true; })) {
      }
    }

   private:
    // Removes one that `is_chosen`; null: none.
    template <class Choice>
    [[nodiscard]] std::unique_ptr<basic_message_communicator> next(Choice const& is_chosen) {
      std::lock_guard const lock(access_);
      for (auto& one : leaving_) {
        if (!is_chosen(*one)) continue;
        auto result = std::exchange(one, nullptr);
        std::erase(leaving_, nullptr);
        return result;
      }
      return nullptr;
    }

    std::mutex access_;
    std::size_t living_ = 0;  // including those that are leaving
    std::vector<std::unique_ptr<basic_message_communicator>> leaving_;
  };
  [[nodiscard]] static std::shared_ptr<ends> const& ends_of_thread() {
    static thread_local auto const all = std::make_shared<ends>();
    return all;
  }

  prepared_schedule& prepare(schedule const& source, bool stays) {
    expect_running();
    expect_ranks(source, rank_count());
    if (store_) {
      if (auto* const known = store_->find(source, stays)) return *known;
    }
    for (auto& known : prepared_) {
      if (known->own && known->own->source() == source) return *known->own;
    }
    validate(source);
    connection_layout layout = connection_layout_of<Transport>(options_, source, any_share_);
    layout.only_rank = rank();
    layout.owner = owner();
    layout.times_share = times_->of(source, layout, options_.costs);
    auto const& here = state_->here;
    if (here.count() > 0) layout.sharing_ranks = here.numbers();
    if (store_) {
      auto& fresh = store_->add(source, layout, options_.costs, {}, stays);
      prepared_.push_back(std::make_unique<prepared_connections>(*state_, fresh, next_tag_));
      return fresh;
    }
    if (here.count() > 0) {
      layout.ranks_share = here.segment().find_or_make(
          hash(source, layout, options_.costs), connection_tables::shared_bytes(source, layout));
    }
    auto fresh = std::make_unique<prepared_schedule>(source, layout, options_.costs);
    int const tags = message_connections<channel_type>::tag_count(*fresh);
    int const largest = state_->channel.largest_tag();
    if (tags > largest - next_tag_) {
      throw precondition_error(detail::communicator_text<channel_type>(
          std::to_string(prepared_.size()) +
          " schedules are prepared and the library has tags up to " + std::to_string(largest) +
          " only"));
    }
    auto& result =
        *prepared_.emplace_back(std::make_unique<prepared_connections>(*state_, *fresh, next_tag_));
    next_tag_ += tags;
    result.own = std::move(fresh);
    return *result.own;
  }
  // Pre: it is not that of the present call.
  void drop(prepared_schedule const* prepared) {
    std::erase_if(prepared_, [&](auto const& known) { return known->prepared == prepared; });
  }

  [[nodiscard]] message_connections<channel_type>& connections_of(
      prepared_schedule const& prepared) {
    if (current_ == nullptr || current_->prepared != &prepared) {
      current_ = nullptr;
      for (auto& known : prepared_) {
        if (known->prepared == &prepared) current_ = known.get();
      }
      expects(current_ != nullptr, "schedule: prepared by another communicator");
    }
    return current_->connections;
  }

  void begin() {
    given_options_ = options_;
    auto& channel = state_->channel;
    auto const hosts = agree_on_options(channel, note_tag, options_, state_->eager_limit_of_two,
                                        state_->zero_copy_threshold);
    if (std::find(hosts.begin(), hosts.end(), 0) == hosts.end()) hosts_ = hosts;
    auto const of_rank = [&](int rank) { return hosts[static_cast<std::size_t>(rank)]; };
    auto const here = std::count(hosts.begin(), hosts.end(), of_rank(rank()));
    state_->is_one_host = of_rank(0) != 0 && here == rank_count();
    if (!Transport::is_shaped && detail::wants_shared_memory(options_)) {
      any_share_ = any_are_equal(hosts);
      if (any_share_) share_memory(hosts);
    }
    options_ = spinning_no_longer_than_fits(options_, static_cast<int>(here));
    times_ = std::make_unique<arrival_times<Transport>>(channel, options_.waits.deadline);
    state_->messages.listen();
    ends_ = ends_of_thread();
    ends_->enter();
  }
  [[nodiscard]] static bool any_are_equal(std::vector<std::uint64_t> hosts) {
    std::erase(hosts, 0);
    std::sort(hosts.begin(), hosts.end());
    return std::adjacent_find(hosts.begin(), hosts.end()) != hosts.end();
  }
  void share_memory(std::vector<std::uint64_t> const& hosts) {
    for (auto& limit : state_->eager_limits) limit = std::min(limit, most_between(hosts));
    auto const room = state_->is_one_host
                          ? std::size_t{0}
                          : state_->eager_limits.back() * static_cast<std::size_t>(rank_count());
    state_->here = detail::host_ranks(state_->channel, note_tag, hosts, room,
                                      detail::longest_meeting(options_));
    communicator_options const of_memory;
    auto const of_channel = channel_type::default_options();
    if (options_.slot_bytes == of_channel.slot_bytes) options_.slot_bytes = of_memory.slot_bytes;
    if (!state_->is_one_host) return;
    store_ = std::make_unique<detail::schedule_store>(state_->here.segment(), key_of_schedules);
    if (options_.costs == of_channel.costs) options_.costs = of_memory.costs;
  }
  // The largest eager payload with which no host sends more than 64 KiB in all. Trees send each
  // byte to another host once, and eager payloads once for each pair of ranks.
  [[nodiscard]] static std::size_t most_between(std::vector<std::uint64_t> const& hosts) {
    constexpr std::size_t most = std::size_t{64} << 10;
    std::size_t pairs = 1;
    for (auto const host : hosts) {
      auto const here = static_cast<std::size_t>(std::count(hosts.begin(), hosts.end(), host));
      pairs = std::max(pairs, here * (hosts.size() - here));
    }
    return most / pairs;
  }
  // True if peers may use buffers of this rank in the present call.
  [[nodiscard]] bool lends_buffers() const { return !is_eager_ && !all_share_memory(); }
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
    for (auto& known : prepared_) static_cast<void>(known.release());
    static_cast<void>(state_.release());
  }

  communicator_options options_;
  communicator_options given_options_;
  std::shared_ptr<ends> ends_;
  bool any_share_ = false;  // memory, of all ranks
  std::vector<std::uint64_t> hosts_;
  bool has_shrunk_ = false;
  bool is_leaving_ = false;
  bool is_eager_ = false;  // in the present call
  std::unique_ptr<state> state_;
  std::unique_ptr<arrival_times<Transport>> times_;
  // Of schedules whose data crosses in shared memory alone; null if any data goes in messages.
  std::unique_ptr<detail::schedule_store> store_;
  std::vector<std::unique_ptr<prepared_connections>> prepared_;
  prepared_connections* current_ = nullptr;
  prepared_schedule* barrier_schedule_ = nullptr;
  Transport transport_;
  int next_tag_ = control_messages<channel_type>::first_free_tag;
};

}}  // namespace blink::BLINK_ABI
