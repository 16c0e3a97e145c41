// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// JSON values with their line numbers. Numbers stay text, so that 12.5 stays exact.

namespace blink { inline namespace BLINK_ABI { namespace detail {

enum class json_kind : std::uint8_t { null, boolean, number, string, array, object };

struct json_value {
  json_kind kind = json_kind::null;
  int line = 1;
  std::string text;               ///< of a number or a string
  std::vector<json_value> items;  ///< of an array or an object
  std::vector<std::string> keys;  ///< of an object: keys[i] names items[i]

  [[nodiscard]] json_value const* find(std::string_view key) const {
    auto const at = std::find(keys.begin(), keys.end(), key);
    return at == keys.end() ? nullptr : &items[static_cast<std::size_t>(at - keys.begin())];
  }
};

/// An iterator over text that stores the place that the parser read last.
class watched_iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = char const*;
  using reference = char const&;

  watched_iterator(char const* at, char const** last_read) : at_(at), last_read_(last_read) {}
  reference operator*() const { return *(*last_read_ = at_); }
  watched_iterator& operator++() {
    ++at_;
    return *this;
  }
  friend bool operator==(watched_iterator const& a, watched_iterator const& b) {
    return a.at_ == b.at_;
  }
  friend bool operator!=(watched_iterator const& a, watched_iterator const& b) { return !(a == b); }

 private:
  char const* at_;
  char const** last_read_;
};

/// Builds values from the events of the parser.
class json_builder {
 public:
  json_builder(std::string_view text, std::string file, input_limits const& limits)
      : file_(std::move(file)),
        limits_(limits),
        counted_(text.data()),
        begin_(text.data()),
        end_(text.data() + text.size()),
        last_read_(text.data()) {}

  json_value parse() {
    nlohmann::json::sax_parse(watched_iterator(begin_, &last_read_),
                              watched_iterator(end_, &last_read_), this);
    return std::move(root_);
  }

  bool null() { return add({json_kind::null, line(), "null", {}, {}}); }
  bool boolean(bool value) {
    return add({json_kind::boolean, line(), value ? "true" : "false", {}, {}});
  }
  bool number_integer(std::int64_t value) {
    return add({json_kind::number, line(), std::to_string(value), {}, {}});
  }
  bool number_unsigned(std::uint64_t value) {
    return add({json_kind::number, line(), std::to_string(value), {}, {}});
  }
  bool number_float(double, std::string const& text) {
    return add({json_kind::number, line(), text, {}, {}});
  }
  bool string(std::string& value) { return add({json_kind::string, line(), value, {}, {}}); }
  bool binary(std::vector<std::uint8_t>&) { return false; }
  bool start_object(std::size_t) { return open({json_kind::object, line(), "{", {}, {}}); }
  bool start_array(std::size_t) { return open({json_kind::array, line(), "[", {}, {}}); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (path_.back()->find(name) != nullptr) {
      fail_at(file_, line(), "key " + in_quotes(name) + " appears twice in one object");
    }
    if (path_.back()->keys.size() >= limits_.keys) {
      fail_at(file_, line(), "more than " + std::to_string(limits_.keys) + " keys in one object");
    }
    key_ = name;
    return true;
  }
  template <class Exception>
  bool parse_error(std::size_t, std::string const&, Exception const& reason) {
    std::string what = reason.what();
    auto const expected = what.rfind("expected ");
    if (begin_ == end_) fail_at(file_, 1, "malformed JSON: the file is empty, expected '{'");
    if (last_read_ + 1 == end_ && what.find("unexpected end of input") != std::string::npos) {
      fail_at(file_, line(),
              "malformed JSON: the text ends too early" +
                  (expected == std::string::npos || what.compare(expected - 2, 2, "un") == 0
                       ? std::string(", expected a complete object")
                       : ", " + what.substr(expected)));
    }
    fail_at(file_, line(),
            "malformed JSON at " + in_quotes(std::string_view(last_read_, 1)) +
                (expected == std::string::npos ||
                         (expected >= 2 && what.compare(expected - 2, 2, "un") == 0)
                     ? std::string(", expected a value")
                     : ", " + what.substr(expected)));
  }

 private:
  /// The line of the character read last. Events come in the order of the text, so counting
  /// continues from the last one.
  int line() {
    line_ += static_cast<int>(std::count(counted_, last_read_, '\n'));
    counted_ = last_read_;
    return line_;
  }
  json_value* place(json_value value) {
    if (path_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    auto& parent = *path_.back();
    if (parent.kind == json_kind::object) parent.keys.push_back(std::move(key_));
    parent.items.push_back(std::move(value));
    return &parent.items.back();
  }
  bool add(json_value value) {
    place(std::move(value));
    return true;
  }
  bool open(json_value value) {
    if (static_cast<int>(path_.size()) >= limits_.depth) {
      fail_at(file_, line(),
              "more than " + std::to_string(limits_.depth) + " values inside each other");
    }
    path_.push_back(place(std::move(value)));  // parents do not move while a child is open
    return true;
  }
  bool close() {
    path_.pop_back();
    return true;
  }

  std::string file_;
  input_limits limits_;
  int line_ = 1;
  char const* counted_;
  char const* begin_;
  char const* end_;
  char const* last_read_;
  json_value root_;
  std::vector<json_value*> path_;
  std::string key_;
};

}}}  // namespace blink::BLINK_ABI::detail
