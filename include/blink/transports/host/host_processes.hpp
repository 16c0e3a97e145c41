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

/// Processes of one host that work together while their data goes another way, such as from GPU to
/// GPU: they agree, compare their calls, and tell each other of failures, through memory of the host.
/// Whoever dies, leaves or does not come is named; nothing is waited for longer than the deadline.
///
/// All processes call `gather`, `agree` and `clear_failure` in the same order. One thread of each
/// process uses it.
class host_processes {
 public:
  static constexpr std::uint64_t most_ahead = 256;  ///< calls of the slowest process

  /// Throws: precondition_error if the processes are not of one host (or container), on all of them;
  ///         input_error, resource_error; what the bootstrap throws.
  template <process_bootstrap Bootstrap>
  host_processes(Bootstrap& all, std::chrono::nanoseconds deadline)
      : process_(all.process()), count_(all.process_count()), deadline_(deadline) {
    expects(deadline.count() > 0, "host_processes: deadline > 0");
    expects(count_ >= 1 && process_ >= 0 && process_ < count_,
            "host_processes: the bootstrap has processes from 0 to process_count() - 1");
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
  /// The same in all of them, and no other's: of these processes together, until they `clear_failure`.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] std::chrono::nanoseconds deadline() const { return deadline_; }
  /// From now on this process waits no longer than that.
  void shorten_deadline(std::chrono::nanoseconds to) { deadline_ = std::min(deadline_, to); }

  /// What each process gives, by process. All wait until all have given theirs.
  ///
  /// step:   what it is for: the same everywhere
  /// Throws: collective_error, now and whenever it is called again, if a process has died, has left,
  ///         or does not come before the deadline; precondition_error if one is at another step.
  template <class T>
  [[nodiscard]] std::vector<T> gather(std::string const& step, T const& own) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= mailbox::most_bytes);
    std::vector<T> result(static_cast<std::size_t>(count_));
    messages_->gather(
        step, &own, result.data(), sizeof own, deadline_, [&](int peer) { return loss_of(peer); },
        [&](int peer) { return name(peer); });
    return result;
  }

  /// Does `work` in every process, and returns when it is done in all.
  ///
  /// Throws: what `work` throws; precondition_error with the other's text if it fails elsewhere;
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

  /// Says what this process calls next, and compares it with what others have said that they call at
  /// its turn: whoever comes later finds out. Waits only for a process that is `most_ahead` calls
  /// behind. Returns what differs; empty: nothing that is known.
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
  /// Waits until all have entered the call that this process entered last, and compares it with what
  /// they have said: all processes that meet find the same. Returns what differs; empty: nothing, or
  /// somebody has reported of a failure meanwhile.
  ///
  /// explain: returns what else is known of why somebody does not come, for the error; empty: nothing
  /// Throws:  collective_error if a process has died, has left, or does not come before the deadline.
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
                (why->empty() ? "does not come" : *why) + " and has made " +
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
  /// What a process said with its call of this number, counted from 0.
  ///
  /// Pre: it has entered it, and this one has not entered the next one.
  [[nodiscard]] call_clock const& clock_of(int process, std::uint64_t number) const {
    return at(process).clocks[number % description_slots];
  }

  // --- failures ---

  /// All calls fail from now on; the first failure is the one that is reported.
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

  /// What a process knows of a failure, for the others to read.
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

  /// Forgets the failure and what was called. All processes do it.
  ///
  /// settle: returns when no call of this process runs; before half of the deadline is over, since others wait
  /// Throws: on all processes if `settle` throws, and nothing changes; what `agree` throws.
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

  /// Memory of a caller's own that all processes have: for plain words that change by single atomic steps, as a
  /// process may be killed at any instruction. All 0 at first.
  ///
  /// number: all who ask with the same one get the same memory
  /// Pre:    all ask for the same number of bytes, once each.
  /// Throws: resource_error
  [[nodiscard]] void* common_memory(std::uint64_t number, std::size_t bytes) {
    return segment_->find_or_make(first_free_key + number, bytes);
  }

  // --- who is there ---

  /// "process 1 (process 4711, stopped)"
  [[nodiscard]] std::string name(int process) const {
    return "process " + std::to_string(process) + " (" + segment_->describe(process) + ")";
  }
  /// Why nothing is to be expected of a process any more: "has died"; empty: it may be there.
  [[nodiscard]] std::string loss_of(int process) const {
    if (process == process_) return "";
    if (at(process).is_gone.load() != 0) return "has left";
    return segment_->is_dead(process) ? "has died" : "";
  }

 private:
  static constexpr std::size_t most_report_bytes = 8192;
  static constexpr std::uint64_t first_free_key = 3;  // before it: boards and messages
  // One more than may be ahead: what a process compares with is not overwritten meanwhile.
  static constexpr std::uint64_t description_slots = most_ahead + 1;

  struct verdict {
    bool has_failed = false;
    std::array<char, 512> text{};
  };
  /// What one process writes and all read; all 0 at first. The first failure is on the first board.
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
  // Waits until a process has made so many calls, or somebody has reported of a failure. Returns why it will
  // not, as `loss_of` says, if it will not; empty: the deadline is over.
  [[nodiscard]] std::optional<std::string> await_calls(
      int peer, std::uint64_t so_many, std::chrono::steady_clock::time_point end) const {
    auto const is_over = [&] { return calls(peer) >= so_many || has_failed(); };
    while (!is_over()) {
      std::string const lost = loss_of(peer);
      bool const is_late = std::chrono::steady_clock::now() > end;
      if (is_over()) break;  // it came, and was lost then
      if (!lost.empty() || is_late) return lost;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return std::nullopt;
  }
  // Empty if a process calls the same as this one, or has not come so far.
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

/// `agree` among processes if there are several; else just `work`.
template <class Work>
void agree(host_processes* processes, std::string const& step, Work const& work) {
  if (processes == nullptr) {
    work();
  } else {
    processes->agree(step, work);
  }
}

}}  // namespace blink::BLINK_ABI
