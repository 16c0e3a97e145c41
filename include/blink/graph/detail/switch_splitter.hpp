// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/detail/flow_network.hpp>
#include <blink/graph/detail/port_stars.hpp>
#include <blink/graph/detail/route_pieces.hpp>
#include <blink/graph/detail/warm_start_flows.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The error for a switch with more capacity out than in, if the supplies need its egress excess to
/// reach every rank. Then the cuts promise more than forwarding can achieve.
struct unsplittable_switch : planning_error {
  explicit unsplittable_switch(int switch_node)
      : planning_error(
            "split_off_switches: vertex " + std::to_string(switch_node) +
            " has egress excess that the supplies need, expected no more capacity out than in"),
        vertex(switch_node) {}
  int vertex;
};

namespace detail {

/// The work of `split_off_switches`: removes the switches one by one.
///
/// The supplies reach every rank if every set of vertices with a rank has enough capacity into it.
/// Enough means the sum of the supplies of the roots outside the set. Splitting an amount off the
/// pair u -> w -> t lowers the capacity into some sets by that amount. These sets contain w but
/// neither u nor t, or u and t but not w. If the whole amount leaves some flow short, it is too
/// large by the largest shortage.
class switch_splitter {
 public:
  switch_splitter(std::vector<bool> is_switch, std::vector<std::int64_t> supply,
                  std::vector<int> group)
      : is_switch_(std::move(is_switch)),
        supply_(std::move(supply)),
        group_(std::move(group)),
        pieces_(is_switch_.size()) {
    group_.resize(is_switch_.size(), 0);
    for (auto const s : supply_) count(s);
    for (auto const s : supply_) wanted_ += s;
    for (std::size_t v = 0; v < is_switch_.size(); ++v) {
      if (!is_switch_[v]) ranks_.push_back(static_cast<int>(v));
    }
  }

  void add(int tail, int head, std::int64_t capacity) {
    if (tail == head || capacity == 0) return;
    count(capacity);
    pieces_.add({tail, head, capacity, {tail, head}});
  }

  void run() {
    if (ranks_.size() == is_switch_.size()) return;
    for (auto const v : switches_by_degree()) {
      if (pieces_.neighbours(v).size() <= 2) pass_through(v);
    }
    if (all_at_once()) return;
    for (auto const v : switches_by_degree()) {
      if (pieces_.neighbours(v).empty()) continue;
      remove_egress_excess(v);
      if (!split_evenly(v)) split_pairs(v);
      pieces_.drop_vertex(v);
    }
  }

  [[nodiscard]] std::int64_t scale() const { return scale_; }
  [[nodiscard]] std::vector<route_piece> take_routes() { return pieces_.take(); }

 private:
  static constexpr std::int64_t limit = std::int64_t{1} << 61;

  void count(std::int64_t amount) {
    if (amount > limit - sum_) {
      throw overflow_error(
          "split_off_switches: the sum of capacities and supplies exceeds 61 bits, expected less");
    }
    sum_ += amount;
  }

  [[nodiscard]] std::vector<int> switches_by_degree() const {
    std::vector<std::pair<std::size_t, int>> order;
    for (std::size_t v = 0; v < is_switch_.size(); ++v) {
      if (is_switch_[v]) {
        order.emplace_back(pieces_.neighbours(static_cast<int>(v)).size(), static_cast<int>(v));
      }
    }
    std::sort(order.begin(), order.end());
    std::vector<int> result;
    for (auto const& [degree, v] : order) result.push_back(v);
    return result;
  }

  /// Removes a switch with at most two neighbours. Such a switch can only forward from one to the
  /// other.
  void pass_through(int w) {
    auto const ends = pieces_.neighbours(w);
    for (int const u : ends) {
      for (int const t : ends) {
        if (u != t) pieces_.split(u, w, t, std::min(pieces_.between(u, w), pieces_.between(w, t)));
      }
    }
    pieces_.drop_vertex(w);
  }

  /// True if the supplies reach every rank over these pieces.
  [[nodiscard]] bool all_reached(route_pieces const& pieces) const {
    flow_network network(static_cast<int>(is_switch_.size()) + 1);
    add_arcs(network, pieces);
    return std::all_of(ranks_.begin(), ranks_.end(), [&](int v) {
      return supply_[static_cast<std::size_t>(v)] == wanted_ ||
             network.run(super(), v, wanted_) == wanted_;
    });
  }

  /// The flows into all ranks, updated while a switch is split.
  class flows {
   public:
    explicit flows(switch_splitter const& owner)
        : kept_(static_cast<int>(owner.is_switch_.size()) + 1, owner.super(), owner.receivers(),
                owner.wanted_),
          arc_(owner.add_arcs(kept_, owner.pieces_)) {
      kept_.start();
    }
    std::int64_t reduce(int tail, int head, std::int64_t most) {
      return kept_.reduce(arc(tail, head), most);
    }
    std::int64_t shift(int u, int w, int t, std::int64_t most) {
      return kept_.shift(arc(u, w), arc(w, t), arc(u, t), most);
    }

