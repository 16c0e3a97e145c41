// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/detail/token_scanner.hpp>
#include <blink/interop/message_program.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

// The texts in which blink adds to GOAL and to Chakra what these formats have no place for: the
// collective, the buffers, and the places of data. Simulators take them for comments or for
// attributes without a meaning.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// "all_reduce chunks 8 bytes 131072 in_place out_of_place"; for some, "root 3" follows.
[[nodiscard]] inline std::string collective_text(message_program const& program) {
  std::string result(program.collective ? to_text(*program.collective) : "unknown");
  result += " chunks " + std::to_string(program.chunk_count) + " bytes " +
            std::to_string(program.chunk_bytes);
  if (program.runs_in_place) result += " in_place";
  if (program.runs_out_of_place) result += " out_of_place";
  if (program.root) result += " root " + std::to_string(*program.root);
  return result;
}

/// "input 8 output 8 scratch 2": chunks of a rank.
[[nodiscard]] inline std::string buffers_text(rank_messages const& rank) {
  return "input " + std::to_string(rank.input_chunks) + " output " +
         std::to_string(rank.output_chunks) + " scratch " + std::to_string(rank.scratch_chunks);
}

/// "input[3]", "input[0:2]" or "input[0:8:4]": first chunk, end and stride.
[[nodiscard]] inline std::string range_text(chunk_range const& range) {
  auto result = std::string(to_text(range.buffer)) + "[" + std::to_string(range.first);
  if (range.count > 1) {
    result += ":" + std::to_string(range[range.count - 1].chunk + 1);
    if (range.stride > 1) result += ":" + std::to_string(range.stride);
  }
  return result + "]";
}

/// "message = input[0:2]", "scratch[0] = message" or "output[0] = scratch[0] + input[0]".
[[nodiscard]] inline std::string move_text(data_move const& move) {
  auto result = (move.destination ? range_text(*move.destination) : "message") + " = ";
  if (move.sources.empty()) result += "message";
  for (std::size_t i = 0; i < move.sources.size(); ++i) {
    result += (i == 0 ? "" : " + ") + range_text(move.sources[i]);
  }
  return result;
}

inline constexpr std::int64_t most_text_chunks = std::int64_t{1} << 28;

/// Reads what `collective_text` writes. Throws: input_error.
inline void read_collective_text(token_scanner& text, message_program& program) {
  program.has_data = true;
  auto const before = text;
  auto const name = text.word("the name of a collective");
  auto const known = std::find(collective_names.begin(), collective_names.end(), name);
  if (known != collective_names.end()) {
    program.collective = static_cast<collective>(known - collective_names.begin());
  } else if (name != "unknown") {
    before.fail("the name of a collective");
  }
  text.require_word("chunks");
  program.chunk_count = static_cast<int>(text.number(most_text_chunks, "a number of chunks"));
  text.require_word("bytes");
  program.chunk_bytes = text.number(std::int64_t{1} << 60, "bytes of a chunk");
  program.runs_in_place = text.take_word("in_place");
  program.runs_out_of_place = text.take_word("out_of_place");
  if (text.take_word("root")) {
    program.root =
        static_cast<int>(text.number(std::numeric_limits<int>::max(), "the root's rank"));
  }
  text.require_end();
}

/// Reads what `buffers_text` writes. Throws: input_error.
inline void read_buffers_text(token_scanner& text, rank_messages& rank) {
  auto const chunks = [&](step_buffer buffer) {
    text.require_word(to_text(buffer));
    return static_cast<int>(text.number(most_text_chunks, "a number of chunks"));
  };
  rank.input_chunks = chunks(step_buffer::input);
  rank.output_chunks = chunks(step_buffer::output);
  rank.scratch_chunks = chunks(step_buffer::scratch);
  text.require_end();
}

/// Reads what `range_text` writes. Throws: input_error.
[[nodiscard]] inline chunk_range read_range_text(token_scanner& text) {
  chunk_range result;
  auto const chunk = [&] {
    return static_cast<int>(text.number(most_text_chunks, "a chunk's position"));
  };
  for (auto const buffer : {step_buffer::input, step_buffer::output, step_buffer::scratch}) {
    if (!text.take_word(to_text(buffer))) continue;
    result.buffer = buffer;
    text.require_sign("[");
    result.first = chunk();
    if (text.take_sign(":")) {
      int const end = chunk();
      if (text.take_sign(":")) result.stride = chunk();
      if (end <= result.first || result.stride < 1) text.fail("a later end and a stride before it");
      result.count = (end - result.first - 1) / result.stride + 1;
    }
    text.require_sign("]");
    return result;
  }
  text.fail("input, output, scratch or message");
}

/// Reads what `move_text` writes. Throws: input_error.
[[nodiscard]] inline data_move read_move_text(token_scanner& text) {
  data_move result;
  if (!text.take_word("message")) result.destination = read_range_text(text);
  text.require_sign("=");
  if (!text.take_word("message")) {
    result.sources.push_back(read_range_text(text));
    if (text.take_sign("+")) result.sources.push_back(read_range_text(text));
  }
  text.require_end();
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
