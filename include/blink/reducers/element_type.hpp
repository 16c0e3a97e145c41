// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/text.hpp>
#include <blink/reducers/small_float.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

// g++ takes enumerators with the names of types for declarations that hide these.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/// The type of elements, chosen at run time.
enum class element_type : std::uint8_t {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  boolean,    ///< one byte
  complex64,  ///< two float32: real and imaginary part
  complex128
};

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

inline constexpr std::array<std::string_view, 15> element_type_names{
    "int8",    "uint8",    "int16",   "uint16",  "int32",   "uint32",    "int64",     "uint64",
    "float16", "bfloat16", "float32", "float64", "boolean", "complex64", "complex128"};

/// The combination of elements, chosen at run time.
enum class operation : std::uint8_t {
  sum,
  product,
  min,
  max,
  bit_and,
  bit_or,
  bit_xor,
  logical_and,
  logical_or,
  logical_xor,
  average
};
inline constexpr std::array<std::string_view, 11> operation_names{
    "sum",     "product",     "min",        "max",         "bit_and", "bit_or",
    "bit_xor", "logical_and", "logical_or", "logical_xor", "average"};

/// Names are those of the enumerators. Pre: it is one of the enumerators.
[[nodiscard]] constexpr std::string_view to_text(element_type type) {
  return element_type_names[static_cast<std::size_t>(type)];
}
[[nodiscard]] constexpr std::string_view to_text(operation what) {
  return operation_names[static_cast<std::size_t>(what)];
}

/// The size of an element in bytes. Pre: it is one of the enumerators.
[[nodiscard]] constexpr std::size_t bytes_of(element_type type) {
  constexpr std::array<std::uint8_t, 15> bytes{1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 8, 16};
  return bytes[static_cast<std::size_t>(type)];
}

namespace detail {

/// The number of a reduction, by which ranks compare calls.
[[nodiscard]] constexpr std::uint64_t reduction_id(element_type type, operation what) {
  constexpr std::uint64_t mark = 0x626c696e6bULL << 24;  // no state of a reducer by chance
  return mark | static_cast<std::uint64_t>(type) << 8 | static_cast<std::uint64_t>(what);
}
/// The reduction with a number, as "sum of float32"; empty if it is none.
template <class = when_used>
[[nodiscard]] BLINK_COLD std::string reduction_name(std::uint64_t id) {
  auto const type = static_cast<std::size_t>(id >> 8 & 0xff);
  auto const what = static_cast<std::size_t>(id & 0xff);
  if (type >= element_type_names.size() || what >= operation_names.size()) return {};
  if (id != reduction_id(static_cast<element_type>(type), static_cast<operation>(what))) return {};
  return text_of({operation_names[what], " of ", element_type_names[type]});
}

/// The integers of a size: signed, and unsigned behind it.
[[nodiscard]] constexpr element_type integer_type(std::size_t bytes, bool is_signed) {
  int const number = bytes == 1 ? 0 : bytes == 2 ? 2 : bytes == 4 ? 4 : 6;
  return static_cast<element_type>(number + (is_signed ? 0 : 1));
}

/// A number of two parts, such as `std::complex<float>`.
template <class T>
concept two_parts =
    requires(T const value) {
      typename T::value_type;
      { value.real() } -> std::convertible_to<typename T::value_type>;
      { value.imag() } -> std::convertible_to<typename T::value_type>;
    } && std::is_floating_point_v<typename T::value_type> &&
    sizeof(T) == 2 * sizeof(typename T::value_type) && sizeof(T) <= 16;

template <class T>
inline constexpr bool is_character_or_integer =
    std::is_integral_v<T> && sizeof(T) <= 8 && !std::is_same_v<std::remove_cv_t<T>, bool>;

/// The trait of one of blink's own types.
template <class T, element_type Type>
struct own_element {
  using element = T;
  static constexpr element_type type = Type;
};

}  // namespace detail

/// The element type of a C++ type: `element_trait<T>::type`. `element` is blink's own type of the
/// same bytes.
///
/// Specialise it for types of other libraries:
///
///     template <>
///     struct blink::element_trait<c10::BFloat16>
///         : blink::same_element<c10::BFloat16, blink::bfloat16> {};
template <class T>
struct element_trait;

template <class T>
  requires detail::is_character_or_integer<T>
struct element_trait<T>
    : detail::own_element<T, detail::integer_type(sizeof(T), std::is_signed_v<T>)> {};
template <detail::two_parts T>
struct element_trait<T>
    : detail::own_element<T, sizeof(T) == 8 ? element_type::complex64 : element_type::complex128> {
};
template <>
struct element_trait<bool> : detail::own_element<bool, element_type::boolean> {};
template <>
struct element_trait<float> : detail::own_element<float, element_type::float32> {};
template <>
struct element_trait<double> : detail::own_element<double, element_type::float64> {};
template <>
struct element_trait<float16> : detail::own_element<float16, element_type::float16> {};
template <>
struct element_trait<bfloat16> : detail::own_element<bfloat16, element_type::bfloat16> {};

/// The trait of a type that has the bytes of another type.
template <class Foreign, class Element>
struct same_element : element_trait<Element> {
  static_assert(sizeof(Foreign) == sizeof(Element) && alignof(Foreign) == alignof(Element) &&
                    std::is_trivially_copyable_v<Foreign>,
                "blink: a type that has the bytes of another has its size and alignment");
};

template <class T>
concept has_element_type = requires { element_trait<std::remove_cv_t<T>>::type; };

template <has_element_type T>
inline constexpr element_type element_type_of = element_trait<std::remove_cv_t<T>>::type;

/// The same elements as blink's type, for reducers that are chosen at compile time.
template <has_element_type T>
[[nodiscard]] auto* as_elements(T* elements) {
  using element = typename element_trait<std::remove_cv_t<T>>::element;
  return reinterpret_cast<std::conditional_t<std::is_const_v<T>, element const, element>*>(
      elements);
}

static_assert(element_type_of<long> == element_type::int64 && bytes_of(element_type::int64) == 8);
static_assert(element_type_of<float const> == element_type::float32);
static_assert(!has_element_type<void*> && !has_element_type<float8_e5m2>);

}}  // namespace blink::BLINK_ABI
