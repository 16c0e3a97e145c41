// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/detail/program_writer.hpp>
#include <blink/interop/mscclpp_program.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

// Turns trees into the jobs of each rank, before they are assigned to thread blocks.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The work of a rank for one direction of one tree, repeated for each unit. A rank with many
/// neighbours has several jobs, each for some of them.
struct mscclpp_job {
  int count = 0;                               // chunks
  std::vector<mscclpp_channel> incoming = {};  // waits for a signal on each
  std::vector<int> acquires = {};              // and for semaphores of other jobs
  std::vector<mscclpp_place> terms = {};       // then adds these, if any
  mscclpp_place sum = {};                      // and stores the sum here
  mscclpp_place source = {};                   // then puts this
  std::vector<mscclpp_channel> put_over = {};  // over these channels
  std::vector<mscclpp_place> destinations = {};
  std::vector<mscclpp_channel> outgoing = {};  // then signals on these
  std::vector<int> releases = {};
  [[nodiscard]] bool only_waits() const { return terms.empty() && destinations.empty(); }
  [[nodiscard]] std::size_t channel_count() const { return incoming.size() + outgoing.size(); }
};

/// The jobs of trees, by rank.
///
/// One thread could do one unit of all jobs in their order. Trees come one after the other, and a
/// tree's reduce direction before its broadcast direction.
class mscclpp_jobs {
 public:
  /// over_network:  true if two ranks reach each other by the network
  /// most_channels: of a job
  mscclpp_jobs(mscclpp_program& program, std::function<bool(int, int)> over_network,
               std::size_t most_channels)
      : jobs_(program.ranks.size()),
        program_(&program),
        over_network_(std::move(over_network)),
        most_channels_(most_channels) {}

  /// Adds the jobs of a tree.
  /// Throws: planning_error if a rank has more neighbours in the tree than jobs can serve.
  void add(carried_tree const& tree) {
    tree_ = &tree;
    sum_.clear();
    arrived_.clear();
    if (!tree.down.empty() && tree.up.empty()) arrived_[tree.root] = own(tree.own.at(tree.root));
    std::map<int, std::vector<int>> up, down;
    for (auto const& [from, to] : tree.up) up[to].push_back(from);
    for (auto const& [from, to] : tree.down) down[from].push_back(to);
    mscclpp_job at_root{tree.count};
    if (!tree.up.empty()) {
      at_root = add_up(tree.root, up);
      arrived_[tree.root] = sum_.at(tree.root);
    }
    if (tree.down.empty()) {
      if (!tree.up.empty()) push(tree.root, std::move(at_root));
    } else {
      add_down(std::move(at_root), down);
    }
  }

  [[nodiscard]] std::vector<std::vector<mscclpp_job>> const& by_rank() const { return jobs_; }

 private:
  [[nodiscard]] mscclpp_rank& rank_at(int rank) {
    return program_->ranks[static_cast<std::size_t>(rank)];
  }
  void push(int rank, mscclpp_job job) {
    jobs_[static_cast<std::size_t>(rank)].push_back(std::move(job));
  }

  /// Both ends of a new channel between two ranks.
  std::pair<mscclpp_channel, mscclpp_channel> connect(int a, int b) {
    auto const type =
        over_network_(a, b) ? mscclpp_channel_type::port : mscclpp_channel_type::memory;
    auto const end = [&](int here, int peer) {
      auto& peers = rank_at(here).peers(type);
      peers.push_back(peer);
      return mscclpp_channel{type, static_cast<int>(peers.size()) - 1};
    };
    return {end(a, b), end(b, a)};
  }

  [[nodiscard]] mscclpp_place scratch(int rank) {
    mscclpp_place const place{-1, step_buffer::scratch, rank_at(rank).scratch_chunks};
    rank_at(rank).scratch_chunks += tree_->count;
    return place;
  }
  [[nodiscard]] static mscclpp_place own(chunk_place const& place) {
    return {-1, place.buffer, place.chunk};
  }
  /// The place where the rank stores what it receives in the tree.
  [[nodiscard]] mscclpp_place kept(int rank) {
    auto const found = tree_->store.find(rank);
    return found == tree_->store.end() ? scratch(rank) : own(found->second);
  }
  [[nodiscard]] static mscclpp_place at_rank(int rank, mscclpp_place place) {
    place.rank = rank;
    return place;
  }

