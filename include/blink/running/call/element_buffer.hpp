// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>

#include <concepts>
#include <cstddef>
#include <string>  // std::contiguous_iterator, at less than the cost of <iterator>
#include <type_traits>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// Opens a container to collectives.
///
/// Specialise it for another container with `static T* data(C&)`, the first of its contiguous
/// elements, and `static std::size_t size(C const&)`, their number. Arrays, and containers with
/// `data()`, `size()` and contiguous iterators, work already. `blink/buffers/eigen.hpp` and
/// `blink/buffers/thrust.cuh` open further containers.
template <class C>
struct buffer_access {};

template <class C>
  requires requires(C& container) {
    requires std::is_pointer_v<decltype(container.data())>;
    { container.size() } -> std::convertible_to<std::size_t>;
    requires std::contiguous_iterator<decltype(container.begin())>;
  }
struct buffer_access<C> {
  [[nodiscard]] static auto data(C& container) { return container.data(); }
  [[nodiscard]] static std::size_t size(C const& container) { return container.size(); }
};

template <class T, std::size_t Count>
struct buffer_access<T[Count]> {
  [[nodiscard]] static T* data(T (&elements)[Count]) { return elements; }
  [[nodiscard]] static std::size_t size(T const (&)[Count]) { return Count; }
};

/// A container with contiguous elements, such as std::vector, std::span, std::array or an array.
template <class R>
concept element_buffer = requires(std::remove_reference_t<R>& container) {
  requires std::is_pointer_v<decltype(buffer_access<std::remove_reference_t<R>>::data(container))>;
  {
    buffer_access<std::remove_reference_t<R>>::size(container)
  } -> std::convertible_to<std::size_t>;
};
static_assert(element_buffer<int[3]> && !element_buffer<int*>);

namespace detail {

/// An argument that may be a reducer: neither a count nor a container.
template <class R>
concept maybe_reducer = !std::is_arithmetic_v<R> && !element_buffer<R>;

/// The elements of a buffer: their address and number.
template <class T>
struct elements {
  T* data = nullptr;
  std::size_t size = 0;
};

template <class Access>
concept device_buffer_access = requires { requires Access::is_on_device; };

template <element_buffer R>
[[nodiscard]] auto elements_of(R&& container) {
  using access = buffer_access<std::remove_reference_t<R>>;
  static_assert(!device_buffer_access<access>,
                "blink: these elements lie in a device's memory, expected a call of device ranks");
  using element = std::remove_pointer_t<decltype(access::data(container))>;
  return elements<element>{access::data(container), access::size(container)};
}

template <class R>
using element_of = std::remove_cvref_t<decltype(*elements_of(std::declval<R&>()).data)>;

/// Rejects containers that a call cannot take. Each mistake is a compile error with a separate
/// text.
template <class In, class Out>
constexpr void expect_elements_alike() {
  static_assert(std::same_as<element_of<In>, element_of<Out>>,
                "blink: input and output hold elements of different types, expected the same type");
  static_assert(
      !std::is_const_v<std::remove_pointer_t<decltype(elements_of(std::declval<Out&>()).data)>>,
      "blink: the output holds elements that cannot be written");
}

template <class = when_used>
[[noreturn]] BLINK_COLD void refuse_sizes(char const* call, std::size_t input, std::size_t output,
                                          std::size_t factor, bool input_is_larger) {
  text_piece const expected = input_is_larger ? "an input " : "an output ";
  if (factor == 1) {
    throw precondition_error(text_of({call, ": the input has ", input, " elements, the output ",
                                      output, ", expected equally many"}));
  }
  throw precondition_error(text_of({call, ": the input has ", input, " elements, the output ",
                                    output, ", expected ", expected, factor, " times as large"}));
}

/// Throws: precondition_error with both sizes unless `large == factor * small`.
inline void expect_sizes(char const* call, std::size_t input, std::size_t output,
                         std::size_t factor, bool input_is_larger) {
  std::size_t const small = input_is_larger ? output : input;
  std::size_t const large = input_is_larger ? input : output;
  if (large / factor == small && large % factor == 0) return;
  refuse_sizes(call, input, output, factor, input_is_larger);
}

/// Throws: precondition_error unless a buffer divides into one segment for each rank.
inline void expect_segments(char const* call, std::size_t size, std::size_t ranks) {
  if (size % ranks == 0) return;
  throw precondition_error(
      text_of({call, ": the buffers have ", size, " elements, expected a multiple of ", ranks,
               ", one segment for each rank"}));
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
