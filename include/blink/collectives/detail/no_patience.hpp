// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/host_clock.hpp>
#include <blink/collectives/status.hpp>
#include <blink/collectives/tree_walk.hpp>
#include <blink/config.hpp>

#include <cstdint>

namespace blink::inline BLINK_ABI::detail {

/// For calls that go on now and then: gives up at once where it would have to wait.
struct no_patience {
  [[nodiscard]] status after_progress() const { return status::ok; }
  [[nodiscard]] status after_none() const { return status::timed_out; }
  [[nodiscard]] std::uint64_t now() const { return host_nanoseconds(); }
};
static_assert(patience<no_patience>);

}  // namespace blink::inline BLINK_ABI::detail
