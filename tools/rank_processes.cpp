// SPDX-License-Identifier: Apache-2.0
#include "rank_processes.hpp"

#include <blink/core/error.hpp>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

namespace blink::tools {
namespace {

std::vector<pid_t> children() {
  std::vector<pid_t> result;
  std::ifstream list("/proc/self/task/" + std::to_string(getpid()) + "/children");
  for (pid_t child = 0; list >> child;) result.push_back(child);
  return result;
}

// In the new process: reports the cause to the launcher.
[[noreturn]] void report(int failure) {
  int const reason = errno;
  [[maybe_unused]] auto const written = ::write(failure, &reason, sizeof reason);
  _exit(127);
}

}  // namespace

rank_processes::rank_processes(launch_request const& request, int first, int count,
                               sigset_t const& unblocked, rank_events events)
    : request_(request),
      first_(first),
      count_(count),
      unblocked_(unblocked),
      events_(std::move(events)) {
  if (count != request.rank_count) return;
  segment_.emplace(request.memory_bytes == 0 ? shared_segment::create(count)
                                             : shared_segment::create(count, request.memory_bytes));
}

rank_processes::~rank_processes() {
  if (running() > 0) send(SIGKILL);
  for (auto const& rank : ranks_) {
    if (rank.process > 0) waitpid(rank.process, nullptr, 0);
  }
  if (has_failed_ && count_ > 0) kill_orphans();
}

// Processes whose parents have ended are children of this process (`PR_SET_CHILD_SUBREAPER`), also
// those that have left the process group of their rank.
void rank_processes::kill_orphans() const {
  constexpr int most_turns = 100;  // a process may start others meanwhile
  for (int turn = 0; turn < most_turns; ++turn) {
    bool is_any = false;
    for (pid_t const child : children()) {
      if (std::count(other_children_.begin(), other_children_.end(), child) != 0) continue;
      is_any = true;
      ::kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    if (!is_any) return;
  }
}

void rank_processes::start() {
  other_children_ = children();  // of what this process was before
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (segment_) segment_path_ = segment_->path();  // names this process, not its children
  ranks_.resize(static_cast<std::size_t>(count_));
  for (int rank = first_; rank < first_ + count_; ++rank) start_one(rank);
}

void rank_processes::start_again(int rank) {
  auto& old = ranks_[static_cast<std::size_t>(rank - first_)];
  constexpr int most_reads = 64;  // what it has said; a child of it may hold the file open
  for (int turn = 0; turn < most_reads; ++turn) {
    pass_on(rank, old.output, false);
    pass_on(rank, old.error_output, true);
  }
  start_one(rank);
}

void rank_processes::start_one(int rank) {
  auto failure = make_pipe();
  auto messages = make_connection();
  file_pair output, error_output;
  if (request_.labels) {
    output = make_pipe();
    error_output = make_pipe();
  }
  std::optional<cpu_set_t> cores;
  if (request_.binds) cores = share_of_cores(rank - first_, count_);
  pid_t const parent = getpid();
  pid_t const process = fork();
  if (process < 0) {
    throw resource_error("the system refuses process " + std::to_string(rank - first_ + 1) +
                         " of " + std::to_string(count_) + ": " + std::strerror(errno));
  }
  if (process == 0) {
    if (cores && sched_setaffinity(0, sizeof *cores, &*cores) != 0) report(failure.write.number());
    become(rank, parent, failure.write.number(), output, error_output, messages.write.number());
  }
  setpgid(process, process);  // here and in the child, whichever runs first
  auto& one = ranks_[static_cast<std::size_t>(rank - first_)];
  one.process = process;
  one.output = std::move(output.read);
  one.error_output = std::move(error_output.read);
  one.messages = message_stream(std::move(messages.read), {});
  failure.write.close();
  int reason = 0;
  if (::read(failure.read.number(), &reason, sizeof reason) == sizeof reason) {
    throw input_error("cannot run '" + request_.program[0] + "': " + std::strerror(reason));
  }
}

// In the new process; never returns.
void rank_processes::become(int rank, pid_t parent, int failure, file_pair const& output,
                            file_pair const& error_output, int messages) const {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  setpgid(0, 0);
  // Input is for rank 0. A terminal would stop readers in the background.
  if (rank > 0 || isatty(STDIN_FILENO) != 0) {
    int const nothing = ::open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
  }
  if (output.write.is_open()) {
    dup2(output.write.number(), STDOUT_FILENO);
    dup2(error_output.write.number(), STDERR_FILENO);
  }
  fcntl(messages, F_SETFD, 0);
  setenv("BLINK_LAUNCHER", std::to_string(messages).c_str(), 1);
  setenv("BLINK_RANK", std::to_string(rank).c_str(), 1);
  setenv("BLINK_RANK_COUNT", std::to_string(request_.rank_count).c_str(), 1);
  if (segment_) {
    segment_->leave_to_children();
    setenv("BLINK_SEGMENT", segment_path_.c_str(), 1);
  } else {
    unsetenv("BLINK_SEGMENT");
  }
  if (request_.deadline_seconds) {
    std::array<char, 32> text{};  // the shortest text that is read as the same number
    std::to_chars(text.data(), text.data() + text.size() - 1, *request_.deadline_seconds);
    setenv("BLINK_DEADLINE", text.data(), 1);
  }
  for (auto const& variable : request_.environment) {
    auto const equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> arguments;
  for (auto const& argument : request_.program) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &unblocked_, nullptr);
  execvp(arguments[0], arguments.data());
  report(failure);
}

int rank_processes::running() const {
  return static_cast<int>(
      std::count_if(ranks_.begin(), ranks_.end(), [](auto const& one) { return one.process > 0; }));
}
bool rank_processes::has_output() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](auto const& one) {
    return one.output.is_open() || one.error_output.is_open();
  });
}

