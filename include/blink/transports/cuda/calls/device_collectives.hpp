// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/exchange.hpp>
#include <blink/collectives/prepared_methods.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/detail/call_description.hpp>
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

/// A communicator whose ranks are devices, such as `device_world`.
template <class W>
concept device_communicator = requires(W& world, schedule const& plan, typename W::streams on) {
  { world.prepare(plan) } -> std::same_as<typename W::prepared_type&>;
  { world.rank_count() } -> std::same_as<int>;
  { world.ranks_here() } -> std::same_as<int>;
  { world.wait(on) } -> std::same_as<void>;
};

/// Method tables whose schedules a communicator has prepared: direct reads for small buffers, trees
/// that fill links for large ones.
template <device_communicator World>
using device_methods = basic_prepared_methods<typename World::prepared_type>;

/// What collectives of devices take as their plan: a schedule, one that the world has prepared, or
/// something that says which for a size, such as `device_methods`.
template <class S, class World>
concept device_schedule_source =
    std::same_as<std::remove_cvref_t<S>, schedule> ||
    std::same_as<S, typename World::prepared_type&> ||
    requires(std::remove_reference_t<S>& choice, collective kind, std::size_t bytes) {
      { choice.choose(kind, bytes) } -> std::same_as<chosen_from<typename World::prepared_type>>;
    };

namespace detail {

/// bytes: of the whole buffer
template <class World, class Plan>
[[nodiscard]] auto choose_on_bytes(World& world, Plan&& plan, collective kind, std::size_t bytes)
    -> chosen_from<typename World::prepared_type> {
  if constexpr (std::same_as<std::remove_cvref_t<Plan>, schedule>) {
    return {&world.prepare(plan), 0};
  } else if constexpr (std::same_as<std::remove_cvref_t<Plan>, typename World::prepared_type>) {
    return {&plan, 0};
  } else {
    return plan.choose(kind, bytes);
  }
}

/// count: elements of the whole buffer, or of one block where the collective has blocks
template <class World, class Plan>
[[nodiscard]] auto choose_on(World& world, Plan&& plan, collective kind, std::size_t count,
                             std::size_t element_bytes) {
  return choose_on_bytes(world, plan, kind,
                         buffer_bytes(kind, count, element_bytes, world.rank_count()));
}

template <class T>
[[nodiscard]] std::vector<plain_buffers> plain(std::vector<rank_buffers<T>> const& buffers) {
  std::vector<plain_buffers> result;
  for (auto const& own : buffers) result.push_back({own.input, own.output, own.count});
  return result;
}

/// Elements that are not combined are bytes, so that one kernel moves them all.
template <class World, class Plan, class T>
void move_on_devices(World& world, Plan&& plan, collective kind,
                     std::vector<rank_buffers<T>> const& buffers,
                     typename World::streams const& on) {
  static_assert(is_element<T>, "blink: elements of collectives are trivially copyable types");
  auto bytes = plain(buffers);
  for (auto& own : bytes) {
    if (own.count > std::numeric_limits<std::size_t>::max() / sizeof(T)) {
      throw precondition_error(std::string(to_text(kind)) + ": count " + std::to_string(own.count) +
                               " times " + std::to_string(sizeof(T)) +
                               " bytes is more than an address can name");
    }
    own.count *= sizeof(T);
  }
  auto const chosen = choose_on(world, plan, kind, bytes.empty() ? 0 : bytes[0].count, 1);
  world.template call<scheduled_chunks, unsigned char>(*chosen.plan, kind, bytes,
                                                       chosen.chunk_bytes, no_reducer{}, on);
}

template <chunking Chunks, class World, class Plan, class T, class Reducer>
void reduce_on_devices(World& world, Plan&& plan, collective kind,
                       std::vector<rank_buffers<T>> const& buffers, Reducer const& reduce,
                       typename World::streams const& on) {
  static_assert(is_element<T>, "blink: elements of collectives are trivially copyable types");
  static_assert(reducer_for<Reducer, T>, "blink: this reducer does not combine these elements");
  std::size_t const count = buffers.empty() ? 0 : buffers[0].count;
  auto const chosen = choose_on(world, plan, kind, count, sizeof(T));
  world.template call<Chunks, T>(*chosen.plan, kind, plain(buffers), chosen.chunk_bytes, reduce,
                                 on);
}

}  // namespace detail

