// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/step_program.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// A collective as sends, receives and computations with dependencies: the form of GOAL and of
// Chakra's execution traces, which simulators read.

namespace blink { inline namespace BLINK_ABI {

/// The action of an operation.
enum class message_kind : std::uint8_t { send, receive, compute };

/// The name of an action.
[[nodiscard]] constexpr std::string_view to_text(message_kind kind) {
  constexpr std::string_view names[] = {"send", "receive", "compute"};
  return names[static_cast<std::size_t>(kind)];
}

/// Chunks of a buffer: `first`, `first + stride`, and so on.
struct chunk_range {
  step_buffer buffer = step_buffer::input;
  int first = 0;
  int count = 1;
  int stride = 1;

  /// The place of the chunk number `at`, from 0 on.
  [[nodiscard]] constexpr chunk_place operator[](int at) const {
    return {buffer, first + at * stride};
  }
  friend bool operator==(chunk_range const&, chunk_range const&) = default;
};

/// The data that an operation moves. A send has one source, a receive has a destination, and a
/// computation writes the sum of one or two sources to its destination.
struct data_move {
  std::optional<chunk_range> destination;  ///< nothing: the message
  std::vector<chunk_range> sources = {};   ///< none: the message
  friend bool operator==(data_move const&, data_move const&) = default;
};

/// One operation of a rank.
struct program_operation {
  message_kind kind = message_kind::compute;
  int peer = -1;                      ///< rank, of a send or receive
  std::int64_t tag = 0;               ///< of a send or receive
  std::int64_t bytes = 0;             ///< of a send or receive
  std::int64_t cost = 0;              ///< nanoseconds, of a computation
  int processor = 0;                  ///< operations of one processor do not overlap
  int interface = 0;                  ///< of the network
  std::vector<int> after = {};        ///< operations of the rank that end before this one starts
  std::vector<int> after_start = {};  ///< the same, but they need only have started
  std::optional<data_move> data = {};
  std::string label = {};  ///< in the file, for errors
  friend bool operator==(program_operation const&, program_operation const&) = default;
};

/// The operations of one rank, in the order of its file.
struct rank_messages {
  int input_chunks = 0;    ///< where data are known; positions in the buffer are smaller
  int output_chunks = 0;   ///< the same
  int scratch_chunks = 0;  ///< the same
  std::vector<program_operation> operations;
  friend bool operator==(rank_messages const&, rank_messages const&) = default;
};

/// A collective as messages between ranks.
///
/// An operation starts when the operations of `after` have ended and those of `after_start` have
/// started. A send and a receive match by source, destination and tag, and among equal ones in the
/// order in which they start.
///
/// Files of other authors have no places of data: `has_data` is false, and the fields from
/// `collective` to `root` are not known. Buffers and chunks are those of a step program.
struct message_program {
  bool has_data = false;
  std::optional<blink::collective> collective;  ///< nothing: not known
  int chunk_count = 0;                          ///< as in a step program
  std::int64_t chunk_bytes = 0;
  bool runs_in_place = false;
  bool runs_out_of_place = false;
  std::optional<int> root = {};  ///< rank
  std::vector<rank_messages> ranks = {};
  friend bool operator==(message_program const&, message_program const&) = default;
};

}}  // namespace blink::BLINK_ABI
