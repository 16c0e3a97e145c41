// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/topology/readers/detail/json_text.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads the part of YAML that configuration files use: lists and mappings by indentation, values
/// on one line, lists in brackets, and comments. Values become those of JSON. Plain and quoted ones
/// become strings.
///
/// Source: YAML 1.2.2, https://yaml.org/spec/1.2.2/, without anchors, tags, values of several lines
///         and mappings in braces.
class yaml_reader {
 public:
  yaml_reader(std::string_view text, std::string const& file, input_limits const& limits)
      : file_(file), limits_(limits), texts_(text_lines(text)) {
    for (std::size_t i = 0; i < texts_.size(); ++i) add_line(texts_[i], static_cast<int>(i) + 1);
  }

  /// Throws: input_error with file and line for other text, a key that appears twice, and values
  ///         too far inside each other.
  [[nodiscard]] json_value read() {
    if (lines_.empty()) fail_at(file_, 1, "no value, expected YAML");
    auto result = read_block(0);
    if (at_ < lines_.size()) fail("found " + in_quotes(lines_[at_].text), "the indentation above");
    return result;
  }

 private:
  struct line {
    int number = 0;
    std::size_t indent = 0;
    std::string_view text;  // without indentation, comment, and blanks at the end
  };

  [[noreturn]] void fail(std::string const& found, std::string const& expected) const {
    auto const& last = lines_[std::min(at_, lines_.size() - 1)];
    fail_at(file_, last.number, found + ", expected " + expected);
  }

  void add_line(std::string_view text, int number) {
    auto const end = end_without_comment(text);
    text = text.substr(0, end);
    auto const last = text.find_last_not_of(" \t");
    if (last == std::string_view::npos) return;
    text = text.substr(0, last + 1);
    if (text == "---" || text == "...") return;
    auto const first = text.find_first_not_of(' ');
    if (text[first] == '\t') fail_at(file_, number, "a tab in the indentation, expected blanks");
    lines_.push_back({number, first, text.substr(first)});
  }

