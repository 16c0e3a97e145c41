// SPDX-License-Identifier: Apache-2.0
#pragma once

// MPI's collectives that copy equal blocks, through blink: see serving.hpp.

#include <blink/collectives.hpp>

#include "attached.hpp"
#include "library_functions.hpp"
#include "user_data.hpp"
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <tuple>

namespace blink_pmpi {

inline std::byte const* read_only(std::byte* bytes) {
  return bytes;
}

/// Returns the bytes of a block that all ranks copy; 0 if the MPI library must copy it.
inline std::uint64_t copied_bytes(int count, MPI_Datatype type) {
  auto const bytes = bytes_of(count, type);
  return can_be_packed(bytes) ? bytes : 0;
}

/// True if this process is the rank of the communicator.
inline bool is_rank(int rank, MPI_Comm comm) {
  int own = -1;
  PMPI_Comm_rank(comm, &own);
  return own == rank;
}
/// Calls `run(bytes)` with the contiguous bytes of an input.
template <class Run>
void with_packed(void const* input, std::uint64_t count, MPI_Datatype type, MPI_Comm comm,
                 Run const& run) {
  row_of_bytes from(input, count, type, comm);
  from.pack();
  run(from.data());
}

struct bcast_call {
  static constexpr entry name = entry::bcast;
  void* buffer;
  int count;
  MPI_Datatype type;
  int root;
  MPI_Comm comm;

  [[nodiscard]] bool is_taken(attached const& here) const {
    return here.takes(copied_bytes(count, type), root);
  }
  bool run(attached& here, int&) const {
    auto const bytes = copied_bytes(count, type);
    row_of_bytes row(buffer, static_cast<std::uint64_t>(count), type, comm);
    if (here.rank() == root) row.pack();
    blink::broadcast(here.comm(), row.data(), bytes, root);
    if (here.rank() != root) row.unpack();
    return true;
  }
  template <class Keep>
  void for_each_type(Keep const& keep) {
    keep(type);
  }

  [[nodiscard]] auto arguments() const { return std::tuple(buffer, count, type, root, comm); }
  static constexpr library_functions library{PMPI_Bcast, PMPI_Ibcast, BLINK_PMPI_INIT(Bcast)};
};

struct allgather_call {
  static constexpr entry name = entry::allgather;
  void const* input;
  int input_count;
  MPI_Datatype input_type;
  void* output;
  int output_count;
  MPI_Datatype output_type;
  MPI_Comm comm;

  [[nodiscard]] bool is_taken(attached const& here) const {
    return here.takes(copied_bytes(output_count, output_type));
  }
  bool run(attached& here, int&) const {
    auto const bytes = copied_bytes(output_count, output_type);  // of one block
    auto const ranks = static_cast<std::uint64_t>(here.ranks());
    row_of_bytes to(output, static_cast<std::uint64_t>(output_count) * ranks, output_type, comm);
    auto const run = [&](std::byte const* own) {
      blink::all_gather(here.comm(), own, to.data(), bytes);
    };
    if (input == MPI_IN_PLACE) {
      to.pack();
      run(to.data() + static_cast<std::uint64_t>(here.rank()) * bytes);
    } else {
      with_packed(input, static_cast<std::uint64_t>(input_count), input_type, comm, run);
    }
    to.unpack();
    return true;
  }
  template <class Keep>
  void for_each_type(Keep const& keep) {
    if (input != MPI_IN_PLACE) keep(input_type);
    keep(output_type);
  }

  [[nodiscard]] auto arguments() const {
    return std::tuple(input, input_count, input_type, output, output_count, output_type, comm);
  }
  static constexpr library_functions library{PMPI_Allgather, PMPI_Iallgather,
                                             BLINK_PMPI_INIT(Allgather)};
};

struct gather_call {
  static constexpr entry name = entry::gather;
  void const* input;
  int input_count;
  MPI_Datatype input_type;
  void* output;
  int output_count;
  MPI_Datatype output_type;
  int root;
  MPI_Comm comm;

