// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/planners/detail/short_numbers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A server whose links on one rail are too narrow for the trees of that rail.
struct narrow_rail {
  double detour = 0;  ///< the fraction of these trees that crosses to the server on another rail
  std::vector<std::size_t> over{};  ///< that rail, by center; the number of rails: none
};

/// The shares of an all-reduce among rails and servers.
struct rail_parts {
  /// By server and rail: the share of which the server is the center there.
  std::vector<std::vector<rational>> centers{};
  std::map<std::pair<std::size_t, std::size_t>, narrow_rail> narrow{};  ///< by server and rail
};

/// Divides an all-reduce at a rate over the rails of servers. With M servers, a leaf moves the part
/// of a rail once each way and a center M - 2 times more.
///
/// A server may have links on a rail that are too narrow for the trees of that rail. What they do
/// not carry makes a detour over another rail, which it loads in that server and at the center. The
/// search repeats two steps. Centers get the links that leaves and detours do not need, and the
/// part of a rail becomes the sum of its centers.
class rail_division_search {
 public:
  /// width: by server and rail
  rail_division_search(std::vector<std::vector<rational>> const& width, rational const& rate)
      : servers_(width.size()), rails_(width.front().size()), width_(zeros()), center_(zeros()) {
    std::vector<double> of_rail(rails_, 0);
    double all = 0;
    for (std::size_t s = 0; s < servers_; ++s) {
      for (std::size_t r = 0; r < rails_; ++r) {
        width_[s][r] = ratio(width[s][r], rate);
        of_rail[r] += width_[s][r];
        all += width_[s][r];
      }
    }
    for (std::size_t s = 0; s < servers_; ++s) {
      for (std::size_t r = 0; r < rails_; ++r) center_[s][r] = width_[s][r] / all;
    }
    for (std::size_t r = 0; r < rails_; ++r) part_.push_back(of_rail[r] / all);
  }

  /// Time: O(rounds * (servers * rails + detours)).
  [[nodiscard]] rail_parts find() {
    constexpr int rounds = 60;
    for (int round = 0; round < rounds; ++round) improve();
    rail_parts result;
    for (std::size_t s = 0; s < servers_; ++s) {
      auto& of_server = result.centers.emplace_back();
      for (std::size_t r = 0; r < rails_; ++r) of_server.push_back(nearest_part(center_[s][r]));
    }
    for (auto& [at, one] : narrow_) one.detour = detour_of(at.first, at.second);
    result.narrow = std::move(narrow_);
    return result;
  }

 private:
  using table = std::vector<std::vector<double>>;
  [[nodiscard]] table zeros() const { return table(servers_, std::vector<double>(rails_, 0)); }

  [[nodiscard]] double spare(std::size_t s, std::size_t r) const { return width_[s][r] - part_[r]; }
  [[nodiscard]] double detour_of(std::size_t s, std::size_t r) const {
    return part_[r] > 0 ? std::max(-spare(s, r) / part_[r], 0.0) : 0;
  }

  // Gives each center of a rail that is too narrow in a server one other rail. Rails are chosen in
  // proportion to what they have to spare in the server.
  [[nodiscard]] std::vector<std::size_t> rails_of_detours(std::size_t s, std::size_t rail) const {
    std::vector<std::size_t> result(servers_, rails_);
    std::vector<double> quota(rails_, 0);
    double room = 0;
    for (std::size_t r = 0; r < rails_; ++r) room += std::max(spare(s, r), 0.0);
    if (room <= 0) return result;
    for (std::size_t c = 0; c < servers_; ++c) {
      if (c == s) continue;
      auto& best = result[c];
      for (std::size_t r = 0; r < rails_; ++r) {
        quota[r] += center_[c][rail] * std::max(spare(s, r), 0.0) / room;
        bool const is_possible = spare(s, r) > 0 && spare(c, r) > 0;
        if (is_possible && (best == rails_ || quota[r] > quota[best])) best = r;
      }
      if (best != rails_) quota[best] -= center_[c][rail];
    }
    return result;
  }

  void improve() {
    auto rest = width_;
    std::vector<double> straight(rails_, static_cast<double>(servers_) - 2);  // of a center's share
    for (std::size_t s = 0; s < servers_; ++s) {
      for (std::size_t r = 0; r < rails_; ++r) {
        rest[s][r] -= part_[r];
        double const detour = detour_of(s, r);
        if (detour == 0) continue;
        straight[r] -= detour;
        auto& over = narrow_[{s, r}].over;
        if (over.empty()) over = rails_of_detours(s, r);
        for (std::size_t c = 0; c < servers_; ++c) {
          if (over[c] == rails_) continue;
          rest[s][over[c]] -= center_[c][r] * detour;
          rest[c][over[c]] -= center_[c][r] * detour;
        }
      }
    }
    double sum = 0;
    for (std::size_t s = 0; s < servers_; ++s) {
      for (std::size_t r = 0; r < rails_; ++r) {
        auto& one = rest[s][r];
        one = straight[r] > 0 ? std::max(one, 0.0) / straight[r] : 0;
        sum += one;
      }
    }
    if (sum <= 0) return;
    for (std::size_t r = 0; r < rails_; ++r) {  // half a step, because whole steps swing
      part_[r] = 0;
      for (std::size_t s = 0; s < servers_; ++s) {
        center_[s][r] = (center_[s][r] + rest[s][r] / sum) / 2;
        part_[r] += center_[s][r];
      }
    }
  }

  std::size_t servers_, rails_;
  table width_;               // as a part of the buffer
  table center_;              // shares
  std::vector<double> part_;  // of each rail: the sum of its centers
  std::map<std::pair<std::size_t, std::size_t>, narrow_rail> narrow_;
};

/// The shares of an all-reduce at a rate.
///
/// width: by server and rail; without any, no server is a center
/// Post:  exact and without detours if the links of every server carry the rails' parts; otherwise
///        shares are rounded.
[[nodiscard]] inline rail_parts parts_of_rails(std::vector<std::vector<rational>> const& width,
                                               rational const& rate) {
  auto const servers = width.size(), rails = width.front().size();
  auto const more = static_cast<std::int64_t>(servers) - 2;
  rail_parts result;
  result.centers.assign(servers, std::vector<rational>(rails));
  rational all;
  std::vector<rational> of_rail(rails);
  for (auto const& of_server : width) {
    for (std::size_t r = 0; r < rails; ++r) {
      of_rail[r] += of_server[r];
      all += of_server[r];
    }
  }
  if (all == rational(0)) return result;
  bool is_exact = rate == all / (2 * (more + 1));
  for (std::size_t s = 0; s < servers; ++s) {
    for (std::size_t r = 0; r < rails; ++r) {
      auto& center = result.centers[s][r];
      center = (width[s][r] / rate - of_rail[r] / all) / more;
      is_exact = is_exact && center >= rational(0);
    }
  }
  return is_exact ? result : rail_division_search(width, rate).find();
}

}}}  // namespace blink::BLINK_ABI::detail
