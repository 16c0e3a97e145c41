// SPDX-License-Identifier: Apache-2.0
// An unmodified MPI program runs its collectives through blink:
//
//   LD_PRELOAD=libblink_pmpi_openmpi.so mpirun -n 4 ./program
//
// Every MPI library has each call under two names, MPI_X for programs and PMPI_X for tools, so that a
// library that is loaded first may stand in between. What this one does not cover goes on to PMPI_X,
// and it is the same decision on every rank: it rests only on what MPI requires to be equal on all of
// them (the communicator, the operation, element type and count of reductions, the bytes of a copy)
// and on what the ranks agree about when a communicator is used first.
//
//   BLINK_PMPI_LEAST=BYTES   shorter messages go to the library; 0 unless set
//   BLINK_PMPI_REPORT=1      at the end, rank 0 says how many calls took which way
//   BLINK_DEADLINE=SECONDS   a call fails that waits so long; else it waits for ever, as MPI does

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>

#include "communicators.hpp"
#include "reductions.hpp"
#include "unequal_blocks.hpp"
#include "user_data.hpp"
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

using blink_pmpi::at;
using blink_pmpi::attached;
using blink_pmpi::bytes_of;
using blink_pmpi::can_be_packed;
using blink_pmpi::entry;
using blink_pmpi::exchange_blocks;
using blink_pmpi::reduced_bytes;
using blink_pmpi::row_of_bytes;
using blink_pmpi::rows_of_bytes;
using blink_pmpi::take;
using shape = attached::shape;

std::byte const* read_only(std::byte* bytes) {
  return bytes;
}

/// Bytes of a block that all ranks copy; 0 if the library is to do it.
std::uint64_t copied_bytes(int count, MPI_Datatype type) {
  auto const bytes = bytes_of(count, type);
  return can_be_packed(bytes) ? bytes : 0;
}

/// Does the library have nothing to say about this?
bool is_regular(int count, MPI_Datatype type) {
  return count >= 0 && type != MPI_DATATYPE_NULL && can_be_packed(bytes_of(count, type));
}
bool are_regular(attached const& here, int const* counts, int const* displacements,
                 MPI_Datatype type) {
  return counts != nullptr && displacements != nullptr &&
         std::all_of(counts, counts + here.ranks(),
                     [&](int count) { return is_regular(count, type); });
}

/// Reduces blocks of `counts` units, one for each rank.
template <class T, class Reducer>
void reduce_and_scatter_units(attached& here, T const* in, T* out,
                              std::vector<std::size_t> const& counts, Reducer const& reducer) {
  if (std::count(counts.begin(), counts.end(), counts[0]) == here.ranks()) {
    blink::reduce_scatter(here.me(), here.plan(shape::star), in, out, counts[0], reducer);
  } else {
    blink::reduce_scatter_v(here.me(), here.plan(shape::star), in, out,
                            blink::consecutive_blocks(counts), reducer);
  }
}

/// For `reduce_units`.
auto all_reducing(attached& here) {
  return [&here](auto const* in, auto* out, std::size_t count, auto const& reducer) {
    blink::all_reduce(here.me(), here.plan(shape::star), in, out, count, reducer);
  };
}

