// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstdint>
#include <ctime>

namespace blink { inline namespace BLINK_ABI {

/// The clock of a kernel's blocks, in nanoseconds: one for all blocks of a device, and in no relation to
/// that of another one. Where hosts stand for devices it is that of the host.
///
/// Accuracy: a GPU renews it every microsecond or so, some every 32 ns; between two ticks it stands still.
struct block_clock {
  [[nodiscard]] BLINK_HOST_DEVICE static std::uint64_t now() {
#if BLINK_DEVICE_PASS
    std::uint64_t time = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
#else
    std::timespec time{};
    std::timespec_get(&time, TIME_UTC);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(time.tv_nsec);
#endif
  }
};

}}  // namespace blink::BLINK_ABI
