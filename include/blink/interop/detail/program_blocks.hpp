// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/program_clocks.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/detail/program_memory.hpp>
#include <blink/interop/step_program.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The capacity of the queue between two blocks.
struct queue_room {
  int slots = 2;
  bool counts_steps = false;  ///< a step's chunks take one slot together (short messages)
};

struct chunk_message {
  chunk_value value;
  std::shared_ptr<block_clock const> known;  ///< of the sender; none: the chunk carries no value
  bool ends_step = false;
};

/// The progress of a block.
struct running_block {
  program_block const* program = nullptr;
  int number = 0;  ///< of all blocks of all ranks
  int rank = 0;
  int index = 0;  ///< in its rank
  int in = -1;    ///< queue; -1: none
  int out = -1;
  int iteration = 0;
  std::size_t step = 0;
  int done = 0;  ///< chunks of the step

  [[nodiscard]] program_step const& current() const { return program->steps[step]; }
  /// True if the next chunk is the last of its step.
  [[nodiscard]] bool ends_step() const {
    auto const& here = current();
    return done + 1 == (here.kind == step_kind::nothing ? 1 : here.count);
  }
};

/// The blocks of all ranks, their progress and waits, and the queues between them. The contents of
/// chunks do not matter here.
///
/// Source: queues with one reader and one writer make the end independent of the order of steps: G.
///         Kahn, "The semantics of a simple language for parallel programming", 1974.
class program_blocks {
 public:
  program_blocks(step_program const& program, queue_room const& room, int iterations)
      : room_(room), iterations_(iterations) {
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      first_block_.push_back(static_cast<int>(blocks_.size()));
      for (auto const& block : program.ranks[rank].blocks) add(block, static_cast<int>(rank));
    }
  }

  [[nodiscard]] std::vector<running_block>& all() { return blocks_; }
  [[nodiscard]] running_block const& operator[](int number) const {
    return blocks_[static_cast<std::size_t>(number)];
  }
  /// The number of the block that a step waits for.
  [[nodiscard]] int dependency(running_block const& b, program_step const& step) const {
    return first_block_[static_cast<std::size_t>(b.rank)] + step.depends_block;
  }
  /// By block: the number of a block that represents its group. Queues and dependencies join the
  /// blocks of a group.
  [[nodiscard]] std::vector<int> groups() const {
    std::vector<int> leader;
    for (auto const& b : blocks_) leader.push_back(b.number);
    auto const find = [&](int b) {
      while (leader[static_cast<std::size_t>(b)] != b) {
        auto& up = leader[static_cast<std::size_t>(b)];
        b = up = leader[static_cast<std::size_t>(up)];
      }
      return b;
    };
    auto const join = [&](int a, int b) { leader[static_cast<std::size_t>(find(a))] = find(b); };
    for (auto const& q : queues_) join(q.sender, q.receiver);
    for (auto const& b : blocks_) {
      for (auto const& step : b.program->steps) {
        if (step.depends_block >= 0) join(b.number, dependency(b, step));
      }
    }
    for (int b = 0; b < std::ssize(blocks_); ++b) leader[static_cast<std::size_t>(b)] = find(b);
    return leader;
  }

  [[nodiscard]] bool is_at_end(running_block const& b) const { return b.iteration == iterations_; }
  /// True if the block can handle its next chunk now.
  [[nodiscard]] bool is_ready(running_block const& b) const {
    return !is_at_end(b) && waits(b) == wait::none;
  }

  /// Takes the next chunk out of the block's incoming queue.
  /// Pre: the block is ready, its step receives.
  [[nodiscard]] chunk_message receive(running_block const& b) {
    auto& in = queue_at(b.in);
    auto arrived = std::move(in.chunks.front());
    in.chunks.pop_front();
    if (arrived.ends_step) --in.steps;
    return arrived;
  }
  /// Puts a chunk into the block's outgoing queue.
  /// Pre: the block is ready, its step sends.
  void send(running_block const& b, chunk_message sent) {
    auto& out = queue_at(b.out);
    sent.ends_step = b.ends_step();
    if (b.done == 0) ++out.steps;
    out.chunks.push_back(std::move(sent));
  }
  /// Advances the block to its next chunk.
  static void step_on(running_block& b) {
    bool const goes_on = !b.ends_step();
    ++b.done;
    if (goes_on) return;
    b.done = 0;
    if (++b.step < b.program->steps.size()) return;
    b.step = 0;
    ++b.iteration;
  }

  /// Throws a fault at a block of the cycle of waits that the stuck block is in or leads to.
  [[noreturn]] void fail_stuck(running_block const& stuck) const {
    std::vector<bool> seen(blocks_.size(), false);
    int at = stuck.number;
    while (!seen[static_cast<std::size_t>(at)]) {
      seen[static_cast<std::size_t>(at)] = true;
      auto const next = waits_for((*this)[at]);
      if (is_at_end((*this)[next])) break;
      at = next;
    }
    auto const& b = (*this)[at];
    auto const& step = b.current();
    int const chunk = reads_source(step.kind)         ? step.source.chunk + b.done
                      : writes_destination(step.kind) ? step.destination.chunk + b.done
                                                      : -1;
    auto const& other = (*this)[waits_for(b)];
    program_fault fault({b.rank, b.index, static_cast<int>(b.step), chunk},
                        "waits without end for " + wait_in_words(b) + "; iteration " +
                            std::to_string(b.iteration) + ", rank " + std::to_string(other.rank) +
                            " block " + std::to_string(other.index) + " is at step " +
                            std::to_string(other.step));
    fault.is_stuck = true;
    throw fault;
  }

 private:
  struct queue {
    std::deque<chunk_message> chunks;
    int steps = 0;  // that the sender began and the receiver has not finished
    int sender = -1;
    int receiver = -1;
  };
  enum class wait : std::uint8_t { none, for_step, for_chunk, for_room };

  [[nodiscard]] queue& queue_at(int at) { return queues_[static_cast<std::size_t>(at)]; }
  [[nodiscard]] queue const& queue_at(int at) const {
    return queues_[static_cast<std::size_t>(at)];
  }

  void add(program_block const& program, int rank) {
    running_block b;
    b.program = &program;
    b.number = static_cast<int>(blocks_.size());
    b.rank = rank;
    b.index = b.number - first_block_.back();
    auto const attach = [&](int from, int to) {
      auto const [entry, fresh] =
          connection_.emplace(std::tuple(from, to, program.channel), queues_.size());
      if (fresh) queues_.emplace_back();
      return static_cast<int>(entry->second);
    };
    if (program.send_peer >= 0) {
      b.out = attach(rank, program.send_peer);
      queue_at(b.out).sender = b.number;
    }
    if (program.receive_peer >= 0) {
      b.in = attach(program.receive_peer, rank);
      queue_at(b.in).receiver = b.number;
    }
    if (program.steps.empty()) b.iteration = iterations_;
    blocks_.push_back(b);
  }

  [[nodiscard]] bool awaits_step(running_block const& b) const {
    auto const& step = b.current();
    if (step.depends_block < 0 || b.done > 0) return false;
    auto const& other = (*this)[dependency(b, step)];
    return other.iteration < b.iteration ||
           (other.iteration == b.iteration &&
            other.step <= static_cast<std::size_t>(step.depends_step));
  }
  [[nodiscard]] bool has_credit(running_block const& b) const {
    auto const& out = queue_at(b.out);
    if (room_.counts_steps) return b.done > 0 || out.steps < room_.slots;
    return std::ssize(out.chunks) < room_.slots;
  }
  [[nodiscard]] wait waits(running_block const& b) const {
    auto const kind = b.current().kind;
    if (awaits_step(b)) return wait::for_step;
    if (receives(kind) && queue_at(b.in).chunks.empty()) return wait::for_chunk;
    return sends(kind) && !has_credit(b) ? wait::for_room : wait::none;
  }
  /// The block that a waiting block waits for.
  [[nodiscard]] int waits_for(running_block const& b) const {
    switch (waits(b)) {
      case wait::for_step:
        return dependency(b, b.current());
      case wait::for_chunk:
        return queue_at(b.in).sender;
      case wait::for_room:
        return queue_at(b.out).receiver;
      case wait::none:
        break;
    }
    return b.number;
  }
  [[nodiscard]] std::string wait_in_words(running_block const& b) const {
    auto const& step = b.current();
    switch (waits(b)) {
      case wait::for_step:
        return "block " + std::to_string(step.depends_block) + " step " +
               std::to_string(step.depends_step);
      case wait::for_chunk:
        return "a chunk from rank " + std::to_string(b.program->receive_peer);
      default:
        return "room: " + std::to_string(room_.slots) +
               (room_.counts_steps ? " steps" : " chunks") + " are in flight to rank " +
               std::to_string(b.program->send_peer);
    }
  }

  queue_room room_;
  int iterations_;
  std::vector<int> first_block_;  // by rank
  std::vector<running_block> blocks_;
  std::map<std::tuple<int, int, int>, std::size_t> connection_;
  std::vector<queue> queues_;
};

}}}  // namespace blink::BLINK_ABI::detail
