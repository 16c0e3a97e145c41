// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/eager_payload.hpp>
#include <blink/running/walk/detail/host_clock.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/transports/host/host_wait.hpp>
#include <blink/transports/messages/asked_failure.hpp>
#include <blink/transports/messages/background_work.hpp>
#include <blink/transports/messages/call_announcements.hpp>
#include <blink/transports/messages/control_message.hpp>
#include <blink/transports/messages/host_ranks.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The control messages of the ranks of a communicator. Announcements report the calls that ranks
/// enter (`call_announcements`). Notes may arrive at any time, and report failures, waits and
/// departures.
template <message_channel Channel>
class control_messages {
 public:
  static constexpr int note_tag = 0;
  static constexpr int first_free_tag = note_tag + 1;

  /// control:           for the announcements only
  /// eager_limit, part, here: see `call_announcements`
  control_messages(Channel& channel, Channel& control, std::size_t eager_limit, std::size_t part,
                   detail::host_ranks& here)
      : channel_(&channel),
        announcing_(&control),
        here_(&here),
        announcements_(control, eager_limit, part, here),
        last_calls_(static_cast<std::size_t>(channel.rank_count()), still_here) {}

  /// Lets other work go on while this rank waits.
  void advance_while_waiting(detail::background_work* work) { background_ = work; }

  /// Receives notes from now on, until `close`.
  void listen() { channel_->receive_from_any(&heard_, sizeof(heard_), note_tag, listening_); }

  /// Begins the use by this thread, until `end_use`.
  void begin_use() { users_.enter(); }
  /// Announces the next call to `neighbours`.
  ///
  /// connections: the first tag of the schedule
  /// tasks:       the tasks that this rank walks
  void enter(call_record const& record, int connections, std::vector<int> const& neighbours,
             eager_payload const& eager, task_list const& tasks) {
    ++call_;
    if (!reported_.empty()) {
      std::erase_if(reported_, [&](auto& sent) { return channel_->is_done(sent->operation); });
    }
    tasks_ = tasks;
    set_waiting(0);
    present_ = record.kind();
    neighbours_ = &neighbours;
    asked_ = 0;
    announcements_.begin(record, connections, eager);
    for (int const peer : neighbours) announcements_.send(peer, eager);
    for (int const peer : neighbours) announcements_.await_next(peer);
  }
  /// The collective of the present call, if any.
  [[nodiscard]] std::optional<collective> present_kind() const { return present_; }
  /// The eager payload of a present neighbour, aligned to `call_announcements::alignment`. Valid
  /// until the next `enter`.
  [[nodiscard]] void const* eager_data_of(int peer) const {
    return announcements_.eager_data_of(peer);
  }

  /// Ends the present call.
  void exit_call() { present_.reset(); }
  void end_use() {
    users_.exit([&](std::string const& why) { fail(given_up(why)); });
  }

  /// True if `peer` has entered the present call. Compares the two calls once for each call.
  [[nodiscard]] bool is_present(int peer) {
    if (announcements_.is_present(peer)) return true;
    if (!announcements_.has_arrived_at(peer)) return false;
    return announcements_.is_present_at_once(peer) || read_message_of(peer);
  }

  /// True if this call's announcements have left.
  [[nodiscard]] bool has_announced() {
    bool all = true;
    for (int const peer : neighbours()) all = announcements_.have_left_to(peer) && all;
    return all;
  }

