// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/detail/mscclpp_run.hpp>
#include <blink/interop/detail/mscclpp_scale.hpp>
#include <blink/interop/detail/mscclpp_structure.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/mscclpp_program.hpp>

#include <optional>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Runs a plan with chunks of one size.
///
/// is_strict: whether relaxed signals and flushes without destinations publish no data; set to
///            false, with a note, where a plan needs them to
/// Returns:   notes
/// Throws:    program_fault.
[[nodiscard]] inline std::vector<std::string> try_mscclpp(mscclpp_program const& program, int root,
                                                          mscclpp_scale const& scale,
                                                          bool& is_strict) {
  auto const run_once = [&] {
    mscclpp_run run(program, root, scale, is_strict);
    run.run();
    return run.rank_with_changed_input();
  };
  std::vector<std::string> notes;
  std::optional<int> changed;
  try {
    changed = run_once();
  } catch (program_fault const& fault) {
    if (!is_strict) throw;
    is_strict = false;
    notes.push_back(
        "relies on relaxed signals for data, or on a flush that MSCCL++ 0.8 to 0.10 leave out: " +
        std::string(fault.what()));
    changed = run_once();
  }
  if (changed) notes.push_back(changed_input_note(*changed));
  return notes;
}

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// Checks an execution plan of any origin against the definitions of the collective and of the
/// operations.
///
/// The check shares no code with the functions that make plans. First it checks that peers,
/// channels, places, semaphores and barriers exist, and that operations have the places which the
/// executor expects. Then it runs the plan on symbols, in two calls one after the other, or in
/// three if calls use scratch memory in turn. Chunks are smaller than the loops' units at first,
/// then larger. It checks that
/// - no block waits without end;
/// - no chunk is read before it is written;
/// - two accesses to one chunk, one of them a write, have an order: by signals, semaphores,
///   barriers, packets, or `nop` between threads of a block, so that timing cannot change the
///   result;
/// - no rank accesses another's buffers outside of that rank's call;
/// - no contribution is added twice;
/// - every output chunk ends with the value that the collective defines, if the collective is
///   known;
/// - every signal has a wait, and semaphores end as they began.
///
/// A port has its own order: what a block puts over a channel, and signals there, is done in order
/// and later. A plan that passes only if relaxed signals publish data is sound, with a note.
///
/// Time:   O(cells moved * P) for P blocks, ports and ranks.  Space: O(P^2 + chunks * ranks).
/// Throws: nothing.
[[nodiscard]] inline program_report check_mscclpp_program(mscclpp_program const& program) {
  program_report report;
  try {
    detail::mscclpp_structure(program).check();
    int root = -1;
    if (program.collective && has_root(*program.collective)) {
      root = detail::root_of(program);
      report.root = root;
    }
    report.notes = detail::mscclpp_limit_notes().of(program);
    if (!program.collective && program.in_place) {
      report.notes.emplace_back(
          "in place, but the meaning of the collective is not known: run with two buffers");
    }
    bool is_strict = true;
    for (auto const& [scale, name, is_rare] : detail::scales_of(program, report.notes)) {
      try {
        for (auto const& note : detail::try_mscclpp(program, root, scale, is_strict)) {
          report.notes.push_back(note + name);
        }
      } catch (detail::program_fault const& fault) {
        if (!is_rare) throw detail::program_fault(fault, name);
        report.notes.push_back(std::string(fault.what()) + name);
      }
    }
  } catch (detail::program_fault const& fault) {
    report.fault = fault.what();
    report.at = fault.at;
  }
  return report;
}

}}  // namespace blink::BLINK_ABI
