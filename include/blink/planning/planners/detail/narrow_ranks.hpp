// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/planners/detail/server_ports.hpp>
#include <blink/planning/planners/detail/short_numbers.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

// Ranks of an all-reduce whose links inside their server are too narrow to forward data.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A rank that is a leaf of almost all trees. It exchanges part of the buffer with a host, a rank
/// of another server, because its links inside do not carry all of it.
struct narrow_rank {
  std::size_t server = 0;
  std::size_t rank = 0;  ///< position in the server
  rational outside;      ///< the part of the buffer, from the beginning
  rational root;         ///< a part of which it is the root, at the end
};

/// The part of ranks with narrow links inside their server in an all-reduce.
enum class narrow_rank_rule : std::uint8_t {
  none,    ///< as other ranks
  leaves,  ///< as leaves of all trees
  /// The same with rounded parts, where exact ones do not fit into 64 bits. The rate is also
  /// lowered to what the links among servers carry.
  rounded_leaves,
  /// The same, but as roots of small parts, as far as their links to the outside have room.
  rounded_roots,
};

[[nodiscard]] inline bool rounds_parts(narrow_rank_rule rule) {
  return rule == narrow_rank_rule::rounded_leaves || rule == narrow_rank_rule::rounded_roots;
}

/// The narrow ranks of an all-reduce at a rate: those whose links inside carry the buffer at most
/// once each way. Sets the parts that ranks may sum and spread, where their links inside limit
/// them. Nothing if they limit none.
[[nodiscard]] inline std::optional<std::vector<narrow_rank>> narrow_ranks(
    topology const& machine, std::vector<server> const& servers, server_ports& ports,
    rational const& rate, narrow_rank_rule rule) {
  bool const rounds = rounds_parts(rule);
  auto const least = [&](rational const& part) {
    return rounds ? part_up_to(part.to_double()) : part;
  };
  std::vector<narrow_rank> result;
  bool are_limited = false;
  for (std::size_t s = 0; s < servers.size(); ++s) {
    auto const inner = inner_widths(machine, servers[s], ports.ids[s]);
    auto const count = std::ssize(ports.ids[s]);
    if (count < 3) continue;
    std::vector<rational> most;
    for (std::size_t k = 0; k < inner.size(); ++k) {
      auto const share = std::min(inner[k].in, inner[k].out) / rate;  // of the buffer
      most.push_back(least(std::min((share - 1) / (count - 2), rational(1))));
      are_limited = are_limited || most.back() < rational(2, count);
      if (share > rational(1)) continue;
      // What is left of its links to the outside serves for a small part of which it is the root.
      // The rank sums and spreads that inside, and exchanges more outside instead.
      auto const more = count - 2 + std::ssize(servers) - 1;
      auto const free = rule == narrow_rank_rule::rounded_roots && share > rational(0)
                            ? (ports.width[s][k] / rate - (rational(1) - share)) / more
                            : rational();
      most.back() = least(std::max(free, rational()));
      auto const outside = rational(1) - share + most.back() * (count - 2);
      result.push_back({s, k, rounds ? part_from(outside.to_double()) : outside, most.back()});
    }
    ports.parts[s] = std::move(most);
  }
  if (!are_limited) return std::nullopt;
  return result;
}

/// The narrow ranks and their hosts, which have links to spare. Takes the room that this costs, and
/// all of the narrow ranks, from the widths of the ports.
class narrow_hosts {
 public:
  narrow_hosts(std::vector<narrow_rank> narrow, server_ports& ports, rational const& rate,
               bool rounds)
      : narrow_(std::move(narrow)), left_(ports.width.size()), rounds_(rounds) {
    for (auto const& n : narrow_) ports.width[n.server][n.rank] = 0;
    auto const room = ports.width;
    for (std::size_t s = 0; s < room.size(); ++s) left_[s].resize(room[s].size());
    for (auto const& n : narrow_) {
      auto& hosts = hosts_.emplace_back();
      if (n.outside == rational(0)) continue;
      rational all;
      for (std::size_t s = 0; s < room.size(); ++s) {
        for (std::size_t k = 0; s != n.server && k < room[s].size(); ++k) {
          if (ports.rail[s][k] != ports.rail[n.server][n.rank] || room[s][k] == rational(0)) {
            continue;
          }
          hosts.push_back({s, k});
          all += room[s][k];
        }
      }
      for (auto const& [s, k] : hosts) {
        auto const part = n.outside * (room[s][k] / all);
        left_[s][k] += rounds_ ? part_from(part.to_double()) : part;
      }
    }
    for (std::size_t s = 0; s < room.size(); ++s) {
      for (std::size_t k = 0; k < room[s].size(); ++k) {
        auto const rest = std::max(room[s][k] / rate - left_[s][k], rational());
        ports.width[s][k] = (rounds_ ? part_up_to(rest.to_double()) : rest) * rate;
      }
    }
    for (auto const& n : narrow_) {
      ports.width[n.server][n.rank] = n.root * (std::ssize(room) - 1) * rate;
    }
  }

  [[nodiscard]] std::vector<narrow_rank> const& narrow() const { return narrow_; }

  /// False if a narrow rank needs a host and no rank is on its rail.
  [[nodiscard]] bool suffice() const {
    for (std::size_t i = 0; i < narrow_.size(); ++i) {
      if (narrow_[i].outside > rational(0) && hosts_[i].empty()) return false;
    }
    return true;
  }

  /// Gives a rank more room, such as what is left of its links when all other data is divided.
  void add_room(std::size_t server, std::size_t rank, rational const& amount) {
    left_[server][rank] += amount;
  }
  /// Sets the size of the buffer, of which the parts outside are shares.
  void set_total(rational const& total) {
    for (auto& n : narrow_) n.outside = std::min(n.outside, rational(1)) * total;
  }

  struct host {
    std::size_t server = 0, rank = 0;
    friend bool operator==(host const&, host const&) = default;
  };
  struct guest {
    narrow_rank const* rank;
    struct host host;
  };

  /// The narrow ranks that exchange [at, end) of the buffer outside, each with the host that has
  /// most room. If parts are rounded, `end` moves forward to where a host is full.
  [[nodiscard]] std::vector<guest> take(rational const& at, rational& end) {
    constexpr int most_parts = 16;  // so that parts do not become tiny
    std::vector<guest> result;
    for (std::size_t i = 0; i < narrow_.size(); ++i) {
      if (narrow_[i].outside <= at) continue;
      auto const rank = [&](host const& h) {
        bool const is_free = std::ranges::find(result, h, &guest::host) == result.end();
        return std::pair(is_free, left_[h.server][h.rank]);
      };
      auto const& best = *std::ranges::max_element(hosts_[i], {}, rank);
      result.push_back({&narrow_[i], best});
      auto const& room = left_[best.server][best.rank];
      if (rounds_ && room * most_parts > end - at) end = std::min(end, at + room);
    }
    for (auto const& each : result) left_[each.host.server][each.host.rank] -= end - at;
    return result;
  }

 private:
  std::vector<narrow_rank> narrow_;
  std::vector<std::vector<host>> hosts_;     // by narrow rank
  std::vector<std::vector<rational>> left_;  // by server and rank: of the buffer, for narrow ranks
  bool rounds_;
};

}}}  // namespace blink::BLINK_ABI::detail
