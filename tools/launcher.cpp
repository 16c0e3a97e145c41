// SPDX-License-Identifier: Apache-2.0
#include "launcher.hpp"

#include <blink/core/error.hpp>
#include <blink/core/version.hpp>

#include "commands.hpp"
#include "launch_messages.hpp"
#include "launch_rounds.hpp"
#include "rank_processes.hpp"
#include "remote_host.hpp"
#include "watched_signals.hpp"
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

using clock = std::chrono::steady_clock;

/// The output of a rank, written line by line, so that the lines of ranks do not mix. Lines of more
/// than 64 KiB are divided.
class labelled_output {
 public:
  labelled_output(std::FILE* to, std::string label) : to_(to), label_(std::move(label)) {}

  /// The first error of the system on writing, or 0.
  [[nodiscard]] int failure() const { return failure_; }

  /// bytes: none at the end
  void take(std::string const& bytes) {
    if (bytes.empty()) {
      if (!line_.empty()) print(std::exchange(line_, {}) + "\n");
      return;
    }
    line_ += bytes;
    auto const end = line_.rfind('\n');
    if (end == std::string::npos) {
      if (line_.size() >= std::size_t{1} << 16) print(std::exchange(line_, {}) + "\n");
      return;
    }
    print(line_.substr(0, end + 1));
    line_.erase(0, end + 1);
  }

 private:
  void print(std::string const& lines) {
    for (std::size_t begin = 0; begin < lines.size();) {
      auto const end = lines.find('\n', begin) + 1;
      std::fputs(label_.c_str(), to_);
      std::fwrite(lines.data() + begin, 1, end - begin, to_);
      begin = end;
    }
    if (std::fflush(to_) != 0 && failure_ == 0) failure_ = errno;
  }

  std::FILE* to_;
  std::string label_;
  std::string line_;
  int failure_ = 0;
};

