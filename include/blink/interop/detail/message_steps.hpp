// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/message_order.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/message_program.hpp>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Runs the operations of all ranks, each as early as it can. Data do not matter here.
///
/// Source: queues in a fixed order make the end independent of the order of steps: G. Kahn, "The
///         semantics of a simple language for parallel programming", 1974.
class message_steps {
 public:
  /// sends_wait: sends end with their receives, as long messages do; else at once
  message_steps(message_graph const& graph, bool sends_wait)
      : graph_(&graph), sends_wait_(sends_wait), waiting_(graph.queues().size()) {
    for (int i = 0; i < graph.size(); ++i) {
      missing_.push_back(graph[i].after.size() + graph[i].after_start.size());
      if (missing_.back() == 0) ready_.push_back(i);
    }
    started_.resize(missing_.size());
    ended_.resize(missing_.size());
  }

  /// Calls `on_start`, `on_match` (send, receive) and `on_end` for operations, in an order in which
  /// they may happen.
  /// Throws: program_fault if an operation never ends.
  template <class OnStart, class OnMatch, class OnEnd>
  void run(OnStart const& on_start, OnMatch const& on_match, OnEnd const& on_end) {
    auto const end = [&](int operation) {
      on_end(operation);
      ended_[index(operation)] = true;
      release(graph_->dependents(operation));
    };
    while (!ready_.empty()) {
      int const now = ready_.front();
      ready_.pop_front();
      on_start(now);
      started_[index(now)] = true;
      release(graph_->start_dependents(now));
      auto const kind = (*graph_)[now].kind;
      if (kind == message_kind::compute || (kind == message_kind::send && !sends_wait_)) end(now);
      if (kind == message_kind::compute) continue;
      auto& queue = waiting_[index(graph_->queue(now))];
      (kind == message_kind::send ? queue.sends : queue.receives).push_back(now);
      if (queue.sends.empty() || queue.receives.empty()) continue;
      int const sent = queue.sends.front();
      int const received = queue.receives.front();
      queue.sends.pop_front();
      queue.receives.pop_front();
      on_match(sent, received);
      end(received);
      if (sends_wait_) end(sent);
    }
    for (int i = 0; i < graph_->size(); ++i) {
      if (!ended_[index(i)]) fail_stuck(i);
    }
  }

 private:
  struct waiting_messages {
    std::deque<int> sends;
    std::deque<int> receives;
  };

  [[nodiscard]] static std::size_t index(int number) { return static_cast<std::size_t>(number); }

  void release(std::vector<int> const& dependents) {
    for (int const next : dependents) {
      if (--missing_[index(next)] == 0) ready_.push_back(next);
    }
  }

  /// The operation that a waiting one waits for.
  [[nodiscard]] int waits_for(int operation) const {
    auto const& here = (*graph_)[operation];
    if (started_[index(operation)]) {
      auto const& queue = graph_->queues()[index(graph_->queue(operation))];
      auto const& others = here.kind == message_kind::send ? queue.receives : queue.sends;
      return *std::find_if(others.begin(), others.end(),
                           [&](int other) { return !started_[index(other)]; });
    }
    for (int const before : here.after) {
      int const other = graph_->dependency(operation, before);
      if (!ended_[index(other)]) return other;
    }
    for (int const before : here.after_start) {
      int const other = graph_->dependency(operation, before);
      if (!started_[index(other)]) return other;
    }
    return operation;
  }

  /// Throws a fault at a message of the circle of waits that the operation is in or leads to.
  [[noreturn]] void fail_stuck(int operation) const {
    std::vector<bool> seen(ended_.size(), false);
    int at = operation;
    while (!seen[index(at)]) {
      seen[index(at)] = true;
      at = waits_for(at);
    }
    while (!started_[index(at)]) at = waits_for(at);  // a circle has a message
    auto const& here = (*graph_)[at];
    bool const is_send = here.kind == message_kind::send;
    program_fault fault(graph_->place(at),
                        std::string(is_send ? "sends to rank " : "waits for a message from rank ") +
                            std::to_string(here.peer) + " without end, for " +
                            graph_->in_words(waits_for(at)) + " waits for it in turn" +
                            graph_->label(at));
    fault.is_stuck = true;
    throw fault;
  }

  message_graph const* graph_;
  bool sends_wait_;
  std::vector<waiting_messages> waiting_;  // by queue
  std::vector<std::size_t> missing_;       // by operation: dependencies
  std::vector<bool> started_, ended_;      // by operation
  std::deque<int> ready_;
};

}}}  // namespace blink::BLINK_ABI::detail
