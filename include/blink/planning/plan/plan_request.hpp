// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
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
inline constexpr char const* recursive_halving_doubling = "recursive_halving_doubling";
inline constexpr char const* rabenseifner = "rabenseifner";
}  // namespace planned_by

/// A collective to plan, with its root, its planner and further options.
struct plan_request {
  blink::collective collective = collective::all_reduce;
  std::optional<int> root{};  ///< node id, for broadcast, reduce, gather and scatter; nothing:
                              ///< the best one
  std::string planner = planned_by::exact;  ///< see `planners`
  std::vector<int> destinations{};          ///< permute: node ids, see `plan::destinations`
  std::int64_t bytes = 0;         ///< of the buffer, for plans that depend on it (hybrid); 0: large
  double slow_start_seconds = 0;  ///< hybrid: how much later the slow kind of link starts
  /// exact: leaves capacity of a switch out, and may lose rate, where the switch has more capacity
  /// out than in and cannot be split; see `without_egress_excess`. If false, the planner throws
  /// unbalanced_switch there.
  bool balance_switches = false;
};

/// A set of collectives.
class collective_set {
 public:
  constexpr collective_set(std::initializer_list<collective> members) {
    for (auto const kind : members) bits_ |= std::uint32_t{1} << static_cast<unsigned>(kind);
  }
  [[nodiscard]] constexpr bool contains(collective kind) const {
    return (bits_ >> static_cast<unsigned>(kind) & 1U) != 0;
  }

 private:
  std::uint32_t bits_ = 0;
};

/// The collectives whose trees span all ranks.
inline constexpr collective_set spanning_collectives{collective::broadcast, collective::reduce,
                                                     collective::all_reduce, collective::all_gather,
                                                     collective::reduce_scatter};

/// Throws: planning_error that names the planner's collectives, if the request is for another one.
inline void require_planned(std::string_view planner, collective_set const& collectives,
                            plan_request const& request) {
  if (collectives.contains(request.collective)) return;
  std::string known;
  for (std::size_t i = 0; i < collective_names.size(); ++i) {
    if (!collectives.contains(static_cast<collective>(i))) continue;
    known += (known.empty() ? "" : ", ") + std::string(collective_names[i]);
  }
  throw planning_error(std::string(planner) + ": plans " + known + ", not " +
                       std::string(to_text(request.collective)));
}

/// The collectives that do not need equal shares for all roots.
inline constexpr collective_set free_root_collectives{collective::broadcast, collective::reduce,
                                                      collective::all_reduce};

/// A planner, as the table in `make_plan.hpp` lists it.
struct planner {
  std::string_view name;
  std::string_view about;  ///< one line for people
  plan (*make)(topology const&, plan_request const&);
  collective_set collectives;  ///< those that it plans on some machine
  /// True if `make` fills in bound and proof. Otherwise `make_plan` adds the machine's own.
  bool proves = false;
};

}}  // namespace blink::BLINK_ABI