void rank_processes::send(int signal) {
  has_failed_ = has_failed_ || signal == SIGKILL || signal == SIGTERM || signal == SIGINT;
  for (auto const& one : ranks_) {
    if (one.process > 0) ::kill(-one.process, signal);
  }
}

void rank_processes::answer(int rank, launch_word kind, std::string const& content) {
  ranks_[static_cast<std::size_t>(rank - first_)].messages.send(kind, rank, content);
}

void rank_processes::add_files(std::vector<pollfd>& files) const {
  for (auto const& one : ranks_) {
    files.push_back({one.output.number(), POLLIN, 0});
    files.push_back({one.error_output.number(), POLLIN, 0});
    files.push_back({one.messages.read_file(), POLLIN, 0});
    files.push_back({one.messages.write_file(), POLLOUT, 0});
  }
}

void rank_processes::take_news(bool takes_output) {
  for (std::size_t k = 0; k < ranks_.size(); ++k) {
    auto& one = ranks_[k];
    int const rank = first_ + static_cast<int>(k);
    if (takes_output) {
      pass_on(rank, one.output, false);
      pass_on(rank, one.error_output, true);
    }
    if (!one.messages.is_open()) continue;
    one.messages.read_some();
    one.messages.write_some();
    try {
      while (auto message = one.messages.next()) {
        if (message->kind == launch_word::gather) events_.gather(rank, std::move(message->content));
      }
    } catch (input_error const&) {
      one.messages.close();  // the rank learns that there is no launcher
    }
  }
}

void rank_processes::pass_on(int rank, owned_file& from, bool is_error) {
  pollfd file{from.number(), POLLIN, 0};
  if (!from.is_open() || poll(&file, 1, 0) <= 0) return;
  std::array<char, 1 << 16> buffer;
  auto const bytes = ::read(from.number(), buffer.data(), buffer.size());
  if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (bytes <= 0) from.close();
  auto const size = bytes < 0 ? std::size_t{0} : static_cast<std::size_t>(bytes);
  events_.output(rank, is_error, std::string(buffer.data(), size));
}

void rank_processes::take_ends() {
  for (std::size_t k = 0; k < ranks_.size(); ++k) {
    auto& one = ranks_[k];
    int status = 0;
    if (one.process <= 0) continue;
    pid_t const process = one.process;
    if (waitpid(process, &status, WNOHANG) != process) continue;
    one.process = -1;
    has_failed_ = has_failed_ || status != 0;
    if (status != 0) ::kill(-process, SIGKILL);  // processes that it may have started
    events_.ended(first_ + static_cast<int>(k), process, status);
  }
}

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

}  // namespace blink::tools
