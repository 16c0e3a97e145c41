// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/detail/program_memory.hpp>
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
  int slices = 1;            ///< of each chunk; the steps are repeated for each slice
  double cost_per_byte = 0;  ///< nanoseconds to add a received byte to another one
};

/// The limits of step programs that simulators read: none, because they have no tables. Only data
/// order their operations.
[[nodiscard]] constexpr step_program_limits limits_of_simulators() {
  constexpr int most = std::numeric_limits<int>::max();
  return {most, most, most, most, most, most, most, false};
}

namespace detail {

/// The messages of a step program's connections. Two messages from one rank to another have
/// different tags, so that they match in whichever order they arrive.
class message_tags {
 public:
  message_tags(step_program const& program, int slices) {
    std::map<std::pair<int, int>, std::int64_t> used;
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      for (auto const& block : program.ranks[rank].blocks) {
        auto const count = std::count_if(block.steps.begin(), block.steps.end(),
                                         [](program_step const& step) { return sends(step.kind); });
        messages_[{static_cast<int>(rank), block.send_peer, block.channel}].sent += count * slices;
      }
    }
    for (auto& [ends, here] : messages_) {
      auto& next = used[{std::get<0>(ends), std::get<1>(ends)}];
      auto const first = std::exchange(next, next + here.sent);
      here = {first, first};
    }
  }

  /// The tag of the connection's next send.
  [[nodiscard]] std::int64_t send(int from, int to, int channel) {
    return messages_[{from, to, channel}].sent++;
  }
  /// True if a message was sent and not yet received.
  [[nodiscard]] bool has_arrived(int from, int to, int channel) const {
    auto const found = messages_.find({from, to, channel});
    return found != messages_.end() && found->second.received < found->second.sent;
  }
  /// The tag of the connection's next receive.
  [[nodiscard]] std::int64_t receive(int from, int to, int channel) {
    return messages_[{from, to, channel}].received++;
  }

 private:
  struct next_tags {
    std::int64_t sent = 0;
    std::int64_t received = 0;
  };
  std::map<std::tuple<int, int, int>, next_tags> messages_;  // by from, to, channel
};

/// The operations that last used each chunk of a rank's memory. The next one waits for them.
class chunk_uses {
 public:
  chunk_uses(memory_layout const& layout, int scratch_chunks)
      : layout_(layout), uses_(static_cast<std::size_t>(layout.scratch + scratch_chunks)) {}

  [[nodiscard]] bool are_same(chunk_place const& a, chunk_place const& b) const {
    return layout_.chunk(a) == layout_.chunk(b);
  }
  void forget() { std::fill(uses_.begin(), uses_.end(), chunk_use{}); }

  /// Adds to `after` what an operation waits for that reads `count` chunks.
  void read(chunk_place const& from, int count, int operation, std::vector<int>& after) {
    for (int i = 0; i < count; ++i) {
      auto& use = use_of({from.buffer, from.chunk + i});
      if (use.writer >= 0) after.push_back(use.writer);
      use.readers.push_back(operation);
    }
  }
  /// The same for one that writes them. The readers waited for the last writer.
  void write(chunk_place const& to, int count, int operation, std::vector<int>& after) {
    for (int i = 0; i < count; ++i) {
      auto& use = use_of({to.buffer, to.chunk + i});
      if (use.readers.empty() && use.writer >= 0) after.push_back(use.writer);
      for (int const reader : use.readers) {
        if (reader != operation) after.push_back(reader);
      }
      use = {operation, {}};
    }
  }

 private:
  struct chunk_use {
    int writer = -1;
    std::vector<int> readers = {};
  };

  [[nodiscard]] chunk_use& use_of(chunk_place const& place) {
    auto const at = static_cast<std::size_t>(layout_.chunk(place));
    expects(at < uses_.size(), "make_message_program: expected chunks inside of the buffers");
    return uses_[at];
  }

  memory_layout layout_;
  std::vector<chunk_use> uses_;  // by chunk of the memory
};

