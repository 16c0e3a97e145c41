// SPDX-License-Identifier: Apache-2.0
#pragma once

// Exchange of blocks whose sizes only sender and receiver know.

#include <blink/collectives.hpp>
#include <blink/collectives/all_to_all_v.hpp>
#include <blink/collectives/detail/memory_range.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/schedule/block.hpp>

#include "communicators.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace blink_pmpi {

/// The blocks that a rank sends and receives, in bytes.
struct own_blocks {
  bool is_odd = false;  ///< true if the MPI library must report an error in the arguments
  std::byte const* input = nullptr;
  std::vector<blink::block> sends{};  ///< by rank, in `input`
  std::byte* output = nullptr;
  std::vector<blink::block> receives{};  ///< by rank, in `output`
};

/// Returns the same blocks with the data to send in `copy`, one block after the other.
inline own_blocks with_a_copy(own_blocks own, std::vector<std::byte>& copy) {
  std::vector<std::size_t> counts;
  for (auto const& block : own.sends) counts.push_back(block.count);
  auto const row = blink::consecutive_blocks(counts);
  copy.resize(row.back().begin + row.back().count);
  for (std::size_t peer = 0; peer < row.size(); ++peer) {
    if (row[peer].count == 0) continue;
    std::memcpy(copy.data() + row[peer].begin, own.input + own.sends[peer].begin, row[peer].count);
  }
  own.input = copy.data();
  own.sends = row;
  return own;
}

/// Exchanges blocks between all ranks. First each rank sends all sizes, and its data if that is
/// small; small data ends the exchange. Returns false on all ranks if one has odd arguments.
///
/// Throws: precondition_error, on all ranks, if a sender's block and its receiver's have different
///         sizes.
inline bool exchange_blocks(attached& here, own_blocks const& own) {
  std::size_t const room = here.room().bytes();
  auto const ranks = static_cast<std::size_t>(here.ranks());
  auto const own_rank = static_cast<std::size_t>(here.rank());
  std::size_t const numbers = 1 + 2 * ranks;  // is_odd, sizes to send, sizes to receive
  std::size_t const each = numbers * sizeof(std::uint64_t) + room;
  std::vector<std::uint64_t> mine(numbers, 0);
  std::vector<std::byte> all(ranks * each);
  mine[0] = own.is_odd ? 1 : 0;
  std::byte* const record = all.data() + own_rank * each;
  std::size_t eager = 0;
  for (std::size_t peer = 0; peer < ranks && !own.is_odd; ++peer) {
    auto const& block = own.sends[peer];
    mine[1 + peer] = block.count;
    mine[1 + ranks + peer] = own.receives[peer].count;
    if (peer == own_rank || block.count == 0) continue;
    if (block.count <= room - eager) {
      std::memcpy(record + each - room + eager, own.input + block.begin, block.count);
      eager += block.count;
    } else {
      eager = room;  // the receivers see from the sizes that data is missing
    }
  }
  std::memcpy(record, mine.data(), numbers * sizeof(std::uint64_t));
  auto& star = here.prepared(blink::collective::all_gather);
  blink::all_gather(here.comm(), star, static_cast<std::byte const*>(record), all.data(), each);

  auto const number = [&](std::size_t rank, std::size_t index) {
    std::uint64_t result = 0;
    std::memcpy(&result, all.data() + rank * each + index * sizeof(result), sizeof(result));
    return result;
  };
  std::uint64_t most_sent = 0;
  for (std::size_t from = 0; from < ranks; ++from) {
    if (number(from, 0) != 0) return false;
    std::uint64_t sent = 0;
    for (std::size_t to = 0; to < ranks; ++to) {
      if (to != from) sent += number(from, 1 + to);
    }
    most_sent = std::max(most_sent, sent);
  }
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      auto const sent = number(from, 1 + to);
      auto const expected = number(to, 1 + ranks + from);
      if (sent == expected) continue;
      throw blink::precondition_error("rank " + std::to_string(from) + " sends rank " +
                                      std::to_string(to) + " " + std::to_string(sent) +
                                      " bytes, expected " + std::to_string(expected));
    }
  }
  here.room().report(most_sent);
  if (most_sent > room) {
    auto& flows = here.prepared(blink::collective::all_to_all);
    // MPI requires separate blocks, and blink separate buffers. Sent blocks may be between received
    // ones.
    using blink::detail::end_of;
    bool const are_mixed = blink::detail::overlap_where_written(
        {{own.input, end_of(own.sends), false}, {own.output, end_of(own.receives), true}});
    std::vector<std::byte> copy;
    auto const apart = are_mixed ? with_a_copy(own, copy) : own;
    blink::all_to_all_v(here.comm(), flows, apart.input, apart.sends, apart.output, apart.receives);
    return true;
  }
  for (std::size_t from = 0; from < ranks; ++from) {
    auto const& block = own.receives[from];
    if (block.count == 0) continue;
    auto const* data = from == own_rank ? own.input + own.sends[own_rank].begin
                                        : all.data() + (from + 1) * each - room;
    for (std::size_t to = 0; to < own_rank && from != own_rank; ++to) {
      if (to != from) data += number(from, 1 + to);
    }
    std::memcpy(own.output + block.begin, data, block.count);
  }
  return true;
}

}  // namespace blink_pmpi
