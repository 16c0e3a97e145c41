// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/interop/detail/program_writer.hpp>
#include <blink/interop/step_program.hpp>
#include <blink/planning/cost/detail/chunk_shares.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The limits of the runtimes of step programs.
struct step_program_limits {
  int channels = 32;
  int blocks = 108;             ///< of a rank: one for each multiprocessor of an A100
  int blocks_per_channel = 32;  ///< of a rank, in one direction
  int steps = 256;              ///< of a block
  int chunks_per_step = 71;
  int chunks = 32767;   ///< of the buffer
  int elements = 4096;  ///< of the file, for one rank: algo, gpu, blocks, steps
  /// Blocks do their steps strictly in order. So chunks have steps of their own, and what arrives
  /// has a block of its own, unless these do not fit.
  bool in_order = true;
};

/// Parameters of a step program.
struct step_program_options {
  /// copies of the program, each on channels and a slice of the buffer of its own
  int instances = 1;
  int most_chunks = 512;  ///< into which one instance cuts the buffer; weights are rounded to them
  int slices = 1;         ///< of each of these chunks, one after the other in the same blocks
  step_program_limits limits = {};
};

/// A step program, its rate, and the largest numbers of blocks and steps.
struct step_program_result {
  step_program program;
  rational rate;        ///< bytes of the whole buffer in time one over the links, with whole chunks
  double loss = 0;      ///< share of the plan's rate that rounding costs, 0 if it is exact
  int most_blocks = 0;  ///< of a rank
  int most_steps = 0;   ///< of a block
};

namespace detail {

/// The chunks of each tree in the ranks' buffers, by the definition of the collective.
class program_layout {
 public:
  program_layout(plan const& plan, int chunks_of_part) : plan_(&plan), part_(chunks_of_part) {
    for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
      rank_[plan.ranks[i]] = static_cast<int>(i);
    }
  }

  [[nodiscard]] int rank_of(int node) const {
    auto const found = rank_.find(node);
    if (found == rank_.end()) {
      throw planning_error("node " + std::to_string(node) +
                           " is an end of a tree edge and no rank of the plan: step programs have "
                           "no switches that copy or reduce");
    }
    return found->second;
  }

  /// Places `count` chunks of the part, from `chunk` on.
  [[nodiscard]] carried_tree place(chunk_part const& part, tree const& t, int chunk,
                                   int count) const {
    carried_tree result{rank_of(t.root), count, {}, {}};
    for (auto const& e : t.reduce) result.up.emplace_back(rank_of(e.from), rank_of(e.to));
    for (auto const& e : t.broadcast) result.down.emplace_back(rank_of(e.from), rank_of(e.to));
    int const ranks = static_cast<int>(plan_->ranks.size());
    auto const input = [](int at) { return chunk_place{step_buffer::input, at}; };
    auto const output = [](int at) { return chunk_place{step_buffer::output, at}; };
    auto const kind = plan_->collective;
    int const root = result.root;
    bool const has_one_receiver = is_point_to_point(kind);
    int const to = has_one_receiver ? rank_of(part.to) : root;
    // A flow has one sender, its root, and one receiver. In other trees, all ranks contribute or
    // get the result, or the root does.
    auto const read = input(has_input_blocks(kind) ? to * part_ + chunk : chunk);
    auto const written = output(has_output_blocks(kind) ? root * part_ + chunk : chunk);
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == root || has_reduce_phase(kind)) result.own[rank] = read;
      bool const stores = has_broadcast_phase(kind) && !has_one_receiver;
      if (rank == to || stores) result.store[rank] = written;
    }
    return result;
  }

  /// The input and the output position of the chunk that stays on its rank; nothing if none stays.
  [[nodiscard]] std::optional<std::pair<int, int>> stays(int rank, std::optional<int> root) const {
    auto const kind = plan_->collective;
    if (has_reduce_phase(kind) || (has_root(kind) && rank != root)) return std::nullopt;
    return std::pair(has_input_blocks(kind) ? rank * part_ : 0,
                     has_output_blocks(kind) ? rank * part_ : 0);
  }

 private:
  plan const* plan_;
  int part_;
  std::map<int, int> rank_;  // by node id
};