  /// Adds the jobs of the reduce direction at a rank and below it.
  ///
  /// Returns the last job of the rank. Its source is the sum, or the rank's own contribution. Its
  /// destination is not set.
  mscclpp_job add_up(int rank, std::map<int, std::vector<int>> const& children) {
    mscclpp_job job{tree_->count};
    job.source = own(tree_->own.at(rank));
    auto const found = children.find(rank);
    if (found == children.end()) return job;
    auto const sum = kept(rank);
    sum_[rank] = sum;
    auto const begin = [&](mscclpp_place const& first) {
      job.terms = {first};
      job.sum = job.source = sum;
    };
    begin(job.source);
    for (int const child : found->second) {
      auto below = add_up(child, children);
      if (job.incoming.size() + 1 == most_channels_) {  // the next job goes on with the sum
        int const semaphore = rank_at(rank).semaphores++;
        job.releases = {semaphore};
        push(rank, std::exchange(job, mscclpp_job{tree_->count}));
        job.acquires = {semaphore};
        begin(sum);
      }
      auto const [there, here] = connect(child, rank);
      auto const slot = scratch(rank);
      below.destinations = {at_rank(rank, slot)};
      below.put_over = below.outgoing = {there};
      push(child, std::move(below));
      job.terms.push_back(slot);
      job.incoming.push_back(here);
    }
    return job;
  }

  void add_down(mscclpp_job at_root, std::map<int, std::vector<int>> const& children) {
    int const root = tree_->root;
    // The order of ranks, farthest first, gives the number of jobs that each rank needs.
    std::vector<int> order{root};
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (auto const found = children.find(order[i]); found != children.end()) {
        order.insert(order.end(), found->second.begin(), found->second.end());
      }
    }
    std::map<int, std::vector<std::vector<int>>> groups;  // of children, one for each job
    std::map<int, std::size_t> job_count;
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      auto& of_rank = groups[*at];
      std::size_t room = 0;
      if (auto const found = children.find(*at); found != children.end()) {
        for (int const child : found->second) {
          auto const needed = job_count.at(child);
          if (needed > most_channels_ - 1) {
            throw planning_error("rank " + std::to_string(child) + " needs thread blocks: " +
                                 std::to_string(needed) + " for one tree, at most " +
                                 std::to_string(most_channels_ - 1) + " can be fed");
          }
          if (needed > room) {
            of_rank.emplace_back();
            room = most_channels_ - 1;
          }
          of_rank.back().push_back(child);
          room -= needed;
        }
      }
      job_count[*at] = std::max<std::size_t>(1, of_rank.size());
    }
    std::map<int, std::vector<mscclpp_job>> jobs;
    for (int const rank : order) {
      jobs[rank].assign(job_count[rank], mscclpp_job{tree_->count});
      if (rank != root) arrived_[rank] = kept(rank);
      for (auto& job : jobs[rank]) job.source = arrived_.at(rank);
    }
    if (!at_root.terms.empty()) {
      std::size_t outgoing = 0;
      for (int const child : children.at(root)) outgoing += job_count.at(child);
      start_at(root, std::move(at_root), jobs[root], outgoing);
    }
    for (int const rank : order) {
      for (std::size_t j = 0; j < groups[rank].size(); ++j) {
        auto& job = jobs[rank][j];
        for (int const child : groups[rank][j]) {
          job.destinations.push_back(at_rank(child, arrived_.at(child)));
          for (auto& waiting : jobs[child]) {
            auto const [here, there] = connect(rank, child);
            if (&waiting == &jobs[child].front()) job.put_over.push_back(here);
            job.outgoing.push_back(here);
            waiting.incoming.push_back(there);
          }
        }
      }
    }
    for (int const rank : order) {
      for (auto& job : jobs[rank]) push(rank, std::move(job));
    }
  }

  /// Joins the two directions at the root: in one job if the channels suffice, else in jobs that
  /// wait for the sum.
  void start_at(int root, mscclpp_job up, std::vector<mscclpp_job>& down, std::size_t outgoing) {
    if (down.size() == 1 && up.incoming.size() + outgoing <= most_channels_) {
      down.front() = std::move(up);
      return;
    }
    for (auto& job : down) {
      int const semaphore = rank_at(root).semaphores++;
      up.releases.push_back(semaphore);
      job.acquires = {semaphore};
    }
    push(root, std::move(up));
  }

  std::vector<std::vector<mscclpp_job>> jobs_;
  mscclpp_program* program_;
  std::function<bool(int, int)> over_network_;
  std::size_t most_channels_;
  carried_tree const* tree_ = nullptr;
  std::map<int, mscclpp_place> sum_;      // by rank, sums of the reduce direction
  std::map<int, mscclpp_place> arrived_;  // by rank, data of the broadcast direction
};

}}}  // namespace blink::BLINK_ABI::detail
