// SPDX-License-Identifier: Apache-2.0
#include "stall_advice.hpp"

#include <blink/core/error.hpp>
#include <blink/planning/choose_tuning.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/schedule/given_tuning.hpp>
#include <blink/schedule/tuning_file.hpp>
#include <blink/simulation/correct_predictions.hpp>

#include "plan_in_use.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>

namespace blink::tools {
namespace {

/// By rank, a number that is equal for ranks of one host; empty: all are of one.
std::vector<std::uint64_t> hosts_of(calls_of_ranks const& calls) {
  std::map<std::string, std::uint64_t> number;
  std::vector<std::uint64_t> result;
  for (auto const& [rank, all] : calls) {
    result.push_back(number.emplace(all.front().host, number.size()).first->second);
  }
  return number.size() > 1 ? result : std::vector<std::uint64_t>{};
}

/// The algorithms that programs run without a plan of their own, for any root.
std::vector<algorithm> usual_algorithms(collective kind, calls_of_ranks const& calls) {
  constexpr int most_roots = 64;
  int const ranks = static_cast<int>(calls.size());
  std::vector<algorithm> result;
  detail::for_each_tuning_file([&](std::string const& file) {
    for (auto& table : read_tuning_file(file)) {
      if (table.collective != kind || table.algorithms.front().source.rank_count != ranks) continue;
      for (auto& each : table.algorithms) result.push_back(std::move(each));
    }
  });
  auto const hosts = hosts_of(calls);
  for (int root = 0; root < (has_root(kind) ? std::min(ranks, most_roots) : 1); ++root) {
    for (auto& each : default_algorithms(kind, ranks, root, hosts))
      result.push_back(std::move(each));
  }
  return result;
}

/// The links of one kind twice as fast.
topology with_faster_links(topology machine, std::string const& kind) {
  for (auto& each : machine.links) {
    bool const fits = each.capacity <= std::numeric_limits<std::int64_t>::max() / 2;
    if (to_text(each.kind) == kind && fits) each.capacity *= 2;
  }
  return machine;
}

/// The predicted seconds of one candidate, by the cost model as far as simulations agree.
double seconds_on(topology const& machine, plan_candidate candidate, std::int64_t bytes,
                  cost_options const& costs) {
  candidate.cost = cost_of(machine, candidate.plan, costs.parameters());
  plan_candidates only;
  only.plans.push_back(std::move(candidate));
  correct_predictions(machine, only, bytes, bytes, costs.simulated());
  return seconds_for(only.plans.front(), static_cast<double>(bytes));
}

/// Predictions for the calls of one loop.
class adviser {
 public:
  adviser(allocation const& place, loop_times const& loop, cost_options const& costs)
      : machine_(place.machine), loop_(loop), costs_(costs) {
    auto const ranks = machine_.rank_positions().size();
    if (ranks != loop.calls.size()) {
      throw input_error("machine '" + machine_.name + "' has " + std::to_string(ranks) +
                        " ranks, expected " + std::to_string(loop.calls.size()) +
                        ", those of the program (--machine, --ranks)");
    }
    result_.machine = machine_.name;
    std::set<std::string> kinds;
    for (auto const& each : machine_.links) kinds.emplace(to_text(each.kind));
    result_.link_kinds.assign(kinds.begin(), kinds.end());
    result_.buckets.resize(loop.buckets.size());
  }

  [[nodiscard]] stall_advice advise() && {
    std::map<group_key, std::vector<std::size_t>> groups;
    for (std::size_t k = 0; k < loop_.buckets.size(); ++k) {
      if (auto const key = recognise(k)) groups[*key].push_back(k);
    }
    for (auto const& [key, buckets] : groups) advise_group(key, buckets);
    return std::move(result_);
  }

 private:
  struct group_key {
    collective kind;
    int root;  // -1: none
    friend auto operator<=>(group_key const&, group_key const&) = default;
  };

  [[nodiscard]] std::int64_t bytes_of(std::size_t bucket) const {
    auto const& own = loop_.buckets[bucket];
    auto const kind = read_collective(own.collective);
    return static_cast<std::int64_t>(
        buffer_bytes(kind, own.bytes, 1, static_cast<int>(loop_.calls.size())));
  }

  /// Finds the plan in use of a bucket among those that programs run by default. Returns the calls
  /// that it is planned with; nothing if no plan matters, or its root is not known.
  std::optional<group_key> recognise(std::size_t bucket) {
    auto const& own = loop_.buckets[bucket];
    auto const kind = read_collective(own.collective);
    auto& advised = result_.buckets[bucket];
    if (own.is_eager) advised.in_use.name = "with the call";
    bool const has_plan = !own.is_eager && moves_data(kind) && kind != collective::permute &&
                          own.bytes > 0 && loop_.calls.size() > 1;
    if (!has_plan) return std::nullopt;
    auto const usual = usual_algorithms(kind, loop_.calls);
    auto const found = find_in_use(usual, kind, static_cast<double>(bytes_of(bucket)), own.sent);
    int root = -1;
    if (found < usual.size()) {
      advised.in_use.name = usual[found].name;
      in_use_.insert_or_assign(bucket, usual[found]);
      if (has_root(kind)) root = root_of(usual[found].source, kind);
    }
    if (has_root(kind) && root < 0) return std::nullopt;
    return group_key{kind, root};
  }

