// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/interop/detail/message_text.hpp>
#include <blink/interop/message_program.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Writes a program of messages as a schedule in GOAL, which LogGOPSim and ATLAHS read.
///
/// Operations of a rank are labelled l1, l2, and so on; computations cost nanoseconds. Processors
/// and interfaces have numbers up to 254, so that those with larger numbers share them: LogGOPSim
/// keeps how many there are in eight bits. Computations name no interface. The places of data are
/// comments, on lines of their own because LogGOPSim takes them nowhere else.
///
/// Source: T. Hoefler, C. Siebert, A. Lumsdaine, "Group operation assembly language: a flexible way
///         to express collective communication", ICPP 2009.
/// Time:   O(length of the text).
[[nodiscard]] inline std::string write_goal(message_program const& program) {
  constexpr int unit_count = 255;  // processors, and interfaces
  auto const label = [](std::size_t operation) { return "l" + std::to_string(operation + 1); };
  std::string result;
  if (program.has_data) result += "// blink program: " + detail::collective_text(program) + "\n";
  result += "num_ranks " + std::to_string(program.ranks.size()) + "\n";
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    auto const& rank = program.ranks[r];
    result += "\nrank " + std::to_string(r) + " {\n";
    if (program.has_data) result += "// blink buffers: " + detail::buffers_text(rank) + "\n";
    std::string at_end;  // dependencies on later operations, because labels come first
    for (std::size_t i = 0; i < rank.operations.size(); ++i) {
      auto const& here = rank.operations[i];
      if (here.data) result += "// blink data: " + detail::move_text(*here.data) + "\n";
      result += label(i) + ": ";
      if (here.kind == message_kind::compute) {
        result += "calc " + std::to_string(here.cost);
      } else {
        result += (here.kind == message_kind::send ? "send " : "recv ") +
                  std::to_string(here.bytes) +
                  (here.kind == message_kind::send ? "b to " : "b from ") +
                  std::to_string(here.peer) + " tag " + std::to_string(here.tag);
      }
      auto const add_unit = [&](char const* name, int number) {
        if (number % unit_count != 0) result += name + std::to_string(number % unit_count);
      };
      add_unit(" cpu ", here.processor);
      if (here.kind != message_kind::compute) add_unit(" nic ", here.interface);
      result += "\n";
      auto const add = [&](std::vector<int> const& list, char const* relation) {
        for (int const before : list) {
          auto const other = static_cast<std::size_t>(before);
          (other > i ? at_end : result) += label(i) + relation + label(other) + "\n";
        }
      };
      add(here.after, " requires ");
      add(here.after_start, " irequires ");
    }
    result += at_end;
    result += "}\n";
  }
  return result;
}

/// Writes the file.
/// Throws: input_error if the file cannot be written.
inline void write_goal_file(message_program const& program, std::string const& file) {
  detail::write_text(file, write_goal(program));
}

}}  // namespace blink::BLINK_ABI
