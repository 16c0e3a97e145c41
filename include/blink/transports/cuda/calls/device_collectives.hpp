// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/exchange.hpp>
#include <blink/collectives/prepared_tuning.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A communicator whose ranks are devices, such as `device_ranks`.
template <class W>
concept device_communicator = requires(W& ranks, schedule const& source, typename W::streams on) {
  { ranks.prepare(source) } -> std::same_as<typename W::prepared_type&>;
  { ranks.rank_count() } -> std::same_as<int>;
  { ranks.ranks_here() } -> std::same_as<int>;
  { ranks.wait(on) } -> std::same_as<void>;
};

/// A tuning table whose schedules a communicator has prepared: direct reads for small buffers,
/// trees that saturate links for large ones.
template <device_communicator Ranks>
using device_tuning = basic_prepared_tuning<typename Ranks::prepared_type>;

/// The source of the schedule of a collective of devices: a schedule, a prepared schedule of the
/// communicator, or a chooser by size such as `device_tuning`.
template <class S, class Ranks>
concept device_schedule_source =
    std::same_as<std::remove_cvref_t<S>, schedule> ||
    std::same_as<S, typename Ranks::prepared_type&> ||
    requires(std::remove_reference_t<S>& choice, collective kind, std::size_t bytes) {
      { choice.choose(kind, bytes) } -> std::same_as<chosen_from<typename Ranks::prepared_type>>;
    };

namespace detail {

/// bytes: of the whole buffer
template <class Ranks, class Source>
[[nodiscard]] auto choose_on_bytes(Ranks& ranks, Source&& trees, collective kind, std::size_t bytes)
    -> chosen_from<typename Ranks::prepared_type> {
  if constexpr (std::same_as<std::remove_cvref_t<Source>, schedule>) {
    return {&ranks.prepare(trees), 0};
  } else if constexpr (std::same_as<std::remove_cvref_t<Source>, typename Ranks::prepared_type>) {
    return {&trees, 0};
  } else {
    return trees.choose(kind, bytes);
  }
}

/// count: elements of the whole buffer, or of one segment if the collective has segments
template <class Ranks, class Source>
[[nodiscard]] auto choose_on(Ranks& ranks, Source&& trees, collective kind, std::size_t count,
                             std::size_t element_bytes) {
  return choose_on_bytes(ranks, trees, kind,
                         buffer_bytes(kind, count, element_bytes, ranks.rank_count()));
}

template <class T>
[[nodiscard]] std::vector<plain_buffers> plain(std::vector<rank_buffers<T>> const& buffers) {
  std::vector<plain_buffers> result;
  for (auto const& own : buffers) result.push_back({own.input, own.output, own.count});
  return result;
}

/// Elements that are not combined move as bytes, so that one kernel moves all types.
template <class Ranks, class Source, class T>
void move_on_devices(Ranks& ranks, Source&& trees, collective kind,
                     std::vector<rank_buffers<T>> const& buffers,
                     typename Ranks::streams const& on) {
  static_assert(is_element<T>, "blink: elements of collectives must be trivially copyable");
  auto bytes = plain(buffers);
  for (auto& own : bytes) {
    if (own.count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw precondition_error(std::string(to_text(kind)) + ": count " + std::to_string(own.count) +
                               " times " + std::to_string(sizeof(T)) +
                               " bytes exceeds the address space");
    }
    own.count *= sizeof(T);
  }
  auto const chosen = choose_on(ranks, trees, kind, bytes.empty() ? 0 : bytes[0].count, 1);
  ranks.template call<scheduled_chunks, unsigned char>(*chosen.prepared, kind, bytes,
                                                       chosen.chunk_bytes, no_reducer{}, on);
}

template <chunking Chunks, class Ranks, class Source, class T, class Reducer>
void reduce_on_devices(Ranks& ranks, Source&& trees, collective kind,
                       std::vector<rank_buffers<T>> const& buffers, Reducer const& reduce,
                       typename Ranks::streams const& on) {
  static_assert(is_element<T>, "blink: elements of collectives must be trivially copyable");
  static_assert(reducer_for<Reducer, T>, "blink: this reducer does not combine these elements");
  std::size_t const count = buffers.empty() ? 0 : buffers[0].count;
  auto const chosen = choose_on(ranks, trees, kind, count, sizeof(T));
  ranks.template call<Chunks, T>(*chosen.prepared, kind, plain(buffers), chosen.chunk_bytes, reduce,
                                 on);
}

}  // namespace detail

/// Reduces the elements of all ranks; every rank receives the result. The call is put into the
/// streams, one for each device of the communicator, or into the default ones.
///
/// buffers: by rank of this process, with the meaning that they have in the function of the same
///          name for communicators
/// Throws:  precondition_error for an invalid schedule or invalid buffers, before anything is
///          launched; collective_error if an earlier call has failed; device_error.
template <chunking Chunks = scheduled_chunks, device_communicator Ranks, class T, class Reducer,
          device_schedule_source<Ranks> Source>
