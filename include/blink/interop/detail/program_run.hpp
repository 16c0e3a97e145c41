// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/detail/program_blocks.hpp>
#include <blink/interop/detail/program_clocks.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/detail/program_memory.hpp>
#include <blink/interop/step_program.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Runs a step program on symbols, chunk by chunk. Each block advances as early as it can, with a
/// limited number of slots between two blocks.
///
/// The first iteration carries values. A clock records the steps that each block knows to be
/// finished: its own, those that it waited for, and those before a chunk that it received. Two
/// accesses to one chunk without such an order are a fault, in whichever order they ran here.
/// Iterations work on different slices, so further ones only show whether the blocks hang.
class program_run {
 public:
  program_run(step_program const& program, bool in_place, int root, queue_room const& room,
              int iterations)
      : program_(&program),
        root_(root),
        blocks_(program, room, iterations),
        clocks_(blocks_.groups()) {
    int const ranks = static_cast<int>(program.ranks.size());
    for (int rank = 0; rank < ranks; ++rank) {
      auto& memory = memory_.emplace_back(program, rank, in_place, root);
      for (auto const& [from, to] : program.ranks[static_cast<std::size_t>(rank)].copies) {
        auto const value = memory.cell({step_buffer::input, from}).value;
        memory.cell({step_buffer::output, to}).value = value;
      }
    }
  }

  /// Throws: program_fault for the first fault.
  void run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (auto& block : blocks_.all()) {
        while (advance(block)) progress = true;
      }
    }
    for (auto const& block : blocks_.all()) {
      if (!blocks_.is_at_end(block)) blocks_.fail_stuck(block);
    }
  }

  /// Throws: program_fault for the first output chunk whose value is not the collective's.
  void check_results() {
    detail::check_results(
        *program_, memory_, root_, [&](int rank, chunk_access const& by, int chunk) {
          return program_place{rank, by.block < 0 ? -1 : blocks_[by.block].index, by.step, chunk};
        });
  }

  /// A rank whose input has changed; nothing if there is none.
  [[nodiscard]] std::optional<int> rank_with_changed_input() {
    return detail::rank_with_changed_input(memory_);
  }

 private:
  bool advance(running_block& b) {
    if (!blocks_.is_ready(b)) return false;
    auto const& step = b.current();
    bool const carries = b.iteration == 0;
    chunk_message arrived;
    if (receives(step.kind)) arrived = blocks_.receive(b);
    chunk_message sent;
    if (carries) sent.value = carry(b, step, arrived);
    if (sends(step.kind)) {
      if (carries) sent.known = std::make_shared<block_clock const>(clocks_.known(b.number));
      blocks_.send(b, std::move(sent));
    }
    if (carries && step.is_awaited && b.ends_step()) clocks_.end_step(b.number, b.step);
    blocks_.step_on(b);
    return true;
  }

  /// Moves the data of one chunk of one step. Returns what the step sends.
  chunk_value carry(running_block const& b, program_step const& step,
                    chunk_message const& arrived) {
    if (step.depends_block >= 0 && b.done == 0) {
      clocks_.learn_from_step(b.number, blocks_.dependency(b, step),
                              static_cast<std::size_t>(step.depends_step));
    }
    if (arrived.known) clocks_.learn(b.number, *arrived.known);
    clocks_.count_chunk(b.number);
    auto value = arrived.value;
    chunk_place from{step.source.buffer, step.source.chunk + b.done};
    chunk_place to{step.destination.buffer, step.destination.chunk + b.done};
    auto const& memory = memory_[static_cast<std::size_t>(b.rank)];
    if (reads_source(step.kind)) {
      auto const local = read(b, from);
      value = value ? sum(b, from, value, local) : local;
    }
    if (step.kind == step_kind::copy && memory.index(from) == memory.index(to)) return value;
    if (step.kind == step_kind::reduce) value = sum(b, to, value, read(b, to));
    if (writes_destination(step.kind)) write(b, to, value);
    return value;
  }

  [[nodiscard]] program_place here(running_block const& b, chunk_place const& place) const {
    return {b.rank, b.index, static_cast<int>(b.step), place.chunk};
  }
  /// The access of the block's current chunk.
  [[nodiscard]] chunk_access access_of(running_block const& b) const {
    return {b.number, clocks_.position(b.number), static_cast<int>(b.step)};
  }
  void require_over(running_block const& b, chunk_place const& place, char const* does,
                    chunk_access const& access, char const* did) const {
    if (access.block < 0 || access.block == b.number) return;
    if (clocks_.is_over(b.number, access.block, access.position)) return;
    throw program_fault(here(b, place), std::string(does) + " " +
                                            std::string(to_text(place.buffer)) + ", which block " +
                                            std::to_string(blocks_[access.block].index) + " step " +
                                            std::to_string(access.step) + " " + did +
                                            ", without waiting for it");
  }

  chunk_value read(running_block const& b, chunk_place const& place) {
    auto& cell = memory_[static_cast<std::size_t>(b.rank)].cell(place);
    if (!cell.value) {
      throw program_fault(here(b, place), "reads " + std::string(to_text(place.buffer)) +
                                              " before anything is written there");
    }
    require_over(b, place, "reads", cell.written, "writes");
    add_read(cell, access_of(b));
    return cell.value;
  }

  void write(running_block const& b, chunk_place const& place, chunk_value const& value) {
    auto& cell = memory_[static_cast<std::size_t>(b.rank)].cell(place);
    require_over(b, place, "writes", cell.written, "writes too");
    for (auto const& access : cell.read) require_over(b, place, "writes", access, "reads");
    cell.value = value;
    cell.written = access_of(b);
    cell.read.clear();
  }

  chunk_value sum(running_block const& b, chunk_place const& place, chunk_value const& one,
                  chunk_value const& other) const {
    return add(one, other, program_->collective, here(b, place));
  }

  step_program const* program_;
  int root_;
  program_blocks blocks_;
  program_clocks clocks_;
  std::vector<rank_memory> memory_;
};

}}}  // namespace blink::BLINK_ABI::detail
