// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/topology/measured_rates.hpp>
#include <blink/topology/slow_links.hpp>

#include "probe_report.hpp"
#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <vector>

// The tables of `blink probe`, for --json and --csv. Rates are in GB/s; null was not measured.

namespace blink::tools {

inline constexpr std::array probe_table_names = {
    "pairs", "ranks", "hosts", "host_pairs", "clusters", "cluster_pairs", "all_reduces", "links"};

namespace probe_rows {

using rows = nlohmann::ordered_json;

/// A measured number times a scale; null if it was not measured.
inline rows scaled(double measured, double scale = 1e-9) {
  return measured > 0 ? rows(measured * scale) : rows();
}

inline double at(host_table const& table, std::size_t from, std::size_t to) {
  return table.empty() ? 0 : table[from][to];
}

/// Calls `row(from, to)` for each pair of different numbers below `count`.
template <class Row>
[[nodiscard]] rows of_pairs(std::size_t count, Row const& row) {
  auto result = rows::array();
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = 0; to < count; ++to) {
      if (from != to) result.push_back(row(from, to));
    }
  }
  return result;
}

/// Adds the rows of a level of clusters.
inline void add_level(rows& tables, measured_rates const& rates, std::size_t level) {
  auto const& here = rates.levels[level];
  auto const members = rates.hosts_of_clusters(level);
  for (std::size_t c = 0; c < members.size(); ++c) {
    tables["clusters"].push_back({{"level", level + 1},
                                  {"cluster", c},
                                  {"out_gigabytes_per_second", scaled(here.out[c])},
                                  {"in_gigabytes_per_second", scaled(here.in[c])},
                                  {"hosts", members[c]}});
  }
  for (auto& row : of_pairs(members.size(), [&](std::size_t from, std::size_t to) {
         return rows{{"level", level + 1},
                     {"from", from},
                     {"to", to},
                     {"gigabytes_per_second", scaled(at(here.between, from, to))}};
       })) {
    tables["cluster_pairs"].push_back(row);
  }
}

}  // namespace probe_rows

/// Returns the rows of each table by its name.
///
/// slow, fast: links whose rates are not those described
[[nodiscard]] inline nlohmann::ordered_json probe_tables(measured_rates const& rates,
                                                         std::vector<probe_check> const& checks,
                                                         std::vector<link_difference> const& slow,
                                                         std::vector<link_difference> const& fast) {
  using namespace probe_rows;
  rows result;
  for (auto const* const name : probe_table_names) result[name] = rows::array();
  result["pairs"] = of_pairs(rates.ranks(), [&](std::size_t from, std::size_t to) {
    return rows{{"from", from},
                {"to", to},
                {"gigabytes_per_second", scaled(at(rates.alone, from, to))},
                {"answer_microseconds", scaled(at(rates.start_up, from, to), 1e6)}};
  });
  for (std::size_t rank = 0; rank < rates.ranks(); ++rank) {
    double const together = rank < rates.together.size() ? rates.together[rank] : 0;
    result["ranks"].push_back({{"rank", rank},
                               {"host", rates.host_of[rank]},
                               {"together_gigabytes_per_second", scaled(together)}});
  }
  for (std::size_t host = 0; host < rates.hosts(); ++host) {
    result["hosts"].push_back({{"host", host},
                               {"out_gigabytes_per_second", scaled(rates.out[host])},
                               {"in_gigabytes_per_second", scaled(rates.in[host])}});
  }
  result["host_pairs"] = of_pairs(rates.hosts(), [&](std::size_t from, std::size_t to) {
    return rows{{"from", from},
                {"to", to},
                {"gigabytes_per_second", scaled(at(rates.between, from, to))},
                {"loaded_gigabytes_per_second", scaled(at(rates.loaded, from, to))}};
  });
  for (std::size_t level = 0; level < rates.levels.size(); ++level) {
    add_level(result, rates, level);
  }
  for (auto const& check : checks) {
    result["all_reduces"].push_back({{"planner", check.planner},
                                     {"bytes", check.bytes},
                                     {"gigabytes_per_second", check.rate},
                                     {"predicted_microseconds", check.predicted * 1e6},
                                     {"measured_microseconds", check.measured * 1e6}});
  }
  auto const add_links = [&](char const* how, std::vector<link_difference> const& links) {
    for (auto const& one : links) {
      result["links"].push_back({{"from", one.from},
                                 {"to", one.to},
                                 {"found", how},
                                 {"gigabytes_per_second", one.measured * 1e-9},
                                 {"described_gigabytes_per_second", one.described * 1e-9}});
    }
  };
  add_links("slower", slow);
  add_links("faster", fast);
  return result;
}

}  // namespace blink::tools
