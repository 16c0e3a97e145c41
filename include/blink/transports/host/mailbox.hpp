// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

namespace blink { inline namespace BLINK_ABI {

/// Memory in which processes exchange messages, round by round. Processes may die at any moment. No
/// wait is longer than the deadline.
class mailbox {
 public:
  static constexpr std::size_t most_bytes = 8192;  ///< of a message

  /// Bytes of its memory.
  [[nodiscard]] static constexpr std::size_t bytes(int processes) {
    return sizeof(compartment) * static_cast<std::size_t>(processes);
  }
  /// Pre: `bytes(count)` bytes that all processes share, aligned to 128, all 0 at first.
  mailbox(void* memory, int process, int count)
      : servers_(static_cast<compartment*>(memory)), process_(process), count_(count) {}

  /// Sends `own` to all processes, and writes the messages of all processes to `all`, by process.
  ///
  /// step:    the purpose, the same in all processes
  /// loss_of: (process) -> why the process is lost; empty: it may still arrive
  /// name:    (process) -> its name for errors
  /// Throws:  collective_error, now and in every later call, if a process is lost or does not
  ///          arrive before the deadline; precondition_error if one is at another step.
  /// Pre:     bytes <= most_bytes, the same in all processes.
  template <class Loss, class Name>
  void gather(std::string const& step, void const* own, void* all, std::size_t bytes,
              std::chrono::nanoseconds deadline, Loss const& loss_of, Name const& name) {
    expects(bytes <= most_bytes, "mailbox: the message is too large, expected at most 8192 bytes");
    if (!broken_.empty()) throw collective_error(broken_, process_, -1, -1, -1);
    auto& mine = servers_[process_];
    std::uint64_t const round = mine.rounds.load(std::memory_order_relaxed) + 1;
    // All processes have read the message of two rounds ago, because they have sent one since.
    auto& sent = mine.messages[round % 2];
    std::memcpy(sent.bytes.data(), own, bytes);
    sent.step = {};
    step.copy(sent.step.data(), sent.step.size() - 1);
    mine.rounds.store(round);
    auto const end = std::chrono::steady_clock::now() + deadline;
    for (int peer = 0; peer < count_; ++peer) {
      auto const has_arrived_at = [&] { return servers_[peer].rounds.load() >= round; };
      while (!has_arrived_at()) {
        std::string const lost = loss_of(peer);
        bool const is_late = std::chrono::steady_clock::now() > end;
        if (has_arrived_at()) break;  // and was lost afterwards
        if (lost.empty() && !is_late) {
          std::this_thread::sleep_for(std::chrono::microseconds(50));
          continue;
        }
        auto const seconds = std::chrono::duration<double>(deadline).count();
        broken_ =
            step + ": waits for " + name(peer) + ", which " +
            (lost.empty() ? "has not arrived (waited " + std::to_string(seconds) + " s)" : lost);
        throw collective_error(broken_, process_, peer, -1, -1);
      }
      auto const& theirs = servers_[peer].messages[round % 2];
      if (std::strcmp(theirs.step.data(), sent.step.data()) != 0) {
        broken_ = "process " + std::to_string(process_) + " is at \"" + sent.step.data() + "\", " +
                  name(peer) + " at \"" + theirs.step.data() + "\"";
        throw precondition_error(broken_);
      }
      std::memcpy(static_cast<std::byte*>(all) + bytes * static_cast<std::size_t>(peer),
                  theirs.bytes.data(), bytes);
    }
  }

 private:
  struct message {
    std::array<char, 64> step;
    std::array<std::byte, most_bytes> bytes;
  };
  struct alignas(128) compartment {
    std::atomic<std::uint64_t> rounds;
    std::array<message, 2> messages;
  };

  compartment* servers_;
  int process_;
  int count_;
  std::string broken_;  // why no more messages are exchanged
};

}}  // namespace blink::BLINK_ABI
