// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10d_names.hpp"
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#ifdef BLINK_TORCH_HAS_HOOKS

namespace blink_torch {

/// Stands for several calls of a group.
class joint_work final : public c10d::Work {
 public:
  /// calls: one or more, in the order in which they began
  joint_work(int rank, std::vector<work> calls);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;  ///< of the first call that failed
  /// timeout: of all of them together; 0: each one's own
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override;
  /// Its value: the results of all calls.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  std::vector<work> calls_;
};

/// The calls that a thread starts between `begin` and `end`. Those of other threads stand alone.
class coalesced_calls {
 public:
  /// Forgets calls since an earlier `begin`, whose own works stand for them.
  void begin();
  void add(work const& call);
  /// Returns a work for all of them; null if there are none.
  [[nodiscard]] work end(int rank);

 private:
  std::atomic<bool> is_open_ = false;
  std::mutex mutex_;
  std::thread::id thread_;
  std::vector<work> calls_;
};

}  // namespace blink_torch

#endif
