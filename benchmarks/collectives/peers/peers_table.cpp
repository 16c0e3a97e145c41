// SPDX-License-Identifier: Apache-2.0
// `peers_table FILE.json < LINES`: reads the lines that peers printed in several rounds and takes
// the median of each cell. It prints a table for each operation and number of ranks, and writes one
// JSON file.
//
// A virtual machine may move: its cores are near each other at one time and far apart at another.
// Small calls then take several times as long. Measurements with more than 100 ns for a cache line
// between the cores go into separate tables, because cores with a common cache need less.
// Measurements during a change are dropped.

#include "../median.hpp"
#include <nlohmann/json.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

enum class distance { unknown, near, far };

/// The key of one table.
struct table_key {
  std::string what;
  int ranks = 0;
  distance cores = distance::unknown;
  auto operator<=>(table_key const&) const = default;
};

struct cell_key {
  table_key table;
  std::size_t bytes = 0;
  std::string peer;
  auto operator<=>(cell_key const&) const = default;
};

char const* text_of(distance cores) {
  return cores == distance::near ? "near" : cores == distance::far ? "far" : "unknown";
}

std::string size_text(std::size_t bytes) {
  for (auto const& [unit, name] : {std::pair{std::size_t{1} << 20, "MiB"}, {1 << 10, "KiB"}}) {
    if (bytes >= unit) return std::to_string(bytes / unit) + " " + name;
  }
  return std::to_string(bytes) + " B";
}

/// The lines that peers printed in all rounds.
struct measured_rounds {
  struct row {
    nlohmann::json value;
    double hops[2] = {};  // nanoseconds from core to core, before and after; 0: unknown
    int way = 0;          // a peer may print a cell for several variants: the ceiling has three
  };
  std::vector<row> rows;
  std::size_t rounds = 0;
  double shortest_hop = 0;

  explicit measured_rounds(std::istream& lines) {
    std::map<std::vector<std::string>, int> printed;  // in this round
    for (std::string line; std::getline(lines, line);) {
      if (line == "round") {
        printed.clear();
        ++rounds;
        continue;
      }
      row next{nlohmann::json::parse(line)};
      auto const& value = next.value;
      next.way = printed[{value.at("operation"), value.at("peer"), value.at("ranks").dump(),
                          value.at("bytes").dump()}]++;
      for (std::size_t k = 0; k < 2; ++k) {
        double const hop = value.at("hops").at(k);
        next.hops[k] = hop;
        if (hop > 0 && (shortest_hop == 0 || hop < shortest_hop)) shortest_hop = hop;
      }
      rows.push_back(std::move(next));
    }
  }
};

distance cores_at(double hop) {
  if (hop == 0) return distance::unknown;
  return hop <= 100 ? distance::near : distance::far;
}

/// Medians of all rounds; of a peer's variants the best counts.
std::map<cell_key, double> cells_of(measured_rounds const& all, std::size_t& dropped) {
  std::map<cell_key, std::map<int, std::vector<double>>> ways;
  for (auto const& row : all.rows) {
    auto const cores = cores_at(row.hops[0]);
    if (cores != cores_at(row.hops[1])) {
      ++dropped;
      continue;
    }
    auto const& value = row.value;
    cell_key const key{
        {value.at("operation"), value.at("ranks"), cores}, value.at("bytes"), value.at("peer")};
    ways[key][row.way].push_back(value.at("us"));
  }
  std::map<cell_key, double> result;
  for (auto const& [key, of_way] : ways) {
    double best = 0;
    for (auto const& [way, times] : of_way) {
      double const middle = blink_bench::median(times);
      best = best == 0 ? middle : std::min(best, middle);
    }
    result[key] = best;
  }
  return result;
}

/// Prints one table: sizes down, peers across; microseconds and, in brackets, the ratio to the
/// ceiling.
void print_table(std::map<cell_key, double> const& cells, table_key const& of,
                 std::vector<std::string> const& peers) {
  std::printf("\n%s, %d ranks", of.what.c_str(), of.ranks);
  if (of.cores != distance::unknown) std::printf(", cores %s", text_of(of.cores));
  std::printf(": us (times the ceiling)\n\n| bytes |");
  for (auto const& peer : peers) std::printf(" %s |", peer.c_str());
  std::printf("\n| --- |");
  for (std::size_t k = 0; k < peers.size(); ++k) std::printf(" --- |");
  std::printf("\n");
  std::vector<std::size_t> sizes;
  for (auto const& [key, us] : cells) {
    if (key.table == of && (sizes.empty() || sizes.back() != key.bytes)) {
      sizes.push_back(key.bytes);
    }
  }
  for (auto const bytes : sizes) {
    std::printf("| %s |", size_text(bytes).c_str());
    auto const ceiling = cells.find({of, bytes, "ceiling"});
    for (auto const& peer : peers) {
      auto const cell = cells.find({of, bytes, peer});
      if (cell == cells.end()) {
        std::printf(" - |");
      } else if (ceiling == cells.end() || peer == "ceiling") {
        std::printf(" %.4g |", cell->second);
      } else {
        std::printf(" %.4g (%.2f) |", cell->second, cell->second / ceiling->second);
      }
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int count, char** texts) {
  try {
    if (count != 2) throw std::runtime_error("expected FILE.json");
    measured_rounds const all(std::cin);
    std::size_t dropped = 0;
    auto const cells = cells_of(all, dropped);
    auto report = nlohmann::json::object();
    report["rounds"] = all.rounds;
    report["shortest_hop_nanoseconds"] = all.shortest_hop;
    report["dropped"] = dropped;
    report["cells"] = nlohmann::json::array();
    std::set<table_key> tables;
    std::vector<std::string> peers;
    for (auto const& [key, us] : cells) {
      tables.insert(key.table);
      if (std::find(peers.begin(), peers.end(), key.peer) == peers.end()) {
        peers.push_back(key.peer);
      }
      auto cell = nlohmann::json{{"operation", key.table.what},
                                 {"ranks", key.table.ranks},
                                 {"bytes", key.bytes},
                                 {"peer", key.peer},
                                 {"us", us},
                                 {"cores", text_of(key.table.cores)}};
      if (auto const ceiling = cells.find({key.table, key.bytes, "ceiling"});
          ceiling != cells.end()) {
        cell["of_ceiling"] = us / ceiling->second;
      }
      report["cells"].push_back(std::move(cell));
    }
    // The ceiling first, then blink, then the other peers.
    std::sort(peers.begin(), peers.end(), [](auto const& a, auto const& b) {
      auto const place = [](std::string const& name) {
        return name == "ceiling" ? 0 : name.starts_with("blink") ? 1 : 2;
      };
      return std::pair(place(a), a) < std::pair(place(b), b);
    });
    std::printf("from core to core at least %.0f ns; %zu of %zu measurements dropped\n",
                all.shortest_hop, dropped, all.rows.size());
    for (auto const& of : tables) print_table(cells, of, peers);
    std::ofstream file(texts[1]);
    file << report.dump(1) << '\n';
    if (!file.flush()) throw std::runtime_error(std::string("cannot write ") + texts[1]);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "peers_table: %s\n", problem.what());
    return 1;
  }
}
