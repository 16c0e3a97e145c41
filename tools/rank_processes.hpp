// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/transports/host/shared_segment.hpp>

#include "launch_messages.hpp"
#include "launcher.hpp"
#include <poll.h>
#include <sys/types.h>

#include <csignal>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace blink::tools {

/// Receivers of the messages and ends of ranks.
struct rank_events {
  std::function<void(int rank, bool is_error, std::string const& bytes)> output;
  std::function<void(int rank, std::string part)> gather;        ///< a part of an all-gather
  std::function<void(int rank, int process, int status)> ended;  ///< status: of `waitpid`
};

/// The ranks of this machine: processes that end when this object ends. If a rank failed or was
/// stopped, processes that ranks have started end, too.
class rank_processes {
 public:
  /// first, count: the ranks of this machine, of request.rank_count
  /// unblocked:    the signals that ranks do not block
  /// Throws: resource_error if the system has no memory or no descriptors left.
  rank_processes(launch_request const& request, int first, int count, sigset_t const& unblocked,
                 rank_events events);
  rank_processes(rank_processes const&) = delete;
  rank_processes& operator=(rank_processes const&) = delete;
  ~rank_processes();

  /// Starts all. Throws: input_error if the program cannot be run; resource_error.
  void start();
  /// Starts a rank again whose process has ended. Throws: as `start`.
  void start_again(int rank);
  [[nodiscard]] int running() const;
  /// True if output may follow.
  [[nodiscard]] bool has_output() const;
  [[nodiscard]] bool has(int rank) const { return rank >= first_ && rank - first_ < count_; }
  /// Sends a signal to all that run, and to their children.
  void send(int signal);
  /// Answers an all-gather.
  void answer(int rank, launch_word kind, std::string const& content);

  /// Adds the files to wait for.
  void add_files(std::vector<pollfd>& files) const;
  /// Works on the files that are ready. takes_output: false to leave output where it is
  void take_news(bool takes_output);
  /// Looks which ranks have ended.
  void take_ends();

 private:
  struct one_rank {
    pid_t process = -1;  // also the number of its process group; -1: ended
    owned_file output, error_output;
    message_stream messages;
  };
  void start_one(int rank);
  [[noreturn]] void become(int rank, pid_t parent, int failure, file_pair const& output,
                           file_pair const& error_output, int messages) const;
  void pass_on(int rank, owned_file& from, bool is_error);
  void kill_orphans() const;

  launch_request const& request_;
  int first_, count_;
  sigset_t unblocked_;
  rank_events events_;
  // The ranks of one machine share memory that it makes.
  std::optional<shared_segment> segment_;
  std::string segment_path_;
  std::vector<one_rank> ranks_;
  bool has_failed_ = false;
  std::vector<pid_t> other_children_;  // of this process, from before
};

}  // namespace blink::tools
