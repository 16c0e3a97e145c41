// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/detail/rows.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>

#include <cstddef>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// A reducer of `T` by a function over arrays: `over_arrays`.
template <class T, class Function>
struct array_reducer {
  static_assert(std::is_trivially_copyable_v<T>, "blink: elements are trivially copyable types");
  Function function;

  void combine(T const* a, T const* b, T* result, std::size_t count) const {
    function(a, b, result, count);
  }
  T operator()(T const& a, T const& b) const {
    T result = b;
    function(&a, &b, &result, std::size_t{1});
    return result;
  }
};

/// A reducer of `T` by a function over arrays that replaces its second operand: `into_second`.
template <class T, class Function>
struct second_replacing_reducer {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= most_item_bytes && alignof(T) <= 64,
                "blink: elements are trivially copyable types of at most 16 KiB");
  Function function;

  void combine(T const* a, T const* b, T* result, std::size_t count) const {
    combine_into_second(a, b, result, count, sizeof(T),
                        [this](void const* in, void* inout, std::size_t n) {
                          function(static_cast<T const*>(in), static_cast<T*>(inout), n);
                        });
  }
  T operator()(T const& a, T const& b) const {
    T result = b;
    function(&a, &result, std::size_t{1});
    return result;
  }
};

}  // namespace detail

/// Makes a reducer from `function(a, b, result, count)`, which sets result[i] to a[i] combined with
/// b[i]. The result may be `a` or `b`.
///
/// The reducer is commutative; else write `in_order_of_ranks(over_arrays<T>(function))`.
template <class T, class Function>
  requires std::is_invocable_v<Function const&, T const*, T const*, T*, std::size_t>
[[nodiscard]] detail::array_reducer<T, Function> over_arrays(Function const& function) {
  return {function};
}

/// Makes a reducer from `function(in, inout, count)`, which sets inout[i] to in[i] combined with
/// inout[i]. That is the form of operations of MPI, where `in` comes from the lower ranks.
///
/// Time: as `function`, and a copy where the result is not in the second operand's place.
template <class T, class Function>
  requires std::is_invocable_v<Function const&, T const*, T*, std::size_t>
[[nodiscard]] detail::second_replacing_reducer<T, Function> into_second(Function const& function) {
  return {function};
}

static_assert(
    combines_arrays<
        detail::array_reducer<float, void (*)(float const*, float const*, float*, std::size_t)>,
        float>);
static_assert(!reducer_for<
              detail::second_replacing_reducer<float, void (*)(float const*, float*, std::size_t)>,
              float*>);

}}  // namespace blink::BLINK_ABI
