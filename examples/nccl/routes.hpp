// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which trees a collective runs along.

#include <blink/collective.hpp>
#include <blink/collectives/default_methods.hpp>
#include <blink/collectives/method_table.hpp>
#include <blink/error.hpp>
#include <blink/transports/cuda/parallel_trees.hpp>

#include "errors.hpp"
#include "given_methods.hpp"
#include "platform.hpp"

#include <cstddef>
#include <cstdint>
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

  struct way {
    prepared_type* plan;
    std::size_t chunk_bytes;  ///< 0: as the schedule says
  };

  routes(world_t<P, Link>& world, given_methods given) : world_(world), given_(std::move(given)) {
    // Those for other numbers of ranks are other communicators'.
    std::erase_if(given_.tables, [&](blink::method_table const& table) {
      return table.methods[0].plan.rank_count != world_.rank_count();
    });
    for (auto const& table : given_.tables) {
      for (auto const* other = given_.tables.data(); other != &table; ++other) {
        if (other->collective != table.collective || ends_of(*other) != ends_of(table)) continue;
        given_.problem = "BLINK_NCCL_METHODS: two tables for " +
                         std::string(to_text(table.collective)) + " of " +
                         std::to_string(world_.rank_count()) + " ranks, expected one";
      }
    }
    if (given_.fingerprint == 0 || !given_.tables.empty() || !tells_errors()) return;
    std::fprintf(stderr, "blink: BLINK_NCCL_METHODS has no table for a communicator of %d ranks\n",
                 world_.rank_count());
  }

  /// Throws: refusal if the tables that were given cannot be used.
  void expect_sound() const {
    if (!given_.problem.empty()) refuse_usage(given_.problem);
  }
  /// Of the tables that were given, in all processes the same; 0: none.
  [[nodiscard]] std::uint64_t fingerprint() const { return given_.fingerprint; }
  /// bytes: of the whole buffer
  [[nodiscard]] bool knows(blink::collective kind, int root, std::size_t bytes) {
    return known_.contains({kind, root, choose(kind, root, bytes).first});
  }
  /// Of several processes: called by all of them together, the first time.
  ///
  /// Throws: as `expect_sound`.
  [[nodiscard]] way along(blink::collective kind, int root, std::size_t bytes) {
    expect_sound();
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
    for (auto const& table : given_.tables) {
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
  given_methods given_;
  std::map<std::pair<blink::collective, int>, blink::method_table const*> table_of_;
  std::map<std::tuple<blink::collective, int, std::size_t>, prepared_type*> known_;
};

}  // namespace blink_nccl