void all_reduce(Ranks& ranks, Source&& trees, std::vector<rank_buffers<T>> const& buffers,
                Reducer const& reduce, typename Ranks::streams const& on = {}) {
  detail::reduce_on_devices<Chunks>(ranks, trees, collective::all_reduce, buffers, reduce, on);
}

/// Reduces the elements of all ranks; the root of the trees receives the result.
///
/// Buffers, streams and errors are those of `all_reduce`.
template <chunking Chunks = scheduled_chunks, device_communicator Ranks, class T, class Reducer,
          device_schedule_source<Ranks> Source>
void reduce(Ranks& ranks, Source&& trees, std::vector<rank_buffers<T>> const& buffers,
            Reducer const& reducer, typename Ranks::streams const& on = {}) {
  detail::reduce_on_devices<Chunks>(ranks, trees, collective::reduce, buffers, reducer, on);
}

/// Reduces segments of `count` elements, one for each rank; each rank receives its own segment.
///
/// Buffers, streams and errors are those of `all_reduce`.
template <chunking Chunks = scheduled_chunks, device_communicator Ranks, class T, class Reducer,
          device_schedule_source<Ranks> Source>
void reduce_scatter(Ranks& ranks, Source&& trees, std::vector<rank_buffers<T>> const& buffers,
                    Reducer const& reduce, typename Ranks::streams const& on = {}) {
  detail::reduce_on_devices<Chunks>(ranks, trees, collective::reduce_scatter, buffers, reduce, on);
}

/// Copies the elements of the root of the trees to every rank.
///
/// Buffers, streams and errors are those of `all_reduce`.
template <device_communicator Ranks, class T, device_schedule_source<Ranks> Source>
void broadcast(Ranks& ranks, Source&& trees, std::vector<rank_buffers<T>> const& buffers,
               typename Ranks::streams const& on = {}) {
  detail::move_on_devices(ranks, trees, collective::broadcast, buffers, on);
}

/// Collects a segment from each rank; every rank receives all segments.
///
/// Buffers, streams and errors are those of `all_reduce`.
template <device_communicator Ranks, class T, device_schedule_source<Ranks> Source>
void all_gather(Ranks& ranks, Source&& trees, std::vector<rank_buffers<T>> const& buffers,
                typename Ranks::streams const& on = {}) {
  detail::move_on_devices(ranks, trees, collective::all_gather, buffers, on);
}

/// Collects a segment from each rank at the root, the rank where the schedule's trees end.
///
/// Buffers, streams and errors are those of `all_reduce`.
template <device_communicator Ranks, class T, device_schedule_source<Ranks> Source>
void gather(Ranks& ranks, Source&& trees, std::vector<rank_buffers<T>> const& buffers,
            typename Ranks::streams const& on = {}) {
  detail::move_on_devices(ranks, trees, collective::gather, buffers, on);
}

/// Sends each rank its segment of the root's buffer.
///
/// Buffers, streams and errors are those of `all_reduce`.
template <device_communicator Ranks, class T, device_schedule_source<Ranks> Source>
void scatter(Ranks& ranks, Source&& trees, std::vector<rank_buffers<T>> const& buffers,
             typename Ranks::streams const& on = {}) {
  detail::move_on_devices(ranks, trees, collective::scatter, buffers, on);
}

/// Sends a segment from each rank to each rank: a transposition of segments.
///
/// Buffers, streams and errors are those of `all_reduce`.
template <device_communicator Ranks, class T, device_schedule_source<Ranks> Source>
void all_to_all(Ranks& ranks, Source&& trees, std::vector<rank_buffers<T>> const& buffers,
                typename Ranks::streams const& on = {}) {
  detail::move_on_devices(ranks, trees, collective::all_to_all, buffers, on);
}

/// Sends each rank's buffer to the rank to which the schedule's tree of this rank leads.
///
/// Buffers, streams and errors are those of `all_reduce`.
template <device_communicator Ranks, class T, device_schedule_source<Ranks> Source>
void permute(Ranks& ranks, Source&& trees, std::vector<rank_buffers<T>> const& buffers,
             typename Ranks::streams const& on = {}) {
  detail::move_on_devices(ranks, trees, collective::permute, buffers, on);
}

/// Sends each rank's buffer to the next rank; the last rank sends nothing.
///
/// Buffers, streams and errors are those of `all_reduce`.
template <device_communicator Ranks, class T, device_schedule_source<Ranks> Source>
void send_to_next(Ranks& ranks, Source&& trees, std::vector<rank_buffers<T>> const& buffers,
                  typename Ranks::streams const& on = {}) {
  detail::move_on_devices(ranks, trees, collective::send_to_next, buffers, on);
}

/// Orders the work of all streams: later work in any of them runs after the earlier work in all of
/// them.
///
/// Throws: as `all_reduce`.
template <device_communicator Ranks, device_schedule_source<Ranks> Source>
void barrier(Ranks& ranks, Source&& trees, typename Ranks::streams const& on = {}) {
  std::vector<rank_buffers<unsigned char>> const none(static_cast<std::size_t>(ranks.ranks_here()));
  detail::move_on_devices(ranks, trees, collective::barrier, none, on);
}

}}  // namespace blink::BLINK_ABI
