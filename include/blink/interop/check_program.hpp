// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/detail/check_program_structure.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/detail/program_run.hpp>
#include <blink/interop/step_program.hpp>

#include <optional>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Parameters of the run with symbolic data.
struct program_check_options {
  int slots = 0;       ///< chunks in flight between two blocks; 0: those of the protocol
  int iterations = 3;  ///< times that every block repeats its steps
};

/// The number of chunks that fit into the queue between two blocks when messages are large.
///
/// A connection has 8 slots. Each chunk takes 4 of them with the protocol Simple, and one with LL
/// and LL128.
[[nodiscard]] inline int queue_slots(step_program const& program) {
  return program.protocol == "Simple" ? 2 : 8;
}

namespace detail {

/// Runs the program in place or out of place. Returns a note, if there is one.
/// Throws: program_fault.
[[nodiscard]] inline std::optional<std::string> try_program(step_program const& program,
                                                            bool in_place, int root,
                                                            queue_room const& room,
                                                            int iterations) {
  auto const shape = std::string(in_place ? " (in place)" : " (out of place)");
  try {
    program_run run(program, in_place, root, room, iterations);
    run.run();
    run.check_results();
    auto const changed = run.rank_with_changed_input();
    if (in_place || !changed) return std::nullopt;
    return changed_input_note(*changed);
  } catch (program_fault const& fault) {
    if (!fault.is_stuck || room.counts_steps) throw program_fault(fault, shape);
    auto whole = room;
    whole.counts_steps = true;
    (void)try_program(program, in_place, root, whole, iterations);
    return "hangs when messages are so large that each chunk takes a slot by itself: " +
           std::string(fault.what()) + shape;
  }
}

}  // namespace detail

/// Checks a step program of any origin against the definitions of the collective and of the steps.
///
/// The check shares no code with the functions that make programs. First it checks that blocks,
/// peers, channels, offsets and dependencies exist. Each sending block must have a block that
/// receives the same numbers of chunks. Then it runs the program on symbols, in place and out of
/// place as the program states, and checks that
/// - no rank waits without end;
/// - no chunk is read before it is written;
/// - two accesses to one chunk, one of them a write, have an order, so that timing cannot change
///   the result;
/// - no contribution is added twice;
/// - every output chunk ends with the value that the collective defines, if the collective is
///   known.
///
/// A program that hangs only if each chunk of a step takes a slot is sound, with a note. Files for
/// short messages rely on it. If a broadcast or reduce does not name its root, the root is the rank
/// that receives or sends nothing.
///
/// Pre:    options.slots >= 0, options.iterations > 0.
/// Time:   O(chunks moved * B) for B blocks that exchange data.  Space: O(awaited steps * B).
/// Throws: precondition_error for options outside `Pre`, nothing else.
[[nodiscard]] inline program_report check_program(step_program const& program,
                                                  program_check_options const& options = {}) {
  expects(options.slots >= 0 && options.iterations > 0,
          "check_program: expected slots >= 0 and iterations > 0");
  program_report report;
  try {
    detail::program_structure(program).check();
    int root = -1;
    if (program.collective && has_root(*program.collective)) {
      root = detail::root_of(program);
      report.root = root;
    }
    int const slots = options.slots > 0 ? options.slots : queue_slots(program);
    bool const neither = !program.runs_in_place && !program.runs_out_of_place;
    if (neither) report.notes.emplace_back("never chosen: neither in place nor out of place");
    for (bool const in_place : {true, false}) {
      if (!(in_place ? program.runs_in_place : program.runs_out_of_place || neither)) continue;
      auto const note = detail::try_program(program, in_place, root, {slots}, options.iterations);
      if (note) report.notes.push_back(*note);
    }
  } catch (detail::program_fault const& fault) {
    report.fault = fault.what();
    report.at = fault.at;
  }
  return report;
}

}}  // namespace blink::BLINK_ABI
