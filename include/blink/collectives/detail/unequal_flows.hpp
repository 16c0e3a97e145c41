// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/block.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/detail/collective_call.hpp>
#include <blink/collectives/session.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/transports/prepared_schedule.hpp>
#include <blink/transports/scratch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// What one rank sends and receives, by rank.
struct flow_sizes {
  std::vector<block> sends;
  std::vector<block> receives;
  /// What else both ends must agree about, by rank; empty: nothing.
  std::vector<std::uint64_t> sent_as;
  std::vector<std::uint64_t> received_as;
};

/// Tells every rank what all send and receive, so that ranks on the way know what passes, and
/// compares both ends.
///
/// Returns by sender and receiver, sender * ranks + receiver: where the block begins at the sender
/// and, of blocks to this rank, here.
/// Moves:  5 numbers of 8 bytes for each pair, from each rank to each other.
/// Throws: precondition_error, on all ranks alike, if what a rank sends is not what the other
///         receives; the next call may follow.
template <session Me>
std::vector<block_range> agree_on_flows(Me& me, prepared_schedule& plan, std::string_view name,
                                        flow_sizes const& own) {
  auto const ranks = static_cast<std::size_t>(me.rank_count());
  struct numbers {
    std::uint64_t send_begin, send_count, sent_as, receive_count, received_as;
  };
  std::vector<numbers> row(ranks);
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    row[peer] = {own.sends[peer].begin, own.sends[peer].count,
                 own.sent_as.empty() ? 0 : own.sent_as[peer], own.receives[peer].count,
                 own.received_as.empty() ? 0 : own.received_as[peer]};
  }
  scratch memory(plan.call_memory());
  auto* const rows =  // the own one for each rank
      reinterpret_cast<numbers*>(memory.at_least(2 * ranks * ranks * sizeof(numbers)));
  numbers* const all = rows + ranks * ranks;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    std::uninitialized_copy(row.begin(), row.end(), rows + peer * ranks);
  }
  collective_call<scheduled_chunks, Me, numbers, no_reducer> call(me, plan, collective::all_to_all,
                                                                  rows, all, {ranks}, no_reducer{});
  call.begin();
  call.complete();

  std::vector<block_range> result(ranks * ranks);
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      auto const& sent = all[from * ranks + to];
      auto const& received = all[to * ranks + from];
      auto const pair = [&] {
        return std::string(name) + ": rank " + std::to_string(from) + " sends rank " +
               std::to_string(to) + " ";
      };
      if (sent.send_count != received.receive_count) {
        throw precondition_error(pair() + std::to_string(sent.send_count) + ", which expects " +
                                 std::to_string(received.receive_count));
      }
      if (sent.sent_as != received.received_as) {
        throw precondition_error(pair() +
                                 "other pieces than it expects, of the same size together");
      }
      result[from * ranks + to] = {static_cast<std::size_t>(sent.send_begin), 0,
                                   static_cast<std::size_t>(sent.send_count)};
    }
  }
  auto const rank = static_cast<std::size_t>(me.rank());
  for (std::size_t from = 0; from < ranks; ++from) {
    result[from * ranks + rank].output_begin = own.receives[from].begin;
  }
  return result;
}

/// Moves blocks that are agreed upon.
template <chunking Chunks, session Me, class T>
void move_flows(Me& me, prepared_schedule& plan, T const* input, T* output,
                std::vector<block_range> const& blocks) {
  call_size size;
  for (auto const& one : blocks) size.count += one.count;
  if (size.count == 0) return;  // on all ranks
  size.blocks = blocks.data();
  collective_call<Chunks, Me, T, no_reducer> call(me, plan, collective::all_to_all, input, output,
                                                  size, no_reducer{});
  call.begin();
  call.complete();
}

}  // namespace blink::inline BLINK_ABI::detail
