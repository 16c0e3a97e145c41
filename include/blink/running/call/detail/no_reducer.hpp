// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Stands where a collective does not reduce.
struct no_reducer {
  template <class T>
  BLINK_HOST_DEVICE T const& operator()(T const& a, T const&) const {
    return a;
  }
};

}}}  // namespace blink::BLINK_ABI::detail
