// SPDX-License-Identifier: Apache-2.0
#pragma once

// MPI's collectives that copy blocks of any sizes, through blink: see serving.hpp.

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/schedule/block.hpp>

#include "attached.hpp"
#include "copying_calls.hpp"
#include "library_functions.hpp"
#include "unequal_blocks.hpp"
#include "user_data.hpp"
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

namespace blink_pmpi {

/// True if the arguments have no error that the MPI library must report.
inline bool is_regular(int count, MPI_Datatype type) {
  return count >= 0 && type != MPI_DATATYPE_NULL && can_be_packed(facts_of(type).size);
}
inline bool are_regular(attached const& here, int const* counts, int const* displacements,
                        MPI_Datatype type) {
  return counts != nullptr && displacements != nullptr &&
         std::all_of(counts, counts + here.ranks(),
                     [&](int count) { return is_regular(count, type); });
}

struct allgatherv_call {
  static constexpr entry name = entry::allgatherv;
  void const* input;
  int input_count;
  MPI_Datatype input_type;
  void* output;
  int const* counts;
  int const* displacements;
  MPI_Datatype output_type;
  MPI_Comm comm;

  [[nodiscard]] bool is_taken(attached const& here) const {
    if (!are_regular(here, counts, displacements, output_type)) return false;
    std::uint64_t bytes = 0;  // of all blocks
    for (int rank = 0; rank < here.ranks(); ++rank) bytes += bytes_of(counts[rank], output_type);
    return here.takes(bytes);
  }
  bool run(attached& here, int&) const {
    std::uint64_t largest = 0;
    for (int rank = 0; rank < here.ranks(); ++rank) {
      auto const block = bytes_of(counts[rank], output_type);
      largest = std::max(largest, block);
    }
    bool const is_small = here.is_small(largest * static_cast<std::uint64_t>(here.ranks()));
    // Displacements differ between ranks, so blocks are packed.
    rows_of_bytes to(output, counts, displacements, here.ranks(), output_type, comm,
                     rows_of_bytes::order::behind);
    auto& star = here.prepared(blink::collective::all_gather);
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
    return std::tuple(input, input_count, input_type, output, counts, displacements, output_type,
                      comm);
  }
  static constexpr library_functions library{PMPI_Allgatherv, PMPI_Iallgatherv,
                                             BLINK_PMPI_INIT(Allgatherv)};
};

struct alltoallv_call {
  static constexpr entry name = entry::alltoallv;
  void const* input;
  int const* input_counts;
  int const* input_displacements;
  MPI_Datatype input_type;
  void* output;
  int const* output_counts;
  int const* output_displacements;
  MPI_Datatype output_type;
  MPI_Comm comm;

  [[nodiscard]] static bool is_taken(attached const& here) { return here.takes_unknown(); }
  bool run(attached& here, int&) const {
    using order = rows_of_bytes::order;
    bool const is_in_place = input == MPI_IN_PLACE;
    auto const* const counts = is_in_place ? output_counts : input_counts;
    auto const* const places = is_in_place ? output_displacements : input_displacements;
    auto const type = is_in_place ? output_type : input_type;
    if (!are_regular(here, counts, places, type) ||
        !are_regular(here, output_counts, output_displacements, output_type)) {
      return exchange_blocks(here, {.is_odd = true});
    }
    rows_of_bytes to(output, output_counts, output_displacements, here.ranks(), output_type, comm,
                     order::any);
    rows_of_bytes from(is_in_place ? output : input, counts, places, here.ranks(), type, comm,
                       is_in_place ? order::in_a_copy : order::any);
    from.pack();
    if (!exchange_blocks(here, {false, from.data(), from.blocks(), to.data(), to.blocks()})) {
      return false;
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
    return std::tuple(input, input_counts, input_displacements, input_type, output, output_counts,
                      output_displacements, output_type, comm);
  }
  static constexpr library_functions library{PMPI_Alltoallv, PMPI_Ialltoallv,
                                             BLINK_PMPI_INIT(Alltoallv)};
};

struct gatherv_call {
  static constexpr entry name = entry::gatherv;
  void const* input;
  int input_count;
  MPI_Datatype input_type;
  void* output;
  int const* counts;
  int const* displacements;
  MPI_Datatype output_type;
  int root;
  MPI_Comm comm;

  [[nodiscard]] bool is_taken(attached const& here) const { return here.takes_unknown(root); }
  bool run(attached& here, int&) const {
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
    row_of_bytes from(stays ? nullptr : input, stays ? 0 : static_cast<std::uint64_t>(input_count),
                      stays ? MPI_BYTE : input_type, comm);
    from.pack();
    std::vector<blink::block> sends(ranks);
    if (!stays) sends[static_cast<std::size_t>(root)].count = bytes_of(input_count, input_type);
    if (!exchange_blocks(here, {false, from.data(), sends, to.data(), to.blocks()})) {
      return false;
    }
    to.unpack();
    return true;
  }
  template <class Keep>
  void for_each_type(Keep const& keep) {
    if (input != MPI_IN_PLACE) keep(input_type);
    if (is_rank(root, comm)) keep(output_type);
  }

  [[nodiscard]] auto arguments() const {
    return std::tuple(input, input_count, input_type, output, counts, displacements, output_type,
                      root, comm);
  }
  static constexpr library_functions library{PMPI_Gatherv, PMPI_Igatherv, BLINK_PMPI_INIT(Gatherv)};
};

struct scatterv_call {
  static constexpr entry name = entry::scatterv;
  void const* input;
  int const* counts;
  int const* displacements;
  MPI_Datatype input_type;
  void* output;
  int output_count;
  MPI_Datatype output_type;
  int root;
  MPI_Comm comm;

  [[nodiscard]] bool is_taken(attached const& here) const { return here.takes_unknown(root); }
  bool run(attached& here, int&) const {
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
    rows_of_bytes from(input, sent.data(), is_root ? displacements : nowhere.data(), here.ranks(),
                       is_root ? input_type : MPI_BYTE, comm, rows_of_bytes::order::any);
    row_of_bytes to(stays ? nullptr : output, stays ? 0 : static_cast<std::uint64_t>(output_count),
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
  }
  template <class Keep>
  void for_each_type(Keep const& keep) {
    if (is_rank(root, comm)) keep(input_type);
    if (output != MPI_IN_PLACE) keep(output_type);
  }

  [[nodiscard]] auto arguments() const {
    return std::tuple(input, counts, displacements, input_type, output, output_count, output_type,
                      root, comm);
  }
  static constexpr library_functions library{PMPI_Scatterv, PMPI_Iscatterv,
                                             BLINK_PMPI_INIT(Scatterv)};
};

}  // namespace blink_pmpi
