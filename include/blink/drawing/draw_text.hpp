// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/device_tree.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The choices of `draw_text`.
struct text_picture_options {
  std::size_t columns = 80;     ///< the width of the terminal, at least 40
  bool has_colours = false;     ///< with the escape sequences of terminals
  std::size_t most_lines = 60;  ///< more are cut, with a line that says so
};

/// A machine drawn in characters: each server with its NVSwitches on top, a box for each processor
/// with the PCIe devices below it, and the direct links in lists.
///
/// Servers that look alike are drawn once. Rates are those of one direction in the machine's unit;
/// "24/12" stands for 24 one way and 12 back.
[[nodiscard]] std::string draw_text(topology const& machine,
                                    text_picture_options const& options = {});

namespace detail {

/// Text with colours whose width in columns is known.
struct coloured_text {
  std::string text;
  std::size_t width = 0;

  /// colour: a number of an ANSI sequence; 0 for none
  void add(std::string_view more, int colour = 0) {
    if (colour != 0) text += "\x1b[" + std::to_string(colour) + "m";
    text += more;
    if (colour != 0) text += "\x1b[0m";
    width += static_cast<std::size_t>(std::count_if(more.begin(), more.end(), [](char c) {
      return (static_cast<unsigned char>(c) >> 6) != 2;
    }));
  }
  void add(coloured_text const& more) {
    text += more.text;
    width += more.width;
  }
  void fill_to(std::size_t column, std::string_view with = " ") {
    while (width < column) add(with);
  }
};

/// Draws one machine.
class text_drawer {
 public:
  text_drawer(topology const& machine, text_picture_options const& options)
      : machine_(machine),
        tree_(machine),
        options_(options),
        columns_(std::max<std::size_t>(options.columns, 40)) {}

  [[nodiscard]] std::string draw() {
    std::map<int, std::vector<int>> servers;
    for (std::size_t i = 0; i < machine_.nodes.size(); ++i) {
      servers[machine_.nodes[i].server].push_back(static_cast<int>(i));
    }
    std::vector<std::vector<int>> alike;  // numbers of servers, by look
    std::map<std::vector<shape>, std::size_t> looks;
    for (auto const& [server, nodes] : servers) {
      if (server < 0) continue;
      auto const [look, is_new] = looks.try_emplace(shape_of(nodes), alike.size());
      if (is_new) alike.emplace_back();
      alike[look->second].push_back(server);
    }
    bool const has_titles = servers.size() > 1;
    for (auto const& numbers : alike) {
      if (has_titles) {
        coloured_text title;
        title.add((numbers.size() > 1 ? "servers" : "server") + runs(numbers) +
                  (numbers.size() > 1 ? ", of which the first:" : ""));
        lines_.push_back(std::move(title));
      }
      draw_server(servers[numbers.front()]);
    }
    if (servers.contains(-1)) {
      for (int const node : servers[-1]) draw_star(node, "");
    }
    return joined();
  }

 private:
  using capacities = device_tree::capacities;
  struct shape {
    node_kind kind;
    std::vector<std::pair<link_kind, capacities>> links;
    friend bool operator<(shape const& a, shape const& b) {
      return std::tie(a.kind, a.links) < std::tie(b.kind, b.links);
    }
  };
  static constexpr int green = 32, yellow = 33, cyan = 36, dim = 2;

  static std::size_t index(int at) { return static_cast<std::size_t>(at); }
  [[nodiscard]] node const& at(int position) const { return machine_.nodes[index(position)]; }
  [[nodiscard]] bool is_rank(int position) const { return at(position).kind == node_kind::rank; }
  [[nodiscard]] int colour(int which) const { return options_.has_colours ? which : 0; }

  [[nodiscard]] std::string number(rational const& steps) const {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", machine_.in_units(steps).to_double());
    return text;
  }
  [[nodiscard]] std::string in_words(capacities const& both) const {
    return both.first == both.second ? number(both.first)
                                     : number(both.first) + "/" + number(both.second);
  }
  [[nodiscard]] coloured_text name(int position, std::size_t longest) const {
    coloured_text result;
    auto text = printable(at(position).label);
    if (text.empty())
      text = (is_rank(position) ? "rank " : "node ") + std::to_string(at(position).id);
    if (text.size() > longest) text = printable(text.substr(0, longest - 1)) + "~";
    result.add(text, colour(is_rank(position) ? green : cyan));
    return result;
  }

