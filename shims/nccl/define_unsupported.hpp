// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that communicators of this library do not support: windows and one-sided calls,
// calls from a program's own kernels, NCCL's parameters, encryption. Those of the other library
// may. Included by one source.

#include "configurations.hpp"
#include "dispatch.hpp"
#include "functions.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace blink_nccl {

// --- windows and one-sided calls ---

inline constexpr unsupported no_windows{result::invalid_usage, "windows are not supported"};
inline constexpr unsupported no_one_sided{
    result::invalid_usage, "one-sided calls are not supported, because there are no windows"};

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
      "ncclCommWindowRegister", given, own,
      passed_on(&other_library::CommWindowRegister, given, memory, bytes, window, flags));
}
result ncclCommWindowDeregister(communicator* given, void* window) {
  using P = chosen_platform;
  auto const own = [&](handle<P>&, auto&) -> outcome {
    if (window != nullptr) refuse_usage(no_windows.text);
    return {};
  };
  return with_communicator<P>("ncclCommWindowDeregister", given, own,
                              passed_on(&other_library::CommWindowDeregister, given, window));
}
result ncclWinGetUserPtr(communicator* given, void* window, void** pointer) {
  return only_there<chosen_platform>("ncclWinGetUserPtr", no_windows, &other_library::WinGetUserPtr,
                                     given, window, pointer);
}

// A window without a communicator can only be of the other library.
result ncclGetLsaMultimemDevicePointer(void* window, std::size_t offset, void** pointer) {
  return only_there<chosen_platform>("ncclGetLsaMultimemDevicePointer", no_windows,
                                     &other_library::GetLsaMultimemDevicePointer, window, offset,
                                     pointer);
}
result ncclGetMultimemDevicePointer(void* window, std::size_t offset, multicast_handle multicast,
                                    void** pointer) {
  return only_there<chosen_platform>("ncclGetMultimemDevicePointer", no_windows,
                                     &other_library::GetMultimemDevicePointer, window, offset,
                                     multicast, pointer);
}
result ncclGetLsaDevicePointer(void* window, std::size_t offset, int rank, void** pointer) {
  return only_there<chosen_platform>("ncclGetLsaDevicePointer", no_windows,
                                     &other_library::GetLsaDevicePointer, window, offset, rank,
                                     pointer);
}
result ncclGetPeerDevicePointer(void* window, std::size_t offset, int peer, void** pointer) {
  return only_there<chosen_platform>("ncclGetPeerDevicePointer", no_windows,
                                     &other_library::GetPeerDevicePointer, window, offset, peer,
                                     pointer);
}
result ncclGetMultimemDeviceLeInfo(void* window, std::size_t offset, std::uint32_t* endpoint,
                                   std::size_t* endpoint_offset) {
  return only_there<chosen_platform>("ncclGetMultimemDeviceLeInfo", no_windows,
                                     &other_library::GetMultimemDeviceLeInfo, window, offset,
                                     endpoint, endpoint_offset);
}
result ncclGetCftDeviceLeInfo(void* window, std::size_t offset, int peer, rank_team team,
                              std::uint32_t* endpoint, std::size_t* endpoint_offset) {
  return only_there<chosen_platform>("ncclGetCftDeviceLeInfo", no_windows,
                                     &other_library::GetCftDeviceLeInfo, window, offset, peer, team,
                                     endpoint, endpoint_offset);
}
result ncclGetPeerDeviceLeInfo(void* window, std::size_t offset, int peer, std::uint32_t* endpoint,
                               std::size_t* endpoint_offset) {
  return only_there<chosen_platform>("ncclGetPeerDeviceLeInfo", no_windows,
                                     &other_library::GetPeerDeviceLeInfo, window, offset, peer,
                                     endpoint, endpoint_offset);
}

result ncclPutSignal(void const* input, std::size_t count, data_type type, int peer, void* window,
                     std::size_t offset, int signal, int context, unsigned flags,
                     communicator* given, stream_handle stream) {
  return only_there<chosen_platform>("ncclPutSignal", no_one_sided, &other_library::PutSignal,
                                     input, count, type, peer, window, offset, signal, context,
                                     flags, given, stream);
}
result ncclSignal(int peer, int signal, int context, unsigned flags, communicator* given,
                  stream_handle stream) {
  return only_there<chosen_platform>("ncclSignal", no_one_sided, &other_library::Signal, peer,
                                     signal, context, flags, given, stream);
}
result ncclWaitSignal(int count, void* signals, communicator* given, stream_handle stream) {
  return only_there<chosen_platform>("ncclWaitSignal", no_one_sided, &other_library::WaitSignal,
                                     count, signals, given, stream);
}

// --- calls from a program's own kernels ---

inline constexpr unsupported no_kernels{result::invalid_usage,
                                        "calls from a program's own kernels are not supported"};
inline constexpr unsupported no_device_communicator{
    result::invalid_usage, "no device communicator, because ncclDevCommCreate is not supported"};

