// SPDX-License-Identifier: Apache-2.0
#pragma once

// A program's buffers of any MPI datatype as contiguous bytes.

#include <blink/core/error.hpp>
#include <blink/schedule/block.hpp>

#include <mpi.h>

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink_pmpi {

/// The properties of a datatype.
struct type_facts {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  bool is_named = false;     ///< true if the library defines it
  std::uint64_t extent = 0;  ///< bytes from one element to the next
  /// bytes of data, without gaps; 0 if the MPI library must report an error
  std::uint64_t size = 0;
};

/// Returns the properties of a datatype. Those of the library's own types are cached. Other types
/// are not, because they may be freed and their handles reused.
inline type_facts facts_of(MPI_Datatype type) {
  [[gnu::tls_model("initial-exec")]] thread_local std::array<type_facts, 8> known{};
  [[gnu::tls_model("initial-exec")]] thread_local std::size_t next = 0;
  for (auto const& one : known) {
    if (one.is_named && one.type == type) return one;
  }
  type_facts result{type};
  if (type == MPI_DATATYPE_NULL) return result;
  int integers = 0, addresses = 0, types = 0, combiner = 0;
  result.is_named =
      PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) == MPI_SUCCESS &&
      combiner == MPI_COMBINER_NAMED;
  MPI_Aint low = 0;
  MPI_Aint extent = 0;
  PMPI_Type_get_extent(type, &low, &extent);
  result.extent = static_cast<std::uint64_t>(extent);
  MPI_Count size = 0;
  if (PMPI_Type_size_x(type, &size) == MPI_SUCCESS && size > 0) {
    result.size = static_cast<std::uint64_t>(size);
  }
  if (result.is_named) known[next++ % known.size()] = result;
  return result;
}
/// Returns the bytes of data, without gaps: equal on all ranks of a copy, for any types.
inline std::uint64_t bytes_of(int count, MPI_Datatype type) {
  return count <= 0 ? 0 : static_cast<std::uint64_t>(count) * facts_of(type).size;
}
/// True if MPI_Pack can count the bytes of a block, which it does in int.
inline bool can_be_packed(std::uint64_t bytes) {
  return bytes <= INT_MAX;
}

inline void* writable(void const* buffer) {
  return const_cast<void*>(buffer);
}
/// Address arithmetic that also works from MPI_BOTTOM, which is null.
inline std::byte* at(void* buffer, std::int64_t offset) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(buffer) +
                                      static_cast<std::uintptr_t>(offset));
}

/// Copies `count` elements to contiguous bytes, or back.
class packer {
 public:
  packer(MPI_Datatype type, MPI_Comm comm) : packer(facts_of(type), comm) {}
  packer(type_facts const& type, MPI_Comm comm)
      : type_(type.type),
        comm_(comm),
        extent_(static_cast<std::int64_t>(type.extent)),
        size_(type.size),
        is_dense_(type.is_named && type.extent == type.size) {}
  void pack(void* user, std::uint64_t count, std::byte* row) const {
    in_pieces(user, count, row, [this](std::byte* from, int n, std::byte* to, int bytes) {
      int position = 0;
      with_address(from, n, [&](void* place, int elements, MPI_Datatype type) {
        PMPI_Pack(place, elements, type, to, bytes, &position, comm_);
      });
      blink::expects(position == bytes, "MPI_Pack: another size than the type's, expected equal");
    });
  }
  void unpack(std::byte* row, void* user, std::uint64_t count) const {
    in_pieces(user, count, row, [this](std::byte* to, int n, std::byte* from, int bytes) {
      int position = 0;
      with_address(to, n, [&](void* place, int elements, MPI_Datatype type) {
        PMPI_Unpack(from, bytes, &position, place, elements, type, comm_);
      });
    });
  }
  [[nodiscard]] std::int64_t extent() const { return extent_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// True if elements have the same bytes in memory as when they are sent.
  [[nodiscard]] bool is_dense() const { return is_dense_; }

 private:
  /// Calls `run(place, elements, type)`. MPICH 4.0 packs nothing from MPI_BOTTOM, so these calls
  /// pass the same bytes relative to another address.
  template <class Run>
  void with_address(void* user, int count, Run const& run) const {
    if (user != MPI_BOTTOM) return run(user, count, type_);
    char anchor = 0;
    MPI_Aint place = 0;
    MPI_Datatype moved = MPI_DATATYPE_NULL;
    PMPI_Get_address(&anchor, &place);
    place = -place;
    PMPI_Type_create_hindexed(1, &count, &place, type_, &moved);
    PMPI_Type_commit(&moved);
    run(&anchor, 1, moved);
    PMPI_Type_free(&moved);
  }
  template <class Copy>
  void in_pieces(void* user, std::uint64_t count, std::byte* row, Copy const& copy) const {
    if (size_ == 0) return;
    blink::expects(can_be_packed(size_),
                   "MPI_Pack: an element above 2 GiB, expected at most INT_MAX");
    std::uint64_t const most = INT_MAX / size_;
    for (std::uint64_t first = 0; first < count; first += most) {
      auto const n = static_cast<int>(count - first < most ? count - first : most);
      copy(at(user, static_cast<std::int64_t>(first) * extent_), n, row + first * size_,
           n * static_cast<int>(size_));
    }
  }

  MPI_Datatype type_;
  MPI_Comm comm_;
  std::int64_t extent_;
  std::uint64_t size_;
  bool is_dense_;
};

/// One buffer as contiguous bytes: itself, or a copy if the type has gaps or another order.
class row_of_bytes {
 public:
  row_of_bytes(void const* user, std::uint64_t count, MPI_Datatype type, MPI_Comm comm)
      : user_(static_cast<std::byte*>(writable(user))),
        count_(count),
        packer_(type, comm),
        is_packed_(!packer_.is_dense()),
        packed_(is_packed_ ? count * packer_.size() : 0) {}
  [[nodiscard]] std::byte* data() { return is_packed_ ? packed_.data() : user_; }
  void pack() {
    if (is_packed_) packer_.pack(user_, count_, packed_.data());
  }
  void unpack() {
    if (is_packed_) packer_.unpack(packed_.data(), user_, count_);
  }

