// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/thread_group.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace blink::inline BLINK_ABI {

/// What the threads of one team share. It outlives every `team_group` that refers to it.
///
/// Its barrier is that of POSIX: those of libstdc++ share words with others whose addresses are alike, which
/// ThreadSanitizer takes for an order between teams.
class team {
 public:
  /// Pre:    size > 0.
  /// Throws: resource_error.
  explicit team(std::uint32_t size) : size_(size) {
    if (pthread_barrier_init(&barrier_, nullptr, size) != 0) {
      throw resource_error("no barrier for a team of " + std::to_string(size) + " threads");
    }
  }
  team(team const&) = delete;
  team& operator=(team const&) = delete;
  ~team() { pthread_barrier_destroy(&barrier_); }

 private:
  friend class team_group;
  pthread_barrier_t barrier_;
  std::uint32_t size_;
  bool said_ = false;
  std::atomic<bool> any_said_ = false;
};

/// Several host threads that stand for a CUDA block, so that ThreadSanitizer sees the barriers
/// that a block needs: with one thread a missing barrier goes unnoticed.
class team_group {
 public:
  using shared_type = team;  ///< what a world makes for each rank

  /// Pre: each thread of `shared` passes another `thread_rank` below the team's size.
  team_group(team& shared, std::uint32_t thread_rank) : team_(&shared), rank_(thread_rank) {}

  [[nodiscard]] std::uint32_t thread_rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return team_->size_; }
  void sync() const { pthread_barrier_wait(&team_->barrier_); }
  [[nodiscard]] bool from_leader(bool said) const {
    if (rank_ == 0) team_->said_ = said;
    sync();
    bool const heard = team_->said_;
    sync();  // nobody overwrites it before everybody read it
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

}  // namespace blink::inline BLINK_ABI
