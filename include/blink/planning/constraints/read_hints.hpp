// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/detail/json_fields.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan_file.hpp>
#include <blink/planning/plan/plan_request.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// The version of the hints format that `read_hints` reads; `docs/hints.md` describes it.
inline constexpr int hints_format = 1;

namespace detail {

/// Reads a map from node ids to integers. JSON keys are text, so the ids are text there.
[[nodiscard]] inline std::map<int, int> read_id_map(plan_reader const& read,
                                                    nlohmann::json const& value,
                                                    std::string const& where) {
  if (!value.is_object()) read.fail(where, "expected an object such as {\"0\": 1}");
  std::map<int, int> result;
  for (auto const& [key, entry] : value.items()) {
    int id = 0;
    auto const [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (failure != std::errc{} || end != key.data() + key.size()) {
      read.fail(where, "found the key \"" + key.substr(0, 40) + "\", expected a node id");
    }
    result.emplace(id, read.integer(entry, where + "." + key));
  }
  return result;
}

}  // namespace detail

/// Reads constraints of a plan from JSON. Unlike in plan files, an unknown key is an error;
/// otherwise a misspelt hint would be ignored.
///
/// file: the name to show in errors.
/// Throws: input_error with the line (malformed text) or the field, and what was expected.
[[nodiscard]] inline plan_constraints read_hints(std::string_view text, std::string const& file) {
  detail::plan_reader const read(file);
  auto const document = read.document(text, "hints", "blink_hints", hints_format);
  constexpr std::array<std::string_view, 11> keys{
      "blink_hints",    "max_trees",        "max_height",      "weight_unit",
      "trees_per_root", "forwarding_ranks", "shares",          "forbidden_links",
      "symmetries",     "required_links",   "balance_switches"};
  for (auto const& [key, value] : document.items()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    std::string known;
    for (auto const each : keys) known += (known.empty() ? "" : ", ") + std::string(each);
    read.fail(key.substr(0, 40), "unknown key, expected one of " + known);
  }
  plan_constraints result;
  for (auto const& [key, option] :
       {std::pair("max_trees", &result.max_trees), std::pair("max_height", &result.max_height),
        std::pair("trees_per_root", &result.trees_per_root)}) {
    if (document.contains(key)) *option = read.integer(document[key], key);
  }
  if (document.contains("weight_unit")) {
    result.weight_unit = read.fraction(document["weight_unit"], "weight_unit");
  }
  for (auto const& [key, option] : {std::pair("forbidden_links", &result.forbidden_links),
                                    std::pair("required_links", &result.required_links)}) {
    if (document.contains(key)) *option = read.links(document[key], key);
  }
  if (document.contains("balance_switches")) {
    if (!document["balance_switches"].is_boolean())
      read.fail("balance_switches", "expected true or false");
    // of earlier versions; every plan balances switches now where it must
  }
  if (document.contains("forwarding_ranks"))
    result.forwarding_ranks = read.integers(document["forwarding_ranks"], "forwarding_ranks");
  if (document.contains("shares")) {
    for (auto const& [id, share] : detail::read_id_map(read, document["shares"], "shares")) {
      result.shares.emplace(id, share);
    }
  }
  if (document.contains("symmetries")) {
    for (auto const& entry : read.array(document["symmetries"], "symmetries")) {
      result.symmetries.push_back(detail::read_id_map(
          read, entry, "symmetries" + detail::plan_reader::at(result.symmetries.size())));
    }
  }
  return result;
}

/// Reads hints from a file. Throws: input_error.
[[nodiscard]] inline plan_constraints read_hints_file(std::string const& file) {
  return read_hints(detail::file_text(file, "hints"), file);
}

}}  // namespace blink::BLINK_ABI
