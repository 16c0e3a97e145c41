// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <compare>
#include <concepts>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Matches `std::chrono::duration` by its members. `<chrono>` is slow to compile, so blink leaves
/// including it to code that uses its durations.
template <class D>
concept chrono_duration = requires(D const span) {
  typename D::rep;
  { D::period::num } -> std::convertible_to<std::intmax_t>;
  { D::period::den } -> std::convertible_to<std::intmax_t>;
  { span.count() } -> std::convertible_to<typename D::rep>;
};

/// A span of time in whole nanoseconds: `options.waits.deadline = std::chrono::seconds(5)`, or `=
/// blink::nanoseconds(5'000'000'000)`. It converts to those durations of `<chrono>` that count
/// nanoseconds. It converts from those that become nanoseconds without loss.
class nanoseconds {
 public:
  constexpr nanoseconds() = default;
  constexpr explicit nanoseconds(std::int64_t count) : count_(count) {}

  template <chrono_duration D>
    requires(std::integral<typename D::rep> && D::period::num * 1'000'000'000 % D::period::den == 0)
  constexpr nanoseconds(D const& span)
      : count_(static_cast<std::int64_t>(span.count()) *
               (D::period::num * 1'000'000'000 / D::period::den)) {}

  template <chrono_duration D>
    requires(D::period::num == 1 && D::period::den == 1'000'000'000)
  constexpr operator D() const {
    return D(count_);
  }

  [[nodiscard]] constexpr std::int64_t count() const { return count_; }
  friend constexpr auto operator<=>(nanoseconds const&, nanoseconds const&) = default;

 private:
  std::int64_t count_ = 0;
};
static_assert(!chrono_duration<nanoseconds> && !chrono_duration<int>);

}}  // namespace blink::BLINK_ABI
