// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions for memory: of programs, and of communicators. Included by one source.

#include "dispatch.hpp"
#include "functions.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace blink_nccl {

result ncclMemAlloc(void** where, std::size_t bytes) {
  using P = chosen_platform;
  return guarded<P>("ncclMemAlloc", [&]() -> outcome {
    expect_result(where);
    *where = nullptr;
    int const device = P::current_device();
    auto const held = library<P>::the().lock();
    if (bytes > 0) *where = P::devices().allocate(device, bytes);
    return {};
  });
}
result ncclMemFree(void* memory) {
  using P = chosen_platform;
  return guarded<P>("ncclMemFree", [&]() -> outcome {
    if (memory == nullptr) return {};
    auto const place = P::devices().place_of(memory);
    if (place.kind != blink::memory_kind::device)
      refuse_argument("the address is not in memory of a device, expected one of ncclMemAlloc");
    P::devices().release(place.device, memory);
    return {};
  });
}

/// Registration has no effect on speed here, because kernels reach all memory of their peers.
result ncclCommRegister(communicator* given, void* memory, std::size_t bytes, void** registered) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto&) -> outcome {
    expect_result(registered);
    if (memory == nullptr || bytes == 0)
      refuse_argument("memory is null or bytes is 0, expected memory");
    mine.registered.push_back(memory);
    *registered = memory;
    return {};
  };
  return with_communicator<P>(
      "ncclCommRegister", given, own,
      passed_on(&other_library::CommRegister, given, memory, bytes, registered));
}
result ncclCommDeregister(communicator* given, void* registered) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto&) -> outcome {
    auto const found = std::find(mine.registered.begin(), mine.registered.end(), registered);
    if (found == mine.registered.end())
      refuse_argument("the handle is not registered, expected one of ncclCommRegister");
    mine.registered.erase(found);
    return {};
  };
  return with_communicator<P>("ncclCommDeregister", given, own,
                              passed_on(&other_library::CommDeregister, given, registered));
}

/// Suspends a rank's part of a communicator, which then takes no calls. It keeps its memory,
/// because other ranks reach it.
result ncclCommSuspend(communicator* given, int flags) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto&) -> outcome {
    if (flags != suspends_memory) {
      refuse_argument("flags " + std::to_string(flags) + ", expected 1");
    }
    mine.expect_usable();
    mine.is_suspended = true;
    return {};
  };
  return with_communicator<P>("ncclCommSuspend", given, own,
                              passed_on(&other_library::CommSuspend, given, flags));
}
result ncclCommResume(communicator* given) {
  using P = chosen_platform;
  auto const own = [](handle<P>& mine, auto&) -> outcome {
    if (!mine.is_suspended) refuse_usage("the communicator is not suspended");
    mine.is_suspended = false;
    return {};
  };
  return with_communicator<P>("ncclCommResume", given, own,
                              passed_on(&other_library::CommResume, given));
}

/// Returns the bytes that a communicator holds on the rank's device, for all its ranks there.
inline std::size_t held_bytes(handle<chosen_platform> const& mine,
                              library<chosen_platform>::lock_type& held) {
  auto const all = mine.all;  // it outlives the wait
  int const device = mine.device;
  library<chosen_platform>::the().wait(held, [&] { return !all->is_busy(); }, [] {});
  return all->bytes_on(device);
}
result ncclCommMemStats(communicator* given, memory_statistic which, std::uint64_t* value) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto& held) -> outcome {
    expect_result(value);
    if (mine.all == nullptr) refuse_argument("the communicator is not complete yet");
    switch (which) {
      case memory_statistic::suspendable_bytes:
        *value = 0;
        return {};
      case memory_statistic::is_suspended:
        *value = mine.is_suspended ? 1 : 0;
        return {};
      case memory_statistic::persistent_bytes:
      case memory_statistic::total_bytes:
        *value = held_bytes(mine, held);
        return {};
    }
    refuse_argument("statistic " + std::to_string(static_cast<int>(which)) + ", expected 0 to 3");
  };
  return with_communicator<P>("ncclCommMemStats", given, own,
                              passed_on(&other_library::CommMemStats, given, which, value));
}

}  // namespace blink_nccl
