// SPDX-License-Identifier: Apache-2.0
#include "message_work.hpp"

#include <blink/core/error.hpp>

#include "failures.hpp"

#include <exception>
#include <utility>

namespace blink_torch {

message_work::message_work(facts what, std::shared_ptr<engine> by,
                           std::shared_ptr<call_line> futures, flat_tensor data,
                           std::unique_ptr<engine::message> started)
    : Work(what.rank, what.kind, what.title,
           optional<std::vector<at::Tensor>>(std::vector<at::Tensor>{what.user})),
      what_(std::move(what)),
      by_(std::move(by)),
      futures_(std::move(futures)),
      data_(std::move(data)),
      started_(std::move(started)) {}

bool message_work::has_ended() {
  std::lock_guard<std::mutex> const lock(mutex_);
  return completed_;
}

bool message_work::step(std::function<bool()> const& run) {
  if (has_ended()) return true;
  std::exception_ptr failure;
  try {
    if (!run()) return false;
    source_ = started_->source();
    if (what_.kind != c10d::OpType::SEND) data_.write_back();
  } catch (blink::error const& error) {
    failure = failure_of(what_.about + error.what());
    ends_group_ = ends_group(error);
  } catch (...) {
    failure = std::current_exception();
  }
  started_.reset();
  milliseconds_ = milliseconds_since(begin_);
  finish(failure);
  if (!failure && what_.hooks) what_.hooks->completed(key_, milliseconds_);
  return true;
}

bool message_work::isCompleted() {
  std::unique_lock<std::mutex> const lock(moving_, std::try_to_lock);
  if (!lock.owns_lock()) return has_ended();  // another thread waits
  return step([&] { return started_->test(); });
}

bool message_work::wait(std::chrono::milliseconds timeout) {
  auto const longest = timeout > std::chrono::milliseconds(0) ? timeout : what_.deadline;
  {
    std::lock_guard<std::mutex> const lock(moving_);
    step([&] {
      started_->wait(longest);
      return true;
    });
    // Not in `isCompleted`, whose thread may hold Python's lock.
    if (std::exchange(ends_group_, false) && what_.hooks) what_.hooks->failed();
  }
  return Work::wait(kNoTimeout);  // throws what went wrong
}

c10::intrusive_ptr<c10::ivalue::Future> message_work::getFuture() {
  std::lock_guard<std::mutex> const lock(asking_);
  if (!with_future_) {
    auto const self = c10::intrusive_ptr<message_work>::unsafe_reclaim_from_nonowning(this);
    group_call::facts facts{what_.rank, what_.kind, what_.title};
    facts.outputs = {what_.user};
    auto call = c10::make_intrusive<group_call>(
        std::move(facts), [self] { self->wait(kNoTimeout); }, futures_);
    futures_->add(call);
    with_future_ = std::move(call);
  }
  return with_future_->getFuture();
}

}  // namespace blink_torch
