// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// The part of check_program for the shape of a step program, before the run. Execution plans share
// the first functions.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The only rank that does not move.
///
/// moves:    by rank: whether it sends (reduce, gather) or receives (broadcast, scatter)
/// collects: the former
/// Throws:   program_fault if there is not exactly one.
[[nodiscard]] inline int still_rank(std::vector<bool> const& moves, bool collects) {
  auto const count = std::count(moves.begin(), moves.end(), false);
  if (count != 1) {
    throw program_fault({}, std::to_string(count) + " ranks " + (collects ? "send" : "receive") +
                                " nothing, expected one, the root: the file does not name it");
  }
  return static_cast<int>(std::find(moves.begin(), moves.end(), false) - moves.begin());
}

/// The size of a rank's buffer in chunks, as its program declares it.
///
/// Rank: of a step program or of an execution plan
template <class Rank>
[[nodiscard]] int declared_chunks(Rank const& rank, step_buffer buffer) {
  return buffer == step_buffer::input    ? rank.input_chunks
         : buffer == step_buffer::output ? rank.output_chunks
                                         : rank.scratch_chunks;
}

/// Checks that some chunks are within a buffer.
///
/// size:   of the buffer, in chunks
/// where:  the end of the error's text, such as " at rank 3"
/// Throws: program_fault
inline void require_within(program_place at, chunk_place const& place, int count, int size,
                           std::string const& where = "") {
  if (place.chunk >= 0 && count <= size && place.chunk <= size - count) return;
  at.chunk = place.chunk;
  throw program_fault(at, "uses " + in_words(place, count) + " of " + std::to_string(size) + where);
}

/// Checks that a collective without a root has blocks of equally many chunks, if it has blocks.
/// Throws: program_fault
inline void require_equal_blocks(collective kind, int chunk_count, int rank_count) {
  if (!has_blocks(kind) || has_root(kind) || chunk_count % rank_count == 0) return;
  throw program_fault({}, std::to_string(chunk_count) + " chunks do not divide by " +
                              std::to_string(rank_count) + " ranks, as " +
                              std::string(to_text(kind)) + " needs");
}

/// The rank that sends nothing (reduce, gather) or receives nothing (broadcast, scatter).
/// Pre:    the collective is known.
/// Throws: program_fault if there is not exactly one, or the program names a root that is no rank.
[[nodiscard]] inline int root_of(step_program const& program) {
  int const count = static_cast<int>(program.ranks.size());
  if (program.root) {
    if (*program.root >= 0 && *program.root < count) return *program.root;
    throw program_fault({}, "the root " + std::to_string(*program.root) + " is not one of the " +
                                std::to_string(count) + " ranks");
  }
  bool const collects = is_to_root(*program.collective);
  std::vector<bool> moves;
  for (auto const& rank : program.ranks) {
    moves.push_back(
        std::any_of(rank.blocks.begin(), rank.blocks.end(), [&](program_block const& block) {
          return std::any_of(block.steps.begin(), block.steps.end(), [&](program_step const& step) {
            return collects ? sends(step.kind) : receives(step.kind);
          });
        }));
  }
  return still_rank(moves, collects);
}

class program_structure {
 public:
  explicit program_structure(step_program const& program)
      : program_(&program), rank_count_(static_cast<int>(program.ranks.size())) {}

