// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch_messages.hpp"
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace blink::tools {

/// The signals that a launcher passes on to ranks.
inline constexpr std::array forwarded{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/// Blocks the signals that a launcher or an agent takes from a file. The destructor restores them.
class watched_signals {
 public:
  watched_signals() {
    sigset_t watched;
    sigemptyset(&watched);
    for (int const signal : forwarded) sigaddset(&watched, signal);
    for (int const signal : {SIGCHLD, SIGTSTP, SIGCONT, SIGPIPE}) sigaddset(&watched, signal);
    sigprocmask(SIG_BLOCK, &watched, &before_);
    file_ = owned_file(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  watched_signals(watched_signals const&) = delete;
  watched_signals& operator=(watched_signals const&) = delete;
  ~watched_signals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  [[nodiscard]] int file() const { return file_.number(); }
  [[nodiscard]] sigset_t const& before() const { return before_; }
  /// The next signal that came; 0: none.
  [[nodiscard]] int next() const {
    signalfd_siginfo news{};
    return ::read(file(), &news, sizeof news) == sizeof news ? static_cast<int>(news.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  owned_file file_;
};

}  // namespace blink::tools
