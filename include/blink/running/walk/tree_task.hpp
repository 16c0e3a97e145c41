// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/thread_group.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// The path of a connection's data from one rank to the other.
enum class transfer_mode : std::uint8_t {
  slots,        ///< the sender writes into the connection's slots, the receiver reads from them
  from_input,   ///< this end: the transport sends from the sender's input (`zero_copy_transport`)
  from_output,  ///< this end: the transport sends from the sender's output
  into_output,  ///< this end: the transport writes arrivals into the receiver's output
  pull_input,   ///< the receiver reads from the sender's input; all messages are posted at once
  pull_output,  ///< the receiver reads from the sender's output
  push,         ///< the sender writes into the receiver's output
};

/// One end of a connection, as its rank sees it; kept from call to call.
struct endpoint {
  std::uint32_t connection = 0;  ///< number of the connection
  std::int32_t peer = 0;         ///< the rank at the other end
  /// towards the root, if the schedule combines in the order of the ranks (`operands_of`): the
  /// first rank whose elements arrive here, and the one after the last
  std::uint32_t first_rank = 0, end_rank = 0;
  bool sends = false;  ///< true for the sending end
  /// true for a reduce connection from a leaf or a broadcast connection from the root
  bool sender_is_source = false;
  /// a broadcast connection: the sender also has the data in its output
  bool sender_keeps = false;
  /// a broadcast connection: the receiver gets the data into its output
  bool receiver_keeps = false;
  transfer_mode way = transfer_mode::slots;  ///< of the present call
  /// true if it carries partial results of the reducer in this call, not elements
  bool is_partial = false;
  /// true if its slots are those of another connection of the task, which has the same messages
  bool repeats_slots = false;
  /// of slots that ranks share, in this call (`slot_rotation.hpp`)
  std::uint8_t slot_subdivision = 0;
  void* at = nullptr;        ///< of the present chunk, where devices read or write (`place_chunk`)
  std::uint64_t first = 0;   ///< number of the first message of the present call
  std::uint64_t bytes = 0;   ///< that passed here so far
  std::uint64_t waited = 0;  ///< clock ticks during which it blocked a task
};

/// The sums of a chunk while some arrivals are missing (`order_promise::any`).
struct early_sums {
  static constexpr std::uint32_t most_arrivals = 64;

  std::byte* sums = nullptr;   ///< accumulators of a chunk; null: nothing is combined early
  std::uint64_t combined = 0;  ///< bits of the arrivals in `sums`, after this rank's input
  std::uint64_t next = 0;      ///< the arrivals to be added now
};

/// One rank's work for one phase of one tree.
///
/// For each chunk it combines this rank's input and the arrivals on `in`, and writes the result to
/// this rank's output and to `out`.
///
/// The chunks of a tree lie `stride` elements apart in the buffers. They are adjacent if a tree has
/// one part of the buffer, and further apart if it has a part of each period.
///
/// Every step of every tree is such a task. A leaf that reduces has no `in`. An inner rank has its
/// children in `in` and its parent in `out`. The root of an all-reduce has its reduce children in
/// `in` and its broadcast children in `out`.
struct tree_task {
  std::uint32_t tree = 0;
  bool is_reduce = false;  ///< towards the root (the root's only task counts as such)
  bool is_root = false;
  bool reads_input = false;
  std::uint32_t input_position = 0;  ///< of this rank's input among what is combined: after how
                                     ///< many of `in`, those from lower ranks
  bool writes_output = false;
  bool follows_tree = false;  ///< in the present call: combines in another way than one operand
                              ///< after the other, along the tree of ranks
  std::uint32_t rank = 0;     ///< this rank
  endpoint* in = nullptr;
  std::uint32_t in_count = 0;
  endpoint* out = nullptr;
  std::uint32_t out_count = 0;

  // The present call.
  std::size_t input_begin = 0;   ///< of the tree's part, in elements, in every input
  std::size_t output_begin = 0;  ///< of the tree's part, in elements, in every output
  std::size_t count = 0;         ///< elements of the part
  std::size_t chunk = 1;         ///< elements of a chunk
  std::size_t stride = 1;        ///< elements from the begin of a chunk to that of the next
  std::uint64_t chunks = 0;      ///< number of chunks
  std::uint64_t done = 0;        ///< chunks that need no more work here
  early_sums early{};
  bool is_finished = false;  ///< also: no peer reads from this rank's buffers any more
  endpoint* blocked_on = nullptr;
  std::uint64_t blocked_since = 0;
};

