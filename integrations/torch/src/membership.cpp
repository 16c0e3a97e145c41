// SPDX-License-Identifier: Apache-2.0
#include "membership.hpp"

#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/host/file_bootstrap.hpp>
#include <blink/transports/host/host_rendezvous.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace blink_torch {
namespace {

/// A folder for processes that know the same handles. Each of them makes it if it is not there.
[[nodiscard]] std::string folder_of(std::vector<std::string> const& handles, std::int64_t number) {
  blink::detail::hash all;
  for (auto const& each : handles) all.add(each);
  all.add(static_cast<std::uint64_t>(number));
  std::string const parent = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
  auto const folder =
      parent + "/blink-torch-" + std::to_string(getuid()) + "-" + std::to_string(all.value());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw blink::resource_error("folder " + folder + ": " + std::generic_category().message(errno));
  }
  struct stat found{};
  if (lstat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != getuid()) {
    throw blink::resource_error("folder " + folder + ": of another user, expected one's own");
  }
  return folder;
}

}  // namespace

std::string new_handle() {
  static std::atomic<int> made{0};
  auto const now = std::chrono::steady_clock::now().time_since_epoch().count();
  return "blink:" + std::to_string(blink::host_id()) + ":" + std::to_string(getpid()) + ":" +
         std::to_string(now) + ":" + std::to_string(made++);
}

std::unique_ptr<engine> meet(std::vector<std::string> const& handles, std::string const& own,
                             std::int64_t number, std::chrono::milliseconds deadline) {
  auto const at = std::find(handles.begin(), handles.end(), own);
  if (at == handles.end()) {
    throw blink::precondition_error("this rank's handle is not among the " +
                                    std::to_string(handles.size()) + " handles, expected it there");
  }
  auto const host = own.substr(0, own.find(':', own.find(':') + 1) + 1);
  for (auto const& each : handles) {
    if (each.compare(0, host.size(), host) != 0) {
      throw blink::precondition_error("the handle '" + each +
                                      "' is of another host, expected processes of one host");
    }
  }
  auto const rank = static_cast<int>(at - handles.begin());
  auto const folder = folder_of(handles, number);
  blink::file_bootstrap all(folder, rank, static_cast<int>(handles.size()), deadline);
  auto result = make_process_engine(all, deadline);
  result->barrier();
  std::error_code ignored;
  if (rank == 0) std::filesystem::remove_all(folder, ignored);
  return result;
}

}  // namespace blink_torch
