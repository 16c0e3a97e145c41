// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstdint>
#include <ctime>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Nanoseconds of a clock that does not jump and is the same for all processes of a machine.
[[nodiscard]] inline std::uint64_t host_nanoseconds(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// The same at the system's last tick, some milliseconds ago, without reading the hardware.
[[nodiscard]] inline std::uint64_t coarse_nanoseconds() {
#if defined(CLOCK_MONOTONIC_COARSE)
  return host_nanoseconds(CLOCK_MONOTONIC_COARSE);
#else
  return host_nanoseconds();
#endif
}

/// Adds the nanoseconds of its lifetime to a sum, if there is one.
class time_span {
 public:
  explicit time_span(std::uint64_t* sum)
      : sum_(sum), begin_(sum == nullptr ? 0 : host_nanoseconds()) {}
  time_span(time_span const&) = delete;
  time_span& operator=(time_span const&) = delete;
  ~time_span() {
    if (sum_ != nullptr) *sum_ += host_nanoseconds() - begin_;
  }

 private:
  std::uint64_t* sum_;
  std::uint64_t begin_;
};

}}}  // namespace blink::BLINK_ABI::detail
