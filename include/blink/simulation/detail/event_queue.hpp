// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/simulation/detail/link_rates.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Events by time, and by key among equal times: a radix heap. Its memory accesses are in a row,
/// where a binary heap of half a million events misses the caches at each level.
///
/// Times that differ by less than 1.8e-12 of themselves are one time. Otherwise errors of rounding
/// would order events of one time, which can change the time of a run by a tenth.
///
/// Source: R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, "Faster algorithms for the shortest path
///         problem", J. ACM 37, 1990.
class event_queue {
 public:
  /// Pre: seconds is finite, positive or zero, and not before the last event that was taken.
  void push(double seconds, std::uint64_t key) {
    auto const bits = std::bit_cast<std::uint64_t>(seconds + 0.0);  // -0 becomes 0
    if (is_now(bits)) {
      late_.push_back(key);
      std::ranges::push_heap(late_, std::greater<>());
    } else {
      add(bits, key);
    }
  }
  /// The time of the next event; `never` if there is none.
  [[nodiscard]] double next_seconds() const {
    if (!now_.empty() || !late_.empty()) return std::bit_cast<double>(last_);
    auto const* const next = first_bucket();
    return next == nullptr ? never : std::bit_cast<double>(next->least);
  }
  /// Takes the key of the next event. Pre: there is one.
  [[nodiscard]] std::uint64_t take() {
    if (now_.empty() && late_.empty()) open_bucket();
    if (now_.empty() || (!late_.empty() && late_.front() < now_.back())) {
      std::ranges::pop_heap(late_, std::greater<>());
      auto const key = late_.back();
      late_.pop_back();
      return key;
    }
    auto const key = now_.back();
    now_.pop_back();
    return key;
  }

 private:
  struct bucket {
    std::uint64_t least = ~std::uint64_t{0};
    std::vector<std::pair<std::uint64_t, std::uint64_t>> events{};  // bits of seconds, key
  };

  void add(std::uint64_t bits, std::uint64_t key) {
    auto& of = buckets_[static_cast<std::size_t>(std::bit_width(bits ^ last_) - 1)];
    of.least = std::min(of.least, bits);
    of.events.emplace_back(bits, key);
  }
  [[nodiscard]] bucket const* first_bucket() const {
    auto const found =
        std::ranges::find_if(buckets_, [](auto const& b) { return !b.events.empty(); });
    return found == buckets_.end() ? nullptr : &*found;
  }
  [[nodiscard]] bool is_now(std::uint64_t bits) const {
    return bits - last_ < std::uint64_t{1} << 14;
  }
  /// Deals the first bucket out to those before it, and to `now_`. The next ones may hold events of
  /// the same time.
  void open_bucket() {
    auto* from = &buckets_[static_cast<std::size_t>(first_bucket() - buckets_.data())];
    last_ = from->least;
    for (; from != buckets_.data() + buckets_.size(); ++from) {
      if (from->events.empty()) continue;
      if (!is_now(from->least)) break;
      from->least = ~std::uint64_t{0};
      dealt_.swap(from->events);
      for (auto const& [bits, key] : dealt_) {
        if (is_now(bits)) {
          now_.push_back(key);
        } else {
          add(bits, key);
        }
      }
      dealt_.clear();
    }
    std::ranges::sort(now_, std::greater<>());
  }

  std::uint64_t last_ = 0;            // bits of the seconds of the last event that was taken
  std::array<bucket, 64> buckets_{};  // by the highest bit in which the times differ from `last_`
  std::vector<std::pair<std::uint64_t, std::uint64_t>> dealt_;
  std::vector<std::uint64_t> now_;   // keys at `last_`, the least at the end
  std::vector<std::uint64_t> late_;  // keys at `last_` that were added since: a heap
};

}}}  // namespace blink::BLINK_ABI::detail