/// Reduces blocks of `counts` elements, one for each rank.
int reduce_and_scatter(attached& here, void const* input, void* output,
                       std::vector<std::size_t> const& counts, MPI_Datatype type, MPI_Op op) {
  using blink_pmpi::large_part;
  auto const own = static_cast<std::size_t>(here.rank());
  auto const extent = static_cast<std::size_t>(blink_pmpi::facts_of(type).extent);
  void const* const from = input == MPI_IN_PLACE ? output : input;
  // In place MPI wants the result at the beginning.
  std::vector<std::byte> result(input == MPI_IN_PLACE ? counts[own] * extent : 0);
  void* const to = input == MPI_IN_PLACE ? result.data() : output;
  int code = MPI_SUCCESS;
  std::size_t first = 0;  // of the own elements
  std::size_t total = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (rank == own) first = total;
    total += counts[rank];
  }
  if (here.is_small(total * extent)) {
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
      reduce_and_scatter_units(here, static_cast<T const*>(from), static_cast<T*>(to), counts,
                               blink::sum{});
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

// --- reductions ----------------------------------------------------------------------------------------

int MPI_Allreduce(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::allreduce, comm, code, [&](attached& here) {
        if (!here.takes(reduced_bytes(count, type, op))) return false;
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
        if (!here.takes(reduced_bytes(count, type, op), root)) return false;
        bool const is_root = here.rank() == root;
        auto const run = [&](auto const* in, auto* out, std::size_t n, auto const& reducer) {
          blink::reduce(here.me(), here.plan(shape::ordered_tree, root), in, out, n, reducer);
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
        if (!here.takes(reduced_bytes(count, type, op))) return false;
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
        if (!here.takes(bytes)) return false;
        code = reduce_and_scatter(here, input, output, sizes, type, op);
        return true;
      })) {
    return code;
  }
  return PMPI_Reduce_scatter(input, output, counts, type, op, comm);
}

// --- copies --------------------------------------------------------------------------------------------

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::bcast, comm, code, [&](attached& here) {
        auto const bytes = copied_bytes(count, type);
        if (!here.takes(bytes, root)) return false;
        row_of_bytes row(buffer, static_cast<std::uint64_t>(count), type, comm);
        if (here.rank() == root) row.pack();
        blink::broadcast(here.me(), here.plan(shape::tree, root), read_only(row.data()), row.data(),
                         bytes);
        if (here.rank() != root) row.unpack();
        return true;
      })) {
    return code;
  }
  return PMPI_Bcast(buffer, count, type, root, comm);
}

int MPI_Allgather(void const* input, int input_count, MPI_Datatype input_type, void* output,
                  int output_count, MPI_Datatype output_type, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::allgather, comm, code, [&](attached& here) {
        auto const bytes = copied_bytes(output_count, output_type);  // of one block
        if (!here.takes(bytes)) return false;
        auto const ranks = static_cast<std::uint64_t>(here.ranks());
        row_of_bytes to(output, static_cast<std::uint64_t>(output_count) * ranks, output_type,
                        comm);
        auto& star = here.plan(shape::star);
        if (input == MPI_IN_PLACE) {
          to.pack();
          auto* const own = to.data() + static_cast<std::uint64_t>(here.rank()) * bytes;
          blink::all_gather(here.me(), star, read_only(own), to.data(), bytes);
        } else {
          row_of_bytes from(input, static_cast<std::uint64_t>(input_count), input_type, comm);
          from.pack();
          blink::all_gather(here.me(), star, read_only(from.data()), to.data(), bytes);
        }
        to.unpack();
        return true;
      })) {
    return code;
  }
  return PMPI_Allgather(input, input_count, input_type, output, output_count, output_type, comm);
}

