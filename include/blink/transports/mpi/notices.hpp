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
#include <blink/transports/mpi/announcements.hpp>
#include <blink/transports/mpi/channel.hpp>
#include <blink/transports/mpi/note.hpp>

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

/// What the ranks of an MPI communicator tell each other beside the data: which call they enter (`mpi_announcements`), and in
/// notes, which may come at any time, that something failed, for whom they wait, that they leave.
class mpi_notices {
 public:
  static constexpr int note_tag = 0;
  static constexpr int first_free_tag = note_tag + 1;

  /// letters:          for the announcements alone
  /// eager_limit, part: see `mpi_announcements`
  mpi_notices(mpi_channel& channel, mpi_channel& control, std::size_t eager_limit, std::size_t part)
      : channel_(&channel),
        messages_(&control),
        announcements_(control, eager_limit, part),
        has_gone_(static_cast<std::size_t>(channel.rank_count())) {}

  /// Waits for notes from now on, until `close`.
  void listen() {
    channel_->receive(&heard_, sizeof(heard_), MPI_ANY_SOURCE, note_tag, listening_);
  }

  /// Tells `neighbours` about the next call.
  ///
  /// wires: where the tags of the schedule begin
  /// lanes: that this rank walks
  void enter(call_record const& record, int connections, std::vector<int> const& neighbours,
             eager_payload const& eager, task_list const& tasks) {
    ++call_;
    if (!reported_.empty()) {
      std::erase_if(reported_, [&](auto& sent) { return channel_->is_done(sent->request); });
    }
    tasks_ = tasks;
    set_waiting(0);
    present_ = record.kind();
    neighbours_ = &neighbours;
    announcements_.begin(record, connections);
    for (int const peer : neighbours) {
      bool const is_for_peer = eager.data != nullptr && (eager.to < 0 || eager.to == peer);
      announcements_.send(peer, is_for_peer ? eager : eager_payload{});
    }
    for (int const peer : neighbours) announcements_.await_next(peer);
  }
  /// What is called at present, if anything.
  [[nodiscard]] std::optional<collective> present_kind() const { return present_; }
  /// What a present neighbour has shown, aligned to `mpi_announcements::alignment`; until the next `enter`.
  [[nodiscard]] void const* eager_data_of(int peer) const {
    return announcements_.eager_data_of(peer);
  }

  /// The present call has ended.
  void exit_call() { present_.reset(); }

  /// Has `peer` entered the present call? Finds out once for each call whether it calls the same.
  [[nodiscard]] bool is_present(int peer) {
    if (announcements_.is_present(peer)) return true;
    if (!announcements_.has_arrived_at(peer)) return false;
    return announcements_.is_present_at_once(peer) || read_message_of(peer);
  }

  /// Has the call ended early? Looks for notes now and then only, as it is asked all the time.
  [[nodiscard]] bool is_aborted() {
    constexpr unsigned rarely = 16;
    if (!has_failed(call_) && ++asked_ % rarely == 0) look();
    return has_failed(call_);
  }
  /// Is there a failure that concerns this call? One of a later call does not: the others have ended
  /// this one, so it can end here.
  [[nodiscard]] bool has_failed(std::uint64_t call) const {
    return failure_.has_value() && failed_call_ <= call;
  }
  [[nodiscard]] std::uint64_t next_call() const { return call_ + 1; }
  /// To be asked before each call: has this rank entered none for so long that the others may have given it up?
  /// They had waited for it since it entered the last one, at the earliest.
  [[nodiscard]] bool comes_late(std::chrono::nanoseconds deadline) {
    auto const now = detail::coarse_nanoseconds();
    auto const limit = static_cast<std::uint64_t>(deadline.count());
    return now - std::exchange(entered_, now) > limit - limit / 4;
  }
  /// Looks for a millisecond for what the others have said of the next call: a library may take several looks to bring a
  /// note that was sent long ago.
  void look_long() {
    constexpr std::uint64_t nanoseconds = 1'000'000;
    auto const end = host_wait::now() + nanoseconds;
    for (look(); !has_failed(next_call()) && host_wait::now() < end; look()) {
    }
  }
  /// Looks whether a peer has sent word.
  void look() {
    while (listening_ != MPI_REQUEST_NULL && channel_->is_done(listening_)) {
      take_note();
      listen();
    }
    auto const& broken = channel_->is_intact() ? *messages_ : *channel_;
    if (!broken.is_intact() && !has_failed(0)) {
      failure_ = collective_error(who() + ": " + broken.problem(), channel_->rank(), -1, -1, -1);
      failed_call_ = 0;
    }
  }

  /// Ends the present call, or the next one, and all later ones, of all ranks; the first failure of the
  /// earliest call is the one that is reported.
  void fail(collective_error const& failure) {
    look();
    std::uint64_t const call = present_ ? call_ : call_ + 1;
    if (has_failed(call)) return;
    failure_ = failure;
    failed_call_ = call;
    report_all(note(note::failure, call, failure));
  }
  [[nodiscard]] collective_error failure() const {
    return failure_.value_or(collective_error("no failure", -1, -1, -1, -1));
  }

  [[nodiscard]] int rank_count() const { return channel_->rank_count(); }
  [[nodiscard]] int rank() const { return channel_->rank(); }
  [[nodiscard]] std::string who() const { return "rank " + std::to_string(rank()); }
  /// Of the present call: its number, and who was reported of it.
  [[nodiscard]] std::uint64_t call() const { return call_; }
  [[nodiscard]] std::vector<int> const& neighbours() const { return *neighbours_; }
  // --- who waits for whom ---