result ncclDevCommCreate(communicator* given, void const* wanted, void* where) {
  return only_there<chosen_platform>("ncclDevCommCreate", no_kernels, &other_library::DevCommCreate,
                                     given, wanted, where);
}
result ncclDevCommDestroy(communicator* given, void const* made) {
  return only_there<chosen_platform>("ncclDevCommDestroy", no_device_communicator,
                                     &other_library::DevCommDestroy, given, made);
}
result ncclGinBarrierCreateRequirement(communicator* given, rank_team team, int barriers,
                                       void* where, void* wanted) {
  return only_there<chosen_platform>("ncclGinBarrierCreateRequirement", no_kernels,
                                     &other_library::GinBarrierCreateRequirement, given, team,
                                     barriers, where, wanted);
}
result ncclLsaBarrierCreateRequirement(rank_team team, int barriers, void* where, void* wanted) {
  return only_there<chosen_platform>("ncclLsaBarrierCreateRequirement", no_kernels,
                                     &other_library::LsaBarrierCreateRequirement, team, barriers,
                                     where, wanted);
}
result ncclLLA2ACreateRequirement(int blocks, int slots, void* where, void* wanted) {
  return only_there<chosen_platform>("ncclLLA2ACreateRequirement", no_kernels,
                                     &other_library::LLA2ACreateRequirement, blocks, slots, where,
                                     wanted);
}
result ncclGinOutboxCreateRequirement(int blocks, int logarithm, void* where, void* wanted) {
  return only_there<chosen_platform>("ncclGinOutboxCreateRequirement", no_kernels,
                                     &other_library::GinOutboxCreateRequirement, blocks, logarithm,
                                     where, wanted);
}
result ncclGinInboxA2ACreateRequirement(rank_team peers, int blocks, int logarithm, void* where,
                                        void* wanted) {
  return only_there<chosen_platform>("ncclGinInboxA2ACreateRequirement", no_kernels,
                                     &other_library::GinInboxA2ACreateRequirement, peers, blocks,
                                     logarithm, where, wanted);
}
/// The slots of 8 bytes for `elements` elements.
int ncclLLA2ACalcSlots(int elements, int element_bytes) {
  return elements * ((element_bytes + 7) / 8);
}

// --- parameters and encryption ---

/// Accepts sockets without encryption. A key is refused, because nothing would use it.
result ncclSetEncryption(encryption_configuration const* config) {
  return guarded<chosen_platform>("ncclSetEncryption", [&]() -> outcome {
    expect_result(config);
    expect_structure("configuration of encryption", *config);
    if (fallback() != nullptr) return call_there(fallback()->SetEncryption, config);
    if (config->mode != encryption_configuration::none) {
      refuse_usage("mode " + std::to_string(config->mode) +
                   " is not supported, because no sockets are opened: expected 0");
    }
    return {};
  });
}

inline constexpr unsupported no_parameter{
    result::invalid_argument, "the parameter is unknown, because this library has none of NCCL"};

result ncclParamBind(void** parameter, char const* name) {
  return only_there<chosen_platform>("ncclParamBind", no_parameter, &other_library::ParamBind,
                                     parameter, name);
}
result ncclParamGetI8(void* parameter, std::int8_t* value) {
  return only_there<chosen_platform>("ncclParamGetI8", no_parameter, &other_library::ParamGetI8,
                                     parameter, value);
}
result ncclParamGetI16(void* parameter, std::int16_t* value) {
  return only_there<chosen_platform>("ncclParamGetI16", no_parameter, &other_library::ParamGetI16,
                                     parameter, value);
}
result ncclParamGetI32(void* parameter, std::int32_t* value) {
  return only_there<chosen_platform>("ncclParamGetI32", no_parameter, &other_library::ParamGetI32,
                                     parameter, value);
}
result ncclParamGetI64(void* parameter, std::int64_t* value) {
  return only_there<chosen_platform>("ncclParamGetI64", no_parameter, &other_library::ParamGetI64,
                                     parameter, value);
}
result ncclParamGetU8(void* parameter, std::uint8_t* value) {
  return only_there<chosen_platform>("ncclParamGetU8", no_parameter, &other_library::ParamGetU8,
                                     parameter, value);
}
result ncclParamGetU16(void* parameter, std::uint16_t* value) {
  return only_there<chosen_platform>("ncclParamGetU16", no_parameter, &other_library::ParamGetU16,
                                     parameter, value);
}
result ncclParamGetU32(void* parameter, std::uint32_t* value) {
  return only_there<chosen_platform>("ncclParamGetU32", no_parameter, &other_library::ParamGetU32,
                                     parameter, value);
}
result ncclParamGetU64(void* parameter, std::uint64_t* value) {
  return only_there<chosen_platform>("ncclParamGetU64", no_parameter, &other_library::ParamGetU64,
                                     parameter, value);
}
result ncclParamGetStr(void* parameter, char const** value) {
  return only_there<chosen_platform>("ncclParamGetStr", no_parameter, &other_library::ParamGetStr,
                                     parameter, value);
}
result ncclParamGet(void* parameter, void* value, int most_bytes, int* bytes) {
  return only_there<chosen_platform>("ncclParamGet", no_parameter, &other_library::ParamGet,
                                     parameter, value, most_bytes, bytes);
}
result ncclParamGetParameter(char const* name, char const** value, int* length) {
  return only_there<chosen_platform>("ncclParamGetParameter", no_parameter,
                                     &other_library::ParamGetParameter, name, value, length);
}
/// Returns an empty table without the other library.
result ncclParamGetAllParameterKeys(char const*** table, int* count) {
  return guarded<chosen_platform>("ncclParamGetAllParameterKeys", [&]() -> outcome {
    expect_result(table);
    expect_result(count);
    if (fallback() != nullptr)
      return call_there(fallback()->ParamGetAllParameterKeys, table, count);
    static char const* none = nullptr;
    *table = &none;
    *count = 0;
    return {};
  });
}
void ncclParamDumpAll() {
  (void)guarded<chosen_platform>("ncclParamDumpAll", []() -> outcome {
    if (fallback() != nullptr && fallback()->ParamDumpAll != nullptr) fallback()->ParamDumpAll();
    return {};
  });
}

}  // namespace blink_nccl
