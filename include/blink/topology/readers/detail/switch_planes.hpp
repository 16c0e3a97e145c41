// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The NVSwitches of one server, as its GPUs list them: which of them count as one node.
///
/// - If all GPUs have the same links to each switch, one node has the sum of the links. It lets
///   through as much, and has simpler plans.
/// - If a GPU lacks some of these links, each switch is a node.
/// - If groups of GPUs share no switch, as the two boards of a DGX-2, one node stands for all. What
///   GPUs list does not include the links between boards.
class switch_planes {
 public:
  using links_of_gpu = std::map<std::uint64_t, std::int64_t>;  ///< number or rate, by switch

  void add_gpu(links_of_gpu const& links) {
    if (!links.empty()) lists_.insert(links);
  }

  /// The number of groups of GPUs that share no switch. Valid after the last GPU.
  [[nodiscard]] std::size_t board_count() const {
    std::vector<std::set<std::uint64_t>> boards;
    for (auto const& list : lists_) {
      std::set<std::uint64_t> joined;
      for (auto const& [plane, links] : list) joined.insert(plane);
      std::erase_if(boards, [&](std::set<std::uint64_t> const& board) {
        bool const shares = std::any_of(board.begin(), board.end(),
                                        [&](auto plane) { return list.contains(plane); });
        if (shares) joined.insert(board.begin(), board.end());
        return shares;
      });
      boards.push_back(std::move(joined));
    }
    return boards.size();
  }
  /// True if one node stands for all switches.
  [[nodiscard]] bool are_one() const { return lists_.size() < 2 || board_count() > 1; }
  /// A remark if one node stands for the switches of several boards, else empty.
  [[nodiscard]] std::string remark() const {
    auto const boards = board_count();
    return boards < 2 ? ""
                      : "NVSwitches of " + std::to_string(boards) +
                            " boards count as one: the file does not state links between them";
  }

 private:
  std::set<links_of_gpu> lists_;  // the different ones
};

}}}  // namespace blink::BLINK_ABI::detail
