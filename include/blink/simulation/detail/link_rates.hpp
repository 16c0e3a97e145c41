// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The end of what never ends.
inline constexpr double never = std::numeric_limits<double>::infinity();

/// The rate of a link over time, constant between changes.
class link_rates {
 public:
  struct piece {
    double begin = 0;  // seconds
    double bytes_per_second = 0;
  };

  explicit link_rates(double bytes_per_second) : pieces_{{-never, bytes_per_second}} {}

  /// Sets the rate from a time on. Pre: later than all changes so far.
  void change(double seconds, double bytes_per_second) {
    pieces_.push_back({seconds, bytes_per_second});
  }
  [[nodiscard]] std::vector<piece> const& pieces() const { return pieces_; }

  /// The time when the link has carried bytes from `begin` on; `never` if it fails before.
  [[nodiscard]] double end_of(double begin, double bytes) const {
    std::size_t at = 0;
    while (at + 1 < pieces_.size() && pieces_[at + 1].begin <= begin) ++at;
    for (;; ++at) {
      double const rate = pieces_[at].bytes_per_second;
      double const end = rate > 0 ? begin + bytes / rate : never;
      bool const is_last = at + 1 == pieces_.size();
      if (is_last || end <= pieces_[at + 1].begin) return end;
      bytes -= rate * (pieces_[at + 1].begin - begin);
      begin = pieces_[at + 1].begin;
    }
  }
  /// The first time from `begin` on at which the link carries nothing.
  [[nodiscard]] double failure_from(double begin) const {
    for (auto const& each : pieces_) {
      if (each.bytes_per_second == 0) return std::max(begin, each.begin);
    }
    return never;
  }

 private:
  std::vector<piece> pieces_;  // by begin
};

}}}  // namespace blink::BLINK_ABI::detail
