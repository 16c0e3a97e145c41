// SPDX-License-Identifier: Apache-2.0
#pragma once

// Any MPI operation on any predefined type, as a reducer.

#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/detail/rows.hpp>
#include <blink/reducers/reducer.hpp>

#include "user_data.hpp"
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <vector>

namespace blink_pmpi {

template <class Handle>
bool is_one_of(Handle one, std::initializer_list<Handle> all) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// Applies an MPI operation to elements of any type, as bytes, in the order of the ranks.
struct mpi_operation {
  static constexpr bool is_commutative = false;
  static constexpr std::size_t most_unit = 1024;
  MPI_Op op = MPI_OP_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::size_t extent = 1;
  int* code = nullptr;

  [[nodiscard]] std::size_t unit() const { return extent; }
  /// Returns the number of an operation of the library, which ranks compare; 0 for an operation of
  /// the program, whose handles differ between processes.
  [[nodiscard]] std::uint64_t common_state() const {
    std::array const of_library{MPI_MAX,  MPI_MIN,  MPI_SUM, MPI_PROD, MPI_LAND,   MPI_LOR,
                                MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MAXLOC, MPI_MINLOC};
    auto const known = std::find(of_library.begin(), of_library.end(), op);
    return known == of_library.end() ? 0
                                     : static_cast<std::uint64_t>(known - of_library.begin()) + 1;
  }
  void combine(std::byte const* a, std::byte const* b, std::byte* result, std::size_t count) const {
    auto const into_second = [this](void const* in, void* inout, std::size_t n) {
      int const now = PMPI_Reduce_local(in, inout, static_cast<int>(n), type, op);
      if (now != MPI_SUCCESS) *code = now;
    };
    blink::detail::combine_into_second(a, b, result, count / extent, extent, into_second);
  }
  std::byte operator()(std::byte, std::byte) const;  // for its type only
};
static_assert(blink::combines_arrays<mpi_operation, std::byte> && blink::has_unit<mpi_operation>);

inline bool is_integer(MPI_Datatype type) {
  return is_one_of(type, {MPI_INT,           MPI_LONG,           MPI_SHORT,
                          MPI_LONG_LONG,     MPI_SIGNED_CHAR,    MPI_UNSIGNED,
                          MPI_UNSIGNED_LONG, MPI_UNSIGNED_SHORT, MPI_UNSIGNED_LONG_LONG,
                          MPI_UNSIGNED_CHAR, MPI_INT8_T,         MPI_INT16_T,
                          MPI_INT32_T,       MPI_INT64_T,        MPI_UINT8_T,
                          MPI_UINT16_T,      MPI_UINT32_T,       MPI_UINT64_T,
                          MPI_AINT,          MPI_COUNT,          MPI_OFFSET,
                          MPI_INTEGER});
}
inline bool is_floating(MPI_Datatype type) {
  return is_one_of(type, {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION});
}
/// True if MPI defines the operation for the type. Otherwise the call goes to the library, which
/// reports the error; MPI_Reduce_local does not always do so. Operations of the program take any
/// type.
inline bool is_defined(MPI_Datatype type, MPI_Op op) {
  if (is_one_of(op, {MPI_MAX, MPI_MIN})) return is_floating(type) || is_integer(type);
  if (is_one_of(op, {MPI_SUM, MPI_PROD})) {
    return is_floating(type) || is_integer(type) ||
           is_one_of(type, {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX,
                            MPI_COMPLEX, MPI_DOUBLE_COMPLEX});
  }
  if (is_one_of(op, {MPI_LAND, MPI_LOR, MPI_LXOR})) {
    return is_integer(type) || is_one_of(type, {MPI_C_BOOL, MPI_CXX_BOOL, MPI_LOGICAL});
  }
  if (is_one_of(op, {MPI_BAND, MPI_BOR, MPI_BXOR})) return is_integer(type) || type == MPI_BYTE;
  if (is_one_of(op, {MPI_MINLOC, MPI_MAXLOC})) {
    return is_one_of(type, {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT, MPI_2INT,
                            MPI_LONG_DOUBLE_INT, MPI_2REAL, MPI_2DOUBLE_PRECISION, MPI_2INTEGER});
  }
  return !is_one_of(op, {MPI_OP_NULL, MPI_REPLACE, MPI_NO_OP});
}

/// Returns the bytes of a buffer to reduce; 0 if the MPI library must reduce it. Equal on all
/// ranks, because MPI requires equal types in reductions.
inline std::uint64_t reduced_bytes(int count, MPI_Datatype type, MPI_Op op) {
  auto const facts = facts_of(type);
  bool const can_reduce = facts.is_named && is_defined(type, op) && facts.extent > 0 &&
                          static_cast<std::size_t>(facts.extent) <= mpi_operation::most_unit;
  return can_reduce ? bytes_of(count, type) : 0;
}

/// True if blink combines the type and operation itself.
inline bool is_ours(MPI_Datatype type, MPI_Op op) {
  return op == MPI_SUM && (type == MPI_FLOAT || type == MPI_DOUBLE || type == MPI_INT);
}
/// Calls `run(type_identity)` with the C++ type of an MPI type that blink combines itself.
///
/// Pre:    `is_ours`.
template <class Run>
void with_our_type(MPI_Datatype type, Run const& run) {
  if (type == MPI_FLOAT) run(std::type_identity<float>{});
  if (type == MPI_DOUBLE) run(std::type_identity<double>{});
  if (type == MPI_INT) run(std::type_identity<int>{});
}

/// Calls `run(input, output)` with buffers that are aligned for their elements: those of the
/// program, or copies.
template <class T, class Run>
void with_aligned(void const* input, void* output, std::size_t in_count, std::size_t out_count,
                  Run const& run) {
  auto const is_aligned = [](void const* at) {
    return reinterpret_cast<std::uintptr_t>(at) % alignof(T) == 0;
  };
  std::vector<T> in(is_aligned(input) ? 0 : in_count), out(is_aligned(output) ? 0 : out_count);
  if (!in.empty()) std::memcpy(in.data(), input, in_count * sizeof(T));
  run(in.empty() ? static_cast<T const*>(input) : in.data(),
      out.empty() ? static_cast<T*>(output) : out.data());
  if (!out.empty()) std::memcpy(output, out.data(), out_count * sizeof(T));
}

/// Calls `run(input, output, count, reducer)` once.
///
/// The elements are of a C++ type that blink combines itself, or bytes. The output may be null if
/// there is none. Returns the result of the operation.
template <class Run>
int reduce_elements(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                    Run const& run) {
  auto const elements = static_cast<std::size_t>(count);
  int code = MPI_SUCCESS;
  if (is_ours(type, op)) {
    with_our_type(type, [&](auto ours) {
      using T = typename decltype(ours)::type;
      with_aligned<T>(input, output, elements, output == nullptr ? 0 : elements,
                      [&](T const* in, T* out) { run(in, out, elements, blink::sum{}); });
    });
  } else {
    mpi_operation const reduce{op, type, static_cast<std::size_t>(facts_of(type).extent), &code};
    run(static_cast<std::byte const*>(input), static_cast<std::byte*>(output),
        elements * reduce.extent, reduce);
  }
  return code;
}

}  // namespace blink_pmpi