   private:
    int arc(int tail, int head) {
      auto const [place, is_new] = arc_.try_emplace({tail, head}, 0);
      if (is_new) place->second = kept_.add(tail, head, 0);
      return place->second;
    }
    warm_start_flows kept_;
    std::map<std::pair<int, int>, int> arc_;
  };

  [[nodiscard]] int super() const { return static_cast<int>(is_switch_.size()); }

  /// The ranks that do not supply the whole amount themselves.
  [[nodiscard]] std::vector<int> receivers() const {
    std::vector<int> result;
    for (int const v : ranks_) {
      if (supply_[static_cast<std::size_t>(v)] != wanted_) result.push_back(v);
    }
    return result;
  }

  /// Adds arcs for the pieces and the supplies. Returns the numbers of the pieces' arcs, by (tail,
  /// head).
  template <class Network>
  std::map<std::pair<int, int>, int> add_arcs(Network& network, route_pieces const& pieces) const {
    std::map<std::pair<int, int>, int> result;
    for (auto const& [ends, capacity] : pieces.capacities()) {
      result[ends] = network.add(ends.first, ends.second, capacity);
    }
    for (std::size_t v = 0; v < supply_.size(); ++v) {
      if (supply_[v] > 0) network.add(super(), static_cast<int>(v), supply_[v]);
    }
    return result;
  }

  void remove_egress_excess(int w) {
    auto const ends = pieces_.neighbours(w);
    std::int64_t egress_excess = 0;
    for (int const u : ends) egress_excess += pieces_.between(w, u) - pieces_.between(u, w);
    if (egress_excess <= 0) return;
    flows network(*this);
    for (int const t : ends) {
      auto const most = std::min(egress_excess, pieces_.between(w, t));
      if (most == 0) continue;
      auto const left_out = network.reduce(w, t, most);
      pieces_.reduce(w, t, left_out);
      egress_excess -= left_out;
    }
  }

  /// The stars into which a switch may be split, best first. There are none unless every port has
  /// equal capacity in both directions, and the neighbours are all ranks or all switches.
  [[nodiscard]] std::vector<std::vector<port_star>> forms(int w) const {
    auto const ends = pieces_.neighbours(w);
    std::vector<switch_port> ports;
    for (int const v : ends) {
      auto const at = static_cast<std::size_t>(v);
      if (pieces_.between(v, w) != pieces_.between(w, v) ||
          is_switch_[at] != is_switch_[static_cast<std::size_t>(ends.front())]) {
        return {};
      }
      ports.push_back({v, group_[at], pieces_.between(v, w)});
    }
    return star_forms(ports, has_one_root());
  }

  [[nodiscard]] bool has_one_root() const {
    return std::count_if(supply_.begin(), supply_.end(), [](auto s) { return s > 0; }) == 1;
  }

  enum class sharing : std::uint8_t { whole, even };

  /// Splits all switches by the first closed form of each and checks the flows once. Returns false
  /// if a switch has no closed form or the flows fall short.
  bool all_at_once() {
    state const before(*this);
    bool done = true;
    for (auto const v : switches_by_degree()) {
      if (pieces_.neighbours(v).empty()) continue;
      auto const ways = forms(v);
      done = !ways.empty() && apply(v, ways.front(), sharing::whole);
      if (!done) break;
    }
    if (done && all_reached(pieces_)) return true;
    restore(before);
    return false;
  }

  /// Tries the closed forms. Returns false if none keeps all flows.
  bool split_evenly(int w) {
    state const before(*this);
    for (auto const& stars : forms(w)) {
      for (auto const shared : {sharing::whole, sharing::even}) {
        if (apply(w, stars, shared) && all_reached(pieces_)) return true;
        restore(before);
      }
    }
    return false;
  }

  /// Splits the capacity of a port into `ways` parts. Each part is a multiple of a root's supply as
  /// far as possible, so that trees need not be split. Returns none if a part would be less than
  /// one supply.
  [[nodiscard]] std::vector<std::int64_t> whole_shares(std::int64_t capacity,
                                                       std::size_t ways) const {
    std::int64_t unit = 0;
    for (auto const s : supply_) {
      if (s > 0 && (unit == 0 || s < unit)) unit = s;
    }
    auto const count = static_cast<std::int64_t>(ways);
    if (unit == 0 || capacity / count < unit) return {};
    std::vector<std::int64_t> result(ways, capacity / count / unit * unit);
    auto rest = capacity - result.front() * count;
    for (auto& part : result) {
      auto const more = std::min(rest, unit);
      part += more;
      rest -= more;
    }
    return result;
  }

