// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/unequal_blocks.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/schedule/block.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Elements that are not combined move as bytes, so that one kernel moves all types. `T` is the
/// caller's type, `Element` the type that moves.
template <chunking Chunks, class Element, class Ranks, class Source, class T, class Reducer>
void run_blocks_on_devices(Ranks& ranks, Source&& trees, collective kind,
                           std::vector<rank_buffers<T>> const& buffers,
                           std::vector<block> const& blocks, Reducer const& reduce,
                           typename Ranks::streams const& on) {
  static_assert(is_element<T>, "blink: elements of collectives must be trivially copyable");
  unequal_blocks const all(std::string(to_text(kind)), kind, blocks, ranks.rank_count(), sizeof(T),
                           sizeof(T) / sizeof(Element));
  auto const chosen = choose_on_bytes(ranks, trees, kind, all.bytes());
  ranks.template call_with_blocks<Chunks, Element>(*chosen.prepared, kind, plain(buffers), all,
                                                   chosen.chunk_bytes, reduce, on);
}

}  // namespace detail

/// Collects a segment of any size from each rank; every rank receives all segments.
///
/// buffers: by rank of this process, with the meaning that they have in the function of the same
///          name for communicators; `count` is that of the rank's segment
/// blocks:  by rank, the place of its segment in the outputs; they do not overlap and are the same
///          in all processes
/// Throws:  as `all_reduce`.
template <device_communicator Ranks, class T, device_schedule_source<Ranks> Source>
void all_gather_v(Ranks& ranks, Source&& trees, std::vector<rank_buffers<T>> const& buffers,
                  std::vector<block> const& blocks, typename Ranks::streams const& on = {}) {
  detail::run_blocks_on_devices<scheduled_chunks, unsigned char>(
      ranks, trees, collective::all_gather, buffers, blocks, detail::no_reducer{}, on);
}

/// Reduces segments of any sizes, one for each rank; each rank receives its own segment.
///
/// blocks: by rank, the place of its segment in the inputs
/// Throws: as `all_reduce`.
template <chunking Chunks = scheduled_chunks, device_communicator Ranks, class T, class Reducer,
          device_schedule_source<Ranks> Source>
void reduce_scatter_v(Ranks& ranks, Source&& trees, std::vector<rank_buffers<T>> const& buffers,
                      std::vector<block> const& blocks, Reducer const& reduce,
                      typename Ranks::streams const& on = {}) {
  static_assert(reducer_for<Reducer, T>, "blink: this reducer does not combine these elements");
  detail::run_blocks_on_devices<Chunks, T>(ranks, trees, collective::reduce_scatter, buffers,
                                           blocks, reduce, on);
}

}}  // namespace blink::BLINK_ABI
