// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/host/call_clock.hpp>
#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/host/mailbox.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Processes of one host that work together while their data uses other links, such as those
/// between GPUs.
///
/// They agree, compare their calls and report failures through memory of the host. A process that
/// dies, leaves or does not arrive is named. No wait is longer than the deadline.
///
/// All processes call `gather`, `agree` and `clear_failure` in the same order. One thread of each
/// process uses it.
class host_processes {
 public:
  static constexpr std::uint64_t most_ahead = 256;  ///< calls before the slowest process

  /// Throws: precondition_error, on all of them, if the processes are not of one host (or
  ///         container); resource_error if they cannot share memory; what the bootstrap throws.
  template <process_bootstrap Bootstrap>
  host_processes(Bootstrap& all, std::chrono::nanoseconds deadline)
      : process_(all.process()), count_(all.process_count()), deadline_(deadline) {
    expects(deadline.count() > 0,
            "host_processes: the deadline is not positive, expected more than 0");
    expects(count_ >= 1 && process_ >= 0 && process_ < count_,
            "host_processes: the bootstrap's process is out of range, expected 0 to "
            "process_count() - 1");
    number_ = detail::host_rendezvous(all, segment_, [&] {
      std::size_t const bytes = sizeof(board) * static_cast<std::size_t>(count_);
      boards_ = static_cast<board*>(segment_->find_or_make(1, bytes));
      messages_.emplace(segment_->find_or_make(2, mailbox::bytes(count_)), process_, count_);
    });
  }
  host_processes(host_processes const&) = delete;
  host_processes& operator=(host_processes const&) = delete;
  ~host_processes() { at(process_).is_gone.store(1); }

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int count() const { return count_; }
  /// A number that is equal in all of them and differs from that of other processes.
  /// `clear_failure` changes it.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] std::chrono::nanoseconds deadline() const { return deadline_; }
  /// Limits the deadline of this process from now on.
  void shorten_deadline(std::chrono::nanoseconds to) { deadline_ = std::min(deadline_, to); }