int MPI_Allgatherv(void const* input, int input_count, MPI_Datatype input_type, void* output,
                   int const counts[], int const displacements[], MPI_Datatype output_type,
                   MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::allgatherv, comm, code, [&](attached& here) {
        std::uint64_t bytes = 0;  // of all blocks
        std::uint64_t largest = 0;
        for (int rank = 0; rank < here.ranks(); ++rank) {
          auto const block = bytes_of(counts[rank], output_type);
          if (counts[rank] < 0 || !can_be_packed(block)) return false;
          bytes += block;
          largest = std::max(largest, block);
        }
        if (!here.takes(bytes)) return false;
        bool const is_small = here.is_small(largest * static_cast<std::uint64_t>(here.ranks()));
        // Displacements differ between ranks, so blocks are in a row.
        rows_of_bytes to(output, counts, displacements, here.ranks(), output_type, comm,
                         rows_of_bytes::order::behind);
        auto& star = here.plan(shape::star);
        auto const run = [&](std::byte const* own) {
          if (!is_small) {
            return blink::all_gather_v(here.me(), star, own, to.data(), to.blocks());
          }
          std::vector<std::byte> all(largest * to.blocks().size());  // blocks of one size
          auto* const mine = all.data() + largest * static_cast<std::uint64_t>(here.rank());
          auto const count = to.blocks()[static_cast<std::size_t>(here.rank())].count;
          if (count > 0) std::memcpy(mine, own, count);
          blink::all_gather(here.me(), star, read_only(mine), all.data(), largest);
          for (std::size_t rank = 0; rank < to.blocks().size(); ++rank) {
            auto const& block = to.blocks()[rank];
            if (block.count == 0) continue;
            std::memcpy(to.data() + block.begin, all.data() + rank * largest, block.count);
          }
        };
        if (input == MPI_IN_PLACE) {
          to.pack(static_cast<std::size_t>(here.rank()));
          run(to.of(here.rank()));
        } else {
          row_of_bytes from(input, static_cast<std::uint64_t>(input_count), input_type, comm);
          from.pack();
          run(from.data());
        }
        to.unpack();
        return true;
      })) {
    return code;
  }
  return PMPI_Allgatherv(input, input_count, input_type, output, counts, displacements, output_type,
                         comm);
}

int MPI_Gather(void const* input, int input_count, MPI_Datatype input_type, void* output,
               int output_count, MPI_Datatype output_type, int root, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::gather, comm, code, [&](attached& here) {
        bool const is_root = here.rank() == root;
        auto const bytes = is_root ? copied_bytes(output_count, output_type)
                                   : copied_bytes(input_count, input_type);
        if (!here.takes(bytes, root)) return false;
        bool const is_small = here.is_small(bytes * static_cast<std::uint64_t>(here.ranks()));
        auto& plan = is_small ? here.plan(shape::star) : here.plan(shape::gather, root);
        row_of_bytes to(output,
                        is_root ? static_cast<std::uint64_t>(output_count) *
                                      static_cast<std::uint64_t>(here.ranks())
                                : 0,
                        is_root ? output_type : MPI_BYTE, comm);
        std::vector<std::byte> unwanted(
            is_small && !is_root ? bytes * static_cast<std::uint64_t>(here.ranks()) : 0);
        auto* const all = is_root ? to.data() : unwanted.data();
        auto const run = [&](std::byte const* own) {
          if (is_small) return blink::all_gather(here.me(), plan, own, all, bytes);
          blink::gather(here.me(), plan, own, all, bytes);
        };
        if (is_root && input == MPI_IN_PLACE) {
          to.pack();
          run(all + static_cast<std::uint64_t>(root) * bytes);
        } else {
          row_of_bytes from(input, static_cast<std::uint64_t>(input_count), input_type, comm);
          from.pack();
          run(from.data());
        }
        if (is_root) to.unpack();
        return true;
      })) {
    return code;
  }
  return PMPI_Gather(input, input_count, input_type, output, output_count, output_type, root, comm);
}

