// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/drawing/detail/picture_layout.hpp>
#include <blink/drawing/detail/picture_traffic.hpp>
#include <blink/drawing/detail/picture_words.hpp>
#include <blink/drawing/detail/svg_text.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Choices for a picture.
struct picture_options {
  bool with_unused_switches = false;  ///< draw switches that no tree visits, with their links
  /// A drawing for a page that adds the trees, the title and the legend itself: machine and loads,
  /// with a class for each kind of shape, and the node ids of links and nodes.
  bool for_page = false;
};

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Draws links, trees, nodes and numbers of a picture, from back to front.
class picture_writer {
 public:
  /// for_page: see `picture_options`
  picture_writer(topology const& machine, plan const& what, picture_traffic const& traffic,
                 bool for_page)
      : machine_(machine),
        plan_(what),
        traffic_(traffic),
        for_page_(for_page),
        layout_(lay_out(traffic.drawn)) {
    constexpr double margin = 110;
    constexpr double title_height = 70;
    double const above = for_page ? 0 : title_height - 20;
    centre_ = {layout_.radius + margin, layout_.radius + margin + above};
    for (auto const& place : layout_.at) {
      taken_.push_back({place.x - 20, place.y - 20, place.x + 20, place.y + 20});
    }
    for (auto const& [ends, here] : traffic.between) {
      largest_ = std::max({largest_, here.capacity_forth, here.capacity_back});
    }
  }

  [[nodiscard]] std::string write() {
    draw_boxes();
    for (auto const& [ends, here] : traffic_.between) draw_capacity(ends, here);
    if (for_page_) {
      body_ += "<g class=\"trees\"></g>\n";
    } else {
      for (auto const& [ends, here] : traffic_.between) draw_strands(ends, here);
    }
    draw_nodes();
    // Numbers come last. Links with trees come first among them, so that they get the best places.
    for (bool const is_busy : {true, false}) {
      for (auto const& [ends, here] : traffic_.between) {
        if (here.strands.empty() != is_busy) draw_numbers(ends, here);
      }
    }
    if (for_page_) return drawing_alone();
    picture_words words(machine_, plan_, traffic_);
    double const legend_left = 2 * centre_.x + 10;
    double const legend_end = words.add_legend(legend_left);
    words.add_title();
    body_ += words.text();
    auto const height = px(std::max(2 * layout_.radius + 2 * 110 + 50, legend_end + 20));
    auto const width = px(legend_left + 330);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height +
           "\" viewBox=\"0 0 " + width + " " + height +
           "\" font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"12\">\n"
           "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" +
           body_ + "</svg>\n";
  }

 private:
  /// The drawing without words beside it.
  [[nodiscard]] std::string drawing_alone() const {
    auto const side = px(2 * centre_.x);
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + side + " " + side +
           "\" font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"12\">\n" + body_ +
           "</svg>\n";
  }

  /// Attributes that a page finds a shape by; empty in a picture that stands alone.
  [[nodiscard]] std::string named(std::string_view kind) const {
    return for_page_ ? " class=\"" + std::string(kind) + "\"" : "";
  }

  struct rectangle {
    double left, top, right, bottom;
  };
  static constexpr double strand_width = 3.2;
  static constexpr double strand_step = 5.2;
  static constexpr double node_radius = 19;
  static constexpr double character_width = 6.6;  // of 11 px text

  [[nodiscard]] point place(int node) const { return layout_.at[static_cast<std::size_t>(node)]; }
  [[nodiscard]] node const& drawn(int at) const {
    return traffic_.drawn.nodes[static_cast<std::size_t>(at)];
  }
  [[nodiscard]] point on_page(point p) const { return {p.x + centre_.x, p.y + centre_.y}; }

  void line(point a, point b, std::string_view style) {
    a = on_page(a);
    b = on_page(b);
    body_ += "<line x1=\"" + px(a.x) + "\" y1=\"" + px(a.y) + "\" x2=\"" + px(b.x) + "\" y2=\"" +
             px(b.y) + "\" " + std::string(style) + "/>\n";
  }
  void text(point page, std::string_view content, std::string_view style) {
    body_ += text_at(page, content, style);
  }

  /// The line between the rims of two nodes, moved sideways by `aside` pixels.
  [[nodiscard]] std::pair<point, point> line_between(std::pair<int, int> ends, double aside,
                                                     double rim = node_radius + 2) const {
    point a = place(ends.first);
    point b = place(ends.second);
    double const length = std::max(1.0, std::hypot(b.x - a.x, b.y - a.y));
    point const along{(b.x - a.x) / length, (b.y - a.y) / length};
    double const cut = std::min(rim, length / 3);
    point const shift{-along.y * aside, along.x * aside};
    return {{a.x + along.x * cut + shift.x, a.y + along.y * cut + shift.y},
            {b.x - along.x * cut + shift.x, b.y - along.y * cut + shift.y}};
  }