  /// This rank has waited since that time of `host_wait::now`; 0: it goes on.
  void set_waiting(std::uint64_t since) {
    waits_since_ = since;
    if (since == 0) has_asked_ = false;
  }

  /// Has this rank waited for longer than a copy of a chunk takes: for 20 ms?
  [[nodiscard]] bool waits_long() const {
    constexpr std::uint64_t nanoseconds = 20'000'000;
    return waits_since_ != 0 && host_wait::now() - waits_since_ > nanoseconds;
  }

  /// Asks all others where they stand, once while this rank waits. A rank answers while it waits, as it
  /// looks for notes then. Returns: has it asked now?
  bool ask() {
    if (has_asked_) return false;
    has_asked_ = true;
    answers_.assign(has_gone_.size(), std::nullopt);
    report_all(note(note::question, call_, {"", rank(), -1, -1, -1}));
    return true;
  }
  /// Until all have answered, the call has failed, or so long.
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
    stall where;                    ///< `peer` is -1 if the rank waits for nobody
    std::uint64_t nanoseconds = 0;  ///< that it has waited
  };
  /// To `ask`; nothing: none.
  [[nodiscard]] std::optional<answer> const& answer_of(int peer) const {
    return answers_[static_cast<std::size_t>(peer)];
  }

  [[nodiscard]] bool is_gone(int peer) const { return has_gone_[static_cast<std::size_t>(peer)]; }
  /// Has a neighbour left without entering the present call?
  [[nodiscard]] bool is_deserted() {
    if (gone_ == 0 || neighbours_ == nullptr) return false;
    for (int const peer : *neighbours_) {
      if (is_gone(peer) && !is_present(peer)) return true;
    }
    return false;
  }

  // --- who goes on after a failure ---

  /// Throws: error for more ranks than a note can name.
  void say(int peer, survivor_note const& word) { report(peer, note(word)); }
  /// What was said to this rank since it asked last, in order.
  [[nodiscard]] std::optional<survivor_note> next_word() {
    if (words_.empty()) return std::nullopt;
    auto result = std::move(words_.front());
    words_.erase(words_.begin());
    return result;
  }

  /// Says that this rank enters no further call.
  void say_goodbye() {
    says_nothing_more_ = true;
    report_all(note(note::goodbye, call_, {"", rank(), -1, -1, -1}));
  }
  /// Has everyone else said so, and got everything that this rank reported?
  [[nodiscard]] bool all_are_gone() {
    while (gone_ + 1 < rank_count() && listening_ != MPI_REQUEST_NULL &&
           channel_->is_done(listening_)) {
      take_note();
      listen();
    }
    bool all = gone_ + 1 >= rank_count();
    for (auto& sent : reported_) all = channel_->is_done(sent->request) && all;
    return announcements_.have_left() && all;
  }
  /// Takes back what waits for messages that will not come.
  void close() {
    channel_->take_back(listening_);
    announcements_.close();
  }

 private:
  // Returns: is it present?
  bool read_message_of(int peer) {
    auto const difference = announcements_.read(peer, call_);
    if (difference.empty()) return announcements_.is_present(peer);
    fail({difference, rank(), peer, -1, -1, true});
    return false;
  }

  using note = detail::mpi_note;
  struct reported_note {
    note content;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void take_note() {
    auto const from = static_cast<int>(heard_.rank);
    switch (heard_.kind) {
      case note::goodbye:
        has_gone_[static_cast<std::size_t>(from)] = true;
        ++gone_;
        return;
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
    channel_->send(&sent.content, sizeof(note), peer, note_tag, sent.request);
  }

  // Outside of calls a rank does not answer: it waits for nobody. Nor after its goodbye, after which a
  // peer may hear nobody any more.
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
  // Whom a task waits for, else who has not come.
  [[nodiscard]] stall present_stall() const {
    stall result = find_stall(*present_, tasks_.first, tasks_.count);
    for (std::size_t k = 0; k < neighbours_->size() && result.peer < 0; ++k) {
      int const peer = (*neighbours_)[k];
      if (!announcements_.is_present(peer)) result.peer = peer;
    }
    return result;
  }

  mpi_channel* channel_;
  mpi_channel* messages_;
  mpi_announcements announcements_;
  std::vector<bool> has_gone_;  // by rank
  std::vector<int> const* neighbours_ = nullptr;
  std::uint64_t call_ = 0;
  std::uint64_t entered_ = detail::coarse_nanoseconds();  // the last one
  std::optional<collective_error> failure_;
  std::uint64_t failed_call_ = 0;
  std::optional<collective> present_;  // nothing: outside
  note heard_;
  MPI_Request listening_ = MPI_REQUEST_NULL;
  std::vector<std::unique_ptr<reported_note>> reported_;
  task_list tasks_{};                           // of the present call
  std::uint64_t waits_since_ = 0;               // 0: not at all
  bool has_asked_ = false;                      // since then
  std::vector<std::optional<answer>> answers_;  // by rank
  std::vector<survivor_note> words_;            // that were not taken yet
  bool says_nothing_more_ = false;
  int gone_ = 0;
  unsigned asked_ = 0;
};

}}  // namespace blink::BLINK_ABI
