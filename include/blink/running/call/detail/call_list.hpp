// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/detail/any_call.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A call of a list, and its result.
struct listed_call {
  explicit listed_call(std::unique_ptr<any_call> call) : what(std::move(call)) {}

  std::unique_ptr<any_call> what;
  enum class state : std::uint8_t { idle, started, begun, ended };
  std::atomic<state> now = state::idle;  ///< written under the list's lock
  std::exception_ptr failure;            ///< the failure, if any; written before `ended`
};

/// Carries out calls in the order of their start, one after the other. The caller's tests and waits
/// run the calls, or a thread of the list does. No other list can use the communicator while this
/// one has calls.
class call_list {
 public:
  /// active_queue: the communicator's; it outlives `close`
  call_list(bool has_thread, std::atomic<void const*>& active_queue)
      : has_thread_(has_thread), active_queue_(active_queue) {
    if (has_thread_) thread_ = std::jthread([this](std::stop_token const& stop) { serve(stop); });
  }
  call_list(call_list const&) = delete;
  call_list& operator=(call_list const&) = delete;
  ~call_list() { close(); }

  /// Waits for all calls, because peers use the buffers. Afterwards the communicator is not used
  /// any more, and no call can be started.
  void close() {
    if (std::exchange(is_closed_, true)) return;
    if (has_thread_) {
      {  // without the lock the request could fall between the thread's last check and its sleep
        std::lock_guard const lock(mutex_);
        thread_.request_stop();
      }
      changed_.notify_all();
      thread_.join();
    } else {
      while (!calls_.empty()) complete_first();
    }
    for (auto const& made : made_) {  // calls use memory of the communicator
      if (auto const call = made.lock()) call->what.reset();
    }
  }

  [[nodiscard]] bool has_thread() const { return has_thread_; }

  [[nodiscard]] std::shared_ptr<listed_call> add(std::unique_ptr<any_call> what) {
    auto call = std::make_shared<listed_call>(std::move(what));
    if (made_.size() == made_.capacity()) {
      std::erase_if(made_, [](auto const& made) { return made.expired(); });
    }
    made_.push_back(call);
    return call;
  }

  /// Starts a call.
  ///
  /// Throws: precondition_error if the call is under way, the list is closed, or another list holds
  ///         the communicator.
  void start(std::shared_ptr<listed_call> const& call) {
    auto const present = call->now.load(std::memory_order_acquire);
    expects(present == listed_call::state::idle || present == listed_call::state::ended,
            "call_queue: the call is started already and has not ended, expected its end first");
    expects(!is_closed_, "call_queue: the call's queue has ended, expected a live queue");
    std::lock_guard const lock(mutex_);
    void const* nobody = nullptr;
    expects(!calls_.empty() || active_queue_.compare_exchange_strong(nobody, this),
            "call_queue: calls of another queue of the communicator have not ended, expected their "
            "end first");
    call->failure = nullptr;
    call->now.store(listed_call::state::started, std::memory_order_release);
    calls_.push_back(call);
    if (has_thread_) {
      changed_.notify_all();
    } else {
      (void)advance_all();  // data from peers that have entered moves while the caller computes
    }
  }

  /// True if the call has ended. Throws: its failure.
  [[nodiscard]] bool test(listed_call& call) {
    expect_started(call);
    if (!has_thread_) {
      std::lock_guard const lock(mutex_);
      (void)advance_all();
    }
    if (call.now.load(std::memory_order_acquire) != listed_call::state::ended) {
      // A caller that tests in a loop yields the core that the list's thread may need. That thread
      // also yields while it waits.
      if (has_thread_) std::this_thread::yield();
      return false;
    }
    report(call);
    return true;
  }

  /// Returns when the call has ended. Throws: its failure.
  void wait(listed_call& call) {
    expect_started(call);
    if (has_thread_) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return call.now.load() == listed_call::state::ended; });
    } else {
      std::lock_guard const lock(mutex_);
      while (call.now.load() != listed_call::state::ended) complete_first();
    }
    report(call);
  }

 private:
  static void expect_started(listed_call const& call) {
    expects(call.now.load(std::memory_order_acquire) != listed_call::state::idle,
            "call_queue: the call has not been started, expected start() first");
  }
  static void report(listed_call& call) {
    if (call.failure) std::rethrow_exception(call.failure);
  }

  // Runs a step of the first call. Returns true if the call has ended; a step that throws ends it.
  template <class Step>
  bool step_first(Step const& step) {
    auto& call = *calls_.front();
    bool has_ended = false;
    try {
      if (call.now.load() == listed_call::state::started) {
        call.now.store(listed_call::state::begun);
        call.what->begin();
      }
      has_ended = step(*call.what);
    } catch (...) {
      call.failure = std::current_exception();
      has_ended = true;
    }
    return has_ended;
  }
  void pop_first() {
    auto const first = std::move(calls_.front());
    calls_.pop_front();
    if (calls_.empty()) active_queue_.store(nullptr, std::memory_order_release);
    first->now.store(listed_call::state::ended, std::memory_order_release);
  }
  // Advances calls as far as possible without waiting.
  bool advance_all() {
    while (!calls_.empty()) {
      if (!step_first([](any_call& call) { return call.advance(); })) return false;
      pop_first();
    }
    return true;
  }
  void complete_first() {
    (void)step_first([](any_call& call) {
      call.complete();
      return true;
    });
    pop_first();
  }

  // The list's thread. Only it touches the communicator and the first call, so that it may wait
  // without the lock.
  void serve(std::stop_token const& stop) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !calls_.empty() || stop.stop_requested(); });
      if (calls_.empty()) return;
      auto const first = calls_.front();
      lock.unlock();
      (void)step_first([](any_call& call) {
        call.complete();
        return true;
      });
      lock.lock();
      pop_first();
      changed_.notify_all();
    }
  }

  bool has_thread_;
  bool is_closed_ = false;
  std::atomic<void const*>& active_queue_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<listed_call>> calls_;  // started and not ended
  std::vector<std::weak_ptr<listed_call>> made_;
  std::jthread thread_;
};

}}}  // namespace blink::BLINK_ABI::detail
