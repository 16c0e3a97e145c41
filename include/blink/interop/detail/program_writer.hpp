// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/program_order.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

// Turns trees over ranks 0 to N-1 into steps of thread blocks: which connections share a block, and
// in which order the chunks of different trees pass.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The pairs of connections that share a block: at a rank, an incoming and an outgoing connection
/// of the same channel.
struct block_pairing {
  std::map<std::pair<int, int>, int> channel;  ///< by (from, to), counted from 0
  std::vector<std::map<int, int>> out_of;      ///< by rank: incoming peer -> outgoing peer
  int channel_count = 1;
};

/// The connections that share blocks, to save blocks.
enum class paired_connections : std::uint8_t {
  none,
  that_forward,  ///< those that forward chunks to each other
  all,           ///< also others
};

/// Gives every connection of the trees the lowest channel with room, then pairs connections. Pairs
/// with the most chunks to forward come first.
///
/// most_per_channel: blocks of a rank in one channel and direction.
[[nodiscard]] inline block_pairing pair_blocks(std::vector<carried_tree> const& trees,
                                               int rank_count, int most_per_channel,
                                               paired_connections paired) {
  block_pairing result;
  result.out_of.resize(static_cast<std::size_t>(rank_count));
  std::map<std::pair<int, int>, int> sending, receiving;  // by (rank, channel)
  std::vector<std::map<std::pair<int, int>, long>> forwarded(static_cast<std::size_t>(rank_count));
  std::set<std::pair<int, int>> connections;
  for (auto const& t : trees) {
    std::map<int, std::vector<int>> children;  // of the reduce direction
    std::map<int, int> parent;                 // of the broadcast direction
    for (auto const& [from, to] : t.up) children[to].push_back(from);
    for (auto const& [from, to] : t.down) parent[to] = from;
    for (auto const* phase : {&t.up, &t.down}) {
      for (auto const& edge : *phase) connections.insert(edge);
    }
    for (auto const& [from, to] : t.up) {
      for (int const child : children[from]) {
        forwarded[static_cast<std::size_t>(from)][{child, to}] += t.count;
      }
    }
    for (auto const& [from, to] : t.down) {
      auto& here = forwarded[static_cast<std::size_t>(from)];
      if (from != t.root) {
        here[{parent.at(from), to}] += t.count;
      } else {
        for (int const child : children[from]) here[{child, to}] += t.count;
      }
    }
  }
  for (auto const& [from, to] : connections) {
    int channel = 0;
    while (sending[{from, channel}] >= most_per_channel ||
           receiving[{to, channel}] >= most_per_channel) {
      ++channel;
    }
    ++sending[{from, channel}];
    ++receiving[{to, channel}];
    result.channel[{from, to}] = channel;
    result.channel_count = std::max(result.channel_count, channel + 1);
  }
  if (paired == paired_connections::none) return result;
  for (int rank = 0; rank < rank_count; ++rank) {
    std::vector<std::tuple<long, int, int>> pairs;
    auto const& forwards = forwarded[static_cast<std::size_t>(rank)];
    for (auto const& [pair, chunks] : forwards)
      pairs.emplace_back(-chunks, pair.first, pair.second);
    if (paired == paired_connections::all) {
      for (auto const& [in, in_channel] : result.channel) {
        for (auto const& [out, out_channel] : result.channel) {
          if (in.second == rank && out.first == rank &&
              !forwards.contains({in.first, out.second})) {
            pairs.emplace_back(0, in.first, out.second);
          }
        }
      }
    }
    std::sort(pairs.begin(), pairs.end());
    std::set<int> taken;
    auto& out_of = result.out_of[static_cast<std::size_t>(rank)];
    for (auto const& [chunks, in, out] : pairs) {
      if (result.channel.at({in, rank}) != result.channel.at({rank, out})) continue;
      if (out_of.contains(in) || taken.contains(out)) continue;
      out_of[in] = out;
      taken.insert(out);
    }
  }
  return result;
}

/// Writes the steps of some trees into blocks of their own, for one instance.
///
/// Transfers come in the order of the times at which they end, each with both of its steps. All
/// steps in this order are a run of the program, after each of whose transfers all queues are
/// empty. So it runs with a single slot in every queue. Each bounded queue has one reader and one
/// writer, so no other timing can hang either.
///
/// Steps that receive and send at once are not used. Such a step keeps what its block receives
/// waiting for what it sends, and the other way round, so that links idle.
class program_writer {
 public:
  program_writer(std::vector<carried_tree> const& trees, block_pairing const& pairing,
                 passing_times const& times, int first_channel, step_program& program)
      : trees_(&trees), pairing_(&pairing), times_(&times), program_(&program) {
    for (auto const& rank : program.ranks) first_block_.push_back(rank.blocks.size());
    for (auto const& [ends, channel] : pairing.channel) {
      auto const [from, to] = ends;
      sending_[ends] = block_for(from, from, to, first_channel + channel);
      receiving_[ends] = block_for(to, from, to, first_channel + channel);
    }
  }