int MPI_Scatter(void const* input, int input_count, MPI_Datatype input_type, void* output,
                int output_count, MPI_Datatype output_type, int root, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::scatter, comm, code, [&](attached& here) {
        bool const is_root = here.rank() == root;
        auto const bytes = is_root ? copied_bytes(input_count, input_type)
                                   : copied_bytes(output_count, output_type);
        if (!here.takes(bytes, root)) return false;
        auto const size = bytes * static_cast<std::uint64_t>(here.ranks());
        auto const own = bytes * static_cast<std::uint64_t>(here.rank());
        bool const is_small = here.is_small(size);
        row_of_bytes from(input,
                          is_root ? static_cast<std::uint64_t>(input_count) *
                                        static_cast<std::uint64_t>(here.ranks())
                                  : 0,
                          is_root ? input_type : MPI_BYTE, comm);
        std::vector<std::byte> others(is_small && !is_root ? size : 0);
        auto* const all = is_root ? from.data() : others.data();
        if (is_root) from.pack();
        auto const run = [&](std::byte* to) {
          if (!is_small) {
            return blink::scatter(here.me(), here.plan(shape::scatter, root), read_only(all), to,
                                  bytes);
          }
          blink::broadcast(here.me(), here.plan(shape::tree, root), read_only(all), all, size);
          if (to != all + own) std::memcpy(to, all + own, bytes);
        };
        if (is_root && output == MPI_IN_PLACE) {  // its block stays where it is
          run(all + own);
        } else {
          row_of_bytes to(output, static_cast<std::uint64_t>(output_count), output_type, comm);
          run(to.data());
          to.unpack();
        }
        return true;
      })) {
    return code;
  }
  return PMPI_Scatter(input, input_count, input_type, output, output_count, output_type, root,
                      comm);
}

int MPI_Alltoall(void const* input, int input_count, MPI_Datatype input_type, void* output,
                 int output_count, MPI_Datatype output_type, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::alltoall, comm, code, [&](attached& here) {
        auto const bytes = copied_bytes(output_count, output_type);  // of one block
        if (!here.takes(bytes)) return false;
        auto const ranks = static_cast<std::uint64_t>(here.ranks());
        row_of_bytes to(output, static_cast<std::uint64_t>(output_count) * ranks, output_type,
                        comm);
        auto const run = [&](std::byte const* in) {
          if (!here.is_small(ranks * bytes)) {
            return blink::all_to_all(here.me(), here.plan(shape::all_to_all), in, to.data(), bytes);
          }
          std::vector<std::byte> all(ranks * ranks * bytes);
          blink::all_gather(here.me(), here.plan(shape::star), in, all.data(), ranks * bytes);
          for (std::uint64_t from = 0; from < ranks; ++from) {
            auto const place = from * ranks + static_cast<std::uint64_t>(here.rank());
            std::memcpy(to.data() + from * bytes, all.data() + place * bytes, bytes);
          }
        };
        if (input == MPI_IN_PLACE) {
          to.pack();
          run(to.data());
        } else {
          row_of_bytes from(input, static_cast<std::uint64_t>(input_count) * ranks, input_type,
                            comm);
          from.pack();
          run(from.data());
        }
        to.unpack();
        return true;
      })) {
    return code;
  }
  return PMPI_Alltoall(input, input_count, input_type, output, output_count, output_type, comm);
}

int MPI_Alltoallv(void const* input, int const input_counts[], int const input_displacements[],
                  MPI_Datatype input_type, void* output, int const output_counts[],
                  int const output_displacements[], MPI_Datatype output_type, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::alltoallv, comm, code, [&](attached& here) {
        if (!here.takes_unknown()) return false;
        using order = rows_of_bytes::order;
        bool const is_in_place = input == MPI_IN_PLACE;
        auto const* const counts = is_in_place ? output_counts : input_counts;
        auto const* const places = is_in_place ? output_displacements : input_displacements;
        auto const type = is_in_place ? output_type : input_type;
        if (!are_regular(here, counts, places, type) ||
            !are_regular(here, output_counts, output_displacements, output_type)) {
          return exchange_blocks(here, {.is_odd = true});
        }
        rows_of_bytes to(output, output_counts, output_displacements, here.ranks(), output_type,
                         comm, order::any);
        rows_of_bytes from(is_in_place ? output : input, counts, places, here.ranks(), type, comm,
                           is_in_place ? order::in_a_copy : order::any);
        from.pack();
        if (!exchange_blocks(here, {false, from.data(), from.blocks(), to.data(), to.blocks()})) {
          return false;
        }
        to.unpack();
        return true;
      })) {
    return code;
  }
  return PMPI_Alltoallv(input, input_counts, input_displacements, input_type, output, output_counts,
                        output_displacements, output_type, comm);
}