  void draw_boxes() {
    if (layout_.servers.size() < 2) return;
    for (auto const& server : layout_.servers) {
      double const r = layout_.radius;
      point const from = on_page(on_circle(r, server.from));
      point const to = on_page(on_circle(r, server.to));
      bool const is_long = server.to - server.from > std::numbers::pi;
      body_ +=
          "<path" + named("server") + " d=\"M " + px(from.x) + " " + px(from.y) + " A " + px(r) +
          " " + px(r) + " 0 " + (is_long ? "1" : "0") + " 1 " + px(to.x) + " " + px(to.y) +
          "\" fill=\"none\" stroke=\"#e9eef5\" stroke-width=\"96\" stroke-linecap=\"round\"/>\n";
      point const middle = on_page(on_circle(r + 84, (server.from + server.to) / 2));
      text(middle, server.server < 0 ? "no server" : "server " + std::to_string(server.server),
           "text-anchor=\"middle\" fill=\"#556\" font-weight=\"bold\"");
    }
  }

  /// Draws the links below the trees, wider with their capacity.
  void draw_capacity(std::pair<int, int> ends, joined_pair const& here) {
    double const share = (std::max(here.capacity_forth, here.capacity_back) / largest_).to_double();
    auto const [a, b] = line_between(ends, 0, here.strands.empty() ? 0 : node_radius + 2);
    double const strands = static_cast<double>(here.strands.size()) * strand_step;
    double const width = std::max(2 + 10 * share, here.strands.empty() ? 0 : strands + 4);
    auto const ids = " data-from=\"" + std::to_string(drawn(ends.first).id) + "\" data-to=\"" +
                     std::to_string(drawn(ends.second).id) + "\"";
    line(a, b,
         "stroke=\"" + link_colour(plan_, here.kind) + "\" stroke-width=\"" + px(width) + "\"" +
             (for_page_ ? named("link") + ids : ""));
  }

  /// Draws the trees of two joined nodes side by side, with a head for each direction of data.
  void draw_strands(std::pair<int, int> ends, joined_pair const& here) {
    for (std::size_t i = 0; i < here.strands.size(); ++i) {
      auto const& one = here.strands[i];
      double const aside =
          (static_cast<double>(i) - static_cast<double>(here.strands.size() - 1) / 2) * strand_step;
      auto const [a, b] = line_between(ends, aside);
      auto const colour = tree_colour(one.tree);
      line(a, b,
           "stroke=\"" + colour + "\" stroke-width=\"" + px(strand_width) + "\"" +
               (one.only_reduces ? " stroke-dasharray=\"7 4\"" : ""));
      // Neighbouring heads are staggered because they would hide each other.
      double const back = static_cast<double>(i % 3) * 9;
      if (one.is_forth) arrow_head(a, b, back, colour);
      if (one.is_back) arrow_head(b, a, back, colour);
    }
  }

  void arrow_head(point from, point to, double back, std::string const& colour) {
    double const length = std::max(1.0, std::hypot(to.x - from.x, to.y - from.y));
    point const along{(to.x - from.x) / length, (to.y - from.y) / length};
    point const tip = on_page({to.x - along.x * back, to.y - along.y * back});
    constexpr double long_side = 12;
    constexpr double half_width = 5;
    point const foot{tip.x - along.x * long_side, tip.y - along.y * long_side};
    body_ += "<polygon points=\"" + px(tip.x) + "," + px(tip.y) + " " +
             px(foot.x - along.y * half_width) + "," + px(foot.y + along.x * half_width) + " " +
             px(foot.x + along.y * half_width) + "," + px(foot.y - along.x * half_width) +
             "\" fill=\"" + colour + "\" stroke=\"white\" stroke-width=\"0.6\"/>\n";
  }

