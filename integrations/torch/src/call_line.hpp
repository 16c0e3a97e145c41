// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10d_names.hpp"
#include "flight_entry.hpp"
#include "group_hooks.hpp"
#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace blink_torch {

class call_line;

/// A call of a group, as PyTorch sees it.
class group_call final : public c10d::Work {
 public:
  /// A call apart from its work.
  struct facts {
    int rank = 0;
    c10d::OpType kind{};
    char const* title = "";             ///< as a profiler shows it
    std::uint64_t sequence_number = 0;  ///< of the group
    std::vector<at::Tensor> inputs{};
    std::vector<at::Tensor> outputs{};           ///< the result
    at::IValue value{};                          ///< of the future; none: the outputs
    std::shared_ptr<group_hooks const> hooks{};  ///< none for a call that PyTorch does not know
    flight_entry entry{};
  };

  group_call(facts what, std::function<void()> run, std::shared_ptr<call_line> line);

  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return what_.outputs; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
#if TORCH_VERSION_MAJOR >= 2
  std::uint64_t getSequencenumber() const override { return what_.sequence_number; }
  float getDuration() const override { return milliseconds_; }
#endif
#ifdef BLINK_TORCH_HAS_HOOKS
  std::uint64_t getCompletionKey() const override { return key_; }
#endif

 private:
  friend class call_line;
  /// Runs it. Does not throw.
  void run();
  /// Completes the future, which may call functions of the program, and then the call.
  void complete();

  facts what_;
  std::function<void()> run_;
  std::shared_ptr<call_line> line_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic<bool> has_future_ = false;  // the program has asked for it
  std::exception_ptr failure_;
  std::uint64_t key_ = group_hooks::new_key();
  std::atomic<float> milliseconds_ = 0;
};
using call_pointer = c10::intrusive_ptr<group_call>;

/// The calls of a group, one after the other. Threads of the line run them, unless a thread that
/// waits for a call finds one next in line and runs it itself. Any thread may add calls and wait.
///
/// Functions of the program that wait for a future may wait for later calls. So while a thread
/// completes one, another is free to run calls.
class call_line : public std::enable_shared_from_this<call_line> {
 public:
  call_line() = default;
  call_line(call_line const&) = delete;
  call_line& operator=(call_line const&) = delete;

  /// wakes: false if the caller goes on to wait for the call
  /// Throws: c10::Error after `close`.
  void add(call_pointer call, bool wakes = true);
  /// Returns when the call has ended. Runs calls meanwhile, as long as no other thread does.
  void wait_for(group_call& call);
  /// Runs the calls that are left, and ends the threads.
  void close();

 private:
  using held_lock = std::unique_lock<std::mutex>;
  [[nodiscard]] bool can_run() const { return !is_running_ && !waiting_.empty(); }
  void run_next(held_lock& lock);
  void begin_thread();
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<call_pointer> waiting_;
  std::vector<std::thread> threads_;
  int free_threads_ = 0;
  bool is_running_ = false;
  bool is_closed_ = false;
};

}  // namespace blink_torch
