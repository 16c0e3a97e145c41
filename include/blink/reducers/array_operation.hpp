// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/detail/rows.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// A reduction that is chosen at run time: functions over arrays, and the size of elements.
///
/// The reducing collectives take it as a reducer, for buffers of `void` or of any type of that
/// size. A call with it is compiled once for all operations. `operation_of` has those of the usual
/// types, and `over_arrays` and `into_second` make one from a function of the program.
///
/// It is commutative; else pass `in_order_of_ranks(operation)`. `with_order` gives it another
/// promise.
struct array_operation {
  std::size_t element_bytes = 1;  ///< at most 16 KiB
  /// Size of the accumulator: once, twice or four times `element_bytes`, up to 8 bytes. Elements
  /// with a larger one have a `lift` and a `finish`.
  std::size_t total_bytes = 1;
  std::size_t alignment = 1;  ///< of buffers, in bytes
  /// Equal on all ranks, else a call is refused: the type and the operation, 0 for a function of
  /// the program.
  std::uint64_t id = 0;

  /// Sets result[i] to a[i] combined with b[i]. The result may be `a` or `b`.
  void (*combine)(void const* a, void const* b, void* result, std::size_t count,
                  array_operation const& how) = nullptr;
  /// Converts elements to accumulators; null: they are the same.
  void (*lift)(void const* values, void* totals, std::size_t count) = nullptr;
  /// The last step at the root; null: there is none.
  void (*finish)(void const* totals, void* results, std::size_t count, int rank_count) = nullptr;
  void const* context = nullptr;  ///< of the program's function
};

/// An `array_operation`, maybe with another order.
template <class R>
concept chosen_at_run_time = std::derived_from<R, array_operation>;

namespace detail {

template <std::size_t Bytes>
struct total_of_byte {
  std::byte bytes[Bytes];
};

/// The reducer of bytes that an operation stands for. Its items are the operation's elements.
///
/// Growth: bytes of an accumulator for each byte of an element
template <class Operation, std::size_t Growth>
struct run_time_reducer {
  static constexpr bool is_commutative = blink::is_commutative<Operation>;
  static constexpr order_promise order = order_of<Operation>;
  static constexpr std::size_t most_unit = Growth == 1 ? most_item_bytes : 8 / Growth;
  using total = std::conditional_t<Growth == 1, std::byte, total_of_byte<Growth>>;

  [[nodiscard]] std::size_t unit() const { return how.element_bytes; }
  [[nodiscard]] std::uint64_t common_state() const { return how.id; }
  [[nodiscard]] bool needs_finish() const { return how.finish != nullptr; }

  void lift(std::byte const* values, total* totals, std::size_t count) const
    requires(Growth > 1)
  {
    how.lift(values, totals, count / how.element_bytes);
  }
  void combine(total const* a, total const* b, total* result, std::size_t count) const {
    how.combine(a, b, result, count / how.element_bytes, how);
  }
  void finish(total const* totals, std::byte* results, std::size_t count, int rank_count) const {
    how.finish(totals, results, count / how.element_bytes, rank_count);
  }

  // Only for their types, because single bytes are no items.
  total lift(std::byte value) const
    requires(Growth > 1);
  total operator()(total const& a, total const& b) const;
  std::byte finish(total const& value, int rank_count) const;

  Operation how;
};

}  // namespace detail

/// Makes an operation from `function(a, b, result, count)`, as `over_arrays<T>` does, for elements
/// of `element_bytes` bytes. The addresses are of `void`.
///
/// The function is not copied: it outlives the operation and its calls.
template <class Function>
  requires std::is_invocable_v<Function const&, void const*, void const*, void*, std::size_t>
[[nodiscard]] array_operation over_arrays(std::size_t element_bytes, Function const& function) {
  return {.element_bytes = element_bytes,
          .total_bytes = element_bytes,
          .combine =
              [](void const* a, void const* b, void* result, std::size_t count,
                 array_operation const& how) {
                (*static_cast<Function const*>(how.context))(a, b, result, count);
              },
          .context = &function};
}
template <class Function>
array_operation over_arrays(std::size_t element_bytes, Function const&& function) = delete;

/// Makes an operation from `function(in, inout, count)`, as `into_second<T>` does, for elements of
/// `element_bytes` bytes. The addresses are of `void`.
///
/// The function is not copied: it outlives the operation and its calls.
template <class Function>
  requires std::is_invocable_v<Function const&, void const*, void*, std::size_t>
[[nodiscard]] array_operation into_second(std::size_t element_bytes, Function const& function) {
  return {.element_bytes = element_bytes,
          .total_bytes = element_bytes,
          .combine =
              [](void const* a, void const* b, void* result, std::size_t count,
                 array_operation const& how) {
                detail::combine_into_second(a, b, result, count, how.element_bytes,
                                            *static_cast<Function const*>(how.context));
              },
          .context = &function};
}
template <class Function>
array_operation into_second(std::size_t element_bytes, Function const&& function) = delete;

static_assert(combines_arrays<detail::run_time_reducer<array_operation, 1>, std::byte>);
static_assert(combines_arrays<detail::run_time_reducer<array_operation, 4>, std::byte>);
static_assert(combines_elements<detail::run_time_reducer<array_operation, 1>, std::byte>);
static_assert(sizeof(sent_t<detail::run_time_reducer<array_operation, 2>, std::byte>) == 2);

}}  // namespace blink::BLINK_ABI
