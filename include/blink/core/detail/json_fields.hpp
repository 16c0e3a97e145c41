// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads typed fields of JSON. Errors name the place: "FILE: trees[2].root: …, expected …".
///
/// Throws: input_error, from every function.
class json_fields {
 public:
  using json = nlohmann::json;
  explicit json_fields(std::string file) : file_(std::move(file)) {}

  /// Parses the document in `text`.
  ///
  /// kind: the expected contents, for error messages, such as "a plan file"
  /// key:  the field that holds the version of the format
  [[nodiscard]] json document(std::string_view text, std::string const& kind, char const* key,
                              int format) const {
    json result;
    expect_depth(text, input_limits{}.depth);
    try {
      result = json::parse(text);
    } catch (json::parse_error const& failure) {
      auto const end =
          text.begin() + static_cast<std::ptrdiff_t>(std::min(failure.byte, text.size()));
      throw input_error(file_ + ":" + std::to_string(1 + std::count(text.begin(), end, '\n')) +
                        ": malformed JSON, expected " + kind + " (\"" + key +
                        "\": " + std::to_string(format) + ")");
    } catch (json::exception const& failure) {
      throw input_error(file_ + ": " + failure.what());
    }
    use_present_keys(result);
    int const found = integer(field(result, "", key), key);
    if (found != format) {
      fail(key, "found format " + std::to_string(found) + ", expected " + std::to_string(format));
    }
    return result;
  }

  /// Fails if arrays and objects are nested deeper, before memory is spent on them.
  void expect_depth(std::string_view text, int most) const {
    int depth = 0;
    bool is_in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
      char const c = text[i];
      if (c == '"') is_in_string = !is_in_string;
      if (is_in_string && c == '\\') ++i;
      if (is_in_string) continue;
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') --depth;
      if (depth > most) {
        auto const line =
            1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i), '\n');
        throw input_error(file_ + ":" + std::to_string(line) + ": more than " +
                          std::to_string(most) + " levels of arrays and objects");
      }
    }
  }

  [[noreturn]] void fail(std::string const& where, std::string const& what) const {
    throw input_error(file_ + ": " + where + ": " + what);
  }
  json const& field(json const& object, std::string const& where, char const* key) const {
    if (!object.is_object()) fail(where, "found " + excerpt(object) + ", expected an object");
    auto const found = object.find(key);
    if (found == object.end()) fail(where.empty() ? key : where + "." + key, "missing");
    return *found;
  }
  int integer(json const& value, std::string const& where) const {
    if (!value.is_number_integer() || value.get<double>() < -1e9 || value.get<double>() > 1e9) {
      fail(where, "found " + excerpt(value) + ", expected an integer");
    }
    return value.get<int>();
  }
  /// Reads an integer from 0 to 2^63 - 1.
  std::uint64_t size(json const& value, std::string const& where) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX) {
      fail(where, "found " + excerpt(value) + ", expected an integer from 0 on");
    }
    return value.get<std::uint64_t>();
  }
  double number(json const& value, std::string const& where) const {
    if (!value.is_number()) fail(where, "found " + excerpt(value) + ", expected a number");
    return value.get<double>();
  }
  std::string text(json const& value, std::string const& where) const {
    if (!value.is_string()) fail(where, "found " + excerpt(value) + ", expected text");
    return value.get<std::string>();
  }
  json const& array(json const& value, std::string const& where) const {
    if (!value.is_array()) fail(where, "found " + excerpt(value) + ", expected a list");
    return value;
  }
  std::vector<int> integers(json const& value, std::string const& where) const {
    std::vector<int> result;
    for (auto const& entry : array(value, where)) {
      result.push_back(integer(entry, where + at(result.size())));
    }
    return result;
  }
  /// Reads the name of a collective.
  collective kind(json const& value, std::string const& where) const {
    auto const name = text(value, where);
    auto const known = std::find(collective_names.begin(), collective_names.end(), name);
    if (known == collective_names.end()) {
      std::string all;
      for (auto const each : collective_names) {
        all += (all.empty() ? "" : ", ") + std::string(each);
      }
      fail(where, "found \"" + name.substr(0, 40) + "\", expected one of " + all);
    }
    return static_cast<collective>(known - collective_names.begin());
  }
  static std::string at(std::size_t i) { return "[" + std::to_string(i) + "]"; }

 protected:
  static std::string excerpt(json const& value) {
    if (value.is_array()) return "a list";  // not printed because it may be nested without limit
    if (value.is_object()) return "an object";
    auto text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    constexpr std::size_t longest = 40;
    if (text.size() > longest) text = text.substr(0, longest) + "...";
    return text;
  }

 private:
  // Renames the keys that earlier versions wrote.
  static void use_present_keys(json& value, int depth = 0) {
    constexpr int deepest = 4;  // no format nests deeper, but a file may
    constexpr std::array<std::pair<char const*, char const*>, 5> keys{
        {{"blink_methods", "blink_tuning"},
         {"methods", "algorithms"},
         {"method", "algorithm"},
         {"relays", "forwarding_ranks"},
         {"cut_surplus", "balance_switches"}}};
    if (value.is_object()) {
      for (auto const& [earlier, present] : keys) {
        if (!value.contains(earlier) || value.contains(present)) continue;
        value[present] = std::move(value[earlier]);
        value.erase(earlier);
      }
    }
    if (depth == deepest || !value.is_structured()) return;
    for (auto& inner : value) use_present_keys(inner, depth + 1);
  }

  std::string file_;
};

}}}  // namespace blink::BLINK_ABI::detail
