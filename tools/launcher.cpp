// SPDX-License-Identifier: Apache-2.0
#include "launcher.hpp"

#include <blink/core/error.hpp>
#include <blink/core/version.hpp>

#include "commands.hpp"
#include "launch_messages.hpp"
#include "launch_rounds.hpp"
#include "rank_processes.hpp"
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
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
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::array forwarded{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

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

/// Quotes a word for a shell.
std::string quoted(std::string const& word) {
  std::string result = "'";
  for (char const letter : word)
    result += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return result + "'";
}

std::string present_folder() {
  std::unique_ptr<char, void (*)(void*)> const folder(getcwd(nullptr, 0), std::free);
  return folder ? folder.get() : "/";
}

/// The agent on a host, behind the process of a shell.
class remote_host {
 public:
  /// first: rank of this host
  /// Throws: resource_error if the system refuses a process.
  remote_host(launch_request const& request, launch_host host, int first,
              watched_signals const& signals)
      : host_(std::move(host)), first_(first) {
    auto input = make_pipe();
    auto output = make_pipe();
    auto words = request.shell;
    words.push_back(host_.name);
    words.push_back("cd " + quoted(present_folder()) + " && exec " + quoted(request.blink) +
                    " agent");
    pid_t const parent = getpid();
    shell_ = fork();
    if (shell_ < 0) {
      throw resource_error("the system refuses a process for host " + host_.name + ": " +
                           std::strerror(errno));
    }
    if (shell_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      setpgid(0, 0);  // signals of the terminal are the launcher's
      dup2(input.read.number(), STDIN_FILENO);
      dup2(output.write.number(), STDOUT_FILENO);
      std::vector<char*> arguments;
      for (auto& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      std::signal(SIGPIPE, SIG_DFL);
      sigprocmask(SIG_SETMASK, &signals.before(), nullptr);
      execvp(arguments[0], arguments.data());
      std::fprintf(stderr, "blink run: cannot run '%s': %s\n", arguments[0], std::strerror(errno));
      _exit(127);
    }
    messages_ = message_stream(std::move(output.read), std::move(input.write));
  }
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
  int end() {
    int status = 0;
    messages_.close();
    if (shell_ <= 0) return status;
    // It ends by itself, unless the host does not answer.
    for (int turn = 0; turn < 100; ++turn) {
      if (waitpid(shell_, &status, WNOHANG) == shell_) {
        shell_ = -1;
        return status;
      }
      poll(nullptr, 0, 10);
    }
    ::kill(-shell_, SIGKILL);
    waitpid(std::exchange(shell_, -1), &status, 0);
    return status;
  }

 private:
  launch_host host_;
  int first_;
  pid_t shell_ = -1;
  message_stream messages_;
};

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
    host.messages().send(launch_word::request, 0, request.dump());
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
           last_end_ = clock::now();
           launcher_.send(launch_word::ended, rank, packed(process) + packed(status));
         }});
    ranks.start();
    bool is_finishing = false;  // else the launcher may start a rank again
    while (launcher_.is_open() &&
           (!is_finishing || ranks.running() > 0 ||
            (ranks.has_output() && clock::now() < last_end_ + request_.grace))) {
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
  clock::time_point last_end_;
};

}  // namespace

int launch(launch_request const& request) {
  std::fflush(nullptr);
  return launcher(request).run();
}

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
    if (request) agent(launcher, nlohmann::json::parse(request->content)).run();
  } catch (std::exception const& failure) {
    launcher.send(launch_word::failure, 0, failure.what());
    launcher.write_all(flush_milliseconds);
    return exit_input_error;
  }
  launcher.write_all(flush_milliseconds);
  return 0;
}

}  // namespace blink::tools
