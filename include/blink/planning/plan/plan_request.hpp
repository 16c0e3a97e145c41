// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Names of planners, for `plan_request::planner`; the table `planners` describes them.
namespace planned_by {
inline constexpr char const* exact = "exact";
inline constexpr char const* approximate = "approximate";
inline constexpr char const* blink = "blink";
inline constexpr char const* one_hop = "one_hop";
inline constexpr char const* three_phase = "three_phase";
inline constexpr char const* hybrid = "hybrid";
inline constexpr char const* ring = "ring";
inline constexpr char const* pcie_ring = "pcie_ring";
inline constexpr char const* hierarchical_ring = "hierarchical_ring";
inline constexpr char const* double_tree = "double_tree";
inline constexpr char const* box_tree = "box_tree";
inline constexpr char const* binomial = "binomial";
inline constexpr char const* bine = "bine";
inline constexpr char const* swing = "swing";
inline constexpr char const* trivance = "trivance";
inline constexpr char const* recursive_halving_doubling = "recursive_halving_doubling";
inline constexpr char const* rabenseifner = "rabenseifner";
}  // namespace planned_by

/// Restrictions of a plan. Nodes are named by their ids.
struct plan_constraints {
  std::optional<int> max_trees;         ///< in all
  std::optional<int> max_height;        ///< edges between root and leaf, of each phase
  std::optional<rational> weight_unit;  ///< weights are multiples of it, in the machine's unit
  std::optional<int> trees_per_root;    ///< all_gather, reduce_scatter: of equal weight, fixed k
  std::vector<std::pair<int, int>> forbidden_links;  ///< (from, to): not used
  std::vector<std::pair<int, int>> required_links;   ///< (from, to): some tree uses each
  std::vector<int> forwarding_ranks;                 ///< ranks that only forward
  std::map<int, std::int64_t> shares;  ///< all_gather, reduce_scatter: by rank; others have 1
  /// Each maps nodes to nodes (others to themselves) and links to links of the same capacity. Each
  /// maps the plan to itself.
  std::vector<std::map<int, int>> symmetries;

  /// True if there is no restriction.
  [[nodiscard]] bool empty() const {
    return !max_trees && !max_height && !weight_unit && !trees_per_root &&
           forbidden_links.empty() && required_links.empty() && forwarding_ranks.empty() &&
           shares.empty() && symmetries.empty();
  }
};

/// A collective to plan, with its root, its planner and further options.
struct plan_request {
  blink::collective collective = collective::all_reduce;
  std::optional<int> root{};  ///< node id, for broadcast, reduce, gather and scatter; nothing:
                              ///< the best one
  std::string planner = planned_by::exact;  ///< see `planners`
  std::vector<int> destinations{};          ///< permute: node ids, see `plan::destinations`
  std::int64_t bytes = 0;         ///< of the buffer, for plans that depend on it (hybrid); 0: large
  double slow_start_seconds = 0;  ///< hybrid: how much later the slow kind of link starts
  /// Once it is spent, the best plan so far is the result. If there is none yet, a simple planner
  /// makes one; `plan::planner` names it.
  work_budget budget{};
  plan_constraints constraints{};
};

/// A set of collectives.
class collective_set {
 public:
  constexpr collective_set(std::initializer_list<collective> members) {
    for (auto const kind : members) add(kind);
  }
  /// The collectives with a property, such as `is_point_to_point`.
  constexpr explicit collective_set(bool (*has)(collective)) {
    for (auto const& each : collective_table) {
      if (has(each.kind)) add(each.kind);
    }
  }
  [[nodiscard]] constexpr bool contains(collective kind) const {
    return (bits_ >> static_cast<unsigned>(kind) & 1U) != 0;
  }

 private:
  constexpr void add(collective kind) { bits_ |= std::uint32_t{1} << static_cast<unsigned>(kind); }
  std::uint32_t bits_ = 0;
};

namespace detail {

/// The collective that takes the place of a reduce or reduce-scatter on the reversed machine. Any
/// other collective stays.
[[nodiscard]] constexpr collective forward_collective(collective kind) {
  return has_broadcast_phase(kind) ? kind : reversed(kind);
}

/// Throws precondition_error for another collective than `kind`, with the name of the planner.
inline void expect_kind(plan_request const& request, collective kind, std::string_view planner) {
  if (request.collective == kind) return;
  throw precondition_error(std::string(planner) + ": " + std::string(to_text(request.collective)) +
                           ", expected " + std::string(to_text(kind)));
}

/// Throws precondition_error for a reduce or reduce-scatter.
inline void expect_forward(plan_request const& request) {
  expects(forward_collective(request.collective) == request.collective,
          "a reduce or reduce_scatter, expected its forward collective on the reversed machine");
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