  /// True if the call has ended early. It is called often, so it looks for notes only sometimes.
  [[nodiscard]] bool is_aborted() {
    // A test of the library takes longer than many looks at memory.
    unsigned const rarely = all_share_memory() ? 128 : 16;
    if (!has_failed(call_) && ++asked_ % rarely == 0) look();
    return has_failed(call_);
  }
  /// True if nothing but control messages goes through the channel.
  [[nodiscard]] bool all_share_memory() const { return here_->count() == rank_count(); }
  /// True if a failure concerns this call. A failure of a later call does not: the other ranks have
  /// ended this call, so it can also end here.
  [[nodiscard]] bool has_failed(std::uint64_t call) const {
    return failure_.has_value() && failed_call_ <= call;
  }
  [[nodiscard]] std::uint64_t next_call() const { return call_ + 1; }
  /// True if this rank has entered no call for so long that its peers may have given up. Called
  /// before each call. Peers have waited at most since this rank's last call.
  [[nodiscard]] bool comes_late(std::chrono::nanoseconds deadline) {
    auto const now = detail::coarse_nanoseconds();
    auto const limit = static_cast<std::uint64_t>(deadline.count());
    return now - std::exchange(entered_, now) > limit - limit / 4;
  }
  /// Looks for notes about the next call for a millisecond. A library may need several tests to
  /// deliver a note that was sent long ago.
  void look_long() {
    constexpr std::uint64_t nanoseconds = 1'000'000;
    auto const end = host_wait::now() + nanoseconds;
    for (look(); !has_failed(next_call()) && host_wait::now() < end; look()) {
    }
  }
  /// Receives the notes of peers that have arrived, and notices peers that are lost.
  void look() {
    if (background_ != nullptr) background_->advance();
    if (auto const why = users_.take()) fail(given_up(*why));
    notice_losses();
    while (listening_.is_pending() && channel_->is_done(listening_)) {
      take_note();
      listen();
    }
    auto const& broken = channel_->is_intact() ? *announcing_ : *channel_;
    if (!broken.is_intact() && !has_failed(0)) {
      failure_ = collective_error(who() + ": " + broken.problem(), channel_->rank(), -1, -1, -1);
      failed_call_ = 0;
    }
  }

  /// Ends the present call, or the next one if there is none, and all later ones, on all ranks. The
  /// first failure of the earliest call is the one that is reported.
  void fail(collective_error const& failure) {
    look();
    std::uint64_t const call = present_ ? call_ : call_ + 1;
    if (has_failed(call)) return;
    failure_ = failure;
    failed_call_ = call;
    report_all(note(note::failure, call, failure));
  }
  /// The failure of a rank whose user gives up.
  [[nodiscard]] collective_error given_up(std::string const& why) const {
    return {who() + " gave up: " + why, rank(), rank(), -1, -1};
  }
  /// Fails with `given_up(why)`, from any thread. While another thread is in a call, that one
  /// reports it.
  void ask_to_fail(std::string const& why) {
    users_.ask(why, [&](std::string const& asked) { fail(given_up(asked)); });
  }
  [[nodiscard]] collective_error failure() const {
    return failure_.value_or(collective_error("no failure", -1, -1, -1, -1));
  }

  [[nodiscard]] int rank_count() const { return channel_->rank_count(); }
  [[nodiscard]] int rank() const { return channel_->rank(); }
  [[nodiscard]] std::string who() const { return "rank " + std::to_string(rank()); }
  /// The number of the present call, and the neighbours to which it was announced.
  [[nodiscard]] std::uint64_t call() const { return call_; }
  [[nodiscard]] std::vector<int> const& neighbours() const { return *neighbours_; }
  // --- chains of waits ---

  /// Records that this rank has waited since a time of `host_wait::now`; 0: it progresses.
  void set_waiting(std::uint64_t since) {
    waits_since_ = since;
    if (since == 0) has_asked_ = false;
  }

  /// True if this rank has waited for longer than the copy of a chunk takes: 20 ms.
  [[nodiscard]] bool waits_long() const {
    constexpr std::uint64_t nanoseconds = 20'000'000;
    return waits_since_ != 0 && host_wait::now() - waits_since_ > nanoseconds;
  }

