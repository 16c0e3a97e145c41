// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/simulation/detail/link_rates.hpp>
#include <blink/simulation/detail/simulated_edges.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Links that carry one chunk after the other, in the order in which they get them. A chunk gets to
/// all links of its route at once.
class fifo_links {
 public:
  explicit fifo_links(simulated_plan const& source)
      : source_(source), free_at_(source.links.size(), 0), busy_(source.links.size(), 0) {}

  /// The end of a chunk on all links of its route.
  struct carried {
    double done = 0;                ///< when the last link is done
    std::int64_t failed_link = -1;  ///< position of a link that fails before; negative: none
    double failed_at = never;
  };

  /// Carries a chunk of an edge, from `now` on.
  ///
  /// on_link: is called with the link, the begin and the end
  /// Pre:     calls are in the order of `now`.
  [[nodiscard]] carried carry(std::uint32_t edge, double now, double bytes, auto const& on_link) {
    carried result{now};
    for (auto const link : source_.all(source_.edges[edge].route)) {
      auto const& rates = source_.links[link].rates;
      double const begin = std::max(now, free_at_[link]);
      double const end = rates.end_of(begin, bytes);
      if (double const lost_at = rates.failure_from(now); end == never && lost_at < never) {
        if (lost_at < result.failed_at) {
          result.failed_link = link;
          result.failed_at = lost_at;
        }
        continue;
      }
      free_at_[link] = end;
      busy_[link] += end - begin;
      on_link(link, begin, end);
      result.done = std::max(result.done, end);
    }
    return result;
  }

  /// The seconds in which a link carried something.
  [[nodiscard]] double busy_seconds(std::size_t link) const { return busy_[link]; }

 private:
  simulated_plan const& source_;
  std::vector<double> free_at_, busy_;  // by link
};

}}}  // namespace blink::BLINK_ABI::detail
