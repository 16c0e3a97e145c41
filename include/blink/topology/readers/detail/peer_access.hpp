// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// True for a cell of `nvidia-smi topo -p2p` that is not the diagonal.
[[nodiscard]] inline bool is_access_answer(std::string_view word) {
  constexpr std::array<std::string_view, 7> answers{"OK", "NS", "CNS", "GNS", "TNS", "DR", "U"};
  return std::find(answers.begin(), answers.end(), word) != answers.end();
}

/// Finds the tables of `nvidia-smi topo -p2p` in a text that may hold others.
class peer_access_reader {
 public:
  explicit peer_access_reader(std::string_view text) : lines_(text_lines(text)) {}

  /// Pairs of GPUs whose cell is no OK, smaller number first. Tables of NVLink (-p2p n) and atomics
  /// (-p2p a) do not count, if their command stands above.
  [[nodiscard]] std::set<std::pair<int, int>> pairs_without() {
    std::set<std::pair<int, int>> result;
    std::vector<int> columns;
    bool counts = true;
    for (auto const& line : lines_) {
      auto const words = words_of(line);
      if (words.empty()) continue;
      if (auto const command = std::find(words.begin(), words.end(), "-p2p");
          command != words.end()) {
        auto const next = command + 1 == words.end() ? std::string_view{} : *(command + 1);
        counts = !next.starts_with('n') && !next.starts_with('a');
      } else if (auto names = gpus_of(words); names.size() == words.size()) {
        columns = std::move(names);
      } else if (columns.empty() || words.size() != columns.size() + 1) {
        columns.clear();
      } else {
        add_row(words, columns, counts, result);
      }
    }
    return result;
  }

 private:
  static void add_row(std::vector<std::string_view> const& words, std::vector<int> const& columns,
                      bool counts, std::set<std::pair<int, int>>& result) {
    auto const row = gpus_of({words.front()});
    for (std::size_t i = 0; i < columns.size() && counts && !row.empty(); ++i) {
      bool const is_refused = is_access_answer(words[i + 1]) && words[i + 1] != "OK";
      if (is_refused) result.insert(std::minmax(row.front(), columns[i]));
    }
  }

  /// The numbers of the GPUs that words name, up to the first other word.
  [[nodiscard]] static std::vector<int> gpus_of(std::vector<std::string_view> const& words) {
    std::vector<int> result;
    constexpr std::size_t most_digits = 4;
    for (auto const word : words) {
      auto const digits = word.substr(std::min<std::size_t>(word.size(), 3));
      if (!word.starts_with("GPU") || !is_digits(digits) || digits.size() > most_digits) break;
      result.push_back(std::stoi(std::string(digits)));
    }
    return result;
  }

  std::vector<std::string> lines_;
};

}}}  // namespace blink::BLINK_ABI::detail
