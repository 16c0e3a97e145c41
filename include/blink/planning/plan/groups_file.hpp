// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/planning/plan/groups_plan.hpp>
#include <blink/planning/plan/plan_file.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// The version of the format that `write_groups` writes; `docs/groups.md` describes it.
inline constexpr int groups_file_format = 1;

/// Plans of groups as JSON text, format 1: the levels, and each plan as in a plan file.
[[nodiscard]] inline std::string write_groups(groups_plan const& groups) {
  using json = nlohmann::ordered_json;
  std::string text = "{\n  \"blink_groups\": " + std::to_string(groups_file_format) + ",\n";
  text += "  \"forwarding_ranks\": " + json(groups.forwarding_ranks).dump() + ",\n  \"levels\": [";
  for (std::size_t i = 0; i < groups.levels.size(); ++i) {
    auto const& level = groups.levels[i];
    json out = {{"groups", level.groups},
                {"rate", level.rate.to_text()},
                {"bound", level.bound.to_text()},
                {"certificate", detail::proof_as_json(level.proof)}};
    text += (i == 0 ? "\n    " : ",\n    ") + out.dump();
  }
  text += groups.levels.empty() ? "],\n" : "\n  ],\n";
  text += "  \"plans\": [";
  for (std::size_t i = 0; i < groups.plans.size(); ++i) {
    auto plan = write_plan(groups.plans[i]);
    plan.pop_back();  // the end of the line
    text += (i == 0 ? "\n" : ",\n") + plan;
  }
  return text + "\n  ]\n}\n";
}

/// Reads plans of groups. They are not checked: call `check_groups` for that.
///
/// file: the name to show in errors.
/// Throws: input_error with the line (malformed text) or the field, and what was expected.
[[nodiscard]] inline groups_plan read_groups(std::string_view text, std::string const& file) {
  detail::plan_reader const read(file);
  auto const document = read.document(text, "plans of groups", "blink_groups", groups_file_format);
  groups_plan result;
  result.forwarding_ranks =
      read.integers(read.field(document, "", "forwarding_ranks"), "forwarding_ranks");
  for (auto const& entry : read.array(read.field(document, "", "levels"), "levels")) {
    auto const where = "levels" + read.at(result.levels.size());
    groups_level level;
    for (int const g : read.integers(read.field(entry, where, "groups"), where + ".groups")) {
      if (g < 0) read.fail(where + ".groups", "found a negative position");
      level.groups.push_back(static_cast<std::size_t>(g));
    }
    level.rate = read.fraction(read.field(entry, where, "rate"), where + ".rate");
    level.bound = read.fraction(read.field(entry, where, "bound"), where + ".bound");
    auto proof = read.proof(read.field(entry, where, "certificate"));
    auto* const prices = std::get_if<price_certificate>(&proof);
    if (prices == nullptr) read.fail(where + ".certificate.kind", "expected prices");
    level.proof = std::move(*prices);
    result.levels.push_back(std::move(level));
  }
  for (auto const& entry : read.array(read.field(document, "", "plans"), "plans")) {
    result.plans.push_back(
        read_plan(entry.dump(), file + ": plans" + read.at(result.plans.size())));
  }
  return result;
}

/// Reads plans of groups from a file. Throws: input_error.
[[nodiscard]] inline groups_plan read_groups_file(std::string const& file) {
  return read_groups(detail::file_text(file, "plans of groups"), file);
}

/// Writes plans of groups to a file. Throws: input_error if the file cannot be written.
inline void write_groups_file(groups_plan const& groups, std::string const& file) {
  detail::write_text(file, write_groups(groups));
}

}}  // namespace blink::BLINK_ABI
