// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/config.hpp>
#include <blink/planning/detail/program_fault.hpp>
#include <blink/planning/detail/program_memory.hpp>
#include <blink/planning/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// How full the queue between two blocks may be.
struct queue_room {
  int slots = 2;
  bool counts_steps = false;  ///< a step's chunks take one slot together (short messages)
};

/// Runs a step program with symbols instead of data: chunk by chunk, each block as early as it can,
/// with so many slots at most on the way between two blocks.
///
/// The first iteration carries values. A vector clock says what each block knows to be over (its own
/// steps, what it waited for, what came before a chunk that it received); two accesses to one chunk
/// without such an order are a fault, whichever came first here. Iterations work on different slices,
/// so further ones only show whether the blocks get past each other.
///
/// Source: vector clocks: F. Mattern, "Virtual time and global states of distributed systems", 1989.
///         Queues with one reader and one writer make the end independent of the order of steps:
///         G. Kahn, "The semantics of a simple language for parallel programming", 1974.
class program_run {
 public:
  program_run(step_program const& program, bool in_place, int root, queue_room const& room,
              int iterations)
      : program_(&program), root_(root), room_(room), iterations_(iterations) {
    int const ranks = static_cast<int>(program.ranks.size());
    for (int rank = 0; rank < ranks; ++rank) {
      memory_.emplace_back(program, rank, in_place, root);
      first_block_.push_back(static_cast<int>(blocks_.size()));
      auto const& here = program.ranks[static_cast<std::size_t>(rank)];
      for (auto const& [from, to] : here.copies) {
        auto const value = memory_.back().cell({step_buffer::input, from}).value;
        memory_.back().cell({step_buffer::output, to}).value = value;
      }
      for (std::size_t b = 0; b < here.blocks.size(); ++b) {
        add_block(here.blocks[b], rank, static_cast<int>(b));
      }
    }
    group_clocks();
  }

