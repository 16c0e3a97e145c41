// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/memory_source.hpp>

#include <bit>
#include <cstddef>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Memory that grows when asked and stays: a rank's own, for calls that need a place beside the
/// caller's buffers.
class scratch {
 public:
  explicit scratch(memory_source const& source = {}) : source_(source) {}

  /// At least this much, aligned for every element; what it held before is lost if it grows.
  std::byte* at_least(std::size_t bytes) {
    if (bytes > block_.size()) {
      block_ = {};                               // before there is another one
      block_ = {source_, std::bit_ceil(bytes)};  // so that what one releases fits others
    }
    return block_.data();
  }
  [[nodiscard]] std::byte* data() const { return block_.data(); }

 private:
  memory_source source_;
  memory_block block_;
};

}}}  // namespace blink::BLINK_ABI::detail
