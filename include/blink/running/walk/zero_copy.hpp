// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

// Messages that leave from the caller's buffers and arrive in them, without a copy in a slot. For
// transports that move memory themselves, such as an MPI library.

namespace blink { inline namespace BLINK_ABI {

/// The chunks that a task has in a buffer.
struct chunk_run {
  std::byte* first = nullptr;  ///< null: no buffer, slots; the other fields hold all the same
  std::size_t stride = 0;      ///< bytes from the begin of a chunk to that of the next
  std::size_t chunk = 0;       ///< bytes of each but the last
  std::size_t bytes = 0;       ///< of all
  std::uint64_t message = 0;   ///< number of the first chunk's message

  [[nodiscard]] std::byte* place(std::uint64_t of_message) const {
    return first + (of_message - message) * stride;
  }
  [[nodiscard]] std::uint64_t chunks() const {
    return chunk == 0 ? 0 : (bytes + chunk - 1) / chunk;
  }
};

/// A transport that can use the buffers of a call.
///
/// Semantics beyond the syntax:
/// - `send_in_place(connection, run, lands)`: the sender's messages of this call lie in `run`,
///   which does not change between `post` and `has_left`. A run without a buffer means slots.
///   `lands`: the receiver calls `receive_in_place`.
/// - `receive_in_place(connection, run, is_input)`: messages of this call arrive in `run`, where
///   `inbox` finds them. A run without a buffer means slots; the sender cannot know it. `is_input`:
///   this rank's own messages along the same tree also lie there, so each chunk is received only
///   after it has left.
/// - `has_left(connection, m)`: message m and all before it are not read from the sender's buffer
///   any more.
/// - All ranks use buffers for messages of at least `zero_copy_threshold()` bytes and for no
///   others, over the connections that `sends_messages`. Both ends give the same answer.
template <class L>
concept zero_copy_transport =
    transport<L> && requires(L const transport, std::uint32_t connection, std::uint64_t message,
                             chunk_run const& run, bool is) {
      { transport.zero_copy_threshold() } -> std::same_as<std::size_t>;
      { transport.sends_messages(connection) } -> std::same_as<bool>;
      { transport.send_in_place(connection, run, is) } -> std::same_as<void>;
      { transport.receive_in_place(connection, run, is) } -> std::same_as<void>;
      { transport.has_left(connection, message) } -> std::same_as<bool>;
    };

/// Gives the connections of a task, whose call fields are set, the buffers of a call. It does so
/// for chunks that are sent from a buffer, or arrive in one, as they are.
///
/// Elements that a root combines arrive at the place of their sum, so that less memory passes
/// through its caches. In place this is not possible, and they need slots.
///
/// reduces:         true if the call combines
/// changes_results: true if results are changed on this rank, so that they differ from what it
///                  sends
/// buffers:         as bytes, of elements of `element_bytes`
/// Time:            O(connections of the task).
template <zero_copy_transport Transport>
void use_buffers_in_place(Transport const transport, tree_task& here, bool reduces,
                          bool changes_results, call_buffers<std::byte> const& buffers,
                          std::size_t element_bytes) {
  std::size_t const bytes = (here.chunk < here.count ? here.chunk : here.count) * element_bytes;
  if (bytes == 0 || bytes < transport.zero_copy_threshold()) {
    return;
  }
  auto const run_of = [&](std::byte const* buffer, std::size_t begin, endpoint const& end) {
    // Outputs are written and inputs are not; the transfer mode shows which.
    auto* const first = const_cast<std::byte*>(buffer + begin * element_bytes);
    return chunk_run{first, here.stride * element_bytes, here.chunk * element_bytes,
                     here.count * element_bytes, end.first};
  };
  auto const input = [&](auto const& end) { return run_of(buffers.input, here.input_begin, end); };
  auto const output = [&](auto const& end) {
    return run_of(buffers.output, here.output_begin, end);
  };
  // Both ends know this. Only the root knows whether it has room for elements, because only its own
  // buffers may be one place.
  auto const lands = [](endpoint const& end, bool is_reduce) {
    return is_reduce ? !end.is_partial : end.receiver_keeps;
  };
  // For tasks with an own input.
  auto const is_one_place = [&] {
    return buffers.input + here.input_begin * element_bytes ==
           buffers.output + here.output_begin * element_bytes;
  };
  bool is_output_free = here.is_reduce && here.writes_output && !is_one_place();
  for (std::uint32_t k = 0; k < here.in_count; ++k) {
    auto& end = here.in[k];
    if (!transport.sends_messages(end.connection) || !lands(end, here.is_reduce)) continue;
    auto run = output(end);
    if (!here.is_reduce) {
      end.way = transfer_mode::into_output;
    } else if (!std::exchange(is_output_free, false)) {
      run.first = nullptr;
    }
    transport.receive_in_place(end.connection, run, !here.is_reduce && reduces && is_one_place());
  }
  bool const leads_up = here.is_reduce && !here.is_root;
  for (std::uint32_t k = 0; k < here.out_count; ++k) {
    auto& end = here.out[k];
    if (!transport.sends_messages(end.connection)) continue;
    bool const sends_input = end.sender_is_source && (leads_up ? !end.is_partial : !reduces);
    bool const sends_output =
        !leads_up && !sends_input && end.sender_keeps && here.writes_output && !changes_results;
    if (sends_input) {
      end.way = transfer_mode::from_input;
    } else if (sends_output) {
      end.way = transfer_mode::from_output;
    }
    auto const run = sends_input ? input(end) : sends_output ? output(end) : chunk_run{};
    transport.send_in_place(end.connection, run, lands(end, leads_up));
  }
}

}}  // namespace blink::BLINK_ABI
