// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/host/host_rendezvous.hpp>

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
  /// Throws: precondition_error if `process` is none of the processes; input_error if there is no
  ///         such folder.
  file_bootstrap(std::string folder, int process, int process_count,
                 std::chrono::nanoseconds deadline = std::chrono::seconds(30))
      : folder_(std::move(folder)), process_(process), count_(process_count), deadline_(deadline) {
    expects(0 <= process && process < process_count,
            "file_bootstrap: the process is out of range, expected 0 to process_count - 1");
    std::error_code problem;
    if (!std::filesystem::is_directory(folder_, problem)) {
      throw input_error("file_bootstrap: '" + folder_ +
                        "' is no folder, expected one that all processes reach");
    }
  }

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int process_count() const { return count_; }
  /// Throws: resource_error if the folder cannot be written; input_error if another job has used
  ///         the folder; collective_error if a process does not arrive before the deadline.
  void all_gather(void const* own, void* all, std::size_t bytes) {
    ++round_;
    auto const mine = name_of(process_);
    if (std::filesystem::exists(mine)) {
      throw input_error("file_bootstrap: '" + mine + "' is there, expected a folder of this job");
    }
    {
      std::ofstream file(mine + "~", std::ios::binary);
      file.write(static_cast<char const*>(own), static_cast<std::streamsize>(bytes));
      file.close();
      std::error_code problem;
      if (file) std::filesystem::rename(mine + "~", mine, problem);
      if (!file || problem) {
        throw resource_error("file_bootstrap: '" + mine + "' cannot be written");
      }
    }
    auto const end = std::chrono::steady_clock::now() + deadline_;
    for (int peer = 0; peer < count_; ++peer) {
      auto* const to = static_cast<char*>(all) + static_cast<std::size_t>(peer) * bytes;
      while (!reads(name_of(peer), to, bytes)) {
        if (std::chrono::steady_clock::now() > end) {
          throw collective_error("file_bootstrap: process " + std::to_string(peer) +
                                     " has not written '" + name_of(peer) + "' before the deadline",
                                 process_, peer, -1, -1);
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }

 private:
  [[nodiscard]] std::string name_of(int process) const {
    return folder_ + "/" + std::to_string(round_) + "." + std::to_string(process);
  }
  // A file gets its name when it is complete.
  [[nodiscard]] static bool reads(std::string const& name, char* to, std::size_t bytes) {
    std::ifstream file(name, std::ios::binary);
    return file.read(to, static_cast<std::streamsize>(bytes)).good();
  }

  std::string folder_;
  int process_;
  int count_;
  std::chrono::nanoseconds deadline_;
  int round_ = 0;
};
static_assert(process_bootstrap<file_bootstrap>);

}}  // namespace blink::BLINK_ABI
