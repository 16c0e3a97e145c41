// SPDX-License-Identifier: Apache-2.0
#include "membership.hpp"

#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/host/file_bootstrap.hpp>
#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/host/process_environment.hpp>

#include "store_bootstrap.hpp"
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace blink_torch {
namespace {

/// The name of a meeting that no other processes have.
[[nodiscard]] std::string name_of(std::vector<std::string> const& handles, std::int64_t number) {
  blink::detail::hash all;
  for (auto const& each : handles) all.add(each);
  all.add(static_cast<std::uint64_t>(number));
  return std::to_string(all.value());
}

/// The folder of a meeting. Each of the processes makes it if it is not there.
[[nodiscard]] std::string folder_of(std::string const& meeting) {
  std::string const parent = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
  auto const folder = parent + "/blink-torch-" + std::to_string(getuid()) + "-" + meeting;
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
                             std::int64_t number, c10::intrusive_ptr<c10d::Store> const& store,
                             std::chrono::milliseconds deadline) {
  auto const at = std::find(handles.begin(), handles.end(), own);
  if (at == handles.end()) {
    throw blink::precondition_error("this rank's handle is not among the " +
                                    std::to_string(handles.size()) + " handles, expected it there");
  }
  auto const host = own.substr(0, own.find(':', own.find(':') + 1) + 1);
  bool const is_one_host = blink::detail::environment_flag("BLINK_SHARED_MEMORY", true) &&
                           std::all_of(handles.begin(), handles.end(), [&](auto const& each) {
                             return each.compare(0, host.size(), host) == 0;
                           });
  auto const rank = static_cast<int>(at - handles.begin());
  auto const size = static_cast<int>(handles.size());
  auto const name = name_of(handles, number);
  if (!is_one_host) {
    store_bootstrap all(store, "meeting/" + name, rank, size, deadline);
    return make_engine(all, deadline);
  }
  auto const folder = folder_of(name);
  blink::file_bootstrap all(folder, rank, size, deadline);
  auto result = make_process_engine(all, deadline);
  result->barrier();
  std::error_code ignored;
  if (rank == 0) std::filesystem::remove_all(folder, ignored);
  return result;
}

}  // namespace blink_torch
