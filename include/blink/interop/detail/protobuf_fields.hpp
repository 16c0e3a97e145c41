// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The encoding of Protocol Buffers: numbers with seven bits a byte, and fields with a number and
// a type. Enough for messages of numbers, texts and messages.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The types of encoded fields.
enum class protobuf_type : std::uint8_t { number = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };

/// Appends a number, seven bits a byte, the lowest first.
inline void append_number(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

/// Appends bytes behind their number.
inline void append_sized(std::string& out, std::string_view bytes) {
  append_number(out, bytes.size());
  out += bytes;
}

/// Appends a field of a number. Negative ones have all 64 bits, as those of int32 and int64 do.
inline void append_field(std::string& out, int field, std::uint64_t value) {
  append_number(out, static_cast<std::uint64_t>(field) << 3);
  append_number(out, value);
}

/// Appends a field of a text or message.
inline void append_field(std::string& out, int field, std::string_view bytes) {
  append_number(out, static_cast<std::uint64_t>(field) << 3 |
                         static_cast<std::uint64_t>(protobuf_type::bytes));
  append_sized(out, bytes);
}

/// One field of a message.
struct protobuf_field {
  int number = 0;
  protobuf_type type = protobuf_type::number;
  std::uint64_t value = 0;      ///< of a number
  std::string_view bytes = {};  ///< of all other types
};

/// Reads numbers, sized bytes and fields, one after the other.
class protobuf_reader {
 public:
  explicit protobuf_reader(std::string_view bytes) : rest_(bytes) {}

  [[nodiscard]] bool is_at_end() const { return rest_.empty(); }

  /// The next number; nothing if the bytes end before it does, or it has more than 64 bits.
  [[nodiscard]] std::optional<std::uint64_t> number() {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < rest_.size() && i < 10; ++i) {
      auto const byte = static_cast<unsigned char>(rest_[i]);
      auto const bits = static_cast<std::uint64_t>(byte & 0x7f);
      if (i == 9 && bits > 1) return std::nullopt;
      value |= bits << (7 * i);
      if (byte >= 0x80) continue;
      rest_.remove_prefix(i + 1);
      return value;
    }
    return std::nullopt;
  }
  /// The next bytes with their number before them; nothing if there are fewer.
  [[nodiscard]] std::optional<std::string_view> sized() {
    auto const size = number();
    return size ? take(*size) : std::nullopt;
  }
  /// The next field; nothing if the bytes end before it does, or it has another type.
  [[nodiscard]] std::optional<protobuf_field> field() {
    auto const key = number();
    if (!key || *key >> 3 == 0 || *key >> 3 >= std::uint64_t{1} << 29) return std::nullopt;
    protobuf_field result{static_cast<int>(*key >> 3), static_cast<protobuf_type>(*key & 7)};
    std::optional<std::string_view> bytes;
    switch (result.type) {
      case protobuf_type::number: {
        auto const value = number();
        if (!value) return std::nullopt;
        result.value = *value;
        return result;
      }
      case protobuf_type::bytes:
        bytes = sized();
        break;
      case protobuf_type::eight_bytes:
        bytes = take(8);
        break;
      case protobuf_type::four_bytes:
        bytes = take(4);
        break;
      default:  // groups, which the format no longer has
        break;
    }
    if (!bytes) return std::nullopt;
    result.bytes = *bytes;
    return result;
  }

 private:
  [[nodiscard]] std::optional<std::string_view> take(std::uint64_t size) {
    if (size > rest_.size()) return std::nullopt;
    auto const result = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(result.size());
    return result;
  }

  std::string_view rest_;
};

}}}  // namespace blink::BLINK_ABI::detail
