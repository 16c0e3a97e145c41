// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/duration.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/host/host_rendezvous.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A bootstrap over a folder that all processes reach, such as one of a network file system.
///
/// Each job has an empty folder of its own. It may be removed when all processes have made what
/// they bootstrap.
class file_bootstrap {
 public:
  static constexpr nanoseconds default_deadline{30'000'000'000};

  /// Throws: precondition_error if `process` is none of the processes; input_error if there is no
  ///         such folder.
  file_bootstrap(std::string folder, int process, int process_count,
                 nanoseconds deadline = default_deadline)
      : folder_(std::move(folder)), process_(process), count_(process_count), deadline_(deadline) {
    expects(0 <= process && process < process_count,
            "file_bootstrap: the process is out of range, expected 0 to process_count - 1");
    std::error_code problem;
    if (!std::filesystem::is_directory(folder_, problem)) {
      throw input_error("file_bootstrap: '" + folder_ +
                        "' is no folder, expected one that all processes reach");
    }
  }

  /// The bootstrap of a communicator that grows, for its present ranks. They keep their numbers,
  /// and `added` new processes follow. The new processes call `joining` with the same folder.
  ///
  /// comm:   such as the result of `shrink`
  /// folder: empty, another one than before
  /// Throws: as the constructor; precondition_error if `added` is negative; resource_error if the
  ///         folder cannot be written; input_error if a communicator has grown by this folder.
  template <class Comm>
  [[nodiscard]] static file_bootstrap growing(Comm const& comm, std::string folder, int added,
                                              nanoseconds deadline = default_deadline) {
    expects(added >= 0, "file_bootstrap: a negative number of new processes, expected 0 or more");
    file_bootstrap result(std::move(folder), comm.rank(), comm.rank_count() + added, deadline);
    std::array<int, 2> const ranks{comm.rank_count(), added};
    if (comm.rank() == 0) write(result.name_of_ranks(), ranks.data(), sizeof ranks);
    return result;
  }
  /// The bootstrap of a new process of a communicator that grows. Waits until rank 0 of the present
  /// ranks has called `growing`.
  ///
  /// newcomer: its number among the new processes, from 0
  /// Throws:   as the constructor; precondition_error if fewer processes are added;
  ///           collective_error if the present ranks do not come before the deadline.
  [[nodiscard]] static file_bootstrap joining(std::string folder, int newcomer,
                                              nanoseconds deadline = default_deadline) {
    expects(newcomer >= 0,
            "file_bootstrap: a negative number of a new process, expected 0 or more");
    file_bootstrap const waits(folder, 0, 1, deadline);
    auto const end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(deadline);
    std::array<int, 2> ranks{};
    if (!awaits(waits.name_of_ranks(), ranks.data(), sizeof ranks, end)) {
      throw collective_error(
          "file_bootstrap: rank 0 of the communicator that grows has not written '" +
              waits.name_of_ranks() + "' before the deadline",
          -1, 0, -1, -1);
    }
    if (newcomer >= ranks[1]) {
      throw precondition_error("file_bootstrap: process " + std::to_string(newcomer) + " of " +
                               std::to_string(ranks[1]) + " new ones, expected one of them");
    }
    return {std::move(folder), ranks[0] + newcomer, ranks[0] + ranks[1], deadline};
  }

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int process_count() const { return count_; }
  /// Throws: resource_error if the folder cannot be written; input_error if another job has used
  ///         the folder; collective_error if a process does not arrive before the deadline.
  void all_gather(void const* own, void* all, std::size_t bytes) {
    ++round_;
    write(name_of(process_), own, bytes);
    auto const end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(deadline_);
    for (int peer = 0; peer < count_; ++peer) {
      auto* const to = static_cast<char*>(all) + static_cast<std::size_t>(peer) * bytes;
      if (awaits(name_of(peer), to, bytes, end)) continue;
      throw collective_error("file_bootstrap: process " + std::to_string(peer) +
                                 " has not written '" + name_of(peer) + "' before the deadline",
                             process_, peer, -1, -1);
    }
  }

 private:
  [[nodiscard]] std::string name_of(int process) const {
    return folder_ + "/" + std::to_string(round_) + "." + std::to_string(process);
  }
  [[nodiscard]] std::string name_of_ranks() const { return folder_ + "/ranks"; }
  // A file gets its name when it is complete.
  static void write(std::string const& name, void const* from, std::size_t bytes) {
    if (std::filesystem::exists(name)) {
      throw input_error("file_bootstrap: '" + name + "' is there, expected a folder of this job");
    }
    std::ofstream file(name + "~", std::ios::binary);
    file.write(static_cast<char const*>(from), static_cast<std::streamsize>(bytes));
    file.close();
    std::error_code problem;
    if (file) std::filesystem::rename(name + "~", name, problem);
    if (!file || problem) {
      throw resource_error("file_bootstrap: '" + name + "' cannot be written");
    }
  }
  // Reads a file that another process writes. False if it does not come before the deadline.
  [[nodiscard]] static bool awaits(std::string const& name, void* to, std::size_t bytes,
                                   std::chrono::steady_clock::time_point end) {
    while (true) {
      std::ifstream file(name, std::ios::binary);
      if (file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))) return true;
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::string folder_;
  int process_;
  int count_;
  nanoseconds deadline_;
  int round_ = 0;
};
static_assert(process_bootstrap<file_bootstrap>);

}}  // namespace blink::BLINK_ABI
