// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10d_names.hpp"
#include "call_line.hpp"
#include "engine.hpp"
#include "group_hooks.hpp"
#include "tensors.hpp"
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace blink_torch {

/// A send or a receive. Its bytes move in `wait` and `isCompleted` of any message of the group.
/// Once its future is asked for, a thread waits for it.
class message_work final : public c10d::Work {
 public:
  struct facts {
    int rank = 0;
    c10d::OpType kind{};
    char const* title = "";
    std::string about{};  ///< for errors
    std::chrono::milliseconds deadline{};
    at::Tensor user{};
    std::shared_ptr<group_hooks const> hooks{};
  };

  /// futures: the line whose thread waits for messages with a future
  message_work(facts what, std::shared_ptr<engine> by, std::shared_ptr<call_line> futures,
               flat_tensor data, std::unique_ptr<engine::message> started);

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  int sourceRank() const override { return source_; }
  std::vector<at::Tensor> result() override { return {what_.user}; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
#if TORCH_VERSION_MAJOR >= 2
  float getDuration() const override { return milliseconds_; }
#endif
#ifdef BLINK_TORCH_HAS_HOOKS
  std::uint64_t getCompletionKey() const override { return key_; }
#endif

 private:
  /// Runs a step of the message. True: it has ended.
  ///
  /// Pre: `moving_` is held.
  bool step(std::function<bool()> const& run);
  [[nodiscard]] bool has_ended();

  facts what_;
  std::shared_ptr<engine> by_;  // outlives the message
  std::shared_ptr<call_line> futures_;
  flat_tensor data_;
  std::mutex moving_;
  std::unique_ptr<engine::message> started_;  // until it has ended
  int source_ = -1;
  std::mutex asking_;  // for the future
  work with_future_;
  std::uint64_t key_ = group_hooks::new_key();
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<float> milliseconds_ = 0;
  bool ends_group_ = false;  // by its failure, which is not reported yet
};

}  // namespace blink_torch
