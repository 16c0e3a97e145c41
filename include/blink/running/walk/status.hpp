// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// What a walk may report; the host turns anything but `ok` into an exception.
enum class status : std::uint32_t { ok, timed_out, aborted };

}}  // namespace blink::BLINK_ABI
