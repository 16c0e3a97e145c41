// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/detail/check_program_structure.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/detail/mscclpp_operation_check.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/mscclpp_kind.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The parts of check_mscclpp_program before the run: the shape of an execution plan, and the limits
// of the executor.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The number of chunks of the whole buffer, as the buffers of rank 0 show it.
/// Pre: the collective is known, and the program has ranks.
[[nodiscard]] inline int chunk_count_of(mscclpp_program const& program) {
  auto const kind = *program.collective;
  auto const& first = program.ranks.front();
  int const ranks = static_cast<int>(program.ranks.size());
  // The larger buffer, or ranks times the smaller one where a call in place does not use the other.
  if (has_output_blocks(kind) && !has_input_blocks(kind)) {
    return first.output_chunks > 0 ? first.output_chunks : first.input_chunks * ranks;
  }
  if (has_input_blocks(kind) && !has_output_blocks(kind)) {
    return first.input_chunks > 0 ? first.input_chunks : first.output_chunks * ranks;
  }
  return std::max(first.input_chunks, first.output_chunks);
}

/// The rank that no data leave (reduce) or reach (broadcast).
/// Pre:    the structure is checked; the collective has a root.
/// Throws: program_fault if there is not exactly one.
[[nodiscard]] inline int root_of(mscclpp_program const& program) {
  bool const collects = is_to_root(*program.collective);
  std::vector<bool> moves(program.ranks.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    auto const mark = [&](mscclpp_place const& place, bool is_read) {
      for (int const peer : owners_of(program, static_cast<int>(r), place).ranks) {
        auto const other = static_cast<std::size_t>(peer);
        if (other != r) moves[is_read == collects ? other : r] = true;
      }
    };
    for (auto const& block : program.ranks[r].blocks) {
      for (auto const& each : operations_of(block)) {
        for (auto const& place : each.op->sources) mark(place, true);
        for (auto const& place : each.op->destinations) mark(place, false);
      }
    }
  }
  return still_rank(moves, collects);
}

/// Checks the shape of an execution plan: its buffers, peers, groups, barriers and operations.
class mscclpp_structure {
 public:
  explicit mscclpp_structure(mscclpp_program const& program)
      : program_(&program), rank_count_(static_cast<int>(program.ranks.size())) {}

  /// Throws: program_fault for the first fault in the order of ranks, blocks and operations.
  void check() {
    if (rank_count_ == 0) throw program_fault({}, "the program has no ranks");
    for (int r = 0; r < rank_count_; ++r) {
      auto const& rank = rank_at(r);
      if (std::min({rank.input_chunks, rank.output_chunks, rank.scratch_chunks, rank.semaphores}) <
          0) {
        throw program_fault({r}, "a negative number of chunks or semaphores");
      }
    }
    check_buffers();
    check_scratch();
    for (int r = 0; r < rank_count_; ++r) check_rank(r);
  }

