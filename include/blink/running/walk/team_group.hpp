// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/walk/thread_group.hpp>

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The shared state of the threads of one team. It outlives every `team_group` that refers to it.
///
/// Its barriers are those of POSIX. Those of libstdc++ share words with other barriers by address,
/// which ThreadSanitizer takes for an order between teams. Two barriers alternate. With a single
/// one, ThreadSanitizer would order a late thread after all that other threads did before their
/// next barrier, and would miss races.
class team {
 public:
  /// Pre:    size > 0.
  /// Throws: resource_error.
  explicit team(std::uint32_t size) : has_second_next_(size), size_(size) {
    for (std::size_t k = 0; k < std::size(barriers_); ++k) {
      if (pthread_barrier_init(&barriers_[k], nullptr, size) == 0) continue;
      if (k != 0) pthread_barrier_destroy(&barriers_[0]);
      throw resource_error("no barrier for a team of " + std::to_string(size) + " threads");
    }
  }
  team(team const&) = delete;
  team& operator=(team const&) = delete;
  ~team() {
    for (auto& barrier : barriers_) pthread_barrier_destroy(&barrier);
  }

 private:
  friend class team_group;
  void wait(std::uint32_t thread_rank) {
    auto& second = has_second_next_[thread_rank];
    pthread_barrier_wait(&barriers_[second]);
    second ^= 1;
  }

  pthread_barrier_t barriers_[2];
  std::vector<unsigned char> has_second_next_;  // by thread, which alone touches it
  std::uint32_t size_;
  bool said_ = false;
  std::atomic<bool> any_said_ = false;
};

/// Several host threads that represent a CUDA block, so that ThreadSanitizer sees the barriers that
/// a block needs. With one thread a missing barrier is not noticed.
class team_group {
 public:
  using shared_type = team;  ///< made by a communicator for each rank

  /// Pre: each thread of `shared` passes another `thread_rank` below the team's size.
  team_group(team& shared, std::uint32_t thread_rank) : team_(&shared), rank_(thread_rank) {}

  [[nodiscard]] std::uint32_t thread_rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return team_->size_; }
  void sync() const { team_->wait(rank_); }
  [[nodiscard]] bool from_leader(bool said) const {
    if (rank_ == 0) team_->said_ = said;
    sync();
    bool const heard = team_->said_;
    sync();  // no thread overwrites it before all threads have read it
    return heard;
  }
  [[nodiscard]] bool any(bool said) const {
    if (said) team_->any_said_.store(true, std::memory_order_relaxed);
    sync();
    bool const heard = team_->any_said_.load(std::memory_order_relaxed);
    sync();
    if (rank_ == 0) team_->any_said_.store(false, std::memory_order_relaxed);
    sync();
    return heard;
  }

 private:
  team* team_;
  std::uint32_t rank_;
};
static_assert(voting_group<team_group>);

}}  // namespace blink::BLINK_ABI
