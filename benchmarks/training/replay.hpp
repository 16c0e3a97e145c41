// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>

#include "../collectives/median.hpp"
#include "contenders.hpp"
#include "iteration.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace blink_bench {

/// Options of ranks that are threads with shaped links. Those without work leave the cores to
/// others at once.
[[nodiscard]] inline blink::communicator_options replay_options(replay_scale const& scale,
                                                                step_costs const& costs) {
  blink::communicator_options result;
  result.costs.latency_seconds = costs.latency_seconds * scale.time;
  result.window = chunks_in_flight;
  result.eager_payload = 0;  // small buckets also take the links
  result.waits.spins = 2;
  result.waits.yields = 0;
  result.waits.sleep = std::chrono::microseconds(30);
  return result;
}

/// One rank of a replay: its gradients, and an all-reduce for each bucket, in the bucket's place.
template <class Comm>
class replaying_rank {
 public:
  using clock = std::chrono::steady_clock;

  replaying_rank(Comm& comm, blink::prepared_schedule& trees, iteration const& replayed,
                 replay_scale const& scale)
      : comm_(comm), replayed_(replayed), scale_(scale), queue_(comm, blink::progress::thread) {
    std::size_t all = 0;
    for (auto const& each : replayed.buckets) all += scale.elements(each.parameters);
    gradients_.resize(all);
    std::size_t at = 0;
    for (auto const& each : replayed.buckets) {
      float* const data = gradients_.data() + at;
      float const* const input = data;
      auto const count = scale.elements(each.parameters);
      averages_.push_back(
          queue_.make(blink::collective::all_reduce, trees, input, data, count, blink::avg{}));
      at += count;
    }
  }

  /// The gradients of this rank before `run`, and their means after it; one bucket after the other.
  [[nodiscard]] std::vector<float>& gradients() { return gradients_; }

  /// Writes gradients whose mean over the ranks is exact.
  void write_gradients(int round) {
    std::fill(gradients_.begin(), gradients_.end(), static_cast<float>(comm_.rank() + round));
  }
  /// Waits as long as the passes would compute, and starts each bucket's all-reduce when it is
  /// ready. Returns the time at which computation and all-reduces have ended.
  [[nodiscard]] clock::time_point run(clock::time_point begin) {
    auto const until = [&](double seconds) {
      std::this_thread::sleep_until(begin +
                                    std::chrono::duration_cast<clock::duration>(
                                        std::chrono::duration<double>(seconds * scale_.time)));
    };
    for (std::size_t k = 0; k < averages_.size(); ++k) {
      until(replayed_.buckets[k].ready_seconds);
      averages_[k].start();
    }
    until(replayed_.compute_seconds);
    for (auto& call : averages_) call.wait();
    return clock::now();
  }
  /// Throws: std::runtime_error if a gradient is not the mean.
  void check(int round) const {
    float const expected =
        static_cast<float>(comm_.rank_count() - 1) / 2 + static_cast<float>(round);
    for (float const value : gradients_) {
      if (value == expected) continue;
      throw std::runtime_error("replay: rank " + std::to_string(comm_.rank()) + " has " +
                               std::to_string(value) + ", expected the mean " +
                               std::to_string(expected));
    }
  }

 private:
  Comm& comm_;
  iteration const& replayed_;
  replay_scale scale_;
  std::vector<float> gradients_;  // bucket after bucket; outlive the queue's calls
  blink::call_queue<Comm> queue_;
  std::vector<blink::queued_call> averages_;
};

/// The clock of the iterations of all ranks. An iteration lasts from the begin of its forward pass,
/// which all ranks agree on, to the end of the last rank.
class iteration_clock {
 public:
  explicit iteration_clock(int ranks) : ends_(static_cast<std::size_t>(ranks)) {}

  /// Runs an iteration of one rank, and returns the seconds of all of them.
  template <class Comm>
  [[nodiscard]] double run(Comm& comm, replaying_rank<Comm>& mine) {
    blink::barrier(comm);
    if (comm.rank() == 0) begin_ = clock::now() + std::chrono::milliseconds(5);
    blink::barrier(comm);
    ends_[static_cast<std::size_t>(comm.rank())] = mine.run(begin_);
    blink::barrier(comm);
    auto const last = *std::max_element(ends_.begin(), ends_.end());
    return std::chrono::duration<double>(last - begin_).count();
  }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point begin_;
  std::vector<clock::time_point> ends_;
};

/// Runs iterations of training over shaped links, and returns their median seconds. Computation is
/// imitated by waiting, because ranks outnumber cores.
///
/// trees:  with the chunk sizes of the replay
/// Throws: what the calls throw; std::runtime_error for a wrong average.
[[nodiscard]] inline double replay(blink::schedule const& trees, iteration const& replayed,
                                   int iterations, replay_scale const& scale,
                                   step_costs const& costs = {}) {
  blink::shaped_thread_ranks ranks(trees.rank_count, replay_options(scale, costs));
  auto& prepared = ranks.prepare(trees);
  iteration_clock clock(trees.rank_count);
  std::vector<double> seconds;
  ranks.run([&](auto& comm) {
    replaying_rank mine(comm, prepared, replayed, scale);
    for (int round = -1; round < iterations; ++round) {  // the first is not counted
      mine.write_gradients(round);
      double const taken = clock.run(comm, mine);
      mine.check(round);
      if (comm.rank() == 0 && round >= 0) seconds.push_back(taken);
    }
  });
  return median(std::move(seconds));
}

/// The schedule of a replay: the contender's trees over scaled links, with these chunk sizes.
///
/// chunk_bytes: by tree
[[nodiscard]] inline blink::schedule replayed_schedule(contender const& planned,
                                                       replay_scale const& scale,
                                                       std::vector<double> const& chunk_bytes) {
  auto result = blink::make_schedule(planned.machine, planned.planned, scale.bytes_per_unit());
  for (std::size_t tree = 0; tree < result.trees.size(); ++tree) {
    auto const elements = std::max(1.0, std::ceil(chunk_bytes[tree] / sizeof(float)));
    result.trees[tree].chunk_bytes = static_cast<std::size_t>(elements) * sizeof(float);
  }
  return result;
}

}  // namespace blink_bench
