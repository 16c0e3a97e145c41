// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/detail/move_chunk.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// The combination of one chunk of one task, from slots of its device into memory of the same
/// device. If copy engines carry the data, this is the only work of kernels. Streams guarantee that
/// all sources have arrived and that the destination is free.
struct copy_step {
  static constexpr std::uint32_t most_sources = 48;  // below the 4 KiB that arguments may take

  tree_task here{};             ///< `done` is the chunk; `in` and `out` are null
  endpoint in[most_sources]{};  ///< `at`: where the chunk is
  endpoint out{};               ///< `at`: the destination of the chunk that it will carry
  void const* input = nullptr;
  void* output = nullptr;
  int rank = 0;
  int rank_count = 0;
};
static_assert(std::is_trivially_copyable_v<copy_step> && sizeof(copy_step) <= 3840);

/// The transport of a step: connections are numbered by position, and all data has arrived.
struct arrived_link {
  copy_step const* step = nullptr;

  [[nodiscard]] BLINK_HOST_DEVICE int rank() const { return step->rank; }
  [[nodiscard]] BLINK_HOST_DEVICE int rank_count() const { return step->rank_count; }
  [[nodiscard]] BLINK_HOST_DEVICE std::size_t slot_bytes() const { return 0; }
  [[nodiscard]] BLINK_HOST_DEVICE bool is_present(int) const { return true; }
  [[nodiscard]] BLINK_HOST_DEVICE bool is_aborted() const { return false; }
  [[nodiscard]] BLINK_HOST_DEVICE bool has_credit(std::uint32_t, std::uint64_t) const {
    return true;
  }
  [[nodiscard]] BLINK_HOST_DEVICE std::byte* outbox(std::uint32_t, std::uint64_t) const {
    return static_cast<std::byte*>(step->out.at);
  }
  BLINK_HOST_DEVICE void post(std::uint32_t, std::uint64_t, std::size_t) const {}
  [[nodiscard]] BLINK_HOST_DEVICE bool has_arrived(std::uint32_t, std::uint64_t) const {
    return true;
  }
  [[nodiscard]] BLINK_HOST_DEVICE std::byte const* inbox(std::uint32_t connection,
                                                         std::uint64_t) const {
    return static_cast<std::byte const*>(step->in[connection].at);
  }
  BLINK_HOST_DEVICE void consume(std::uint32_t, std::uint64_t) const {}
  [[nodiscard]] BLINK_HOST_DEVICE bool consumed(std::uint32_t, std::uint64_t) const { return true; }
};
static_assert(transport<arrived_link>);

/// Runs the step with all threads of `group` together.
template <class T, thread_group Group, reducer_for<T> Reducer>
BLINK_HOST_DEVICE void run_step(Group const group, copy_step const& step, Reducer const& reduce) {
  tree_task here = step.here;
  here.in = const_cast<endpoint*>(step.in);  // only read
  here.out = const_cast<endpoint*>(&step.out);
  call_buffers<T> const buffers{static_cast<T const*>(step.input), static_cast<T*>(step.output)};
  detail::move_chunk(group, arrived_link{&step}, here, buffers, reduce);
}

}}  // namespace blink::BLINK_ABI
