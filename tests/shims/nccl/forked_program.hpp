// SPDX-License-Identifier: Apache-2.0
#pragma once

// Programs for NCCL of several processes, each with some ranks, like those that MPI and PyTorch
// start.

#include <blink/transports/host/segment_bootstrap.hpp>

#include "program.hpp"
#include "support/forked_ranks.hpp"
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace blink_test {

/// The state of one process of a program. Its checks return texts, because gtest does not see
/// failures of a forked process.
class own_process {
 public:
  own_process(std::string const& path, int number)
      : all_(path, number, std::chrono::seconds(60)), number_(number) {}

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] int count() const { return all_.process_count(); }
  /// The value of each process, exchanged by the program and not by the library.
  template <class T>
  [[nodiscard]] std::vector<T> exchange(T const& own) {
    std::vector<T> all(static_cast<std::size_t>(count()));
    all_.all_gather(&own, all.data(), sizeof own);
    return all;
  }
  /// Waits until all processes have called it.
  void match() { (void)exchange(0); }
  /// A unique id that one of them has made.
  [[nodiscard]] unique_id new_id(int maker = 0) {
    unique_id id{};
    if (number_ == maker && ncclGetUniqueId(&id) != result::success) {
      throw blink::resource_error(ncclGetLastError(nullptr));
    }
    return exchange(id)[static_cast<std::size_t>(maker)];
  }

 private:
  blink::segment_bootstrap all_;
  int number_;
};

/// The ranks of this process, consecutive ones, of one communicator.
struct own_ranks {
  std::size_t first = 0;
  std::size_t count = 0;    ///< in all processes
  std::vector<int> device;  ///< by rank of this process
  std::vector<communicator*> comm{};

  [[nodiscard]] std::size_t size() const { return device.size(); }
  /// Runs `call(rank, communicator)` for each in a group. Returns the group's result.
  template <class Call>
  result in_group(Call const& call) const {
    (void)ncclGroupStart();
    for (std::size_t k = 0; k < size(); ++k) (void)call(first + k, comm[k]);
    return ncclGroupEnd();
  }
  result begin(unique_id const& id) {
    comm.assign(size(), nullptr);
    (void)ncclGroupStart();
    for (std::size_t k = 0; k < size(); ++k) {
      emulated_platform::device_of_thread() = device[k];
      (void)ncclCommInitRank(&comm[k], static_cast<int>(count), id, static_cast<int>(first + k));
    }
    emulated_platform::device_of_thread() = device[0];
    return ncclGroupEnd();
  }
  result destroy() {
    auto how = result::success;
    for (auto* const one : std::exchange(comm, {})) {
      if (auto const code = ncclCommDestroy(one); code != result::success) how = code;
    }
    return how;
  }
  void synchronize() const {
    for (std::size_t k = 0; k < size(); ++k) {
      devices().synchronize(device[k], emulated_platform::stream_of(program::stream(first + k)));
    }
  }
};

/// The ranks of this process, with the devices of the ranks of each process.
inline own_ranks ranks_of(own_process const& mine, std::vector<int> const& by_process) {
  own_ranks all;
  for (std::size_t process = 0; process < by_process.size(); ++process) {
    auto const ranks = static_cast<std::size_t>(by_process[process]);
    if (static_cast<int>(process) < mine.number()) all.first += ranks;
    if (static_cast<int>(process) == mine.number()) {
      for (std::size_t k = 0; k < ranks; ++k) all.device.push_back(static_cast<int>(k % 4));
    }
    all.count += ranks;
  }
  return all;
}

/// Runs `body(mine)` in `processes` processes. Returns by process the text of `body`, or of its
/// exception.
///
/// killed_last: a process that is killed when the others are done; -1: none
template <class Body>
std::vector<std::string> run_processes(int processes, Body const& body, int killed_last = -1) {
  forked_ranks forked(processes);
  forked.start([&](int process) {
    emulated_platform::begin_in_fork();
    own_process mine(forked.path(), process);
    return std::string(body(mine));
  });
  std::vector<std::string> texts;
  for (auto const& end : forked.finish(killed_last)) texts.push_back(end.text);
  return texts;
}

/// "code: text" of a call's result. The last error remains afterwards, and is inherited by forked
/// processes.
inline std::string said(result code, communicator* comm = nullptr) {
  auto const number = std::to_string(static_cast<int>(code)) + ": ";
  return code == result::success ? number : number + ncclGetLastError(comm);
}

/// The result of `ncclCommGetAsyncError` once it is neither success nor "in progress".
inline result failure_of(communicator* comm) {
  for (;;) {
    result code = result::internal_error;
    if (ncclCommGetAsyncError(comm, &code) != result::success) return result::internal_error;
    if (code != result::success && code != result::in_progress) return code;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}
/// The text of a call that fails, at once or later; as `said`.
inline std::string ending_of(result code, communicator* comm) {
  return said(code == result::success ? failure_of(comm) : code, comm);
}

/// Makes a communicator with a rank in each process, runs a successful first call of each rank,
/// `first(mine, comm, data)`, and then `body(mine, comm, data)`. data: 16 elements that were 1
/// before the first call.
///
/// killed_last: as in `run_processes`
template <class First, class Body>
std::vector<std::string> after_first_call(int processes, First const& first, Body const& body,
                                          int killed_last = -1) {
  return run_processes(
      processes,
      [&](own_process& mine) -> std::string {
        auto ranks = ranks_of(mine, std::vector<int>(static_cast<std::size_t>(processes), 1));
        if (auto const code = ranks.begin(mine.new_id()); code != result::success)
          return said(code);
        elements<float> const data(0, 16, 1.0F);
        if (auto const code = first(mine, ranks.comm[0], data); code != result::success) {
          return said(code);
        }
        devices().synchronize(0, 1);
        return body(mine, ranks.comm[0], data);
      },
      killed_last);
}
/// The same with a sum, whose result is checked. data[0] is the sum.
template <class Body>
std::vector<std::string> after_a_sum(int processes, Body const& body, int killed_last = -1) {
  auto const sum = [](own_process&, communicator* comm, elements<float> const& data) {
    return sum_on_stream(comm, data, 1);
  };
  return after_first_call(
      processes, sum,
      [&](own_process& mine, communicator* comm, elements<float> const& data) -> std::string {
        if (data[0] != static_cast<float>(processes)) return "a wrong sum";
        return body(mine, comm, data);
      },
      killed_last);
}

}  // namespace blink_test