  [[nodiscard]] std::uint64_t bytes_at(attached const& here) const {  // of a block
    return here.rank() == root ? copied_bytes(output_count, output_type)
                               : copied_bytes(input_count, input_type);
  }
  [[nodiscard]] bool is_taken(attached const& here) const {
    return here.takes(bytes_at(here), root);
  }
  bool run(attached& here, int&) const {
    bool const is_root = here.rank() == root;
    auto const bytes = bytes_at(here);
    row_of_bytes to(output,
                    is_root ? static_cast<std::uint64_t>(output_count) *
                                  static_cast<std::uint64_t>(here.ranks())
                            : 0,
                    is_root ? output_type : MPI_BYTE, comm);
    auto* const all = is_root ? to.data() : nullptr;
    auto const run = [&](std::byte const* own) {
      blink::gather(here.comm(), own, all, bytes, root);
    };
    if (is_root && input == MPI_IN_PLACE) {
      to.pack();
      run(all + static_cast<std::uint64_t>(root) * bytes);
    } else {
      with_packed(input, static_cast<std::uint64_t>(input_count), input_type, comm, run);
    }
    if (is_root) to.unpack();
    return true;
  }
  template <class Keep>
  void for_each_type(Keep const& keep) {
    if (input != MPI_IN_PLACE) keep(input_type);
    if (is_rank(root, comm)) keep(output_type);
  }

  [[nodiscard]] auto arguments() const {
    return std::tuple(input, input_count, input_type, output, output_count, output_type, root,
                      comm);
  }
  static constexpr library_functions library{PMPI_Gather, PMPI_Igather, BLINK_PMPI_INIT(Gather)};
};

struct scatter_call {
  static constexpr entry name = entry::scatter;
  void const* input;
  int input_count;
  MPI_Datatype input_type;
  void* output;
  int output_count;
  MPI_Datatype output_type;
  int root;
  MPI_Comm comm;

  [[nodiscard]] std::uint64_t bytes_at(attached const& here) const {  // of a block
    return here.rank() == root ? copied_bytes(input_count, input_type)
                               : copied_bytes(output_count, output_type);
  }
  [[nodiscard]] bool is_taken(attached const& here) const {
    return here.takes(bytes_at(here), root);
  }
  bool run(attached& here, int&) const {
    bool const is_root = here.rank() == root;
    auto const bytes = bytes_at(here);
    row_of_bytes from(
        input,
        is_root ? static_cast<std::uint64_t>(input_count) * static_cast<std::uint64_t>(here.ranks())
                : 0,
        is_root ? input_type : MPI_BYTE, comm);
    if (is_root) from.pack();
    auto const run = [&](std::byte* to) {
      auto const* const all = read_only(is_root ? from.data() : nullptr);
      blink::scatter(here.comm(), all, to, bytes, root);
    };
    if (is_root && output == MPI_IN_PLACE) {  // the root's block stays in place
      run(from.data() + bytes * static_cast<std::uint64_t>(root));
    } else {
      row_of_bytes to(output, static_cast<std::uint64_t>(output_count), output_type, comm);
      run(to.data());
      to.unpack();
    }
    return true;
  }
  template <class Keep>
  void for_each_type(Keep const& keep) {
    if (is_rank(root, comm)) keep(input_type);
    if (output != MPI_IN_PLACE) keep(output_type);
  }

  [[nodiscard]] auto arguments() const {
    return std::tuple(input, input_count, input_type, output, output_count, output_type, root,
                      comm);
  }
  static constexpr library_functions library{PMPI_Scatter, PMPI_Iscatter, BLINK_PMPI_INIT(Scatter)};
};

struct alltoall_call {
  static constexpr entry name = entry::alltoall;
  void const* input;
  int input_count;
  MPI_Datatype input_type;
  void* output;
  int output_count;
  MPI_Datatype output_type;
  MPI_Comm comm;

  [[nodiscard]] bool is_taken(attached const& here) const {
    return here.takes(copied_bytes(output_count, output_type));
  }
  bool run(attached& here, int&) const {
    auto const bytes = copied_bytes(output_count, output_type);  // of one block
    auto const ranks = static_cast<std::uint64_t>(here.ranks());
    row_of_bytes to(output, static_cast<std::uint64_t>(output_count) * ranks, output_type, comm);
    auto const run = [&](std::byte const* in) {
      blink::all_to_all(here.comm(), in, to.data(), bytes);
    };
    if (input == MPI_IN_PLACE) {
      to.pack();
      run(to.data());
    } else {
      with_packed(input, static_cast<std::uint64_t>(input_count) * ranks, input_type, comm, run);
    }
    to.unpack();
    return true;
  }
  template <class Keep>
  void for_each_type(Keep const& keep) {
    if (input != MPI_IN_PLACE) keep(input_type);
    keep(output_type);
  }

  [[nodiscard]] auto arguments() const {
    return std::tuple(input, input_count, input_type, output, output_count, output_type, comm);
  }
  static constexpr library_functions library{PMPI_Alltoall, PMPI_Ialltoall,
                                             BLINK_PMPI_INIT(Alltoall)};
};

}  // namespace blink_pmpi
