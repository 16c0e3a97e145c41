// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/unequal_flows.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/call_steps.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/block.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule.hpp>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// An all-to-all with a size for each pair of ranks. It is not movable.
template <chunking Chunks, communicator Comm, class T>
class all_to_all_v_call final : public flow_call<Chunks, Comm, T> {
 public:
  all_to_all_v_call(Comm& comm, prepared_schedule& prepared, T const* input,
                    std::vector<block> const& sends, T* output, std::vector<block> const& receives)
      : flow_call<Chunks, Comm, T>(comm, prepared, "all_to_all_v",
                                   checked(comm, prepared, input, sends, output, receives)),
        buffers_{input, output},
        copied_bytes_(input == output ? end_of(sends) * sizeof(T) : 0),
        copy_(prepared.copy_of(comm.rank())) {}

 private:
  // The rank's sizes, checked before the ranks agree on anything.
  [[nodiscard]] static flow_sizes checked(Comm& comm, prepared_schedule& prepared, T const* input,
                                          std::vector<block> const& sends, T* output,
                                          std::vector<block> const& receives) {
    auto const name = "all_to_all_v on rank " + std::to_string(comm.rank());
    prepared.expect_carries(collective::all_to_all);
    check_blocks(name + ", sends", sends, comm.rank_count(), sizeof(T), false);
    check_blocks(name + ", receives", receives, comm.rank_count(), sizeof(T), true);
    std::size_t const in_end = end_of(sends);
    std::size_t const out_end = end_of(receives);
    expect_buffer(name, "input", input, in_end);
    expect_buffer(name, "output", output, out_end);
    expect_reachable(comm, input, in_end * sizeof(T), "all_to_all_v", "the input");
    expect_reachable(comm, output, out_end * sizeof(T), "all_to_all_v", "the output");
    bool const is_in_place = input == output && sends == receives;
    if (!is_in_place) expect_apart(name, input, in_end * sizeof(T), output, out_end * sizeof(T));
    return {sends, receives, {}, {}};
  }

  [[nodiscard]] call_buffers<T> buffers() override {
    if (copied_bytes_ == 0) return buffers_;
    auto* const copy = copy_.at_least(copied_bytes_);
    std::memcpy(copy, buffers_.input, copied_bytes_);
    return {reinterpret_cast<T const*>(copy), buffers_.output};
  }

  call_buffers<T> buffers_;  // the caller's
  std::size_t copied_bytes_;
  scratch& copy_;
};

}  // namespace detail

/// Sends a segment from each rank to each rank, with a separate size for every pair of ranks.
///
/// trees:    carries an all-to-all
/// input:    segments for the ranks
/// sends:    by rank, the place of its segment in `input`; segments may overlap
/// output:   segments of the ranks; may be `input` if `sends` and `receives` are equal, and must
///           not overlap it otherwise
/// receives: by rank, the place of its segment in `output`; without overlaps
/// Moves:    first all sizes, because forwarding ranks need them and both ends are compared; then
///           each segment over the trees from its sender to its receiver.
/// Needs:    in place, memory for a copy of the input.
/// Throws:   precondition_error if the schedule does not carry an all-to-all, if the communicator's
///           group has several threads, or for wrong blocks or buffers; precondition_error on all
///           ranks if a sender's count is not its receiver's; collective_error, on every rank, if a
///           rank does not enter the call, makes no progress until the deadline, or calls something
///           else.
template <chunking Chunks = scheduled_chunks, communicator Comm, class T>
void all_to_all_v(Comm& comm, prepared_schedule& prepared, T const* input,
                  std::vector<block> const& sends, T* output, std::vector<block> const& receives) {
  detail::all_to_all_v_call<Chunks, Comm, T> call(comm, prepared, input, sends, output, receives);
  detail::run_to_end(comm, collective::all_to_all, call);
}

/// The same along a schedule that is prepared first, unless the communicator already has it.
template <chunking Chunks = scheduled_chunks, communicator Comm, class T>
void all_to_all_v(Comm& comm, schedule const& source, T const* input,
                  std::vector<block> const& sends, T* output, std::vector<block> const& receives) {
  all_to_all_v<Chunks>(comm, comm.prepare(source), input, sends, output, receives);
}

/// The same along the schedule that the communicator's tuning selects for small messages, because
/// only the ends of a message know its size.
template <communicator Comm, class T>
void all_to_all_v(Comm& comm, T const* input, std::vector<block> const& sends, T* output,
                  std::vector<block> const& receives) {
  auto const chosen = detail::tuned_source<Comm>{comm}.choose(collective::all_to_all, 0);
  all_to_all_v(comm, *chosen.prepared, input, sends, output, receives);
}

}}  // namespace blink::BLINK_ABI