  void write() {
    auto transfers = transfers_of(*trees_);
    set_rests(transfers);
    set_times(transfers, *trees_, *times_);
    // Equal times keep the order of the trees.
    std::multimap<std::pair<std::int64_t, std::int64_t>, tree_transfer const*> by_end;
    for (auto const& each : transfers) by_end.emplace(std::pair(each.ends, each.begins), &each);
    for (auto const& [times, each] : by_end) write_transfer(*each);
  }

 private:
  /// The latest copy of a tree's chunks on a rank.
  struct progress {
    chunk_place place;
    int block = -1;  // that wrote it last; -1: none, it is input
    int step = -1;
  };

  [[nodiscard]] carried_tree const& tree_at(int t) const {
    return (*trees_)[static_cast<std::size_t>(t)];
  }
  [[nodiscard]] rank_program& rank_at(int rank) {
    return program_->ranks[static_cast<std::size_t>(rank)];
  }

  /// The block of `rank` for the connection. The first call makes the block for both directions.
  int block_for(int rank, int from, int to, int channel) {
    auto& blocks = rank_at(rank).blocks;
    auto const& out_of = pairing_->out_of[static_cast<std::size_t>(rank)];
    bool const is_out = rank == from;
    int in_peer = is_out ? -1 : from;
    int out_peer = is_out ? to : -1;
    for (auto const& [in, out] : out_of) {
      if (is_out ? out == to : in == from) {
        in_peer = in;
        out_peer = out;
      }
    }
    for (auto b = first_block_[static_cast<std::size_t>(rank)]; b < blocks.size(); ++b) {
      if (blocks[b].send_peer == out_peer && blocks[b].receive_peer == in_peer &&
          blocks[b].channel == channel) {
        return static_cast<int>(b);
      }
    }
    blocks.push_back({out_peer, in_peer, channel, {}});
    return static_cast<int>(blocks.size()) - 1;
  }

  void write_transfer(tree_transfer const& move) {
    int const count = tree_at(move.tree).count;
    std::pair const ends(move.from, move.to);
    auto const& sent = holds(move.tree, move.from);
    add(move.from, sending_.at(ends), {step_kind::send, sent.place, {}, count}, sent);
    int const block = receiving_.at(ends);
    auto const store = store_of(move.tree, move.to);
    program_step receive{step_kind::receive, {}, store, count};
    progress before;  // a copy follows nothing, a sum follows the summands before
    if (move.is_up) {
      before = holds(move.tree, move.to);
      receive = {step_kind::receive_reduce_copy, before.place, store, count};
    }
    holds_[{move.tree, move.to}] = {store, block, add(move.to, block, receive, before)};
  }

  /// The place where a rank stores what it receives: the place that the tree names, else scratch.
  [[nodiscard]] chunk_place store_of(int t, int rank) {
    auto const& tree = tree_at(t);
    if (auto const found = tree.store.find(rank); found != tree.store.end()) return found->second;
    auto const [entry, fresh] = scratch_.try_emplace({t, rank});
    if (fresh) {
      auto& used = rank_at(rank).scratch_chunks;
      entry->second = {step_buffer::scratch, used};
      used += tree.count;
    }
    return entry->second;
  }

  [[nodiscard]] progress& holds(int t, int rank) {
    auto const [entry, fresh] = holds_.try_emplace({t, rank});
    if (fresh) entry->second.place = tree_at(t).own.at(rank);
    return entry->second;
  }

  /// Appends a step that depends on the step in `after`. Returns its number.
  int add(int rank, int block, program_step step, progress const& after) {
    auto& blocks = rank_at(rank).blocks;
    if (after.block >= 0 && after.block != block) {
      auto const [known, fresh] = waited_.try_emplace({rank, block, after.block}, -1);
      if (known->second <
          after.step) {  // else an earlier step of this block has waited long enough
        known->second = after.step;
        step.depends_block = after.block;
        step.depends_step = after.step;
        blocks[static_cast<std::size_t>(after.block)]
            .steps[static_cast<std::size_t>(after.step)]
            .is_awaited = true;
      }
    }
    auto& steps = blocks[static_cast<std::size_t>(block)].steps;
    steps.push_back(step);
    return static_cast<int>(steps.size()) - 1;
  }

  std::vector<carried_tree> const* trees_;
  block_pairing const* pairing_;
  passing_times const* times_;
  step_program* program_;
  std::vector<std::size_t> first_block_;                    // by rank
  std::map<std::pair<int, int>, int> sending_, receiving_;  // blocks, by connection
  std::map<std::pair<int, int>, progress> holds_;           // by (tree, rank)
  std::map<std::pair<int, int>, chunk_place> scratch_;      // by (tree, rank)
  std::map<std::tuple<int, int, int>, int> waited_;         // (rank, block, block waited for): step
};

}}}  // namespace blink::BLINK_ABI::detail
