// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/drawing/detail/picture_layout.hpp>
#include <blink/drawing/detail/picture_traffic.hpp>
#include <blink/drawing/detail/svg_text.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <variant>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The colour of a link: grey below trees, by its kind in a picture without trees.
[[nodiscard]] inline std::string link_colour(plan const& what, link_kind kind) {
  constexpr std::array<std::string_view, 9> by_kind{"#d8d8d8", "#a9d18e", "#a9d18e",
                                                    "#a9d18e", "#c6b2e0", "#c9ced6",
                                                    "#f0c48a", "#9dc7e8", "#d8d8d8"};
  static_assert(by_kind.size() == static_cast<std::size_t>(link_kind::memory) + 1);
  return std::string(what.trees.empty() ? by_kind[static_cast<std::size_t>(kind)] : by_kind[0]);
}

/// One line of text at a place on the page.
[[nodiscard]] inline std::string text_at(point page, std::string_view content,
                                         std::string_view style) {
  return "<text x=\"" + px(page.x) + "\" y=\"" + px(page.y) + "\" " + std::string(style) + ">" +
         std::string(content) + "</text>\n";
}

/// The text beside the drawing: a title above it and a legend to its right.
class picture_words {
 public:
  picture_words(topology const& machine, plan const& what, picture_traffic const& traffic)
      : machine_(machine),
        plan_(what),
        traffic_(traffic),
        unit_(escaped(what.unit.empty() ? machine.unit : what.unit, 20)) {}

  [[nodiscard]] std::string const& text() const { return text_; }

  /// Adds the trees by colour and the key of the drawing, from `left` on. Returns the lower end, in
  /// pixels.
  double add_legend(double left) {
    double y = 90;
    auto const row = [&](std::string_view content, std::string_view style = "") {
      write({left + 42, y + 4}, content, style);
      y += 20;
    };
    if (!plan_.trees.empty()) row("Trees", "font-weight=\"bold\" font-size=\"14\"");
    for (std::size_t i = 0; i < plan_.trees.size(); ++i) {
      auto const& t = plan_.trees[i];
      text_ += "<rect x=\"" + px(left + 8) + "\" y=\"" + px(y - 6) +
               "\" width=\"26\" height=\"12\" fill=\"" + tree_colour(i) + "\"/>\n";
      row(std::to_string(i + 1) + ": root " + label_of(t.root) + ", weight " + t.weight.to_text() +
          ", height " + std::to_string(height(t)));
    }
    y += 12;
    row("How to read it", "font-weight=\"bold\" font-size=\"14\"");
    auto const sample = [&](std::string_view style) {
      text_ += "<line x1=\"" + px(left + 6) + "\" y1=\"" + px(y) + "\" x2=\"" + px(left + 36) +
               "\" y2=\"" + px(y) + "\" " + std::string(style) + "/>\n";
    };
    if (plan_.trees.empty()) {
      std::set<link_kind> kinds;
      for (auto const& [ends, here] : traffic_.between) kinds.insert(here.kind);
      for (auto const kind : kinds) {
        sample("stroke=\"" + link_colour(plan_, kind) + "\" stroke-width=\"9\"");
        row(std::string(to_text(kind)) + ", wider with its capacity");
      }
    } else {
      sample("stroke=\"#d8d8d8\" stroke-width=\"9\"");
      row("link, wider with its capacity");
    }
    if (!plan_.trees.empty()) {
      sample("stroke=\"#333\" stroke-width=\"3.2\"");
      row(has_reduce_phase(plan_.collective) && has_broadcast_phase(plan_.collective)
              ? "tree on a link; heads: where data goes"
              : "tree on a link; head: where data goes");
    }
    if (!plan_.trees.empty() && has_reduce_phase(plan_.collective)) {
      sample("stroke=\"#333\" stroke-width=\"3.2\" stroke-dasharray=\"7 4\"");
      row("only on the way to the root");
    }
    bool const is_machine_only = plan_.trees.empty();
    write({left + 2, y + 4}, is_machine_only ? "25" : "25/50", "font-size=\"11\"");
    row((is_machine_only ? "capacity in " : "load/capacity in ") + unit_ + "; once where");
    row("both directions agree, else each");
    row("near the node it leaves");
    if (!plan_.trees.empty()) {
      text_ += "<rect x=\"" + px(left + 16) + "\" y=\"" + px(y - 5) +
               "\" width=\"10\" height=\"10\" fill=\"#999\" stroke=\"#222\"/>\n";
      row("beside a rank: root of that tree");
    }
    return y;
  }

  /// Adds collective and machine, then planner, rate and bound.
  void add_title() {
    auto const machine_name = machine_.name.empty() ? "a machine" : escaped(machine_.name, 40);
    bool const is_machine_only = plan_.trees.empty();
    write({24, 34},
          is_machine_only ? machine_name
                          : std::string(to_text(plan_.collective)) + " on " + machine_name,
          "font-size=\"21\" font-weight=\"bold\"");
    if (is_machine_only) {
      write({24, 58},
            std::to_string(machine_.rank_positions().size()) + " ranks, " +
                std::to_string(traffic_.between.size()) + " connections, capacities in " + unit_,
            "font-size=\"14\" fill=\"#333\"");
      return;
    }
    std::string line =
        "planner " + escaped(plan_.planner, 40) + ": " + short_text(plan_.rate) + " " + unit_;
    if (plan_.bound > 0) {
      bool const is_proven = !std::holds_alternative<no_certificate>(plan_.proof);
      line += ", " + short_text(plan_.rate / plan_.bound * 100) + " % of " +
              (is_proven ? "the proven bound " : "the bound ") + short_text(plan_.bound) + " " +
              unit_;
    }
    if (!plan_.links.empty()) line += ", on " + escaped(plan_.links, 20) + " only";
    write({24, 58}, line, "font-size=\"14\" fill=\"#333\"");
  }

 private:
  void write(point page, std::string_view content, std::string_view style) {
    text_ += text_at(page, content, style);
  }

  [[nodiscard]] std::string label_of(int id) const {
    int const at = machine_.position_of(id);
    auto const& label = at < 0 ? std::string() : machine_.nodes[static_cast<std::size_t>(at)].label;
    return label.empty() || label == std::to_string(id)
               ? std::to_string(id)
               : escaped(label, 14) + " (" + std::to_string(id) + ")";
  }

  topology const& machine_;
  plan const& plan_;
  picture_traffic const& traffic_;
  std::string unit_;
  std::string text_;
};

}}}  // namespace blink::BLINK_ABI::detail
