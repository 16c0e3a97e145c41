// SPDX-License-Identifier: Apache-2.0
#pragma once

// Any MPI operation on any predefined type as a reducer.

#include <blink/reducers/arithmetic.hpp>

#include "user_data.hpp"
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// Is it the same on all ranks that blink reduces these? MPI wants the type to be the same there.
inline bool can_reduce(MPI_Datatype type, MPI_Op op) {
  return op != MPI_OP_NULL && is_named(type) && extent_of(type) > 0 &&
         sizeof(block) % extent_of(type) == 0;
}
/// Bytes of a buffer that is reduced; 0 if the library is to do it.
inline std::uint64_t reduced_bytes(int count, MPI_Datatype type, MPI_Op op) {
  return can_reduce(type, op) ? bytes_of(count, type) : 0;
}

/// Does blink combine these itself?
inline bool is_ours(MPI_Datatype type, MPI_Op op) {
  return op == MPI_SUM && (type == MPI_FLOAT || type == MPI_DOUBLE || type == MPI_INT);
}
/// A program's elements in one that blink combines.
inline std::size_t elements_of_unit(MPI_Datatype type, MPI_Op op) {
  return is_ours(type, op) ? 1 : sizeof(block) / extent_of(type);
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
  std::size_t const bytes = elements % each * extent_of(type);
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