 private:
  std::byte* user_;
  std::uint64_t count_;
  packer packer_;
  bool is_packed_;
  std::vector<std::byte> packed_;
};

/// A block for each rank, with the program's counts and displacements, as contiguous bytes. The
/// blocks stay in place if possible, or are copied one after the other.
class rows_of_bytes {
 public:
  enum class order {
    any,        ///< blocks may stay in place
    behind,     ///< blocks may stay in place if they are consecutive
    in_a_copy,  ///< blocks are copied
  };
  rows_of_bytes(void const* user, int const* counts, int const* displacements, int ranks,
                MPI_Datatype type, MPI_Comm comm, order wanted)
      : user_(writable(user)), packer_(type, comm) {
    std::size_t end = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      std::size_t const count = packer_.size() * static_cast<std::size_t>(counts[rank]);
      offsets_.push_back(displacements[rank] * packer_.extent());
      blocks_.push_back({end, count});
      end += count;
    }
    is_packed_ = wanted == order::in_a_copy || !packer_.is_dense();
    std::int64_t lowest = INT64_MAX;
    for (std::size_t k = 0; k < blocks_.size(); ++k) {
      if (blocks_[k].count > 0 && offsets_[k] < lowest) lowest = offsets_[k];
    }
    if (lowest == INT64_MAX) lowest = 0;
    for (std::size_t k = 0; k < blocks_.size() && !is_packed_; ++k) {
      if (blocks_[k].count == 0) continue;
      auto const begin = static_cast<std::size_t>(offsets_[k] - lowest);
      if (wanted == order::behind) is_packed_ = begin != blocks_[k].begin;
      if (wanted == order::any) blocks_[k].begin = begin;
    }
    if (is_packed_) {
      packed_.resize(end);
    } else {
      row_ = at(user_, lowest);
    }
  }
  [[nodiscard]] std::byte* data() { return is_packed_ ? packed_.data() : row_; }
  [[nodiscard]] std::vector<blink::block> const& blocks() const { return blocks_; }
  [[nodiscard]] std::byte* of(int rank) {
    return data() + blocks_[static_cast<std::size_t>(rank)].begin;
  }

  void pack() {
    for (std::size_t rank = 0; rank < blocks_.size(); ++rank) pack(rank);
  }
  void pack(std::size_t rank) {
    if (is_packed_) packer_.pack(at(user_, offsets_[rank]), elements(rank), row_of(rank));
  }
  void unpack() {
    if (!is_packed_) return;
    for (std::size_t rank = 0; rank < blocks_.size(); ++rank) {
      packer_.unpack(row_of(rank), at(user_, offsets_[rank]), elements(rank));
    }
  }

 private:
  [[nodiscard]] std::byte* row_of(std::size_t rank) { return data() + blocks_[rank].begin; }
  [[nodiscard]] std::uint64_t elements(std::size_t rank) const {
    return packer_.size() == 0 ? 0 : blocks_[rank].count / packer_.size();
  }

  void* user_;
  packer packer_;
  std::vector<std::int64_t> offsets_;  // of the program's blocks, in bytes
  std::vector<blink::block> blocks_;
  bool is_packed_ = false;
  std::byte* row_ = nullptr;
  std::vector<std::byte> packed_;
};

}  // namespace blink_pmpi
