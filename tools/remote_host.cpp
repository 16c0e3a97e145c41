// SPDX-License-Identifier: Apache-2.0
#include "remote_host.hpp"

#include <blink/core/error.hpp>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace blink::tools {
namespace {

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

}  // namespace

remote_host::remote_host(launch_request const& request, launch_host host, int first,
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

int remote_host::end() {
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

}  // namespace blink::tools
