// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/make_step_program.hpp>
#include <blink/interop/message_program.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Parameters of a program of messages.
struct message_program_options {
  std::int64_t bytes = std::int64_t{1} << 20;  ///< of the whole buffer, which a plan's rate counts
  int slices = 1;            ///< of each chunk; every block repeats its steps for each slice
  double cost_per_byte = 0;  ///< nanoseconds to add a received byte to another one
};

/// The limits of step programs that simulators read: none, because they have no tables.
[[nodiscard]] constexpr step_program_limits limits_of_simulators() {
  constexpr int most = std::numeric_limits<int>::max();
  return {most, most, most, most, most, most, most};
}

namespace detail {

/// The tags of a step program's messages. Two messages from one rank to another have different
/// tags, so that they match in whichever order they arrive.
class message_tags {
 public:
  message_tags(step_program const& program, int slices) {
    std::map<connection, std::int64_t> sends_of;
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      for (auto const& block : program.ranks[rank].blocks) {
        auto const count = std::count_if(block.steps.begin(), block.steps.end(),
                                         [](program_step const& step) { return sends(step.kind); });
        sends_of[{static_cast<int>(rank), block.send_peer, block.channel}] += count * slices;
      }
    }
    std::map<std::pair<int, int>, std::int64_t> used;
    for (auto const& [ends, count] : sends_of) {
      auto& next = used[{std::get<0>(ends), std::get<1>(ends)}];
      first_[ends] = next;
      next += count;
    }
  }

  /// The tag of the message number `at` of a connection.
  [[nodiscard]] std::int64_t operator()(int from, int to, int channel, std::int64_t at) const {
    auto const found = first_.find({from, to, channel});
    return (found == first_.end() ? 0 : found->second) + at;
  }

 private:
  using connection = std::tuple<int, int, int>;  // from, to, channel
  std::map<connection, std::int64_t> first_;
};

/// Writes the steps of one rank's thread blocks as operations.
class message_step_writer {
 public:
  message_step_writer(rank_program const& from, int rank, message_tags const& tags,
                      message_program_options const& options, std::int64_t chunk_bytes)
      : from_(&from), rank_(rank), tags_(&tags), options_(&options), chunk_bytes_(chunk_bytes) {}

  /// Throws: precondition_error for a dependency that does not exist; planning_error if blocks wait
  ///         for each other.
  [[nodiscard]] rank_messages write() {
    result_.input_chunks = from_->input_chunks * options_->slices;
    result_.output_chunks = from_->output_chunks * options_->slices;
    for (; slice_ < options_->slices; ++slice_) write_copies();
    int scratch = from_->scratch_chunks;
    for (auto const& block : from_->blocks) {
      blocks_.push_back({&block, scratch, std::vector<int>(block.steps.size(), -1)});
      scratch += most_added(block);
    }
    result_.scratch_chunks = scratch * options_->slices;
    for (slice_ = 0; slice_ < options_->slices; ++slice_) write_slice();
    // Readers of traces expect an operation of every rank.
    if (result_.operations.empty()) add({});
    return std::move(result_);
  }

 private:
  struct block_progress {
    program_block const* block;
    int arrivals;            // scratch chunks for what arrives to be added
    std::vector<int> ended;  // by step: the last operation in this slice; -1: not yet
    std::size_t step = 0;
    int last = -1;  // operation
    std::int64_t sent = 0;
    std::int64_t received = 0;
  };

  [[nodiscard]] static int most_added(program_block const& block) {
    int most = 0;
    for (auto const& step : block.steps) {
      if (receives(step.kind) && reads_source(step.kind)) most = std::max(most, step.count);
    }
    return most;
  }

  void write_copies() {
    for (auto const& [input, output] : from_->copies) {
      after_.clear();
      before_.push_back(compute({step_buffer::output, output}, {{step_buffer::input, input}}, 1));
    }
  }

  /// Lets blocks take turns, so that every operation stands behind those that it depends on.
  void write_slice() {
    for (auto& each : blocks_) {
      each.step = 0;
      std::fill(each.ended.begin(), each.ended.end(), -1);
    }
    std::size_t left = blocks_.size();
    for (bool progress = true; progress;) {
      progress = false;
      left = 0;
      for (std::size_t b = 0; b < blocks_.size(); ++b) {
        while (write_step(b)) progress = true;
        if (blocks_[b].step < blocks_[b].block->steps.size()) ++left;
      }
    }
    if (left == 0) return;
    throw planning_error("rank " + std::to_string(rank_) + ": " + std::to_string(left) +
                         " thread blocks wait for each other without end");
  }

  /// Writes the next step of a block. Returns false if there is none, or it waits.
  bool write_step(std::size_t b) {
    auto& here = blocks_[b];
    if (here.step == here.block->steps.size()) return false;
    auto const& step = here.block->steps[here.step];
    after_ = here.last >= 0 ? std::vector<int>{here.last} : before_;
    if (step.depends_block >= 0) {
      int const awaited = ended(step);
      if (awaited < 0) return false;
      if (awaited != here.last) after_.push_back(awaited);
    }
    processor_ = static_cast<int>(b);
    here.last = write_parts(here, step);
    here.ended[here.step++] = here.last;
    return true;
  }

  [[nodiscard]] int ended(program_step const& step) const {
    auto const b = static_cast<std::size_t>(step.depends_block);
    auto const s = static_cast<std::size_t>(step.depends_step);
    expects(b < blocks_.size() && step.depends_step >= 0 && s < blocks_[b].ended.size(),
            "make_message_program: expected steps that wait for steps of their rank");
    return blocks_[b].ended[s];
  }

