// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/cluster.hpp>
#include <blink/topology/detail/host_list.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// True if two texts differ at most in upper and lower case.
[[nodiscard]] inline bool is_same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

/// One entry of a file, about a switch or block.
struct cluster_entry {
  std::string name;
  int line = 0;
  std::string nodes{};     ///< a host list, or empty
  std::string children{};  ///< a host list of switches, or empty
  std::optional<std::int64_t> link_speed{};
  bool is_block = false;
};

/// Makes the tree of a cluster of the entries of a file.
class cluster_builder {
 public:
  cluster_builder(std::string const& file, bool is_strict) : file_(file), is_strict_(is_strict) {}

  /// Keeps the first remarks about lines.
  /// Throws: input_error if remarks are errors.
  void remark(int line, std::string const& what) {
    constexpr std::size_t most = 20;
    if (is_strict_) fail_at(file_, line, what);
    if (tree_.remarks.size() < most) {
      tree_.remarks.push_back("line " + std::to_string(line) + ": " + what);
    }
  }

  /// Adds an entry. A second one of the same switch may add what the first does not say.
  void add(cluster_entry entry) {
    expect_name(entry);
    auto const [known, is_new] = position_.try_emplace(entry.name, entries_.size());
    if (is_new) {
      tree_.switches.push_back({entry.name, -1, {}});
      entries_.push_back({entry.line, entry.is_block, false, false});
    }
    if (entries_.size() > most_names) {
      fail_at(file_, entry.line,
              "more than " + std::to_string(most_names) + " switches, expected fewer");
    }
    auto const at = known->second;
    auto& seen = entries_[at];
    if (entry.is_block != seen.is_block) {
      fail_twice(entry, "is a switch and a block");
    }
    bool const says_nothing = entry.nodes.empty() && entry.children.empty();
    if (!is_new && ((!entry.nodes.empty() && seen.has_nodes) || says_nothing ||
                    (!entry.children.empty() && seen.has_children))) {
      fail_twice(entry, "appears a second time");
    }
    if (entry.link_speed) tree_.switches[at].link_speed = entry.link_speed;
    if (!entry.nodes.empty()) {
      seen.has_nodes = true;
      add_nodes(at, entry);
    }
    if (!entry.children.empty()) {
      seen.has_children = true;
      for (auto& name : names(entry.children, entry.line, children_.size())) {
        children_.push_back({std::move(name), at, entry.line});
      }
    }
  }

  /// Throws: input_error with file and line for a switch below itself, two others or an unknown
  ///         one, and for a file without nodes.
  [[nodiscard]] cluster_tree build() {
    if (tree_.switches.empty()) {
      fail_at(file_, 1, "no switch and no block, expected SwitchName= or BlockName=");
    }
    for (auto const& child : children_) set_parent(child);
    refuse_cycles();
    join_blocks();
    if (tree_.nodes.empty()) {
      fail_at(
          file_, entries_.front().line,
          "no switch has nodes, expected the nodes of at least one: a skeleton of the network?");
    }
    tree_.name = std::filesystem::path(file_).stem().string();
    return std::move(tree_);
  }

 private:
  static constexpr std::size_t most_names = 65'536;  // of nodes, and of switches

  struct entry_state {
    int line = 0;
    bool is_block = false;
    bool has_nodes = false, has_children = false;
  };
  struct child_name {
    std::string name;
    std::size_t parent = 0;
    int line = 0;
  };

  void expect_name(cluster_entry const& entry) const {
    if (names(entry.name, entry.line, 0).size() == 1 && entry.name.find('[') == entry.name.npos) {
      return;
    }
    fail_at(file_, entry.line,
            "the name of a switch or block is " + in_quotes(entry.name) + ", expected one name");
  }

  [[noreturn]] void fail_twice(cluster_entry const& entry, std::string const& what) const {
    fail_at(file_, entry.line,
            in_quotes(entry.name) + " " + what + ", expected one entry as in line " +
                std::to_string(entries_[position_.at(entry.name)].line));
  }

