// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/detail/host_clock.hpp>
#include <blink/running/walk/status.hpp>
#include <blink/running/walk/tree_walk.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// For calls that go on now and then: gives up at once where it would have to wait.
struct no_patience {
  [[nodiscard]] status after_progress() const { return status::ok; }
  [[nodiscard]] status after_none() const { return status::timed_out; }
  [[nodiscard]] std::uint64_t now() const { return host_nanoseconds(); }
};
static_assert(patience<no_patience>);

}}}  // namespace blink::BLINK_ABI::detail
