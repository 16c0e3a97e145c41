// SPDX-License-Identifier: Apache-2.0
#pragma once

// The other functions: versions, groups, queries, memory, operations. Included by one source.

#include "dispatch.hpp"
#include "functions.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace blink_nccl {

result ncclGetVersion(int* version) {
  return guarded<chosen_platform>("ncclGetVersion", [&]() -> outcome {
    expect_result(version);
    *version = interface_version;
    return {};
  });
}
result ncclGetUniqueId(unique_id* id) {
  using P = chosen_platform;
  return guarded<P>("ncclGetUniqueId", [&]() -> outcome {
    expect_result(id);
    auto& ids = library<P>::the().ids;
    if (fallback() == nullptr) {
      auto const held = library<P>::the().lock();
      *id = ids.make();
      return {};
    }
    auto const how = call_there(fallback()->GetUniqueId, id);
    auto const held = library<P>::the().lock();
    if (how.code != result::success) return how;
    bool const has_meeting = unique_ids::is_markable(*id) && covers_processes();
    *id = has_meeting ? ids.make(*id) : ids.remember(*id);
    return how;
  });
}

char const* ncclGetErrorString(result code) {
  return to_text(code);
}
char const* ncclGetLastError(communicator* given) {
  using P = chosen_platform;
  try {
    auto held = library<P>::the().lock();
    if (given != nullptr) {
      auto& mine = library<P>::the().find(given);
      if (auto* const theirs = mine.forwarded; theirs != nullptr) {
        held.unlock();
        return fallback()->GetLastError == nullptr ? "" : fallback()->GetLastError(theirs);
      }
      if (mine.all != nullptr && mine.all->health().code != result::success) {
        mine.reported = mine.all->health().text;
        return mine.reported.c_str();
      }
    }
  } catch (refusal const&) {  // there may be no communicator after a failure
  }
  return last_error().c_str();
}
void ncclResetDebugInit() {}

result ncclGroupStart() {
  using P = chosen_platform;
  return guarded<P>("ncclGroupStart", []() -> outcome {
    group<P>::of_thread().start();
    return {};
  });
}
result ncclGroupEnd() {
  using P = chosen_platform;
  return guarded<P>("ncclGroupEnd", [] { return group<P>::of_thread().end(); });
}
result ncclGroupSimulateEnd(void*) {
  using P = chosen_platform;
  return guarded<P>("ncclGroupSimulateEnd", []() -> outcome {
    outcome const why{result::invalid_usage,
                      "not supported: no times are predicted; the group was dropped"};
    group<P>::of_thread().drop(why);
    return why;
  });
}

result ncclCommGetAsyncError(communicator* given, result* code) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto&) -> outcome {
    expect_result(code);
    auto& home = library<P>::the();
    *code = mine.trouble.code;
    if (*code != result::success) return {};
    if (mine.all == nullptr) {
      home.look_after(mine);
      *code = mine.trouble.code != result::success ? mine.trouble.code : result::in_progress;
      return {};
    }
    if (mine.latest != nullptr) {
      mine.all->expect_progress(*mine.latest);
      home.notify();
      *code = mine.latest->is_over ? mine.latest->ending.code : result::in_progress;
    }
    if (mine.all->health().code != result::success) *code = mine.all->health().code;
    return {};
  };
  return with_communicator<P>("ncclCommGetAsyncError", given, own,
                              [&](auto const& there, auto* theirs) {
                                return call_there(there.CommGetAsyncError, theirs, code);
                              });
}

/// Writes a property of a communicator, `take(handle)`, to `where`.
template <class Take, class There>
result ask(char const* name, communicator* given, int* where, Take const& take,
           There const& there) {
  using P = chosen_platform;
  return with_communicator<P>(
      name, given,
      [&](handle<P>& mine, auto&) -> outcome {
        expect_result(where);
        *where = take(mine);
        return {};
      },
      there);
}
result ncclCommCount(communicator* given, int* count) {
  return ask(
      "ncclCommCount", given, count, [](auto const& mine) { return mine.rank_count; },
      [&](auto const& there, auto* theirs) { return call_there(there.CommCount, theirs, count); });
}
result ncclCommCuDevice(communicator* given, int* device) {
  return ask(
      "ncclCommCuDevice", given, device, [](auto const& mine) { return mine.device; },
      [&](auto const& there, auto* theirs) {
        return call_there(there.CommCuDevice, theirs, device);
      });
}
result ncclCommUserRank(communicator* given, int* rank) {
  return ask(
      "ncclCommUserRank", given, rank, [](auto const& mine) { return mine.rank; },
      [&](auto const& there, auto* theirs) {
        return call_there(there.CommUserRank, theirs, rank);
      });
}

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
  return with_communicator<P>("ncclCommRegister", given, own, [&](auto const& there, auto* theirs) {
    return call_there(there.CommRegister, theirs, memory, bytes, registered);
  });
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
                              [&](auto const& there, auto* theirs) {
                                return call_there(there.CommDeregister, theirs, registered);
                              });
}
result ncclCommWindowRegister(communicator* given, void* memory, std::size_t bytes, void** window,
                              int flags) {
  using P = chosen_platform;
  return with_communicator<P>(
      "ncclCommWindowRegister", given,
      [](handle<P>&, auto&) -> outcome { refuse_usage("windows are not supported"); },
      [&](auto const& there, auto* theirs) {
        return call_there(there.CommWindowRegister, theirs, memory, bytes, window, flags);
      });
}
result ncclCommWindowDeregister(communicator* given, void* window) {
  using P = chosen_platform;
  return with_communicator<P>(
      "ncclCommWindowDeregister", given,
      [](handle<P>&, auto&) -> outcome { refuse_usage("windows are not supported"); },
      [&](auto const& there, auto* theirs) {
        return call_there(there.CommWindowDeregister, theirs, window);
      });
}

result ncclDevCommCreate(communicator*, void const*, void*) {
  return guarded<chosen_platform>("ncclDevCommCreate", []() -> outcome {
    refuse_usage("calls from a program's own kernels are not supported");
  });
}
result ncclDevCommDestroy(communicator*, void const*) {
  return guarded<chosen_platform>("ncclDevCommDestroy", []() -> outcome {
    refuse_usage("no device communicator, because ncclDevCommCreate is not supported");
  });
}

result ncclRedOpCreatePreMulSum(operation* where, void* factor, data_type type, residence place,
                                communicator* given) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto&) -> outcome {
    expect_result(where);
    expect_type(type);
    if (factor == nullptr) refuse_argument("the factor is null");
    given_factor made{.type = type};
    if (place == residence::host_immediate) {
      std::memcpy(made.value.data(), factor, bytes_of(type));
    } else if (place == residence::device) {
      made.at = factor;
    } else {
      refuse_argument("residence " + std::to_string(static_cast<int>(place)) + ", expected 0 or 1");
    }
    *where = mine.add_operation(made);
    return {};
  };
  return with_communicator<P>(
      "ncclRedOpCreatePreMulSum", given, own, [&](auto const& there, auto* theirs) {
        return call_there(there.RedOpCreatePreMulSum, where, factor, type, place, theirs);
      });
}
result ncclRedOpDestroy(operation what, communicator* given) {
  using P = chosen_platform;
  return with_communicator<P>(
      "ncclRedOpDestroy", given,
      [&](handle<P>& mine, auto&) -> outcome {
        mine.factor_of(what).reset();
        return {};
      },
      [&](auto const& there, auto* theirs) {
        return call_there(there.RedOpDestroy, what, theirs);
      });
}

}  // namespace blink_nccl
