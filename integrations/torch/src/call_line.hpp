// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10d_names.hpp"
#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace blink_torch {

class call_line;

/// A call of a group: what it runs, and what becomes of it.
class group_call final : public c10d::Work {
 public:
  /// A call apart from its work.
  struct facts {
    int rank = 0;
    c10d::OpType kind{};
    char const* title = "";             ///< as a profiler shows it
    std::uint64_t sequence_number = 0;  ///< of the group
    std::chrono::milliseconds deadline{};
    std::vector<at::Tensor> inputs{};
    std::vector<at::Tensor> outputs{};  ///< the result
    at::IValue value{};                 ///< of the future; none: the outputs
  };

  group_call(facts what, std::function<void()> run, std::shared_ptr<call_line> line);

  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return what_.outputs; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  int sourceRank() const override { return source_; }
  void set_source(int rank) { source_ = rank; }
#if TORCH_VERSION_MAJOR >= 2
  std::uint64_t getSequencenumber() const override { return what_.sequence_number; }
#endif

  /// Runs it and completes the future. Does not throw.
  void run();
  /// Returns when it has ended, well or not.
  void await();

 private:
  facts what_;
  std::function<void()> run_;
  std::shared_ptr<call_line> line_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  int source_ = -1;
};
using call_pointer = c10::intrusive_ptr<group_call>;

/// The calls of a group, one after the other. A thread runs them, unless a thread that waits for
/// one finds it next in line and runs it itself. Any thread may add calls and wait.
class call_line : public std::enable_shared_from_this<call_line> {
 public:
  call_line() : thread_([this] { run_all(); }) {}
  call_line(call_line const&) = delete;
  call_line& operator=(call_line const&) = delete;
  ~call_line() { close(); }

  void add(call_pointer call);
  /// Runs a call, after those before it, and returns when it has ended.
  void run(call_pointer const& call);
  /// Runs calls here until `target` has ended, or as long as no other thread runs one.
  void help(group_call& target);
  /// Runs the calls that are left, and ends the thread.
  void close();

 private:
  void run_all();
  void run_next(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<call_pointer> waiting_;
  bool is_running_ = false;
  bool is_closed_ = false;
  std::thread thread_;
};

}  // namespace blink_torch
