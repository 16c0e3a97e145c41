// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs a function in separate processes, one for each rank, and reports how each ended.

#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace blink_test {

/// The end of one rank.
struct rank_end {
  int status = -1;   ///< of waitpid
  std::string text;  ///< returned by the function, or of its exception
};

/// The processes of a communicator. Call `start`, then optionally `kill` some, then `finish`.
class forked_ranks {
 public:
  explicit forked_ranks(int ranks, std::size_t bytes = std::size_t{1} << 30)
      : segment_(blink::shared_segment::create(ranks, bytes)) {}
  forked_ranks(forked_ranks const&) = delete;
  forked_ranks& operator=(forked_ranks const&) = delete;
  ~forked_ranks() {
    for (auto const& one : children_) {  // remaining only if a test ended early
      ::kill(one.process, SIGKILL);
      ::waitpid(one.process, nullptr, 0);
    }
  }

  [[nodiscard]] std::string path() const { return segment_.path(); }
  [[nodiscard]] blink::shared_segment const& segment() const { return segment_; }

  /// Starts rank after rank. `function(rank)` returns a text and runs in the new process.
  template <class Function>
  void start(Function const& function) {
    for (int rank = 0; rank < segment_.rank_count(); ++rank) {
      std::array<int, 2> ends{};
      if (pipe(ends.data()) != 0) throw blink::resource_error("pipe");
      std::fflush(nullptr);
      pid_t const process = fork();
      if (process < 0) throw blink::resource_error("fork");
      if (process == 0) {
        ::close(ends[0]);
        std::string text;
        try {
          text = function(rank);
        } catch (std::exception const& failure) {
          text = std::string("threw: ") + failure.what();
        }
        for (std::size_t done = 0; done < text.size();) {
          auto const written = ::write(ends[1], text.data() + done, text.size() - done);
          if (written <= 0) break;
          done += static_cast<std::size_t>(written);
        }
        _exit(0);  // skips the parent's tests
      }
      ::close(ends[1]);
      children_.push_back({process, ends[0]});
    }
  }
  void kill(int rank, int signal) const {
    ::kill(children_[static_cast<std::size_t>(rank)].process, signal);
  }
  /// Waits for all ranks and returns their ends. Kills rank `killed_last` once the other ranks have
  /// ended; -1: none.
  [[nodiscard]] std::vector<rank_end> finish(int killed_last = -1) {
    auto const children = std::exchange(children_, {});
    std::vector<rank_end> result(children.size());
    for (std::size_t rank = 0; rank < children.size(); ++rank) {
      if (static_cast<int>(rank) != killed_last) result[rank] = end_of(children[rank]);
    }
    if (killed_last >= 0) {
      auto const last = static_cast<std::size_t>(killed_last);
      ::kill(children[last].process, SIGKILL);
      result[last] = end_of(children[last]);
    }
    return result;
  }

 private:
  struct child {
    pid_t process;
    int pipe;
  };
  // Reads the text of a rank until the rank has ended.
  static rank_end end_of(child const& one) {
    rank_end end;
    std::array<char, 4096> buffer{};
    for (;;) {
      auto const bytes = ::read(one.pipe, buffer.data(), buffer.size());
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) break;
      end.text.append(buffer.data(), static_cast<std::size_t>(bytes));
    }
    ::close(one.pipe);
    ::waitpid(one.process, &end.status, 0);
    return end;
  }

  blink::shared_segment segment_;
  std::vector<child> children_;
};

}  // namespace blink_test