  [[nodiscard]] std::vector<shape> shape_of(std::vector<int> const& nodes) const {
    std::vector<shape> result;
    for (int const n : nodes) {
      shape one{at(n).kind, {}};
      for (auto const& to : tree_.neighbours(n)) {
        one.links.emplace_back(to.kind, tree_.between(n, to.node, to.kind));
      }
      std::sort(one.links.begin(), one.links.end());
      result.push_back(std::move(one));
    }
    return result;
  }

  static std::string runs(std::vector<int> const& numbers) {
    std::string text;
    for (std::size_t i = 0; i < numbers.size();) {
      std::size_t end = i + 1;
      while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
      text += " " + std::to_string(numbers[i]);
      if (end - i > 1) text += "-" + std::to_string(numbers[end - 1]);
      i = end;
    }
    return text;
  }

  void draw_server(std::vector<int> const& nodes) {
    constexpr std::size_t smallest_box = 3;
    std::vector<std::vector<coloured_text>> boxes;
    std::vector<int> alone;
    for (int const n : nodes) {
      if (tree_.is_star(n)) draw_star(n, "═");
      if (tree_.parent(n) >= 0 || tree_.is_star(n)) continue;
      std::vector<coloured_text> box{name(n, 30)};
      std::vector<int> members{n};
      add_children(n, "", box, members);
      if (members.size() < smallest_box) {
        std::copy_if(members.begin(), members.end(), std::back_inserter(alone),
                     [&](int each) { return tree_.neighbours(each).empty(); });
      } else {
        boxed_.insert(members.begin(), members.end());
        boxes.push_back(std::move(box));
      }
    }
    put_boxes(boxes);
    draw_alone(alone);
    draw_direct_links(std::set<int>(nodes.begin(), nodes.end()));
  }

  /// One line for a switch: its ports, grouped by rate.
  void draw_star(int n, std::string const& mark) {
    std::map<std::pair<link_kind, std::string>, std::vector<int>> ports;
    for (auto const& to : tree_.neighbours(n)) {
      ports[{to.kind, in_words(tree_.between(n, to.node, to.kind))}].push_back(to.node);
    }
    for (auto const& [port, others] : ports) {
      coloured_text line;
      if (!mark.empty()) line.add(mark + mark + " ");
      line.add(name(n, 30));
      line.add(" " + mark + (mark.empty() ? "" : mark + " "));
      line.add(std::to_string(others.size()) + " x " + port.second + " ", colour(yellow));
      line.add(std::string(to_text(port.first)) + ": ");
      add_names(std::move(line), others, 4);
    }
  }

  /// Adds names to a line, and to more lines where it is full.
  void add_names(coloured_text line, std::vector<int> const& nodes, std::size_t indent) {
    bool is_first = true;
    for (int const n : nodes) {
      auto const next = name(n, 24);
      if (line.width + next.width + 1 > columns_) {
        lines_.push_back(std::move(line));
        line = {};
        line.fill_to(indent);
        is_first = true;
      }
      if (!is_first) line.add(" ");
      line.add(next);
      is_first = false;
    }
    lines_.push_back(std::move(line));
  }

  void add_children(int parent, std::string const& indent, std::vector<coloured_text>& box,
                    std::vector<int>& members) {
    constexpr std::size_t deepest = 40;  // bytes of the indent: deeper devices are not drawn
    auto const& children = tree_.children(parent);
    for (std::size_t i = 0; i < children.size(); ++i) {
      auto const [child, kind] = children[i];
      members.push_back(child);
      bool const is_last = i + 1 == children.size();
      coloured_text line;
      line.add(indent + (is_last ? "└─ " : "├─ "));
      line.add(name(child, 20));
      line.add(" " + in_words(tree_.between(child, parent, kind)), colour(yellow));
      if (kind != link_kind::pcie) line.add(" " + std::string(to_text(kind)), colour(dim));
      box.push_back(std::move(line));
      if (indent.size() < deepest) {
        add_children(child, indent + (is_last ? "   " : "│  "), box, members);
      }
    }
  }

