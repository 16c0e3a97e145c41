// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/readers/detail/json_text.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Checked access to the values of one JSON file. The base of what makes machines of JSON.
///
/// path: the place of the value, for errors: "nodes[3].id"
class json_checks {
 public:
  explicit json_checks(std::string const& file) : file_(file) {}

 protected:
  [[nodiscard]] std::string const& file() const { return file_; }

  [[noreturn]] void fail(json_value const& at, std::string const& path, std::string const& found,
                         std::string const& expected) const {
    fail_at(file_, at.line, path + ": found " + found + ", expected " + expected);
  }
  static std::string excerpt(json_value const& value) {
    switch (value.kind) {
      case json_kind::array:
        return "a list";
      case json_kind::object:
        return "an object";
      case json_kind::number:
        return value.text.substr(0, 40);
      case json_kind::string:
        return in_quotes(value.text);
      default:
        return value.text;
    }
  }
  void require_kind(json_value const& value, json_kind kind, std::string const& path,
                    std::string const& expected) const {
    if (value.kind != kind) fail(value, path, excerpt(value), expected);
  }
  [[nodiscard]] json_value const& required(json_value const& object, std::string const& path,
                                           std::string const& key) const {
    auto const* value = object.find(key);
    if (value == nullptr) {
      fail_at(file_, object.line,
              (path.empty() ? "the machine" : path) + ": '" + key + "' is missing");
    }
    return *value;
  }
  [[nodiscard]] std::int64_t integer(json_value const& value, std::string const& path,
                                     std::int64_t least, std::int64_t most) const {
    auto const number =
        value.kind == json_kind::number ? read_decimal(value.text, 0) : std::nullopt;
    if (!number || number->numerator() < least || number->numerator() > most) {
      fail(value, path, excerpt(value),
           "an integer from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return number->numerator();
  }
  /// A number of at most 9 decimals.
  [[nodiscard]] rational decimal(json_value const& value, std::string const& path,
                                 rational const& least, rational const& most) const {
    constexpr int decimals = 9;
    auto const number =
        value.kind == json_kind::number ? read_decimal(value.text, decimals) : std::nullopt;
    if (!number || *number < least || *number > most) {
      fail(value, path, excerpt(value),
           "a number from " + least.to_text() + " to " + most.to_text() + " of at most " +
               std::to_string(decimals) + " decimals");
    }
    return *number;
  }

 private:
  std::string const& file_;
};

}}}  // namespace blink::BLINK_ABI::detail