/// The way in which a rank of a host writes results. Results are the same bit by bit.
enum class store_mode : std::uint8_t {
  plain,    ///< some elements to one output, then to the next
  pairs,    ///< as plain, but a sum of two to this rank's output and to that of a peer in one pass
  streams,  ///< outputs past the caches
  slots,    ///< slots past the caches, outputs as plain
};

/// The buffers of a call, and the state that all tasks of a rank share.
template <class T>
struct call_buffers {
  T const* input = nullptr;
  T* output = nullptr;
  store_mode writes = store_mode::plain;
  bool keeps_own = false;  ///< true if this rank's output goes through the caches in any case
  std::uint64_t* moving = nullptr;  ///< the nanoseconds of moving chunks are added to it
};

/// True if the arrival on connection `k` of the present chunk of `here` has been combined already.
[[nodiscard]] BLINK_HOST_DEVICE inline bool is_combined(tree_task const& here, std::uint32_t k) {
  return here.early.combined != 0 && (here.early.combined >> k & 1) != 0;
}

/// Elements from the begin of the tree's part to the present chunk of `here`.
[[nodiscard]] BLINK_HOST_DEVICE inline std::size_t chunk_offset(tree_task const& here) {
  return static_cast<std::size_t>(here.done) * here.stride;
}

/// Elements in the given chunk of a task.
[[nodiscard]] BLINK_HOST_DEVICE inline std::size_t chunk_count(tree_task const& here,
                                                               std::uint64_t index) {
  std::size_t const before = static_cast<std::size_t>(index) * here.chunk;
  return here.count - before < here.chunk ? here.count - before : here.chunk;
}

namespace detail {

/// Returns the transfer mode of a connection. Both ends get the same result.
///
/// reaches:  true if peers' buffers are read and written directly
/// leads_up: true if the connection is of the phase towards the root
/// reduces:  true if the call has that phase, so that roots send results and not their inputs
[[nodiscard]] BLINK_HOST_DEVICE constexpr transfer_mode transfer_mode_of(endpoint const& end,
                                                                         bool reaches,
                                                                         bool leads_up,
                                                                         bool reduces) {
  if (!reaches) return transfer_mode::slots;
  if (leads_up) return end.sender_is_source ? transfer_mode::pull_input : transfer_mode::slots;
  if (!end.sender_is_source)
    return end.sender_keeps ? transfer_mode::pull_output : transfer_mode::slots;
  if (!reduces) return transfer_mode::pull_input;
  return end.receiver_keeps ? transfer_mode::push : transfer_mode::slots;
}

/// True if the task moves data in a call. Otherwise it only waits until peers have read or written
/// this rank's buffers. The parameters are as above.
[[nodiscard]] BLINK_HOST_DEVICE constexpr bool moves_data(tree_task const& here, bool reaches,
                                                          bool reduces) {
  if (!reaches) return true;
  bool const comes_by_push =
      here.in_count == 1 &&
      transfer_mode_of(here.in[0], true, here.is_reduce, reduces) == transfer_mode::push;
  if (here.writes_output && !comes_by_push) return true;
  for (std::uint32_t k = 0; k < here.out_count; ++k) {
    auto const way = transfer_mode_of(here.out[k], true, here.is_reduce && !here.is_root, reduces);
    if (way != transfer_mode::pull_input) return true;
  }
  return false;
}

BLINK_HOST_DEVICE constexpr void set_transfer_mode(endpoint& end, bool reaches, bool leads_up,
                                                   bool reduces, element_sizes const& sizes) {
  end.way = transfer_mode_of(end, reaches, leads_up, reduces);
  // Leaves send elements as they are, unless the reducer's messages are smaller, or no other rank
  // lifts them.
  bool const is_element =
      end.sender_is_source && sizes.value <= sizes.connection && !sizes.lift_at_source;
  end.is_partial = leads_up && end.way == transfer_mode::slots && !is_element;
}

}  // namespace detail

/// Sets the transfer modes of a task's connections in a call, and whether they carry partial
/// results.
///
/// group: shares the connections
/// sizes: of elements, and of partial results on connections (`sizes_of`)
/// Time:  O(connections of the task).
BLINK_EITHER_SIDE
template <thread_group Group>
BLINK_HOST_DEVICE void choose_transfer_modes(Group const group, tree_task& here, bool reaches,
                                             bool reduces, element_sizes const& sizes) {
  for (std::uint32_t const k : detail::share_of(group, here.in_count)) {
    detail::set_transfer_mode(here.in[k], reaches, here.is_reduce, reduces, sizes);
  }
  for (std::uint32_t const k : detail::share_of(group, here.out_count)) {
    detail::set_transfer_mode(here.out[k], reaches, here.is_reduce && !here.is_root, reduces,
                              sizes);
  }
}

}}  // namespace blink::BLINK_ABI
