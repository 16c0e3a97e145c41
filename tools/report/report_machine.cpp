// SPDX-License-Identifier: Apache-2.0
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/canonical.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/subset.hpp>

#include "../explain_machine.hpp"
#include "report_data.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace blink::tools {
namespace {

constexpr std::size_t most_ranks_of_all_sets = 8;  // of more, some sets of ranks stand for all

/// The machine's description up to renumbering, or one of its own where the search is long.
std::string class_of(topology const& machine) {
  constexpr std::int64_t work = 400'000;  // refinements times links
  auto const links = static_cast<std::int64_t>(machine.links.size());
  return canonical(machine, std::max<std::int64_t>(1, work / std::max<std::int64_t>(links, 1))).key;
}

std::string in_list(std::vector<int> const& ids) {
  std::string result;
  for (int const id : ids) result += (result.empty() ? "" : ",") + std::to_string(id);
  return result;
}

int id_at(topology const& machine, int position) {
  return machine.nodes[static_cast<std::size_t>(position)].id;
}

std::vector<int> ids_of_ranks(topology const& machine) {
  std::vector<int> result;
  for (int const at : machine.rank_positions()) result.push_back(id_at(machine, at));
  return result;
}

/// All sets of two ranks or more; of a larger machine the first ranks and every k-th one.
std::vector<std::vector<int>> sets_of_ranks(std::vector<int> const& ranks) {
  std::vector<std::vector<int>> result;
  if (ranks.size() <= most_ranks_of_all_sets) {
    for (unsigned chosen = 1; chosen < 1U << ranks.size(); ++chosen) {
      std::vector<int> ids;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        if ((chosen >> i & 1U) != 0) ids.push_back(ranks[i]);
      }
      if (ids.size() > 1) result.push_back(std::move(ids));
    }
    std::stable_sort(result.begin(), result.end(),
                     [](auto const& a, auto const& b) { return a.size() < b.size(); });
    return result;
  }
  for (std::size_t size = 2; size < ranks.size(); size *= 2) {
    result.emplace_back(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(size));
    std::vector<int> spread;
    for (std::size_t i = 0; i < size; ++i) spread.push_back(ranks[i * ranks.size() / size]);
    result.push_back(std::move(spread));
  }
  result.emplace_back(ranks.begin(), ranks.end() - 1);
  result.push_back(ranks);
  return result;
}

struct set_rates {
  std::vector<int> ranks;  ///< of the first such set
  std::size_t alike = 1;
  std::string links;
  rational rate;
  std::optional<rational> ring;
  std::string ring_planner;
  bool is_this = false;  ///< the reported ranks are such a set
};

/// The rates of all classes of sets of ranks that links join.
std::vector<set_rates> rates_of_sets(topology const& whole, plan const& p,
                                     plan_report_settings const& settings, progress& bar) {
  std::vector<set_rates> result;
  std::map<std::string, std::size_t> known;
  auto sorted = p.ranks;
  std::sort(sorted.begin(), sorted.end());
  auto const sets = sets_of_ranks(ids_of_ranks(whole));
  bar.begin("other sets of ranks", sets.size());
  for (auto const& ranks : sets) {
    if (&ranks != &sets.front()) bar.step();
    auto choice = settings.choice;
    choice.ranks = in_list(ranks);
    bool const is_this = ranks == sorted;
    try {
      auto const place = allocation_of(whole, choice, p.collective);
      auto const [found, is_new] = known.emplace(class_of(place.machine), result.size());
      if (!is_new) {
        ++result[found->second].alike;
        result[found->second].is_this = result[found->second].is_this || is_this;
        continue;
      }
      plan_request request{p.collective, {}, planned_by::exact};
      request.budget = settings.budget;
      auto const both = beside_ring(place, checked_plan(place, request));
      set_rates row{ranks, 1, place.links, both.planned.plan.rate, {}, {}, is_this};
      if (both.ring) {
        row.ring = both.ring->rate;
        row.ring_planner = both.ring->planner;
      }
      result.push_back(std::move(row));
    } catch (error const&) {  // no links join them
    }
  }
  return result;
}

