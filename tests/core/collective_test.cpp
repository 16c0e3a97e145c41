// SPDX-License-Identifier: Apache-2.0
#include <blink/core/collective.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

using blink::collective;
using blink::collective_table;
using blink::traits_of;

namespace {

/// Calls `check` for each row, with the name in the trace.
template <class Check>
void for_each_row(Check const& check) {
  for (auto const& row : collective_table) {
    SCOPED_TRACE(std::string(row.name));
    check(row);
  }
}

}  // namespace

TEST(collective, has_a_row_with_a_name_of_its_own) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < collective_table.size(); ++i) {
    auto const& row = collective_table[i];
    SCOPED_TRACE(std::string(row.name));
    EXPECT_EQ(static_cast<std::size_t>(row.kind), i);
    EXPECT_EQ(&traits_of(row.kind), &row);
    EXPECT_FALSE(row.name.empty());
    EXPECT_TRUE(names.insert(row.name).second);
    EXPECT_EQ(blink::to_text(row.kind), row.name);
    EXPECT_EQ(blink::collective_names[i], row.name);
  }
  EXPECT_EQ(static_cast<std::size_t>(collective::barrier) + 1, collective_table.size());
}

TEST(collective, is_asked_for_the_columns_of_its_row) {
  for_each_row([](auto const& row) {
    EXPECT_EQ(blink::is_point_to_point(row.kind), row.is_point_to_point);
    EXPECT_EQ(blink::is_from_root(row.kind), row.is_from_root);
    EXPECT_EQ(blink::is_to_root(row.kind), row.is_to_root);
    EXPECT_EQ(blink::has_input_blocks(row.kind), row.has_input_blocks);
    EXPECT_EQ(blink::has_output_blocks(row.kind), row.has_output_blocks);
    EXPECT_EQ(blink::has_reduce_phase(row.kind), row.has_reduce_phase);
    EXPECT_EQ(blink::has_broadcast_phase(row.kind), row.has_broadcast_phase);
    EXPECT_EQ(blink::has_equal_roots(row.kind), row.has_equal_roots);
    EXPECT_EQ(blink::moves_data(row.kind), row.moves_data);
  });
}

TEST(collective, reversed_twice_is_itself) {
  for_each_row([](auto const& row) {
    auto const& other = traits_of(row.reversed);
    EXPECT_EQ(blink::reversed(other.kind), row.kind);
    EXPECT_EQ(other.is_point_to_point, row.is_point_to_point);
    EXPECT_EQ(other.is_from_root, row.is_to_root);
    EXPECT_EQ(other.has_input_blocks, row.has_output_blocks);
    EXPECT_EQ(other.has_equal_roots, row.has_equal_roots);
    EXPECT_EQ(other.moves_data, row.moves_data);
    // Paths lead away from the sender in both directions.
    if (!row.is_point_to_point) {
      EXPECT_EQ(other.has_reduce_phase, row.has_broadcast_phase);
    }
  });
}

TEST(collective, has_traits_that_fit_together) {
  for_each_row([](auto const& row) {
    EXPECT_TRUE(row.has_reduce_phase || row.has_broadcast_phase);
    EXPECT_FALSE(row.is_from_root && row.is_to_root);
    EXPECT_FALSE(row.has_equal_roots && blink::has_root(row.kind));
    if (row.is_point_to_point) {
      EXPECT_FALSE(row.has_reduce_phase);
      EXPECT_FALSE(row.has_equal_roots);
      EXPECT_TRUE(row.moves_data);
    }
    if (row.has_equal_roots) {
      EXPECT_TRUE(blink::has_blocks(row.kind));
    }
    if (!row.moves_data) {
      EXPECT_FALSE(blink::has_blocks(row.kind) || blink::has_root(row.kind));
    }
    // Data has one direction if it has a root.
    if (blink::has_root(row.kind)) {
      EXPECT_FALSE(blink::has_both_phases(row.kind));
    }
    EXPECT_EQ(blink::has_spanning_trees(row.kind) || row.is_point_to_point, row.moves_data);
  });
}

TEST(collective, sums_the_blocks_of_all_ranks) {
  for_each_row([](auto const& row) {
    bool const is_cut = row.has_input_blocks || row.has_output_blocks;
    EXPECT_EQ(blink::buffer_bytes(row.kind, 6, 4, 5), is_cut ? 120U : 24U);
  });
}

TEST(collective, has_the_flows_of_its_definition) {
  constexpr int ranks = 4;
  constexpr int root = 2;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      EXPECT_EQ(blink::has_flow(collective::gather, from, to, root), to == root);
      EXPECT_EQ(blink::has_flow(collective::scatter, from, to, root), from == root);
      EXPECT_EQ(blink::has_flow(collective::send_to_next, from, to, root), to == from + 1);
      EXPECT_TRUE(blink::has_flow(collective::all_to_all, from, to, root));
    }
  }
}

static_assert(blink::reversed(collective::reduce) == collective::broadcast);
static_assert(blink::is_permutation(collective::permute) &&
              !blink::is_permutation(collective::all_to_all));
