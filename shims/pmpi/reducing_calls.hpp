// SPDX-License-Identifier: Apache-2.0
#pragma once

// MPI's collectives that reduce, or only wait, through blink: see serving.hpp.

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>

#include "attached.hpp"
#include "library_functions.hpp"
#include "reductions.hpp"
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

namespace blink_pmpi {

/// Reduces blocks of `counts` elements, one for each rank: of T, or items of bytes.
template <class T, class Reducer>
void reduce_and_scatter_elements(attached& here, T const* in, T* out,
                                 std::vector<std::size_t> const& counts, Reducer const& reducer) {
  if (std::count(counts.begin(), counts.end(), counts[0]) == here.ranks()) {
    blink::reduce_scatter(here.comm(), in, out, counts[0] * blink::detail::unit_of(reducer),
                          reducer);
  } else {
    auto& star = here.prepared(blink::collective::reduce_scatter);
    blink::reduce_scatter_v(here.comm(), star, in, out, blink::consecutive_blocks(counts), reducer);
  }
}

/// Returns the all-reduce that `reduce_elements` runs.
inline auto all_reducing(attached& here) {
  return [&here](auto const* in, auto* out, std::size_t count, auto const& reducer) {
    blink::all_reduce(here.comm(), in, out, count, reducer);
  };
}

/// Reduces blocks of `counts` elements, one for each rank.
inline int reduce_and_scatter(attached& here, void const* input, void* output,
                              std::vector<std::size_t> const& counts, MPI_Datatype type,
                              MPI_Op op) {
  auto const own = static_cast<std::size_t>(here.rank());
  auto const extent = static_cast<std::size_t>(facts_of(type).extent);
  void const* const from = input == MPI_IN_PLACE ? output : input;
  // In place, MPI expects the result at the beginning.
  std::vector<std::byte> result(input == MPI_IN_PLACE ? counts[own] * extent : 0);
  void* const to = input == MPI_IN_PLACE ? result.data() : output;
  int code = MPI_SUCCESS;
  std::size_t first = 0;  // of this rank's elements
  std::size_t total = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (rank == own) first = total;
    total += counts[rank];
  }
  // Equal blocks are eager payloads.
  bool const are_eager = std::count(counts.begin(), counts.end(), counts[0]) == here.ranks();
  if (!are_eager && here.is_small(total * extent)) {
    std::vector<std::byte> sums(total * extent);
    code =
        reduce_elements(from, sums.data(), static_cast<int>(total), type, op, all_reducing(here));
    if (counts[own] > 0) std::memcpy(output, sums.data() + first * extent, counts[own] * extent);
    return code;
  }
  if (is_ours(type, op)) {
    with_our_type(type, [&](auto ours) {
      using T = typename decltype(ours)::type;
      with_aligned<T>(from, to, total, counts[own], [&](T const* in, T* out) {
        reduce_and_scatter_elements(here, in, out, counts, blink::sum{});
      });
    });
  } else {
    reduce_and_scatter_elements(here, static_cast<std::byte const*>(from),
                                static_cast<std::byte*>(to), counts,
                                mpi_operation{op, type, extent, &code});
  }
  if (!result.empty()) std::memcpy(output, result.data(), result.size());
  return code;
}

struct allreduce_call {
  static constexpr entry name = entry::allreduce;
  void const* input;
  void* output;
  int count;
  MPI_Datatype type;
  MPI_Op op;
  MPI_Comm comm;

  [[nodiscard]] bool is_taken(attached const& here) const {
    return here.takes_reduction(reduced_bytes(count, type, op));
  }
  bool run(attached& here, int& code) const {
    code = reduce_elements(input == MPI_IN_PLACE ? output : input, output, count, type, op,
                           all_reducing(here));
    return true;
  }
  [[nodiscard]] auto arguments() const { return std::tuple(input, output, count, type, op, comm); }
  static constexpr library_functions library{PMPI_Allreduce, PMPI_Iallreduce,
                                             BLINK_PMPI_INIT(Allreduce)};
};