void add_sets(report_json& report, std::vector<set_rates> const& sets, plan const& p,
              bool are_all) {
  auto rows = report_json::array();
  for (auto const& each : sets) {
    auto const* ring = each.ring && *each.ring > rational(0) ? &*each.ring : nullptr;
    rows.push_back({each.ranks.size(), in_list(each.ranks), each.is_this ? "this report" : "",
                    each.alike, each.links.empty() ? "all" : each.links, each.rate.to_double(),
                    ring != nullptr ? report_json(ring->to_double()) : nullptr, each.ring_planner,
                    ring != nullptr ? report_json(ratio(each.rate, *ring)) : nullptr});
  }
  add_table(report, "allocations", "Speed-up over the best ring by set of ranks",
            are_all ? "One set stands for all that are alike. Without a ring of direct links, it "
                      "goes over PCIe."
                    : "Some sets of each size. Without a ring of direct links, it goes over PCIe.",
            {{"ranks"},
             {"set"},
             {"here"},
             {"alike"},
             {"links"},
             {"rate", p.unit},
             {"ring", p.unit},
             {"planner of the ring"},
             {"speed-up", "", true}},
            std::move(rows));
}

/// A machine that differs, and the ids of the ranks that take part.
struct changed_machine {
  std::string what;
  topology machine;
  std::string ranks;
  std::string links;  ///< as --links
  std::size_t alike = 1;
};

/// Changes of a machine of the reported ranks, one for each kind of change.
class machine_changes {
 public:
  machine_changes(topology const& whole, plan const& p, machine_choice const& choice)
      : whole_(subset(whole, p.ranks)), choice_(choice) {
    lose_links(p.links);
    lose_ranks();
    add_links();
    speed_up_kinds();
    use_other_kinds();
  }
  [[nodiscard]] std::vector<changed_machine> take() { return std::move(result_); }

 private:
  static constexpr std::size_t most_classified = 16;  // ranks; of more, ends decide what is alike

  /// Adds a change, or counts it where an isomorphic one is known.
  ///
  /// sign: stands for the class of the machine where that takes long to find
  void add(char const* kind, std::string what, topology machine, std::string const& sign,
           std::string const& ranks = {}, std::string const& links = {}) {
    bool const is_small = whole_.rank_positions().size() <= most_classified;
    auto const key = kind + (is_small ? class_of(machine) : sign);
    auto const [found, is_new] = known_.emplace(key, result_.size());
    if (!is_new) {
      ++result_[found->second].alike;
      return;
    }
    result_.push_back(
        {std::move(what), std::move(machine), ranks, links.empty() ? choice_.links : links});
  }
  [[nodiscard]] std::string between(int a, int b) const {
    auto const name = [&](int position) {
      auto const& n = whole_.nodes[static_cast<std::size_t>(position)];
      return n.label.empty() ? std::to_string(n.id) : n.label;
    };
    return name(a) + " and " + name(b);
  }
  /// The kinds of the ends and the capacity: links alike in these are taken as alike.
  [[nodiscard]] std::string sign_of(link const& l) const {
    auto const kind = [&](int position) {
      return whole_.nodes[static_cast<std::size_t>(position)].kind == node_kind::rank ? "r" : "s";
    };
    return std::string(to_text(l.kind)) + kind(l.tail) + kind(l.head) + std::to_string(l.capacity);
  }