  /// The names of a host list. There are already `count` others.
  [[nodiscard]] std::vector<std::string> names(std::string_view text, int line,
                                               std::size_t count) const {
    try {
      return host_list_reader(text, most_names - count).read();
    } catch (input_error const& fault) {
      fail_at(file_, line, fault.what());
    }
  }

  void add_nodes(std::size_t at, cluster_entry const& entry) {
    for (auto& name : names(entry.nodes, entry.line, tree_.nodes.size())) {
      auto const [known, is_new] = node_lines_.try_emplace(name, std::pair(at, entry.line));
      if (!is_new) {
        auto const& [leaf, line] = known->second;
        fail_at(file_, entry.line,
                "node " + in_quotes(name) + " is at " + in_quotes(entry.name) + " and, in line " +
                    std::to_string(line) + ", at " + in_quotes(tree_.switches[leaf].name) +
                    ", expected one of them");
      }
      tree_.nodes.push_back({std::move(name), static_cast<int>(at)});
    }
  }

  void set_parent(child_name const& child) {
    auto const& above = tree_.switches[child.parent];
    auto const known = position_.find(child.name);
    if (known == position_.end()) {
      fail_at(file_, child.line,
              in_quotes(child.name) + " below " + in_quotes(above.name) +
                  " has no entry, expected SwitchName=" + child.name);
    }
    auto& below = tree_.switches[known->second];
    if (below.parent >= 0) {
      fail_at(file_, child.line,
              in_quotes(child.name) + " is below " + in_quotes(above.name) + " and " +
                  in_quotes(tree_.switches[static_cast<std::size_t>(below.parent)].name) +
                  ", expected one switch above it: parallel ones count as one");
    }
    below.parent = static_cast<int>(child.parent);
  }

  void refuse_cycles() const {
    constexpr std::size_t unseen = SIZE_MAX;
    std::vector<std::size_t> seen_from(tree_.switches.size(), unseen);
    for (std::size_t start = 0; start < seen_from.size(); ++start) {
      for (auto at = start; seen_from[at] != start;) {
        if (seen_from[at] != unseen) break;  // above it are no cycles
        seen_from[at] = start;
        int const parent = tree_.switches[at].parent;
        if (parent < 0) break;
        at = static_cast<std::size_t>(parent);
        if (seen_from[at] != start) continue;
        fail_at(file_, entries_[at].line,
                in_quotes(tree_.switches[at].name) + " is below itself, expected a tree");
      }
    }
  }

  /// A block is nodes near each other. What joins blocks is not in the file.
  void join_blocks() {
    std::vector<std::size_t> blocks;
    std::size_t empty = 0;
    for (std::size_t s = 0; s < entries_.size(); ++s) {
      if (entries_[s].is_block && entries_[s].has_nodes) blocks.push_back(s);
      if (!entries_[s].has_children && !entries_[s].has_nodes) ++empty;
    }
    if (empty > 0) {
      tree_.remarks.push_back(std::to_string(empty) + " switches or blocks have no nodes");
    }
    if (blocks.empty()) return;
    tree_.remarks.emplace_back(
        "each block counts as a switch; NVLinks between its nodes are not in the file");
    if (blocks.size() < 2) return;
    std::string name = "network";
    while (position_.contains(name)) name += "_";
    for (auto const s : blocks) {
      tree_.switches[s].parent = static_cast<int>(tree_.switches.size());
    }
    tree_.switches.push_back({name, -1, {}});
    tree_.remarks.push_back("one switch joins the " + std::to_string(blocks.size()) +
                            " blocks: the file does not say what does");
  }

  std::string const& file_;
  bool is_strict_;
  cluster_tree tree_;
  std::vector<entry_state> entries_;                                         // by switch
  std::unordered_map<std::string, std::size_t> position_;                    // of a switch
  std::unordered_map<std::string, std::pair<std::size_t, int>> node_lines_;  // leaf and line
  std::vector<child_name> children_;
};

}}}  // namespace blink::BLINK_ABI::detail