/// Reduces the elements of all ranks; every rank ends with the result. The call is put into the
/// streams, one for each device of the world, or into the default ones.
///
/// buffers: by rank of this process, as of the function of the same name for ranks of a session
/// Throws:  precondition_error for what is wrong with plan or buffers, before anything is launched;
///          collective_error if a call before has failed; device_error.
template <chunking Chunks = scheduled_chunks, device_communicator World, class T, class Reducer,
          device_schedule_source<World> Plan>
void all_reduce(World& world, Plan&& plan, std::vector<rank_buffers<T>> const& buffers,
                Reducer const& reduce, typename World::streams const& on = {}) {
  detail::reduce_on_devices<Chunks>(world, plan, collective::all_reduce, buffers, reduce, on);
}

/// Reduces the elements of all ranks; the root of the trees ends with the result.
template <chunking Chunks = scheduled_chunks, device_communicator World, class T, class Reducer,
          device_schedule_source<World> Plan>
void reduce(World& world, Plan&& plan, std::vector<rank_buffers<T>> const& buffers,
            Reducer const& reducer, typename World::streams const& on = {}) {
  detail::reduce_on_devices<Chunks>(world, plan, collective::reduce, buffers, reducer, on);
}

/// Reduces blocks of `count` elements, one for each rank; each rank ends with its own.
template <chunking Chunks = scheduled_chunks, device_communicator World, class T, class Reducer,
          device_schedule_source<World> Plan>
void reduce_scatter(World& world, Plan&& plan, std::vector<rank_buffers<T>> const& buffers,
                    Reducer const& reduce, typename World::streams const& on = {}) {
  detail::reduce_on_devices<Chunks>(world, plan, collective::reduce_scatter, buffers, reduce, on);
}

/// Copies the elements of the root of the trees to every rank.
template <device_communicator World, class T, device_schedule_source<World> Plan>
void broadcast(World& world, Plan&& plan, std::vector<rank_buffers<T>> const& buffers,
               typename World::streams const& on = {}) {
  detail::move_on_devices(world, plan, collective::broadcast, buffers, on);
}

/// Collects a block of each rank; every rank ends with all of them.
template <device_communicator World, class T, device_schedule_source<World> Plan>
void all_gather(World& world, Plan&& plan, std::vector<rank_buffers<T>> const& buffers,
                typename World::streams const& on = {}) {
  detail::move_on_devices(world, plan, collective::all_gather, buffers, on);
}

/// Collects a block of each rank at the end of the schedule's flows.
template <device_communicator World, class T, device_schedule_source<World> Plan>
void gather(World& world, Plan&& plan, std::vector<rank_buffers<T>> const& buffers,
            typename World::streams const& on = {}) {
  detail::move_on_devices(world, plan, collective::gather, buffers, on);
}

/// Hands each rank its block of the root's.
template <device_communicator World, class T, device_schedule_source<World> Plan>
void scatter(World& world, Plan&& plan, std::vector<rank_buffers<T>> const& buffers,
             typename World::streams const& on = {}) {
  detail::move_on_devices(world, plan, collective::scatter, buffers, on);
}

/// Hands each rank a block of each other: a transposition of blocks.
template <device_communicator World, class T, device_schedule_source<World> Plan>
void all_to_all(World& world, Plan&& plan, std::vector<rank_buffers<T>> const& buffers,
                typename World::streams const& on = {}) {
  detail::move_on_devices(world, plan, collective::all_to_all, buffers, on);
}

/// Each rank's buffer to one other rank, as the schedule says.
template <device_communicator World, class T, device_schedule_source<World> Plan>
void permute(World& world, Plan&& plan, std::vector<rank_buffers<T>> const& buffers,
             typename World::streams const& on = {}) {
  detail::move_on_devices(world, plan, collective::permute, buffers, on);
}

/// Each rank's buffer to the next; the last sends nothing.
template <device_communicator World, class T, device_schedule_source<World> Plan>
void send_to_next(World& world, Plan&& plan, std::vector<rank_buffers<T>> const& buffers,
                  typename World::streams const& on = {}) {
  detail::move_on_devices(world, plan, collective::send_to_next, buffers, on);
}

/// What is in any of the streams behind it runs after what is in all of them before it.
template <device_communicator World, device_schedule_source<World> Plan>
void barrier(World& world, Plan&& plan, typename World::streams const& on = {}) {
  std::vector<rank_buffers<unsigned char>> const none(static_cast<std::size_t>(world.ranks_here()));
  detail::move_on_devices(world, plan, collective::barrier, none, on);
}

}}  // namespace blink::BLINK_ABI