/// Throws: planning_error with the numbers, for plans that no step program can express.
inline void require_writable(topology const& machine, plan const& plan) {
  if (plan.ranks.size() < 2 || plan.trees.empty()) {
    throw planning_error("a step program needs two ranks and a tree, the plan has " +
                         std::to_string(plan.ranks.size()) + " and " +
                         std::to_string(plan.trees.size()));
  }
  if (!moves_data(plan.collective) || is_permutation(plan.collective)) {
    throw planning_error("step programs have no " + std::string(to_text(plan.collective)));
  }
  if (!plan.shares.empty()) {
    throw planning_error("the plan has unequal shares, and step programs cut the buffer equally");
  }
  for (auto const& t : plan.trees) {
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      for (auto const& e : *phase) {
        for (std::size_t i = 1; i + 1 < e.path.size(); ++i) {
          int const at = machine.position_of(e.path[i]);
          if (at >= 0 && machine.nodes[static_cast<std::size_t>(at)].kind == node_kind::rank) {
            throw planning_error("the route from rank " + std::to_string(e.from) + " to rank " +
                                 std::to_string(e.to) + " leads through rank " +
                                 std::to_string(e.path[i]) +
                                 ", and step programs forward only on ranks of the plan");
          }
        }
      }
    }
  }
}

/// True if the numbers of steps are within the limits.
[[nodiscard]] inline bool has_short_blocks(step_program const& program,
                                           step_program_limits const& limits) {
  return std::all_of(program.ranks.begin(), program.ranks.end(), [&](rank_program const& rank) {
    std::ptrdiff_t elements = 2 + std::ssize(rank.blocks);
    for (auto const& block : rank.blocks) {
      elements += std::ssize(block.steps);
      if (std::ssize(block.steps) > limits.steps) return false;
    }
    return elements <= limits.elements;
  });
}

/// Throws: planning_error with the numbers, if the program exceeds a limit.
inline void require_limits(step_program const& program, step_program_limits const& limits) {
  auto const require = [](std::int64_t found, int most, std::string const& what) {
    if (found > most) {
      throw planning_error(what + " " + std::to_string(found) + ", at most " +
                           std::to_string(most) + " fit into the runtime");
    }
  };
  require(program.channel_count, limits.channels, "channels:");
  require(program.chunk_count, limits.chunks, "chunks of the buffer:");
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    auto const& rank = program.ranks[r];
    auto const name = "rank " + std::to_string(r);
    require(std::ssize(rank.blocks), limits.blocks, name + " needs thread blocks:");
    require(rank.scratch_chunks, limits.chunks, name + " needs chunks of scratch memory:");
    require(std::max(rank.input_chunks, rank.output_chunks), limits.chunks,
            name + " needs chunks of buffer:");
    std::int64_t elements = 2 + std::ssize(rank.blocks);
    for (std::size_t b = 0; b < rank.blocks.size(); ++b) {
      elements += std::ssize(rank.blocks[b].steps);
      require(std::ssize(rank.blocks[b].steps), limits.steps,
              name + ", block " + std::to_string(b) + " needs steps:");
    }
    require(elements, limits.elements, name + " needs XML elements:");
  }
}

}  // namespace detail

