// SPDX-License-Identifier: Apache-2.0
#include "monitored_barrier.hpp"

#include "failures.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

// Programs look for some of the words of these errors, which are gloo's.

namespace blink_torch {
namespace {

using namespace std::chrono_literals;

[[nodiscard]] bool comes(c10d::Store& store, std::string const& key,
                         std::chrono::milliseconds longest) {
  try {
    store.wait({key}, std::max(longest, 1ms));
    return true;
  } catch (std::exception const&) {
    return false;
  }
}

/// Rank 0's part. Returns what is wrong; empty: nothing.
[[nodiscard]] std::string look_for_ranks(c10d::Store& store, std::string const& name, int size,
                                         std::chrono::milliseconds deadline, bool waits_for_all) {
  auto const end = std::chrono::steady_clock::now() + deadline;
  std::string missing;
  for (int peer = 1; peer < size; ++peer) {
    auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (comes(store, name + std::to_string(peer), left)) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(peer);
    if (!waits_for_all) break;
  }
  if (missing.empty()) return {};
  return (waits_for_all ? "Ranks " : "Rank ") + missing + " failed to pass monitoredBarrier in " +
         std::to_string(deadline.count()) + " ms";
}

}  // namespace

void monitored_barrier(c10d::Store& store, int rank, int size, std::uint64_t number,
                       std::chrono::milliseconds deadline, bool waits_for_all) {
  auto const name = "blink/monitored_barrier/" + std::to_string(number) + "/";
  auto const own = "blink: Rank " + std::to_string(rank);
  if (rank == 0) {
    if (deadline == 0ms) throw_failure(own + " timed out in monitoredBarrier in 0 ms");
    auto const fault = look_for_ranks(store, name, size, deadline, waits_for_all);
    auto const result = "0" + fault;  // not every store keeps empty values
    store.set(name + "end", std::vector<std::uint8_t>(result.begin(), result.end()));
    if (!fault.empty()) throw_failure("blink: " + fault);
    return;
  }
  store.set(name + std::to_string(rank), std::vector<std::uint8_t>{1});
  auto const reached = own +
                       " successfully reached monitoredBarrier, but received errors while "
                       "waiting for send/recv from rank 0: ";
  if (!comes(store, name + "end", deadline + 1s)) {
    throw_failure(reached + "it has not ended the barrier in " + std::to_string(deadline.count()) +
                  " ms");
  }
  auto const found = store.get(name + "end");
  if (found.size() > 1) throw_failure(reached + std::string(found.begin() + 1, found.end()));
}

}  // namespace blink_torch
