// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch_messages.hpp"
#include "launcher.hpp"
#include "watched_signals.hpp"
#include <sys/types.h>

#include <string>
#include <utility>

namespace blink::tools {

/// The agent on a host, behind the process of a shell.
class remote_host {
 public:
  /// first: rank of this host
  /// Throws: resource_error if the system refuses a process.
  remote_host(launch_request const& request, launch_host host, int first,
              watched_signals const& signals);
  remote_host(remote_host&& other) noexcept
      : host_(std::move(other.host_)),
        first_(other.first_),
        shell_(std::exchange(other.shell_, -1)),
        messages_(std::move(other.messages_)) {}
  remote_host& operator=(remote_host&&) = delete;
  ~remote_host() { end(); }

  [[nodiscard]] std::string const& name() const { return host_.name; }
  [[nodiscard]] bool has(int rank) const {
    return rank >= first_ && rank - first_ < host_.rank_count;
  }
  [[nodiscard]] int first() const { return first_; }
  [[nodiscard]] int rank_count() const { return host_.rank_count; }
  [[nodiscard]] message_stream& messages() { return messages_; }
  /// Ends the connection. Returns the status of the shell as of `waitpid`.
  int end();

 private:
  launch_host host_;
  int first_;
  pid_t shell_ = -1;
  message_stream messages_;
};

}  // namespace blink::tools
