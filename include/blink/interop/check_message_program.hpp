// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/detail/check_program_structure.hpp>
#include <blink/interop/detail/message_order.hpp>
#include <blink/interop/detail/message_run.hpp>
#include <blink/interop/detail/message_steps.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/message_program.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// The check of the places of data, before the run.
class message_data_check {
 public:
  message_data_check(message_program const& program, message_graph const& graph)
      : program_(&program), graph_(&graph), ranks_(static_cast<int>(program.ranks.size())) {}

  /// Throws: program_fault for the first fault.
  void check() {
    if (program_->chunk_count < 1 || program_->chunk_bytes < 1) {
      throw program_fault({}, std::to_string(program_->chunk_count) + " chunks of " +
                                  std::to_string(program_->chunk_bytes) +
                                  " bytes, expected 1 at least");
    }
    check_collective();
    std::int64_t accesses = 0;
    for (int i = 0; i < graph_->size(); ++i) accesses += check_operation(i);
    if (accesses > most_work / ranks_) {
      throw program_fault({}, std::to_string(accesses) + " accesses to chunks on " +
                                  std::to_string(ranks_) + " ranks are too many to check");
    }
  }

 private:
  static constexpr std::int64_t most_cells = std::int64_t{1} << 21;
  static constexpr std::int64_t most_work = std::int64_t{1} << 28;

  void check_collective() const {
    auto const kind = program_->collective;
    bool const is_rooted = kind && has_root(*kind);
    if (is_rooted && (!program_->root || *program_->root >= ranks_)) {
      throw program_fault({}, program_->root
                                  ? "the root " + std::to_string(*program_->root) +
                                        " is not one of the " + std::to_string(ranks_) + " ranks"
                                  : "the root is not named, expected one");
    }
    if (kind) require_equal_blocks(*kind, program_->chunk_count, ranks_);
    std::int64_t cells = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      auto const& here = program_->ranks[static_cast<std::size_t>(rank)];
      auto const scratch = static_cast<std::int64_t>(here.scratch_chunks);
      // In blocks of the root, a chunk of each rank.
      auto const most = std::int64_t{program_->chunk_count} *
                        (is_rooted && has_blocks(*kind) && rank == program_->root ? ranks_ : 1);
      cells += scratch + 2 * (kind ? most : std::max(here.input_chunks, here.output_chunks));
    }
    if (cells > std::min(most_cells, most_work / ranks_)) {
      throw program_fault({}, std::to_string(cells) + " chunks of all buffers on " +
                                  std::to_string(ranks_) + " ranks are too many to check");
    }
  }

  /// Returns the number of accesses to chunks.
  [[nodiscard]] std::int64_t check_operation(int operation) const {
    auto const& here = (*graph_)[operation];
    bool const moves = here.kind != message_kind::compute;
    if (!here.data) {
      if (moves) graph_->fail(operation, std::string(to_text(here.kind)) + "s without its data");
      return 0;
    }
    auto const& to = here.data->destination;
    auto const& from = here.data->sources;
    auto const least = here.kind == message_kind::receive ? 0U : 1U;
    auto const most = here.kind == message_kind::compute ? 2U : least;
    if (to.has_value() != (here.kind != message_kind::send) || from.size() < least ||
        from.size() > most) {
      graph_->fail(operation, "the data of a " + std::string(to_text(here.kind)) +
                                  " are those of another operation");
    }
    int const count = to ? to->count : from.front().count;
    if (to) check_range(operation, *to, count);
    for (auto const& each : from) check_range(operation, each, count);
    if (moves && here.bytes != count * program_->chunk_bytes) {
      graph_->fail(operation, std::to_string(here.bytes) + " bytes, expected " +
                                  std::to_string(count) + " chunks of " +
                                  std::to_string(program_->chunk_bytes) + " bytes");
    }
    return static_cast<std::int64_t>(count) * static_cast<std::int64_t>(1 + from.size());
  }

  void check_range(int operation, chunk_range const& range, int count) const {
    if (range.count != count) {
      graph_->fail(operation,
                   "moves " + std::to_string(range.count) + " chunks to " + std::to_string(count));
    }
    int const rank = graph_->rank(operation);
    auto const& declared = program_->ranks[static_cast<std::size_t>(rank)];
    int size = declared_chunks(declared, range.buffer);
    if (program_->collective && range.buffer != step_buffer::scratch) {
      auto const kind = *program_->collective;
      auto const real =
          chunks_of(kind, program_->chunk_count, ranks_, !has_root(kind) || rank == program_->root);
      size = std::min(size, range.buffer == step_buffer::input ? real.input : real.output);
    }
    auto const last = range.first + std::int64_t{range.count - 1} * range.stride;
    if (range.first >= 0 && range.count >= 1 && range.stride >= 1 && last < size) return;
    graph_->fail(operation, "uses " + std::string(to_text(range.buffer)) + " chunk " +
                                std::to_string(range.first < 0 ? range.first : last) + " of " +
                                std::to_string(size));
  }

  message_program const* program_;
  message_graph const* graph_;
  int ranks_;
};

