// SPDX-License-Identifier: Apache-2.0
#include "flight_entry.hpp"

#include "c10d_names.hpp"

#ifdef BLINK_TORCH_HAS_HOOKS
#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

#include <algorithm>
#include <mutex>
#include <thread>
#include <tuple>
#endif

namespace blink_torch {

#ifdef BLINK_TORCH_HAS_HOOKS
namespace {

using recorder = c10d::FlightRecorder<c10::Event>;

/// Other threads may have recorded calls in between, but few.
constexpr std::size_t entries_to_search = 16;

}  // namespace

flight_entry flight_entry::newest(std::string const& backend, std::string const& group) {
  auto* const all = c10d::getFlightRecorder(backend);
  flight_entry result;
  if (all == nullptr || !all->enabled_) return result;
  std::lock_guard<std::mutex> const lock(all->mutex_);
  auto const size = all->entries_.size();
  auto const me = std::this_thread::get_id();
  for (std::size_t back = 1; back <= std::min(size, entries_to_search); ++back) {
    auto const& entry = all->entries_[(all->next_ + size - back) % size];
    if (entry.thread_id_ != me) continue;
    if (std::get<0>(entry.pg_name_) != group || entry.retired_) return result;
    result.recorder_ = all;
    result.id_ = entry.id_;
    result.epoch_ = entry.reset_epoch_;
    return result;
  }
  return result;
}

void flight_entry::mark_started() const {
  if (recorder_ == nullptr) return;
  auto& all = *static_cast<recorder*>(recorder_);
  std::lock_guard<std::mutex> const lock(all.mutex_);
  auto const start = all.reset_epoch_start_idx_.find(epoch_);
  if (start == all.reset_epoch_start_idx_.end()) return;
  auto const place = (start->second + id_) % all.max_entries_;
  if (place >= all.entries_.size()) return;
  auto& entry = all.entries_[place];
  bool const is_overwritten = entry.id_ != id_ || entry.reset_epoch_ != epoch_;
  if (!is_overwritten && !entry.time_discovered_started_) {
    entry.time_discovered_started_ = c10::getTime();
  }
}
#else
flight_entry flight_entry::newest(std::string const&, std::string const&) {
  return {};
}
void flight_entry::mark_started() const {}
#endif

}  // namespace blink_torch
