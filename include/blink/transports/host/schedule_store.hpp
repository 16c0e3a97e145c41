// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/pipeline.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The prepared schedules of one rank among ranks that share a segment. Programs may use ever new
/// schedules, so the shared memory of those that were not used lately is given back.
///
/// All ranks make the same calls in the same order. So each rank decides alike, without a message,
/// which schedules have had no call for longest. It gives back the memory of those that none of the
/// last two calls used, because all ranks have ended the calls before. If such a schedule is used
/// again, all ranks take new memory for it.
class schedule_store {
 public:
  /// memory:  outlives this object
  /// key:     of the communicator in that memory
  schedule_store(shared_segment& memory, std::uint64_t key) : memory_(&memory), key_(key) {}
  schedule_store(schedule_store const&) = delete;
  schedule_store& operator=(schedule_store const&) = delete;

  /// Returns the schedule if it is prepared; null: it is not.
  ///
  /// stays: true if the caller keeps the reference; false: it is for one call
  [[nodiscard]] prepared_schedule* find(schedule const& source, bool stays) {
    for (auto& known : all_) {
      if (known->source() != source) continue;
      known->stays = known->stays || stays;
      return known.get();
    }
    return nullptr;
  }
  /// Prepares a schedule that is not prepared.
  ///
  /// layout: without memory that ranks share
  /// Throws: resource_error if the shared memory is full.
  prepared_schedule& add(schedule const& source, connection_layout layout,
                         pipeline_costs const& costs, memory_source const& of_calls, bool stays) {
    std::uint64_t const schedule_key = blink::hash(source, layout, costs);
    auto const known = renewals_.find(schedule_key);
    std::uint64_t const renewals = known == renewals_.end() ? 0 : known->second;
    std::size_t const bytes = connection_tables::shared_bytes(source, layout);
    layout.ranks_share = memory_->hold(key_of(schedule_key, renewals), bytes);
    auto fresh = std::make_unique<kept>(source, layout, costs, of_calls);
    fresh->key = schedule_key;
    fresh->renewals = renewals;
    fresh->bytes = bytes;
    fresh->stays = stays;
    return *all_.emplace_back(std::move(fresh));
  }
  /// Counts a call along a schedule of this store, before the call announces itself.
  ///
  /// Throws: resource_error if the shared memory is full.
  void use(prepared_schedule& prepared) {
    auto& one = static_cast<kept&>(prepared);
    dropped_.clear();
    one.last_call = ++calls_;
    if (!one.is_counted) count(one);
  }
  /// The addresses of the schedules that the last `use` has destroyed.
  [[nodiscard]] std::vector<prepared_schedule const*> const& dropped() const { return dropped_; }

 private:
  struct kept : prepared_schedule {
    using prepared_schedule::prepared_schedule;
    std::uint64_t key = 0;
    std::uint64_t renewals = 0;   // of its memory
    std::uint64_t last_call = 0;  // 0: none
    std::size_t bytes = 0;        // that ranks share
    bool stays = false;
    bool has_memory = true;
    bool is_counted = false;  // among those whose memory is limited: a call has used it
  };

  // Schedules of a training step fit in, as large as they are.
  static constexpr std::size_t least_limit = std::size_t{1} << 28, most_large = 16;

  [[nodiscard]] std::uint64_t key_of(std::uint64_t schedule_key, std::uint64_t renewals) const {
    detail::hash result;
    for (std::uint64_t const part : {key_, schedule_key, renewals}) result.add(part);
    return result.value();
  }
  BLINK_COLD void count(kept& one) {
    if (!one.has_memory) {
      one.renewals = renewals_[one.key];
      one.share(memory_->hold(key_of(one.key, one.renewals), one.bytes));
      one.has_memory = true;
    }
    one.is_counted = true;
    counted_ += one.bytes;
    largest_ = std::max(largest_, one.bytes);
    std::size_t const limit =
        std::min(std::max(least_limit, most_large * largest_), memory_->bytes() / 2);
    while (counted_ > limit) {
      kept* oldest = nullptr;
      for (auto& other : all_) {
        bool const may_go = other->is_counted && other->last_call + 1 < calls_;
        if (may_go && (oldest == nullptr || other->last_call < oldest->last_call)) {
          oldest = other.get();
        }
      }
      if (oldest == nullptr) return;
      give_back(*oldest);
    }
  }
  void give_back(kept& one) {
    memory_->let_go(key_of(one.key, one.renewals));
    renewals_[one.key] = one.renewals + 1;
    counted_ -= one.bytes;
    one.is_counted = one.has_memory = false;
    if (!one.stays) {
      dropped_.push_back(&one);
      std::erase_if(all_, [&](auto const& other) { return other.get() == &one; });
    }
  }

  shared_segment* memory_;
  std::uint64_t key_;
  std::vector<std::unique_ptr<kept>> all_;
  std::map<std::uint64_t, std::uint64_t> renewals_;  // by schedule, of those without memory
  std::uint64_t calls_ = 0;
  std::size_t counted_ = 0;  // bytes
  std::size_t largest_ = 0;
  std::vector<prepared_schedule const*> dropped_;
};

}}}  // namespace blink::BLINK_ABI::detail
