// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/mscclpp_counter.hpp>
#include <blink/interop/detail/mscclpp_knowledge.hpp>
#include <blink/interop/detail/mscclpp_memory.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/mscclpp_program.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The processes of an execution plan: thread blocks, ports, and the users of the ranks.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The puts and signals of one block over one port channel, in their order.
struct running_port {
  int process = 0;
  std::uint32_t position = 0;
  process_knowledge known;
};

/// The progress of a thread block.
struct running_thread_block {
  int process = 0;
  int number = 0;  ///< of all blocks of all ranks
  int rank = 0;
  int index = 0;  ///< in its rank
  std::vector<placed_operation> operations = {};
  std::vector<std::vector<mscclpp_move>> moves = {};  ///< by operation
  std::size_t at = 0;
  int iteration = 0;
  process_knowledge known;                     ///< by all threads
  std::map<int, process_knowledge> of_thread;  ///< known by single threads: the k-th of a wait
  std::optional<process_knowledge> arrived;    ///< with packets, since the last sync
  std::uint32_t position = 0;                  ///< of the last event
  std::uint32_t synced = 0;  ///< of the last event before the threads waited for each other
  std::uint32_t phase = 0;
  long gate = -1;  ///< times that the barrier had opened when the block came; -1: it has not come
  std::map<int, running_port> ports = {};  ///< by channel

  [[nodiscard]] bool is_at_end() const { return at == operations.size(); }
  [[nodiscard]] placed_operation const& current() const { return operations[at]; }
  [[nodiscard]] program_place place() const { return current().at(rank, index); }
};

/// A barrier of some blocks of a rank.
struct running_gate {
  int present = 0;
  long openings = 0;
  process_knowledge gathered;  ///< of those that have come
  process_knowledge shared;    ///< of those that have passed
};

/// A rank in one of the calls.
struct running_rank {
  int user = 0;  ///< process
  std::uint32_t user_position = 0;
  int call = 0;
  int first_block = 0;
  int unfinished = 0;  ///< blocks
  process_knowledge known;
  std::shared_ptr<process_knowledge const> at_start;
  std::vector<mscclpp_counter> memory, port;  ///< signals that arrive, by channel
  std::vector<mscclpp_counter> semaphores;
  std::vector<int> memory_ends, port_ends;  ///< number of the channel at the peer; -1: none
  std::map<int, running_gate> gates;
};

/// All processes at the start. Each knows nothing.
class mscclpp_processes {
 public:
  /// Throws: program_fault if there are too many processes to check.
  mscclpp_processes(mscclpp_program const& program, mscclpp_scale const& scale)
      : program_(&program), scale_(scale) {
    int processes = add_ranks();
    for (auto& block : blocks) add_ports(block, processes);
    constexpr int most = 8192;  // each knows of each
    if (processes > most) {
      throw program_fault({}, std::to_string(processes) +
                                  " blocks and ports are too many to check, expected " +
                                  std::to_string(most) + " at most");
    }
    nothing = process_knowledge(static_cast<std::size_t>(processes));
    for (auto& rank : ranks) rank.known = nothing;
    for (auto& block : blocks) {
      block.known = nothing;
      for (auto& [channel, port] : block.ports) port.known = nothing;
    }
  }

  std::vector<running_rank> ranks;
  std::vector<running_thread_block> blocks;  ///< of all ranks
  process_knowledge nothing;

 private:
  /// Makes ranks and blocks. Returns the number of their processes.
  int add_ranks() {
    int processes = 0;
    for (std::size_t r = 0; r < program_->ranks.size(); ++r) {
      auto const& here = program_->ranks[r];
      running_rank rank;
      rank.user = processes++;
      rank.first_block = static_cast<int>(blocks.size());
      rank.memory.resize(here.memory_peers.size());
      rank.port.resize(here.port_peers.size());
      rank.memory_ends = ends_of(r, &mscclpp_rank::memory_peers);
      rank.port_ends = ends_of(r, &mscclpp_rank::port_peers);
      for (int s = 0; s < here.semaphores; ++s) {
        auto const at = static_cast<std::size_t>(s);
        rank.semaphores.emplace_back(at < here.semaphore_values.size() ? here.semaphore_values[at]
                                                                       : 0);
      }
      for (std::size_t b = 0; b < here.blocks.size(); ++b) {
        running_thread_block block;
        block.process = processes++;
        block.number = static_cast<int>(blocks.size());
        block.rank = static_cast<int>(r);
        block.index = static_cast<int>(b);
        block.operations = operations_of(here.blocks[b]);
        for (auto const& each : block.operations) block.moves.push_back(moves_of(*each.op));
        blocks.push_back(std::move(block));
      }
      ranks.push_back(std::move(rank));
    }
    return processes;
  }

  /// By channel of a rank: the number of its other end. The k-th channel to a peer belongs to that
  /// peer's k-th channel back.
  [[nodiscard]] std::vector<int> ends_of(std::size_t r,
                                         std::vector<int> mscclpp_rank::* peers) const {
    std::vector<int> result;
    std::map<int, int> seen;  // by peer
    for (int const peer : program_->ranks[r].*peers) {
      int number = seen[peer]++;
      auto const& back = program_->ranks[static_cast<std::size_t>(peer)].*peers;
      int end = -1;
      for (std::size_t c = 0; c < back.size() && end < 0; ++c) {
        if (back[c] == static_cast<int>(r) && number-- == 0) end = static_cast<int>(c);
      }
      result.push_back(end);
    }
    return result;
  }

  /// Makes the block's ports, and counts the posts of each counter in a call.
  void add_ports(running_thread_block& block, int& processes) {
    auto const& here = program_->ranks[static_cast<std::size_t>(block.rank)];
    auto& rank = ranks[static_cast<std::size_t>(block.rank)];
    for (auto const& each : block.operations) {
      auto const& op = *each.op;
      auto const times =
          each.loop == nullptr ? std::int64_t{1} : iterations(*program_, scale_, *each.loop);
      bool const waits = op.kind == mscclpp_kind::wait || op.kind == mscclpp_kind::relaxed_wait;
      bool const signals =
          op.kind == mscclpp_kind::signal || op.kind == mscclpp_kind::relaxed_signal ||
          op.kind == mscclpp_kind::put_signal || op.kind == mscclpp_kind::put_signal_flush;
      for (auto const& channel : op.channels) {
        bool const is_port = channel.type == mscclpp_channel_type::port;
        if (is_port && !waits && !block.ports.contains(channel.id)) {
          block.ports[channel.id].process = processes++;
        }
        if (!signals) continue;
        auto const id = static_cast<std::size_t>(channel.id);
        int const end = (is_port ? rank.port_ends : rank.memory_ends)[id];
        if (end < 0) continue;
        auto const peer =
            static_cast<std::size_t>((is_port ? here.port_peers : here.memory_peers)[id]);
        (is_port ? ranks[peer].port : ranks[peer].memory)[static_cast<std::size_t>(end)]
            .expect_posts(block.number, times);
      }
      if (op.kind != mscclpp_kind::release) continue;
      for (int const s : op.semaphores) {
        rank.semaphores[static_cast<std::size_t>(s)].expect_posts(block.number, times);
      }
    }
  }

  mscclpp_program const* program_;
  mscclpp_scale scale_;
};

}}}  // namespace blink::BLINK_ABI::detail
