// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/topology/readers/detail/hwloc_objects.hpp>
#include <blink/topology/readers/detail/xml_element.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Values between objects of an hwloc file: `<distances2>` or `<distances2hetero>`.
struct hwloc_matrix {
  std::vector<int> objects;          ///< positions; -1 for one that is not in the file
  std::vector<std::int64_t> values;  ///< row by row
  xml_element element;

  [[nodiscard]] std::int64_t value(std::size_t row, std::size_t column) const {
    return values[row * objects.size() + column];
  }
};

/// Reads one matrix. Its indexes and values stand in several elements.
class hwloc_matrix_reader {
 public:
  hwloc_matrix_reader(xml_element const& matrix, hwloc_objects& objects)
      : matrix_(matrix), objects_(objects), result_{{}, {}, matrix} {}

  /// Throws: input_error with file, line and element if counts differ, or for what is no number.
  [[nodiscard]] hwloc_matrix read() {
    if (matrix_.text("indexing") == "os") {
      matrix_.fail("indexing='os', expected 'gp' because GPUs have no other number");
    }
    for_each_word("indexes", [&](std::string_view word) { read_index(word); });
    auto const count = result_.objects.size();
    auto const expected = matrix_.required_integer("nbobjs", 1, most_objects);
    expect_count("indexes", count, static_cast<std::size_t>(expected));
    for_each_word("u64values", [&](std::string_view word) {
      // Values on the diagonal are made up by hwloc. They are larger than all others.
      auto const value = integer_from(word);
      if (!value || *value < 0 || *value > most_value) {
        matrix_.fail("the value " + in_quotes(word) + ", expected a number from 0 to " +
                     std::to_string(most_value));
      }
      result_.values.push_back(*value);
    });
    expect_count("values", result_.values.size(), count * count);
    return std::move(result_);
  }

 private:
  static constexpr std::int64_t most_objects = 4096;
  static constexpr std::int64_t most_value = 100'000'000;

  template <class Visit>
  void for_each_word(char const* element, Visit const& visit) {
    for (auto const child : matrix_.node().children(element)) {
      std::string_view const text = child.child_value();
      constexpr auto* blanks = " \t\r\n";
      for (std::size_t at = 0; (at = text.find_first_not_of(blanks, at)) < text.size();) {
        auto const end = std::min(text.find_first_of(blanks, at), text.size());
        visit(text.substr(at, end - at));
        at = end;
      }
    }
  }

  /// An index is a gp_index, with the type in front if the objects are of several types.
  void read_index(std::string_view word) {
    auto const number = integer_from(word.substr(word.find(':') + 1));
    if (!number || *number < 0) {
      matrix_.fail("the index " + in_quotes(word) + ", expected a gp_index such as 702");
    }
    if (!seen_.insert(*number).second)
      matrix_.fail("the index " + in_quotes(word) + " appears twice");
    auto const found = objects_.by_number.find(static_cast<std::uint64_t>(*number));
    if (found == objects_.by_number.end()) {
      objects_.remarks.add(matrix_, "the index " + in_quotes(word) + " is no object of the file");
    }
    result_.objects.push_back(found == objects_.by_number.end() ? -1 : found->second);
  }

  void expect_count(std::string const& what, std::size_t count, std::size_t expected) const {
    if (count == expected) return;
    matrix_.fail(std::to_string(count) + " " + what + ", expected " + std::to_string(expected) +
                 " for nbobjs=" + in_quotes(matrix_.text("nbobjs")));
  }

  xml_element matrix_;
  hwloc_objects& objects_;
  std::set<std::int64_t> seen_;
  hwloc_matrix result_;
};

/// The matrix of this name; nothing if the file has none. A second one of the name is a remark.
[[nodiscard]] inline std::optional<hwloc_matrix> find_hwloc_matrix(xml_element const& topology,
                                                                   std::string_view name,
                                                                   hwloc_objects& objects) {
  std::optional<hwloc_matrix> result;
  for (auto const child : topology.node().children()) {
    xml_element const element(topology.from(), child);
    if (element.name() != "distances2" && element.name() != "distances2hetero") continue;
    if (element.text("name") != name) continue;
    if (result) {
      objects.remarks.add(element, "a second " + in_quotes(name) + " is not used");
      continue;
    }
    result = hwloc_matrix_reader(element, objects).read();
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