  /// A comment begins at a # after a blank, outside of quotes.
  [[nodiscard]] static std::size_t end_without_comment(std::string_view text) {
    char quote = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      bool const is_after_blank = i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t';
      if (quote != 0) {
        if (text[i] == quote) quote = 0;
      } else if (text[i] == '#' && is_after_blank) {
        return i;
      } else if ((text[i] == '"' || text[i] == '\'') && is_after_blank) {
        quote = text[i];
      }
    }
    return text.size();
  }

  [[nodiscard]] static bool is_item(std::string_view text) {
    return text == "-" || text.starts_with("- ");
  }

  /// Position of the colon that ends a key; npos if the text is a value.
  [[nodiscard]] static std::size_t end_of_key(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i == 0 && (text[i] == '"' || text[i] == '\'' || text[i] == '[')) return text.npos;
      if (text[i] == ':' && (i + 1 == text.size() || text[i + 1] == ' ')) return i;
    }
    return text.npos;
  }

  [[nodiscard]] json_value read_block(int depth) {
    if (depth >= limits_.depth) {
      fail("more than " + std::to_string(limits_.depth) + " values inside each other", "fewer");
    }
    if (is_item(lines_[at_].text)) return read_list(depth);
    if (end_of_key(lines_[at_].text) != std::string_view::npos) return read_mapping(depth);
    auto result = value_of(lines_[at_].text);
    ++at_;
    return result;
  }

  [[nodiscard]] json_value read_list(int depth) {
    json_value result{json_kind::array, lines_[at_].number, "[", {}, {}};
    auto const indent = lines_[at_].indent;
    while (at_ < lines_.size() && lines_[at_].indent == indent && is_item(lines_[at_].text)) {
      auto& here = lines_[at_];
      auto const first = here.text.find_first_not_of(' ', 1);
      if (first == std::string_view::npos) {
        int const number = here.number;
        ++at_;
        result.items.push_back(read_below(indent + 1, number, depth));
      } else {  // the rest of the line is the first of the item
        here.text.remove_prefix(first);
        here.indent += first;
        result.items.push_back(read_block(depth + 1));
      }
    }
    return result;
  }

  [[nodiscard]] json_value read_mapping(int depth) {
    json_value result{json_kind::object, lines_[at_].number, "{", {}, {}};
    auto const indent = lines_[at_].indent;
    while (at_ < lines_.size() && lines_[at_].indent == indent && !is_item(lines_[at_].text)) {
      auto const here = lines_[at_];
      auto const colon = end_of_key(here.text);
      if (colon == std::string_view::npos) fail("found " + in_quotes(here.text), "key: value");
      std::string key(here.text.substr(0, colon));
      if (result.find(key) != nullptr) fail("key " + in_quotes(key) + " a second time", "one");
      if (result.keys.size() >= limits_.keys) {
        fail("more than " + std::to_string(limits_.keys) + " keys in one mapping", "fewer");
      }
      auto const first = here.text.find_first_not_of(' ', colon + 1);
      ++at_;
      // A list may have the indentation of its key.
      bool const is_list = at_ < lines_.size() && is_item(lines_[at_].text);
      result.items.push_back(first != std::string_view::npos
                                 ? value_of(here.text.substr(first), here.number)
                                 : read_below(is_list ? indent : indent + 1, here.number, depth));
      result.keys.push_back(std::move(key));
    }
    return result;
  }

  /// The block that follows with at least this indentation, or no value.
  [[nodiscard]] json_value read_below(std::size_t least_indent, int number, int depth) {
    if (at_ == lines_.size() || lines_[at_].indent < least_indent) {
      return {json_kind::null, number, "null", {}, {}};
    }
    return read_block(depth + 1);
  }

  [[nodiscard]] json_value value_of(std::string_view text) const {
    return value_of(text, lines_[at_].number);
  }
  [[nodiscard]] json_value value_of(std::string_view text, int number) const {
    auto const refuse = [&](std::string const& expected) {
      fail_at(file_, number, "found " + in_quotes(text) + ", expected " + expected);
    };
    if (std::string_view("&*!|>%@`{").find(text.front()) != std::string_view::npos) {
      refuse("a value on one line");
    }
    if (text.front() == '[') return list_of(text, number);
    if (text.front() != '"' && text.front() != '\'') {
      return {json_kind::string, number, std::string(text), {}, {}};
    }
    auto const inside = text.substr(1, std::max<std::size_t>(text.size(), 2) - 2);
    bool const is_whole = text.size() > 1 && text.back() == text.front();
    if (!is_whole || inside.find_first_of("\\\"'") != std::string_view::npos) {
      refuse("text in quotes without others inside");
    }
    return {json_kind::string, number, std::string(inside), {}, {}};
  }

  /// A list in brackets on one line, of values without brackets and quotes.
  [[nodiscard]] json_value list_of(std::string_view text, int number) const {
    json_value result{json_kind::array, number, "[", {}, {}};
    if (text.back() != ']' || text.find_first_of("[\"'", 1) != std::string_view::npos) {
      fail_at(file_, number, "found " + in_quotes(text) + ", expected a list such as [2, 4]");
    }
    text = text.substr(1, text.size() - 2);
    while (!text.empty()) {
      auto const end = std::min(text.find(','), text.size());
      auto const first = std::min(text.find_first_not_of(' '), end);
      auto const last = text.substr(0, end).find_last_not_of(' ');
      if (last != std::string_view::npos) {
        auto const item = text.substr(first, last + 1 - first);
        result.items.push_back({json_kind::string, number, std::string(item), {}, {}});
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return result;
  }

  std::string const& file_;
  input_limits limits_;
  std::vector<std::string> texts_;
  std::vector<line> lines_;
  std::size_t at_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
