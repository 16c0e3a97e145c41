// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Lists the names that a host list of Slurm stands for, such as "tux[0-3,12],rack[1-2]gpu[01-16]".
///
/// Several brackets in one name make all combinations; the last one varies fastest. Numbers have at
/// least as many digits as the first one of their range.
class host_list_reader {
 public:
  /// most: the largest number of names
  host_list_reader(std::string_view text, std::size_t most) : text_(text), most_(most) {}

  /// Throws: input_error without a place, for brackets that do not match and ranges that descend.
  ///         Also for other characters, long names, and too many of them.
  [[nodiscard]] std::vector<std::string> read() {
    while (at_ < text_.size()) {
      if (text_[at_] == ',' || text_[at_] == ' ' || text_[at_] == '\t') {
        ++at_;
      } else {
        add_names(read_pieces());
      }
    }
    return std::move(names_);
  }

 private:
  struct range {
    std::size_t first = 0, last = 0;
    std::size_t digits = 1;  // the least number of them
  };
  struct piece {
    std::string_view text;      // without ranges: this text
    std::vector<range> ranges;  // of one bracket
    std::size_t count = 1;      // of its texts
  };

  [[noreturn]] void fail(std::string const& what, std::string const& expected) const {
    throw input_error("host list " + in_quotes(text_, 60) + ": " + what + ", expected " + expected);
  }
  [[noreturn]] void fail_count() const {
    fail("stands for more than " + std::to_string(most_) + " names", "fewer");
  }

  [[nodiscard]] static bool is_of_name(char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
           std::string_view("-_.:+@/").find(c) != std::string_view::npos;
  }

  /// The pieces of one element, up to a comma.
  [[nodiscard]] std::vector<piece> read_pieces() {
    std::vector<piece> result;
    std::size_t length = 0, count = 1;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ' ' && text_[at_] != '\t') {
      result.push_back(text_[at_] == '[' ? read_bracket() : read_plain());
      auto const& last = result.back();
      count *= last.count;
      if (count > most_ - names_.size()) fail_count();
      std::size_t longest = last.text.size();
      for (auto const& r : last.ranges) {
        longest = std::max({longest, r.digits, std::to_string(r.last).size()});
      }
      length += longest;
      constexpr std::size_t longest_name = 255;
      if (length > longest_name) fail("a name of more than 255 characters", "shorter ones");
    }
    return result;
  }

  [[nodiscard]] piece read_plain() {
    auto const begin = at_;
    while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
    if (at_ == begin) {
      fail("found " + in_quotes(text_.substr(at_, 1)),
           "letters, digits, - _ . : + @ / and [ranges]");
    }
    return {text_.substr(begin, at_ - begin), {}, 1};
  }

  [[nodiscard]] piece read_bracket() {
    piece result{{}, {}, 0};
    do {
      ++at_;  // the bracket or comma
      range next;
      auto const begin = at_;
      next.first = next.last = read_number();
      next.digits = at_ - begin;
      if (at_ < text_.size() && text_[at_] == '-') {
        ++at_;
        next.last = read_number();
      }
      if (next.last < next.first) {
        fail("the range " + in_quotes(text_.substr(begin, at_ - begin)) + " descends",
             "an ascending one");
      }
      result.count += next.last - next.first + 1;
      if (result.count > most_) fail_count();
      result.ranges.push_back(next);
    } while (at_ < text_.size() && text_[at_] == ',');
    if (at_ == text_.size() || text_[at_] != ']') {
      fail("found " + (at_ < text_.size() ? in_quotes(text_.substr(at_, 1)) : "its end") +
               " in a bracket",
           "numbers and ranges, then ]");
    }
    ++at_;
    return result;
  }

  [[nodiscard]] std::size_t read_number() {
    constexpr std::size_t most_digits = 9;
    auto const begin = at_;
    std::size_t value = 0;
    for (; at_ < text_.size() && '0' <= text_[at_] && text_[at_] <= '9'; ++at_) {
      if (at_ - begin == most_digits) fail("a number of more than 9 digits", "fewer");
      value = value * 10 + static_cast<std::size_t>(text_[at_] - '0');
    }
    if (at_ == begin) {
      fail("found " + (at_ < text_.size() ? in_quotes(text_.substr(at_, 1)) : "its end") +
               " in a bracket",
           "a number");
    }
    return value;
  }

  void add_names(std::vector<piece> const& pieces) {
    std::vector<std::string> names{""};
    for (auto const& each : pieces) {
      std::vector<std::string> longer;
      longer.reserve(names.size() * each.count);
      for (auto const& name : names) {
        if (each.ranges.empty()) longer.push_back(name + std::string(each.text));
        for (auto const& r : each.ranges) {
          for (auto value = r.first; value <= r.last; ++value) {
            auto digits = std::to_string(value);
            if (digits.size() < r.digits) digits.insert(0, r.digits - digits.size(), '0');
            longer.push_back(name + digits);
          }
        }
      }
      names = std::move(longer);
    }
    std::ranges::move(names, std::back_inserter(names_));
  }

  std::string_view text_;
  std::size_t most_;
  std::size_t at_ = 0;
  std::vector<std::string> names_;
};

}}}  // namespace blink::BLINK_ABI::detail
