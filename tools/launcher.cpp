// SPDX-License-Identifier: Apache-2.0
#include "launcher.hpp"

#include <blink/core/error.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include "commands.hpp"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::array forwarded{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

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
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

struct pipe_ends {
  owned_file read, write;
};

pipe_ends make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw resource_error(std::string("the system refuses a pipe: ") + std::strerror(errno));
  }
  return {owned_file(ends[0]), owned_file(ends[1])};
}

/// The output of a rank, written line by line, so that the lines of ranks do not mix. Lines of more
/// than 64 KiB are divided.
class labelled_output {
 public:
  labelled_output(owned_file from, std::FILE* to, std::string label)
      : from_(std::move(from)), to_(to), label_(std::move(label)) {}

  [[nodiscard]] int file() const { return from_.number(); }
  [[nodiscard]] bool is_open() const { return from_.is_open(); }
  /// The first error of the system on writing, or 0.
  [[nodiscard]] int failure() const { return failure_; }

  void pass_on() {
    std::array<char, 1 << 16> buffer;
    auto const bytes = ::read(from_.number(), buffer.data(), buffer.size());
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (bytes <= 0) {
      if (!line_.empty()) print(line_ + "\n");
      from_.close();
      return;
    }
    line_.append(buffer.data(), static_cast<std::size_t>(bytes));
    auto const end = line_.rfind('\n');
    if (end == std::string::npos) {
      if (line_.size() >= buffer.size()) print(std::exchange(line_, {}) + "\n");
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

  owned_file from_;
  std::FILE* to_;
  std::string label_;
  std::string line_;
  int failure_ = 0;
};

struct rank_process {
  pid_t process = -1;  // also the number of its process group; -1: ended
  int status = 0;      // of waitpid
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
        segment_(request.memory_bytes == 0
                     ? shared_segment::create(request.rank_count)
                     : shared_segment::create(request.rank_count, request.memory_bytes)) {}
  launcher(launcher const&) = delete;
  launcher& operator=(launcher const&) = delete;
  ~launcher() {
    send(SIGKILL);
    for (auto const& rank : ranks_) {
      if (rank.process > 0) waitpid(rank.process, nullptr, 0);
    }
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  int run() {
    sigset_t watched;
    sigemptyset(&watched);
    for (int const signal : forwarded) sigaddset(&watched, signal);
    for (int const signal : {SIGCHLD, SIGTSTP, SIGCONT}) sigaddset(&watched, signal);
    sigprocmask(SIG_BLOCK, &watched, &before_);
    signals_ = owned_file(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    for (int rank = 0; rank < request_.rank_count; ++rank) start(rank);
    while (running() > 0 || has_output()) {
      wait_for_news();
      stop_late_ones();
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
  void start(int rank) {
    auto failure = make_pipe();
    std::vector<pipe_ends> outputs;
    if (request_.labels) {
      outputs.push_back(make_pipe());
      outputs.push_back(make_pipe());
    }
    std::optional<cpu_set_t> cores;
    if (request_.binds) cores = share_of_cores(rank, request_.rank_count);
    pid_t const parent = getpid();
    pid_t const process = fork();
    if (process < 0) {
      throw resource_error("the system refuses process " + std::to_string(rank + 1) + " of " +
                           std::to_string(request_.rank_count) + ": " + std::strerror(errno));
    }
    if (process == 0) {
      if (cores && sched_setaffinity(0, sizeof *cores, &*cores) != 0) fail(failure.write.number());
      become(rank, parent, failure.write.number(), outputs);
    }
    setpgid(process, process);  // here and in the child, whichever runs first
    ranks_.push_back({process, 0});
    failure.write.close();
    int reason = 0;
    if (::read(failure.read.number(), &reason, sizeof reason) == sizeof reason) {
      throw input_error("cannot run '" + request_.program[0] + "': " + std::strerror(reason));
    }
    std::string const label = "[" + std::to_string(rank) + "] ";
    if (request_.labels) {
      outputs_.emplace_back(std::move(outputs[0].read), stdout, label);
      outputs_.emplace_back(std::move(outputs[1].read), stderr, label);
    }
  }

  // In the new process; never returns.
  [[noreturn]] void become(int rank, pid_t parent, int failure, std::vector<pipe_ends>& outputs) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    setpgid(0, 0);
    // Input is for rank 0. A terminal would stop readers in the background.
    if (rank > 0 || isatty(STDIN_FILENO) != 0) {
      int const nothing = ::open("/dev/null", O_RDONLY);
      dup2(nothing, STDIN_FILENO);
    }
    if (!outputs.empty()) {
      dup2(outputs[0].write.number(), STDOUT_FILENO);
      dup2(outputs[1].write.number(), STDERR_FILENO);
    }
    setenv("BLINK_RANK", std::to_string(rank).c_str(), 1);
    setenv("BLINK_RANK_COUNT", std::to_string(request_.rank_count).c_str(), 1);
    setenv("BLINK_SEGMENT", segment_path_.c_str(), 1);
    if (request_.deadline_seconds) {
      std::array<char, 32> text{};  // the shortest text that is read as the same number
      std::to_chars(text.data(), text.data() + text.size() - 1, *request_.deadline_seconds);
      setenv("BLINK_DEADLINE", text.data(), 1);
    }
    std::vector<char*> arguments;
    for (auto const& argument : request_.program) {
      arguments.push_back(const_cast<char*>(argument.c_str()));
    }
    arguments.push_back(nullptr);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    execvp(arguments[0], arguments.data());
    fail(failure);
  }
  // In the new process: reports the cause to the launcher.
  [[noreturn]] static void fail(int failure) {
    int const reason = errno;
    [[maybe_unused]] auto const written = ::write(failure, &reason, sizeof reason);
    _exit(127);
  }

  [[nodiscard]] int running() const {
    return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(),
                                          [](auto const& rank) { return rank.process > 0; }));
  }
  // Output that ranks leave to other processes (a daemon that keeps it open) is not waited for.
  [[nodiscard]] bool has_output() const {
    return std::any_of(outputs_.begin(), outputs_.end(),
                       [](auto const& output) { return output.is_open(); }) &&
           (running() > 0 || clock::now() < last_end_ + request_.grace);
  }

  void wait_for_news() {
    std::vector<pollfd> files{{signals_.number(), POLLIN, 0}};
    for (auto const& output : outputs_) files.push_back({output.file(), POLLIN, 0});
    poll(files.data(), files.size(), 50);
    if (files[0].revents != 0) take_signals();
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      if (files[k + 1].revents != 0) outputs_[k].pass_on();
    }
  }

  void take_signals() {
    signalfd_siginfo news{};
    while (::read(signals_.number(), &news, sizeof news) == sizeof news) {
      int const signal = static_cast<int>(news.ssi_signo);
      if (signal == SIGCHLD) {
        bury_the_dead();
      } else if (signal == SIGTSTP) {
        send(SIGSTOP);
        raise(SIGSTOP);
        send(SIGCONT);
      } else if (signal != SIGCONT) {
        send(signal);
        bool const ends = signal != SIGUSR1 && signal != SIGUSR2;
        if (ends && result_ == 0) result_ = 128 + signal;
        if (ends) begin_to_stop(SIGKILL);
      }
    }
  }

  void bury_the_dead() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      auto& one = ranks_[rank];
      if (one.process <= 0) continue;
      pid_t const process = one.process;
      if (waitpid(process, &one.status, WNOHANG) != process) continue;
      one.process = -1;
      last_end_ = clock::now();
      if (one.status == 0) continue;
      ::kill(-process, SIGKILL);  // processes that it may have started
      bool const is_first = result_ == 0;
      if (is_first) result_ = exit_status(one.status);
      if (!is_first && !request_.keeps_going) continue;  // a consequence
      std::fprintf(stderr, "blink run: rank %zu (process %d) %s%s\n", rank,
                   static_cast<int>(process), ending_in_words(one.status).c_str(),
                   request_.keeps_going || running() == 0 ? "" : "; stopping the others");
      if (!request_.keeps_going) begin_to_stop(SIGTERM);
    }
  }

