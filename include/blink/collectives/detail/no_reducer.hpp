// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

namespace blink::inline BLINK_ABI::detail {

/// Stands where a collective does not reduce.
struct no_reducer {
  template <class T>
  BLINK_HOST_DEVICE T const& operator()(T const& a, T const&) const {
    return a;
  }
};

}  // namespace blink::inline BLINK_ABI::detail
