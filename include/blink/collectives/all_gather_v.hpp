// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/unequal_blocks.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/call_steps.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/detail/run_time_call.hpp>
#include <blink/running/call/element_buffer.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/schedule/block.hpp>
#include <blink/schedule/chunking.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// An all-gather or reduce-scatter with segments of any sizes, equal on all ranks. It is not
/// movable.
template <chunking Chunks, communicator Comm, class T, class Reducer>
class unequal_call {
 public:
  template <schedule_source Source>
  unequal_call(Comm& comm, Source&& trees, collective kind, T const* input, T* output,
               std::vector<block> const& blocks, Reducer const& reduce)
      : unequal_call(std::string(to_text(kind)) + " on rank " + std::to_string(comm.rank()), comm,
                     std::forward<Source>(trees), kind, input, output, blocks, reduce) {}
  unequal_call(unequal_call const&) = delete;
  unequal_call& operator=(unequal_call const&) = delete;

  void begin() { one_->begin(); }
  [[nodiscard]] bool advance() { return one_->advance(); }
  void complete() { one_->complete(); }

 private:
  template <class Source>
  unequal_call(std::string const& name, Comm& comm, Source&& trees, collective kind, T const* input,
               T* output, std::vector<block> const& blocks, Reducer const& reduce)
      : all_(name, kind, blocks, comm.rank_count(), sizeof(T) * unit_of(reduce), unit_of(reduce),
             Comm::transport_type::reaches) {
    auto const chosen = choose_schedule(comm, std::forward<Source>(trees), kind, all_.bytes(),
                                        {.needed = operands_needed<Reducer>});
    chosen.prepared->expect_carries(kind);
    all_.check_buffers(name, comm.rank(), input, output);
    expect_reachable(comm, input, all_.input_bytes(comm.rank()), to_text(kind), "the input");
    expect_reachable(comm, output, all_.output_bytes(comm.rank()), to_text(kind), "the output");
    one_.emplace(comm, *chosen.prepared, kind, input, output, all_.size(chosen.chunk_bytes),
                 reduce);
  }

  unequal_blocks all_;
  std::optional<collective_call<Chunks, Comm, T, Reducer>> one_;
};

template <chunking Chunks, communicator Comm, schedule_source Source, class T, class Reducer>
void run_unequal_blocks(Comm& comm, Source&& trees, collective kind, T const* input, T* output,
                        std::vector<block> const& blocks, Reducer const& reduce) {
  if constexpr (chosen_at_run_time<Reducer>) {
    as_bytes(kind, comm.rank(), input, output, blocks.size(), reduce,
             [&](std::byte const* from, std::byte* to, auto const& bytes) {
               run_unequal_blocks<Chunks>(comm, std::forward<Source>(trees), kind, from, to, blocks,
                                          bytes);
             });
  } else {
    unequal_call<Chunks, Comm, T, Reducer> call(comm, std::forward<Source>(trees), kind, input,
                                                output, blocks, reduce);
    run_to_end(comm, kind, call);
  }
}

}  // namespace detail

/// Collects a segment of any size of each rank. Every rank ends with all segments.
///
/// trees:  a prepared schedule, a schedule, or algorithms by size; see `schedule_source`. Segments
///         in proportion to `schedule::shares` load the links as planned; all other sizes are also
///         correct.
/// input:  this rank's segment
/// blocks: by rank, the place of its segment in the output, without overlaps. Sizes are the same on
///         all ranks; so are places if peers reach buffers (`direct_transport`)
/// output: all segments; `input` may be this rank's segment in it, and must not overlap it
///         otherwise
/// Moves:  each segment over the edges of the trees rooted at its rank, away from the root.
/// Throws: precondition_error if the schedule does not carry an all-gather, or for wrong blocks or
///         buffers; collective_error, on every rank, if a rank does not enter the call, makes no
///         progress until the deadline, or calls something else. Ranks with blocks of other sizes
///         call something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T>
void all_gather_v(Comm& comm, Source&& trees, T const* input, T* output,
                  std::vector<block> const& blocks) {
  detail::run_unequal_blocks<Chunks>(comm, std::forward<Source>(trees), collective::all_gather,
                                     input, output, blocks, detail::no_reducer{});
}

/// Reduces segments of any sizes, one for each rank. Each rank ends with its own segment.
///
/// trees:  as for `all_gather_v`
/// input:  this rank's contribution to all segments
/// blocks: by rank, the place of its segment in the input, without overlaps; the same on all ranks
///         as for `all_gather_v`
/// output: the result of this rank's segment; may be that segment of `input`, and must not overlap
///         it otherwise
/// Order:  as for `reduce_scatter`.
/// Throws: as `all_gather_v`.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T,
          class Reducer>
void reduce_scatter_v(Comm& comm, Source&& trees, T const* input, T* output,
                      std::vector<block> const& blocks, Reducer const& reduce) {
  detail::run_unequal_blocks<Chunks>(comm, std::forward<Source>(trees), collective::reduce_scatter,
                                     input, output, blocks, reduce);
}

/// Both collectives along the schedule that the communicator's tuning selects for the size of all
/// segments.
///
/// Throws: as above; input_error if the file that BLINK_TUNING names cannot be read or does not fit
///         this communicator.
template <communicator Comm, class T>
void all_gather_v(Comm& comm, T const* input, T* output, std::vector<block> const& blocks) {
  all_gather_v(comm, detail::tuned_source<Comm>{comm}, input, output, blocks);
}
template <communicator Comm, class T, detail::maybe_reducer Reducer = sum>
void reduce_scatter_v(Comm& comm, T const* input, T* output, std::vector<block> const& blocks,
                      Reducer const& reduce = {}) {
  reduce_scatter_v(comm, detail::tuned_source<Comm>{comm}, input, output, blocks, reduce);
}

}}  // namespace blink::BLINK_ABI