/// Throws: clocks_too_large if the clocks of the chains need too much memory, or too much time: a
///         number for each chain of a group, for each chain and for each dependency.
inline void require_small_clocks(message_graph const& graph, std::vector<int> const& chain) {
  constexpr std::int64_t most_memory = std::int64_t{1} << 26;
  constexpr std::int64_t most_time = std::int64_t{1} << 33;
  auto const group = groups_of(graph, chain);
  std::vector<std::int64_t> chains(group.size(), 0);
  for (int const g : group) ++chains[static_cast<std::size_t>(g)];
  std::int64_t memory = 0;
  for (auto const size : chains) {
    if (size > most_memory || (memory += size * size) > most_memory) throw clocks_too_large();
  }
  std::int64_t time = 0;
  for (int i = 0; i < graph.size(); ++i) {
    auto const here = static_cast<std::size_t>(chain[static_cast<std::size_t>(i)]);
    auto const size = chains[static_cast<std::size_t>(group[here])];
    auto const& starts = graph.start_dependents(i);
    // Clocks at starts stay, so that they count as memory.
    if (!starts.empty() && (memory += size) > most_memory) throw clocks_too_large();
    time += size * (2 + std::ssize(graph.dependents(i)) + std::ssize(starts));
    if (time > most_time) throw clocks_too_large();
  }
}

/// Checks that matching sends and receives have equal sizes, and that none waits without end.
/// Returns the fault of sends that wait for their receives, if only those do.
/// Throws: program_fault.
[[nodiscard]] inline std::optional<std::string> run_messages(message_graph const& graph) {
  auto const check_size = [&](int sent, int received) {
    auto const bytes = graph[sent].bytes;
    if (bytes == graph[received].bytes) return;
    graph.fail(sent, "sends " + std::to_string(bytes) + " bytes, and " + graph.in_words(received) +
                         " receives " + std::to_string(graph[received].bytes));
  };
  auto const nothing = [](int) {};
  message_steps(graph, false).run(nothing, check_size, nothing);
  try {
    message_steps(graph, true).run(nothing, [](int, int) {}, nothing);
  } catch (program_fault const& fault) {
    return fault.what();
  }
  return std::nullopt;
}

/// Runs a program in place or out of place. Returns notes. Throws: program_fault.
[[nodiscard]] inline std::vector<std::string> run_message_data(message_program const& program,
                                                               message_graph const& graph,
                                                               std::vector<int> const& chain,
                                                               bool in_place) {
  std::vector<std::string> notes;
  auto const shape = std::string(in_place ? " (in place)" : " (out of place)");
  require_small_clocks(graph, chain);
  try {
    message_run run(program, graph, chain, in_place);
    run.run();
    if (auto const pair = run.unordered()) {
      auto const text = "its message may overtake that of " + graph.in_words(pair->first) +
                        ": both have one source, destination and tag, and neither waits for the "
                        "other";
      if (program.has_data) graph.fail(pair->second, text);
      notes.push_back(graph.in_words(pair->second) + ": " + text);
    }
    if (!program.has_data) return notes;
    run.check_results();
    auto const changed = run.rank_with_changed_input();
    if (!in_place && changed) notes.push_back(changed_input_note(*changed));
  } catch (clocks_too_large const&) {
    throw;
  } catch (program_fault const& fault) {
    throw program_fault(fault, shape);
  }
  return notes;
}

}  // namespace detail

/// Checks a program of messages of any origin.
///
/// The check shares no code with the functions that make programs. It finds
/// - peers and dependencies that do not exist, and dependencies in a circle;
/// - sends without a receive, receives without a send, and pairs of different sizes;
/// - waits without end, whether sends end at once or with their receives.
///
/// If a program says where its data is, the check also runs it on symbols. It runs it in place or
/// out of place, or both, as the program says. A receive writes its destination when the message
/// arrives. The run finds
/// - reads before the write, and accesses to one chunk without an order, one of them a write;
/// - messages that may overtake one another and be received in each other's place;
/// - contributions that are added twice, and missing or misplaced results.
///
/// A program that hangs only if sends wait for their receives is sound, with a note, because short
/// messages do not wait. Files of other authors name no data: a note states that data are not
/// known, and messages that may overtake one another are a note as well.
///
/// Time:   O(operations * B) for B operations that may run side by side, twice that with data.
/// Throws: nothing. Programs that are too large for the check have a fault that states so.
[[nodiscard]] inline program_report check_message_program(message_program const& program) {
  program_report report;
  try {
    if (program.ranks.empty()) throw detail::program_fault({}, "the program has no ranks");
    detail::message_graph const graph(program);
    if (program.has_data) detail::message_data_check(program, graph).check();
    report.root = program.root;
    if (auto const waits = detail::run_messages(graph)) {
      report.notes.push_back("hangs if sends wait for their receives: " + *waits);
    }
    auto const chain = detail::chains_of(graph);
    auto const run = [&](bool in_place) {
      auto const notes = detail::run_message_data(program, graph, chain, in_place);
      report.notes.insert(report.notes.end(), notes.begin(), notes.end());
    };
    if (!program.has_data) {
      report.notes.emplace_back("the places of data are not known: only messages are checked");
      try {
        run(false);
      } catch (detail::clocks_too_large const& reason) {
        report.notes.emplace_back(reason.what());
      }
      return report;
    }
    bool const neither = !program.runs_in_place && !program.runs_out_of_place;
    for (bool const in_place : {true, false}) {
      if (!(in_place ? program.runs_in_place : program.runs_out_of_place || neither)) continue;
      run(in_place);
    }
  } catch (detail::program_fault const& fault) {
    report.fault = fault.what();
    report.at = fault.at;
  }
  return report;
}

}}  // namespace blink::BLINK_ABI
