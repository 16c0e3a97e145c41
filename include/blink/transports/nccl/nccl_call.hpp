// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>
#include <blink/transports/cuda/copy/copy_call.hpp>
#include <blink/transports/cuda/kernels/copy_step.hpp>
#include <blink/transports/cuda/kernels/step_tasks.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/nccl/nccl_schedule.hpp>
#include <blink/transports/nccl/nccl_team.hpp>
#include <blink/transports/nccl/transfer_rounds.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One call on the ranks of this process: the steps and transfers of each round
/// (`transfer_rounds.hpp`).
template <device_runtime Devices>
class nccl_call {
 public:
  /// Sets the tasks of `schedule` for this call.
  ///
  /// Pre:    the buffers are checked.
  /// Throws: precondition_error if the reducer does not suit the schedule.
  template <chunking Chunks, class T, class Reducer>
  void set(nccl_schedule<Devices> const& source, collective kind,
           std::vector<detail::plain_buffers> buffers, detail::call_size const& size) {
    steps_.along = &source;
    steps_.buffers = std::move(buffers);
    steps_.first_rank = source.first_rank();
    tasks_ = source.tasks(kind);
    std::vector<placed_task> placed;
    for (auto const& each : tasks_) placed.push_back(each.at);
    steps_.template set<Chunks, T, Reducer>(placed, kind, size);
    ends_ = ends_in_order(tasks_);
  }
  /// The number of rounds of the call.
  [[nodiscard]] std::uint64_t rounds() const { return round_count(tasks_); }

  /// Calls `combine(rank, step)` for each step that comes before the transfers of a round.
  template <class Combine>
  void for_each_step(std::uint64_t round, Combine const& combine) const {
    for (auto const& each : tasks_) {
      if (!each.works_in(round) || steps_.is_copy(*each.at.here)) continue;
      std::uint64_t const chunk = round - each.begins;
      if (chunk_count(*each.at.here, chunk) == 0) continue;
      combine(each.at.rank, steps_.combining(each.at, chunk));
    }
  }
  /// The sends and receives of a round, in the order in which all ranks list them.
  void list_transfers(std::uint64_t round, std::vector<nccl_transfer>& group) const {
    group.clear();
    for (auto const& each : ends_) {
      if (each.crosses_in(round)) group.push_back(transfer_of(each, round - each.begins));
    }
  }
  /// Calls `copy(rank, to, from, bytes)` for the input that a root sends and also keeps. The copies
  /// may run at any time.
  template <class Copy>
  void for_each_own_copy(Copy const& copy) const {
    for (auto const& each : tasks_) {
      auto const& here = *each.at.here;
      if (!steps_.is_copy(here) || here.in_count > 0 || !here.writes_output) continue;
      bool const is_one_piece = here.stride == here.chunk;
      for (std::uint64_t chunk = 0; chunk < (is_one_piece ? 1 : here.chunks); ++chunk) {
        auto const* const from = steps_.input(here, each.at.rank, chunk);
        auto* const to = steps_.output(here, each.at.rank, chunk);
        std::size_t const bytes =
            (is_one_piece ? here.count : chunk_count(here, chunk)) * steps_.element_bytes;
        if (from != to && bytes > 0) copy(each.at.rank, to, from, bytes);
      }
    }
  }

 private:
  // NCCL does not promise to send messages without bytes, so messages of barriers have one
  // meaningless byte.
  [[nodiscard]] nccl_transfer transfer_of(timed_end const& each, std::uint64_t chunk) const {
    auto const& end = *each.end;
    nccl_transfer result{end.sends, each.at.rank, end.peer, nullptr,
                         steps_.bytes(*each.at.here, end, chunk)};
    if (result.bytes == 0) {
      result.bytes = 1;
      result.data = end.sends ? steps_.along->outbox(end.connection, 0)
                              : steps_.along->inbox(end.connection, 0);
    } else {
      result.data = end.sends ? const_cast<void*>(steps_.leaves_from(each.at, chunk))
                              : steps_.destination(end.connection, chunk);
    }
    return result;
  }

  copy_call<nccl_schedule<Devices>> steps_;
  std::vector<timed_task> tasks_;
  std::vector<timed_end> ends_;
};

}}  // namespace blink::BLINK_ABI
