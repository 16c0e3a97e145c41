// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/interop/step_program.hpp>
#include <blink/planning/plan/detail/route.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

// Times step programs as their runtime would run them, if only links took time.

namespace blink::test {

/// Runs a step program whose blocks do their steps strictly in order, chunk by chunk.
///
/// A step that sends waits for a free slot of its connection and then for its link. A step that
/// also receives holds its chunk's slot until it has sent. Messages that share a link share its
/// rate fairly. Receiving, copying and adding take no time.
class step_program_clock {
 public:
  /// slots: chunks between two blocks that are sent, or being sent, and not yet taken
  step_program_clock(topology const& machine, step_program const& program, int slots)
      : slots_(slots),
        chunk_(1.0 / static_cast<double>(detail::whole_chunks(program))),
        routes_(machine) {
    std::vector<int> ids;
    for (int const at : machine.rank_positions()) {
      ids.push_back(machine.nodes[static_cast<std::size_t>(at)].id);
    }
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      first_.push_back(blocks_.size());
      for (auto const& from : program.ranks[r].blocks) {
        running here{&from, static_cast<int>(r)};
        if (from.send_peer >= 0) {
          here.out = connection(static_cast<int>(r), from.send_peer, from.channel);
          here.route =
              *routes_.find(ids.at(r), ids.at(static_cast<std::size_t>(from.send_peer)), true);
          routes_.take(here.route,
                       std::count_if(from.steps.begin(), from.steps.end(),
                                     [](auto const& step) { return sends(step.kind); }));
        }
        if (from.receive_peer >= 0) {
          here.in = connection(from.receive_peer, static_cast<int>(r), from.channel);
        }
        blocks_.push_back(std::move(here));
      }
    }
  }

  /// The time of all iterations, for a buffer of one byte an iteration.
  /// Throws: std::runtime_error if the blocks wait for each other without end.
  [[nodiscard]] double time(int iterations) {
    for (auto& q : queues_) q = {};
    for (auto& b : blocks_) {
      b.iteration = b.block->steps.empty() ? iterations : 0;
      b.step = 0;
      b.done = 0;
      b.sending = false;
    }
    double now = 0;
    while (true) {
      for (bool progress = true; std::exchange(progress, false);) {
        for (auto& b : blocks_) {
          while (b.iteration < iterations && !b.sending && begin(b)) progress = true;
        }
      }
      std::vector<running*> flows;
      for (auto& b : blocks_) {
        if (b.sending) flows.push_back(&b);
      }
      if (flows.empty()) break;
      share(flows);
      double next = std::numeric_limits<double>::infinity();
      for (auto const* b : flows) next = std::min(next, b->left / b->rate);
      now += next;
      for (auto* b : flows) {
        b->left -= next * b->rate;
        if (b->left > chunk_ * 1e-9) continue;
        b->sending = false;
        ++queues_[b->out].arrived;
        end(*b);
      }
    }
    for (auto const& b : blocks_) {
      if (b.iteration < iterations) throw std::runtime_error("the blocks wait for each other");
    }
    return now;
  }
  /// Buffers in time one, once the program runs: of the last half of the iterations.
  [[nodiscard]] double rate(int iterations) {
    int const half = iterations / 2;
    return (iterations - half) / (time(iterations) - time(half));
  }

 private:
  struct running {
    program_block const* block;
    int rank;
    std::size_t in = 0, out = 0;  // queues
    tree_edge route = {};         // of what it sends
    int iteration = 0;
    std::size_t step = 0;
    int done = 0;
    bool sending = false;
    double left = 0, rate = 0;
  };
  struct queue {
    int arrived = 0;
    int used = 0;  // slots
  };

  std::size_t connection(int from, int to, int channel) {
    auto const [known, fresh] = queue_.try_emplace({from, to, channel}, queues_.size());
    if (fresh) queues_.emplace_back();
    return known->second;
  }

  /// Begins the block's next chunk, and ends it unless it sends. Returns false if it waits.
  bool begin(running& b) {
    auto const& step = b.block->steps[b.step];
    if (step.depends_block >= 0 && b.done == 0) {
      auto const& other = blocks_[first_[static_cast<std::size_t>(b.rank)] +
                                  static_cast<std::size_t>(step.depends_block)];
      bool const is_over =
          other.iteration > b.iteration ||
          (other.iteration == b.iteration && std::cmp_less(step.depends_step, other.step));
      if (!is_over) return false;
    }
    if (receives(step.kind) && queues_[b.in].arrived == 0) return false;
    if (!sends(step.kind)) {
      end(b);
      return true;
    }
    if (queues_[b.out].used == slots_) return false;
    ++queues_[b.out].used;
    b.sending = true;
    b.left = chunk_;
    return true;
  }
  void end(running& b) {
    auto const& step = b.block->steps[b.step];
    if (receives(step.kind)) {
      --queues_[b.in].arrived;
      --queues_[b.in].used;
    }
    if (++b.done < (step.kind == step_kind::nothing ? 1 : step.count)) return;
    b.done = 0;
    if (++b.step < b.block->steps.size()) return;
    b.step = 0;
    ++b.iteration;
  }

  /// Sets the rates of flows. Programs repeat themselves, so sets of flows come back.
  void share(std::vector<running*> const& flows) {
    auto const [known, fresh] = rates_.try_emplace(flows);
    if (fresh) {
      detail::group_loads load;
      for (std::size_t i = 0; i < flows.size(); ++i) {
        detail::add_load(load, flows[i]->route, static_cast<int>(i), 1);
      }
      known->second.resize(flows.size());
      for (auto const& [i, rate] : detail::fair_paces(load, routes_)) {
        known->second[static_cast<std::size_t>(i)] = rate.to_double();
      }
    }
    for (std::size_t i = 0; i < flows.size(); ++i) flows[i]->rate = known->second[i];
  }

  int slots_;
  double chunk_;  // bytes
  std::vector<std::size_t> first_;
  std::vector<running> blocks_;
  std::map<std::tuple<int, int, int>, std::size_t> queue_;
  std::vector<queue> queues_;
  detail::router routes_;
  std::map<std::vector<running*>, std::vector<double>> rates_ = {};
};

}  // namespace blink::test
