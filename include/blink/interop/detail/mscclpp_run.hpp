// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/mscclpp_buffers.hpp>
#include <blink/interop/detail/mscclpp_control.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/detail/mscclpp_order.hpp>
#include <blink/interop/detail/mscclpp_processes.hpp>
#include <blink/interop/detail/mscclpp_scale.hpp>
#include <blink/interop/detail/program_clocks.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/detail/program_memory.hpp>
#include <blink/interop/mscclpp_program.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Runs an execution plan on symbols in several calls, one after the other on each rank. Each block
/// advances as early as it can.
///
/// Signals, semaphores, barriers and packets order the accesses to memory. Two accesses to one cell
/// without such an order, one of them a write, are a fault, in whichever order they ran here. The
/// user of a rank writes its buffers between the calls.
class mscclpp_run {
 public:
  /// Throws: program_fault if the program is too large to check.
  mscclpp_run(mscclpp_program const& program, int root, mscclpp_scale const& scale, bool is_strict)
      : program_(&program),
        scale_(scale),
        calls_(program.doubles_scratch ? 3 : 2),
        control_(program, scale, is_strict),
        buffers_(program, root, scale, places_of(control_.blocks())) {}

  /// Throws: program_fault for the first fault.
  void run() {
    for (auto& rank : control_.ranks()) begin_call(rank);
    do {
      advance_all();
    } while (end_calls());
    fail_if_stuck();
    control_.check_counters();
  }

  /// A rank whose input has changed; nothing if there is none.
  [[nodiscard]] std::optional<int> rank_with_changed_input() const { return changed_; }

 private:
  [[nodiscard]] static std::vector<program_place> places_of(
      std::vector<running_thread_block> const& blocks) {
    std::vector<program_place> result;
    for (auto const& block : blocks) result.push_back({block.rank, block.index});
    return result;
  }

  /// Runs all blocks until each has ended or waits.
  void advance_all() {
    for (bool progress = true; progress;) {
      progress = false;
      for (auto& block : control_.blocks()) {
        while (control_.rank_of(block).call < calls_ && !block.is_at_end() && advance(block)) {
          progress = true;
        }
      }
    }
  }
  /// Ends the calls of ranks whose blocks have all ended. Returns false if there are none.
  bool end_calls() {
    bool result = false;
    for (auto& rank : control_.ranks()) {
      if (rank.unfinished > 0 || rank.call == calls_) continue;
      end_call(rank);
      result = true;
    }
    return result;
  }

  /// Names the first of the blocks that wait in the earliest call.
  void fail_if_stuck() {
    running_thread_block* first = nullptr;
    for (auto& block : control_.blocks()) {
      int const call = control_.rank_of(block).call;
      if (call == calls_ || block.is_at_end()) continue;
      if (first == nullptr || call < control_.rank_of(*first).call) first = &block;
    }
    if (first != nullptr) control_.fail_stuck(*first);
  }

  bool advance(running_thread_block& block) {
    auto const& op = *block.current().op;
    bool const has_data = !block.moves[block.at].empty();
    if (has_data ? !move_all(block) : !control_.control(block)) return false;
    if (has_data && signals(op.kind)) {
      for (std::size_t k = 0; k < op.channels.size(); ++k) {
        control_.signal(block, k);
        if (op.kind == mscclpp_kind::put_signal_flush) control_.flush(block, k);
      }
    }
    control_.step_on(block);
    return true;
  }

  /// Hands the buffers to the rank: its user has written the input.
  void begin_call(running_rank& rank) {
    ++rank.user_position;
    buffers_.fill(number_of(rank), rank.call, {rank.user, rank.user_position});
    control_.begin_call(rank);
  }

  /// Hands the buffers back to the user, which may change them.
  void end_call(running_rank& rank) {
    int const number = number_of(rank);
    int const call = rank.call;
    control_.end_call(rank);
    buffers_.check_over(number, rank.known);
    buffers_.check_results(number, call);
    if (!program_->in_place && !changed_ && buffers_.has_changed_input(number)) changed_ = number;
    if (rank.call < calls_) begin_call(rank);
  }

  [[nodiscard]] int number_of(running_rank const& rank) {
    return static_cast<int>(&rank - control_.ranks().data());
  }

