// SPDX-License-Identifier: Apache-2.0
// Runs the collectives of an unmodified MPI program through blink:
//
//   mpirun -n 4 env LD_PRELOAD=$PWD/libblink_pmpi.so ./program
//
// Every MPI library has each call under two names, MPI_X for programs and PMPI_X for tools. So a
// library that is loaded first can intercept MPI_X. This library passes the calls that it does not
// serve to PMPI_X.
//
// The decision is the same on every rank. It depends on values that MPI requires to be equal on all
// ranks: the communicator, the operation, element type and count of reductions, the bytes of a
// copy. It also depends on the agreement at a communicator's first use. Where only some ranks know
// the sizes, the ranks exchange them first.
//
// This file has the calls that reduce or only wait; copies.cpp has those that copy.
//
//   BLINK_SHARED_MEMORY=0    Ranks of one host do not share memory, but send MPI messages.
//   BLINK_ORDER=ranks        Reductions combine along one tree of the ranks, with the same bits for
//                            any length and on any hosts. As the info key blink_order, which
//                            MPI_Comm_set_info and MPI_Comm_dup_with_info take.
//   BLINK_PMPI_LEAST=BYTES   Shorter messages go to the MPI library; 0 if unset.
//   BLINK_PMPI_ALL_PROGRAMS=1  Each program of a launch has this library loaded (Open MPI).
//   BLINK_PMPI_REPORT=1      At the end, rank 0 reports how many calls took which path.
//   BLINK_DEADLINE=SECONDS   A call that waits this long fails. If unset, calls wait without end.

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>

#include "communicators.hpp"
#include "reductions.hpp"
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

using blink::collective;
using blink_pmpi::attached;
using blink_pmpi::entry;
using blink_pmpi::reduced_bytes;
using blink_pmpi::take;

/// Reduces blocks of `counts` units, one for each rank.
template <class T, class Reducer>
void reduce_and_scatter_units(attached& here, T const* in, T* out,
                              std::vector<std::size_t> const& counts, Reducer const& reducer) {
  if (std::count(counts.begin(), counts.end(), counts[0]) == here.ranks()) {
    blink::reduce_scatter(here.comm(), in, out, counts[0], reducer);
  } else {
    auto& star = here.prepared(collective::reduce_scatter);
    blink::reduce_scatter_v(here.comm(), star, in, out, blink::consecutive_blocks(counts), reducer);
  }
}

/// Returns the all-reduce that `reduce_units` runs.
auto all_reducing(attached& here) {
  return [&here](auto const* in, auto* out, std::size_t count, auto const& reducer) {
    blink::all_reduce(here.comm(), in, out, count, reducer);
  };
}

/// Reduces blocks of `counts` elements, one for each rank.
int reduce_and_scatter(attached& here, void const* input, void* output,
                       std::vector<std::size_t> const& counts, MPI_Datatype type, MPI_Op op) {
  using blink_pmpi::large_part;
  auto const own = static_cast<std::size_t>(here.rank());
  auto const extent = static_cast<std::size_t>(blink_pmpi::facts_of(type).extent);
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
  // Equal blocks of types that blink knows are eager payloads.
  bool const are_eager = blink_pmpi::is_ours(type, op) &&
                         std::count(counts.begin(), counts.end(), counts[0]) == here.ranks();
  if (!are_eager && here.is_small(total * extent)) {
    std::vector<std::byte> sums(total * extent);
    code = blink_pmpi::reduce_units(from, sums.data(), static_cast<int>(total), type, op,
                                    all_reducing(here));
    if (counts[own] > 0) std::memcpy(output, sums.data() + first * extent, counts[own] * extent);
    return code;
  }
  std::size_t const each = sizeof(blink_pmpi::block) / extent;
  blink_pmpi::mpi_operation const reduce{op, type, static_cast<int>(each), &code};
  if (blink_pmpi::is_ours(type, op)) {
    blink_pmpi::with_our_type(type, [&](auto ours) {
      using T = typename decltype(ours)::type;
      blink_pmpi::with_aligned<T>(from, to, total, counts[own], [&](T const* in, T* out) {
        reduce_and_scatter_units(here, in, out, counts, blink::sum{});
      });
    });
  } else if (std::all_of(counts.begin(), counts.end(),
                         [&](std::size_t count) { return count % each == 0; })) {
    auto blocks = counts;
    for (auto& count : blocks) count /= each;
    reduce_and_scatter_units(here, static_cast<blink_pmpi::block const*>(from),
                             static_cast<blink_pmpi::block*>(to), blocks, reduce);
  } else {
    blink_pmpi::in_parts<large_part> const copies(extent);
    std::vector<std::size_t> parts;
    std::vector<large_part> in;
    auto const* next = static_cast<std::byte const*>(from);
    for (std::size_t const count : counts) {
      parts.push_back(copies.parts_of(count));
      in.resize(in.size() + parts.back());
      copies.fill(in.data() + in.size() - parts.back(), next, count);
      next += count * extent;
    }
    std::vector<large_part> out(parts[own]);
    reduce_and_scatter_units(here, static_cast<large_part const*>(in.data()), out.data(), parts,
                             reduce);
    copies.empty(out.data(), to, counts[own]);
  }
  if (!result.empty()) std::memcpy(output, result.data(), result.size());
  return code;
}

}  // namespace

