// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/element_buffer.hpp>

#include <thrust/device_vector.h>

#include <cstddef>

namespace blink { inline namespace BLINK_ABI {

/// Opens thrust's vectors of device memory. A call of ranks on hosts with one does not compile.
template <class T, class Allocator>
struct buffer_access<thrust::device_vector<T, Allocator>> {
  static constexpr bool is_on_device = true;
  [[nodiscard]] static T* data(thrust::device_vector<T, Allocator>& elements) {
    return thrust::raw_pointer_cast(elements.data());
  }
  [[nodiscard]] static std::size_t size(thrust::device_vector<T, Allocator> const& elements) {
    return elements.size();
  }
};
template <class T, class Allocator>
struct buffer_access<thrust::device_vector<T, Allocator> const> {
  static constexpr bool is_on_device = true;
  [[nodiscard]] static T const* data(thrust::device_vector<T, Allocator> const& elements) {
    return thrust::raw_pointer_cast(elements.data());
  }
  [[nodiscard]] static std::size_t size(thrust::device_vector<T, Allocator> const& elements) {
    return elements.size();
  }
};
static_assert(element_buffer<thrust::device_vector<float>&>);

}}  // namespace blink::BLINK_ABI
