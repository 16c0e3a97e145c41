// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/graph/detail/spanning_tree_search.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/message_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// The operations of a program of messages as one graph, and the part of check_message_program for
// its shape, before the run.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The sends and receives with one source, destination and tag, by their numbers in the graph.
struct message_queue {
  std::vector<int> sends;
  std::vector<int> receives;
};

/// The operations of all ranks, numbered one after the other, and what joins them.
class message_graph {
 public:
  /// Throws: program_fault for peers and dependencies that do not exist, dependencies in a circle,
  ///         and sends and receives that do not match.
  explicit message_graph(message_program const& program) : program_(&program) {
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      first_.push_back(static_cast<int>(operations_.size()));
      for (auto const& each : program.ranks[r].operations) {
        operations_.push_back(&each);
        rank_.push_back(static_cast<int>(r));
      }
    }
    queue_.assign(operations_.size(), -1);
    dependents_.resize(operations_.size());
    start_dependents_.resize(operations_.size());
    for (int i = 0; i < size(); ++i) add(i);
    check_queues();
    sort();
  }

  [[nodiscard]] int size() const { return static_cast<int>(operations_.size()); }
  [[nodiscard]] program_operation const& operator[](int operation) const {
    return *operations_[index(operation)];
  }
  [[nodiscard]] int rank(int operation) const { return rank_[index(operation)]; }
  /// The number in the graph of an operation that one of the same rank depends on.
  [[nodiscard]] int dependency(int operation, int in_rank) const {
    return first_[index(rank(operation))] + in_rank;
  }
  /// Operations that wait for this one's end.
  [[nodiscard]] std::vector<int> const& dependents(int operation) const {
    return dependents_[index(operation)];
  }
  /// Operations that wait for this one's start.
  [[nodiscard]] std::vector<int> const& start_dependents(int operation) const {
    return start_dependents_[index(operation)];
  }
  /// All operations, each after those of its rank that it depends on.
  [[nodiscard]] std::vector<int> const& in_order() const { return in_order_; }
  [[nodiscard]] std::vector<message_queue> const& queues() const { return queues_; }
  /// The queue of a send or receive.
  [[nodiscard]] int queue(int operation) const { return queue_[index(operation)]; }

  /// The place of an operation, for faults.
  [[nodiscard]] program_place place(int operation, int chunk = -1) const {
    program_place result{rank(operation), -1, -1, chunk};
    result.operation = operation - first_[index(rank(operation))];
    return result;
  }
  [[noreturn]] void fail(int operation, std::string const& what, int chunk = -1) const {
    throw program_fault(place(operation, chunk), what + label(operation));
  }
  /// " (l3, line 7)": the name in the file, after the words of a fault; empty without one.
  [[nodiscard]] std::string label(int operation) const {
    auto const& name = (*this)[operation].label;
    return name.empty() ? "" : " (" + printable(name) + ")";
  }
  /// "operation 3 of rank 1 (l4, line 8)".
  [[nodiscard]] std::string in_words(int operation) const {
    return "operation " + std::to_string(place(operation).operation) + " of rank " +
           std::to_string(rank(operation)) + label(operation);
  }

 private:
  using message_key = std::tuple<int, int, std::int64_t>;  // from, to, tag

  [[nodiscard]] static std::size_t index(int number) { return static_cast<std::size_t>(number); }

  void add(int operation) {
    auto const& here = (*this)[operation];
    auto const& ranks = program_->ranks;
    auto const count = std::ssize(ranks[index(rank(operation))].operations);
    for (auto const* list : {&here.after, &here.after_start}) {
      auto& dependents = list == &here.after ? dependents_ : start_dependents_;
      for (int const before : *list) {
        if (before < 0 || before >= count) {
          fail(operation, "depends on operation " + std::to_string(before) + " of " +
                              std::to_string(count) + ", which does not exist");
        }
        dependents[index(dependency(operation, before))].push_back(operation);
      }
    }
    if (here.kind == message_kind::compute) return;
    if (here.peer < 0 || here.peer >= std::ssize(ranks)) {
      fail(operation, std::string(to_text(here.kind)) + "s with rank " + std::to_string(here.peer) +
                          " of " + std::to_string(ranks.size()));
    }
    bool const is_send = here.kind == message_kind::send;
    message_key const key{is_send ? rank(operation) : here.peer,
                          is_send ? here.peer : rank(operation), here.tag};
    auto const [entry, fresh] = queue_of_.emplace(key, static_cast<int>(queues_.size()));
    if (fresh) queues_.emplace_back();
    queue_[index(operation)] = entry->second;
    auto& queue = queues_[index(entry->second)];
    (is_send ? queue.sends : queue.receives).push_back(operation);
  }

  /// Checks that as many messages are sent as received.
  void check_queues() {
    for (auto const& queue : queues_) {
      auto const both = std::min(queue.sends.size(), queue.receives.size());
      for (auto const* side : {&queue.sends, &queue.receives}) {
        if (side->size() == both) continue;
        int const alone = (*side)[both];
        auto const& here = (*this)[alone];
        bool const is_send = here.kind == message_kind::send;
        auto const number = both == 0 ? std::string("no") : "only " + std::to_string(both);
        fail(alone, std::string(is_send ? "sends to" : "receives from") + " rank " +
                        std::to_string(here.peer) + " with tag " + std::to_string(here.tag) +
                        ", and that rank has " + number + " such " +
                        (is_send ? "receive" : "send") + (both > 1 ? "s" : "") + ", expected " +
                        std::to_string(side->size()));
      }
    }
  }

  /// Sorts the operations by their dependencies.
  ///
  /// Source: A. B. Kahn, "Topological sorting of large networks", 1962.
  void sort() {
    std::vector<std::size_t> missing;
    for (int i = 0; i < size(); ++i) {
      missing.push_back((*this)[i].after.size() + (*this)[i].after_start.size());
      if (missing.back() == 0) in_order_.push_back(i);
    }
    for (std::size_t at = 0; at < in_order_.size(); ++at) {
      for (auto const* list : {&dependents_, &start_dependents_}) {
        for (int const next : (*list)[index(in_order_[at])]) {
          if (--missing[index(next)] == 0) in_order_.push_back(next);
        }
      }
    }
    if (in_order_.size() < operations_.size()) fail_circle(missing);
  }

  /// missing: by operation: dependencies that are not in order
  [[noreturn]] void fail_circle(std::vector<std::size_t> const& missing) const {
    int at = 0;
    while (missing[index(at)] == 0) ++at;
    std::vector<bool> seen(operations_.size(), false);
    while (!seen[index(at)]) {
      seen[index(at)] = true;
      at = unsorted_dependency(at, missing);
    }
    fail(at, "depends on its own end, through " + in_words(unsorted_dependency(at, missing)));
  }
  [[nodiscard]] int unsorted_dependency(int operation,
                                        std::vector<std::size_t> const& missing) const {
    for (auto const* list : {&(*this)[operation].after, &(*this)[operation].after_start}) {
      for (int const before : *list) {
        int const other = dependency(operation, before);
        if (missing[index(other)] > 0) return other;
      }
    }
    return operation;
  }

  message_program const* program_;
  std::vector<int> first_;  // operation, by rank
  std::vector<program_operation const*> operations_;
  std::vector<int> rank_;
  std::vector<std::vector<int>> dependents_, start_dependents_;
  std::map<message_key, int> queue_of_;
  std::vector<message_queue> queues_;
  std::vector<int> queue_;  // by operation; -1: computations
  std::vector<int> in_order_;
};

