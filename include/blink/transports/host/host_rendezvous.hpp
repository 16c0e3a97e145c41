// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include <unistd.h>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Returns an id of the running host, equal in all processes that have the same process numbers and
/// the same name of the host. Such processes can share memory. The id differs in containers with
/// separate process numbers or host names (Linux).
[[nodiscard]] inline std::uint64_t host_id() {
  detail::hash all;
  std::array<char, 64> text{};
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const file(
      std::fopen("/proc/sys/kernel/random/boot_id", "r"), std::fclose);
  if (file && std::fgets(text.data(), text.size(), file.get()))
    all.add(std::string_view(text.data()));
  for (char const* const space : {"/proc/self/ns/pid", "/proc/self/ns/uts"}) {
    auto const bytes = readlink(space, text.data(), text.size());
    all.add(std::string_view(text.data(), bytes < 0 ? 0 : static_cast<std::size_t>(bytes)));
  }
  return all.value();
}

/// The processes that want to share memory, and a way to exchange bytes before they do.
///
/// Semantics beyond the syntax: processes have numbers from 0. All processes call `all_gather` with
/// equal `bytes`, and `all` holds the bytes of each, in order. `all_gather` throws if a process
/// does not arrive, so that no wait is without end.
template <class B>
concept process_bootstrap = requires(B& group, void const* own, void* all, std::size_t bytes) {
  { group.process() } -> std::same_as<int>;
  { group.process_count() } -> std::same_as<int>;
  { group.all_gather(own, all, bytes) } -> std::same_as<void>;
};
static_assert(!process_bootstrap<int>);

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The message that processes exchange before they share memory.
struct host_introduction {
  std::uint64_t host = 0;
  std::int64_t process = 0;         ///< its number in the system
  std::uint64_t time = 0;           ///< of its arrival, in nanoseconds
  std::array<char, 64> path{};      ///< of the segment
  std::array<char, 256> failure{};  ///< empty: none
};

/// Exchanges introductions. Throws: resource_error with the text of the failure of any process.
template <process_bootstrap Bootstrap>
[[nodiscard]] std::vector<host_introduction> introduce(Bootstrap& all,
                                                       host_introduction const& mine) {
  std::vector<host_introduction> result(static_cast<std::size_t>(all.process_count()));
  all.all_gather(&mine, result.data(), sizeof mine);
  for (std::size_t peer = 0; peer < result.size(); ++peer) {
    if (result[peer].failure[0] == '\0') continue;
    throw resource_error("process " + std::to_string(peer) + ": " + result[peer].failure.data());
  }
  return result;
}

/// Throws: precondition_error unless all introductions are of different processes of one host.
inline void expect_one_host(std::vector<host_introduction> const& all) {
  for (std::size_t peer = 0; peer < all.size(); ++peer) {
    if (all[peer].host != all[0].host) {
      throw precondition_error(
          "processes 0 and " + std::to_string(peer) +
          " are not of one host, or do not see each other's processes (containers): they "
          "share no memory");
    }
    for (std::size_t other = 0; other < peer; ++other) {
      if (all[other].process != all[peer].process) continue;
      throw precondition_error("processes " + std::to_string(other) + " and " +
                               std::to_string(peer) + " are one, process " +
                               std::to_string(all[peer].process) +
                               " of the system: its devices belong to one communicator");
    }
  }
}

/// Lets processes of one host find each other and share memory. The first process makes a segment,
/// the others open it. Each process claims its place and then runs `make`, which takes the memory
/// that it needs from the segment.
///
/// segment: receives the segment
/// Returns: a number that is equal in all of these processes, and unique on this host
/// Throws:  on all processes: precondition_error if they are not of one host (or container);
///          resource_error with the text of what `make` throws or of why there is no segment; what
///          the bootstrap throws.
template <process_bootstrap Bootstrap, class Make>
[[nodiscard]] std::uint64_t host_rendezvous(Bootstrap& all, std::optional<shared_segment>& segment,
                                            Make const& make) {
  int const process = all.process();
  host_introduction mine;
  mine.host = host_id();
  mine.process = getpid();
  auto const attempt = [&](auto const& step) {
    try {
      step();
    } catch (std::exception const& failure) {
      std::string(failure.what()).copy(mine.failure.data(), mine.failure.size() - 1);
    }
  };
  if (process == 0) {
    attempt([&] {
      // An upper limit. Memory that is not used is not taken.
      std::size_t const bytes =
          (std::size_t{1} << 26) * (64 + static_cast<std::size_t>(all.process_count()));
      segment.emplace(shared_segment::create(all.process_count(), bytes));
      segment->path().copy(mine.path.data(), mine.path.size() - 1);
    });
  }
  auto const now = std::chrono::steady_clock::now().time_since_epoch().count();
  mine.time = static_cast<std::uint64_t>(now);
  auto const first = introduce(all, mine);
  expect_one_host(first);
  attempt([&] {
    if (process != 0) segment.emplace(shared_segment::open(first[0].path.data()));
    segment->claim(process);
    make();
  });
  (void)introduce(all, mine);
  hash number;  // unique on this host
  number.add(first[0].time);
  number.add(static_cast<std::uint64_t>(first[0].process));
  return number.value();
}

}}}  // namespace blink::BLINK_ABI::detail
