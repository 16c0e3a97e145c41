// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstdint>

#if defined(__CUDACC__)
#include <cuda/atomic>
#else
#include <atomic>
#endif

namespace blink { inline namespace BLINK_ABI {

/// The result of a walk. The host turns anything but `ok` into an exception.
enum class status : std::uint32_t { ok, timed_out, aborted };

/// A 64-bit word that only grows and has one writer. A plain store publishes it, because links such
/// as PCIe carry no read-modify-write. Ranks signal each other only with counters. There are no
/// separate fences, because ThreadSanitizer does not understand them.
using counter = std::uint64_t;

namespace detail {

#if defined(__CUDACC__)
using counter_reference = cuda::atomic_ref<counter, cuda::thread_scope_system>;
inline constexpr auto relaxed_order = cuda::std::memory_order_relaxed;
inline constexpr auto acquire_order = cuda::std::memory_order_acquire;
inline constexpr auto release_order = cuda::std::memory_order_release;
#else
using counter_reference = std::atomic_ref<counter>;
inline constexpr auto relaxed_order = std::memory_order_relaxed;
inline constexpr auto acquire_order = std::memory_order_acquire;
inline constexpr auto release_order = std::memory_order_release;
#endif

}  // namespace detail

/// Returns the value. Afterwards everything is visible that its writer wrote before it published
/// this value.
[[nodiscard]] BLINK_HOST_DEVICE inline counter observe(counter const& word) {
  return detail::counter_reference(const_cast<counter&>(word)).load(detail::acquire_order);
}

/// Publishes `value`, and everything that this thread wrote or observed before.
BLINK_HOST_DEVICE inline void publish(counter& word, counter value) {
  detail::counter_reference(word).store(value, detail::release_order);
}

/// True if the word has reached `value`. Only then as `observe`.
///
/// A device throws away its first cache at each acquire, also under the work of other blocks. So a
/// block that waits there reads without order until the value has come.
[[nodiscard]] BLINK_HOST_DEVICE inline bool has_reached(counter const& word, counter value) {
#if BLINK_DEVICE_PASS
  if (detail::counter_reference(const_cast<counter&>(word)).load(detail::relaxed_order) < value)
    return false;
#endif
  return observe(word) >= value;
}

/// Begins several publications in a row: everything that this thread wrote or observed before
/// belongs to each `publish_next`. On a device that is one fence, which takes as long as a
/// `publish`; hosts need none.
BLINK_HOST_DEVICE inline void begin_publishing() {
#if BLINK_DEVICE_PASS
  cuda::atomic_thread_fence(cuda::std::memory_order_release, cuda::thread_scope_system);
#endif
}
/// Publishes `value` with what was before `begin_publishing`.
BLINK_HOST_DEVICE inline void publish_next(counter& word, counter value) {
#if BLINK_DEVICE_PASS
  detail::counter_reference(word).store(value, detail::relaxed_order);
#else
  publish(word, value);
#endif
}

}}  // namespace blink::BLINK_ABI
