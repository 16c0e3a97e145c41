// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10d_names.hpp"
#include "call_line.hpp"
#include "engine.hpp"
#include "tensors.hpp"
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
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
  };

  /// futures: the line whose thread waits for messages with a future
  message_work(facts what, std::shared_ptr<engine> by, std::shared_ptr<call_line> futures,
               flat_tensor data, std::unique_ptr<engine::message> started);

  bool isCompleted() override;
  bool wait(std::chrono::milliseconds timeout) override;
  int sourceRank() const override { return source_; }
  std::vector<at::Tensor> result() override { return {what_.user}; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

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
};

}  // namespace blink_torch
