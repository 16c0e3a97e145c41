// SPDX-License-Identifier: Apache-2.0
#include "launch_messages.hpp"

#include <blink/core/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace blink::tools {

void owned_file::close() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

file_pair make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw resource_error(std::string("the system refuses a pipe: ") + std::strerror(errno));
  }
  return {owned_file(ends[0]), owned_file(ends[1])};
}

file_pair make_connection() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw resource_error(std::string("the system refuses a socket: ") + std::strerror(errno));
  }
  return {owned_file(ends[0]), owned_file(ends[1])};
}

std::string packed(std::int32_t number) {
  std::string result(sizeof number, '\0');
  std::memcpy(result.data(), &number, sizeof number);
  return result;
}

std::int32_t number_at(launch_message const& message, std::size_t index) {
  std::int32_t result = 0;
  if ((index + 1) * sizeof result > message.content.size()) {
    throw input_error("a message of the launcher is too short");
  }
  std::memcpy(&result, message.content.data() + index * sizeof result, sizeof result);
  return result;
}

message_stream::message_stream(owned_file read, owned_file write)
    : read_(std::move(read)), write_(std::move(write)) {
  for (auto const* file : {&read_, &write_}) {
    if (file->is_open()) fcntl(file->number(), F_SETFL, O_NONBLOCK);
  }
}

void message_stream::send(launch_word kind, int rank, std::string const& content) {
  if (!is_open()) return;
  detail::launch_message_head const head{static_cast<std::uint32_t>(kind),
                                         static_cast<std::uint32_t>(rank), content.size()};
  std::array<char, sizeof head> bytes{};
  std::memcpy(bytes.data(), &head, sizeof head);
  leaving_.append(bytes.data(), bytes.size());
  leaving_ += content;
  write_some();
}

void message_stream::read_some() {
  std::array<char, 1 << 16> buffer;
  auto const bytes = ::read(read_.number(), buffer.data(), buffer.size());
  if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (bytes <= 0) return close();
  arrived_.append(buffer.data(), static_cast<std::size_t>(bytes));
}

void message_stream::write_some() {
  while (write_file() >= 0) {
    // A socket whose other end is gone must not raise a signal; the launcher ignores SIGPIPE.
    auto const bytes = ::write(write_file(), leaving_.data(), leaving_.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) return;
    if (bytes <= 0) return leaving_.clear();  // what it has said is still read
    leaving_.erase(0, static_cast<std::size_t>(bytes));
  }
}

void message_stream::write_all(int milliseconds) {
  auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (write_file() >= 0 && std::chrono::steady_clock::now() < end) {
    pollfd file{write_file(), POLLOUT, 0};
    poll(&file, 1, 50);
    write_some();
  }
}

std::optional<launch_message> message_stream::next() {
  detail::launch_message_head head;
  auto const is_no_message = [&] {
    bool const is_known = head.kind >= static_cast<std::uint32_t>(launch_word::gather) &&
                          head.kind <= static_cast<std::uint32_t>(launch_word::finish);
    return !is_known || head.rank >= 1 << 14 || head.bytes > largest;
  };
  if (arrived_.size() < sizeof head) {
    if (is_open() || arrived_.empty()) return {};
  } else {
    std::memcpy(&head, arrived_.data(), sizeof head);
  }
  if (is_no_message()) {
    auto const line = arrived_.substr(0, std::min(arrived_.find('\n'), std::size_t{200}));
    throw input_error("found '" + line + "', expected a message of blink");
  }
  if (arrived_.size() - sizeof head < head.bytes) return {};
  launch_message result{static_cast<launch_word>(head.kind), static_cast<int>(head.rank),
                        arrived_.substr(sizeof head, head.bytes)};
  arrived_.erase(0, sizeof head + head.bytes);
  return result;
}

void message_stream::close() {
  read_.close();
  write_.close();
  leaving_.clear();
}

}  // namespace blink::tools
