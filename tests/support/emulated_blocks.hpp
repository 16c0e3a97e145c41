// SPDX-License-Identifier: Apache-2.0
#pragma once

// A kernel's blocks as teams of host threads. All tasks of all ranks run at once, and each thread
// of a block is a host thread. They walk and move chunks by the code of kernels (`emulated_block`),
// compiled for a host.

#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/transports/cuda/kernels/block_work.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "support/collective_case.hpp"
#include "support/emulated_block.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace blink_test {

/// Launch parameters of the emulated kernel.
struct emulation {
  std::uint32_t block_threads = 1;
  std::uint32_t window = 2;
  std::size_t slot_bytes = 512;
  std::uint64_t first_message = 0;  ///< the first message of connections; a multiple of the window
  std::uint64_t deadline_nanoseconds = 20'000'000'000;
  std::size_t missing_block = ~std::size_t{0};  ///< a block that never starts
  /// Threads in the part of a block that walks a task, 1 or 2: several tasks share a block. 0: the
  /// whole block walks one task.
  std::uint32_t part_threads = 0;
  /// If whole blocks walk: overwrites a rank's input once all its blocks have ended, as a caller
  /// may. An input in the output is kept.
  bool overwrites_inputs = false;
};

/// Memory that starts as zeros, as packets require.
inline blink::memory_source zeroed_memory() {
  blink::memory_source source;
  source.allocate = [](void*, std::size_t bytes) -> void* {
    void* const memory = blink::memory_source{}.allocate(nullptr, bytes);
    std::memset(memory, 0, bytes);
    return memory;
  };
  return source;
}

/// A schedule with its connections, on which emulated blocks run calls repeatedly.
template <class Transport, class Protocol = blink::whole_chunks>
class emulated_device {
 public:
  emulated_device(blink::schedule const& trees, emulation const& how)
      : how_(how), prepared_(trees, layout_of(how), {}) {
    auto const& tables = prepared_.tables();
    for (std::uint32_t connection = 0; connection < tables.connection_count(); ++connection) {
      auto const& at = tables.connections()[connection];
      *at.posted = *at.consumed = how.first_message;
    }
    for (int rank = 0; rank < trees.rank_count; ++rank) {
      auto const [ends, count] = tables.ends(rank);
      for (std::size_t k = 0; k < count; ++k) ends[k].first = how.first_message;
    }
  }

  [[nodiscard]] blink::prepared_schedule& prepared() { return prepared_; }

