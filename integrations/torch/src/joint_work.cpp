// SPDX-License-Identifier: Apache-2.0
#include "joint_work.hpp"

#ifdef BLINK_TORCH_HAS_HOOKS
#include <ATen/core/ivalue.h>

#include <algorithm>
#include <utility>

namespace blink_torch {
namespace {

[[nodiscard]] std::vector<at::Tensor> results_of(std::vector<work> const& calls) {
  std::vector<at::Tensor> all;
  for (auto const& each : calls) {
    auto const some = each->result();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

joint_work::joint_work(int rank, std::vector<work> calls)
    : Work(rank, c10d::OpType::COALESCED), calls_(std::move(calls)) {}

bool joint_work::isCompleted() {
  // Asks each of them, because some move on only when they are asked.
  bool all = true;
  for (auto const& each : calls_) all = each->isCompleted() && all;
  return all;
}

bool joint_work::isSuccess() const {
  return std::all_of(calls_.begin(), calls_.end(),
                     [](work const& each) { return each->isSuccess(); });
}

std::exception_ptr joint_work::exception() const {
  for (auto const& each : calls_) {
    if (auto failure = each->exception()) return failure;
  }
  return nullptr;
}

bool joint_work::wait(std::chrono::milliseconds timeout) {
  auto const begin = std::chrono::steady_clock::now();
  for (auto const& each : calls_) {
    if (timeout <= kNoTimeout) {
      each->wait(kNoTimeout);
    } else {
      auto const past = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now() - begin);
      each->wait(std::max(timeout - past, std::chrono::milliseconds(1)));
    }
  }
  return true;
}

std::vector<at::Tensor> joint_work::result() {
  return results_of(calls_);
}

c10::intrusive_ptr<c10::ivalue::Future> joint_work::getFuture() {
  using future = c10::intrusive_ptr<c10::ivalue::Future>;
  auto const tensors = c10::ListType::create(c10::TensorType::get());
  c10::List<future> all(c10::FutureType::create(tensors));
  for (auto const& each : calls_) all.push_back(each->getFuture());
  return c10::collectAll(all)->then(
      [calls = calls_](c10::ivalue::Future& ended) {
        if (ended.hasError()) std::rethrow_exception(ended.exception_ptr());
        return c10::IValue(results_of(calls));
      },
      tensors);
}

void coalesced_calls::begin() {
  std::lock_guard<std::mutex> const lock(mutex_);
  thread_ = std::this_thread::get_id();
  calls_.clear();
  is_open_ = true;
}

void coalesced_calls::add(work const& call) {
  if (!is_open_) return;
  std::lock_guard<std::mutex> const lock(mutex_);
  if (thread_ == std::this_thread::get_id()) calls_.push_back(call);
}

work coalesced_calls::end(int rank) {
  std::vector<work> calls;
  {
    std::lock_guard<std::mutex> const lock(mutex_);
    is_open_ = false;
    calls.swap(calls_);
  }
  if (calls.empty()) return {};
  if (calls.size() == 1) return calls.front();
  return c10::make_intrusive<joint_work>(rank, std::move(calls));
}

}  // namespace blink_torch
#endif