  void draw_nodes() {
    for (std::size_t i = 0; i < traffic_.drawn.nodes.size(); ++i) {
      auto const& here = traffic_.drawn.nodes[i];
      point const at = layout_.at[i];
      point const page = on_page(at);
      auto const id = std::to_string(here.id);
      auto const place_on_page = for_page_ ? named("node") + " data-id=\"" + id + "\" data-x=\"" +
                                                 px(page.x) + "\" data-y=\"" + px(page.y) + "\""
                                           : std::string();
      body_ +=
          "<g" + place_on_page + "><title>" + escaped(here.label) + " (id " + id + ")</title>\n";
      if (here.kind == node_kind::rank) {
        body_ += "<circle cx=\"" + px(page.x) + "\" cy=\"" + px(page.y) + "\" r=\"" +
                 px(node_radius) + "\" fill=\"#fdf6dc\" stroke=\"#222\" stroke-width=\"1.6\"/>\n";
        text({page.x, page.y + 5}, id,
             "text-anchor=\"middle\" font-size=\"15\" font-weight=\"bold\"");
        double const r = std::max(1.0, std::hypot(at.x, at.y));
        point const outside = on_page({at.x * (r + 36) / r, at.y * (r + 30) / r});
        auto const anchor = at.x > r * 0.3 ? "start" : at.x < -r * 0.3 ? "end" : "middle";
        if (here.label != id) {
          text({outside.x - (at.x > r * 0.3    ? 10
                             : at.x < -r * 0.3 ? -10
                                               : 0),
                outside.y + 4},
               escaped(here.label, 14),
               std::string("text-anchor=\"") + anchor + "\" fill=\"#333\"");
        }
        if (!for_page_) draw_roots(here.id, at);
      } else {
        auto const label = escaped(here.label.empty() ? id : here.label, 16);
        double const half =
            8 + character_width / 2 * 1.05 *
                    static_cast<double>(std::clamp<std::size_t>(here.label.size(), 2, 17));
        body_ += "<rect x=\"" + px(page.x - half) + "\" y=\"" + px(page.y - 12) + "\" width=\"" +
                 px(2 * half) +
                 "\" height=\"24\" rx=\"6\" fill=\"#e4eaf2\" stroke=\"#445\" "
                 "stroke-width=\"1.4\"/>\n";
        text({page.x, page.y + 4}, label, "text-anchor=\"middle\" font-size=\"11\"");
        taken_.push_back({at.x - half, at.y - 13, at.x + half, at.y + 13});
      }
      body_ += "</g>\n";
    }
  }

  /// Draws a square outside the circle for each tree that is rooted here, in its colour.
  void draw_roots(int id, point at) {
    double const r = std::max(1.0, std::hypot(at.x, at.y));
    point const out{at.x / r, at.y / r};
    constexpr double size = 10;
    constexpr std::size_t in_a_row = 6;
    auto const total = static_cast<std::size_t>(std::count_if(
        plan_.trees.begin(), plan_.trees.end(), [&](tree const& t) { return t.root == id; }));
    std::size_t count = 0;
    for (std::size_t i = 0; i < plan_.trees.size(); ++i) {
      if (plan_.trees[i].root != id) continue;
      auto const row = count / in_a_row;
      auto const in_row = std::min(in_a_row, total - row * in_a_row);
      double const far = r + 52 + 26 * std::abs(out.x) + static_cast<double>(row) * (size + 2);
      double const aside =
          (static_cast<double>(count % in_a_row) - static_cast<double>(in_row - 1) / 2) *
          (size + 2);
      point const page = on_page({out.x * far - out.y * aside, out.y * far + out.x * aside});
      body_ += "<rect x=\"" + px(page.x - size / 2) + "\" y=\"" + px(page.y - size / 2) +
               "\" width=\"" + px(size) + "\" height=\"" + px(size) + "\" fill=\"" +
               tree_colour(i) + "\" stroke=\"#222\" stroke-width=\"0.7\"/>\n";
      ++count;
    }
  }

  /// Writes load/capacity: once if both directions agree, else each near the node that it leaves.
  void draw_numbers(std::pair<int, int> ends, joined_pair const& here) {
    auto const number = [&](rational const& load, rational const& capacity) {
      return plan_.trees.empty() ? short_text(capacity)
                                 : short_text(load) + "/" + short_text(capacity);
    };
    bool const is_idle = here.strands.empty();
    bool const is_over =
        here.load_forth > here.capacity_forth || here.load_back > here.capacity_back;
    auto const colour = is_over ? "#c00000" : is_idle && !plan_.trees.empty() ? "#8a8a8a" : "#111";
    auto const forth = number(here.load_forth, here.capacity_forth);
    auto const back = number(here.load_back, here.capacity_back);
    auto const [a, b] = line_between(ends, 0);
    if (forth == back) {
      label(ends, a, b, {0.5, 0.45, 0.55, 0.4, 0.6, 0.34, 0.66, 0.28, 0.72, 0.23, 0.77}, forth,
            colour);
    } else {
      std::array<double, 11> const near_tail{0.27, 0.32, 0.22, 0.37, 0.18, 0.42,
                                             0.46, 0.24, 0.29, 0.35, 0.2};
      if (here.capacity_forth > 0) label(ends, a, b, near_tail, forth, colour);
      if (here.capacity_back > 0) label(ends, b, a, near_tail, back, colour);
    }
  }

