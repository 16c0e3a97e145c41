// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>

#include <pugixml.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// An XML text with its file name, for errors.
struct xml_source {
  std::string_view text;
  std::string file;

  [[nodiscard]] int line_of(std::ptrdiff_t offset) const {
    auto const end = std::clamp<std::ptrdiff_t>(offset, 0, std::ssize(text));
    return static_cast<int>(1 + std::count(text.begin(), text.begin() + end, '\n'));
  }
};

/// An integer in decimal or as 0x…, as C reads it with base 0. Nothing for any other text.
[[nodiscard]] inline std::optional<std::int64_t> integer_from(std::string_view text) {
  bool const is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  bool const is_hex = text.starts_with("0x") || text.starts_with("0X");
  if (is_hex) text.remove_prefix(2);
  std::int64_t value = 0;
  auto const [end, failure] =
      std::from_chars(text.data(), text.data() + text.size(), value, is_hex ? 16 : 10);
  if (failure != std::errc{} || end != text.data() + text.size() || text.starts_with('-')) {
    return std::nullopt;
  }
  return is_negative ? -value : value;
}

/// One element, whose attributes are read as checked values.
class xml_element {
 public:
  xml_element(xml_source const& from, pugi::xml_node element) : from_(&from), element_(element) {}

  [[nodiscard]] std::string_view name() const { return element_.name(); }
  [[nodiscard]] pugi::xml_node node() const { return element_; }
  [[nodiscard]] xml_source const& from() const { return *from_; }
  [[nodiscard]] int line() const { return from_->line_of(element_.offset_debug()); }

  [[noreturn]] void fail(std::string const& what) const {
    fail_at(from_->file, line(), "<" + std::string(name()) + ">: " + what);
  }

  [[nodiscard]] bool has(char const* attribute) const {
    return !element_.attribute(attribute).empty();
  }
  /// The attribute's text; empty if it is absent.
  [[nodiscard]] std::string_view text(char const* attribute) const {
    return element_.attribute(attribute).value();
  }
  [[nodiscard]] std::string_view required_text(char const* attribute) const {
    if (!has(attribute)) fail("attribute " + std::string(attribute) + " is missing");
    return text(attribute);
  }
  /// The attribute as an integer from `least` to `most`; nothing if it is absent.
  [[nodiscard]] std::optional<std::int64_t> integer(char const* attribute, std::int64_t least,
                                                    std::int64_t most) const {
    if (!has(attribute)) return std::nullopt;
    auto const value = integer_from(text(attribute));
    if (!value || *value < least || *value > most) {
      fail(std::string(attribute) + "=" + in_quotes(text(attribute)) +
           ", expected an integer from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return value;
  }
  [[nodiscard]] std::int64_t required_integer(char const* attribute, std::int64_t least,
                                              std::int64_t most) const {
    (void)required_text(attribute);
    return *integer(attribute, least, most);
  }

  /// Fails if an attribute appears twice or is not printable ASCII.
  void check_attributes() const {
    check_attributes({}, [](std::string_view) {});
  }
  /// Fails if an attribute appears twice or is not printable ASCII. Calls `on_unknown` with the
  /// name of each that is not in `known`.
  ///
  /// Time: O(n log n) for n attributes.
  template <class OnUnknown>
  void check_attributes(std::initializer_list<std::string_view> known,
                        OnUnknown const& on_unknown) const {
    std::set<std::string_view> seen;
    for (auto const attribute : element_.attributes()) {
      std::string_view const its_name = attribute.name();
      std::string_view const value = attribute.value();
      if (!seen.insert(its_name).second)
        fail("attribute " + in_quotes(its_name) + " appears twice, expected once");
      if (!std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
        fail("attribute " + in_quotes(its_name) + " holds " + in_quotes(value) +
             ", expected printable ASCII");
      }
      if (std::find(known.begin(), known.end(), its_name) == known.end()) on_unknown(its_name);
    }
  }

 private:
  xml_source const* from_;
  pugi::xml_node element_;
};

/// Remarks about elements: each text once for all elements of a name, and only the first ones.
class xml_remarks {
 public:
  /// is_strict: a remark is an error
  explicit xml_remarks(bool is_strict) : is_strict_(is_strict) {}

  /// Throws: input_error with file, line and element if remarks are errors.
  void add(xml_element const& element, std::string const& what) {
    constexpr std::size_t most = 20;
    if (is_strict_) element.fail(what);
    auto const text = "<" + std::string(element.name()) + ">: " + what;
    if (known_.size() == most || !known_.insert(text).second) return;
    texts_.push_back("line " + std::to_string(element.line()) + ": " + text);
  }
  [[nodiscard]] std::vector<std::string> const& texts() const { return texts_; }

 private:
  bool is_strict_;
  std::set<std::string> known_;
  std::vector<std::string> texts_;
};

/// The name of an XML text's root element, behind declarations, comments and a document type. Empty
/// for any other text. Reads no further than that.
[[nodiscard]] inline std::string_view xml_root_name(std::string_view text) {
  auto const skip = [&](std::string_view end) {
    auto const at = text.find(end);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + end.size());
  };
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (text.starts_with("<?")) {
      skip("?>");
    } else if (text.starts_with("<!--")) {
      skip("-->");
    } else if (text.starts_with("<!")) {
      auto const inner = text.find_first_of("[>");  // a document type may hold declarations
      skip(inner != std::string_view::npos && text[inner] == '[' ? "]>" : ">");
    } else if (text.starts_with('<')) {
      return text.substr(1, std::min(text.find_first_of(" \t\r\n/>"), text.size()) - 1);
    } else {
      return {};
    }
  }
}

/// Parses an XML text into `document` and returns its root element, the only one at the top.
///
/// name:     of the root element
/// expected: the words of the error for another root element
/// Throws:   input_error with the line, for a text that is not well-formed or has another root.
[[nodiscard]] inline xml_element open_xml(xml_source const& from, pugi::xml_document& document,
                                          std::string const& name, std::string const& expected) {
  if (auto const zero = from.text.find('\0'); zero != std::string_view::npos) {
    fail_at(from.file, from.line_of(static_cast<std::ptrdiff_t>(zero)),
            "a zero byte, expected XML text");
  }
  auto const parsed = document.load_buffer(from.text.data(), from.text.size(), pugi::parse_default,
                                           pugi::encoding_utf8);
  if (!parsed) {
    fail_at(from.file, from.line_of(parsed.offset),
            std::string("not well-formed XML, or cut short: ") + parsed.description());
  }
  xml_element const root(from, document.document_element());
  if (root.name() != name) root.fail(expected);
  for (auto const beside : document.children()) {
    if (beside != root.node()) {
      xml_element(from, beside).fail("expected nothing beside <" + name + ">");
    }
  }
  return root;
}

}}}  // namespace blink::BLINK_ABI::detail
