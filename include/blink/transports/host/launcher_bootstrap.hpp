// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/host/process_environment.hpp>

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The begin of a message between a process and the launcher that started it. The bytes follow.
struct launch_message_head {
  std::uint32_t kind = 0;
  std::uint32_t rank = 0;
  std::uint64_t bytes = 0;
};
inline constexpr std::uint32_t launch_gather = 1;   ///< what a process gives to an all-gather
inline constexpr std::uint32_t launch_all = 2;      ///< what all gave
inline constexpr std::uint32_t launch_failure = 3;  ///< why an all-gather failed, as a text

}  // namespace detail

/// A bootstrap of the processes that `blink run` has started, on one host or on several:
/// `launcher_bootstrap all; ucx_communicator comm(all);`
///
/// The launcher passes their messages on. All objects of a process are one bootstrap.
class launcher_bootstrap {
 public:
  /// Throws: input_error if the program was not started by `blink run`.
  launcher_bootstrap()
      : count_(detail::environment_number("BLINK_RANK_COUNT", 1, 1 << 14)),
        process_(detail::environment_number("BLINK_RANK", 0, count_ - 1)),
        connection_(detail::environment_number("BLINK_LAUNCHER", 3, 1 << 20)),
        deadline_(detail::environment_deadline().value_or(std::chrono::seconds(30))) {}

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int process_count() const { return count_; }
  /// Throws: collective_error that names the processes which have ended, do not arrive before the
  ///         deadline or bring other sizes; resource_error if the launcher has ended.
  void all_gather(void const* own, void* all, std::size_t bytes) {
    // The launcher ends a round at the deadline. A process waits longer: the launcher may be lost.
    end_ = std::chrono::steady_clock::now() + 2 * deadline_;
    detail::launch_message_head const mine{detail::launch_gather,
                                           static_cast<std::uint32_t>(process_), bytes};
    send_all(&mine, sizeof mine);
    send_all(own, bytes);
    detail::launch_message_head theirs;
    receive_all(&theirs, sizeof theirs);
    if (theirs.kind == detail::launch_all &&
        theirs.bytes == bytes * static_cast<std::size_t>(count_)) {
      receive_all(all, theirs.bytes);
      return;
    }
    constexpr std::uint64_t most_text = 1 << 20;
    if (theirs.kind != detail::launch_failure || theirs.bytes > most_text) {
      throw error(
          "launcher_bootstrap: the launcher sends an unknown message, expected that of the "
          "same version of blink");
    }
    std::string text(theirs.bytes, ' ');
    receive_all(text.data(), text.size());
    throw collective_error("launcher_bootstrap: " + text, process_, -1, -1, -1);
  }

 private:
  void send_all(void const* data, std::size_t bytes) {
    move_all(POLLOUT, bytes, [&](std::size_t done) {
      return ::send(connection_, static_cast<char const*>(data) + done, bytes - done,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    });
  }
  void receive_all(void* data, std::size_t bytes) {
    move_all(POLLIN, bytes, [&](std::size_t done) {
      return recv(connection_, static_cast<char*>(data) + done, bytes - done, MSG_DONTWAIT);
    });
  }
  template <class Move>
  void move_all(short event, std::size_t bytes, Move const& move) {
    for (std::size_t done = 0; done < bytes;) {
      if (std::chrono::steady_clock::now() > end_) {
        throw resource_error("launcher_bootstrap: the launcher does not answer");
      }
      pollfd file{connection_, event, 0};
      if (poll(&file, 1, 100) <= 0) continue;
      auto const moved = move(done);
      if (moved < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (moved <= 0) {
        throw resource_error(std::string("launcher_bootstrap: the launcher has ended (") +
                             (moved == 0 ? "end of file" : std::strerror(errno)) +
                             "), expected a program that `blink run` started");
      }
      done += static_cast<std::size_t>(moved);
    }
  }

  int count_;
  int process_;
  int connection_;
  std::chrono::nanoseconds deadline_;
  std::chrono::steady_clock::time_point end_;
};
static_assert(process_bootstrap<launcher_bootstrap>);

}}  // namespace blink::BLINK_ABI
