// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which trees a collective runs along.

#include <blink/core/collective.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/schedule/default_methods.hpp>
#include <blink/schedule/method_table.hpp>
#include <blink/transports/cuda/world/protocol_schedules.hpp>

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

/// The schedules of a communicator, prepared when they are used first: those of a table that was given for its
/// number of ranks, the collective and the root, else the default ones.
template <platform P, class Link>
class routes {
 public:
  using prepared_type = typename world_t<P, Link>::prepared_type;

  explicit routes(world_t<P, Link>& world) : world_(world) {}

  /// Before anything is prepared. Those for other numbers of ranks are other communicators'.
  ///
  /// Throws: input_error if two tables are for the same calls.
  void take(std::vector<blink::method_table> tables) {
    bool const are_given = !tables.empty();
    std::erase_if(tables, [&](blink::method_table const& table) {
      return table.methods[0].plan.rank_count != world_.rank_count();
    });
    for (auto const& table : tables) {
      for (auto const* other = tables.data(); other != &table; ++other) {
        if (other->collective != table.collective || ends_of(*other) != ends_of(table)) continue;
        throw blink::input_error("BLINK_NCCL_METHODS: two tables for " +
                                 std::string(to_text(table.collective)) + " of " +
                                 std::to_string(world_.rank_count()) + " ranks, expected one");
      }
    }
    if (are_given && tables.empty() && tells_errors()) {
      std::fprintf(stderr,
                   "blink: BLINK_NCCL_METHODS has no table for a communicator of %d ranks\n",
                   world_.rank_count());
    }
    tables_ = std::move(tables);
  }

  /// bytes: of the whole buffer
  [[nodiscard]] bool knows(blink::collective kind, int root, std::size_t bytes) {
    return known_.contains({kind, root, choose(kind, root, bytes).first});
  }
  /// Of several processes: called by all of them together, the first time.
  [[nodiscard]] blink::chosen_from<prepared_type> along(blink::collective kind, int root,
                                                        std::size_t bytes) {
    auto const [method, chunk_bytes] = choose(kind, root, bytes);
    auto const found = known_.find({kind, root, method});
    if (found != known_.end()) return {found->second, chunk_bytes};
    auto& made = world_.prepare(schedule_of(kind, root, method));
    known_[{kind, root, method}] = &made;
    return {&made, chunk_bytes};
  }

 private:
  static constexpr std::size_t by_default = ~std::size_t{0};

  [[nodiscard]] static auto ends_of(blink::method_table const& table) {
    return blink::detail::end_points(table.methods[0].plan, table.collective);
  }
  [[nodiscard]] blink::method_table const* table_for(blink::collective kind, int root) {
    auto const [found, is_new] = table_of_.try_emplace({kind, root}, nullptr);
    if (!is_new) return found->second;
    for (auto const& table : tables_) {
      if (table.collective != kind) continue;
      auto const plan = blink::default_schedule(kind, world_.rank_count(), root);
      if (ends_of(table) == blink::detail::end_points(plan, kind)) found->second = &table;
    }
    return found->second;
  }
  /// Position of the method, bytes of a chunk.
  [[nodiscard]] std::pair<std::size_t, std::size_t> choose(blink::collective kind, int root,
                                                           std::size_t bytes) {
    auto const* const table = table_for(kind, root);
    if (table == nullptr) return {by_default, 0};
    auto const& range = blink::range_of(*table, bytes);
    return {range.method, range.chunk_bytes};
  }
  [[nodiscard]] blink::schedule schedule_of(blink::collective kind, int root, std::size_t method) {
    int const ranks = world_.rank_count();
    if (method == by_default) {
      return blink::parallel_trees(blink::default_schedule(kind, ranks, root), P::ways(ranks));
    }
    auto const& plan = table_for(kind, root)->methods[method].plan;
    return blink::parallel_trees(plan, P::ways(static_cast<int>(plan.trees.size())));
  }

  world_t<P, Link>& world_;
  std::vector<blink::method_table> tables_;
  std::map<std::pair<blink::collective, int>, blink::method_table const*> table_of_;
  std::map<std::tuple<blink::collective, int, std::size_t>, prepared_type*> known_;
};

}  // namespace blink_nccl
