// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/transports/host/launcher_bootstrap.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

// Messages between the launcher, its agents on other hosts, and the ranks.

namespace blink::tools {

/// A file descriptor that the destructor closes.
class owned_file {
 public:
  owned_file() = default;
  explicit owned_file(int number) : number_(number) {}
  owned_file(owned_file&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  owned_file& operator=(owned_file&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~owned_file() { close(); }
  void close();
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

struct file_pair {
  owned_file read, write;
};

/// Throws: resource_error if the system has no pipe left.
[[nodiscard]] file_pair make_pipe();
/// Two ends of a connection, each for reading and writing. Throws: resource_error.
[[nodiscard]] file_pair make_connection();

/// The kinds of messages. The first three are those of `launcher_bootstrap`.
enum class launch_word : std::uint32_t {
  gather = detail::launch_gather,    ///< a rank's part of an all-gather
  all = detail::launch_all,          ///< all parts, for a rank
  failure = detail::launch_failure,  ///< of a rank's all-gather; of an agent: why it cannot start
  hello,                             ///< of an agent, with its version
  request,                           ///< for an agent: what to start, as MessagePack
  output,                            ///< of a rank, on its standard output
  error_output,                      ///< of a rank, on its standard error
  ended,                             ///< a rank: its process, its status as of `waitpid`
  signal,                            ///< for all ranks of an agent: the number
  again,                             ///< for an agent: start this rank again
  finish,                            ///< for an agent: no rank starts again
};

struct launch_message {
  launch_word kind{};
  int rank = 0;
  std::string content;
};

/// A number as the content of a message.
[[nodiscard]] std::string packed(std::int32_t number);
/// The number at place `index` of a message. Throws: input_error if there is none.
[[nodiscard]] std::int32_t number_at(launch_message const& message, std::size_t index);

/// A connection that carries messages both ways and never blocks.
class message_stream {
 public:
  static constexpr std::size_t largest = std::size_t{1} << 30;  ///< bytes of a message

  message_stream() = default;
  /// read, write: its ends; the same number for a socket
  message_stream(owned_file read, owned_file write);

  [[nodiscard]] bool is_open() const { return read_.is_open(); }
  [[nodiscard]] int read_file() const { return read_.number(); }
  /// The file to write to, or -1 if nothing is to be written.
  [[nodiscard]] int write_file() const {
    return leaving_.empty() ? -1 : write_.is_open() ? write_.number() : read_.number();
  }
  /// Bytes that wait to be written.
  [[nodiscard]] std::size_t waiting() const { return leaving_.size(); }

  void send(launch_word kind, int rank, std::string const& content);
  /// Reads what has arrived. Closes the stream at its end.
  void read_some();
  /// Writes what the other end takes. Closes the stream if there is no other end.
  void write_some();
  /// Writes all that waits, for so many milliseconds at most.
  void write_all(int milliseconds);
  /// The next whole message that has arrived.
  ///
  /// Throws: input_error for bytes that are no message, with the first of them.
  [[nodiscard]] std::optional<launch_message> next();
  void close();

 private:
  owned_file read_, write_;
  std::string arrived_, leaving_;
};

}  // namespace blink::tools