/// Writes the steps of one rank's thread blocks as operations. Ranks take turns, so that no step is
/// written before those that it waits for, of any rank.
class message_step_writer {
 public:
  message_step_writer(step_program const& program, int rank, message_tags& tags,
                      message_program_options const& options, std::int64_t chunk_bytes)
      : from_(&program.ranks[static_cast<std::size_t>(rank)]),
        rank_(rank),
        tags_(&tags),
        options_(&options),
        chunk_bytes_(chunk_bytes) {
    std::int64_t scratch = from_->scratch_chunks;
    for (auto const& block : from_->blocks) {
      block_progress here{&block};
      for (auto const& step : block.steps) {
        here.arrivals.push_back(static_cast<int>(scratch));
        if (receives(step.kind) && reads_source(step.kind)) scratch += step.count;
      }
      here.receives = here.sends = std::vector<int>(block.steps.size(), -1);
      blocks_.push_back(std::move(here));
    }
    if (scratch * options.slices > std::numeric_limits<int>::max()) {
      throw planning_error("rank " + std::to_string(rank) + " needs " +
                           std::to_string(scratch * options.slices) +
                           " chunks of scratch memory, expected at most 2^31 - 1");
    }
    result_.input_chunks = from_->input_chunks * options.slices;
    result_.output_chunks = from_->output_chunks * options.slices;
    result_.scratch_chunks = static_cast<int>(scratch) * options.slices;
    for (bool const in_place : {true, false}) {
      if (!(in_place ? program.runs_in_place : program.runs_out_of_place || !program.runs_in_place))
        continue;
      uses_.emplace_back(
          layout_of(program, program.chunk_count, rank, program.root.value_or(-1), in_place),
          static_cast<int>(scratch));
    }
  }

  /// Begins the next slice. Slices share no chunks.
  void begin(int slice) {
    slice_ = slice;
    for (auto& uses : uses_) uses.forget();
    for (auto const& [input, output] : from_->copies) {
      compute({step_buffer::output, output}, {{step_buffer::input, input}}, 1);
    }
    for (auto& each : blocks_) each.step = 0;
  }
  /// Writes all steps of the slice that wait for no more. Returns false if there are none.
  /// Throws: precondition_error for a dependency that does not exist, and chunks outside of the
  ///         buffers.
  [[nodiscard]] bool advance() {
    bool result = false;
    for (bool progress = true; std::exchange(progress, false);) {
      for (std::size_t b = 0; b < blocks_.size(); ++b) {
        while (write_step(b)) result = progress = true;
      }
    }
    return result;
  }
  /// The number of blocks that have steps left in the slice.
  [[nodiscard]] std::ptrdiff_t waiting() const {
    return std::count_if(blocks_.begin(), blocks_.end(), [](block_progress const& each) {
      return each.step < each.block->steps.size();
    });
  }
  [[nodiscard]] rank_messages finish() {
    // Readers of traces expect an operation of every rank.
    if (result_.operations.empty()) result_.operations.emplace_back();
    return std::move(result_);
  }

 private:
  struct block_progress {
    program_block const* block;
    std::vector<int> arrivals = {};  // by step: scratch chunks for what arrives to be added
    std::vector<int> receives = {};  // by step: operation in the slice before; -1: none
    std::vector<int> sends = {};     // the same
    std::size_t step = 0;
  };

  /// Writes the next step of a block. Returns false if there is none, or it waits.
  bool write_step(std::size_t b) {
    auto& here = blocks_[b];
    if (here.step == here.block->steps.size()) return false;
    auto const& step = here.block->steps[here.step];
    if (step.depends_block >= 0 && !has_ended(step)) return false;
    if (receives(step.kind) &&
        !tags_->has_arrived(here.block->receive_peer, rank_, here.block->channel)) {
      return false;
    }
    processor_ = static_cast<int>(b);
    write_parts(here, step);
    ++here.step;
    return true;
  }

  [[nodiscard]] bool has_ended(program_step const& step) const {
    auto const b = static_cast<std::size_t>(step.depends_block);
    expects(b < blocks_.size() && step.depends_step >= 0 &&
                step.depends_step < std::ssize(blocks_[b].block->steps),
            "make_message_program: expected steps that wait for steps of their rank");
    return std::cmp_less(step.depends_step, blocks_[b].step);
  }

  /// Writes a step as its parts: receive, compute, send. A step that only waits has none, because
  /// operations wait for what they need.
  void write_parts(block_progress& here, program_step const& step) {
    if (step.kind == step_kind::copy) compute(step.destination, {step.source}, step.count);
    if (step.kind == step_kind::reduce) {
      compute(step.destination, {step.destination, step.source}, step.count);
    }
    auto holds = step.source;
    if (receives(step.kind)) {
      chunk_place const arrival{step_buffer::scratch, here.arrivals[here.step]};
      bool const adds = reads_source(step.kind);
      holds = writes_destination(step.kind) ? step.destination : arrival;
      receive(here, adds ? arrival : holds, step.count);
      if (adds) compute(holds, {arrival, step.source}, step.count);
    }
    if (sends(step.kind)) send(here, holds, step.count);
  }