  /// Puts boxes side by side, as many as fit.
  void put_boxes(std::vector<std::vector<coloured_text>> const& boxes) {
    constexpr std::size_t frame = 4, gap = 2;
    for (std::size_t first = 0; first < boxes.size();) {
      std::vector<std::size_t> widths;
      std::size_t width = 0, height = 0, end = first;
      for (; end < boxes.size(); ++end) {
        std::size_t widest = 0;
        for (auto const& line : boxes[end]) widest = std::max(widest, line.width);
        auto const more = widest + frame + (end == first ? 0 : gap);
        if (end > first && width + more > columns_) break;
        width += more;
        height = std::max(height, boxes[end].size());
        widths.push_back(widest);
      }
      for (std::size_t row = 0; row <= height; ++row) {
        coloured_text line;
        for (std::size_t i = first; i < end; ++i) {
          if (i > first) line.add("  ");
          add_row(line, boxes[i], row, widths[i - first]);
        }
        lines_.push_back(std::move(line));
      }
      first = end;
    }
  }

  /// Row 0 is the upper edge with the name; the row behind the last line is the lower edge.
  static void add_row(coloured_text& line, std::vector<coloured_text> const& box, std::size_t row,
                      std::size_t width) {
    auto const begin = line.width;
    if (row == 0) {
      line.add("┌─");
      line.add(box[0]);
      line.fill_to(begin + width + 3, "─");
      line.add("┐");
    } else if (row < box.size()) {
      line.add("│ ");
      line.add(box[row]);
      line.fill_to(begin + width + 3);
      line.add("│");
    } else if (row == box.size()) {
      line.add("└");
      line.fill_to(begin + width + 3, "─");
      line.add("┘");
    } else {
      line.fill_to(begin + width + 4);
    }
  }

  void draw_alone(std::vector<int> const& nodes) {
    if (nodes.empty()) return;
    coloured_text line;
    line.add("  ");
    add_names(std::move(line), nodes, 2);
  }

  /// Lists the links that neither a box nor a star shows, by kind and rate.
  void draw_direct_links(std::set<int> const& nodes) {
    constexpr std::size_t most_pairs = 64;
    std::map<std::pair<link_kind, std::string>, std::vector<std::pair<int, int>>> lists;
    for (auto const& [link, both] : tree_.links()) {
      auto const [a, b, kind] = link;
      if (!nodes.contains(a) || !nodes.contains(b) || tree_.is_star(a) || tree_.is_star(b))
        continue;
      bool const is_in_box = tree_.parent(a) == b || tree_.parent(b) == a;
      if (is_in_box && tree_.is_in_tree(a, b, kind) && boxed_.contains(a)) continue;
      lists[{kind, in_words(both)}].emplace_back(a, b);
    }
    for (auto const& [list, pairs] : lists) {
      coloured_text line;
      line.add("  " +
               (list.first == link_kind::unknown ? "link" : std::string(to_text(list.first))));
      line.add(" " + list.second + ":", colour(yellow));
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        if (i == most_pairs) {
          line.add(" and " + std::to_string(pairs.size() - i) + " more");
          break;
        }
        coloured_text next;
        next.add(" ");
        next.add(name(pairs[i].first, 20));
        next.add("─");
        next.add(name(pairs[i].second, 20));
        if (line.width + next.width > columns_) {
          lines_.push_back(std::move(line));
          line = {};
          line.fill_to(4);
        }
        line.add(next);
      }
      lines_.push_back(std::move(line));
    }
  }

  [[nodiscard]] std::string joined() const {
    std::string result;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (i == options_.most_lines) {
        return result + "… and " + std::to_string(lines_.size() - i) + " lines more\n";
      }
      result += lines_[i].text + "\n";
    }
    return result;
  }

  topology const& machine_;
  device_tree tree_;
  text_picture_options options_;
  std::size_t columns_;
  std::set<int> boxed_;
  std::vector<coloured_text> lines_;
};

}  // namespace detail

inline std::string draw_text(topology const& machine, text_picture_options const& options) {
  return detail::text_drawer(machine, options).draw();
}

}}  // namespace blink::BLINK_ABI
