// SPDX-License-Identifier: Apache-2.0
// `peers_table FILE.json < LINES`: reads what peers printed in several rounds, takes the median of
// each cell, prints a table for each operation and number of ranks, and writes all as one JSON.

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using cell_key = std::tuple<std::string, int, std::size_t, std::string>;  // what, ranks, bytes, who

double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string size_text(std::size_t bytes) {
  for (auto const& [unit, name] : {std::pair{std::size_t{1} << 20, "MiB"}, {1 << 10, "KiB"}}) {
    if (bytes >= unit) return std::to_string(bytes / unit) + " " + name;
  }
  return std::to_string(bytes) + " B";
}

/// A peer may have printed a cell in several ways (the ceiling has three): the best counts.
std::map<cell_key, double> read_cells(std::istream& lines, std::size_t& rounds) {
  std::map<cell_key, std::map<int, std::vector<double>>> ways;
  std::string line;
  std::map<cell_key, int> printed;  // in this round
  while (std::getline(lines, line)) {
    if (line == "round") {
      printed.clear();
      ++rounds;
      continue;
    }
    auto const value = nlohmann::json::parse(line);
    cell_key const key{value.at("operation"), value.at("ranks"), value.at("bytes"),
                       value.at("peer")};
    ways[key][printed[key]++].push_back(value.at("us"));
  }
  std::map<cell_key, double> result;
  for (auto const& [key, of_way] : ways) {
    double best = 0;
    for (auto const& [way, times] : of_way) {
      double const middle = median(times);
      best = best == 0 ? middle : std::min(best, middle);
    }
    result[key] = best;
  }
  return result;
}

/// One table: sizes down, peers across; microseconds and, in brackets, the ratio to the ceiling.
void print_table(std::map<cell_key, double> const& cells, std::string const& what, int ranks,
                 std::vector<std::string> const& peers) {
  std::printf("\n%s, %d ranks: us (times the ceiling)\n\n| bytes |", what.c_str(), ranks);
  for (auto const& peer : peers) std::printf(" %s |", peer.c_str());
  std::printf("\n| --- |");
  for (std::size_t k = 0; k < peers.size(); ++k) std::printf(" --- |");
  std::printf("\n");
  std::vector<std::size_t> sizes;
  for (auto const& [key, us] : cells) {
    auto const& [its_what, its_ranks, bytes, peer] = key;
    if (its_what == what && its_ranks == ranks && (sizes.empty() || sizes.back() != bytes)) {
      sizes.push_back(bytes);
    }
  }
  for (auto const bytes : sizes) {
    std::printf("| %s |", size_text(bytes).c_str());
    auto const ceiling = cells.find({what, ranks, bytes, "ceiling"});
    for (auto const& peer : peers) {
      auto const cell = cells.find({what, ranks, bytes, peer});
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
    std::size_t rounds = 0;
    auto const cells = read_cells(std::cin, rounds);
    auto report = nlohmann::json::object();
    report["rounds"] = rounds;
    report["cells"] = nlohmann::json::array();
    std::vector<std::pair<std::string, int>> tables;
    std::vector<std::string> peers;
    for (auto const& [key, us] : cells) {
      auto const& [what, ranks, bytes, peer] = key;
      if (std::find(tables.begin(), tables.end(), std::pair{what, ranks}) == tables.end()) {
        tables.emplace_back(what, ranks);
      }
      if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
      auto cell = nlohmann::json{
          {"operation", what}, {"ranks", ranks}, {"bytes", bytes}, {"peer", peer}, {"us", us}};
      if (auto const ceiling = cells.find({what, ranks, bytes, "ceiling"});
          ceiling != cells.end()) {
        cell["of_ceiling"] = us / ceiling->second;
      }
      report["cells"].push_back(std::move(cell));
    }
    // The ceiling first, then ours, then the others.
    std::sort(peers.begin(), peers.end(), [](auto const& a, auto const& b) {
      auto const place = [](std::string const& name) {
        return name == "ceiling" ? 0 : name.starts_with("blink") ? 1 : 2;
      };
      return std::pair(place(a), a) < std::pair(place(b), b);
    });
    for (auto const& [what, ranks] : tables) print_table(cells, what, ranks, peers);
    std::ofstream file(texts[1]);
    file << report.dump(1) << '\n';
    if (!file.flush()) throw std::runtime_error(std::string("cannot write ") + texts[1]);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "peers_table: %s\n", problem.what());
    return 1;
  }
}