struct reduce_call {
  static constexpr entry name = entry::reduce;
  void const* input;
  void* output;
  int count;
  MPI_Datatype type;
  MPI_Op op;
  int root;
  MPI_Comm comm;

  [[nodiscard]] bool is_taken(attached const& here) const {
    return here.takes_reduction(reduced_bytes(count, type, op), root);
  }
  bool run(attached& here, int& code) const {
    auto const reducing = [&](auto const* in, auto* out, std::size_t n, auto const& reducer) {
      auto& tree = here.prepared(blink::collective::reduce, root);
      blink::reduce(here.comm(), tree, in, out, n, reducer);
    };
    code = reduce_elements(input == MPI_IN_PLACE ? output : input,
                           here.rank() == root ? output : nullptr, count, type, op, reducing);
    return true;
  }
  [[nodiscard]] auto arguments() const {
    return std::tuple(input, output, count, type, op, root, comm);
  }
  static constexpr library_functions library{PMPI_Reduce, PMPI_Ireduce, BLINK_PMPI_INIT(Reduce)};
};

struct reduce_scatter_block_call {
  static constexpr entry name = entry::reduce_scatter_block;
  void const* input;
  void* output;
  int count;
  MPI_Datatype type;
  MPI_Op op;
  MPI_Comm comm;

  [[nodiscard]] bool is_taken(attached const& here) const {
    return here.takes_reduction(reduced_bytes(count, type, op));
  }
  bool run(attached& here, int& code) const {
    std::vector<std::size_t> const counts(static_cast<std::size_t>(here.ranks()),
                                          static_cast<std::size_t>(count));
    code = reduce_and_scatter(here, input, output, counts, type, op);
    return true;
  }
  [[nodiscard]] auto arguments() const { return std::tuple(input, output, count, type, op, comm); }
  static constexpr library_functions library{PMPI_Reduce_scatter_block, PMPI_Ireduce_scatter_block,
                                             BLINK_PMPI_INIT(Reduce_scatter_block)};
};

struct reduce_scatter_call {
  static constexpr entry name = entry::reduce_scatter;
  void const* input;
  void* output;
  int const* counts;
  MPI_Datatype type;
  MPI_Op op;
  MPI_Comm comm;

  [[nodiscard]] bool is_taken(attached const& here) const {
    if (counts == nullptr ||
        std::any_of(counts, counts + here.ranks(), [](int count) { return count < 0; })) {
      return false;
    }
    std::uint64_t bytes = 0;
    for (int rank = 0; rank < here.ranks(); ++rank) bytes += reduced_bytes(counts[rank], type, op);
    return here.takes_reduction(bytes);
  }
  bool run(attached& here, int& code) const {
    std::vector<std::size_t> const sizes(counts, counts + here.ranks());
    code = reduce_and_scatter(here, input, output, sizes, type, op);
    return true;
  }
  [[nodiscard]] auto arguments() const { return std::tuple(input, output, counts, type, op, comm); }
  static constexpr library_functions library{PMPI_Reduce_scatter, PMPI_Ireduce_scatter,
                                             BLINK_PMPI_INIT(Reduce_scatter)};
};

struct barrier_call {
  static constexpr entry name = entry::barrier;
  MPI_Comm comm;

  [[nodiscard]] static bool is_taken(attached const& here) { return here.takes(1); }
  static bool run(attached& here, int&) {
    auto& tree = here.prepared(blink::collective::barrier);
    blink::barrier(here.comm(), tree);
    return true;
  }
  [[nodiscard]] auto arguments() const { return std::tuple(comm); }
  static constexpr library_functions library{PMPI_Barrier, PMPI_Ibarrier, BLINK_PMPI_INIT(Barrier)};
};

}  // namespace blink_pmpi