  /// Throws program_fault for the first fault.
  void run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (auto& block : blocks_) {
        while (advance(block)) progress = true;
      }
    }
    for (auto const& block : blocks_) {
      if (block.iteration < iterations_) fail_stuck(block);
    }
  }

  /// Throws program_fault for the first output chunk that does not hold what the collective wants.
  void check_results() {
    if (!program_->collective) return;
    int const ranks = static_cast<int>(memory_.size());
    for (int rank = 0; rank < ranks; ++rank) {
      auto& memory = memory_[static_cast<std::size_t>(rank)];
      for (int c = 0; c < memory.counts().output; ++c) {
        auto const wanted =
            wanted_value(*program_->collective, rank, c, ranks, program_->chunk_count, root_);
        auto const& cell = memory.cell({step_buffer::output, c});
        if (wanted && (!cell.value || *cell.value != *wanted)) {
          auto const& by = cell.written;
          program_place const at{rank, by.block < 0 ? -1 : block(by.block).index, by.step, c};
          throw program_fault(at, difference(cell.value, *wanted));
        }
      }
    }
  }

  /// Is some rank's input another one than before? Never where input and output share memory.
  [[nodiscard]] std::optional<int> rank_with_changed_input() {
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      for (int c = 0; c < memory_[rank].counts().input; ++c) {
        auto const& cell = memory_[rank].cell({step_buffer::input, c});
        if (cell.written.block >= 0) return static_cast<int>(rank);
      }
    }
    return std::nullopt;
  }

 private:
  using clock = std::vector<std::uint32_t>;  // by block of the group: chunks that it has handled

  struct message {
    chunk_value value;
    std::shared_ptr<clock const> known;
    bool ends_step = false;
  };
  struct queue {
    std::deque<message> chunks;
    int steps = 0;  // of the sender, begun and not received to the end
    int sender = -1;
    int receiver = -1;
  };
  struct block_state {
    program_block const* program = nullptr;
    int rank = 0;
    int index = 0;  // in its rank
    int in = -1;    // queues
    int out = -1;
    int iteration = 0;
    std::size_t step = 0;
    int done = 0;                // chunks of the step
    std::uint32_t position = 0;  // chunks of the iteration
    int in_group = 0;            // place in the clocks of its group
    clock known;
    std::map<std::size_t, clock> ended;  // awaited steps of the first iteration
  };

  [[nodiscard]] block_state& block(int at) { return blocks_[static_cast<std::size_t>(at)]; }
  [[nodiscard]] block_state const& block(int at) const {
    return blocks_[static_cast<std::size_t>(at)];
  }
  [[nodiscard]] int number_of(block_state const& b) const {
    return first_block_[static_cast<std::size_t>(b.rank)] + b.index;
  }
  [[nodiscard]] queue& queue_at(int at) { return queues_[static_cast<std::size_t>(at)]; }

  void add_block(program_block const& program, int rank, int index) {
    block_state state;
    state.program = &program;
    state.rank = rank;
    state.index = index;
    int const number = static_cast<int>(blocks_.size());
    auto const attach = [&](int from, int to) {
      auto const [entry, fresh] =
          connection_.emplace(std::tuple(from, to, program.channel), queues_.size());
      if (fresh) queues_.emplace_back();
      return static_cast<int>(entry->second);
    };
    if (program.send_peer >= 0) {
      state.out = attach(rank, program.send_peer);
      queue_at(state.out).sender = number;
    }
    if (program.receive_peer >= 0) {
      state.in = attach(program.receive_peer, rank);
      queue_at(state.in).receiver = number;
    }
    if (program.steps.empty()) state.iteration = iterations_;
    blocks_.push_back(std::move(state));
  }

  /// Blocks that queues and dependencies join share clocks; between others there is no order anyway.
  void group_clocks() {
    std::vector<int> leader(blocks_.size());
    std::iota(leader.begin(), leader.end(), 0);
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
        if (step.depends_block >= 0) {
          join(number_of(b), first_block_[static_cast<std::size_t>(b.rank)] + step.depends_block);
        }
      }
    }
    std::map<int, int> size;
    for (auto& b : blocks_) b.in_group = size[find(number_of(b))]++;
    for (auto& b : blocks_) {
      group_.push_back(find(number_of(b)));
      b.known.assign(static_cast<std::size_t>(size.at(group_.back())), 0);
    }
  }

  [[nodiscard]] static int pieces(program_step const& step) {
    return step.kind == step_kind::nothing ? 1 : step.count;
  }
  [[nodiscard]] block_state const* awaited(block_state const& b, program_step const& step) const {
    if (step.depends_block < 0) return nullptr;
    auto const& other = block(first_block_[static_cast<std::size_t>(b.rank)] + step.depends_block);
    bool const over =
        other.iteration > b.iteration || (other.iteration == b.iteration &&
                                          other.step > static_cast<std::size_t>(step.depends_step));
    return over ? nullptr : &other;
  }

  enum class wait : std::uint8_t { none, for_step, for_chunk, for_room };

  [[nodiscard]] wait waits(block_state const& b) const {
    auto const& step = b.program->steps[b.step];
    if (b.done == 0 && awaited(b, step) != nullptr) return wait::for_step;
    if (receives(step.kind) && queues_[static_cast<std::size_t>(b.in)].chunks.empty()) {
      return wait::for_chunk;
    }
    return sends(step.kind) && !has_room(b) ? wait::for_room : wait::none;
  }
  /// The block that a waiting one waits for.
  [[nodiscard]] int waits_for(block_state const& b) const {
    switch (waits(b)) {
      case wait::for_step:
        return number_of(*awaited(b, b.program->steps[b.step]));
      case wait::for_chunk:
        return queues_[static_cast<std::size_t>(b.in)].sender;
      case wait::for_room:
        return queues_[static_cast<std::size_t>(b.out)].receiver;
      case wait::none:
        break;
    }
    return number_of(b);
  }
  [[nodiscard]] std::string wait_in_words(block_state const& b) const {
    auto const& step = b.program->steps[b.step];
    switch (waits(b)) {
      case wait::for_step:
        return "block " + std::to_string(step.depends_block) + " step " +
               std::to_string(step.depends_step);
      case wait::for_chunk:
        return "a chunk from rank " + std::to_string(b.program->receive_peer);
      default:
        return "room: " + std::to_string(room_.slots) +
               (room_.counts_steps ? " steps" : " chunks") + " are on the way to rank " +
               std::to_string(b.program->send_peer);
    }
  }
  [[nodiscard]] bool has_room(block_state const& b) const {
    auto const& out = queues_[static_cast<std::size_t>(b.out)];
    if (room_.counts_steps) return b.done > 0 || out.steps < room_.slots;
    return std::ssize(out.chunks) < room_.slots;
  }

  bool advance(block_state& b) {
    if (b.iteration == iterations_ || waits(b) != wait::none) return false;
    auto const& step = b.program->steps[b.step];
    bool const carries = b.iteration == 0;
    message arrived;
    if (receives(step.kind)) {
      arrived = std::move(queue_at(b.in).chunks.front());
      queue_at(b.in).chunks.pop_front();
      if (arrived.ends_step) --queue_at(b.in).steps;
    }
    message sent;
    if (carries) sent.value = carry(b, step, arrived);
    if (sends(step.kind)) {
      if (carries) sent.known = std::make_shared<clock const>(b.known);
      sent.ends_step = b.done + 1 == pieces(step);
      if (b.done == 0) ++queue_at(b.out).steps;
      queue_at(b.out).chunks.push_back(std::move(sent));
    }
    if (++b.done < pieces(step)) return true;
    if (carries && step.is_awaited) b.ended[b.step] = b.known;
    b.done = 0;
    if (++b.step < b.program->steps.size()) return true;
    b.step = 0;
    ++b.iteration;
    return true;
  }

  void learn(block_state& b, clock const& other) {
    for (std::size_t i = 0; i < b.known.size(); ++i) b.known[i] = std::max(b.known[i], other[i]);
  }

  /// The data of one chunk of one step. Returns what the step sends.
  chunk_value carry(block_state& b, program_step const& step, message const& arrived) {
    if (step.depends_block >= 0 && b.done == 0) {
      auto const& other =
          block(first_block_[static_cast<std::size_t>(b.rank)] + step.depends_block);
      learn(b, other.ended.at(static_cast<std::size_t>(step.depends_step)));
    }
    if (arrived.known) learn(b, *arrived.known);
    b.known[static_cast<std::size_t>(b.in_group)] = ++b.position;
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

  [[nodiscard]] program_place here(block_state const& b, chunk_place const& place) const {
    return {b.rank, b.index, static_cast<int>(b.step), place.chunk};
  }
  /// Is this access over, as far as the block can know?
  [[nodiscard]] bool is_over(block_state const& b, chunk_access const& access) const {
    if (access.block < 0 || access.block == number_of(b)) return true;
    auto const& other = block(access.block);
    return group_[static_cast<std::size_t>(access.block)] ==
               group_[static_cast<std::size_t>(number_of(b))] &&
           b.known[static_cast<std::size_t>(other.in_group)] >= access.position;
  }
  void require_over(block_state const& b, chunk_place const& place, char const* does,
                    chunk_access const& access, char const* did) const {
    if (is_over(b, access)) return;
    throw program_fault(here(b, place), std::string(does) + " " +
                                            std::string(to_text(place.buffer)) + ", which block " +
                                            std::to_string(block(access.block).index) + " step " +
                                            std::to_string(access.step) + " " + did +
                                            ", without waiting for it");
  }

  chunk_value read(block_state& b, chunk_place const& place) {
    auto& cell = memory_[static_cast<std::size_t>(b.rank)].cell(place);
    if (!cell.value) {
      throw program_fault(here(b, place), "reads " + std::string(to_text(place.buffer)) +
                                              " before anything is written there");
    }
    require_over(b, place, "reads", cell.written, "writes");
    chunk_access const access{number_of(b), b.position, static_cast<int>(b.step)};
    auto const before = std::find_if(cell.read.begin(), cell.read.end(), [&](auto const& other) {
      return other.block == access.block;
    });
    if (before == cell.read.end()) {
      cell.read.push_back(access);
    } else {
      *before = access;
    }
    return cell.value;
  }

  void write(block_state& b, chunk_place const& place, chunk_value const& value) {
    auto& cell = memory_[static_cast<std::size_t>(b.rank)].cell(place);
    require_over(b, place, "writes", cell.written, "writes too");
    for (auto const& access : cell.read) require_over(b, place, "writes", access, "reads");
    cell.value = value;
    cell.written = {number_of(b), b.position, static_cast<int>(b.step)};
    cell.read.clear();
  }

  chunk_value sum(block_state const& b, chunk_place const& place, chunk_value const& one,
                  chunk_value const& other) const {
    if (program_->collective && !has_reduce_phase(*program_->collective)) {
      throw program_fault(here(b, place),
                          "adds chunks up in " + std::string(to_text(*program_->collective)));
    }
    std::vector<chunk_origin> result;
    std::merge(one->begin(), one->end(), other->begin(), other->end(), std::back_inserter(result));
    auto const twice = std::adjacent_find(result.begin(), result.end());
    if (twice != result.end()) {
      throw program_fault(here(b, place), "adds the contribution of rank " +
                                              std::to_string(twice->rank) + " to chunk " +
                                              std::to_string(twice->chunk) + " a second time");
    }
    auto const mixed = std::adjacent_find(
        result.begin(), result.end(),
        [](chunk_origin const& a, chunk_origin const& c) { return a.chunk != c.chunk; });
    if (program_->collective && mixed != result.end()) {
      throw program_fault(here(b, place), "adds chunk " + std::to_string(mixed->chunk) +
                                              " of rank " + std::to_string(mixed->rank) +
                                              " to another chunk, " +
                                              std::to_string(std::next(mixed)->chunk) +
                                              " of rank " + std::to_string(std::next(mixed)->rank));
    }
    return value_of(std::move(result));
  }

  [[nodiscard]] static std::string difference(chunk_value const& found,
                                              std::vector<chunk_origin> const& wanted) {
    if (!found) return "nothing is written to the output";
    auto const name = [](chunk_origin const& origin) {
      return "chunk " + std::to_string(origin.chunk) + " of rank " + std::to_string(origin.rank);
    };
    for (auto const& origin : wanted) {
      if (!std::binary_search(found->begin(), found->end(), origin)) {
        return "the output misses " + name(origin);
      }
    }
    for (auto const& origin : *found) {
      if (!std::binary_search(wanted.begin(), wanted.end(), origin)) {
        return "the output holds " + name(origin) + ", which does not belong there";
      }
    }
    return "the output is wrong";
  }

  /// Names a block of the circle of waits that the stuck block is in or leads to.
  [[noreturn]] void fail_stuck(block_state const& stuck) const {
    std::vector<bool> seen(blocks_.size(), false);
    int at = number_of(stuck);
    while (!seen[static_cast<std::size_t>(at)]) {
      seen[static_cast<std::size_t>(at)] = true;
      auto const next = waits_for(block(at));
      if (block(next).iteration == iterations_) break;
      at = next;
    }
    auto const& b = block(at);
    auto const& step = b.program->steps[b.step];
    int const chunk = reads_source(step.kind)         ? step.source.chunk + b.done
                      : writes_destination(step.kind) ? step.destination.chunk + b.done
                                                      : -1;
    auto const& other = block(waits_for(b));
    program_fault fault({b.rank, b.index, static_cast<int>(b.step), chunk},
                        "waits for ever for " + wait_in_words(b) + "; iteration " +
                            std::to_string(b.iteration) + ", rank " + std::to_string(other.rank) +
                            " block " + std::to_string(other.index) + " is at step " +
                            std::to_string(other.step));
    fault.is_stuck = true;
    throw fault;
  }

  step_program const* program_;
  int root_;
  queue_room room_;
  int iterations_;
  std::vector<rank_memory> memory_;
  std::vector<int> first_block_;  // by rank
  std::vector<block_state> blocks_;
  std::vector<int> group_;  // by block
  std::map<std::tuple<int, int, int>, std::size_t> connection_;
  std::vector<queue> queues_;
};

}  // namespace blink::inline BLINK_ABI::detail
