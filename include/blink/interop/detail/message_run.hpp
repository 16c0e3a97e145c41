// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/message_order.hpp>
#include <blink/interop/detail/message_steps.hpp>
#include <blink/interop/detail/program_clocks.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/detail/program_memory.hpp>
#include <blink/interop/message_program.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A program with too many operations side by side for clocks.
struct clocks_too_large : program_fault {
  clocks_too_large() : program_fault({}, "too many operations side by side to check their order") {}
};

/// The operations that each chain of operations knows to have ended.
class message_clocks {
 public:
  message_clocks(message_graph const& graph, std::vector<int> chain)
      : graph_(&graph),
        chain_(std::move(chain)),
        clocks_(groups_of(graph, chain_)),
        position_(chain_.size(), 0),
        at_start_(chain_.size()),
        at_end_(chain_.size()),
        readers_(chain_.size(), 0) {
    for (int i = 0; i < graph.size(); ++i) {
      if (graph[i].kind == message_kind::send) ++readers_[index(i)];
      for (int const next : graph.dependents(i)) {
        if (chain_[index(next)] != chain_[index(i)]) ++readers_[index(i)];
      }
    }
  }

  void start(int operation) {
    int const chain = chain_[index(operation)];
    for (int const before : (*graph_)[operation].after) {
      int const other = graph_->dependency(operation, before);
      if (chain_[index(other)] != chain) learn(chain, other);
    }
    for (int const before : (*graph_)[operation].after_start) {
      clocks_.learn(chain, *at_start_[index(graph_->dependency(operation, before))]);
    }
    position_[index(operation)] = clocks_.position(chain) + 1;
    if (!graph_->start_dependents(operation).empty()) {
      at_start_[index(operation)] = std::make_shared<block_clock const>(clocks_.known(chain));
    }
  }
  /// A message that has arrived shows that its send has read the source.
  /// Pre: the send has ended.
  void match(int sent, int received) { learn(chain_[index(received)], sent); }
  /// Throws: clocks_too_large if what others have yet to learn exceeds 256 MiB.
  void end(int operation) {
    int const chain = chain_[index(operation)];
    clocks_.count_chunk(chain);
    if (readers_[index(operation)] == 0) return;
    auto const& known = clocks_.known(chain);
    kept_ += known.size();
    if (kept_ > most_numbers) throw clocks_too_large();
    at_end_[index(operation)] = std::make_shared<block_clock const>(known);
  }

  /// The access of an operation that has started.
  [[nodiscard]] chunk_access access(int operation) const {
    return {chain_[index(operation)], position_[index(operation)], operation};
  }
  /// True if an operation that starts now starts after the other one's end.
  [[nodiscard]] bool is_after(int operation, chunk_access const& other) const {
    return clocks_.is_over(chain_[index(operation)], other.block, other.position);
  }

 private:
  [[nodiscard]] static std::size_t index(int number) { return static_cast<std::size_t>(number); }

  /// Learns what an operation knew at its end.
  void learn(int chain, int operation) {
    auto& known = at_end_[index(operation)];
    clocks_.learn(chain, *known);
    if (--readers_[index(operation)] > 0) return;
    kept_ -= known->size();
    known.reset();
  }

  static constexpr std::size_t most_numbers = std::size_t{1} << 26;

  message_graph const* graph_;
  std::vector<int> chain_;  // by operation, as all below
  program_clocks clocks_;
  std::vector<std::uint32_t> position_;
  std::vector<std::shared_ptr<block_clock const>> at_start_, at_end_;
  std::size_t kept_ = 0;      // numbers in at_end_
  std::vector<int> readers_;  // other chains, and a send's receive, that have yet to read at_end_
};

/// Runs a program of messages on symbols, with clocks that show which operations have an order.
///
/// Two accesses to a chunk without an order are a fault, in whichever order they ran here. So are
/// two messages with one source, destination and tag.
class message_run {
 public:
  message_run(message_program const& program, message_graph const& graph, std::vector<int> chain,
              bool in_place)
      : program_(&program),
        graph_(&graph),
        root_(program.root.value_or(-1)),
        clocks_(graph, std::move(chain)),
        sent_(static_cast<std::size_t>(graph.size())),
        last_(graph.queues().size()) {
    if (!program.has_data) return;
    for (int rank = 0; rank < std::ssize(program.ranks); ++rank) {
      memory_.emplace_back(program, rank, in_place, root_);
    }
  }

  /// Throws: program_fault for the first fault.
  void run() {
    message_steps steps(*graph_, false);
    steps.run([&](int operation) { start(operation); },
              [&](int sent, int received) { match(sent, received); },
              [&](int operation) { clocks_.end(operation); });
  }
  void check_results() {
    detail::check_results(*program_, memory_, root_,
                          [&](int rank, chunk_access const& by, int chunk) {
                            if (by.block >= 0) return graph_->place(by.step, chunk);
                            return program_place{rank, -1, -1, chunk};
                          });
  }
  /// A rank whose input has changed; nothing if there is none.
  [[nodiscard]] std::optional<int> rank_with_changed_input() {
    return detail::rank_with_changed_input(memory_);
  }
  /// Two operations whose messages may match in either order; nothing if there are none.
  [[nodiscard]] std::optional<std::pair<int, int>> unordered() const { return unordered_; }