/// Converts a plan into a step program.
///
/// Trees that share an edge share its two thread blocks and send their chunks one after the other.
/// So the number of blocks grows with the number of neighbours, not of trees. All blocks follow one
/// schedule of the links, in which chunks with the longest way to go pass first. The program works
/// in place and out of place (all_to_all: only out of place). A rank reads its own contributions
/// from the input. Results and partial sums go to the output, or to scratch where the collective
/// gives a rank no output. If there are more blocks than fit, connections that forward chunks to
/// each other share a block, then others too.
///
/// Blocks repeat their steps for one part of the message after the other. Where trees are deep, a
/// block's last steps wait for chunks that come far. With more slices, other chunks pass meanwhile.
///
/// machine: where the plan's links are; used for the order, and the rate with whole chunks
/// Pre:     the plan passes `check_plan`; instances, chunks and slices are positive.
/// Post:    passes `check_program` with a single slot in each queue.
/// Time:    O(steps * steps of a block * log steps), if all chunks of a link are ready at once.
///          Rounding of weights takes most_chunks * links of trees more.
/// Throws:  precondition_error for instances, chunks or slices below 1; planning_error with the
///          numbers, for a plan beyond the limits. Also for unequal shares, forwarding ranks,
///          switches as tree nodes, and collectives of no step program.
[[nodiscard]] inline step_program_result make_step_program(
    topology const& machine, plan const& plan, step_program_options const& options = {}) {
  expects(options.instances > 0 && options.most_chunks > 0 && options.slices > 0,
          "make_step_program: expected instances, chunks and slices above 0");
  detail::require_writable(machine, plan);
  int const ranks = static_cast<int>(plan.ranks.size());
  detail::chunk_rounding const rounding(machine, plan);
  bool const cut_by_ranks = has_blocks(plan.collective);
  auto const most = std::max(1, options.most_chunks / (cut_by_ranks ? ranks : 1));
  auto const shares = rounding(most);

  step_program_result result;
  result.rate = shares.rate;
  if (shares.rate < plan.rate) result.loss = 1 - ratio(shares.rate, plan.rate);
  constexpr std::int64_t most_int = std::numeric_limits<int>::max();
  auto const chunks = shares.of_part * options.slices;  // of a part in one instance
  if (chunks > most_int)
    throw planning_error(std::to_string(options.slices) + " slices are too many");
  auto const part = chunks * options.instances;
  // Gather and scatter count the chunks of one rank, all other collectives those of the whole
  // buffer.
  bool const counts_all = cut_by_ranks && !has_root(plan.collective);
  if (part > most_int / ranks) {
    throw planning_error(std::to_string(options.instances) + " instances are too many");
  }
  auto& program = result.program;
  program.name = "blink " + std::string(to_text(plan.collective)) + " " + plan.planner;
  program.collective = plan.collective;
  program.chunk_count = static_cast<int>(counts_all ? part * ranks : part);
  program.runs_in_place = !sends_and_receives(plan.collective);
  auto const& limits = options.limits;
  detail::require_limits(program, limits);  // before work for more chunks than fit

  detail::program_layout const layout(plan, static_cast<int>(part));
  auto const& first = plan.trees.front();
  if (has_root(plan.collective)) {
    bool const is_end = is_point_to_point(plan.collective) && is_to_root(plan.collective);
    program.root = layout.rank_of(is_end ? rounding.parts().front().to : first.root);
  }
  // Each tree in pieces, one for each step.
  auto const trees_of = [&](int instance, int piece) {
    std::vector<detail::carried_tree> trees;
    for (auto const& each : rounding.parts()) {
      int chunk = instance * static_cast<int>(chunks);
      for (auto const t : each.trees) {
        int const whole = static_cast<int>(shares.count[t]) * options.slices;
        for (int done = 0; done < whole; done += piece) {
          int const count = std::min(whole - done, piece);
          trees.push_back(layout.place(each, plan.trees[t], chunk + done, count));
          trees.back().slice = done / static_cast<int>(shares.count[t]);
        }
        chunk += whole;
      }
    }
    return trees;
  };
  detail::passing_times const times(machine, plan, [&](int node) { return layout.rank_of(node); });
  auto const write = [&](detail::paired_connections paired, int piece) {
    auto const pairing =
        detail::pair_blocks(trees_of(0, piece), ranks, options.limits.blocks_per_channel, paired);
    program.channel_count = pairing.channel_count * options.instances;
    program.ranks.assign(static_cast<std::size_t>(ranks), {});
    result.most_blocks = result.most_steps = 0;
    for (int instance = 0; instance < options.instances; ++instance) {
      auto const trees = trees_of(instance, piece);
      detail::program_writer(trees, pairing, times, instance * pairing.channel_count, program)
          .write();
    }
    for (int rank = 0; rank < ranks; ++rank) {
      auto& here = program.ranks[static_cast<std::size_t>(rank)];
      auto const sizes =
          chunks_of(plan.collective, program.chunk_count, ranks, program.root == rank);
      here.input_chunks = sizes.input;
      here.output_chunks = sizes.output;
      if (auto const own = layout.stays(rank, program.root)) {
        program_block local;
        for (int done = 0; done < static_cast<int>(part);) {
          int const count = std::min(static_cast<int>(part) - done, options.limits.chunks_per_step);
          local.steps.push_back({step_kind::copy,
                                 {step_buffer::input, own->first + done},
                                 {step_buffer::output, own->second + done},
                                 count});
          done += count;
        }
        here.blocks.push_back(std::move(local));
      }
      result.most_blocks = std::max(result.most_blocks, static_cast<int>(here.blocks.size()));
      for (auto const& block : here.blocks) {
        result.most_steps = std::max(result.most_steps, static_cast<int>(block.steps.size()));
      }
    }
  };
  int const busiest = detail::most_chunks_of_a_connection(trees_of(0, limits.chunks_per_step));
  using detail::paired_connections;
  int piece = limits.chunks_per_step;
  auto paired = paired_connections::that_forward;
  if (limits.in_order) {
    piece = std::min(piece, 1 + (busiest - 1) / std::max(1, limits.steps));
    paired = paired_connections::none;
  }
  write(paired, piece);
  for (auto const more : {paired_connections::that_forward, paired_connections::all}) {
    if (result.most_blocks > limits.blocks) write(paired = more, piece);
  }
  while (!detail::has_short_blocks(program, limits) && piece < limits.chunks_per_step) {
    piece = std::min(2 * piece, limits.chunks_per_step);
    write(paired, piece);
  }
  detail::require_limits(program, limits);
  return result;
}

}}  // namespace blink::BLINK_ABI
