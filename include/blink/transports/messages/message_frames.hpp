// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/messages/message_channel.hpp>
#include <blink/transports/messages/message_pieces.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The beginning of a message between two ranks, and what else a rank says about its messages.
struct message_frame {
  enum class content : std::uint32_t { whole, begin, withdrawn, failed, goodbye };
  content what = content::goodbye;
  std::int32_t source = -1;  ///< of a failure, its rank
  std::int32_t tag = -1;     ///< of a failure, its peer
  std::uint32_t number = 0;  ///< of messages in pieces from the source to this rank
  std::uint64_t bytes = 0;   ///< of the message, or those that were sent before it was given up
};

/// The frames of one rank, with the data that follow each, as messages with one tag of a channel.
template <message_channel Channel>
class message_frames {
 public:
  /// Collective over the ranks of the channel, which outlives this object.
  explicit message_frames(Channel& channel)
      : channel_(&channel),
        heard_(std::max(std::min(channel.eager_bytes(), largest), sizeof(message_frame))),
        unused_(heard_.size()) {
    listen();
  }

  /// The most bytes of data in a frame.
  [[nodiscard]] std::size_t room() const { return heard_.size() - sizeof(message_frame); }
  /// The number of frames that have not left.
  [[nodiscard]] std::size_t leaving() const { return leaving_.size(); }

  /// Pre: bytes <= room(). The data are copied.
  void send(int peer, message_frame const& head, void const* data = nullptr,
            std::size_t bytes = 0) {
    leaving_.push_back(unused_.take());
    auto& sent = *leaving_.back();
    std::memcpy(sent.memory.data(), &head, sizeof head);
    if (bytes > 0) std::memcpy(sent.memory.data() + sizeof head, data, bytes);
    channel_->send(sent.memory.data(), sizeof head + bytes, peer, frame_tag, sent.operation);
  }
  /// Calls `take(head, data)` for each frame that has arrived, in the order of each sender.
  template <class Take>
  void move(Take const& take) {
    while (channel_->is_intact() && listening_.is_pending() && channel_->is_done(listening_)) {
      message_frame head;
      std::memcpy(&head, heard_.data(), sizeof head);
      take(head, heard_.data() + sizeof head);
      listen();
    }
    std::erase_if(leaving_, [&](auto& one) {
      if (!channel_->is_done(one->operation)) return false;
      unused_.put_back(std::move(one));
      return true;
    });
  }
  /// Receives no more.
  void close() { take_back(*channel_, listening_); }

 private:
  static constexpr std::size_t largest = 8192;

  void listen() { channel_->receive_from_any(heard_.data(), heard_.size(), frame_tag, listening_); }

  Channel* channel_;
  std::vector<std::byte> heard_;  // the frame that is received next
  typename Channel::request listening_{};
  channel_packets<Channel> leaving_;
  packet_store<Channel> unused_;
};

}}}  // namespace blink::BLINK_ABI::detail
