// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/messenger.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

// The data of large messages over a channel: pieces under a tag of the channel that the message has
// for itself. Each piece leaves from memory of its own and arrives in such memory. So buffers of
// operations that were given up are the caller's at once, whatever the library still does.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// One message of a channel, and its memory.
template <message_channel Channel>
struct channel_packet {
  std::vector<std::byte> memory;
  typename Channel::request operation{};
  std::size_t first = 0, bytes = 0;  ///< of a piece, within its message
  bool is_cancelled = false;
};
template <message_channel Channel>
using channel_packets = std::vector<std::unique_ptr<channel_packet<Channel>>>;

/// Packets of one size that are not in use.
template <message_channel Channel>
class packet_store {
 public:
  explicit packet_store(std::size_t bytes) : bytes_(bytes) {}

  [[nodiscard]] std::unique_ptr<channel_packet<Channel>> take() {
    if (unused_.empty()) {
      auto result = std::make_unique<channel_packet<Channel>>();
      result->memory.resize(bytes_);
      return result;
    }
    auto result = std::move(unused_.back());
    unused_.pop_back();
    result->is_cancelled = false;
    return result;
  }
  void put_back(std::unique_ptr<channel_packet<Channel>> one) {
    constexpr std::size_t most = 16;
    if (unused_.size() < most) unused_.push_back(std::move(one));
  }

 private:
  std::size_t bytes_;
  channel_packets<Channel> unused_;
};

inline constexpr std::size_t piece_bytes = std::size_t{1} << 18;
inline constexpr std::size_t pieces_at_once = 4;  // of a message

inline constexpr int frame_tag = 0;
/// The tag of the pieces of a message, which frames never have.
///
/// number: of messages in pieces from one rank to another
template <message_channel Channel>
[[nodiscard]] int piece_tag(Channel const& channel, std::uint32_t number) {
  return 1 + static_cast<int>(number % static_cast<std::uint32_t>(channel.largest_tag()));
}

/// A message that leaves in pieces.
template <message_channel Channel>
struct outgoing_message {
  int peer;
  std::uint32_t number;
  std::byte const* data;
  std::size_t bytes;
  message_operation* of;  ///< null: it was given up, and only what has left belongs to it
  std::size_t begun = 0;  ///< bytes that have become pieces
  channel_packets<Channel> pieces{};  ///< on their way

  /// Moves what can be moved. Returns true if the message is over.
  [[nodiscard]] bool move(Channel& channel, packet_store<Channel>& store) {
    std::erase_if(pieces, [&](auto& piece) {
      if (!channel.is_done(piece->operation)) return false;
      if (of != nullptr) of->moved += piece->bytes;
      store.put_back(std::move(piece));
      return true;
    });
    if (is_lost_on(channel, peer)) return of == nullptr && pieces.empty();  // a test reports it
    while (begun < bytes && pieces.size() < pieces_at_once) {
      pieces.push_back(store.take());
      auto& piece = *pieces.back();
      piece.bytes = std::min(piece_bytes, bytes - begun);
      std::memcpy(piece.memory.data(), data + begun, piece.bytes);
      begun += piece.bytes;
      channel.send(piece.memory.data(), piece.bytes, peer, piece_tag(channel, number),
                   piece.operation);
    }
    if (!pieces.empty() || begun < bytes) return false;
    if (of != nullptr) of->at = message_operation::state::done;
    return true;
  }
};

/// A message that has begun to arrive, or has arrived without a receive.
template <message_channel Channel>
struct incoming_message {
  received_message what{};
  std::uint32_t number = 0;
  std::size_t coming = 0;              ///< bytes; fewer than the message's if it was given up
  std::size_t asked = 0, arrived = 0;  ///< bytes
  message_operation* of = nullptr;
  bool is_kept = false;     ///< in `kept`, until a receive matches
  bool is_dropped = false;  ///< the rest arrives, and is forgotten
  bool is_cut_off = false;  ///< the sender is lost
  std::vector<std::byte> kept{};
  channel_packets<Channel> pieces{};  ///< asked for, in their order

  [[nodiscard]] bool is_unmatched() const { return of == nullptr && !is_dropped; }
  /// Receives it without a receive.
  void keep() {
    kept.resize(what.bytes);
    is_kept = true;
  }
  void drop() {
    of = nullptr;
    is_dropped = true;
    is_kept = false;
    kept = {};
  }
  /// Lets it arrive in the buffer of a receive, unless it is too long: then it is dropped.
  void match(message_operation& one) {
    one.got = what;
    if (what.bytes > one.bytes) {
      one.at = message_operation::state::too_long;
      return drop();
    }
    one.at = message_operation::state::matched;
    if (arrived > 0) std::memcpy(one.data, kept.data(), arrived);
    one.moved = arrived;
    kept = {};
    is_kept = false;
    of = &one;
  }
  /// Moves what can be moved. Returns true if the message is over.
  [[nodiscard]] bool move(Channel& channel, packet_store<Channel>& store) {
    while (!pieces.empty() && channel.is_done(pieces.front()->operation)) {
      auto piece = std::move(pieces.front());
      pieces.erase(pieces.begin());
      if (!piece->is_cancelled) take(*piece);
      store.put_back(std::move(piece));
    }
    is_cut_off = is_cut_off || (arrived < coming && is_lost_on(channel, what.source));
    for (auto& piece : pieces) {
      if (piece->is_cancelled || (!is_cut_off && piece->first < coming)) continue;
      piece->is_cancelled = true;
      channel.cancel(piece->operation);
    }
    bool const is_wanted = of != nullptr || is_kept || is_dropped;
    while (is_wanted && !is_cut_off && asked < coming && pieces.size() < pieces_at_once) {
      ask(channel, store);
    }
    if (!pieces.empty()) return false;
    if (is_cut_off) return of == nullptr;  // else a test reports it
    if (arrived < coming) return false;
    if (of == nullptr) return is_dropped;
    of->at =
        coming == what.bytes ? message_operation::state::done : message_operation::state::withdrawn;
    return true;
  }

 private:
  void ask(Channel& channel, packet_store<Channel>& store) {
    pieces.push_back(store.take());
    auto& piece = *pieces.back();
    piece.first = asked;
    piece.bytes = std::min(piece_bytes, what.bytes - asked);
    asked += piece.bytes;
    channel.receive(piece.memory.data(), piece.bytes, what.source, piece_tag(channel, number),
                    piece.operation);
  }
  void take(channel_packet<Channel> const& piece) {
    arrived += piece.bytes;
    auto* const to = of != nullptr ? of->data : is_kept ? kept.data() : nullptr;
    if (to != nullptr) std::memcpy(to + piece.first, piece.memory.data(), piece.bytes);
    if (of != nullptr) of->moved = arrived;
  }
};

}}}  // namespace blink::BLINK_ABI::detail
