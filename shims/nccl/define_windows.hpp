// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions for windows and one-sided calls. Communicators of this library have neither. Those
// of the other library may have them. Included by one source.

#include "dispatch.hpp"
#include "functions.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace blink_nccl {

inline constexpr char const* no_windows = "windows are not supported";
inline constexpr char const* no_one_sided =
    "one-sided calls are not supported, because there are no windows";

/// Returns a null window, which is NCCL's answer where windows are not supported. Collectives need
/// none. Calls that need one are refused.
result ncclCommWindowRegister(communicator* given, void* memory, std::size_t bytes, void** window,
                              int flags) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto&) -> outcome {
    expect_result(window);
    *window = nullptr;
    if (memory == nullptr || bytes == 0) {
      refuse_argument("memory is null or bytes is 0, expected memory");
    }
    mine.expect_usable();
    last_error() = "ncclCommWindowRegister: windows are not supported, the window is null";
    if (reports_errors()) std::fprintf(stderr, "blink: %s\n", last_error().c_str());
    return {};
  };
  return with_communicator<P>(
      "ncclCommWindowRegister", given, own, [&](auto const& there, auto* theirs) {
        return call_there(there.CommWindowRegister, theirs, memory, bytes, window, flags);
      });
}
result ncclCommWindowDeregister(communicator* given, void* window) {
  using P = chosen_platform;
  auto const own = [&](handle<P>&, auto&) -> outcome {
    if (window != nullptr) refuse_usage(no_windows);
    return {};
  };
  return with_communicator<P>("ncclCommWindowDeregister", given, own,
                              [&](auto const& there, auto* theirs) {
                                return call_there(there.CommWindowDeregister, theirs, window);
                              });
}
result ncclWinGetUserPtr(communicator* given, void* window, void** pointer) {
  return refuse_own<chosen_platform>(
      "ncclWinGetUserPtr", no_windows, given, [&](auto const& there, auto* theirs) {
        return call_there(there.WinGetUserPtr, theirs, window, pointer);
      });
}

// A window without a communicator can only be of the other library.

inline outcome of_no_window() {
  return {result::invalid_usage, no_windows};
}
result ncclGetLsaMultimemDevicePointer(void* window, std::size_t offset, void** pointer) {
  return only_there<chosen_platform>("ncclGetLsaMultimemDevicePointer", of_no_window(),
                                     &other_library::GetLsaMultimemDevicePointer, window, offset,
                                     pointer);
}
result ncclGetMultimemDevicePointer(void* window, std::size_t offset, multicast_handle multicast,
                                    void** pointer) {
  return only_there<chosen_platform>("ncclGetMultimemDevicePointer", of_no_window(),
                                     &other_library::GetMultimemDevicePointer, window, offset,
                                     multicast, pointer);
}
result ncclGetLsaDevicePointer(void* window, std::size_t offset, int rank, void** pointer) {
  return only_there<chosen_platform>("ncclGetLsaDevicePointer", of_no_window(),
                                     &other_library::GetLsaDevicePointer, window, offset, rank,
                                     pointer);
}
result ncclGetPeerDevicePointer(void* window, std::size_t offset, int peer, void** pointer) {
  return only_there<chosen_platform>("ncclGetPeerDevicePointer", of_no_window(),
                                     &other_library::GetPeerDevicePointer, window, offset, peer,
                                     pointer);
}
result ncclGetMultimemDeviceLeInfo(void* window, std::size_t offset, std::uint32_t* endpoint,
                                   std::size_t* endpoint_offset) {
  return only_there<chosen_platform>("ncclGetMultimemDeviceLeInfo", of_no_window(),
                                     &other_library::GetMultimemDeviceLeInfo, window, offset,
                                     endpoint, endpoint_offset);
}
result ncclGetCftDeviceLeInfo(void* window, std::size_t offset, int peer, rank_team team,
                              std::uint32_t* endpoint, std::size_t* endpoint_offset) {
  return only_there<chosen_platform>("ncclGetCftDeviceLeInfo", of_no_window(),
                                     &other_library::GetCftDeviceLeInfo, window, offset, peer, team,
                                     endpoint, endpoint_offset);
}
result ncclGetPeerDeviceLeInfo(void* window, std::size_t offset, int peer, std::uint32_t* endpoint,
                               std::size_t* endpoint_offset) {
  return only_there<chosen_platform>("ncclGetPeerDeviceLeInfo", of_no_window(),
                                     &other_library::GetPeerDeviceLeInfo, window, offset, peer,
                                     endpoint, endpoint_offset);
}

result ncclPutSignal(void const* input, std::size_t count, data_type type, int peer, void* window,
                     std::size_t offset, int signal, int context, unsigned flags,
                     communicator* given, stream_handle stream) {
  return refuse_own<chosen_platform>(
      "ncclPutSignal", no_one_sided, given, [&](auto const& there, auto* theirs) {
        return call_there(there.PutSignal, input, count, type, peer, window, offset, signal,
                          context, flags, theirs, stream);
      });
}
result ncclSignal(int peer, int signal, int context, unsigned flags, communicator* given,
                  stream_handle stream) {
  return refuse_own<chosen_platform>(
      "ncclSignal", no_one_sided, given, [&](auto const& there, auto* theirs) {
        return call_there(there.Signal, peer, signal, context, flags, theirs, stream);
      });
}
result ncclWaitSignal(int count, void* signals, communicator* given, stream_handle stream) {
  return refuse_own<chosen_platform>(
      "ncclWaitSignal", no_one_sided, given, [&](auto const& there, auto* theirs) {
        return call_there(there.WaitSignal, count, signals, theirs, stream);
      });
}

}  // namespace blink_nccl
