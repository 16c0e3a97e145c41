// SPDX-License-Identifier: Apache-2.0
#pragma once

// The choice of the trees of a collective.

#include <blink/core/collective.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/schedule/given_tuning.hpp>
#include <blink/schedule/tuning_table.hpp>
#include <blink/transports/cuda/ranks/protocol_schedules.hpp>

#include "errors.hpp"
#include "platform.hpp"

#include <cstddef>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace blink_nccl {

/// The schedules of a communicator, prepared at their first use. They come from a user's table for
/// the number of ranks, the collective and the root. Without such a table they are the default
/// ones.
template <platform P, class Transport>
class routes {
 public:
  using prepared_type = typename ranks_t<P, Transport>::prepared_type;

  explicit routes(ranks_t<P, Transport>& all_ranks) : ranks_(all_ranks) {}

  /// Sets the user's tables, before anything is prepared. Tables for other numbers of ranks or
  /// other transports are ignored.
  ///
  /// Throws: input_error if two tables are for the same calls.
  void take(std::vector<blink::tuning_table> tables) {
    bool const are_given = !tables.empty();
    auto const ranks = tuned();
    blink::detail::expect_one_for_each_call<blink::input_error>(tables, ranks, "BLINK_TUNING");
    std::erase_if(tables, [&](blink::tuning_table const& table) { return !ranks.suits(table); });
    if (are_given && tables.empty() && reports_errors()) {
      std::fprintf(stderr, "blink: BLINK_TUNING has no table for a communicator of %s\n",
                   to_text(ranks).c_str());
    }
    tables_ = std::move(tables);
  }

  /// True if the schedule for a call is prepared; `bytes` is the size of the whole buffer.
  [[nodiscard]] bool knows(blink::collective kind, int root, std::size_t bytes) {
    return known_.contains({kind, root, choose(kind, root, bytes).first});
  }
  /// Returns the prepared schedule for a call. With several processes, all call it together at the
  /// first use.
  [[nodiscard]] blink::chosen_from<prepared_type> along(blink::collective kind, int root,
                                                        std::size_t bytes) {
    auto const [algorithm, chunk_bytes] = choose(kind, root, bytes);
    auto const found = known_.find({kind, root, algorithm});
    if (found != known_.end()) return {found->second, chunk_bytes};
    auto& made = ranks_.prepare(schedule_of(kind, root, algorithm));
    known_[{kind, root, algorithm}] = &made;
    return {&made, chunk_bytes};
  }

 private:
  static constexpr std::size_t by_default = ~std::size_t{0};

  [[nodiscard]] blink::detail::tuned_ranks tuned() const { return {ranks_.rank_count(), "CUDA"}; }
  [[nodiscard]] blink::tuning_table const* table_for(blink::collective kind, int root) {
    auto const [found, is_new] = table_of_.try_emplace({kind, root}, nullptr);
    if (is_new) found->second = blink::detail::table_for(tables_, tuned(), kind, root);
    return found->second;
  }
  /// Returns the position of the algorithm in its table, and the bytes of a chunk.
  [[nodiscard]] std::pair<std::size_t, std::size_t> choose(blink::collective kind, int root,
                                                           std::size_t bytes) {
    auto const* const table = table_for(kind, root);
    if (table == nullptr) return {by_default, 0};
    auto const& range = blink::range_of(*table, bytes);
    return {range.algorithm, range.chunk_bytes};
  }
  [[nodiscard]] blink::schedule schedule_of(blink::collective kind, int root,
                                            std::size_t algorithm) {
    int const ranks = ranks_.rank_count();
    if (algorithm == by_default) {
      return blink::replicate_trees(blink::default_schedule(kind, ranks, root), P::ways(ranks));
    }
    auto const& source = table_for(kind, root)->algorithms[algorithm].source;
    return blink::replicate_trees(source, P::ways(static_cast<int>(source.trees.size())));
  }

  ranks_t<P, Transport>& ranks_;
  std::vector<blink::tuning_table> tables_;
  std::map<std::pair<blink::collective, int>, blink::tuning_table const*> table_of_;
  std::map<std::tuple<blink::collective, int, std::size_t>, prepared_type*> known_;
};

}  // namespace blink_nccl
