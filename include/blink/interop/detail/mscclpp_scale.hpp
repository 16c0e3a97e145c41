// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/mscclpp_program.hpp>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

// The sizes with which the checker runs an execution plan. A chunk has one or more cells, so that
// loops over units and blocks that share an operation touch cells of their own.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The sizes of a run.
struct mscclpp_scale {
  int cells = 1;                ///< of a chunk
  int scratch_cells = 1;        ///< of a chunk of scratch; fewer where large chunks share it
  std::int64_t cell_bytes = 0;  ///< 0: chunks are small, every loop runs once
};

/// The cells of one iteration of a loop; 0: all in one.
[[nodiscard]] inline int unit_cells(mscclpp_program const& program, mscclpp_scale const& scale,
                                    mscclpp_segment const& loop) {
  if (scale.cell_bytes == 0) return 0;
  return static_cast<int>(program.unit_of(loop) / scale.cell_bytes);
}
/// The number of iterations of a loop.
[[nodiscard]] inline std::int64_t iterations(mscclpp_program const& program,
                                             mscclpp_scale const& scale,
                                             mscclpp_segment const& loop) {
  auto const unit = unit_cells(program, scale, loop);
  if (unit == 0) return 1;
  auto const cells = std::int64_t{loop.loop_chunks} * scale.cells;
  return (cells + unit - 1) / unit;
}

/// A size of chunks to run a plan with.
struct named_scale {
  mscclpp_scale scale;
  std::string name;      ///< " (…)", for messages
  bool is_rare = false;  ///< a fault is a note: the sizes have to be very large
};

/// True if a run with these sizes takes a moment, and not hours or all memory.
[[nodiscard]] inline bool is_feasible(mscclpp_program const& program, mscclpp_scale const& scale) {
  constexpr std::int64_t most_cells = std::int64_t{1} << 21;
  constexpr std::int64_t most_moves = std::int64_t{1} << 22;
  std::int64_t cells = 0;
  std::int64_t moves = 0;
  for (auto const& rank : program.ranks) {
    cells += std::int64_t{scale.cells} * (std::int64_t{rank.input_chunks} + rank.output_chunks) +
             std::int64_t{scale.scratch_cells} * rank.scratch_chunks *
                 (program.has_packets ? 2 : 1) * (program.doubles_scratch ? 2 : 1);
    for (auto const& block : rank.blocks) {
      for (auto const& each : operations_of(block)) {
        std::int64_t const times =
            each.loop == nullptr ? 1 : iterations(program, scale, *each.loop);
        std::int64_t places = 0;
        for (auto const& move : moves_of(*each.op)) {
          auto const ends =
              static_cast<std::int64_t>(move.sources.size() + move.destinations.size());
          auto const of_one = std::int64_t{move.count} * scale.cells;
          if (of_one > most_cells) return false;
          places += ends * of_one / each.op->slices;
        }
        // A loop shares its places out to its iterations.
        moves += 4 * times + places;
        if (cells > most_cells || moves > most_moves) return false;
      }
    }
  }
  return cells <= most_cells;
}

/// The sizes of chunks to run a plan with, from small ones on.
///
/// notes:  sizes that are left out are added here
/// Throws: program_fault if even the smallest sizes are too large.
[[nodiscard]] inline std::vector<named_scale> scales_of(mscclpp_program const& program,
                                                        std::vector<std::string>& notes) {
  std::set<int> units;
  int slices = 1;
  for (auto const& rank : program.ranks) {
    for (auto const& block : rank.blocks) {
      for (auto const& each : operations_of(block)) {
        if (each.loop != nullptr) units.insert(program.unit_of(*each.loop));
        constexpr int most_slices = 64;  // then blocks have unequal parts
        auto const common = std::lcm(std::int64_t{slices}, std::int64_t{each.op->slices});
        if (common <= most_slices) slices = static_cast<int>(common);
      }
    }
  }
  std::vector<named_scale> result{{{slices, slices, 0}, ""}};
  if (!is_feasible(program, result.front().scale)) {
    throw program_fault({}, "too many chunks and operations to check");
  }
  auto const add = [&](mscclpp_scale const& scale, std::string const& name, bool is_rare) {
    if (is_feasible(program, scale)) {
      result.push_back({scale, " (" + name + ")", is_rare});
    } else {
      notes.push_back("not run with " + name + ": too many units");
    }
  };
  int common = 0;
  for (int const unit : units) common = std::gcd(common, unit);
  int const largest = units.empty() ? 1 : *units.rbegin() / common;  // in cells
  if (!units.empty()) {
    add({2 * largest, 2 * largest, common}, "chunks of two units", false);
    add({3 * largest, 3 * largest, common / 2}, "chunks of one and a half units", false);
  }
  int scratch = 0;
  for (auto const& rank : program.ranks) scratch = std::max(scratch, rank.scratch_chunks);
  if (!program.shares_scratch || scratch == 0) return result;
  // Scratch memory has 64 MiB. Larger chunks use their part of it again and again.
  std::int64_t const shared_bytes = (std::int64_t{1} << 26) / (program.doubles_scratch ? 2 : 1);
  auto const alignment = std::max(1, program.alignment);
  std::int64_t const part = (shared_bytes + scratch - 1) / scratch;
  std::int64_t const bytes = (part + alignment - 1) / alignment * alignment;
  auto const name = "chunks above " + std::to_string(bytes) + " bytes, which share scratch memory";
  auto const& first = program.ranks.front();
  auto const chunks =
      static_cast<std::uint64_t>(std::max({1, first.input_chunks, first.output_chunks}));
  if (program.most_bytes / chunks <= static_cast<std::uint64_t>(bytes)) return result;
  if (units.empty()) {
    add({3, 2, 0}, name, true);
  } else if (bytes % common == 0 && bytes / common < (1 << 16)) {
    int const cells = static_cast<int>(bytes / common);
    add({cells + 2 * largest, cells, common}, name, true);
  } else {
    notes.push_back("not run with " + name + ": too many units, or none that divides them");
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