int MPI_Gatherv(void const* input, int input_count, MPI_Datatype input_type, void* output,
                int const counts[], int const displacements[], MPI_Datatype output_type, int root,
                MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::gatherv, comm, code, [&](attached& here) {
        if (!here.takes_unknown(root)) return false;
        bool const is_root = here.rank() == root;
        bool const stays = is_root && input == MPI_IN_PLACE;
        if ((!stays && !is_regular(input_count, input_type)) ||
            (is_root && !are_regular(here, counts, displacements, output_type))) {
          return exchange_blocks(here, {.is_odd = true});
        }
        auto const ranks = static_cast<std::size_t>(here.ranks());
        std::vector<int> expected(ranks, 0);
        if (is_root) expected.assign(counts, counts + ranks);
        if (stays) expected[static_cast<std::size_t>(root)] = 0;
        std::vector<int> const nowhere(ranks, 0);
        rows_of_bytes to(output, expected.data(), is_root ? displacements : nowhere.data(),
                         here.ranks(), is_root ? output_type : MPI_BYTE, comm,
                         rows_of_bytes::order::any);
        row_of_bytes from(stays ? nullptr : input,
                          stays ? 0 : static_cast<std::uint64_t>(input_count),
                          stays ? MPI_BYTE : input_type, comm);
        from.pack();
        std::vector<blink::block> sends(ranks);
        if (!stays) sends[static_cast<std::size_t>(root)].count = bytes_of(input_count, input_type);
        if (!exchange_blocks(here, {false, from.data(), sends, to.data(), to.blocks()})) {
          return false;
        }
        to.unpack();
        return true;
      })) {
    return code;
  }
  return PMPI_Gatherv(input, input_count, input_type, output, counts, displacements, output_type,
                      root, comm);
}

int MPI_Scatterv(void const* input, int const counts[], int const displacements[],
                 MPI_Datatype input_type, void* output, int output_count, MPI_Datatype output_type,
                 int root, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::scatterv, comm, code, [&](attached& here) {
        if (!here.takes_unknown(root)) return false;
        bool const is_root = here.rank() == root;
        bool const stays = is_root && output == MPI_IN_PLACE;
        if ((!stays && !is_regular(output_count, output_type)) ||
            (is_root && !are_regular(here, counts, displacements, input_type))) {
          return exchange_blocks(here, {.is_odd = true});
        }
        auto const ranks = static_cast<std::size_t>(here.ranks());
        std::vector<int> sent(ranks, 0);
        if (is_root) sent.assign(counts, counts + ranks);
        if (stays) sent[static_cast<std::size_t>(root)] = 0;
        std::vector<int> const nowhere(ranks, 0);
        rows_of_bytes from(input, sent.data(), is_root ? displacements : nowhere.data(),
                           here.ranks(), is_root ? input_type : MPI_BYTE, comm,
                           rows_of_bytes::order::any);
        row_of_bytes to(stays ? nullptr : output,
                        stays ? 0 : static_cast<std::uint64_t>(output_count),
                        stays ? MPI_BYTE : output_type, comm);
        from.pack();
        std::vector<blink::block> receives(ranks);
        if (!stays) {
          receives[static_cast<std::size_t>(root)].count = bytes_of(output_count, output_type);
        }
        if (!exchange_blocks(here, {false, from.data(), from.blocks(), to.data(), receives})) {
          return false;
        }
        to.unpack();
        return true;
      })) {
    return code;
  }
  return PMPI_Scatterv(input, counts, displacements, input_type, output, output_count, output_type,
                       root, comm);
}

int MPI_Barrier(MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::barrier, comm, code, [&](attached& here) {
        if (!here.takes(1)) return false;
        blink::barrier(here.me(), here.plan(shape::tree));
        return true;
      })) {
    return code;
  }
  return PMPI_Barrier(comm);
}

}  // extern "C"