  /// Does an operation that moves data. Returns false if packets have not arrived.
  bool move_all(running_thread_block& block) {
    auto const& op = *block.current().op;
    auto const& moves = block.moves[block.at];
    bool const is_port = is_over_port(op);
    bool const polls = !is_port || op.kind == mscclpp_kind::forward_packets;
    for (auto const& move : moves) {
      if (polls && !have_arrived(block, move)) return false;
    }
    if (is_port && polls) control_.synchronise(block);
    for (std::size_t k = 0; k < moves.size(); ++k) {
      auto const part = extent_of(block, moves[k]);
      if (is_port) {
        auto& port = block.ports.at(op.channels[k].id);
        port.known.learn(*control_.published(block, k));
        for (int e = 0; e < part.count; ++e) {
          process_event const event{port.process, ++port.position};
          port.known.add_until(event);
          auto actor = actor_of(block, event, e);
          actor.known = &port.known;
          actor.has_threads = false;
          move_element(block, moves[k], part, e, actor, polls);
        }
      } else {
        for (int e = 0; e < part.count; ++e) {
          auto actor = actor_of(block, {block.process, ++block.position}, e);
          move_element(block, moves[k], part, e, actor, true);
          if (!actor.carried.empty() && !block.arrived) block.arrived = control_.nothing();
          for (auto const& each : actor.carried) block.arrived->learn_over(*each);
        }
      }
    }
    return true;
  }

  [[nodiscard]] mscclpp_actor actor_of(running_thread_block const& block,
                                       process_event const& event, int element) const {
    mscclpp_actor result;
    result.access = {
        event,  block.number, &block.current(), block.phase, lanes_of(block.current().op->kind),
        element};
    result.at = block.place();
    result.known = &block.known;
    return result;
  }

  [[nodiscard]] cell_extent extent_of(running_thread_block const& block,
                                      mscclpp_move const& move) const {
    return detail::extent_of(*program_, scale_, block.current(), block.iteration, move,
                             block.place());
  }

  /// True if all packets that the move reads are those of the present call.
  [[nodiscard]] bool have_arrived(running_thread_block const& block, mscclpp_move const& move) {
    int const call = control_.rank_of(block).call;
    auto const part = extent_of(block, move);
    for (auto const& end : move.sources) {
      if (!end.is_packets) continue;
      for (int e = 0; e < part.count; ++e) {
        for (bool const second : {false, true}) {
          for (auto const& named : buffers_.cells_of(end, call, part, e, second, block.place())) {
            if (named.cell->packet_call != call) return false;
          }
        }
      }
    }
    return true;
  }

  void move_element(running_thread_block& block, mscclpp_move const& move, cell_extent const& part,
                    int element, mscclpp_actor& actor, bool has_waited) {
    int const call = control_.rank_of(block).call;
    chunk_value value;
    auto const take = [&](chunk_value const& next) {
      value = value ? add(value, next, program_->collective, actor.at) : next;
    };
    for (auto const& end : move.sources) {
      auto const from = buffers_.cells_of(end, call, part, element, false, actor.at);
      if (end.is_packets) {
        auto const second = buffers_.cells_of(end, call, part, element, true, actor.at);
        if (from[0].cell->packet_call != call || second[0].cell->packet_call != call) {
          throw program_fault(block.place(), "puts packets that are not there yet");
        }
        take(buffers_.order().read_packets(actor, from[0], second[0], has_waited));
        continue;
      }
      for (auto const& each : from) take(buffers_.order().read(actor, each));
    }
    std::shared_ptr<process_knowledge const> carried;
    for (auto const& end : move.destinations) {
      auto const to = buffers_.cells_of(end, call, part, element, false, actor.at);
      if (!end.is_packets) {
        for (auto const& each : to) buffers_.order().write(actor, each, value);
        continue;
      }
      if (!carried) carried = carried_by(actor);
      auto const second = buffers_.cells_of(end, call, part, element, true, actor.at);
      for (std::size_t i = 0; i < to.size(); ++i) {
        buffers_.order().write_packets(actor, to[i], second[i], value, call, carried);
      }
    }
  }

  /// All that is over when a process writes packets.
  [[nodiscard]] std::shared_ptr<process_knowledge const> carried_by(
      mscclpp_actor const& actor) const {
    auto result = std::make_shared<process_knowledge>(control_.nothing());
    result->learn_over(*actor.known);
    for (auto const& each : actor.carried) result->learn_over(*each);
    result->add_over(actor.access.event);
    return result;
  }

  mscclpp_program const* program_;
  mscclpp_scale scale_;
  int calls_;
  mscclpp_control control_;
  mscclpp_buffers buffers_;
  std::optional<int> changed_;
};

}}}  // namespace blink::BLINK_ABI::detail
