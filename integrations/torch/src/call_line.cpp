// SPDX-License-Identifier: Apache-2.0
#include "call_line.hpp"

#include <exception>
#include <utility>

namespace blink_torch {

group_call::group_call(facts what, std::function<void()> run, std::shared_ptr<call_line> line)
    : Work(what.rank, what.kind, what.title,
           what.inputs.empty() ? optional<std::vector<at::Tensor>>()
                               : optional<std::vector<at::Tensor>>(what.inputs)),
      what_(std::move(what)),
      run_(std::move(run)),
      line_(std::move(line)) {
  auto const tensors = c10::ListType::create(c10::TensorType::get());
  bool const is_nested = what_.value.isList() && !what_.value.isTensorList();
  future_ = c10::make_intrusive<c10::ivalue::Future>(
      is_nested ? c10::TypePtr(c10::ListType::create(tensors)) : c10::TypePtr(tensors));
}

bool group_call::wait(std::chrono::milliseconds timeout) {
  // With a limit of this wait alone, a thread of the line runs the call.
  if (timeout <= std::chrono::milliseconds(0)) line_->wait_for(*this);
  return Work::wait(timeout);
}

c10::intrusive_ptr<c10::ivalue::Future> group_call::getFuture() {
  has_future_ = true;
  return future_;
}

void group_call::run() {
  what_.entry.mark_started();
  auto const begin = std::chrono::steady_clock::now();
  try {
    run_();
  } catch (...) {
    failure_ = std::current_exception();
    if (what_.hooks) what_.hooks->failed();
  }
  milliseconds_ = milliseconds_since(begin);
  run_ = nullptr;  // lets tensors go
}

void group_call::complete() {
  if (failure_) {
    future_->setError(failure_);
  } else {
    future_->markCompleted(what_.value.isNone() ? at::IValue(what_.outputs) : what_.value);
  }
  finish(failure_);
  if (!failure_ && what_.hooks) what_.hooks->completed(key_, milliseconds_);
}

void call_line::add(call_pointer call, bool wakes) {
  {
    held_lock const lock(mutex_);
    TORCH_CHECK(!is_closed_, "blink: the group has ended, expected no more calls");
    waiting_.push_back(std::move(call));
    if (wakes && threads_.empty()) begin_thread();
  }
  if (wakes) changed_.notify_all();
}

void call_line::run_next(held_lock& lock) {
  auto const call = std::move(waiting_.front());
  waiting_.pop_front();
  is_running_ = true;
  lock.unlock();
  call->run();
  lock.lock();
  is_running_ = false;
  if (call->has_future_ && free_threads_ == 0 && !is_closed_) begin_thread();
  lock.unlock();
  changed_.notify_all();
  call->complete();
  lock.lock();
  changed_.notify_all();
}

void call_line::wait_for(group_call& call) {
  held_lock lock(mutex_);
  while (!call.isCompleted()) {
    if (can_run()) {
      run_next(lock);
    } else {
      changed_.wait(lock, [&] { return can_run() || call.isCompleted(); });
    }
  }
}

void call_line::begin_thread() {
  threads_.emplace_back([line = shared_from_this()] { line->work(); });
  ++free_threads_;
}

void call_line::work() {
  held_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return can_run() || (is_closed_ && waiting_.empty()); });
    if (!can_run()) return;
    --free_threads_;
    run_next(lock);
    ++free_threads_;
  }
}

void call_line::close() {
  std::vector<std::thread> threads;
  {
    held_lock lock(mutex_);
    is_closed_ = true;
    while (can_run()) run_next(lock);
    threads.swap(threads_);
  }
  changed_.notify_all();
  for (auto& each : threads) {
    // A function that waits for a future may hold the group's last reference.
    if (each.get_id() == std::this_thread::get_id()) {
      each.detach();
    } else {
      each.join();
    }
  }
}

}  // namespace blink_torch
