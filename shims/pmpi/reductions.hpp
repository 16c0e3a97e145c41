// SPDX-License-Identifier: Apache-2.0
#pragma once

// Any MPI operation on any predefined type, as a reducer.

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
#include <vector>

namespace blink_pmpi {

/// As many elements of any type as fill a block, used in place. An operation is applied to the
/// whole block at once.
struct block {
  std::array<std::byte, 1024> bytes;
};
/// A copy of elements that do not fill a block. It counts its elements, because a program's
/// operation must not see bytes beyond them.
template <std::size_t Room>
struct part {
  alignas(16) std::array<std::byte, Room> bytes{};
  int elements = 0;
};
using small_part = part<48>;
using large_part = part<sizeof(block)>;

template <class Handle>
bool is_one_of(Handle one, std::initializer_list<Handle> all) {
  return std::find(all.begin(), all.end(), one) != all.end();
}
/// Applies an MPI operation to blocks or parts, in the order of the ranks.
struct mpi_operation {
  static constexpr bool is_commutative = false;
  MPI_Op op = MPI_OP_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  int elements = 0;  ///< of a block
  int* code = nullptr;

  /// Returns the number of an operation of the library, which ranks compare; 0 for an operation of
  /// the program, whose handles differ between processes.
  [[nodiscard]] std::uint64_t common_state() const {
    std::array const of_library{MPI_MAX,  MPI_MIN,  MPI_SUM, MPI_PROD, MPI_LAND,   MPI_LOR,
                                MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MAXLOC, MPI_MINLOC};
    auto const known = std::find(of_library.begin(), of_library.end(), op);
    return known == of_library.end() ? 0
                                     : static_cast<std::uint64_t>(known - of_library.begin()) + 1;
  }

  block operator()(block const& a, block const& b) const { return combined(a, b, elements); }
  template <std::size_t Room>
  part<Room> operator()(part<Room> const& a, part<Room> const& b) const {
    return combined(a, b, b.elements);
  }

 private:
  template <class T>
  [[nodiscard]] T combined(T const& a, T const& b, int count) const {
    T result = b;
    int const now = PMPI_Reduce_local(a.bytes.data(), result.bytes.data(), count, type, op);
    if (now != MPI_SUCCESS) *code = now;
    return result;
  }
};

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
                          sizeof(block) % facts.extent == 0;
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

/// Elements that do not fill blocks, in parts.
template <class Part>
class in_parts {
 public:
  explicit in_parts(std::size_t extent) : extent_(extent), each_(sizeof(Part::bytes) / extent) {}
  [[nodiscard]] std::size_t parts_of(std::size_t elements) const {
    return (elements + each_ - 1) / each_;
  }
  void fill(Part* parts, void const* from, std::size_t elements) const {
    for_each(elements, [&](std::size_t index, std::size_t offset, std::size_t count) {
      parts[index].elements = static_cast<int>(count);
      std::memcpy(parts[index].bytes.data(), static_cast<std::byte const*>(from) + offset,
                  count * extent_);
    });
  }
  void empty(Part const* parts, void* to, std::size_t elements) const {
    for_each(elements, [&](std::size_t index, std::size_t offset, std::size_t count) {
      std::memcpy(static_cast<std::byte*>(to) + offset, parts[index].bytes.data(), count * extent_);
    });
  }

 private:
  template <class Copy>
  void for_each(std::size_t elements, Copy const& copy) const {
    for (std::size_t first = 0; first < elements; first += each_) {
      copy(first / each_, first * extent_, std::min(each_, elements - first));
    }
  }
  std::size_t extent_;
  std::size_t each_;
};

/// Calls `run(input, output, units, reducer)`, usually once.
///
/// The units are elements of a C++ type that blink combines itself, blocks if the elements fill
/// them, or else parts. If elements fill blocks, only those beyond the last block are copied into
/// parts, in a separate call. The output may be null if there is none. Returns the result of the
/// operation.
template <class Run>
int reduce_units(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                 Run const& run) {
  constexpr std::size_t most_copied = 64 * sizeof(block);
  auto const elements = static_cast<std::size_t>(count);
  int code = MPI_SUCCESS;
  if (is_ours(type, op)) {
    with_our_type(type, [&](auto ours) {
      using T = typename decltype(ours)::type;
      with_aligned<T>(input, output, elements, output == nullptr ? 0 : elements,
                      [&](T const* in, T* out) { run(in, out, elements, blink::sum{}); });
    });
    return code;
  }
  auto const extent = static_cast<std::size_t>(facts_of(type).extent);
  std::size_t const each = sizeof(block) / extent;
  mpi_operation const reduce{op, type, static_cast<int>(each), &code};
  bool const is_copied = elements % each != 0 && elements * extent <= most_copied;
  std::size_t const blocks = is_copied ? 0 : elements / each;
  if (blocks > 0) {
    run(static_cast<block const*>(input), static_cast<block*>(output), blocks, reduce);
  }
  std::size_t const rest = elements - blocks * each;
  auto const* const from = static_cast<block const*>(input) + blocks;
  auto* const to = output == nullptr ? nullptr : static_cast<block*>(output) + blocks;
  if (rest > 0 && rest * extent <= sizeof(small_part::bytes)) {
    in_parts<small_part> const copies(extent);
    small_part in, out;
    copies.fill(&in, from, rest);
    run(static_cast<small_part const*>(&in), to == nullptr ? nullptr : &out, 1, reduce);
    if (to != nullptr) copies.empty(&out, to, rest);
  } else if (rest > 0) {
    in_parts<large_part> const copies(extent);
    std::vector<large_part> in(copies.parts_of(rest)), out(to == nullptr ? 0 : in.size());
    copies.fill(in.data(), from, rest);
    run(static_cast<large_part const*>(in.data()), to == nullptr ? nullptr : out.data(), in.size(),
        reduce);
    if (to != nullptr) copies.empty(out.data(), to, rest);
  }
  return code;
}

}  // namespace blink_pmpi
