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
#include <blink/schedule/schedule_blocks.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <typeinfo>

// What a call is, on hosts and devices: its types, its size, what all ranks have to agree about, and
// whether it can run along a schedule.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Names its arguments, for comparing what ranks called and for telling it.
template <class... Types>
[[nodiscard]] constexpr std::string_view names_of() {
  std::string_view const text = __PRETTY_FUNCTION__;
  auto const first = text.find("Types");
  auto const last = text.find_first_of(";]", first);  // gcc goes on with "; std::string_view = …"
  return text.substr(first, last == std::string_view::npos ? last : last - first);
}

/// Equal for equal types, in all processes whose programs the same compiler made. By the names that
/// typeid knows, too: g++ gives all lambdas of a function that take and return the same one name
/// above. Not without RTTI.
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

/// The element types that cross links: bytes are all that is needed to copy them.
template <class T>
inline constexpr bool is_element = std::is_trivially_copyable_v<T> && !std::is_const_v<T>;

/// What a rank with these tasks does with its buffers.
[[nodiscard]] inline buffer_use use_of(task_list const& tasks) {
  buffer_use result;
  for (std::size_t k = 0; k < tasks.count; ++k) {
    result.reads = result.reads || tasks.first[k].reads_input;
    result.writes = result.writes || tasks.first[k].writes_output;
  }
  return result;
}

/// Do ranks send other data from the place where they receive, if the output is in the input's place?
[[nodiscard]] constexpr bool sends_and_receives(collective kind) {
  return kind == collective::all_to_all || kind == collective::send_to_next ||
         kind == collective::permute;
}

/// Of how many elements a call is.
struct call_size {
  std::size_t count = 0;  ///< of the whole buffer, or of one block where the collective has blocks
  std::size_t chunk_bytes = 0;  ///< instead of what the schedule says; 0: that
  /// By `block_number`, if blocks are not equal: then `count` is that of all together, and the caller
  /// has checked the buffers.
  block_range const* blocks = nullptr;
  std::uint64_t hash = 0;  ///< of other sizes that ranks must agree about, as in `blocks`
};

/// What the types of a call come to for all of it but the moving of elements.
struct call_types {
  std::string_view names;  ///< of element, reducer, chunking and further policies
  call_description::name_text names_begin{};  ///< as signatures have them
  std::uint64_t (*hash)() = nullptr;
  element_sizes sizes;
  std::size_t accumulator_bytes = 0;
  order_promise order = order_promise::run;
  bool is_commutative = true;
  bool lift_at_source = false;
  bool has_epilogue = false;
  std::size_t alignment = 1;  ///< of an element
  chunk_cutter cut = nullptr;
};

/// Of a call with these types. Policies: others than how it is cut
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
    &cut_by<Chunks>};

/// May ranks show each other their inputs instead of moving them along trees?
[[nodiscard]] constexpr bool is_eager(call_types const& types) {
  return types.order != order_promise::shape && types.alignment <= 32 &&
         !types.has_epilogue &&  // those see chunks
         !types.lift_at_source;
}

/// What in a reducer ranks have to agree about.
template <class Reducer>
[[nodiscard]] std::uint64_t common_state_of([[maybe_unused]] Reducer const& reduce) {
  if constexpr (has_common_state<Reducer>) return reduce.common_state();
  return 0;
}

/// What all ranks have to agree about in a call along `schedule`.
[[nodiscard]] inline call_parameters parameters_of(prepared_schedule const& prepared,
                                                   collective kind, call_size const& size,
                                                   call_types const& types,
                                                   std::uint64_t common_state) {
  return {.kind = static_cast<std::uint64_t>(kind),
          // Ranks with other chunks do not fit together either.
          .schedule_hash = prepared.hash() + size.chunk_bytes,
          .count = size.count,
          .element_bytes = types.sizes.value,
          .types = types.hash(),
          .blocks = size.hash,
          .state = common_state,
          .root = has_root(kind) ? root_of(prepared.source(), kind) : -1};
}
/// The same with names.
[[nodiscard]] inline call_description description_of_call(prepared_schedule const& prepared,
                                                          collective kind, call_size const& size,
                                                          call_types const& types,
                                                          std::uint64_t common_state) {
  return {parameters_of(prepared, kind, size, types, common_state), types.names_begin};
}

/// Throws: precondition_error if calls with such a reducer cannot run along the schedule.
///
/// options: the name of those that say how large slots are
template <class = when_used>
void expect_runs(prepared_schedule const& prepared, element_sizes const& sizes, bool is_commutative,
                 int rank_count, char const* options) {
  expects(prepared.source().rank_count == rank_count,
          "schedule: prepared for another number of ranks");
  expects(is_commutative || prepared.keeps_order(),
          "a reducer that is not commutative needs a schedule that keeps the order of the ranks");
  std::size_t const slot_bytes = prepared.tables().layout().slot_bytes;
  if (sizes.largest() > slot_bytes) {
    throw precondition_error(text_of(
        {options, ": slot_bytes is less than the size of one element: a slot has ", slot_bytes,
         " bytes, an element ", sizes.value, ", what crosses links for it ", sizes.connection}));
  }
}

}}}  // namespace blink::BLINK_ABI::detail