/// Chains of operations, each of which waits for the end of the one before it. Few chains keep the
/// clocks of the run short.
///
/// graph:  its operations
/// Return: by operation: the number of its chain
[[nodiscard]] inline std::vector<int> chains_of(message_graph const& graph) {
  std::vector<int> chain(static_cast<std::size_t>(graph.size()), -1);
  std::vector<int> last;  // operation, by chain
  for (int const operation : graph.in_order()) {
    auto& here = chain[static_cast<std::size_t>(operation)];
    for (int const before : graph[operation].after) {
      int const other = graph.dependency(operation, before);
      int const of_other = chain[static_cast<std::size_t>(other)];
      if (last[static_cast<std::size_t>(of_other)] != other) continue;
      here = of_other;
      break;
    }
    if (here < 0) {
      here = static_cast<int>(last.size());
      last.push_back(operation);
    }
    last[static_cast<std::size_t>(here)] = operation;
  }
  return chain;
}

/// By chain: the number of a chain that represents its group. Dependencies and messages join the
/// chains of a group.
[[nodiscard]] inline std::vector<int> groups_of(message_graph const& graph,
                                                std::vector<int> const& chain) {
  int const chains = chain.empty() ? 0 : *std::max_element(chain.begin(), chain.end()) + 1;
  disjoint_sets sets(chains);
  auto const join = [&](int a, int b) {
    sets.join(chain[static_cast<std::size_t>(a)], chain[static_cast<std::size_t>(b)]);
  };
  for (int i = 0; i < graph.size(); ++i) {
    for (int const next : graph.dependents(i)) join(i, next);
    for (int const next : graph.start_dependents(i)) join(i, next);
  }
  for (auto const& queue : graph.queues()) {
    for (int const each : queue.sends) join(queue.receives.front(), each);
    for (int const each : queue.receives) join(queue.sends.front(), each);
  }
  std::vector<int> result;
  for (int c = 0; c < chains; ++c) result.push_back(sets.find(c));
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