  /// Throws: program_fault for the first fault in the order of ranks, blocks and steps.
  void check() {
    if (rank_count_ == 0) throw program_fault({}, "the program has no ranks");
    if (program_->chunk_count < 1) {
      throw program_fault({},
                          std::to_string(program_->chunk_count) + " chunks, expected 1 at least");
    }
    constexpr std::int64_t most_chunks = std::int64_t{1} << 26;  // of all ranks; far above any file
    if (std::int64_t{program_->chunk_count} * rank_count_ > most_chunks / rank_count_) {
      throw program_fault({}, std::to_string(program_->chunk_count) + " chunks on " +
                                  std::to_string(rank_count_) + " ranks are too many to check");
    }
    if (program_->collective) {
      require_equal_blocks(*program_->collective, program_->chunk_count, rank_count_);
    }
    if (program_->collective && has_root(*program_->collective)) root_ = root_of(*program_);
    for (int rank = 0; rank < rank_count_; ++rank) {
      auto const& blocks = program_->ranks[static_cast<std::size_t>(rank)].blocks;
      for (auto const& [from, to] : program_->ranks[static_cast<std::size_t>(rank)].copies) {
        check_place({rank}, {step_buffer::input, from}, 1);
        check_place({rank}, {step_buffer::output, to}, 1);
      }
      for (std::size_t b = 0; b < blocks.size(); ++b) check_block(rank, static_cast<int>(b));
    }
    check_connections();
  }

 private:
  [[nodiscard]] program_block const& block(int rank, int index) const {
    return program_->ranks[static_cast<std::size_t>(rank)].blocks[static_cast<std::size_t>(index)];
  }

  void check_block(int rank, int index) const {
    auto const& here = block(rank, index);
    for (auto const& [peer, what] :
         {std::pair(here.send_peer, "send"), std::pair(here.receive_peer, "receive")}) {
      if (peer < -1 || peer >= rank_count_ || peer == rank) {
        throw program_fault({rank, index}, std::string(what) + " peer " + std::to_string(peer) +
                                               ", expected another of the " +
                                               std::to_string(rank_count_) + " ranks or -1");
      }
    }
    if (here.channel < 0 || here.channel >= std::max(program_->channel_count, 1)) {
      throw program_fault({rank, index}, "channel " + std::to_string(here.channel) + " of " +
                                             std::to_string(program_->channel_count));
    }
    for (std::size_t s = 0; s < here.steps.size(); ++s) {
      check_step(here, here.steps[s], {rank, index, static_cast<int>(s)});
    }
  }

  void check_step(program_block const& here, program_step const& step,
                  program_place const& at) const {
    auto const name = "'" + std::string(to_text(step.kind)) + "' ";
    if (sends(step.kind) && here.send_peer < 0) {
      throw program_fault(at, name + "sends, and the block has no send peer");
    }
    if (receives(step.kind) && here.receive_peer < 0) {
      throw program_fault(at, name + "receives, and the block has no receive peer");
    }
    if (step.kind != step_kind::nothing) {
      if (step.count < 1) {
        throw program_fault(
            at, name + "of " + std::to_string(step.count) + " chunks, expected 1 at least");
      }
      if (reads_source(step.kind)) check_place(at, step.source, step.count);
      if (writes_destination(step.kind)) check_place(at, step.destination, step.count);
    }
    if (step.depends_block == -1 && step.depends_step == -1) return;
    auto const& blocks = program_->ranks[static_cast<std::size_t>(at.rank)].blocks;
    auto const awaited = "block " + std::to_string(step.depends_block) + " step " +
                         std::to_string(step.depends_step);
    if (step.depends_block < 0 || step.depends_block >= static_cast<int>(blocks.size()) ||
        step.depends_step < 0 ||
        step.depends_step >=
            static_cast<int>(blocks[static_cast<std::size_t>(step.depends_block)].steps.size())) {
      throw program_fault(at, "waits for " + awaited + ", which does not exist");
    }
    if (!blocks[static_cast<std::size_t>(step.depends_block)]
             .steps[static_cast<std::size_t>(step.depends_step)]
             .is_awaited) {
      throw program_fault(at, "waits for " + awaited + ", which does not publish its end (hasdep)");
    }
  }

