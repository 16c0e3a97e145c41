// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions for parameters and encryption. This library has no parameters of NCCL and opens no
// sockets. Included by one source.

#include "configurations.hpp"
#include "dispatch.hpp"
#include "functions.hpp"

#include <cstdint>
#include <string>

namespace blink_nccl {

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

inline outcome of_no_parameter() {
  return {result::invalid_argument,
          "the parameter is unknown, because this library has none of NCCL"};
}

result ncclParamBind(void** parameter, char const* name) {
  return only_there<chosen_platform>("ncclParamBind", of_no_parameter(), &other_library::ParamBind,
                                     parameter, name);
}
result ncclParamGetI8(void* parameter, std::int8_t* value) {
  return only_there<chosen_platform>("ncclParamGetI8", of_no_parameter(),
                                     &other_library::ParamGetI8, parameter, value);
}
result ncclParamGetI16(void* parameter, std::int16_t* value) {
  return only_there<chosen_platform>("ncclParamGetI16", of_no_parameter(),
                                     &other_library::ParamGetI16, parameter, value);
}
result ncclParamGetI32(void* parameter, std::int32_t* value) {
  return only_there<chosen_platform>("ncclParamGetI32", of_no_parameter(),
                                     &other_library::ParamGetI32, parameter, value);
}
result ncclParamGetI64(void* parameter, std::int64_t* value) {
  return only_there<chosen_platform>("ncclParamGetI64", of_no_parameter(),
                                     &other_library::ParamGetI64, parameter, value);
}
result ncclParamGetU8(void* parameter, std::uint8_t* value) {
  return only_there<chosen_platform>("ncclParamGetU8", of_no_parameter(),
                                     &other_library::ParamGetU8, parameter, value);
}
result ncclParamGetU16(void* parameter, std::uint16_t* value) {
  return only_there<chosen_platform>("ncclParamGetU16", of_no_parameter(),
                                     &other_library::ParamGetU16, parameter, value);
}
result ncclParamGetU32(void* parameter, std::uint32_t* value) {
  return only_there<chosen_platform>("ncclParamGetU32", of_no_parameter(),
                                     &other_library::ParamGetU32, parameter, value);
}
result ncclParamGetU64(void* parameter, std::uint64_t* value) {
  return only_there<chosen_platform>("ncclParamGetU64", of_no_parameter(),
                                     &other_library::ParamGetU64, parameter, value);
}
result ncclParamGetStr(void* parameter, char const** value) {
  return only_there<chosen_platform>("ncclParamGetStr", of_no_parameter(),
                                     &other_library::ParamGetStr, parameter, value);
}
result ncclParamGet(void* parameter, void* value, int most_bytes, int* bytes) {
  return only_there<chosen_platform>("ncclParamGet", of_no_parameter(), &other_library::ParamGet,
                                     parameter, value, most_bytes, bytes);
}
result ncclParamGetParameter(char const* name, char const** value, int* length) {
  return only_there<chosen_platform>("ncclParamGetParameter", of_no_parameter(),
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