  /// The penalty for a number at `p` that may be read as a number of another link, in square
  /// pixels.
  [[nodiscard]] double crossings(std::pair<int, int> ends, point p) const {
    constexpr double near = 30;
    constexpr double cost = 60;
    double sum = 0;
    for (auto const& [other, unused] : traffic_.between) {
      if (other == ends) continue;
      point const a = place(other.first);
      point const b = place(other.second);
      double const squared = std::max(1.0, std::pow(b.x - a.x, 2) + std::pow(b.y - a.y, 2));
      double const along = ((p.x - a.x) * (b.x - a.x) + (p.y - a.y) * (b.y - a.y)) / squared;
      double const t = std::clamp(along, 0.0, 1.0);
      double const away = std::hypot(a.x + t * (b.x - a.x) - p.x, a.y + t * (b.y - a.y) - p.y);
      sum += cost * std::max(0.0, 1 - away / near);
    }
    return sum;
  }

  /// Puts a number on the line at the first of `shares` where it hides nothing. If it hides
  /// something everywhere, the place with the least overlap is taken.
  void label(std::pair<int, int> ends, point a, point b, std::array<double, 11> const& shares,
             std::string const& content, std::string_view colour) {
    double const half = character_width / 2 * static_cast<double>(content.size()) + 3;
    constexpr double half_height = 8;
    rectangle best{};
    double best_overlap = -1;
    for (double const share : shares) {
      double const x = a.x + (b.x - a.x) * share;
      double const y = a.y + (b.y - a.y) * share;
      rectangle const r{x - half, y - half_height, x + half, y + half_height};
      double overlap = 0;
      for (auto const& other : taken_) {
        double const w = std::min(r.right, other.right) - std::max(r.left, other.left);
        double const h = std::min(r.bottom, other.bottom) - std::max(r.top, other.top);
        if (w > 0 && h > 0) overlap += w * h;
      }
      overlap += crossings(ends, {x, y});
      if (best_overlap < 0 || overlap < best_overlap) {
        best = r;
        best_overlap = overlap;
      }
      if (overlap <= 0) break;
    }
    taken_.push_back(best);
    point const corner = on_page({best.left, best.top});
    body_ += "<rect" + named("label") + " x=\"" + px(corner.x) + "\" y=\"" + px(corner.y) +
             "\" width=\"" + px(2 * half) + "\" height=\"" + px(2 * half_height) +
             "\" rx=\"3\" fill=\"white\" fill-opacity=\"0.9\"/>\n";
    text({corner.x + half, corner.y + half_height + 4}, content,
         "text-anchor=\"middle\" font-size=\"11\" fill=\"" + std::string(colour) + "\"");
  }

  topology const& machine_;
  plan const& plan_;
  picture_traffic const& traffic_;
  bool for_page_;
  picture_layout layout_;
  point centre_;
  rational largest_ = 1;
  std::vector<rectangle> taken_;  ///< places that no further number may cover
  std::string body_;
};

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// Draws a plan on its machine as an SVG document that needs no other file.
///
/// - Ranks are on a circle, clockwise from the top, with the ranks of one server together. Switches
///   are inside the circle.
/// - Links are grey, and wider with their capacity.
/// - The trees that use a link run over it side by side, each in its colour. Arrow heads show the
///   direction of data. A tree is dashed where it only reduces.
/// - Numbers on links are load/capacity, red where a link is overloaded.
/// - The legend names each tree's root, weight and height. The title names the collective, the
///   planner, the rate and the bound.
///
/// A plan without trees gives a picture of the machine alone. Pictures of more ranks than one large
/// server has, or of more than a dozen trees, are hard to read.
///
/// Time:   O(V^2 + E T + L^2) for T trees and L numbers.
/// Pre:    the machine passes `validate`; the plan's nodes are ids of the machine.
/// Post:   well-formed XML for any labels; equal input gives equal text.
/// Throws: input_error from `validate`, precondition_error for a node that the machine lacks.
[[nodiscard]] inline std::string draw_svg(topology const& machine, plan const& what,
                                          picture_options const& options = {}) {
  validate(machine);
  auto const traffic = detail::traffic_of(machine, what, options.with_unused_switches);
  return detail::picture_writer(machine, what, traffic, options.for_page).write();
}

}}  // namespace blink::BLINK_ABI