  /// Checks that the place is within the file's declared size and within the collective's buffers.
  void check_place(program_place at, chunk_place const& place, int count) const {
    auto const& rank = program_->ranks[static_cast<std::size_t>(at.rank)];
    require_within(at, place, count, declared_chunks(rank, place.buffer));
    if (!program_->collective || place.buffer == step_buffer::scratch) return;
    auto const kind = *program_->collective;
    bool const is_root = !has_root(kind) || root_ == at.rank;
    auto const real = chunks_of(kind, program_->chunk_count, rank_count_, is_root);
    int const size = place.buffer == step_buffer::input ? real.input : real.output;
    if (place.chunk > size - count) {
      at.chunk = place.chunk;
      throw program_fault(at, "uses " + in_words(place, count) + ", and " +
                                  std::string(to_text(kind)) + " has " + std::to_string(size) +
                                  " there");
    }
  }

  void check_connections() const {
    using channel_ends = std::tuple<int, int, int>;  // from, to, channel
    std::map<channel_ends, program_place> senders, receivers;
    for (int rank = 0; rank < rank_count_; ++rank) {
      auto const& blocks = program_->ranks[static_cast<std::size_t>(rank)].blocks;
      for (int b = 0; b < static_cast<int>(blocks.size()); ++b) {
        auto const& here = block(rank, b);
        auto const claim = [&](std::map<channel_ends, program_place>& owners,
                               channel_ends const& key, char const* what) {
          auto const [owner, fresh] = owners.emplace(key, program_place{rank, b});
          if (fresh) return;
          throw program_fault({rank, b}, std::string(what) + " on channel " +
                                             std::to_string(here.channel) + ", as block " +
                                             std::to_string(owner->second.block) + " does");
        };
        if (here.send_peer >= 0) {
          claim(senders, {rank, here.send_peer, here.channel}, "sends to the same rank");
        }
        if (here.receive_peer >= 0) {
          claim(receivers, {here.receive_peer, rank, here.channel}, "receives from the same rank");
        }
      }
    }
    auto const where = [](channel_ends const& key, int end) {
      return "rank " + std::to_string(end) + " on channel " + std::to_string(std::get<2>(key));
    };
    for (auto const& [key, at] : receivers) {
      if (!senders.contains(key)) {
        throw program_fault(
            at, "receives from " + where(key, std::get<0>(key)) + ", where no block sends to it");
      }
    }
    for (auto const& [key, at] : senders) {
      auto const other = receivers.find(key);
      if (other == receivers.end()) {
        throw program_fault(
            at, "sends to " + where(key, std::get<1>(key)) + ", where no block receives from it");
      }
      check_pair(at, other->second);
    }
  }

  /// Checks that the k-th send has as many chunks as the k-th receive.
  void check_pair(program_place sender, program_place receiver) const {
    auto const moving = [&](program_place const& at, bool (*moves)(step_kind)) {
      std::vector<int> result;
      auto const& steps = block(at.rank, at.block).steps;
      for (std::size_t s = 0; s < steps.size(); ++s) {
        if (moves(steps[s].kind)) result.push_back(static_cast<int>(s));
      }
      return result;
    };
    auto const out = moving(sender, [](step_kind kind) { return sends(kind); });
    auto const in = moving(receiver, [](step_kind kind) { return receives(kind); });
    for (std::size_t k = 0; k < std::min(out.size(), in.size()); ++k) {
      sender.step = out[k];
      receiver.step = in[k];
      int const sent =
          block(sender.rank, sender.block).steps[static_cast<std::size_t>(out[k])].count;
      int const received =
          block(receiver.rank, receiver.block).steps[static_cast<std::size_t>(in[k])].count;
      if (sent != received) {
        throw program_fault(sender, "sends " + std::to_string(sent) + " chunks, and " +
                                        in_words(receiver) + " receives " +
                                        std::to_string(received));
      }
    }
    if (out.size() != in.size()) {
      sender.step = receiver.step = -1;
      throw program_fault(sender, "sends " + std::to_string(out.size()) + " times, and " +
                                      in_words(receiver) + " receives " +
                                      std::to_string(in.size()) + " times");
    }
  }

  step_program const* program_;
  int rank_count_;
  int root_ = -1;
};

}}}  // namespace blink::BLINK_ABI::detail
