// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/detail/mscclpp_jobs.hpp>
#include <blink/interop/mscclpp_program.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Assigns a rank's jobs to thread blocks and writes their operations.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Appends operations, and the points between them where threads must wait for each other.
class mscclpp_operations {
 public:
  mscclpp_operations(std::vector<mscclpp_operation>& to, mscclpp_limits const& limits)
      : to_(&to), most_(static_cast<std::size_t>(limits.operation_channels)) {}

  void sync() { to_->push_back({mscclpp_kind::sync}); }

  /// Appends an operation for each kind of channel, or several where one cannot hold all channels.
  void on_channels(mscclpp_kind kind, std::vector<mscclpp_channel> channels) {
    std::sort(channels.begin(), channels.end());
    for (auto const& c : channels) {
      auto* last = to_->empty() ? nullptr : &to_->back();
      bool const fits = last != nullptr && last->kind == kind && last->channels.size() < most_ &&
                        last->channels.front().type == c.type;
      if (!fits) to_->push_back({kind});
      to_->back().channels.push_back(c);
    }
  }

  void add_up(mscclpp_job const& job) {
    auto first = job.terms.front();
    for (std::size_t i = 1; i < job.terms.size();) {
      mscclpp_operation op{mscclpp_kind::reduce};
      op.sources = {first};
      while (i < job.terms.size() && op.sources.size() < most_)
        op.sources.push_back(job.terms[i++]);
      op.destinations = {job.sum};
      op.count = job.count;
      to_->push_back(std::move(op));
      first = job.sum;  // each thread reads only its own results
    }
  }

  void put(mscclpp_job const& job) {
    for (auto const type : {mscclpp_channel_type::memory, mscclpp_channel_type::port}) {
      mscclpp_operation op{mscclpp_kind::put};
      op.count = job.count;
      auto const flush = [&] {
        if (!op.channels.empty()) to_->push_back(op);
        op.channels.clear();
        op.sources.clear();
        op.destinations.clear();
      };
      for (std::size_t i = 0; i < job.destinations.size(); ++i) {
        if (job.put_over[i].type != type) continue;
        op.channels.push_back(job.put_over[i]);
        op.sources.push_back(job.source);
        op.destinations.push_back(job.destinations[i]);
        if (op.channels.size() == most_) flush();
      }
      flush();
    }
  }

  void semaphores(mscclpp_kind kind, std::vector<int> const& ids) {
    if (ids.empty()) return;
    to_->push_back({kind});
    to_->back().semaphores = ids;
  }

  /// Appends the operations for one unit of a job.
  void once(mscclpp_job const& job) {
    semaphores(mscclpp_kind::acquire, job.acquires);
    on_channels(mscclpp_kind::wait, job.incoming);
    if (job.only_waits()) return;
    if (!job.acquires.empty() || !job.incoming.empty()) sync();
    if (!job.terms.empty()) {
      add_up(job);
      sync();
    }
    if (!job.destinations.empty()) {
      put(job);
      sync();
    }
    on_channels(mscclpp_kind::signal, job.outgoing);
    semaphores(mscclpp_kind::release, job.releases);
  }

 private:
  std::vector<mscclpp_operation>* to_;
  std::size_t most_;
};

/// The thread block that does some jobs.
///
/// At the start, a rank signals to the senders that its memory is ready. At the end, a sender that
/// writes through a port waits for the receiver's signal that all data has arrived. The sender's
/// memory is then free again.
[[nodiscard]] inline mscclpp_block write_block(std::vector<mscclpp_job const*> const& jobs,
                                               mscclpp_limits const& limits) {
  std::vector<mscclpp_channel> incoming, outgoing;
  for (auto const* job : jobs) {
    incoming.insert(incoming.end(), job->incoming.begin(), job->incoming.end());
    outgoing.insert(outgoing.end(), job->outgoing.begin(), job->outgoing.end());
  }
  mscclpp_block block;
  block.segments.emplace_back();
  mscclpp_operations start(block.segments.back().operations, limits);
  start.on_channels(mscclpp_kind::signal, incoming);
  start.on_channels(mscclpp_kind::wait, outgoing);
  // Any other first job synchronizes all threads before they move data.
  if (jobs.front()->incoming.empty() && jobs.front()->acquires.empty()) start.sync();
  // Loops of equal length take turns, unit by unit. Blocks that only wait run their loops one after
  // the other.
  for (auto const* job : jobs) {
    bool const is_fresh = block.segments.back().loop_chunks == 0 || job->only_waits();
    if (is_fresh) block.segments.push_back({job->count});
    mscclpp_operations(block.segments.back().operations, limits).once(*job);
  }
  auto const is_memory = [](mscclpp_channel const& c) {
    return c.type == mscclpp_channel_type::memory;
  };
  std::erase_if(incoming, is_memory);
  std::erase_if(outgoing, is_memory);
  if (!incoming.empty() || !outgoing.empty()) {
    block.segments.emplace_back();
    mscclpp_operations end(block.segments.back().operations, limits);
    end.sync();
    end.on_channels(mscclpp_kind::signal, incoming);
    end.on_channels(mscclpp_kind::wait, outgoing);
  }
  return block;
}

