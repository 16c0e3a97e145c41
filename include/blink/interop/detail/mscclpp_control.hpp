// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/mscclpp_processes.hpp>
#include <blink/interop/detail/mscclpp_scale.hpp>
#include <blink/interop/detail/program_clocks.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/mscclpp_kind.hpp>
#include <blink/interop/mscclpp_program.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The waits of an execution plan's processes, and their knowledge of each other. Data do not
/// matter here.
class mscclpp_control {
 public:
  /// is_strict: relaxed signals, and flushes without destinations, promise no more than they keep
  /// Throws:    program_fault if there are too many processes to check.
  mscclpp_control(mscclpp_program const& program, mscclpp_scale const& scale, bool is_strict)
      : program_(&program), scale_(scale), is_strict_(is_strict), processes_(program, scale) {}

  [[nodiscard]] std::vector<running_thread_block>& blocks() { return processes_.blocks; }
  [[nodiscard]] std::vector<running_rank>& ranks() { return processes_.ranks; }
  [[nodiscard]] running_rank& rank_of(running_thread_block const& block) {
    return ranks()[static_cast<std::size_t>(block.rank)];
  }
  [[nodiscard]] process_knowledge const& nothing() const { return processes_.nothing; }

  /// Begins a call: all that the rank knows, its blocks know.
  void begin_call(running_rank& rank) {
    rank.known.add_until({rank.user, rank.user_position});
    rank.at_start = std::make_shared<process_knowledge const>(rank.known);
    rank.unfinished = 0;
    for_blocks(rank, [&](running_thread_block& block) {
      block.known = rank.known;
      block.at = 0;
      synchronise(block);
      if (!block.is_at_end()) ++rank.unfinished;
    });
  }
  /// Ends a call: all that its blocks know, the rank knows.
  void end_call(running_rank& rank) {
    for_blocks(rank, [&](running_thread_block& block) {
      synchronise(block);
      rank.known.learn(block.known);
    });
    ++rank.call;
  }

  /// Goes to the next operation or iteration.
  void step_on(running_thread_block& block) {
    auto const& here = block.current();
    bool const is_last =
        block.at + 1 == block.operations.size() || block.operations[block.at + 1].loop != here.loop;
    if (here.loop != nullptr && is_last &&
        ++block.iteration < iterations(*program_, scale_, *here.loop)) {
      while (block.at > 0 && block.operations[block.at - 1].loop == here.loop) --block.at;
      return;
    }
    if (is_last) block.iteration = 0;
    ++block.at;
    if (block.is_at_end()) --rank_of(block).unfinished;
  }

  /// Lets the threads of a block wait for each other.
  void synchronise(running_thread_block& block) const {
    for (auto const& [thread, known] : block.of_thread) block.known.learn(known);
    block.of_thread.clear();
    if (block.arrived) block.known.learn_over(*block.arrived);
    block.arrived.reset();
    block.synced = block.position;
    block.known.add_until({block.process, block.synced});
    ++block.phase;
  }

  /// Does an operation that moves no data. Returns false if it has to wait.
  /// Throws: program_fault
  bool control(running_thread_block& block) {
    auto const& op = *block.current().op;
    switch (op.kind) {
      case mscclpp_kind::sync:
        synchronise(block);
        return true;
      case mscclpp_kind::barrier:
        return pass_barrier(block);
      case mscclpp_kind::wait:
      case mscclpp_kind::relaxed_wait:
      case mscclpp_kind::acquire:
        return take(block, counters_of(block));
      case mscclpp_kind::signal:
      case mscclpp_kind::relaxed_signal:
        for (std::size_t k = 0; k < op.channels.size(); ++k) signal(block, k);
        return true;
      case mscclpp_kind::release: {
        auto const counters = counters_of(block);
        for (std::size_t k = 0; k < counters.size(); ++k) {
          counters[k]->post({published(block, k), rank_of(block).at_start});
        }
        return true;
      }
      default:  // flush
        for (std::size_t k = 0; k < op.channels.size(); ++k) {
          if (!is_strict_ || k < op.destinations.size()) flush(block, k);
        }
        return true;
    }
  }

  /// All that the k-th thread of a block knows and passes on.
  [[nodiscard]] std::shared_ptr<process_knowledge const> published(
      running_thread_block const& block, std::size_t k) const {
    auto const found = block.of_thread.find(static_cast<int>(k));
    if (found == block.of_thread.end()) {
      return std::make_shared<process_knowledge const>(block.known);
    }
    auto result = std::make_shared<process_knowledge>(block.known);
    result->learn(found->second);
    return result;
  }

  /// Signals over the k-th channel of the present operation.
  void signal(running_thread_block& block, std::size_t k) {
    auto const& op = *block.current().op;
    auto const& channel = op.channels[k];
    counter_post post{nullptr, rank_of(block).at_start};
    if (channel.type == mscclpp_channel_type::port) {
      auto& port = block.ports.at(channel.id);
      port.known.learn(*published(block, k));
      post.known = std::make_shared<process_knowledge const>(port.known);
    } else {
      post.known = published(block, k);
      post.is_relaxed = op.kind == mscclpp_kind::relaxed_signal;
    }
    auto* const counter = processes_.other_end(block.rank, channel);
    if (counter != nullptr) counter->post(std::move(post));
  }

  /// Waits for all that was put over the k-th channel of the present operation.
  void flush(running_thread_block& block, std::size_t k) {
    auto const& port = block.ports.at(block.current().op->channels[k].id);
    thread(block, k).learn(port.known);
  }