 private:
  struct last_of_queue {
    int send = -1;
    int receive = -1;
  };

  void start(int operation) {
    clocks_.start(operation);
    auto const& here = (*graph_)[operation];
    if (here.kind != message_kind::compute) check_order(operation);
    if (memory_.empty() || !here.data || here.kind == message_kind::receive) return;
    auto const& to = here.data->destination;
    auto const& from = here.data->sources;
    auto& memory = memory_of(operation);
    int const count = to ? to->count : from.front().count;
    for (int i = 0; i < count; ++i) {
      bool const stays =
          to && from.size() == 1 && memory.index((*to)[i]) == memory.index(from.front()[i]);
      if (stays) continue;
      chunk_value value;
      for (auto const& each : from) {
        auto const next = read(operation, each[i]);
        value = value ? sum(operation, each[i], value, next) : next;
      }
      if (to) write(operation, (*to)[i], value);
      if (!to) sent_[static_cast<std::size_t>(operation)].push_back(std::move(value));
    }
  }

  /// Writes what has arrived, after all that the sender knew.
  void match(int sent, int received) {
    clocks_.match(sent, received);
    auto const& data = (*graph_)[received].data;
    if (memory_.empty() || !data) return;
    auto const values = std::exchange(sent_[static_cast<std::size_t>(sent)], {});
    for (std::size_t i = 0; i < values.size(); ++i) {
      write(received, (*data->destination)[static_cast<int>(i)], values[i]);
    }
  }

  /// Checks that the previous operation of the queue has started before this one.
  void check_order(int operation) {
    auto const& here = (*graph_)[operation];
    auto& queue = last_[static_cast<std::size_t>(graph_->queue(operation))];
    auto& last = here.kind == message_kind::send ? queue.send : queue.receive;
    int const before = std::exchange(last, operation);
    if (before < 0 || clocks_.is_after(operation, clocks_.access(before))) return;
    for (int const started : here.after_start) {
      if (graph_->dependency(operation, started) == before) return;
    }
    if (!unordered_) unordered_ = std::pair(before, operation);
  }

  [[nodiscard]] rank_memory& memory_of(int operation) {
    return memory_[static_cast<std::size_t>(graph_->rank(operation))];
  }
  void require_after(int operation, chunk_place const& place, char const* does,
                     chunk_access const& other, char const* did) const {
    if (other.block < 0 || clocks_.is_after(operation, other)) return;
    graph_->fail(operation,
                 std::string(does) + " " + std::string(to_text(place.buffer)) + ", which " +
                     graph_->in_words(other.step) + " " + did + ", without waiting for it",
                 place.chunk);
  }

  chunk_value read(int operation, chunk_place const& place) {
    auto& cell = memory_of(operation).cell(place);
    require_after(operation, place, "reads", cell.written, "writes");
    if (!cell.value) {
      graph_->fail(
          operation,
          "reads " + std::string(to_text(place.buffer)) + " before anything is written there",
          place.chunk);
    }
    add_read(cell, clocks_.access(operation));
    return cell.value;
  }

  void write(int operation, chunk_place const& place, chunk_value const& value) {
    auto& cell = memory_of(operation).cell(place);
    auto const access = clocks_.access(operation);
    require_after_own(operation, place, "writes", cell.written, "writes too");
    for (auto const& other : cell.read) {
      require_after_own(operation, place, "writes", other, "reads");
    }
    cell.value = value;
    cell.written = access;
    cell.read.clear();
  }
  /// As `require_after`, but an operation may write what it has read itself.
  void require_after_own(int operation, chunk_place const& place, char const* does,
                         chunk_access const& other, char const* did) const {
    if (other.block >= 0 && other.step == operation) return;
    require_after(operation, place, does, other, did);
  }

  [[nodiscard]] chunk_value sum(int operation, chunk_place const& place, chunk_value const& one,
                                chunk_value const& other) const {
    try {
      return add(one, other, program_->collective, graph_->place(operation, place.chunk));
    } catch (program_fault const& fault) {
      throw program_fault(fault, graph_->label(operation));
    }
  }

  message_program const* program_;
  message_graph const* graph_;
  int root_;
  message_clocks clocks_;
  std::vector<rank_memory> memory_;             // by rank
  std::vector<std::vector<chunk_value>> sent_;  // by operation
  std::vector<last_of_queue> last_;             // by queue: the last operations that started
  std::optional<std::pair<int, int>> unordered_;
};

}}}  // namespace blink::BLINK_ABI::detail
