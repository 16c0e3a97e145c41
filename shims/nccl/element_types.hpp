// SPDX-License-Identifier: Apache-2.0
#pragma once

// NCCL's element types as C++ types, and its operations as reducers on them.

#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/small_float.hpp>

#include "abi.hpp"
#include "premultiplied_sum.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

/// X(name) for each type.
#define BLINK_NCCL_ALL_TYPES(X) \
  X(int8)                       \
  X(uint8)                      \
  X(int32)                      \
  X(uint32)                     \
  X(int64) X(uint64) X(float16) X(float32) X(float64) X(bfloat16) X(float8_e4m3) X(float8_e5m2)

namespace blink_nccl {

template <data_type Type>
struct element;
#define BLINK_NCCL_ELEMENT(name, cpp) \
  template <>                         \
  struct element<data_type::name> {   \
    using type = cpp;                 \
  };
BLINK_NCCL_ELEMENT(int8, std::int8_t)
BLINK_NCCL_ELEMENT(uint8, std::uint8_t)
BLINK_NCCL_ELEMENT(int32, std::int32_t)
BLINK_NCCL_ELEMENT(uint32, std::uint32_t)
BLINK_NCCL_ELEMENT(int64, std::int64_t)
BLINK_NCCL_ELEMENT(uint64, std::uint64_t)
BLINK_NCCL_ELEMENT(float16, blink::float16)
BLINK_NCCL_ELEMENT(float32, float)
BLINK_NCCL_ELEMENT(float64, double)
BLINK_NCCL_ELEMENT(bfloat16, blink::bfloat16)
BLINK_NCCL_ELEMENT(float8_e4m3, blink::float8_e4m3)
BLINK_NCCL_ELEMENT(float8_e5m2, blink::float8_e5m2)
#undef BLINK_NCCL_ELEMENT

template <data_type Type>
using element_t = typename element<Type>::type;

inline constexpr std::array<char const*, data_type_count> type_names{
    "int8",    "uint8",   "int32",   "uint32",   "int64",       "uint64",
    "float16", "float32", "float64", "bfloat16", "float8_e4m3", "float8_e5m2"};
inline constexpr std::array<std::size_t, data_type_count> type_bytes{1, 1, 4, 4, 8, 8,
                                                                     2, 4, 8, 2, 1, 1};

[[nodiscard]] constexpr bool is_type(data_type type) {
  return static_cast<int>(type) >= 0 && static_cast<int>(type) < data_type_count;
}
/// Pre: `is_type`.
[[nodiscard]] constexpr std::size_t bytes_of(data_type type) {
  return type_bytes[static_cast<std::size_t>(type)];
}
[[nodiscard]] inline std::string to_text(data_type type) {
  return is_type(type) ? type_names[static_cast<std::size_t>(type)]
                       : "type " + std::to_string(static_cast<int>(type));
}

[[nodiscard]] constexpr bool is_own(operation what) {
  return static_cast<int>(what) >= operation_count;
}
[[nodiscard]] inline std::string to_text(operation what) {
  constexpr std::array<char const*, operation_count> names{"sum", "prod", "max", "min", "avg"};
  int const number = static_cast<int>(what);
  if (number < 0) return "operation " + std::to_string(number);
  return is_own(what) ? "pre-multiplied sum" : names[static_cast<std::size_t>(number)];
}

/// The type in which elements are combined. Small floating-point types have no arithmetic, so they
/// use float.
template <class T>
using total_t = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

/// Calls `run(reducer)` with the reducer of an operation on elements of type `T`.
///
/// factors: of the ranks, for a pre-multiplied sum
/// Pre:     `what` is one of the five predefined operations or a pre-multiplied sum.
template <class T, class Run>
void with_reducer(operation what, premultiplied_sum<T, total_t<T>> const& factors, Run const& run) {
  auto const wide = [&](auto const& reduce) {
    if constexpr (std::is_arithmetic_v<T>) {
      run(reduce);
    } else {
      run(blink::accumulate_in<float>(reduce));
    }
  };
  switch (what) {
    case operation::sum:
      return wide(blink::sum{});
    case operation::prod:
      return wide(blink::prod{});
    case operation::avg:
      return wide(blink::avg{});
    case operation::max:
      return run(blink::max{});
    case operation::min:
      return run(blink::min{});
  }
  run(factors);
}

}  // namespace blink_nccl
