// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/step_program.hpp>

#include <optional>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A place in a step program or in an execution plan; -1 where it does not apply.
struct program_place {
  int rank = -1;
  int block = -1;
  int step = -1;
  int chunk = -1;      ///< of the buffer that the fault is about
  int operation = -1;  ///< of an execution plan's block, as a step of a step program's
  int inner = -1;      ///< of the operation if that is a loop
  friend bool operator==(program_place const&, program_place const&) = default;
};

/// "rank 3, block 2, step 5, chunk 7" or "rank 3, block 2, operation 5.1, chunk 7"; empty for the
/// program as a whole.
[[nodiscard]] inline std::string in_words(program_place const& at) {
  std::string result;
  auto const add = [&](char const* what, int number) {
    if (number >= 0)
      result += (result.empty() ? "" : ", ") + std::string(what) + std::to_string(number);
  };
  add("rank ", at.rank);
  add("block ", at.block);
  add("step ", at.step);
  add("operation ", at.operation);
  if (at.inner >= 0) result += "." + std::to_string(at.inner);
  add("chunk ", at.chunk);
  return result;
}

/// The result of a checker: the first fault with its place, the notes, and the root.
struct program_report {
  std::optional<std::string> fault;  ///< nothing if the program is sound
  program_place at;                  ///< where the fault is
  std::vector<std::string> notes;    ///< no faults
  std::optional<int> root;           ///< rank, for collectives that have one
  explicit operator bool() const { return !fault.has_value(); }
};

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A fault that a checker of programs found, and where.
struct program_fault : error {
  program_place at;
  bool is_stuck = false;  ///< a block waits without end
  program_fault(program_place const& place, std::string const& what)
      : error((in_words(place).empty() ? "" : in_words(place) + ": ") + what), at(place) {}
  /// A copy of the fault with more words.
  program_fault(program_fault const& fault, std::string const& more)
      : error(fault.what() + more), at(fault.at), is_stuck(fault.is_stuck) {}
};

/// The note of a sound program that writes to a rank's input.
[[nodiscard]] inline std::string changed_input_note(int rank) {
  return "out of place, the input of rank " + std::to_string(rank) + " is overwritten";
}

/// "output chunk 3" or "output chunks 3 to 5".
[[nodiscard]] inline std::string in_words(chunk_place const& place, int count) {
  auto const last = static_cast<long>(place.chunk) + count - 1;
  return std::string(to_text(place.buffer)) + (count > 1 ? " chunks " : " chunk ") +
         std::to_string(place.chunk) + (count > 1 ? " to " + std::to_string(last) : "");
}

}}}  // namespace blink::BLINK_ABI::detail
