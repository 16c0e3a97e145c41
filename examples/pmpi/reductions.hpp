// SPDX-License-Identifier: Apache-2.0
#pragma once

// Any MPI operation on any predefined type as a reducer.

#include <blink/reducers/arithmetic.hpp>

#include "user_data.hpp"
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

namespace blink_pmpi {

/// A program's elements of any type, as many as fit; the operation is applied to all of them at once.
struct block {
  std::array<std::byte, 1024> bytes;
};

/// Applies an MPI operation to blocks, in the order of the ranks.
struct mpi_operation {
  static constexpr bool is_commutative = false;
  MPI_Op op = MPI_OP_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int elements = 0;  ///< of a block
  int* code = nullptr;

  block operator()(block const& a, block const& b) const {
    block result = b;
    int const now = PMPI_Reduce_local(a.bytes.data(), result.bytes.data(), elements, type, op);
    if (now != MPI_SUCCESS) *code = now;
    return result;
  }
};

template <class Handle>
bool is_one_of(Handle one, std::initializer_list<Handle> all) {
  return std::find(all.begin(), all.end(), one) != all.end();
}
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
/// Does MPI define the operation for the type? If not the library is to say so, which it does not
/// always do in MPI_Reduce_local. Operations of the program take any type.
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

/// Bytes of a buffer that is reduced; 0 if the library is to do it: the same on all ranks, as MPI wants
/// the type to be the same there.
inline std::uint64_t reduced_bytes(int count, MPI_Datatype type, MPI_Op op) {
  auto const facts = facts_of(type);
  bool const can_reduce = facts.is_named && is_defined(type, op) && facts.extent > 0 &&
                          sizeof(block) % facts.extent == 0;
  return can_reduce ? bytes_of(count, type) : 0;
}

/// Does blink combine these itself?
inline bool is_ours(MPI_Datatype type, MPI_Op op) {
  return op == MPI_SUM && (type == MPI_FLOAT || type == MPI_DOUBLE || type == MPI_INT);
}
/// A program's elements in one that blink combines.
inline std::size_t elements_of_unit(MPI_Datatype type, MPI_Op op) {
  return is_ours(type, op) ? 1 : sizeof(block) / facts_of(type).extent;
}

/// Calls `run(type_identity, reducer)`: elements of a C++ type where blink combines them itself, else
/// blocks. Returns what the operation returned.
template <class Run>
int with_units(MPI_Datatype type, MPI_Op op, Run const& run) {
  int code = MPI_SUCCESS;
  if (!is_ours(type, op)) {
    auto const elements = static_cast<int>(elements_of_unit(type, op));
    run(std::type_identity<block>{}, mpi_operation{op, type, elements, &code});
  }
  if (is_ours(type, op) && type == MPI_FLOAT) run(std::type_identity<float>{}, blink::sum{});
  if (is_ours(type, op) && type == MPI_DOUBLE) run(std::type_identity<double>{}, blink::sum{});
  if (is_ours(type, op) && type == MPI_INT) run(std::type_identity<int>{}, blink::sum{});
  return code;
}

/// Calls `run(input, output, units, reducer)`; what does not fill a block goes through one that is
/// filled up with zeros. The output may be null where there is none. Returns what the operation
/// returned.
template <class Run>
int reduce_units(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                 Run const& run) {
  auto const elements = static_cast<std::size_t>(count);
  std::size_t const each = elements_of_unit(type, op);
  std::size_t const units = elements / each;
  int code = with_units(type, op, [&](auto unit, auto const& reducer) {
    using T = typename decltype(unit)::type;
    if (units > 0) run(static_cast<T const*>(input), static_cast<T*>(output), units, reducer);
  });
  if (elements % each == 0) return code;
  mpi_operation const part{op, type, static_cast<int>(elements % each), &code};
  std::size_t const bytes = elements % each * facts_of(type).extent;
  block in{};
  block out{};
  std::memcpy(in.bytes.data(), static_cast<std::byte const*>(input) + units * sizeof(block), bytes);
  run(static_cast<block const*>(&in), output == nullptr ? nullptr : &out, 1, part);
  if (output != nullptr) {
    std::memcpy(static_cast<std::byte*>(output) + units * sizeof(block), out.bytes.data(), bytes);
  }
  return code;
}

}  // namespace blink_pmpi