 private:
  [[nodiscard]] mscclpp_rank const& rank_at(int rank) const {
    return program_->ranks[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] bool is_rank(int rank) const { return rank >= 0 && rank < rank_count_; }

  void check_buffers() const {
    if (!program_->collective) return;
    auto const kind = *program_->collective;
    auto const name = std::string(to_text(kind));
    if (!moves_data(kind) || is_permutation(kind) || (has_blocks(kind) && has_root(kind))) {
      throw program_fault({}, "MSCCL++ has no " + name);
    }
    int const chunks = chunk_count_of(*program_);
    if (chunks < 1) throw program_fault({}, "0 chunks, expected 1 at least");
    require_equal_blocks(kind, chunks, rank_count_);
    auto const wanted = chunks_of(kind, chunks, rank_count_, true);
    for (int r = 0; r < rank_count_; ++r) {
      auto const& rank = rank_at(r);
      auto const fits = [&](int found, int expected) {
        return found == expected || (found == 0 && program_->in_place);
      };
      if (fits(rank.input_chunks, wanted.input) && fits(rank.output_chunks, wanted.output)) {
        continue;
      }
      throw program_fault({r}, std::to_string(rank.input_chunks) + " input chunks and " +
                                   std::to_string(rank.output_chunks) +
                                   " output chunks, expected " + std::to_string(wanted.input) +
                                   " and " + std::to_string(wanted.output) + " in " + name);
    }
  }

  /// Each rank takes its own sizes for its peers' scratch memory where calls or chunks share that.
  void check_scratch() const {
    if (!program_->doubles_scratch && !program_->shares_scratch) return;
    int const first = rank_at(0).scratch_chunks;
    for (int r = 1; r < rank_count_; ++r) {
      int const here = rank_at(r).scratch_chunks;
      if (here == first) continue;
      throw program_fault({r}, std::to_string(here) + " scratch chunks, expected " +
                                   std::to_string(first) +
                                   " as at rank 0, where calls or chunks share scratch memory");
    }
  }

  void check_rank(int r) const {
    auto const& rank = rank_at(r);
    for (auto const type : {mscclpp_channel_type::memory, mscclpp_channel_type::port}) {
      for (int const peer : rank.peers(type)) {
        if (is_rank(peer) && peer != r) continue;
        throw program_fault({r}, std::string(to_text(type)) + " channel to rank " +
                                     std::to_string(peer) + ", expected another of the " +
                                     std::to_string(rank_count_) + " ranks");
      }
    }
    for (std::size_t g = 0; g < rank.groups.size(); ++g) check_group(r, static_cast<int>(g));
    std::map<int, std::set<int>> blocks_at;  // by barrier
    std::map<int, int> wanted_at;
    for (std::size_t b = 0; b < rank.blocks.size(); ++b) {
      for (auto const& each : operations_of(rank.blocks[b])) {
        auto const at = each.at(r, static_cast<int>(b));
        mscclpp_operation_check(*program_, each, at).check();
        if (each.op->kind != mscclpp_kind::barrier) continue;
        blocks_at[each.op->barrier].insert(static_cast<int>(b));
        auto const [known, fresh] = wanted_at.emplace(each.op->barrier, each.op->barrier_blocks);
        if (!fresh && known->second != each.op->barrier_blocks) {
          throw program_fault(at, "barrier " + std::to_string(each.op->barrier) + " of " +
                                      std::to_string(each.op->barrier_blocks) + " blocks, and of " +
                                      std::to_string(known->second) + " elsewhere");
        }
      }
    }
    for (auto const& [barrier, blocks] : blocks_at) {
      int const wanted = wanted_at.at(barrier);
      if (wanted == static_cast<int>(blocks.size()) || wanted == 1) continue;
      throw program_fault({r}, "barrier " + std::to_string(barrier) + " of " +
                                   std::to_string(wanted) + " blocks is used by " +
                                   std::to_string(blocks.size()));
    }
  }

  /// Checks that the members of a group have the same group, with the same buffer.
  void check_group(int r, int index) const {
    auto const& group = rank_at(r).groups[static_cast<std::size_t>(index)];
    auto const name = "switch channel " + std::to_string(index);
    if (std::count(group.ranks.begin(), group.ranks.end(), r) != 1) {
      throw program_fault({r}, name + " without the rank itself");
    }
    auto const is_same = [&](mscclpp_group const& other) { return other.ranks == group.ranks; };
    auto const number =
        std::count_if(rank_at(r).groups.begin(), rank_at(r).groups.begin() + index, is_same);
    for (int const member : group.ranks) {
      if (!is_rank(member)) {
        throw program_fault({r}, name + " with rank " + std::to_string(member) + " of " +
                                     std::to_string(rank_count_));
      }
      auto left = number;
      auto const& groups = rank_at(member).groups;
      auto const match = std::find_if(groups.begin(), groups.end(), [&](auto const& other) {
        return is_same(other) && left-- == 0;
      });
      if (match == groups.end()) {
        throw program_fault(
            {r}, name + " of ranks that have no such channel: rank " + std::to_string(member));
      }
      if (match->buffer != group.buffer) {
        throw program_fault({r}, name + " is on the " + std::string(to_text(group.buffer)) +
                                     ", and at rank " + std::to_string(member) + " on the " +
                                     std::string(to_text(match->buffer)));
      }
    }
  }

  mscclpp_program const* program_;
  int rank_count_;
};

/// Notes on the limits that an execution plan exceeds, one for each limit.
class mscclpp_limit_notes {
 public:
  [[nodiscard]] std::vector<std::string> of(mscclpp_program const& program) {
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      auto const& rank = program.ranks[r];
      program_place const at{static_cast<int>(r)};
      require(at, static_cast<std::size_t>(std::max(0, rank.semaphores)), limits_.semaphores,
              "semaphores");
      for (std::size_t b = 0; b < rank.blocks.size(); ++b) {
        check_block(rank.blocks[b], {static_cast<int>(r), static_cast<int>(b)});
      }
    }
    return std::move(notes_);
  }

 private:
  void require(program_place const& at, std::size_t found, int most, std::string const& what) {
    if (found <= static_cast<std::size_t>(most) || !seen_.insert(what).second) return;
    notes_.push_back(in_words(at) + ": " + std::to_string(found) + " " + what + ", more than the " +
                     std::to_string(most) + " of the executor");
  }

  void check_block(mscclpp_block const& block, program_place const& at) {
    for (auto const& segment : block.segments) {
      if (segment.loop_chunks <= 0) continue;
      require(at, segment.operations.size(), limits_.loop_operations, "operations in a loop");
    }
    require(at, static_cast<std::size_t>(operation_count(block)), limits_.operations, "operations");
    std::set<mscclpp_channel> channels;
    for (auto const& each : operations_of(block)) {
      auto const here = each.at(at.rank, at.block);
      auto const& op = *each.op;
      channels.insert(op.channels.begin(), op.channels.end());
      require(here, op.channels.size(), limits_.operation_channels, "channels of an operation");
      auto const most_places = limits_.operation_channels + local_places;
      require(here, std::max(op.sources.size(), op.destinations.size()), most_places,
              "places of an operation");
      require(here, static_cast<std::size_t>(op.barrier + 1), limits_.semaphores, "barriers");
    }
    for (auto const type : {mscclpp_channel_type::memory, mscclpp_channel_type::port}) {
      auto const count = std::count_if(channels.begin(), channels.end(),
                                       [&](auto const& channel) { return channel.type == type; });
      require(at, static_cast<std::size_t>(count), limits_.channels,
              std::string(to_text(type)) + " channels");
    }
  }

  static constexpr int local_places = 2;  // that an operation may have beside its channels
  mscclpp_limits limits_;
  std::set<std::string> seen_;
  std::vector<std::string> notes_;
};

}}}  // namespace blink::BLINK_ABI::detail
