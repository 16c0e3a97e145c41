// SPDX-License-Identifier: Apache-2.0
// MPI's collectives that copy data, through blink: see blink_pmpi.cpp.

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>

#include "communicators.hpp"
#include "unequal_blocks.hpp"
#include "user_data.hpp"
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

using blink::collective;
using blink_pmpi::attached;
using blink_pmpi::bytes_of;
using blink_pmpi::can_be_packed;
using blink_pmpi::entry;
using blink_pmpi::exchange_blocks;
using blink_pmpi::row_of_bytes;
using blink_pmpi::rows_of_bytes;
using blink_pmpi::take;

std::byte const* read_only(std::byte* bytes) {
  return bytes;
}

/// Returns the bytes of a block that all ranks copy; 0 if the MPI library must copy it.
std::uint64_t copied_bytes(int count, MPI_Datatype type) {
  auto const bytes = bytes_of(count, type);
  return can_be_packed(bytes) ? bytes : 0;
}

/// True if the arguments have no error that the MPI library must report.
bool is_regular(int count, MPI_Datatype type) {
  return count >= 0 && type != MPI_DATATYPE_NULL && can_be_packed(bytes_of(count, type));
}
bool are_regular(attached const& here, int const* counts, int const* displacements,
                 MPI_Datatype type) {
  return counts != nullptr && displacements != nullptr &&
         std::all_of(counts, counts + here.ranks(),
                     [&](int count) { return is_regular(count, type); });
}

}  // namespace

extern "C" {

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::bcast, comm, code, [&](attached& here) {
        auto const bytes = copied_bytes(count, type);
        if (!here.takes(bytes, root)) return false;
        row_of_bytes row(buffer, static_cast<std::uint64_t>(count), type, comm);
        if (here.rank() == root) row.pack();
        blink::broadcast(here.comm(), row.data(), bytes, root);
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
        auto const run = [&](std::byte const* own) {
          blink::all_gather(here.comm(), own, to.data(), bytes);
        };
        if (input == MPI_IN_PLACE) {
          to.pack();
          run(to.data() + static_cast<std::uint64_t>(here.rank()) * bytes);
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
  return PMPI_Allgather(input, input_count, input_type, output, output_count, output_type, comm);
}

int MPI_Allgatherv(void const* input, int input_count, MPI_Datatype input_type, void* output,
                   int const counts[], int const displacements[], MPI_Datatype output_type,
                   MPI_Comm comm) {
  int code = MPI_SUCCESS;
  if (take(entry::allgatherv, comm, code, [&](attached& here) {
        if (!are_regular(here, counts, displacements, output_type)) return false;
        std::uint64_t bytes = 0;  // of all blocks
        std::uint64_t largest = 0;
        for (int rank = 0; rank < here.ranks(); ++rank) {
          auto const block = bytes_of(counts[rank], output_type);
          bytes += block;
          largest = std::max(largest, block);
        }
        if (!here.takes(bytes)) return false;
        bool const is_small = here.is_small(largest * static_cast<std::uint64_t>(here.ranks()));
        // Displacements differ between ranks, so blocks are packed.
        rows_of_bytes to(output, counts, displacements, here.ranks(), output_type, comm,
                         rows_of_bytes::order::behind);
        auto& star = here.prepared(collective::all_gather);
        auto const run = [&](std::byte const* own) {
          if (!is_small) {
            return blink::all_gather_v(here.comm(), star, own, to.data(), to.blocks());
          }
          std::vector<std::byte> all(largest * to.blocks().size());  // equally sized blocks
          auto* const mine = all.data() + largest * static_cast<std::uint64_t>(here.rank());
          auto const count = to.blocks()[static_cast<std::size_t>(here.rank())].count;
          if (count > 0) std::memcpy(mine, own, count);
          blink::all_gather(here.comm(), star, read_only(mine), all.data(), largest);
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
        row_of_bytes from(input,
                          is_root ? static_cast<std::uint64_t>(input_count) *
                                        static_cast<std::uint64_t>(here.ranks())
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
          blink::all_to_all(here.comm(), in, to.data(), bytes);
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

#if MPI_VERSION >= 4  // counts of 64 bits; those above 2^31 go to the library, as their bytes do
int MPI_Bcast_c(void* buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm) {
  if (!blink_pmpi::is_int(count)) return PMPI_Bcast_c(buffer, count, type, root, comm);
  return MPI_Bcast(buffer, static_cast<int>(count), type, root, comm);
}
int MPI_Allgather_c(void const* input, MPI_Count input_count, MPI_Datatype input_type, void* output,
                    MPI_Count output_count, MPI_Datatype output_type, MPI_Comm comm) {
  if (!blink_pmpi::is_int(input_count) || !blink_pmpi::is_int(output_count)) {
    return PMPI_Allgather_c(input, input_count, input_type, output, output_count, output_type,
                            comm);
  }
  return MPI_Allgather(input, static_cast<int>(input_count), input_type, output,
                       static_cast<int>(output_count), output_type, comm);
}
int MPI_Alltoall_c(void const* input, MPI_Count input_count, MPI_Datatype input_type, void* output,
                   MPI_Count output_count, MPI_Datatype output_type, MPI_Comm comm) {
  if (!blink_pmpi::is_int(input_count) || !blink_pmpi::is_int(output_count)) {
    return PMPI_Alltoall_c(input, input_count, input_type, output, output_count, output_type, comm);
  }
  return MPI_Alltoall(input, static_cast<int>(input_count), input_type, output,
                      static_cast<int>(output_count), output_type, comm);
}
int MPI_Gather_c(void const* input, MPI_Count input_count, MPI_Datatype input_type, void* output,
                 MPI_Count output_count, MPI_Datatype output_type, int root, MPI_Comm comm) {
  if (!blink_pmpi::is_int(input_count) || !blink_pmpi::is_int(output_count)) {
    return PMPI_Gather_c(input, input_count, input_type, output, output_count, output_type, root,
                         comm);
  }
  return MPI_Gather(input, static_cast<int>(input_count), input_type, output,
                    static_cast<int>(output_count), output_type, root, comm);
}
int MPI_Scatter_c(void const* input, MPI_Count input_count, MPI_Datatype input_type, void* output,
                  MPI_Count output_count, MPI_Datatype output_type, int root, MPI_Comm comm) {
  if (!blink_pmpi::is_int(input_count) || !blink_pmpi::is_int(output_count)) {
    return PMPI_Scatter_c(input, input_count, input_type, output, output_count, output_type, root,
                          comm);
  }
  return MPI_Scatter(input, static_cast<int>(input_count), input_type, output,
                     static_cast<int>(output_count), output_type, root, comm);
}
#endif

}  // extern "C"
