// SPDX-License-Identifier: Apache-2.0
#pragma once

// A channel of threads whose messages leave after their sender has tested some operations, as a
// library's large messages do.

#include <blink/running/call/communicator_options.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include "thread_channel.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace blink_test {

class lazy_channel {
 public:
  static constexpr char const* name = "late messages of threads";
  static constexpr char const* communicator_name = "lazy_communicator";
  [[nodiscard]] static blink::communicator_options default_options() { return {}; }

  /// A pending request stays at its address.
  struct request {
    thread_channel::request operation{};
    void const* from = nullptr;
    std::size_t bytes = 0;
    int peer = -1, tag = -1;
    bool is_queued = false;
    [[nodiscard]] bool is_pending() const { return is_queued || operation.is_pending(); }
  };

  lazy_channel(thread_network& network, int rank) : channel_(network, rank) {}

  [[nodiscard]] int rank() const { return channel_.rank(); }
  [[nodiscard]] int rank_count() const { return channel_.rank_count(); }
  [[nodiscard]] int largest_tag() const { return channel_.largest_tag(); }
  [[nodiscard]] std::uint64_t host() const { return channel_.host(); }
  [[nodiscard]] bool is_intact() const { return channel_.is_intact(); }
  [[nodiscard]] std::string const& problem() const { return channel_.problem(); }
  [[nodiscard]] std::size_t eager_bytes() const { return channel_.eager_bytes(); }

  void send(void const* from, std::size_t bytes, int peer, int tag, request& one) {
    one = {{}, from, bytes, peer, tag, true};
    late_->push_back({channel_, &one, tests_before});
  }
  void receive(void* to, std::size_t bytes, int peer, int tag, request& one) {
    one = {};
    channel_.receive(to, bytes, peer, tag, one.operation);
  }
  void receive_from_any(void* to, std::size_t bytes, int tag, request& one) {
    one = {};
    channel_.receive_from_any(to, bytes, tag, one.operation);
  }
  [[nodiscard]] bool is_done(request& one) {
    std::erase_if(*late_, [](late_send& each) {
      if (--each.tests > 0) return false;
      auto& late = *each.sent;
      late.is_queued = false;
      each.channel.send(late.from, late.bytes, late.peer, late.tag, late.operation);
      return true;
    });
    if (one.is_queued) return false;
    return channel_.is_done(one.operation);
  }
  void cancel(request& one) { channel_.cancel(one.operation); }
  void drop_unmatched(int kept) { channel_.drop_unmatched(kept); }
  [[nodiscard]] lazy_channel duplicate() { return lazy_channel(channel_.duplicate(), late_); }
  [[nodiscard]] lazy_channel among(std::vector<int> const& members) {
    return lazy_channel(channel_.among(members), late_);
  }

 private:
  static constexpr int tests_before = 40;
  struct late_send {
    thread_channel channel;
    request* sent;
    int tests;  // until it leaves
  };
  using late_sends = std::vector<late_send>;

  lazy_channel(thread_channel channel, std::shared_ptr<late_sends> late)
      : channel_(std::move(channel)), late_(std::move(late)) {}

  thread_channel channel_;
  std::shared_ptr<late_sends> late_ = std::make_shared<late_sends>();  // of the rank
};
static_assert(blink::message_channel<lazy_channel>);

}  // namespace blink_test