  /// Runs the case and compares; empty if nothing is wrong.
  template <class T, class Reducer>
  std::string run(collective_case const& what, Reducer const& reduce) {
    auto const& trees = prepared_.source();
    auto const ranks = static_cast<std::size_t>(trees.rank_count);
    std::vector<rank_buffers<T>> buffers;
    std::vector<void const*> inputs;
    std::vector<void*> outputs;
    buffers.reserve(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto& mine = buffers.emplace_back(what, trees.rank_count, static_cast<int>(rank));
      inputs.push_back(mine.input);
      outputs.push_back(mine.output);
    }
    auto const ended = walk<T>(what.kind, what.count, inputs, outputs, reduce);
    if (!ended.empty()) return ended;
    for (auto& mine : buffers) {
      auto const wrong = what_is_wrong(what, trees, mine, reduce);
      if (!wrong.empty()) return "rank " + std::to_string(mine.rank) + ": " + wrong;
    }
    return "";
  }
  /// Runs a call on the buffers of all ranks, by rank; empty if all blocks ended well.
  template <class T, class Reducer>
  std::string walk(blink::collective kind, std::size_t count,
                   std::vector<void const*> const& inputs, std::vector<void*> const& outputs,
                   Reducer const& reduce) {
    std::vector<blink::block_work<Transport, T>> works;
    std::vector<caller> callers(inputs.size());
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      auto const tasks = prepared_.tables().tasks(static_cast<int>(rank), kind);
      for (std::size_t k = 0; k < tasks.count; ++k) {
        auto& work = works.emplace_back();
        work.here = tasks.first + k;
        set_call<T, Reducer>(*work.here, kind, count);
        work.transport = link_of(static_cast<int>(rank), inputs, outputs);
        work.buffers = {static_cast<T const*>(inputs[rank]), static_cast<T*>(outputs[rank])};
      }
      callers[rank] = caller_of<T>(kind, count, inputs[rank], outputs[rank]);
      callers[rank].blocks = tasks.count;
    }
    launch(works, callers, reduce);
    for (std::size_t block = 0; block < works.size(); ++block) {
      if (works[block].result == blink::status::ok) continue;
      return "block " + std::to_string(block) + " ended with status " +
             std::to_string(static_cast<int>(works[block].result));
    }
    return "";
  }

 private:
  /// The caller that gets a rank's input back when all its blocks have ended.
  struct caller {
    void* input = nullptr;
    std::size_t bytes = 0;
    std::size_t blocks = 0;  // that have not ended
    void block_ended() {
      if (std::atomic_ref(blocks).fetch_sub(1) == 1) std::memset(input, 0x11, bytes);
    }
  };
  template <class T>
  caller caller_of(blink::collective kind, std::size_t count, void const* input,
                   void const* output) const {
    auto const bytes = [&](bool in_blocks) {
      auto const ranks = static_cast<std::size_t>(prepared_.source().rank_count);
      return count * (in_blocks ? ranks : 1) * sizeof(T);
    };
    auto const in = reinterpret_cast<std::uintptr_t>(input);
    auto const out = reinterpret_cast<std::uintptr_t>(output);
    std::size_t const length = bytes(has_input_blocks(kind));
    bool const overlaps = in < out + bytes(has_output_blocks(kind)) && out < in + length;
    return {const_cast<void*>(input), how_.overwrites_inputs && !overlaps ? length : 0, 0};
  }

  static blink::connection_layout layout_of(emulation const& how) {
    blink::connection_layout layout;
    layout.reaches = blink::reaching_transport<Transport>;
    layout.window = how.window;
    layout.slot_bytes = how.slot_bytes;
    layout.has_packets = std::is_same_v<Protocol, blink::small_packets>;
    layout.memory = zeroed_memory();
    return layout;
  }
  template <class T, class Reducer>
  void set_call(blink::tree_task& here, blink::collective kind, std::size_t count) {
    auto const sizes = blink::sizes_of<Reducer, T>();
    auto const block = prepared_.equal_block(here, kind, count);
    prepared_.set_call(here, kind, block, sizes, blink::order_of<Reducer>,
                       &blink::cut_by<blink::scheduled_chunks>);
  }
  Transport link_of(int rank, std::vector<void const*> const& inputs,
                    std::vector<void*> const& outputs) {
    Transport transport;
    transport.connections = prepared_.tables().connections();
    transport.abort = &abort_;
    transport.bytes_of_slot = prepared_.tables().layout().slot_bytes;
    transport.own_rank = rank;
    transport.ranks = prepared_.source().rank_count;
    if constexpr (blink::reaching_transport<Transport>) {
      transport.inputs = inputs.data();
      transport.outputs = outputs.data();
    }
    return transport;
  }
  template <class T, class Reducer>
  void launch(std::vector<blink::block_work<Transport, T>>& works, std::vector<caller>& callers,
              Reducer const& reduce) {
    std::uint32_t const parts = how_.part_threads == 0 ? 1 : how_.block_threads / how_.part_threads;
    auto const work_count = static_cast<std::uint32_t>(works.size());
    std::vector<std::unique_ptr<emulated_team>> teams;
    std::vector<std::jthread> threads;
    for (std::uint32_t block = 0; block * parts < work_count; ++block) {
      auto& shared = *teams.emplace_back(std::make_unique<emulated_team>(how_.block_threads));
      if (block == how_.missing_block) continue;
      for (std::uint32_t thread = 0; thread < how_.block_threads; ++thread) {
        threads.emplace_back([&, block, thread, this] {
          emulated_block const group(shared, thread);
          auto const walk_as = [&](auto const part) {
            blink::walk_part<Protocol>(part, block, works.data(), work_count,
                                       how_.deadline_nanoseconds, reduce);
          };
          if (how_.part_threads == 1) return walk_as(part_of<1>(group));
          if (how_.part_threads == 2) return walk_as(part_of<2>(group));
          auto& work = works[block];
          blink::walk_block<Protocol>(group, work, how_.deadline_nanoseconds, reduce);
          if (thread == 0) callers[static_cast<std::size_t>(work.transport.rank())].block_ended();
        });
      }
    }
  }

  emulation how_;
  blink::prepared_schedule prepared_;
  blink::counter abort_ = 0;
};

}  // namespace blink_test