  /// Plans the calls of one collective from one root, and predicts their times.
  void advise_group(group_key const& key, std::vector<std::size_t> const& buckets) {
    plan_request request{key.kind};
    if (key.root >= 0) {
      auto const at = machine_.rank_positions()[static_cast<std::size_t>(key.root)];
      request.root = machine_.nodes[static_cast<std::size_t>(at)].id;
    }
    double const unit = costs_.rate_of_unit(machine_);
    auto candidates = all_algorithms(machine_, request, costs_.parameters());
    std::vector<algorithm> planned;  // by candidate
    std::erase_if(candidates.plans, [&](plan_candidate const& each) {
      try {
        auto source = make_schedule(machine_, each.plan, unit);
        source.is_one_shot = each.is_one_shot;
        planned.push_back({name_of(each), std::move(source)});
        return false;
      } catch (error const&) {  // switches copy or reduce: it cannot run here
        return true;
      }
    });
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 1;
    for (auto const bucket : buckets) {
      least = std::min(least, bytes_of(bucket));
      most = std::max(most, bytes_of(bucket));
    }
    std::map<std::size_t, std::size_t> candidate_of;  // by bucket: the plan in use
    for (auto const bucket : buckets) {
      candidate_of[bucket] = candidate_in_use(bucket, key.kind, planned, candidates);
    }
    correct_predictions(machine_, candidates, least, most, costs_.simulated());
    bool is_better = false;
    for (auto const bucket : buckets) {
      is_better = advise_bucket(bucket, candidate_of.at(bucket), candidates) || is_better;
    }
    if (!is_better) return;
    auto table = choose_tuning(machine_, candidates, unit, least, most);
    for (auto const& [bucket, candidate] : candidate_of) {
      auto const usual = in_use_.find(bucket);
      if (usual == in_use_.end()) continue;
      for (auto& each : table.algorithms) {  // as it is in use, without routes of this machine
        if (each.name == name_of(candidates.plans[candidate])) each.source = usual->second.source;
      }
    }
    result_.better.push_back(std::move(table));
  }

  /// The position of a bucket's plan among the candidates, to which it is added if it is missing;
  /// their number if it is not known.
  std::size_t candidate_in_use(std::size_t bucket, collective kind, std::vector<algorithm>& planned,
                               plan_candidates& candidates) {
    auto& name = result_.buckets[bucket].in_use.name;
    auto const usual = in_use_.find(bucket);
    if (usual != in_use_.end()) {
      for (std::size_t k = 0; k < planned.size(); ++k) {
        if (planned[k] == usual->second) return k;
      }
      planned.push_back(usual->second);
      candidates.plans.push_back(plan_along(usual->second, kind, machine_, costs_.parameters()));
      return planned.size() - 1;
    }
    auto const found = find_in_use(planned, kind, static_cast<double>(bytes_of(bucket)),
                                   loop_.buckets[bucket].sent);
    if (found == planned.size()) return SIZE_MAX;
    name = planned[found].name;
    return found;
  }

  /// Returns true if another plan is faster than the one in use.
  bool advise_bucket(std::size_t bucket, std::size_t used, plan_candidates const& candidates) {
    auto& advised = result_.buckets[bucket];
    auto const bytes = bytes_of(bucket);
    auto const size = static_cast<double>(bytes);
    auto const best = fastest(candidates, size);
    advised.best = {name_of(candidates.plans[best.candidate]), best.seconds};
    bool const is_known = used < candidates.plans.size();
    bool is_better = false;
    if (is_known) {
      advised.in_use.seconds = seconds_for(candidates.plans[used], size);
      is_better = advised.in_use.seconds > (1 + least_gain) * best.seconds;
      if (!is_better) advised.best = advised.in_use;
    }
    auto const& kept = candidates.plans[is_known ? used : best.candidate];
    for (auto const& kind : result_.link_kinds) {
      advised.with_faster[kind] =
          seconds_on(with_faster_links(machine_, kind), kept, bytes, costs_);
    }
    return is_better;
  }

  topology const& machine_;
  loop_times const& loop_;
  cost_options const& costs_;
  std::map<std::size_t, algorithm> in_use_;  // by bucket
  stall_advice result_;
};

}  // namespace

stall_advice advise(allocation const& place, loop_times const& loop, cost_options const& costs) {
  return adviser(place, loop, costs).advise();
}

}  // namespace blink::tools