  /// Writes a step as its parts: receive, compute, send. Returns the last operation.
  int write_parts(block_progress& here, program_step const& step) {
    if (step.kind == step_kind::nothing) return add({});
    if (step.kind == step_kind::copy) return compute(step.destination, {step.source}, step.count);
    if (step.kind == step_kind::reduce) {
      return compute(step.destination, {step.destination, step.source}, step.count);
    }
    int last = -1;
    auto holds = step.source;
    if (receives(step.kind)) {
      chunk_place const arrival{step_buffer::scratch, here.arrivals};
      bool const adds = reads_source(step.kind);
      holds = writes_destination(step.kind) ? step.destination : arrival;
      last = receive(here, adds ? arrival : holds, step.count);
      if (adds) last = compute(holds, {arrival, step.source}, step.count);
    }
    return sends(step.kind) ? send(here, holds, step.count) : last;
  }

  int receive(block_progress& here, chunk_place const& to, int count) {
    int const peer = here.block->receive_peer;
    program_operation operation{message_kind::receive, peer,
                                (*tags_)(peer, rank_, here.block->channel, here.received++),
                                count * chunk_bytes_};
    operation.data = data_move{range(to, count), {}};
    return add(std::move(operation));
  }
  int send(block_progress& here, chunk_place const& from, int count) {
    int const peer = here.block->send_peer;
    program_operation operation{message_kind::send, peer,
                                (*tags_)(rank_, peer, here.block->channel, here.sent++),
                                count * chunk_bytes_};
    operation.data = data_move{{}, {range(from, count)}};
    return add(std::move(operation));
  }
  int compute(chunk_place const& to, std::vector<chunk_place> const& from, int count) {
    program_operation operation;
    operation.data = data_move{range(to, count), {}};
    for (auto const& each : from) operation.data->sources.push_back(range(each, count));
    if (from.size() > 1) {
      operation.cost =
          std::llround(options_->cost_per_byte * static_cast<double>(count * chunk_bytes_));
    }
    return add(std::move(operation));
  }

  /// Appends an operation after those in `after_`, and lets the next one follow it.
  int add(program_operation operation) {
    operation.after = std::move(after_);
    operation.processor = processor_;
    int const number = static_cast<int>(result_.operations.size());
    result_.operations.push_back(std::move(operation));
    after_ = {number};
    return number;
  }

  [[nodiscard]] chunk_range range(chunk_place const& place, int count) const {
    int const slices = options_->slices;
    return {place.buffer, place.chunk * slices + slice_, count, count > 1 ? slices : 1};
  }

  rank_program const* from_;
  int rank_;
  message_tags const* tags_;
  message_program_options const* options_;
  std::int64_t chunk_bytes_;
  rank_messages result_;
  std::vector<block_progress> blocks_;
  int slice_ = 0;
  int processor_ = 0;
  std::vector<int> before_;  // copies before all steps
  std::vector<int> after_;   // what the next operation waits for
};

}  // namespace detail

/// Writes a step program as messages of a buffer of given bytes.
///
/// The operations of a thread block follow one another on a processor of their own. A step that
/// receives, adds and sends becomes three operations. What arrives to be added stays in scratch
/// memory of the block. Only additions cost time. Chunks are rounded up to whole bytes.
///
/// The whole buffer is the gathered one, the root's, or a rank's of an all_to_all. With slices,
/// every chunk of the result is a slice of the program's chunk. Messages of one slice pass while
/// those of another are added, as in MSCCL's runtimes.
///
/// Pre:    the program is sound (`check_program`); 1 <= bytes <= 2^50; slices >= 1;
///         cost_per_byte >= 0.
/// Time:   O(steps * slices).
/// Throws: precondition_error for options outside `Pre`; planning_error for slices that are too
///         many, and for blocks that wait for each other.
[[nodiscard]] inline message_program make_message_program(
    step_program const& program, message_program_options const& options = {}) {
  expects(options.bytes >= 1 && options.bytes <= std::int64_t{1} << 50,
          "make_message_program: expected from 1 to 2^50 bytes");
  expects(options.slices >= 1, "make_message_program: expected a slice at least");
  expects(options.cost_per_byte >= 0 && options.cost_per_byte <= 1e6,
          "make_message_program: expected a cost per byte from 0 to 10^6 ns");
  expects(program.chunk_count >= 1, "make_message_program: expected a chunk at least");
  auto const chunks = detail::whole_chunks(program) * options.slices;
  constexpr std::int64_t most_chunks = std::int64_t{1} << 24;
  if (options.slices > most_chunks || chunks > most_chunks) {
    throw planning_error(std::to_string(program.chunk_count) + " chunks of " +
                         std::to_string(options.slices) + " slices, expected at most " +
                         std::to_string(most_chunks) + " slices of the whole buffer");
  }
  message_program result;
  result.has_data = true;
  result.collective = program.collective;
  result.chunk_count = program.chunk_count * options.slices;
  result.chunk_bytes = (options.bytes + chunks - 1) / chunks;
  result.runs_in_place = program.runs_in_place;
  result.runs_out_of_place = program.runs_out_of_place;
  if (program.collective && has_root(*program.collective)) result.root = program.root;
  detail::message_tags const tags(program, options.slices);
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    result.ranks.push_back(detail::message_step_writer(program.ranks[rank], static_cast<int>(rank),
                                                       tags, options, result.chunk_bytes)
                               .write());
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