  /// Throws: program_fault, as the block waits without end.
  [[noreturn]] void fail_stuck(running_thread_block& block) {
    auto const& op = *block.current().op;
    auto const& here = program_->ranks[static_cast<std::size_t>(block.rank)];
    std::string what;
    auto const counters = counters_of(block);
    for (std::size_t k = 0; k < counters.size(); ++k) {
      if (counters[k]->has_one()) continue;
      if (op.kind == mscclpp_kind::acquire) {
        what = "for semaphore " + std::to_string(op.semaphores[k]);
      } else {
        auto const& channel = op.channels[k];
        auto const peer = here.peers(channel.type)[static_cast<std::size_t>(channel.id)];
        what = "for a signal of rank " + std::to_string(peer) + " over " +
               std::string(to_text(channel.type)) + " channel " + std::to_string(channel.id);
      }
      break;
    }
    if (op.kind == mscclpp_kind::barrier) {
      what = "for the other blocks of barrier " + std::to_string(op.barrier);
    } else if (counters.empty()) {
      what = "for packets";
    }
    auto const call = rank_of(block).call;
    program_fault fault(
        block.place(),
        "waits without end " + what +
            (block.iteration > 0 ? ", iteration " + std::to_string(block.iteration) : "") +
            (call > 0 ? ", in call " + std::to_string(call) : ""));
    fault.is_stuck = true;
    throw fault;
  }

  /// Throws: program_fault if a channel or a semaphore does not end as it began.
  void check_counters() {
    for (std::size_t r = 0; r < processes_.ranks.size(); ++r) {
      for (auto const type : {mscclpp_channel_type::memory, mscclpp_channel_type::port}) {
        auto const& counters = processes_.ranks[r].channels(type).arrived;
        for (std::size_t c = 0; c < counters.size(); ++c) {
          if (counters[c].left() == 0) continue;
          throw program_fault({static_cast<int>(r)},
                              "never waits for " + std::to_string(counters[c].left()) +
                                  " signals of rank " +
                                  std::to_string(program_->ranks[r].peers(type)[c]) + " over " +
                                  std::string(to_text(type)) + " channel " + std::to_string(c));
        }
      }
      for (std::size_t s = 0; s < processes_.ranks[r].semaphores.size(); ++s) {
        auto const left = processes_.ranks[r].semaphores[s].left();
        if (left == 0) continue;
        throw program_fault({static_cast<int>(r)},
                            "semaphore " + std::to_string(s) + " ends " + std::to_string(left) +
                                " above its first value, expected the same in every call");
      }
    }
  }

 private:
  template <class Action>
  void for_blocks(running_rank const& rank, Action const& action) {
    auto const user = static_cast<std::size_t>(&rank - processes_.ranks.data());
    for (std::size_t b = 0; b < program_->ranks[user].blocks.size(); ++b) {
      action(processes_.blocks[static_cast<std::size_t>(rank.first_block) + b]);
    }
  }

  [[nodiscard]] process_knowledge& thread(running_thread_block& block, std::size_t k) const {
    return block.of_thread.try_emplace(static_cast<int>(k), nothing()).first->second;
  }

  /// The counters that the present operation takes from, or releases.
  [[nodiscard]] std::vector<mscclpp_counter*> counters_of(running_thread_block const& block) {
    auto const& op = *block.current().op;
    auto& rank = rank_of(block);
    std::vector<mscclpp_counter*> result;
    if (op.kind == mscclpp_kind::acquire || op.kind == mscclpp_kind::release) {
      for (int const s : op.semaphores) {
        result.push_back(&rank.semaphores[static_cast<std::size_t>(s)]);
      }
    }
    if (waits(op.kind)) {
      for (auto const& channel : op.channels) {
        auto& counters = rank.channels(channel.type).arrived;
        result.push_back(&counters[static_cast<std::size_t>(channel.id)]);
      }
    }
    return result;
  }

  bool take(running_thread_block& block, std::vector<mscclpp_counter*> const& counters) {
    if (!std::all_of(counters.begin(), counters.end(),
                     [](mscclpp_counter const* counter) { return counter->has_one(); })) {
      return false;
    }
    auto const& op = *block.current().op;
    bool const is_relaxed = op.kind == mscclpp_kind::relaxed_wait;
    for (std::size_t k = 0; k < counters.size(); ++k) {
      auto const before = counters[k]->last_take();
      if (before.process >= 0 && before.process != block.process &&
          !published(block, k)->is_over(before)) {
        throw program_fault(block.place(),
                            "waits for what another block waits for too, in an order that depends "
                            "on timing");
      }
      auto& known = thread(block, k);
      bool const is_port =
          waits(op.kind) && op.channels[k].type == mscclpp_channel_type::port;  // never relaxed
      for (auto const& post : counters[k]->take({block.process, ++block.position})) {
        if (is_strict_ && !is_port && (is_relaxed || post.is_relaxed)) {
          known.learn_over(*post.known);
          known.learn(*post.at_start);
        } else {
          known.learn(*post.known);
        }
      }
    }
    return true;
  }

  bool pass_barrier(running_thread_block& block) {
    auto const& op = *block.current().op;
    auto& gate = rank_of(block)
                     .gates.try_emplace(op.barrier, running_gate{0, 0, nothing(), nothing()})
                     .first->second;
    if (block.gate < 0) {
      synchronise(block);
      gate.gathered.learn(block.known);
      block.gate = gate.openings;
      if (++gate.present < op.barrier_blocks) return false;
      gate.present = 0;
      ++gate.openings;
      gate.shared = std::exchange(gate.gathered, nothing());
    }
    if (gate.openings == block.gate) return false;
    block.gate = -1;
    block.known.learn(gate.shared);
    return true;
  }

  mscclpp_program const* program_;
  mscclpp_scale scale_;
  bool is_strict_;
  mscclpp_processes processes_;
};

}}}  // namespace blink::BLINK_ABI::detail