  /// Returns the value of each process, by process. All processes wait until all have given theirs.
  ///
  /// step:   the purpose, the same in all processes
  /// Throws: collective_error, now and in every later call, if a process has died, has left, or
  ///         does not arrive before the deadline; precondition_error if one is at another step.
  template <class T>
  [[nodiscard]] std::vector<T> gather(std::string const& step, T const& own) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= mailbox::most_bytes);
    std::vector<T> result(static_cast<std::size_t>(count_));
    messages_->gather(
        step, &own, result.data(), sizeof own, deadline_, [&](int peer) { return loss_of(peer); },
        [&](int peer) { return name(peer); });
    return result;
  }

  /// Runs `work` in every process, and returns when it is done in all.
  ///
  /// Throws: what `work` throws; precondition_error with the peer's text if it fails elsewhere;
  ///         what `gather` throws.
  template <class Work>
  void agree(std::string const& step, Work const& work) {
    verdict own;
    std::exception_ptr mine;
    try {
      work();
    } catch (std::exception const& failure) {
      mine = std::current_exception();
      own.has_failed = true;
      std::string_view(failure.what()).copy(own.text.data(), own.text.size() - 1);
    }
    std::vector<verdict> all;
    try {
      all = gather(step, own);
    } catch (error const&) {
      if (!mine) throw;
    }
    if (mine) std::rethrow_exception(mine);
    for (int peer = 0; peer < count_; ++peer) {
      auto const& theirs = all[static_cast<std::size_t>(peer)];
      if (!theirs.has_failed) continue;
      throw precondition_error(step + ": " + name(peer) + " refuses: " + theirs.text.data());
    }
  }

  // --- calls ---

  /// Announces this process's next call, and compares it with the calls of peers at the same
  /// position. The later process finds a difference.
  ///
  /// Waits only for a process that is `most_ahead` calls behind. Returns the difference; empty if
  /// none is known.
  ///
  /// clock: calls before it that are expected in the same order
  [[nodiscard]] std::string enter(call_description const& call, call_clock const& clock = {}) {
    auto& mine = at(process_);
    std::uint64_t const number = mine.calls.load(std::memory_order_relaxed);
    auto const end = std::chrono::steady_clock::now() + deadline_;
    for (int peer = 0; number >= most_ahead && peer < count_; ++peer) {
      auto const least = number - most_ahead + 1;
      if (auto const why = await_calls(peer, least, end)) {
        return name(peer) + (why->empty() ? "" : " " + *why + ", and") + " has made " +
               std::to_string(calls(peer)) + " calls, process " + std::to_string(process_) +
               " has made " + std::to_string(number);
      }
      if (calls(peer) < least) return "";
    }
    mine.call_ids[number % description_slots] = call;
    mine.clocks[number % description_slots] = clock;
    mine.calls.store(number + 1);
    for (int peer = 0; peer < count_; ++peer) {
      auto const text = difference_from(peer, number);
      if (!text.empty()) return text;
    }
    return "";
  }
  /// Waits until all processes have entered the call that this process entered last, and compares
  /// it with theirs.
  ///
  /// All processes find the same result. Returns the difference; empty if there is none or a
  /// process has reported a failure meanwhile.
  ///
  /// explain: returns further reasons why a process does not arrive, for the error; may be empty
  /// Throws:  collective_error if a process has died, has left, or does not arrive before the
  ///          deadline.
  /// Pre:     this process has entered a call.
  template <class Explain>
  [[nodiscard]] std::string match(Explain const& explain) {
    std::uint64_t const number = at(process_).calls.load(std::memory_order_relaxed) - 1;
    auto const end = std::chrono::steady_clock::now() + deadline_;
    for (int peer = 0; peer < count_; ++peer) {
      if (auto const why = await_calls(peer, number + 1, end)) {
        std::string const more = explain();
        throw collective_error(
            "call " + std::to_string(number + 1) + ": process " + std::to_string(process_) +
                " calls " + at(process_).call_ids[number % description_slots].operation() +
                " and waits for " + name(peer) + ", which " +
                (why->empty() ? "has not arrived" : *why) + " and has made " +
                std::to_string(calls(peer)) + " calls" + (more.empty() ? "" : "; " + more),
            -1, -1, -1, -1);
      }
      if (calls(peer) <= number) return "";
    }
    for (int peer = 0; peer < count_; ++peer) {
      auto const text = difference_from(peer, number);
      if (!text.empty()) return text;
    }
    return "";
  }
  [[nodiscard]] std::string match() {
    return match([] { return std::string(); });
  }
  /// Counts a call that is not compared.
  void count_call() {
    auto& calls = at(process_).calls;
    calls.store(calls.load(std::memory_order_relaxed) + 1);
  }
  [[nodiscard]] std::uint64_t calls(int process) const { return at(process).calls.load(); }
  /// The clock of a process's call of this number, counted from 0.
  ///
  /// Pre: that process has entered it, and this one has not entered the next one.
  [[nodiscard]] call_clock const& clock_of(int process, std::uint64_t number) const {
    return at(process).clocks[number % description_slots];
  }

  // --- failures ---

  /// Fails all calls from now on. The first failure is the one that is reported.
  void fail(collective_error const& failure) {
    auto& mine = at(process_);
    if (has_failed() || mine.has_note.load() != 0) return;
    mine.note.write(failure);
    mine.has_note.store(1);
    std::uint32_t nobody = 0;
    at(0).first_failure.compare_exchange_strong(nobody, static_cast<std::uint32_t>(process_) + 1);
  }
  [[nodiscard]] bool has_failed() const { return at(0).first_failure.load() != 0; }
  /// Pre: has_failed().
  [[nodiscard]] collective_error failure() const {
    return at(static_cast<int>(at(0).first_failure.load()) - 1).note.read();
  }

  /// Publishes what a process knows of a failure, for its peers.
  template <class T>
  void report(T const& what) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= most_report_bytes);
    auto& mine = at(process_);
    std::memcpy(mine.report.data(), &what, sizeof what);
    mine.has_report.store(1);
  }
  template <class T>
  [[nodiscard]] std::optional<T> report_of(int process) const {
    if (at(process).has_report.load() == 0) return std::nullopt;
    T result;
    std::memcpy(static_cast<void*>(&result), at(process).report.data(), sizeof result);
    return result;
  }

  /// Forgets the failure and the calls, and runs `restart`. All processes call it.
  ///
  /// settle: returns when no call of this process runs, within half of the deadline, because peers
  ///         wait
  /// Throws: on all processes if `settle` throws, and then nothing changes; what `agree` throws.
  template <class Settle, class Work>
  void clear_failure(Settle const& settle, Work const& restart) {
    agree("recover: the end of all calls", settle);
    auto& mine = at(process_);
    agree("recover: a new beginning", [&] {
      mine.has_note.store(0);
      mine.has_report.store(0);
      mine.calls.store(0);
      ++number_;
      if (process_ == 0) mine.first_failure.store(0);
      restart();
    });
  }

  /// Returns memory that all processes share, all 0 at first. It is for plain words that change by
  /// single atomic steps, because a process may be killed at any instruction.
  ///
  /// number: equal numbers give the same memory
  /// Pre:    all processes ask for the same number of bytes, once each.
  /// Throws: resource_error
  [[nodiscard]] void* common_memory(std::uint64_t number, std::size_t bytes) {
    return segment_->find_or_make(first_free_key + number, bytes);
  }

  // --- presence ---

  /// Returns a name such as "process 1 (process 4711, stopped)".
  [[nodiscard]] std::string name(int process) const {
    return "process " + std::to_string(process) + " (" + segment_->describe(process) + ")";
  }
  /// Returns why a process is lost, such as "has died"; empty if it may be alive.
  [[nodiscard]] std::string loss_of(int process) const {
    if (process == process_) return "";
    if (at(process).is_gone.load() != 0) return "has left";
    return segment_->is_dead(process) ? "has died" : "";
  }

 private:
  static constexpr std::size_t most_report_bytes = 8192;
  static constexpr std::uint64_t first_free_key = 3;  // before it: boards and messages
  // One more than the calls that a process may be ahead, so that peers compare each entry before it
  // is overwritten.
  static constexpr std::uint64_t description_slots = most_ahead + 1;

  struct verdict {
    bool has_failed = false;
    std::array<char, 512> text{};
  };
  /// Words that one process writes and all read, all 0 at first. The first failure is on the first
  /// board.
  struct alignas(128) board {
    std::atomic<std::uint64_t> calls;  // that it has made
    std::atomic<std::uint32_t> is_gone;
    std::atomic<std::uint32_t> has_note, has_report;
    std::atomic<std::uint32_t> first_failure;  // the process that found it, plus 1
    failure_note note;
    std::array<std::byte, most_report_bytes> report;
    std::array<call_description, description_slots> call_ids;
    std::array<call_clock, description_slots> clocks;
  };

  [[nodiscard]] board& at(int process) const { return boards_[process]; }
  // Waits until a process has made `so_many` calls, or a process has reported a failure. Returns
  // nullopt then. Otherwise returns why the process is lost, as `loss_of`; empty if the deadline is
  // over.
  [[nodiscard]] std::optional<std::string> await_calls(
      int peer, std::uint64_t so_many, std::chrono::steady_clock::time_point end) const {
    auto const is_over = [&] { return calls(peer) >= so_many || has_failed(); };
    while (!is_over()) {
      std::string const lost = loss_of(peer);
      bool const is_late = std::chrono::steady_clock::now() > end;
      if (is_over()) break;  // it arrived, and was lost afterwards
      if (!lost.empty() || is_late) return lost;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return std::nullopt;
  }
  // Returns the difference; empty if a process calls the same as this one, or has not entered the
  // call so far.
  [[nodiscard]] std::string difference_from(int peer, std::uint64_t number) const {
    if (peer == process_ || at(peer).calls.load() <= number) return "";
    std::uint64_t const slot = number % description_slots;
    auto const& call = at(process_).call_ids[slot];
    auto const& theirs = at(peer).call_ids[slot];
    if (theirs.hash() != call.hash()) {
      return of_call(number, "with " + call.difference(theirs, peer, "process"));
    }
    auto const order = at(process_).clocks[slot].difference(at(peer).clocks[slot],
                                                            "process " + std::to_string(process_),
                                                            "process " + std::to_string(peer));
    return order.empty() ? "" : of_call(number, order);
  }
  [[nodiscard]] std::string of_call(std::uint64_t number, std::string const& what) const {
    return "call " + std::to_string(number + 1) + ": process " + std::to_string(process_) +
           " calls " + at(process_).call_ids[number % description_slots].operation() + ", " + what;
  }

  int process_;
  int count_;
  std::uint64_t number_ = 0;
  std::chrono::nanoseconds deadline_;
  std::optional<shared_segment> segment_;
  board* boards_ = nullptr;
  std::optional<mailbox> messages_;
};

/// Runs `agree` among processes if there are several; else only `work`.
template <class Work>
void agree(host_processes* processes, std::string const& step, Work const& work) {
  if (processes == nullptr) {
    work();
  } else {
    processes->agree(step, work);
  }
}

}}  // namespace blink::BLINK_ABI
