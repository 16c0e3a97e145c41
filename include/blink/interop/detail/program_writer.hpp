// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

// Turns trees over ranks 0 to N-1 into steps of thread blocks: which connections share a block, and
// in which order the chunks of different trees pass.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A tree that carries some consecutive chunks, with ranks numbered 0 to N-1.
struct carried_tree {
  int root = 0;
  int count = 1;                          ///< chunks
  std::vector<std::pair<int, int>> up;    ///< (from, to), towards the root
  std::vector<std::pair<int, int>> down;  ///< (from, to), away from the root
  std::map<int, chunk_place> own = {};    ///< by rank: its contribution
  std::map<int, chunk_place> store = {};  ///< by rank: where sums or copies go; else scratch
};

/// The pairs of connections that share a block: at a rank, an incoming and an outgoing connection
/// of the same channel.
struct block_pairing {
  std::map<std::pair<int, int>, int> channel;  ///< by (from, to), counted from 0
  std::vector<std::map<int, int>> out_of;      ///< by rank: incoming peer -> outgoing peer
  int channel_count = 1;
};

/// Gives every connection of the trees the lowest channel with room, then pairs connections. Pairs
/// with the most chunks to forward come first.
///
/// most_per_channel: blocks of a rank in one channel and direction.
/// pairs_all:        also pair connections that forward nothing to each other, to save blocks.
[[nodiscard]] inline block_pairing pair_blocks(std::vector<carried_tree> const& trees,
                                               int rank_count, int most_per_channel,
                                               bool pairs_all) {
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
  for (int rank = 0; rank < rank_count; ++rank) {
    std::vector<std::tuple<long, int, int>> pairs;
    auto const& forwards = forwarded[static_cast<std::size_t>(rank)];
    for (auto const& [pair, chunks] : forwards)
      pairs.emplace_back(-chunks, pair.first, pair.second);
    if (pairs_all) {
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
/// Transfers that pass through one block make a chain, which is written as a whole. After every
/// chain, all queues that it used are empty again. Chains are ordered by the time at which their
/// data can arrive. This order of steps runs with a single slot in every queue. Each bounded queue
/// has one reader and one writer, so no other timing can hang either.
class program_writer {
 public:
  program_writer(std::vector<carried_tree> const& trees, block_pairing const& pairing,
                 int first_channel, step_program& program)
      : trees_(&trees), pairing_(&pairing), program_(&program) {
    for (auto const& rank : program.ranks) first_block_.push_back(rank.blocks.size());
    for (auto const& [ends, channel] : pairing.channel) {
      auto const [from, to] = ends;
      sending_[ends] = block_for(from, from, to, first_channel + channel);
      receiving_[ends] = block_for(to, from, to, first_channel + channel);
    }
  }

  void write() {
    for (std::size_t t = 0; t < trees_->size(); ++t) add_chains(static_cast<int>(t));
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      if (chains_[c].missing == 0) make_ready(c);
    }
    while (!ready_.empty()) {
      auto const c = std::get<2>(ready_.top());
      ready_.pop();
      emit(chains_[c]);
      for (auto const next : chains_[c].followers) {
        if (--chains_[next].missing == 0) make_ready(next);
      }
    }
  }

 private:
  struct transfer {
    int from, to;
    bool is_up;
    int arrives = 0;  // time
    std::size_t chain = 0;
    std::vector<std::size_t> needs = {};   // transfers that must have arrived at `from`
    std::optional<std::size_t> next = {};  // goes on in the same block
    bool has_before = false;
  };
  struct chain {
    int tree;
    std::vector<std::size_t> transfers = {};
    std::vector<std::size_t> followers = {};
    int missing = 0;
    int starts = 0;
  };
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

  void add_chains(int t) {
    auto const& tree = tree_at(t);
    auto const first = transfers_.size();
    for (auto const& [from, to] : tree.up) transfers_.push_back({from, to, true});
    for (auto const& [from, to] : tree.down) transfers_.push_back({from, to, false});
    auto const end = transfers_.size();
    std::map<int, std::vector<std::size_t>> up_into, down_into;  // by rank
    for (auto i = first; i < end; ++i) {
      (transfers_[i].is_up ? up_into : down_into)[transfers_[i].to].push_back(i);
    }
    for (auto i = first; i < end; ++i) {
      auto& out = transfers_[i];
      auto const& into = out.is_up || out.from == tree.root ? up_into : down_into;
      if (auto const found = into.find(out.from); found != into.end()) out.needs = found->second;
      auto const& out_of = pairing_->out_of[static_cast<std::size_t>(out.from)];
      for (auto const in : out.needs) {
        auto& before = transfers_[in];
        auto const pair = out_of.find(before.from);
        if (pair == out_of.end() || pair->second != out.to || before.next || out.has_before)
          continue;
        // The root passes from reduce to broadcast in one block only: the last of the reduce
        // direction.
        if (before.is_up && !out.is_up && turned_.contains({t, out.from})) continue;
        if (before.is_up && !out.is_up) turned_.insert({t, out.from});
        before.next = i;
        out.has_before = true;
      }
    }
    std::vector<std::size_t> heads;
    for (auto i = first; i < end; ++i) {
      if (!transfers_[i].has_before) heads.push_back(i);
    }
    for (std::size_t h = 0; h < heads.size(); ++h) add_chain(t, heads[h], heads);
    for (auto i = first; i < end; ++i) {
      for (auto const in : transfers_[i].needs) {
        auto const before = transfers_[in].chain;
        if (before == transfers_[i].chain) continue;
        chains_[before].followers.push_back(transfers_[i].chain);
        ++chains_[transfers_[i].chain].missing;
      }
    }
  }

  /// Follows the blocks from a head. A chain that returns to one of its blocks is cut there,
  /// because its second chunk would wait behind its first. The rest becomes a head.
  void add_chain(int t, std::size_t head, std::vector<std::size_t>& heads) {
    chain fresh{t};
    auto const& first = transfers_[head];
    std::set<std::pair<int, int>> visited{{first.from, sending_.at({first.from, first.to})}};
    for (std::optional<std::size_t> at = head; at; at = transfers_[*at].next) {
      auto& here = transfers_[*at];
      if (!visited.insert({here.to, receiving_.at({here.from, here.to})}).second && *at != head) {
        here.has_before = false;
        transfers_[fresh.transfers.back()].next.reset();
        heads.push_back(*at);
        break;
      }
      here.chain = chains_.size();
      fresh.transfers.push_back(*at);
    }
    chains_.push_back(std::move(fresh));
  }

  void make_ready(std::size_t c) {
    auto& here = chains_[c];
    for (std::size_t i = 0; i < here.transfers.size(); ++i) {
      for (auto const in : transfers_[here.transfers[i]].needs) {
        if (transfers_[in].chain == c) continue;
        here.starts = std::max(here.starts, transfers_[in].arrives - static_cast<int>(i));
      }
    }
    for (std::size_t i = 0; i < here.transfers.size(); ++i) {
      transfers_[here.transfers[i]].arrives = here.starts + static_cast<int>(i) + 1;
    }
    ready_.emplace(here.starts, here.tree, c);
  }

  void emit(chain const& here) {
    auto const& tree = tree_at(here.tree);
    for (auto const i : here.transfers) {
      auto const& move = transfers_[i];
      if (!move.has_before) {
        auto const& has = holds(here.tree, move.from);
        add(move.from, sending_.at({move.from, move.to}),
            {step_kind::send, has.place, {}, tree.count}, has);
      }
      bool const goes_on = move.next.has_value();
      bool const turns = goes_on && move.is_up && !transfers_[*move.next].is_up;
      int const block = receiving_.at({move.from, move.to});
      if (!move.is_up) {
        auto const store = store_of(here.tree, move.to);
        progress const nothing_before{};
        int const step = add(
            move.to, block,
            {goes_on ? step_kind::receive_copy_send : step_kind::receive, {}, store, tree.count},
            nothing_before);
        holds_[{here.tree, move.to}] = {store, block, step};
        continue;
      }
      auto const has = holds(here.tree, move.to);
      if (goes_on && !turns) {
        add(move.to, block, {step_kind::receive_reduce_send, has.place, {}, tree.count}, has);
        continue;
      }
      auto const store = store_of(here.tree, move.to);
      auto const kind =
          turns ? step_kind::receive_reduce_copy_send : step_kind::receive_reduce_copy;
      int const step = add(move.to, block, {kind, has.place, store, tree.count}, has);
      holds_[{here.tree, move.to}] = {store, block, step};
    }
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
  step_program* program_;
  std::vector<std::size_t> first_block_;                    // by rank
  std::map<std::pair<int, int>, int> sending_, receiving_;  // blocks, by connection
  std::vector<transfer> transfers_;
  std::vector<chain> chains_;
  std::set<std::pair<int, int>> turned_;                  // (tree, root)
  std::map<std::pair<int, int>, progress> holds_;         // by (tree, rank)
  std::map<std::pair<int, int>, chunk_place> scratch_;    // by (tree, rank)
  std::map<std::tuple<int, int, int>, int> waited_;       // (rank, block, block waited for): step
  using ready_chain = std::tuple<int, int, std::size_t>;  // start, tree, chain
  std::priority_queue<ready_chain, std::vector<ready_chain>, std::greater<>> ready_;
};

}}}  // namespace blink::BLINK_ABI::detail