  /// kind: of the links that the plan uses; empty: all
  void lose_links(std::string const& kind) {
    std::set<std::tuple<int, int, link_kind>> pairs;
    for (auto const& l : whole_.links) {
      auto const [a, b] = std::minmax(l.tail, l.head);
      bool const is_used = kind.empty() || to_text(l.kind) == kind;
      if (!is_used || !pairs.emplace(a, b, l.kind).second) continue;
      auto machine = whole_;
      std::erase_if(machine.links, [&, a = a, b = b](link const& other) {
        return std::min(other.tail, other.head) == a && std::max(other.tail, other.head) == b &&
               other.kind == l.kind;
      });
      add("dead", "dead: " + proper_name(l.kind) + " between " + between(a, b), std::move(machine),
          sign_of(l));
    }
  }
  void lose_ranks() {
    auto const ranks = ids_of_ranks(whole_);
    if (ranks.size() < 3) return;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      auto others = ranks;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      add("without", "without rank " + std::to_string(ranks[i]), subset(whole_, others), "rank",
          in_list(others));
    }
  }
  /// One link more of the fastest kind: between two ranks, or between a rank and a switch.
  void add_links() {
    if (whole_.links.empty()) return;
    auto const kind = fastest_connecting_kind(whole_).value_or(*kinds().begin());
    std::int64_t least = 0;
    for (auto const& l : whole_.links) {
      if (l.kind == kind && (least == 0 || l.capacity < least)) least = l.capacity;
    }
    auto const add_one = [&](int a, int b, std::string const& sign) {
      auto machine = whole_;
      machine.links.push_back({a, b, least, 0, kind});
      machine.links.push_back({b, a, least, 0, kind});
      add("more", "one " + proper_name(kind) + " more between " + between(a, b), std::move(machine),
          sign);
    };
    auto const ranks = whole_.rank_positions();
    bool const is_direct =
        std::any_of(whole_.links.begin(), whole_.links.end(), [&](link const& l) {
          auto const is_rank = [&](int at) {
            return std::count(ranks.begin(), ranks.end(), at) > 0;
          };
          return l.kind == kind && is_rank(l.tail) && is_rank(l.head);
        });
    if (is_direct) {
      for (std::size_t a = 0; a < ranks.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) add_one(ranks[b], ranks[a], "direct");
      }
      return;
    }
    std::set<std::pair<int, int>> pairs;
    for (auto const& l : whole_.links) {
      auto const ends = std::minmax(l.tail, l.head);
      if (l.kind == kind && pairs.insert(ends).second) {
        add_one(ends.first, ends.second, sign_of(l));
      }
    }
  }
  void speed_up_kinds() {
    for (auto const kind : kinds()) {
      auto machine = whole_;
      for (auto& l : machine.links) l.capacity *= l.kind == kind ? 2 : 1;
      auto const name = kind == link_kind::network ? "the network" : "all " + proper_name(kind);
      add("faster", name + " twice as fast", std::move(machine), std::string(to_text(kind)));
    }
  }
  void use_other_kinds() {
    if (kinds().size() < 2) return;
    for (auto const kind : kinds()) {
      bool const joins =
          detail::joins_all_ranks(whole_, [&](link const& l) { return l.kind == kind; });
      auto const name = std::string(to_text(kind));
      if (joins) add("only", proper_name(kind) + " alone", whole_, name, {}, name);
    }
    add("all", "all kinds of links", whole_, "all", {}, "all");
  }
  [[nodiscard]] std::set<link_kind> kinds() const {
    std::set<link_kind> result;
    for (auto const& l : whole_.links) result.insert(l.kind);
    return result;
  }

  topology whole_;
  machine_choice choice_;
  std::vector<changed_machine> result_;
  std::map<std::string, std::size_t> known_;
};