extern "C" {

int MPI_Init(int* count, char*** texts) {
  int const code = PMPI_Init(count, texts);
  if (code == MPI_SUCCESS) blink_pmpi::shim::the().begin();
  return code;
}

int MPI_Init_thread(int* count, char*** texts, int wanted, int* level) {
  int const code = PMPI_Init_thread(count, texts, wanted, level);
  if (code == MPI_SUCCESS) blink_pmpi::shim::the().begin();
  return code;
}

int MPI_Comm_free(MPI_Comm* comm) {
  blink_pmpi::freeing const guard(comm == nullptr ? MPI_COMM_NULL : *comm);
  return PMPI_Comm_free(comm);
}

int MPI_Comm_disconnect(MPI_Comm* comm) {
  blink_pmpi::freeing const guard(comm == nullptr ? MPI_COMM_NULL : *comm);
  return PMPI_Comm_disconnect(comm);
}

int MPI_Comm_set_info(MPI_Comm comm, MPI_Info info) {
  int code = PMPI_Comm_set_info(comm, info);
  if (code != MPI_SUCCESS) return code;
  code = blink_pmpi::shim::the().take_hints(comm, info);
  if (code != MPI_SUCCESS) PMPI_Comm_call_errhandler(comm, code);
  return code;
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* copy) {
  int code = PMPI_Comm_dup_with_info(comm, info, copy);
  if (code != MPI_SUCCESS) return code;
  code = blink_pmpi::shim::the().take_hints(*copy, info);
  if (code != MPI_SUCCESS) PMPI_Comm_call_errhandler(comm, code);
  return code;
}

int MPI_Allreduce(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::allreduce, comm, code, [&](attached& here) {
        if (!here.takes_reduction(reduced_bytes(count, type, op))) return false;
        code = blink_pmpi::reduce_units(input == MPI_IN_PLACE ? output : input, output, count, type,
                                        op, all_reducing(here));
        return true;
      })) {
    return code;
  }
  return PMPI_Allreduce(input, output, count, type, op, comm);
}

int MPI_Reduce(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::reduce, comm, code, [&](attached& here) {
        if (!here.takes_reduction(reduced_bytes(count, type, op), root)) return false;
        bool const is_root = here.rank() == root;
        auto const run = [&](auto const* in, auto* out, std::size_t n, auto const& reducer) {
          auto& tree = here.prepared(collective::reduce, root);
          blink::reduce(here.comm(), tree, in, out, n, reducer);
        };
        code = blink_pmpi::reduce_units(input == MPI_IN_PLACE ? output : input,
                                        is_root ? output : nullptr, count, type, op, run);
        return true;
      })) {
    return code;
  }
  return PMPI_Reduce(input, output, count, type, op, root, comm);
}

int MPI_Reduce_scatter_block(void const* input, void* output, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::reduce_scatter_block, comm, code, [&](attached& here) {
        if (!here.takes_reduction(reduced_bytes(count, type, op))) return false;
        std::vector<std::size_t> const counts(static_cast<std::size_t>(here.ranks()),
                                              static_cast<std::size_t>(count));
        code = reduce_and_scatter(here, input, output, counts, type, op);
        return true;
      })) {
    return code;
  }
  return PMPI_Reduce_scatter_block(input, output, count, type, op, comm);
}

int MPI_Reduce_scatter(void const* input, void* output, int const counts[], MPI_Datatype type,
                       MPI_Op op, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::reduce_scatter, comm, code, [&](attached& here) {
        if (counts == nullptr ||
            std::any_of(counts, counts + here.ranks(), [](int count) { return count < 0; })) {
          return false;
        }
        std::vector<std::size_t> const sizes(counts, counts + here.ranks());
        std::uint64_t bytes = 0;
        for (int rank = 0; rank < here.ranks(); ++rank) {
          bytes += reduced_bytes(counts[rank], type, op);
        }
        if (!here.takes_reduction(bytes)) return false;
        code = reduce_and_scatter(here, input, output, sizes, type, op);
        return true;
      })) {
    return code;
  }
  return PMPI_Reduce_scatter(input, output, counts, type, op, comm);
}

#if MPI_VERSION >= 4  // counts of 64 bits; those above 2^31 go to the library, as their bytes do
int MPI_Allreduce_c(void const* input, void* output, MPI_Count count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm) {
  if (!blink_pmpi::is_int(count)) return PMPI_Allreduce_c(input, output, count, type, op, comm);
  return MPI_Allreduce(input, output, static_cast<int>(count), type, op, comm);
}
int MPI_Reduce_c(void const* input, void* output, MPI_Count count, MPI_Datatype type, MPI_Op op,
                 int root, MPI_Comm comm) {
  if (!blink_pmpi::is_int(count)) return PMPI_Reduce_c(input, output, count, type, op, root, comm);
  return MPI_Reduce(input, output, static_cast<int>(count), type, op, root, comm);
}
int MPI_Reduce_scatter_block_c(void const* input, void* output, MPI_Count count, MPI_Datatype type,
                               MPI_Op op, MPI_Comm comm) {
  if (!blink_pmpi::is_int(count)) {
    return PMPI_Reduce_scatter_block_c(input, output, count, type, op, comm);
  }
  return MPI_Reduce_scatter_block(input, output, static_cast<int>(count), type, op, comm);
}
#endif

int MPI_Barrier(MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::barrier, comm, code, [&](attached& here) {
        if (!here.takes(1)) return false;
        auto& tree = here.prepared(collective::barrier);
        blink::barrier(here.comm(), tree);
        return true;
      })) {
    return code;
  }
  return PMPI_Barrier(comm);
}

}  // extern "C"