  void begin_to_stop(int signal) {
    if (next_signal_ != 0) return;
    next_signal_ = signal;
    stop_at_ = clock::now() + request_.grace;
  }
  void stop_late_ones() {
    if (next_signal_ == 0 || clock::now() < stop_at_) return;
    send(next_signal_);
    if (next_signal_ == SIGTERM) send(SIGCONT);  // a stopped process could not receive it
    next_signal_ = SIGKILL;
    stop_at_ = clock::now() + request_.grace;
  }
  void send(int signal) {
    for (auto const& rank : ranks_) {
      if (rank.process > 0) ::kill(-rank.process, signal);
    }
  }

  launch_request const& request_;
  shared_segment segment_;
  std::string segment_path_ = segment_.path();  // names this process, not its children
  sigset_t before_{};
  owned_file signals_;
  std::vector<rank_process> ranks_;
  std::vector<labelled_output> outputs_;
  int result_ = 0;
  int next_signal_ = 0;  // the next signal of the remaining ranks, at `stop_at_`; 0: none
  clock::time_point stop_at_;
  clock::time_point last_end_;
};

}  // namespace

cpu_set_t share_of_cores(int rank, int rank_count) {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) {
    throw resource_error(std::string("--bind: the system does not report this process's cores: ") +
                         std::strerror(errno));
  }
  std::vector<std::size_t> cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &all)) cores.push_back(core);
  }
  auto const begin_of = [&](int of) {
    return cores.size() * static_cast<std::size_t>(of) / static_cast<std::size_t>(rank_count);
  };
  std::size_t const first = begin_of(rank);
  cpu_set_t own;
  CPU_ZERO(&own);
  for (std::size_t k = first; k < std::max(first + 1, begin_of(rank + 1)); ++k) {
    CPU_SET(cores[k], &own);
  }
  return own;
}

int launch(launch_request const& request) {
  std::fflush(nullptr);
  return launcher(request).run();
}

}  // namespace blink::tools
