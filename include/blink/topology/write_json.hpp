// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/topology.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// A machine as JSON text, one node or link a line. `read_json` makes an equal machine of it.
///
/// A capacity is a decimal if at most 9 decimals are exact, else a fraction as text.
///
/// Pre:    node ids are not negative; texts are UTF-8 (other bytes are replaced); no UUID is empty.
/// Throws: input_error if `validate(machine)` does.
[[nodiscard]] std::string write_json(topology const& machine);

namespace detail {

/// 25/2 as 12.5; in quotes as "25/3" if no decimal of 9 digits after the point is equal.
inline std::string decimal_or_fraction(rational const& value) {
  std::int64_t denominator = value.denominator();
  int decimals = 0;
  std::int64_t scale = 1;
  while (scale % denominator != 0 && decimals < 9) {
    scale *= 10;
    ++decimals;
  }
  if (scale % denominator != 0) return '"' + value.to_text() + '"';
  auto const whole = value.numerator() / denominator;
  if (decimals == 0) return std::to_string(whole);
  auto fraction = std::to_string(value.numerator() % denominator * (scale / denominator));
  fraction.insert(0, static_cast<std::size_t>(decimals) - fraction.size(), '0');
  return std::to_string(whole) + "." + fraction;
}

}  // namespace detail

inline std::string write_json(topology const& machine) {
  validate(machine);
  auto const text = [](std::string const& value) {
    return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  auto const ranks = machine.rank_positions().size();
  std::string result =
      "{\n  \"name\": " + text(machine.name) + ",\n  \"unit\": " + text(machine.unit);
  std::int64_t needed = 1;  // the steps that the reader chooses by itself
  for (auto const& l : machine.links) {
    needed = std::lcm(needed, rational(l.capacity, machine.steps_per_unit).denominator());
  }
  if (needed != machine.steps_per_unit) {
    result += ",\n  \"steps_per_unit\": " + std::to_string(machine.steps_per_unit);
  }
  result += ",\n  \"gpus\": " + std::to_string(ranks) +
            ",\n  \"switches\": " + std::to_string(machine.nodes.size() - ranks) +
            ",\n  \"nodes\": [";
  char const* separator = "\n";
  for (auto const& n : machine.nodes) {
    bool const is_rank = n.kind == node_kind::rank;
    result += separator;
    result += "    {\"id\": " + std::to_string(n.id) + ", \"kind\": \"" +
              (is_rank ? "gpu" : "switch") + "\", \"label\": " + text(n.label);
    if (is_rank || n.server >= 0) result += ", \"server\": " + std::to_string(n.server);
    if (n.copies) result += ", \"copies\": true";
    if (n.reduces) result += ", \"reduces\": true";
    for (std::size_t i = 0; i < n.uuids.size(); ++i) {
      result += (i == 0 ? ", \"uuids\": [" : ", ") + text(n.uuids[i]);
    }
    if (!n.uuids.empty()) result += "]";
    if (!n.bus_id.empty()) result += ", \"bus_id\": " + text(n.bus_id);
    result += "}";
    separator = ",\n";
  }
  result += "\n  ],\n  \"links\": [";
  separator = "\n";
  for (auto const& l : machine.links) {
    auto const id = [&](int position) {
      return std::to_string(machine.nodes[static_cast<std::size_t>(position)].id);
    };
    result += separator;
    result += "    {\"src\": " + id(l.tail) + ", \"dst\": " + id(l.head) + ", \"capacity\": " +
              detail::decimal_or_fraction(rational(l.capacity, machine.steps_per_unit));
    if (l.latency_seconds != 0) {
      result += ", \"latency\": " + nlohmann::json(l.latency_seconds).dump();
    }
    if (l.kind != link_kind::unknown)
      result += ", \"kind\": \"" + std::string(to_text(l.kind)) + "\"";
    result += "}";
    separator = ",\n";
  }
  return result + "\n  ]\n}\n";
}

}}  // namespace blink::BLINK_ABI
