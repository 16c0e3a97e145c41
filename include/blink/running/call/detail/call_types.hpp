// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/reducers/epilogue.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/tree_parts.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/operand_order.hpp>
#include <blink/schedule/schedule_blocks.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <typeinfo>

// The types and sizes of a call on hosts and devices, and the values on which ranks must agree.
// Checks whether a call can run along a schedule.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Returns the names of its template arguments, for comparing calls and for messages.
template <class... Types>
[[nodiscard]] constexpr std::string_view names_of() {
  std::string_view const text = __PRETTY_FUNCTION__;
  auto const first = text.find("Types");
  auto const last = text.find_first_of(";]", first);  // gcc continues with "; std::string_view = …"
  return text.substr(first, last == std::string_view::npos ? last : last - first);
}

/// Returns a hash that is equal for equal types in all processes that the same compiler built.
///
/// With RTTI it also covers the names of typeid, because `names_of` under g++ gives equal names to
/// all lambdas of a function with equal signatures.
template <class... Types>
[[nodiscard]] std::uint64_t hash_of_types() {
  static std::uint64_t const result = [] {
    hash all;
    for (std::string_view const name : {
             names_of<Types...>(),
#if defined(__cpp_rtti)
             std::string_view(typeid(Types).name())...,
#endif
         }) {
      all.add(name);
    }
    return all.value();
  }();
  return result;
}

/// Types of elements that cross links: their bytes can be copied.
template <class T>
inline constexpr bool is_element = std::is_trivially_copyable_v<T> && !std::is_const_v<T>;

/// Returns the use of the buffers by a rank with these tasks.
[[nodiscard]] inline buffer_use use_of(task_list const& tasks) {
  buffer_use result;
  for (std::size_t k = 0; k < tasks.count; ++k) {
    result.reads = result.reads || tasks.first[k].reads_input;
    result.writes = result.writes || tasks.first[k].writes_output;
  }
  return result;
}

/// The size of a call.
struct call_size {
  std::size_t count = 0;  ///< of the whole buffer, or of one segment if the collective has segments
  std::size_t chunk_bytes = 0;  ///< in place of the schedule's; 0: the schedule's
  /// By `block_number`, for unequal segments: then `count` is that of all together, and the caller
  /// has checked the buffers.
  block_range const* blocks = nullptr;
  std::uint64_t hash = 0;  ///< of other sizes on which ranks must agree, as in `blocks`
  std::size_t unit = 1;    ///< elements of an item of the reducer (`has_unit`)

  [[nodiscard]] std::size_t items() const { return unit == 1 ? count : count / unit; }
};

/// The properties of a call's types, for the code that does not move elements.
struct call_types {
  std::string_view names;  ///< of element, reducer, chunking and further policies
  call_description::name_text names_begin{};  ///< as in call descriptions
  std::uint64_t (*hash)() = nullptr;
  element_sizes sizes;
  std::size_t accumulator_bytes = 0;
  order_promise order = order_promise::run;
  bool is_commutative = true;
  bool lift_at_source = false;
  bool has_epilogue = false;
  std::size_t alignment = 1;  ///< of an element
  std::size_t most_unit = 1;  ///< elements of the reducer's items, at most
  chunk_cutter cut = nullptr;
};

/// The properties of these types. Policies: further ones besides the chunking.
template <class T, class Reducer, chunking Chunks, class... Policies>
inline constexpr call_types types_of_call{
    names_of<T, Reducer, Chunks, Policies...>(),
    call_description::beginning_of(names_of<T, Reducer, Chunks, Policies...>()),
    &hash_of_types<T, Reducer, Chunks, Policies...>,
    sizes_of<Reducer, T>(),
    sizeof(accumulator_t<Reducer, T>),
    order_of<Reducer>,
    is_commutative<Reducer>,
    lift_at_source<Reducer>,
    carries_epilogue<Reducer>,
    alignof(T),
    most_unit<Reducer>,
    &cut_by<Chunks>};

/// The order in which a call needs to combine, by its promise and its reducer.
[[nodiscard]] constexpr operand_order operands_needed_for(order_promise order,
                                                          bool is_commutative) {
  if (order == order_promise::ranks) return operand_order::tree_of_ranks;
  return is_commutative ? operand_order::any : operand_order::in_order;
}
template <class Reducer>
inline constexpr operand_order operands_needed =
    operands_needed_for(order_of<Reducer>, is_commutative<Reducer>);

/// The same for devices, which combine one operand after the other.
template <class Reducer>
inline constexpr operand_order operands_on_device = [] {
  static_assert(order_of<Reducer> != order_promise::ranks,
                "blink: devices do not combine along the tree of ranks, expected a reducer with "
                "another promise than order_promise::ranks");
  static_assert(!has_unit<Reducer>,
                "blink: devices combine elements, expected a reducer without a unit");
  return operands_needed<Reducer>;
}();

/// True if calls of these types may use eager payloads instead of trees.
[[nodiscard]] constexpr bool is_eager(call_types const& types) {
  return types.order != order_promise::shape && types.alignment <= 32 &&
         !types.has_epilogue &&  // epilogues see chunks
         !types.lift_at_source;
}

/// Returns the state of a reducer on which ranks must agree.
template <class Reducer>
[[nodiscard]] std::uint64_t common_state_of([[maybe_unused]] Reducer const& reduce) {
  if constexpr (has_common_state<Reducer>) return reduce.common_state();
  return 0;
}

/// Returns the parameters of a call on which all ranks must agree.
[[nodiscard]] inline call_parameters parameters_of(prepared_schedule const& prepared,
                                                   collective kind, call_size const& size,
                                                   call_types const& types,
                                                   std::uint64_t common_state) {
  return {.kind = static_cast<std::uint64_t>(kind),
          // Ranks with different chunks do not match either.
          .schedule_hash = prepared.hash() + size.chunk_bytes,
          .count = size.items(),
          .element_bytes = types.sizes.value * size.unit,
          .types = types.hash(),
          .blocks = size.hash,
          .state = common_state,
          .root = has_root(kind) ? root_of(prepared.source(), kind) : -1};
}
/// Returns the parameters of a call with the names of its types.
[[nodiscard]] inline call_description description_of_call(prepared_schedule const& prepared,
                                                          collective kind, call_size const& size,
                                                          call_types const& types,
                                                          std::uint64_t common_state) {
  return {parameters_of(prepared, kind, size, types, common_state), types.names_begin};
}

/// Throws: precondition_error if calls with such a reducer cannot run along the schedule.
///
/// options: the name of the options that hold the size of slots, for the message
template <class = when_used>
void expect_runs(prepared_schedule const& prepared, element_sizes const& sizes,
                 operand_order needed, int rank_count, char const* options) {
  expects(prepared.source().rank_count == rank_count,
          "schedule: prepared for another number of ranks, expected the communicator's");
  expects(needed <= prepared.operands() || needed != operand_order::in_order,
          "schedule: the reducer is not commutative, expected a schedule that keeps the order of "
          "the ranks");
  expects(needed <= prepared.operands(),
          "schedule: the call promises the order of the ranks' tree (order_promise::ranks), "
          "expected trees that combine along it, such as stars");
  std::size_t const slot_bytes = prepared.tables().layout().slot_bytes;
  if (sizes.largest() > slot_bytes) {
    throw precondition_error(text_of(
        {options, ": slot_bytes is less than the size of one element: a slot has ", slot_bytes,
         " bytes, an element ", sizes.value, ", a sent element ", sizes.connection}));
  }
}

}}}  // namespace blink::BLINK_ABI::detail
