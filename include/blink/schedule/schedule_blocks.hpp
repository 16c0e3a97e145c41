// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The receiver of a flow: the end of its tree, which is a path from the sender.
///
/// Pre:    the tree has receivers.
[[nodiscard]] inline int flow_end(schedule_tree const& tree) {
  return tree.receivers.front();
}

/// True if every rank roots trees for a block of its own.
[[nodiscard]] inline bool has_equal_roots(schedule const& source, collective kind) {
  return has_equal_roots(kind) || source.is_one_shot;
}

/// True if the schedule's trees carry data away from their roots in a call of this kind.
[[nodiscard]] inline bool has_broadcast_phase(schedule const& source, collective kind) {
  return has_broadcast_phase(kind) && !source.is_one_shot;
}

/// True if this tree carries data away from its root in a call of this kind. In a reduce, a tree
/// does so if it combines at another rank than the one that gets the result.
[[nodiscard]] inline bool has_broadcast_phase(schedule const& source, schedule_tree const& tree,
                                              collective kind) {
  return has_broadcast_phase(source, kind) || (is_to_root(kind) && !tree.receivers.empty());
}

/// The rank that gets the result of a tree in a reduce.
[[nodiscard]] inline int reduce_end(schedule_tree const& tree) {
  return tree.receivers.empty() ? tree.root : flow_end(tree);
}

/// The rank where all data starts or ends, for collectives with a root.
template <class = when_used>
[[nodiscard]] int root_of(schedule const& source, collective kind) {
  auto const& first = source.trees[0];
  return is_to_root(kind) ? reduce_end(first) : first.root;
}

/// The number of the block that a tree carries a part of. Trees with equal numbers share one block
/// of a buffer, in the order listed and in proportion to their weights.
///
/// - broadcast, reduce, all_reduce, barrier: one block
/// - all_gather, reduce_scatter, one-shot all_reduce: one for each root
/// - flows: one for each pair of a sender and its receiver
template <class = when_used>
[[nodiscard]] std::size_t block_number(schedule const& source, schedule_tree const& tree,
                                       collective kind) {
  auto const root = static_cast<std::size_t>(tree.root);
  if (has_equal_roots(source, kind)) return root;
  if (!is_point_to_point(kind)) return 0;
  return root * static_cast<std::size_t>(source.rank_count) +
         static_cast<std::size_t>(flow_end(tree));
}
/// One more than the largest `block_number`.
template <class = when_used>
[[nodiscard]] std::size_t block_numbers(schedule const& source, collective kind) {
  auto const ranks = static_cast<std::size_t>(source.rank_count);
  return is_point_to_point(kind) ? ranks * ranks : has_equal_roots(source, kind) ? ranks : 1;
}

/// The planned sizes of blocks, by `block_number`, relative to the mean.
template <class = when_used>
[[nodiscard]] std::vector<double> planned_sizes(schedule const& source, collective kind) {
  std::vector<double> result(block_numbers(source, kind), 1);
  if (source.shares.empty() || !has_equal_roots(kind)) return result;
  double all = 0;
  for (auto const share : source.shares) all += static_cast<double>(share);
  for (std::size_t rank = 0; rank < result.size(); ++rank) {
    result[rank] = static_cast<double>(source.shares[rank]) * source.rank_count / all;
  }
  return result;
}

/// The position of a tree's block among the blocks of its senders' input and its receivers' output.
struct block_position {
  std::size_t input = 0;
  std::size_t output = 0;
};
[[nodiscard]] inline block_position block_position_of(schedule_tree const& tree, collective kind) {
  block_position result;
  if (has_input_blocks(kind)) {
    result.input = static_cast<std::size_t>(is_point_to_point(kind) ? flow_end(tree) : tree.root);
  }
  if (has_output_blocks(kind)) result.output = static_cast<std::size_t>(tree.root);
  return result;
}

namespace detail {

/// Checks that the schedule has exactly the flows of a collective. `weight`: by pair of sender and
/// receiver.
template <class Fail>
BLINK_COLD void validate_flows(schedule const& source, collective kind,
                               std::vector<std::uint64_t> const& weight, Fail const& fail) {
  auto const ranks = static_cast<std::size_t>(source.rank_count);
  int const root = root_of(source, kind);
  std::vector<int> sends(ranks, 0);
  std::vector<int> receives(ranks, 0);
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      bool const is_there = weight[from * ranks + to] > 0;
      if (kind == collective::permute) {
        if (!is_there) continue;
        if (sends[from] != 0) fail({"rank ", from, " sends to two ranks"});
        if (receives[to] != 0) fail({"rank ", to, " receives from two ranks"});
        sends[from] = receives[to] = 1;
      } else if (has_flow(kind, static_cast<int>(from), static_cast<int>(to), root)) {
        if (!is_there) {
          fail({"no tree with a weight leads from rank ", from, " to rank ", to});
        }
      } else if (is_there && !(kind == collective::send_to_next && ranks == 1)) {
        fail({"a tree leads from rank ", from, " to rank ", to});
      }
    }
  }
}

}  // namespace detail

