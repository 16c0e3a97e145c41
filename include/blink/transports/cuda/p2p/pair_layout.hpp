// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/cuda/p2p/piece_call.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Options of sends and receives between ranks of different processes; the same in all processes.
struct pair_options {
  std::uint32_t ways = 1;  ///< connections from a rank to another, each with its own block
  std::size_t most_bytes =
      std::size_t{64}  /// of slots on a device; slots become smaller if there are more
      /// connections
      << 20;
};

/// The places of the connections between ranks of different processes: `ways` for each ordered
/// pair, on the device of the receiver. All processes compute the same layout.
class pair_layout {
 public:
  /// One end of a connection.
  struct end {
    int sender = 0;
    int receiver = 0;
    bool sends = false;
    bool is_first = false;  ///< of its pair
    std::size_t head = 0;   ///< in the memory of the receiver's place, in bytes
    std::size_t slots = 0;  ///< in the memory of the receiver's place, in bytes
  };

  /// slot_bytes: the largest size of a slot; the actual size is a multiple of 128
  /// Throws:     precondition_error if `wanted.ways` is out of range
  pair_layout(rank_placement const& where, pair_options const& wanted, std::uint32_t window,
              std::size_t slot_bytes)
      : ways_(wanted.ways), window_(window), ranks_(where.place_of.size()) {
    expects(wanted.ways >= 1 && wanted.ways <= 64,
            "pair_options: ways out of range, expected 1 to 64");
    auto const place_of = [&](std::size_t rank) {
      return static_cast<std::size_t>(where.place_of[rank]);
    };
    auto const for_pairs = [&](auto const& body) {
      for (std::size_t sender = 0; sender < ranks_; ++sender) {
        for (std::size_t receiver = 0; receiver < ranks_; ++receiver) {
          auto const from = place_of(sender), to = place_of(receiver);
          if (where.places[from].process != where.places[to].process) {
            body(sender, receiver, from, to);
          }
        }
      }
    };
    std::vector<std::size_t> connections(where.places.size(), 0);
    for_pairs([&](auto, auto, auto, std::size_t to) { connections[to] += ways_; });
    std::size_t const most =
        std::max<std::size_t>(1, *std::max_element(connections.begin(), connections.end()));
    std::size_t const share = std::min(slot_bytes, wanted.most_bytes / most / window_);
    slot_bytes_ = std::max(line, share / line * line);
    for (std::size_t const count : connections) {
      bytes_at_.push_back(count * (sizeof(pair_head) + window_ * stride()));
      head_bytes_at_.push_back(count * sizeof(pair_head));
    }

    ends_of_.resize(where.places.size());
    first_end_.resize(2 * ranks_ * ranks_, 0);
    std::vector<std::size_t> dealt(where.places.size(), 0);
    for_pairs([&](std::size_t sender, std::size_t receiver, std::size_t from, std::size_t to) {
      auto& there = ends_of_[from];
      auto& here = ends_of_[to];
      first_end_[number(sender, receiver, true)] = static_cast<std::uint32_t>(there.size());
      first_end_[number(sender, receiver, false)] = static_cast<std::uint32_t>(here.size());
      for (std::uint32_t way = 0; way < ways_; ++way) {
        std::size_t const connection = dealt[to]++;
        end one{static_cast<int>(sender),
                static_cast<int>(receiver),
                true,
                way == 0,
                connection * sizeof(pair_head),
                head_bytes_at_[to] + connection * window_ * stride()};
        there.push_back(one);
        one.sends = false;
        here.push_back(one);
      }
    });
  }

  /// Slots of a connection.
  [[nodiscard]] std::uint32_t window() const { return window_; }
  /// The largest size of a message.
  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }
  /// Distance between slots, with room for the word that `sized_peer_transport` announces.
  [[nodiscard]] std::size_t stride() const { return slot_bytes_ + line; }
  /// Bytes of counters and slots on a place.
  [[nodiscard]] std::size_t bytes_at(std::size_t place) const { return bytes_at_[place]; }
  /// Bytes of the counters alone, which come first.
  [[nodiscard]] std::size_t head_bytes_at(std::size_t place) const { return head_bytes_at_[place]; }
  /// The connection ends on a place, by number.
  [[nodiscard]] std::vector<end> const& ends_of(std::size_t place) const { return ends_of_[place]; }
  /// The number of the sender's first end on its place, or of the receiver's; the other ways
  /// follow.
  ///
  /// Pre: the ranks are of different processes.
  [[nodiscard]] std::uint32_t first_end(int sender, int receiver, bool sends) const {
    return first_end_[number(static_cast<std::size_t>(sender), static_cast<std::size_t>(receiver),
                             sends)];
  }
  /// Returns the bytes of a piece that go along each of its ways but the last. Long pieces use all
  /// ways.
  [[nodiscard]] std::size_t part_bytes(std::size_t whole) const {
    std::size_t const parts = std::clamp<std::size_t>(whole / least_part, 1, ways_);
    return (whole / parts + line) / line * line;
  }

 private:
  static constexpr std::size_t line = 128;
  static constexpr std::size_t least_part = std::size_t{1} << 16;

  [[nodiscard]] std::size_t number(std::size_t sender, std::size_t receiver, bool sends) const {
    return 2 * (sender * ranks_ + receiver) + (sends ? 1 : 0);
  }

  std::size_t ways_;
  std::uint32_t window_;
  std::size_t ranks_;
  std::size_t slot_bytes_ = line;
  std::vector<std::size_t> bytes_at_, head_bytes_at_;  // by place
  std::vector<std::vector<end>> ends_of_;              // by place
  std::vector<std::uint32_t> first_end_;
};

}}  // namespace blink::BLINK_ABI