  /// Asks all peers for their state, once in each wait. A peer answers while it waits, because it
  /// looks for notes then. Returns true if this call of `ask` has sent the questions.
  bool ask() {
    if (has_asked_) return false;
    has_asked_ = true;
    answers_.assign(last_calls_.size(), std::nullopt);
    report_all(note(note::question, call_, {"", rank(), -1, -1, -1}));
    return true;
  }
  /// Waits until all peers have answered, the call has failed, or `longest` is over.
  void wait_for_answers(std::chrono::nanoseconds longest) {
    auto const all_answered = [&] {
      for (int peer = 0; peer < rank_count(); ++peer) {
        if (peer != rank() && !is_gone(peer) && !answer_of(peer)) return false;
      }
      return true;
    };
    auto const end = std::chrono::steady_clock::now() + longest;
    for (look(); !all_answered() && !has_failed(call_); look()) {
      if (std::chrono::steady_clock::now() > end) return;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  struct answer {
    stall where;                    ///< `peer` is -1 if the rank waits for no peer
    std::uint64_t nanoseconds = 0;  ///< of its wait
  };
  /// The peer's answer to `ask`; nullopt: none.
  [[nodiscard]] std::optional<answer> const& answer_of(int peer) const {
    return answers_[static_cast<std::size_t>(peer)];
  }

  [[nodiscard]] bool is_gone(int peer) const { return last_call_of(peer) != still_here; }
  /// True if the channel knows that the peer is lost. Such a peer is also gone.
  [[nodiscard]] bool is_lost(int peer) const { return detail::is_lost_on(*channel_, peer); }
  /// True if a peer that is not lost has left without entering the present call.
  ///
  /// Its goodbye has the number of its last call, because the goodbye may overtake the announcement
  /// of that call: only messages with one tag keep their order.
  [[nodiscard]] bool has_left_before(int peer) const {
    return !is_lost(peer) && last_call_of(peer) < call_;
  }
  /// True if a neighbour is lost, or has left without entering the present call.
  [[nodiscard]] bool is_deserted() const {
    if (gone_ == 0 || neighbours_ == nullptr) return false;
    for (int const peer : *neighbours_) {
      if (is_lost(peer) || has_left_before(peer)) return true;
    }
    return false;
  }

  // --- agreement on survivors after a failure ---

  /// Sends a note of the agreement to `peer`.
  ///
  /// Throws: error for more ranks than a note has bits for.
  void say(int peer, survivor_note const& word) {
    report(peer, note(word, Channel::communicator_name));
  }
  /// Returns the next such note that this rank has received, in order.
  [[nodiscard]] std::optional<survivor_note> next_word() {
    if (words_.empty()) return std::nullopt;
    auto result = std::move(words_.front());
    words_.erase(words_.begin());
    return result;
  }

  /// Reports that this rank enters no further call.
  void say_goodbye() {
    says_nothing_more_ = true;
    report_all(note(note::goodbye, call_, {"", rank(), -1, -1, -1}));
  }
  /// True if all peers have said goodbye, and have received all notes of this rank.
  [[nodiscard]] bool all_are_gone() {
    notice_losses();
    while (gone_ + 1 < rank_count() && listening_.is_pending() && channel_->is_done(listening_)) {
      take_note();
      listen();
    }
    bool all = gone_ + 1 >= rank_count();
    for (auto& sent : reported_) all = channel_->is_done(sent->operation) && all;
    return announcements_.have_left() && all;
  }
  /// Cancels receives of messages that will not arrive.
  void close() {
    detail::take_back(*channel_, listening_);
    announcements_.close();
  }

 private:
  static constexpr auto still_here = ~std::uint64_t{0};

  [[nodiscard]] std::uint64_t last_call_of(int peer) const {
    return last_calls_[static_cast<std::size_t>(peer)];
  }
  void notice_losses() {
    if constexpr (loss_tolerant_channel<Channel>) {
      for (int peer = 0; peer < rank_count(); ++peer) {
        if (is_lost(peer)) count_as_gone(peer, 0);
      }
    }
  }
  void count_as_gone(int peer, std::uint64_t last_call) {
    if (is_gone(peer)) return;
    last_calls_[static_cast<std::size_t>(peer)] = last_call;
    ++gone_;
  }

  // Returns true if the peer is present.
  bool read_message_of(int peer) {
    auto const difference = announcements_.read(peer, call_);
    if (difference.empty()) return announcements_.is_present(peer);
    fail({difference, rank(), peer, -1, -1, true});
    return false;
  }

  using note = detail::control_message;
  struct reported_note {
    note content;
    typename Channel::request operation{};
  };

  void take_note() {
    auto const from = static_cast<int>(heard_.rank);
    switch (heard_.kind) {
      case note::goodbye:
        return count_as_gone(from, heard_.call);
      case note::question:
        return answer_to(from);
      case note::answer:
        return take_answer(from);
      case note::survivors:
        words_.push_back(heard_.as_survivor_note(rank_count()));
        return;
      default:
        if (has_failed(heard_.call)) return;
        failed_call_ = heard_.call;
        failure_ = heard_.as_failure();
    }
  }
  void report_all(note const& content) {
    for (int peer = 0; peer < rank_count(); ++peer) {
      if (peer != rank()) report(peer, content);
    }
  }
  void report(int peer, note const& content) {
    auto& sent = *reported_.emplace_back(std::make_unique<reported_note>());
    sent.content = content;
    channel_->send(&sent.content, sizeof(note), peer, note_tag, sent.operation);
  }

  // Outside of calls a rank does not answer, because it waits for no peer. After its goodbye it
  // does not answer either, because the peer may no longer receive.
  void answer_to(int peer) {
    if (!present_ || says_nothing_more_) return;
    stall const where = present_stall();
    note result(note::answer, call_, {"", rank(), where.peer, where.tree, where.chunk});
    result.flag = where.sends ? 1 : 0;
    if (waits_since_ != 0) result.nanoseconds = host_wait::now() - waits_since_;
    report(peer, result);
  }
  void take_answer(int from) {
    if (answers_.empty()) return;
    answer result;
    result.where.peer = static_cast<int>(heard_.peer);
    result.where.sends = heard_.flag != 0;
    result.where.tree = static_cast<int>(heard_.tree);
    result.where.chunk = heard_.chunk;
    result.nanoseconds = heard_.nanoseconds;
    answers_[static_cast<std::size_t>(from)] = result;
  }
  // The peer that a task waits for, else one that has not entered the call.
  [[nodiscard]] stall present_stall() const {
    stall result = find_stall(*present_, tasks_.first, tasks_.count);
    for (std::size_t k = 0; k < neighbours_->size() && result.peer < 0; ++k) {
      int const peer = (*neighbours_)[k];
      if (!announcements_.is_present(peer)) result.peer = peer;
    }
    return result;
  }

  Channel* channel_;
  Channel* announcing_;
  detail::background_work* background_ = nullptr;
  detail::host_ranks* here_;
  call_announcements<Channel> announcements_;
  detail::asked_failure users_;            // that any thread asks for
  std::vector<std::uint64_t> last_calls_;  // by rank: of those that are gone
  std::vector<int> const* neighbours_ = nullptr;
  std::uint64_t call_ = 0;
  std::uint64_t entered_ = detail::coarse_nanoseconds();  // time of the last call
  std::optional<collective_error> failure_;
  std::uint64_t failed_call_ = 0;
  std::optional<collective> present_;  // empty outside of calls
  note heard_;
  typename Channel::request listening_{};
  std::vector<std::unique_ptr<reported_note>> reported_;
  task_list tasks_{};                           // of the present call
  std::uint64_t waits_since_ = 0;               // 0: not waiting
  bool has_asked_ = false;                      // in this wait
  std::vector<std::optional<answer>> answers_;  // by rank
  std::vector<survivor_note> words_;            // not consumed yet
  bool says_nothing_more_ = false;
  int gone_ = 0;
  unsigned asked_ = 0;
};

}}  // namespace blink::BLINK_ABI