/// Checks that the schedule can carry a collective.
///
/// Time:   O(T V), and O(V^2) for flows.
/// Pre:    `validate(schedule)` passed.
/// Post:   every tree has the phases that `kind` needs. A broadcast has one root. A reduce ends at
///         one rank, the root of a tree or its only receiver. With all-gather, reduce-scatter and
///         one-shot all-reduce, every rank roots a tree of positive weight, except ranks with share
///         0. Flows have trees of positive weight for every pair of a sender and its receiver, and
///         no others. A gather has pairs from all ranks to one, a scatter from one to all. An
///         all-to-all has all pairs, including the rank itself. A send to the next rank and a
///         permutation have one receiver for each sender.
/// Throws: precondition_error if one of these does not hold.
template <class = when_used>
BLINK_COLD void validate_for(schedule const& source, collective kind) {
  auto const fail = [&](std::initializer_list<detail::text_piece> what) {
    throw precondition_error(detail::text_of({to_text(kind), ": ", detail::text_of(what)}));
  };
  if (source.is_one_shot && kind != collective::all_reduce) {
    fail({"a one-shot schedule carries all_reduce only"});
  }
  std::vector<std::uint64_t> weight(block_numbers(source, kind), 0);
  for (std::size_t index = 0; index < source.trees.size(); ++index) {
    auto const& tree = source.trees[index];
    if (has_reduce_phase(kind) && tree.reduce_parent.empty()) {
      fail({"tree ", index, " of the schedule has no reduce phase"});
    }
    if (has_broadcast_phase(source, kind) && tree.broadcast_parent.empty()) {
      fail({"tree ", index, " of the schedule has no broadcast phase"});
    }
    bool const may_have_one = is_point_to_point(kind) || kind == collective::reduce;
    if (is_point_to_point(kind) ? tree.receivers.size() != 1
                                : tree.receivers.size() > may_have_one) {
      fail({"tree ", index, " of the schedule has ", tree.receivers.size(),
            may_have_one ? " receivers, expected one" : " receivers, expected none named: all"});
    }
    weight[block_number(source, tree, kind)] += tree.weight;
    if (kind == collective::broadcast && tree.root != source.trees[0].root) {
      fail({"tree ", index, " of the schedule has root ", tree.root, ", the first has ",
            source.trees[0].root});
    }
    if (kind == collective::reduce && reduce_end(tree) != reduce_end(source.trees[0])) {
      fail({"tree ", index, " of the schedule ends at rank ", reduce_end(tree), ", the first at ",
            reduce_end(source.trees[0])});
    }
  }
  if (has_equal_roots(source, kind)) {
    for (std::size_t rank = 0; rank < weight.size(); ++rank) {
      if (weight[rank] > 0 || (!source.shares.empty() && source.shares[rank] == 0)) continue;
      fail({"rank ", rank, " roots no tree with a weight"});
    }
  }
  if (is_point_to_point(kind)) detail::validate_flows(source, kind, weight, fail);
}

/// Ranks that root no tree of positive weight.
template <class = when_used>
[[nodiscard]] std::vector<std::size_t> ranks_without_trees(schedule const& source) {
  std::vector<int> has_some(static_cast<std::size_t>(source.rank_count), 0);
  for (auto const& tree : source.trees) {
    if (tree.weight > 0) has_some[static_cast<std::size_t>(tree.root)] = 1;
  }
  std::vector<std::size_t> result;
  for (std::size_t rank = 0; rank < has_some.size(); ++rank) {
    if (has_some[rank] == 0) result.push_back(rank);
  }
  return result;
}

/// The rate that a plan promises: bytes of the whole buffer in a second if only the links limit.
/// Every tree then moves data all the time, and the split is exact. 0 if no tree names a link.
///
/// With input or output blocks, the whole buffer is one block for each rank, in proportion to the
/// shares.
///
/// Time:   O(T V + L).
/// Pre:    `validate(schedule)` and `validate_for(schedule, kind)` passed.
template <class = when_used>
[[nodiscard]] double predicted_bytes_per_second(schedule const& source, collective kind) {
  std::vector<std::uint64_t> total(block_numbers(source, kind), 0);
  for (auto const& tree : source.trees) total[block_number(source, tree, kind)] += tree.weight;
  auto const size = planned_sizes(source, kind);
  std::vector<double> load(source.link_bytes_per_second.size(), 0);  // in blocks of the mean size
  for (auto const& tree : source.trees) {
    if (tree.weight == 0) continue;
    auto const block = block_number(source, tree, kind);
    double const share =
        size[block] * static_cast<double>(tree.weight) / static_cast<double>(total[block]);
    auto const add = [&](by_rank<std::vector<int>> const& routes) {
      for (auto const& route : routes.entries()) {
        for (int const link : route.value) load[static_cast<std::size_t>(link)] += share;
      }
    };
    if (has_reduce_phase(kind)) add(tree.reduce_route);
    if (has_broadcast_phase(source, tree, kind)) add(tree.broadcast_route);
  }
  double rate = 0;
  for (std::size_t link = 0; link < load.size(); ++link) {
    if (load[link] == 0) continue;
    double const through = source.link_bytes_per_second[link] / load[link];
    if (rate == 0 || through < rate) rate = through;
  }
  return has_blocks(kind) ? rate * source.rank_count : rate;
}

}}  // namespace blink::BLINK_ABI
