// SPDX-License-Identifier: Apache-2.0
#include "call_line.hpp"

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
  // A limit of this wait alone: another thread runs the call.
  if (timeout <= std::chrono::milliseconds(0)) line_->help(*this);
  return Work::wait(timeout);
}

void group_call::await() {
  std::unique_lock<std::mutex> lock(mutex_);
  cv_.wait(lock, [&] { return completed_; });
}

void group_call::run() {
  std::exception_ptr failure;
  try {
    run_();
  } catch (...) {
    failure = std::current_exception();
  }
  run_ = nullptr;  // lets tensors go
  if (failure) {
    future_->setError(failure);
  } else {
    future_->markCompleted(what_.value.isNone() ? at::IValue(what_.outputs) : what_.value);
  }
  finish(failure);
}

void call_line::add(call_pointer call) {
  {
    std::lock_guard<std::mutex> const lock(mutex_);
    waiting_.push_back(std::move(call));
  }
  changed_.notify_one();
}

void call_line::run_next(std::unique_lock<std::mutex>& lock) {
  auto const call = std::move(waiting_.front());
  waiting_.pop_front();
  is_running_ = true;
  lock.unlock();
  call->run();
  lock.lock();
  is_running_ = false;
  if (!waiting_.empty()) changed_.notify_one();
}

void call_line::run(call_pointer const& call) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    waiting_.push_back(call);
    while (!is_running_ && !waiting_.empty() && !call->isCompleted()) run_next(lock);
  }
  call->await();
}

void call_line::help(group_call& target) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_running_ && !waiting_.empty() && !target.isCompleted()) run_next(lock);
}

void call_line::run_all() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_closed_ || (!is_running_ && !waiting_.empty()); });
    if (!is_running_ && !waiting_.empty()) {
      run_next(lock);
    } else if (is_closed_ && waiting_.empty()) {
      return;
    } else if (is_closed_) {  // the thread that runs a call notifies
      changed_.wait(lock, [&] { return !is_running_; });
    }
  }
}

void call_line::close() {
  {
    std::lock_guard<std::mutex> const lock(mutex_);
    if (is_closed_) return;
    is_closed_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace blink_torch
