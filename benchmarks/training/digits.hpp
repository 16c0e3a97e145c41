// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/detail/input_text.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace blink_bench {

/// Small images of handwritten digits, as scikit-learn ships them.
struct labelled_images {
  static constexpr std::size_t pixels_of_each = 64;
  static constexpr std::size_t classes = 10;

  std::vector<float> pixels;  ///< image after image, from 0 to 1
  std::vector<std::size_t> labels;

  [[nodiscard]] std::size_t count() const { return labels.size(); }
  void add(labelled_images const& from, std::size_t image) {
    auto const* const first = from.pixels.data() + image * pixels_of_each;
    pixels.insert(pixels.end(), first, first + pixels_of_each);
    labels.push_back(from.labels[image]);
  }
};

/// Images to train on, and every fifth one, which is held out.
struct split_images {
  labelled_images training;
  labelled_images held_out;
};

namespace detail {

/// Throws: blink::input_error if the text is no whole number from 0 to `most`.
[[nodiscard]] inline int read_digits_value(std::string_view text, int most, std::string const& file,
                                           int line, std::string const& what) {
  double value = -1;
  auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool const is_number = fault == std::errc{} && end == text.data() + text.size();
  if (is_number && value >= 0 && value <= most && value == std::floor(value)) {
    return static_cast<int>(value);
  }
  blink::detail::fail_at(file, line,
                         what + ' ' + blink::detail::in_quotes(text) +
                             ", expected a whole number from 0 to " + std::to_string(most));
}

/// Reads the fields of a line: the pixels, from 0 to 16, and a label.
inline void read_digits_line(std::string_view text, std::string const& file, int line,
                             labelled_images& result) {
  constexpr auto expected = labelled_images::pixels_of_each + 1;
  std::size_t field = 0;
  for (std::size_t at = 0; at <= text.size(); ++field) {
    auto const comma = std::min(text.find(',', at), text.size());
    auto const value = text.substr(at, comma - at);
    at = comma + 1;
    if (field + 1 < expected) {
      auto const name = "pixel " + std::to_string(field + 1);
      result.pixels.push_back(static_cast<float>(read_digits_value(value, 16, file, line, name)) /
                              16);
    } else if (field + 1 == expected) {
      int const most = static_cast<int>(labelled_images::classes) - 1;
      result.labels.push_back(
          static_cast<std::size_t>(read_digits_value(value, most, file, line, "label")));
    }
  }
  if (field == expected) return;
  blink::detail::fail_at(file, line,
                         std::to_string(field) + " values, expected " + std::to_string(expected) +
                             ": the pixels of an image of 8 x 8, and its label");
}

}  // namespace detail

/// Reads a CSV file without a head: 64 pixels and a label on each line.
///
/// file:   its name, for error messages
/// Throws: blink::input_error with the place of what is something else.
[[nodiscard]] inline labelled_images read_digits(std::string_view text, std::string const& file) {
  if (text.starts_with("\x1f\x8b")) {
    throw blink::input_error(file + ": compressed by gzip, expected its content, as of zcat");
  }
  labelled_images result;
  for (int line = 1; !text.empty(); ++line) {
    auto const end = std::min(text.find('\n'), text.size());
    auto fields = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (fields.ends_with('\r')) fields.remove_suffix(1);
    detail::read_digits_line(fields, file, line, result);
  }
  if (result.count() == 0) throw blink::input_error(file + ": no image, expected one on each line");
  return result;
}

/// Holds out every fifth image.
[[nodiscard]] inline split_images split(labelled_images const& all) {
  split_images result;
  for (std::size_t k = 0; k < all.count(); ++k) {
    (k % 5 == 4 ? result.held_out : result.training).add(all, k);
  }
  return result;
}

}  // namespace blink_bench