void add_changes(report_json& report, allocation const& place, plan const& p,
                 std::vector<set_rates> const& sets, plan_report_settings const& settings,
                 progress& bar) {
  auto rows = report_json::array();
  auto const add = [&](std::string const& what, std::size_t alike, rational const& rate,
                       std::string const& links) {
    bool const is_known = p.rate > rational(0);
    rows.push_back({what, alike, rate.to_double(),
                    is_known ? report_json(100 * (ratio(rate, p.rate) - 1)) : nullptr,
                    links.empty() ? "all" : links});
  };
  add("as reported", 1, p.rate, p.links);
  auto changes = machine_changes(place.whole, p, settings.choice).take();
  bar.begin("changed machines", changes.size());
  for (auto const& change : changes) {
    if (&change != &changes.front()) bar.step();
    auto choice = settings.choice;
    choice.ranks = change.ranks;
    choice.links = change.links;
    plan_request request{p.collective, {}, planned_by::exact};
    request.budget = settings.budget;
    if (has_root(p.collective) && change.ranks.empty() && !p.trees.empty()) {
      request.root = p.trees.front().root;
    }
    try {
      auto const on = allocation_of(change.machine, choice, p.collective);
      add(change.what, change.alike, checked_plan(on, request).plan.rate, on.links);
    } catch (error const& reason) {
      rows.push_back(
          {change.what, change.alike, nullptr, nullptr, std::string("no plan: ") + reason.what()});
    }
  }
  std::vector<set_rates const*> same;
  for (auto const& each : sets) {
    if (each.ranks.size() == p.ranks.size() && !each.is_this) same.push_back(&each);
  }
  if (!same.empty()) {
    auto const by_rate = [](auto const* a, auto const* b) { return a->rate < b->rate; };
    auto const [worst, best] = std::minmax_element(same.begin(), same.end(), by_rate);
    for (auto const& [what, each] :
         {std::pair("best other set: ", *best), {"worst other set: ", *worst}}) {
      add(what + in_list(each->ranks), each->alike, each->rate, each->links);
    }
  }
  add_table(report, "changes", "What a change of the machine would give",
            "Each row is planned again. One row stands for all changes that are alike.",
            {{"change"}, {"alike"}, {"rate", p.unit, true}, {"change of rate", "%"}, {"links"}},
            std::move(rows));
}

}  // namespace

void describe_machine(report_json& report, topology const& machine) {
  auto nodes = report_json::array();
  for (auto const& n : machine.nodes) {
    nodes.push_back({{"id", n.id},
                     {"kind", n.kind == node_kind::rank ? "rank" : "switch"},
                     {"label", n.label},
                     {"server", n.server}});
  }
  report["machine"] = {{"name", machine.name}, {"unit", machine.unit}, {"nodes", std::move(nodes)}};
  std::map<std::tuple<int, int, link_kind>, rational> links;
  for (auto const& l : machine.links) {
    links[{id_at(machine, l.tail), id_at(machine, l.head), l.kind}] += machine.in_units(l.capacity);
  }
  auto rows = report_json::array();
  for (auto const& [link, capacity] : links) {
    auto const& [from, to, kind] = link;
    rows.push_back({from, to, to_text(kind), capacity.to_double()});
  }
  add_table(report, "links", "Links of the machine", "Each row is one direction.",
            {{"from"}, {"to"}, {"kind"}, {"capacity", machine.unit, true}}, std::move(rows));
  for (auto const& remark : machine.remarks) report["remarks"].push_back(remark);
}

void describe_changes(report_json& report, allocation const& place, plan_and_report const& planned,
                      plan_report_settings const& settings, progress& bar) {
  auto const& p = planned.plan;
  constexpr std::size_t most = 64;  // ranks; planning for more takes seconds
  bool const is_plain = p.collective != collective::permute && p.shares.empty() &&
                        p.forwarding_ranks.empty() && p.forbidden_links.empty();
  if (p.trees.empty() || !moves_data(p.collective) || !is_plain || p.ranks.size() > most) {
    report["remarks"].push_back("no changes of the machine are planned for such a plan");
    return;
  }
  std::vector<set_rates> sets;
  auto const ranks = place.whole.rank_positions().size();
  if (has_spanning_trees(p.collective)) {
    sets = rates_of_sets(place.whole, p, settings, bar);
    add_sets(report, sets, p, ranks <= most_ranks_of_all_sets);
  }
  add_changes(report, place, p, sets, settings, bar);
}

}  // namespace blink::tools