  void receive(block_progress& here, chunk_place const& to, int count) {
    int const peer = here.block->receive_peer;
    program_operation operation{message_kind::receive, peer,
                                tags_->receive(peer, rank_, here.block->channel),
                                count * chunk_bytes_};
    follow(here.receives[here.step], operation);
    add(std::move(operation), to, {}, count);
  }
  void send(block_progress& here, chunk_place const& from, int count) {
    int const peer = here.block->send_peer;
    program_operation operation{message_kind::send, peer,
                                tags_->send(rank_, peer, here.block->channel),
                                count * chunk_bytes_};
    follow(here.sends[here.step], operation);
    add(std::move(operation), std::nullopt, {from}, count);
  }
  /// Lets the message of a step follow that of the slice before. So trees that share a link take
  /// turns on it, as long as they have messages.
  void follow(int& before, program_operation& operation) const {
    if (before >= 0) operation.after.push_back(before);
    before = static_cast<int>(result_.operations.size());
  }
  void compute(chunk_place const& to, std::vector<chunk_place> const& from, int count) {
    program_operation operation;
    if (from.size() > 1) {
      operation.cost =
          std::llround(options_->cost_per_byte * static_cast<double>(count * chunk_bytes_));
    }
    add(std::move(operation), to, from, count);
  }

  /// Appends an operation after those whose chunks it uses. Without a place, `to` is the message;
  /// without places, `from` is.
  void add(program_operation operation, std::optional<chunk_place> const& to,
           std::vector<chunk_place> const& from, int count) {
    int const number = static_cast<int>(result_.operations.size());
    auto& after = operation.after;
    for (auto& uses : uses_) {
      // A copy of chunks to where they are changes nothing.
      if (to && from.size() == 1 && uses.are_same(*to, from.front())) continue;
      for (auto const& each : from) uses.read(each, count, number, after);
      if (to) uses.write(*to, count, number, after);
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    operation.processor = processor_;
    operation.data.emplace();
    if (to) operation.data->destination = range(*to, count);
    for (auto const& each : from) operation.data->sources.push_back(range(each, count));
    result_.operations.push_back(std::move(operation));
  }

  [[nodiscard]] chunk_range range(chunk_place const& place, int count) const {
    int const slices = options_->slices;
    return {place.buffer, place.chunk * slices + slice_, count, count > 1 ? slices : 1};
  }

  rank_program const* from_;
  int rank_;
  message_tags* tags_;
  message_program_options const* options_;
  std::int64_t chunk_bytes_;
  rank_messages result_;
  std::vector<block_progress> blocks_;
  std::vector<chunk_uses> uses_;  // in place, out of place
  int slice_ = 0;
  int processor_ = 0;
};

}  // namespace detail

/// Writes a step program as messages of a buffer of given bytes.
///
/// A step that receives, adds and sends becomes three operations. Each operation waits only for
/// those whose chunks it uses, in place or out of place: simulators have no thread blocks that run
/// their steps in order. Those of a block share a processor. What arrives to be added stays in
/// scratch memory of its own. Only additions cost time. Chunks are rounded up to whole bytes.
///
/// The whole buffer is the gathered one, the root's, or a rank's of an all_to_all. With slices,
/// every chunk of the result is a slice of the program's chunk. The slices of a step are sent, and
/// received, one after the other. Messages of one slice pass while those of another are forwarded.
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
  detail::message_tags tags(program, options.slices);
  std::vector<detail::message_step_writer> ranks;
  for (int rank = 0; rank < std::ssize(program.ranks); ++rank) {
    ranks.emplace_back(program, rank, tags, options, result.chunk_bytes);
  }
  for (int slice = 0; slice < options.slices; ++slice) {
    for (auto& rank : ranks) rank.begin(slice);
    for (bool progress = true; std::exchange(progress, false);) {
      for (auto& rank : ranks) progress = rank.advance() || progress;
    }
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (ranks[r].waiting() == 0) continue;
      throw planning_error("rank " + std::to_string(r) + ": " + std::to_string(ranks[r].waiting()) +
                           " thread blocks wait for each other or for messages without end");
    }
  }
  for (auto& rank : ranks) result.ranks.push_back(rank.finish());
  return result;
}

}}  // namespace blink::BLINK_ABI
