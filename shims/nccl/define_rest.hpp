// SPDX-License-Identifier: Apache-2.0
#pragma once

// The other functions: versions, groups, queries, operations. Included by one source.

#include <blink/core/detail/hash.hpp>

#include "configurations.hpp"
#include "dispatch.hpp"
#include "functions.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
// Logging is not set up here, so that there is nothing to read again.
void ncclResetDebugInit() {}
void ncclResetDebugInitInternal() {}

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
/// Ends the group without its calls. No time is predicted, which NCCL's value for "unset" says.
result ncclGroupSimulateEnd(simulation_info* info) {
  using P = chosen_platform;
  return guarded<P>("ncclGroupSimulateEnd", [&]() -> outcome {
    expect_result(info);
    expect_structure("simulation info", *info);
    return group<P>::of_thread().simulate(*info);
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
    if (mine.is_revoked) {
      *code = mine.all->is_idle() ? result::success : result::in_progress;
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

/// A number that is equal on all ranks of a communicator, and differs from that of others.
[[nodiscard]] inline std::uint64_t hash_of(handle<chosen_platform> const& mine) {
  blink::detail::hash all;
  all.add(mine.all->number());
  if (mine.all->number() == 0) all.add(reinterpret_cast<std::uintptr_t>(mine.all.get()));
  return all.value();
}
/// Fills the fields that the program's version of the structure has. Nothing that programs' own
/// kernels need is supported.
inline void describe(handle<chosen_platform> const& mine, communicator_properties& to) {
  communicator_properties all{};
  all.size = to.size;
  all.magic = to.magic;
  all.version = to.version;
  all.rank = mine.rank;
  all.rank_count = mine.rank_count;
  all.device = mine.device;
  all.management_device = -1;  // not known
  all.load_store_teams = mine.rank_count;
  all.hash = hash_of(mine);
  std::memcpy(&to, &all, std::min(to.size, sizeof all));
}
result ncclCommQueryProperties(communicator* given, communicator_properties* to) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto&) -> outcome {
    expect_result(to);
    expect_structure("structure of properties", *to,
                     offsetof(communicator_properties, load_store_teams));
    mine.expect_complete();
    describe(mine, *to);
    return {};
  };
  return with_communicator<P>("ncclCommQueryProperties", given, own,
                              [&](auto const& there, auto* theirs) {
                                return call_there(there.CommQueryProperties, theirs, to);
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