std::string ending_in_words(int status) {
  if (WIFSIGNALED(status)) {
    int const signal = WTERMSIG(status);
    return "was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  }
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

int exit_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

class launcher {
 public:
  explicit launcher(launch_request const& request)
      : request_(request),
        local_(request, 0, request.hosts.empty() ? request.rank_count : 0, signals_.before(),
               {[this](int rank, bool is_error, std::string const& bytes) {
                  print(rank, is_error, bytes);
                },
                [this](int rank, std::string part) { rounds_.take(rank, std::move(part)); },
                [this](int rank, int process, int status) { bury(rank, process, status); }}),
        rounds_(request.rank_count, deadline_of(request),
                [this](int rank, bool is_complete, std::string const& content) {
                  answer(rank, is_complete ? launch_word::all : launch_word::failure, content);
                }),
        is_running_(static_cast<std::size_t>(request.rank_count), true) {
    for (int rank = 0; rank < request.rank_count; ++rank) {
      std::string const label = request.labels ? "[" + std::to_string(rank) + "] " : "";
      outputs_.emplace_back(stdout, label);
      outputs_.emplace_back(stderr, label);
    }
  }

  int run() {
    local_.start();
    int first = 0;
    for (auto const& host : request_.hosts) {
      hosts_.emplace_back(request_, host, first, signals_);
      first += host.rank_count;
    }
    while (running() > 0 || has_output()) {
      wait_for_news();
      rounds_.check_time();
      stop_late_ones();
      if (running() > 0 || std::exchange(is_finishing_, true)) continue;
      for (auto& host : hosts_) host.messages().send(launch_word::finish, 0, "");
    }
    for (auto const& output : outputs_) {
      if (output.failure() == 0 || result_ != 0) continue;
      std::fprintf(stderr, "blink run: the output of ranks cannot be written: %s\n",
                   std::strerror(output.failure()));
      result_ = exit_input_error;
    }
    return result_;
  }

 private:
  static std::chrono::nanoseconds deadline_of(launch_request const& request) {
    auto const seconds = request.deadline_seconds.value_or(30);
    return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  }

  [[nodiscard]] long running() const {
    return std::count(is_running_.begin(), is_running_.end(), true);
  }
  // Output that ranks leave to other processes (a daemon that keeps it open) is not waited for.
  [[nodiscard]] bool has_output() {
    bool const is_open =
        local_.has_output() || std::any_of(hosts_.begin(), hosts_.end(),
                                           [](auto& host) { return host.messages().is_open(); });
    return is_open && (running() > 0 || clock::now() < last_end_ + request_.grace);
  }

  void wait_for_news() {
    std::vector<pollfd> files{{signals_.file(), POLLIN, 0}};
    local_.add_files(files);
    for (auto& host : hosts_) {
      files.push_back({host.messages().read_file(), POLLIN, 0});
      files.push_back({host.messages().write_file(), POLLOUT, 0});
    }
    poll(files.data(), files.size(), 50);
    while (int const signal = signals_.next()) take_signal(signal);
    local_.take_news(true);
    local_.take_ends();
    for (auto& host : hosts_) {
      if (host.messages().is_open()) listen(host);
    }
  }

  void take_signal(int signal) {
    if (signal == SIGCHLD || signal == SIGCONT || signal == SIGPIPE) return;
    if (signal == SIGTSTP) {
      send(SIGSTOP);
      raise(SIGSTOP);
      send(SIGCONT);
      return;
    }
    send(signal);
    bool const ends = signal != SIGUSR1 && signal != SIGUSR2;
    if (ends && result_ == 0) result_ = 128 + signal;
    if (ends) begin_to_stop(SIGKILL);
  }

  // Takes the messages of an agent.
  void listen(remote_host& host) {
    auto& messages = host.messages();
    messages.write_some();
    messages.read_some();
    try {
      while (auto message = messages.next()) take(host, *message);
    } catch (input_error const& failure) {
      throw input_error("host " + host.name() + ": " + failure.what());
    }
    if (!messages.is_open()) lose(host);
  }
  void take(remote_host& host, launch_message& message) {
    bool const is_of_rank =
        message.kind != launch_word::hello && message.kind != launch_word::failure;
    if (is_of_rank && !host.has(message.rank)) {
      throw input_error("a message of rank " + std::to_string(message.rank) +
                        ", expected one of its ranks");
    }
    switch (message.kind) {
      case launch_word::hello:
        if (message.content != BLINK_VERSION_TEXT) {
          throw input_error("blink there is of version " + message.content + ", expected " +
                            BLINK_VERSION_TEXT);
        }
        return send_request(host);
      case launch_word::failure:
        throw input_error(message.content);
      case launch_word::output:
      case launch_word::error_output:
        return print(message.rank, message.kind == launch_word::error_output, message.content);
      case launch_word::gather:
        return rounds_.take(message.rank, std::move(message.content));
      case launch_word::ended:
        return bury(message.rank, number_at(message, 0), number_at(message, 1));
      default:
        throw input_error("a message of kind " +
                          std::to_string(static_cast<std::uint32_t>(message.kind)) +
                          ", expected one of an agent");
    }
  }
  void send_request(remote_host& host) {
    nlohmann::json request{{"program", request_.program},
                           {"ranks", request_.rank_count},
                           {"first", host.first()},
                           {"count", host.rank_count()},
                           {"environment", request_.environment},
                           {"binds", request_.binds},
                           {"memory", request_.memory_bytes}};
    if (request_.deadline_seconds) request["deadline"] = *request_.deadline_seconds;
    std::string packed;  // arguments need not be UTF-8, so no JSON text
    nlohmann::json::to_msgpack(request, packed);
    host.messages().send(launch_word::request, 0, packed);
  }
  // The connection has ended. Its ranks end with it.
  void lose(remote_host& host) {
    int const status = host.end();
    bool has_lost = false;
    for (int rank = host.first(); rank < host.first() + host.rank_count(); ++rank) {
      if (!is_running_[static_cast<std::size_t>(rank)]) continue;
      has_lost = true;
      end_rank(rank);
    }
    if (!has_lost) return;
    if (result_ == 0 || request_.keeps_going) {
      std::fprintf(stderr, "blink run: host %s: the connection to its ranks is lost (%s %s)%s\n",
                   host.name().c_str(), request_.shell[0].c_str(), ending_in_words(status).c_str(),
                   request_.keeps_going ? "" : "; stopping the others");
    }
    constexpr int lost = 255;
    if (result_ == 0) result_ = lost;
    if (!request_.keeps_going) begin_to_stop(SIGTERM);
  }

  void print(int rank, bool is_error, std::string const& bytes) {
    outputs_[2 * static_cast<std::size_t>(rank) + (is_error ? 1 : 0)].take(bytes);
  }
  void answer(int rank, launch_word kind, std::string const& content) {
    if (local_.has(rank)) local_.answer(rank, kind, content);
    for (auto& host : hosts_) {
      if (host.has(rank)) host.messages().send(kind, rank, content);
    }
  }
  void end_rank(int rank) {
    is_running_[static_cast<std::size_t>(rank)] = false;
    last_end_ = clock::now();
    rounds_.lose(rank);
  }
  void bury(int rank, int process, int status) {
    if (status != 0 && restarts_ < request_.restarts && next_signal_ == 0) {
      ++restarts_;
      report(rank, process, status, "; started again");
      return start_again(rank);
    }
    end_rank(rank);
    if (status == 0) return;
    bool const is_first = result_ == 0;
    if (is_first) result_ = exit_status(status);
    if (!is_first && !request_.keeps_going) return;  // a consequence
    report(rank, process, status,
           request_.keeps_going || running() == 0 ? "" : "; stopping the others");
    if (!request_.keeps_going) begin_to_stop(SIGTERM);
  }
  void report(int rank, int process, int status, char const* consequence) {
    std::string where;
    for (auto const& host : hosts_) {
      if (host.has(rank)) where = "host " + host.name() + ", ";
    }
    std::fprintf(stderr, "blink run: rank %d (%sprocess %d) %s%s\n", rank, where.c_str(), process,
                 ending_in_words(status).c_str(), consequence);
  }
  void start_again(int rank) {
    rounds_.begin_again(rank);
    if (local_.has(rank)) local_.start_again(rank);
    for (auto& host : hosts_) {
      if (host.has(rank)) host.messages().send(launch_word::again, rank, "");
    }
  }

  void begin_to_stop(int signal) {
    if (next_signal_ != 0) return;
    next_signal_ = signal;
    stop_at_ = clock::now() + request_.grace;
  }
  void stop_late_ones() {
    if (next_signal_ == 0 || clock::now() < stop_at_) return;
    if (is_killed_) {  // agents that do not answer
      for (auto& host : hosts_) {
        if (host.messages().is_open()) lose(host);
      }
    }
    send(next_signal_);
    if (next_signal_ == SIGTERM) send(SIGCONT);  // a stopped process could not receive it
    is_killed_ = next_signal_ == SIGKILL;
    next_signal_ = SIGKILL;
    stop_at_ = clock::now() + request_.grace;
  }
  void send(int signal) {
    local_.send(signal);
    for (auto& host : hosts_) host.messages().send(launch_word::signal, 0, packed(signal));
  }

  launch_request const& request_;
  watched_signals signals_;
  rank_processes local_;
  std::vector<remote_host> hosts_;
  launch_rounds rounds_;
  std::vector<bool> is_running_;          // by rank
  std::vector<labelled_output> outputs_;  // two for each rank
  int result_ = 0;
  int restarts_ = 0;
  int next_signal_ = 0;  // the next signal of the remaining ranks, at `stop_at_`; 0: none
  bool is_killed_ = false;
  bool is_finishing_ = false;
  clock::time_point stop_at_;
  clock::time_point last_end_;
};

}  // namespace

int launch(launch_request const& request) {
  std::fflush(nullptr);
  return launcher(request).run();
}

}  // namespace blink::tools
