// SPDX-License-Identifier: Apache-2.0
#include <blink/core/version.hpp>

#include "commands.hpp"
#include "launch_messages.hpp"
#include "launcher.hpp"
#include "rank_processes.hpp"
#include "watched_signals.hpp"
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

/// The ranks of this host, for a launcher elsewhere.
class agent {
 public:
  agent(message_stream& launcher, nlohmann::json const& content)
      : launcher_(launcher),
        request_(request_of(content)),
        first_(content.at("first").get<int>()),
        count_(content.at("count").get<int>()) {}

  /// Runs the ranks to their end. Throws: as `rank_processes`.
  void run() {
    // More waits in the ranks' pipes, not here.
    constexpr std::size_t most_waiting = std::size_t{1} << 20;
    rank_processes ranks(
        request_, first_, count_, signals_.before(),
        {[this](int rank, bool is_error, std::string const& bytes) {
           launcher_.send(is_error ? launch_word::error_output : launch_word::output, rank, bytes);
         },
         [this](int rank, std::string const& part) {
           launcher_.send(launch_word::gather, rank, part);
         },
         [this](int rank, int process, int status) {
           last_end_ = std::chrono::steady_clock::now();
           launcher_.send(launch_word::ended, rank, packed(process) + packed(status));
         }});
    ranks.start();
    bool is_finishing = false;  // else the launcher may start a rank again
    while (launcher_.is_open() && (!is_finishing || ranks.running() > 0 ||
                                   (ranks.has_output() && std::chrono::steady_clock::now() <
                                                              last_end_ + request_.grace))) {
      std::vector<pollfd> files{{signals_.file(), POLLIN, 0},
                                {launcher_.read_file(), POLLIN, 0},
                                {launcher_.write_file(), POLLOUT, 0}};
      bool const takes_output = launcher_.waiting() < most_waiting;
      if (takes_output) ranks.add_files(files);
      poll(files.data(), files.size(), 50);
      while (int const signal = signals_.next()) {
        if (std::find(forwarded.begin(), forwarded.end(), signal) != forwarded.end()) {
          ranks.send(signal);
        }
      }
      launcher_.write_some();
      launcher_.read_some();
      while (auto const message = launcher_.next()) {
        if (message->kind == launch_word::signal) {
          ranks.send(number_at(*message, 0));
        } else if (message->kind == launch_word::again && ranks.has(message->rank)) {
          ranks.start_again(message->rank);
        } else if (message->kind == launch_word::finish) {
          is_finishing = true;
        } else if (ranks.has(message->rank)) {
          ranks.answer(message->rank, message->kind, message->content);
        }
      }
      ranks.take_news(takes_output);
      ranks.take_ends();
    }
  }

 private:
  static launch_request request_of(nlohmann::json const& content) {
    launch_request result;
    result.program = content.at("program").get<std::vector<std::string>>();
    result.rank_count = content.at("ranks").get<int>();
    result.environment = content.at("environment").get<std::vector<std::string>>();
    result.binds = content.at("binds").get<bool>();
    result.memory_bytes = content.at("memory").get<std::size_t>();
    if (content.contains("deadline")) {
      result.deadline_seconds = content.at("deadline").get<double>();
    }
    return result;
  }

  message_stream& launcher_;
  launch_request request_;
  int first_, count_;
  watched_signals signals_;
  std::chrono::steady_clock::time_point last_end_;
};

}  // namespace

int run_agent() {
  // Messages have descriptors of their own, so that no other output gets among them.
  owned_file input(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  owned_file output(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  int const nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  ::close(nothing);
  std::signal(SIGPIPE, SIG_IGN);
  message_stream launcher(std::move(input), std::move(output));
  launcher.send(launch_word::hello, 0, BLINK_VERSION_TEXT);
  constexpr int flush_milliseconds = 10000;
  try {
    std::optional<launch_message> request;
    while (!request && launcher.is_open()) {
      pollfd files[] = {{launcher.read_file(), POLLIN, 0}, {launcher.write_file(), POLLOUT, 0}};
      poll(files, 2, -1);
      launcher.write_some();
      launcher.read_some();
      request = launcher.next();
    }
    if (request) agent(launcher, nlohmann::json::from_msgpack(request->content)).run();
  } catch (std::exception const& failure) {
    launcher.send(launch_word::failure, 0, failure.what());
    launcher.write_all(flush_milliseconds);
    return exit_input_error;
  }
  launcher.write_all(flush_milliseconds);
  return 0;
}

}  // namespace blink::tools
