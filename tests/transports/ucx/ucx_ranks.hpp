// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ranks that UCX joins: threads of one process, each with a worker of its own, and processes.

#include <blink/transports/host/file_bootstrap.hpp>
#include <blink/transports/ucx/ucx_communicator.hpp>

#include "support/fresh_folder.hpp"
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

namespace blink_test {

/// Runs `function(bootstrap)` on a thread for each rank. Exceptions are failures.
template <class Function>
void run_ucx_threads(int ranks, Function const& function) {
  fresh_folder const folder;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        blink::file_bootstrap all(folder.name(), rank, ranks);
        function(all);
      } catch (std::exception const& problem) {
        ADD_FAILURE() << "rank " << rank << ": " << problem.what();
      }
    });
  }
}

/// Runs `function(bootstrap)` in a process for each rank. Returns the exit status of each, by rank;
/// a process that a signal ends has the negative number of the signal. Exceptions are status 9.
template <class Function>
std::vector<int> run_ucx_processes(int ranks, Function const& function) {
  fresh_folder const folder;
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    auto const child = fork();
    if (child == 0) {
      int status = 9;
      try {
        blink::file_bootstrap all(folder.name(), rank, ranks);
        status = function(all);
      } catch (std::exception const& problem) {
        std::fprintf(stderr, "rank %d: %s\n", rank, problem.what());
      }
      std::_Exit(status);
    }
    processes.push_back(child);
  }
  std::vector<int> result;
  for (auto const process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    result.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return result;
}

}  // namespace blink_test