[[nodiscard]] inline bool fits(mscclpp_block const& block, std::size_t channels,
                               mscclpp_limits const& limits) {
  for (auto const& s : block.segments) {
    if (s.loop_chunks > 0 && std::ssize(s.operations) > limits.loop_operations) return false;
  }
  return operation_count(block) <= limits.operations &&
         channels <= static_cast<std::size_t>(limits.channels);
}

/// Deals the jobs of a rank to blocks of at most `most_jobs` each. Jobs that only wait share
/// blocks.
[[nodiscard]] inline std::vector<std::vector<mscclpp_job const*>> deal_jobs(
    std::vector<mscclpp_job> const& jobs, std::size_t most_jobs, mscclpp_limits const& limits) {
  struct group {
    std::vector<mscclpp_job const*> jobs;
    std::size_t channels = 0;
  };
  std::vector<group> groups;
  for (auto const& job : jobs) {
    group* found = nullptr;
    for (auto& g : groups) {
      bool const is_alike =
          job.only_waits() == g.jobs.front()->only_waits() &&
          (job.only_waits() || (job.count == g.jobs.front()->count && g.jobs.size() < most_jobs));
      if (!is_alike || g.channels + job.channel_count() > static_cast<std::size_t>(limits.channels))
        continue;
      auto with = g.jobs;
      with.push_back(&job);
      if (!fits(write_block(with, limits), g.channels + job.channel_count(), limits)) continue;
      found = &g;
      break;
    }
    if (found == nullptr) found = &groups.emplace_back();
    found->jobs.push_back(&job);
    found->channels += job.channel_count();
  }
  std::vector<std::vector<mscclpp_job const*>> result;
  for (auto& g : groups) result.push_back(std::move(g.jobs));
  return result;
}

/// Writes the thread blocks of a rank.
/// Throws: planning_error, with `name` and the numbers, if a rank needs more than the limits.
inline void write_mscclpp_blocks(mscclpp_rank& rank, std::vector<mscclpp_job> const& jobs,
                                 std::optional<mscclpp_operation> const& copy,
                                 std::string const& name, mscclpp_limits const& limits) {
  auto const require = [&](std::size_t found, int most, std::string const& what) {
    if (found > static_cast<std::size_t>(most)) {
      throw planning_error(name + " needs " + what + ": " + std::to_string(found) + ", at most " +
                           std::to_string(most) + " fit into MSCCL++");
    }
  };
  require(static_cast<std::size_t>(rank.semaphores), limits.semaphores, "semaphores");
  std::size_t const more = copy ? 1 : 0;
  auto groups = deal_jobs(jobs, 1, limits);
  for (std::size_t most = 2; groups.size() + more > static_cast<std::size_t>(limits.blocks) &&
                             most <= static_cast<std::size_t>(limits.loop_operations);
       ++most) {
    groups = deal_jobs(jobs, most, limits);
  }
  require(groups.size() + more, limits.blocks, "thread blocks");
  for (auto const& group : groups) {
    auto block = write_block(group, limits);
    for (auto const& s : block.segments) {
      if (s.loop_chunks > 0)
        require(s.operations.size(), limits.loop_operations, "operations in a loop");
    }
    require(static_cast<std::size_t>(operation_count(block)), limits.operations,
            "operations in a thread block");
    rank.blocks.push_back(std::move(block));
  }
  if (copy) rank.blocks.push_back({{{0, {*copy}}}});
}

}}}  // namespace blink::BLINK_ABI::detail