  /// Splits a switch into stars. Returns false if the numbers get too large.
  bool apply(int w, std::vector<port_star> stars, sharing shared) {
    for (auto& star : stars) {
      auto const ways = star.ways();
      auto shares = shared == sharing::whole ? whole_shares(star.capacity, ways)
                                             : std::vector<std::int64_t>{};
      if (shares.empty()) {
        auto const count = static_cast<std::int64_t>(ways);
        auto const factor = count / std::gcd(count, star.capacity);
        if (factor > limit / std::max<std::int64_t>(sum_, 1)) return false;
        enlarge(factor);
        for (auto& each : stars) each.capacity *= factor;
        shares.assign(ways, star.capacity / count);
      }
      for (std::size_t g = 0; g < star.groups.size(); ++g) {
        for (std::size_t p = 0; p < star.groups[g].size(); ++p) {
          for (std::size_t k = 0; k < ways; ++k) {
            pieces_.split(star.groups[g][p], w, star.partner(g, p, k), shares[k]);
          }
        }
      }
    }
    pieces_.drop_vertex(w);
    return true;
  }

  /// The state that changes as switches are split.
  struct state {
    explicit state(switch_splitter const& from)
        : pieces(from.pieces_),
          supply(from.supply_),
          wanted(from.wanted_),
          sum(from.sum_),
          scale(from.scale_) {}
    route_pieces pieces;
    std::vector<std::int64_t> supply;
    std::int64_t wanted, sum, scale;
  };
  void restore(state const& from) {
    pieces_ = from.pieces;
    supply_ = from.supply;
    wanted_ = from.wanted;
    sum_ = from.sum;
    scale_ = from.scale;
  }

  void enlarge(std::int64_t factor) {
    if (factor == 1) return;
    pieces_.multiply(factor);
    for (auto& s : supply_) s *= factor;
    sum_ *= factor;
    wanted_ *= factor;
    scale_ *= factor;
  }

  /// Splits off pairs of ports in rounds. The first pairs ranks with other switches, as much as
  /// fits, because these are the ways out. Next, every pair gets a share, which gives many short
  /// routes; last, whatever fits. Ends as soon as the rest of the switch is not needed.
  void split_pairs(int w) {
    auto const ends = pieces_.neighbours(w);
    auto const count = ends.size();
    auto const ways = static_cast<std::int64_t>(std::min<std::size_t>(count - 1, most_ways));
    flows network(*this);
    std::set<std::pair<int, int>> dead;  // no more can be split off these pairs
    auto const switch_node = [&](int v) { return is_switch_[static_cast<std::size_t>(v)]; };
    auto const group = [&](int v) { return group_[static_cast<std::size_t>(v)]; };
    enum class round : std::uint8_t { ways_out, shares_between_groups, shares, rest };
    for (auto const now :
         {round::ways_out, round::shares_between_groups, round::shares, round::rest}) {
      for (std::size_t step = 1; step < count; ++step) {
        for (std::size_t i = 0; i < count; ++i) {
          int const u = ends[i];
          int const t = ends[(i + step) % count];
          if (now == round::ways_out && switch_node(u) == switch_node(t)) continue;
          if (now == round::shares_between_groups && group(u) == group(t)) continue;
          auto most = std::min(pieces_.between(u, w), pieces_.between(w, t));
          if (now == round::shares_between_groups || now == round::shares) {
            most = std::min(most, (pieces_.between(u, w) + ways - 1) / ways);
          }
          if (most == 0 || dead.contains({u, t})) continue;
          auto const moved = network.shift(u, w, t, most);
          if (moved < most) dead.insert({u, t});
          pieces_.split(u, w, t, moved);
        }
      }
      if (now != round::rest && unbalances_others(w)) continue;
      auto without = pieces_;
      without.drop_vertex(w);
      if (!all_reached(without)) continue;
      pieces_ = std::move(without);
      return;
    }
    throw unsplittable_switch(w);
  }

  /// True if another switch would have more capacity out than in without its capacity from this
  /// one.
  [[nodiscard]] bool unbalances_others(int w) const {
    auto const ends = pieces_.neighbours(w);
    return std::any_of(ends.begin(), ends.end(), [&](int t) {
      return is_switch_[static_cast<std::size_t>(t)] &&
             pieces_.between(w, t) > pieces_.between(t, w);
    });
  }

  static constexpr std::size_t most_ways = 16;  // pairs of a port that get a share first

  std::vector<bool> is_switch_;
  std::vector<std::int64_t> supply_;
  std::vector<int> group_;
  route_pieces pieces_;
  std::vector<int> ranks_;
  std::int64_t wanted_ = 0;  // received by every rank, its own supply included
  std::int64_t sum_ = 0;     // an upper bound of every flow
  std::int64_t scale_ = 1;
};

}  // namespace detail
}}  // namespace blink::BLINK_ABI
