// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <new>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// `N` consecutive elements that one thread holds. They come to life when they are loaded or `set`.
template <class E, std::size_t N>
union tile {
  static constexpr std::size_t bytes = N * sizeof(E);
  E values[N];
  BLINK_HOST_DEVICE tile() {}  // NOLINT: nothing is alive yet
};

/// result = a new `E`, also where elements can be constructed only.
template <class E, class Value>
BLINK_HOST_DEVICE void set(E& result, Value const& value) {
  ::new (static_cast<void*>(&result)) E(static_cast<E>(value));
}

}}}  // namespace blink::BLINK_ABI::detail
