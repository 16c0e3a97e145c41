// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/detail/json_fields.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The version of the plan format that `write_plan` writes; `docs/plan_file.md` describes it.
inline constexpr int plan_file_format = 1;

namespace detail {

[[nodiscard]] inline nlohmann::ordered_json proof_as_json(certificate const& proof) {
  using json = nlohmann::ordered_json;
  struct proof_writer {
    json operator()(no_certificate) const { return {{"kind", "none"}}; }
    json operator()(cut_certificate const& c) const {
      return {{"kind", "cut"}, {"nodes", c.nodes}};
    }
    json operator()(partition_certificate const& c) const {
      return {{"kind", "partition"}, {"parts", c.parts}};
    }
    json operator()(price_certificate const& c) const {
      json prices = json::array();
      for (auto const& p : c.prices) prices.push_back({p.from, p.to, p.price.to_text()});
      return {{"kind", "prices"}, {"prices", std::move(prices)}};
    }
  };
  return std::visit(proof_writer{}, proof);
}

}  // namespace detail

/// A plan as JSON text, format 1: exact fractions as text, one tree a line.
[[nodiscard]] inline std::string write_plan(plan const& plan) {
  using json = nlohmann::ordered_json;
  auto const edges = [](std::vector<tree_edge> const& phase) {
    json result = json::array();
    for (auto const& e : phase) result.push_back({e.from, e.to, e.path});
    return result;
  };
  std::vector<std::pair<std::string, json>> fields{{"blink_plan", plan_file_format},
                                                   {"collective", to_text(plan.collective)},
                                                   {"planner", plan.planner},
                                                   {"unit", plan.unit}};
  if (!plan.links.empty()) fields.emplace_back("links", plan.links);
  fields.emplace_back("ranks", plan.ranks);
  if (!plan.forwarding_ranks.empty())
    fields.emplace_back("forwarding_ranks", plan.forwarding_ranks);
  if (!plan.forbidden_links.empty()) {
    fields.emplace_back("forbidden_links", plan.forbidden_links);
  }
  if (!plan.shares.empty()) fields.emplace_back("shares", plan.shares);
  if (!plan.destinations.empty()) fields.emplace_back("destinations", plan.destinations);
  fields.emplace_back("rate", plan.rate.to_text());
  fields.emplace_back("bound", plan.bound.to_text());
  fields.emplace_back("certificate", detail::proof_as_json(plan.proof));

  std::string text = "{\n";
  for (auto const& [key, value] : fields) text += "  \"" + key + "\": " + value.dump() + ",\n";
  text += "  \"trees\": [";
  for (std::size_t i = 0; i < plan.trees.size(); ++i) {
    auto const& t = plan.trees[i];
    json out = {{"root", t.root}, {"weight", t.weight.to_text()}};
    if (has_reduce_phase(plan.collective)) out["reduce"] = edges(t.reduce);
    if (has_broadcast_phase(plan.collective)) out["broadcast"] = edges(t.broadcast);
    if (!t.members.empty()) out["members"] = t.members;
    text += (i == 0 ? "\n    " : ",\n    ") + out.dump();
  }
  return text + (plan.trees.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

namespace detail {

/// Reads the fields of plan files.
class plan_reader : public json_fields {
 public:
  using json_fields::json_fields;

  /// A fraction as text, or an integer.
  rational fraction(json const& value, std::string const& where) const {
    auto const read = value.is_string()           ? rational::from_text(value.get<std::string>())
                      : value.is_number_integer() ? rational::from_text(value.dump())
                                                  : std::nullopt;
    if (!read) fail(where, "found " + excerpt(value) + ", expected a fraction such as \"24/7\"");
    return *read;
  }
  std::vector<std::pair<int, int>> links(json const& value, std::string const& where) const {
    std::vector<std::pair<int, int>> result;
    for (auto const& entry : array(value, where)) {
      auto const here = where + at(result.size());
      if (array(entry, here).size() != 2) fail(here, "expected [from, to]");
      result.emplace_back(integer(entry[0], here + "[0]"), integer(entry[1], here + "[1]"));
    }
    return result;
  }
  std::vector<tree_edge> edges(json const& value, std::string const& where) const {
    std::vector<tree_edge> result;
    for (auto const& entry : array(value, where)) {
      auto const here = where + at(result.size());
      if (array(entry, here).size() != 3) fail(here, "expected [from, to, path]");
      result.push_back({integer(entry[0], here + "[0]"), integer(entry[1], here + "[1]"),
                        integers(entry[2], here + "[2]")});
    }
    return result;
  }
  certificate proof(json const& value) const {
    std::string const where = "certificate";
    auto const kind = text(field(value, where, "kind"), where + ".kind");
    if (kind == "none") return no_certificate{};
    if (kind == "cut") {
      return cut_certificate{integers(field(value, where, "nodes"), where + ".nodes")};
    }
    if (kind == "partition") {
      partition_certificate result;
      for (auto const& part : array(field(value, where, "parts"), where + ".parts")) {
        result.parts.push_back(integers(part, where + ".parts" + at(result.parts.size())));
      }
      return result;
    }
    if (kind == "prices") {
      price_certificate result;
      for (auto const& entry : array(field(value, where, "prices"), where + ".prices")) {
        auto const here = where + ".prices" + at(result.prices.size());
        if (array(entry, here).size() != 3) fail(here, "expected [from, to, price]");
        result.prices.push_back({integer(entry[0], here + "[0]"), integer(entry[1], here + "[1]"),
                                 fraction(entry[2], here + "[2]")});
      }
      return result;
    }
    fail(where + ".kind", "found \"" + kind + "\", expected cut, partition, prices or none");
  }
};

}  // namespace detail

/// Reads a plan. Unknown keys are ignored, and the plan is not checked: call `check_plan` for that.
///
/// file: the name to show in errors.
/// Throws: input_error with the line (malformed text) or the field, and what was expected.
[[nodiscard]] inline plan read_plan(std::string_view text, std::string const& file) {
  detail::plan_reader const read(file);
  auto const document = read.document(text, "a plan file", "blink_plan", plan_file_format);
  plan result;
  result.collective = read.kind(read.field(document, "", "collective"), "collective");
  result.planner = read.text(read.field(document, "", "planner"), "planner");
  result.unit = read.text(read.field(document, "", "unit"), "unit");
  if (document.contains("links")) result.links = read.text(document["links"], "links");
  result.ranks = read.integers(read.field(document, "", "ranks"), "ranks");
  if (document.contains("forwarding_ranks"))
    result.forwarding_ranks = read.integers(document["forwarding_ranks"], "forwarding_ranks");
  if (document.contains("forbidden_links")) {
    result.forbidden_links = read.links(document["forbidden_links"], "forbidden_links");
  }
  if (document.contains("shares")) {
    for (int const share : read.integers(document["shares"], "shares")) {
      result.shares.push_back(share);
    }
  }
  result.rate = read.fraction(read.field(document, "", "rate"), "rate");
  result.bound = read.fraction(read.field(document, "", "bound"), "bound");
  result.proof = read.proof(read.field(document, "", "certificate"));
  for (auto const& entry : read.array(read.field(document, "", "trees"), "trees")) {
    auto const where = "trees" + read.at(result.trees.size());
    tree t;
    t.root = read.integer(read.field(entry, where, "root"), where + ".root");
    t.weight = read.fraction(read.field(entry, where, "weight"), where + ".weight");
    for (auto const& [key, phase] :
         {std::pair("reduce", &t.reduce), std::pair("broadcast", &t.broadcast)}) {
      if (entry.contains(key)) *phase = read.edges(entry[key], where + "." + key);
    }
    if (entry.contains("members")) {
      t.members = read.integers(entry["members"], where + ".members");
    }
    result.trees.push_back(std::move(t));
  }
  if (document.contains("destinations")) {
    result.destinations = read.integers(document["destinations"], "destinations");
  }
  return result;
}

/// Reads a plan from a file. Throws: input_error.
[[nodiscard]] inline plan read_plan_file(std::string const& file) {
  return read_plan(detail::file_text(file, "a plan file"), file);
}

/// Writes a plan to a file. Throws: input_error if the file cannot be written.
inline void write_plan_file(plan const& plan, std::string const& file) {
  detail::write_text(file, write_plan(plan));
}

}}  // namespace blink::BLINK_ABI
