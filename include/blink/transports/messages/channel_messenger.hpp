// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/duration.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/detail/message_faults.hpp>
#include <blink/running/call/messenger.hpp>
#include <blink/transports/host/host_wait.hpp>
#include <blink/transports/messages/background_work.hpp>
#include <blink/transports/messages/message_channel.hpp>
#include <blink/transports/messages/message_frames.hpp>
#include <blink/transports/messages/message_pieces.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The messenger of a rank whose peers are reached by a channel.
///
/// A message begins with a frame (`message_frame`): source, tag, bytes, and the data if they are
/// few. Larger data follow in pieces (`outgoing_message`).
///
/// A send of pieces ends when the last one has left. The receiver asks for them once a receive
/// matches, or while it waits for another message. Both move while a thread of the rank tests or
/// waits here, and while it waits in a collective.
///
/// Only threads that may call the library use it; `release` lets the library be on others.
template <independent_channel Channel>
class channel_messenger final : public messenger, public detail::background_work {
 public:
  /// channel: of this object alone
  /// Collective over its ranks, as `eager_bytes` is.
  channel_messenger(Channel channel, wait_options const& limits)
      : channel_(std::move(channel)),
        limits_(limits),
        faults_(channel_.rank()),
        frames_(channel_),
        next_number_(static_cast<std::size_t>(channel_.rank_count())),
        has_left_(next_number_.size()),
        pieces_(detail::piece_bytes) {}

  [[nodiscard]] operation* start_send(int peer, int tag, void const* data,
                                      std::size_t bytes) override {
    expect_call();
    std::lock_guard const held(mutex_);
    detail::message_name const name{true, peer, tag};
    expect_intact(name);
    auto const* const first = static_cast<std::byte const*>(data);
    if (peer == rank()) {
      deliver({rank(), tag, bytes}, first);
      return nullptr;
    }
    move();
    if (is_unreachable(peer)) faults_.fail_lost(name, peer, name_of_rank(peer), has_left(peer));
    if (bytes <= frames_.room() && frames_.leaving() < most_leaving) {
      frames_.send(peer, {frame::content::whole, rank(), tag, 0, bytes}, first, bytes);
      move();
      return nullptr;
    }
    if (sends_.size() >= static_cast<std::size_t>(channel_.largest_tag())) {
      throw resource_error("start_send: " + std::to_string(sends_.size()) +
                           " large messages have not been received, expected fewer");
    }
    auto const number = next_number_[static_cast<std::size_t>(peer)]++;
    frames_.send(peer, {frame::content::begin, rank(), tag, number, bytes});
    auto& one = add_operation(others_);
    one.is_send = true;
    one.peer = peer;
    one.tag = tag;
    one.data = const_cast<std::byte*>(first);  // it is only read
    one.bytes = bytes;
    sends_.push_back({peer, number, first, bytes, &one});
    move();
    return &one;
  }
  [[nodiscard]] operation& start_receive(int source, int tag, void* data,
                                         std::size_t bytes) override {
    expect_call();
    std::lock_guard const held(mutex_);
    expect_intact({false, source, tag});
    auto& one = add_operation(waiting_);
    one.peer = source;
    one.tag = tag;
    one.data = static_cast<std::byte*>(data);
    one.bytes = bytes;
    for (auto& message : arrivals_) {
      if (!message.is_unmatched() || !fits(one, message.what)) continue;
      match(one, message);
      break;
    }
    move();
    return one;
  }
  [[nodiscard]] bool test(operation& one) override {
    expect_call();
    std::lock_guard const held(mutex_);
    return has_ended(one);
  }
  void wait(operation& one, nanoseconds longest) override {
    expect_call();
    auto const deadline = static_cast<std::uint64_t>(
        longest.count() > 0 ? longest.count() : limits_.deadline.count());
    std::uint64_t since = 0;
    std::size_t moved = 0;
    for (int turn = 1;; ++turn) {
      {
        std::lock_guard const held(mutex_);
        if (turn > limits_.spins) take_in();
        if (has_ended(one)) return;
        if (std::exchange(moved, one.moved) != one.moved) turn = 1;
        if (turn > limits_.spins + 1 && host_wait::now() - since > deadline) {
          fail_timed_out(static_cast<listed&>(one), host_wait::now() - since);
        }
      }
      if (turn <= limits_.spins) continue;  // a step of the library takes longer than a pause
      auto const now = host_wait::now();
      if (turn == limits_.spins + 1) since = now;
      std::chrono::nanoseconds const waited(now - since);
      if (turn - limits_.spins <= limits_.yields || waited < shortest_yielding) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(waited / 8, limits_.sleep));
      }
    }
  }
  void release(operation& one) noexcept override {
    std::lock_guard const held(mutex_);
    for (auto& message : sends_) {
      if (message.of == &one) give_up(message);
    }
    for (auto& message : arrivals_) {
      if (message.of == &one) message.drop();
    }
    auto& mine = static_cast<listed&>(one);
    auto& list = mine.is_waiting_receive() ? waiting_ : others_;
    unused_.splice(unused_.end(), list, mine.self);
  }

  /// Moves messages, if there are any and no other thread does.
  void advance() noexcept override {
    if (!has_work_.load(std::memory_order_relaxed)) return;
    std::unique_lock const held(mutex_, std::try_to_lock);
    if (!held.owns_lock()) return;
    try {
      move();
    } catch (std::bad_alloc const&) {  // the thread that waits for the message meets it again
    }
  }
  /// Ends all operations, here and at the peers, because the communicator has failed.
  void fail(collective_error const& cause) {
    std::lock_guard const held(mutex_);
    if (failure_) return;
    failure_ = cause;
    std::string_view const text = cause.what();
    auto const bytes = std::min(text.size(), frames_.room());
    for (int peer = 0; peer < channel_.rank_count(); ++peer) {
      if (peer == rank() || is_unreachable(peer)) continue;
      frames_.send(peer, {frame::content::failed, cause.rank, cause.peer, 0, bytes}, text.data(),
                   bytes);
    }
  }
  /// Announces that this rank sends nothing more, and drops what it has not received. Returns true
  /// once all peers have done so. Call it repeatedly.
  [[nodiscard]] bool try_end() {
    std::lock_guard const held(mutex_);
    for (int peer = 0; !is_leaving_ && peer < channel_.rank_count(); ++peer) {
      if (peer == rank() || is_lost(peer)) continue;
      frames_.send(peer, {frame::content::goodbye, rank(), 0, 0, 0});
    }
    is_leaving_ = true;
    for (auto& message : arrivals_) message.drop();
    move();
    bool all_have_left = true;
    for (int peer = 0; peer < channel_.rank_count(); ++peer) {
      all_have_left = all_have_left && (peer == rank() || is_unreachable(peer));
    }
    return !channel_.is_intact() ||
           (all_have_left && frames_.leaving() == 0 && sends_.empty() && arrivals_.empty());
  }
  /// Pre: try_end() has returned true.
  void close() { frames_.close(); }
  /// False after an error of the library. Then its memory stays in use.
  [[nodiscard]] bool is_intact() const { return channel_.is_intact(); }

 private:
  using frame = detail::message_frame;
  static constexpr std::size_t most_leaving = 1024;  // frames; then sends wait
  static constexpr std::chrono::milliseconds shortest_yielding{1};

  using outgoing = detail::outgoing_message<Channel>;
  using incoming = detail::incoming_message<Channel>;
  struct listed : operation {
    typename std::list<listed>::iterator self;
    [[nodiscard]] bool is_waiting_receive() const {
      return !this->is_send && this->at == operation::state::waiting;
    }
  };
  using state = operation::state;

  // Throws: precondition_error if the library does not take calls of this thread, or has ended.
  void expect_call() const {
    if constexpr (library_channel<Channel>) channel_.expect_call();
  }
  [[nodiscard]] int rank() const { return channel_.rank(); }
  [[nodiscard]] bool is_lost(int peer) const { return detail::is_lost_on(channel_, peer); }
  [[nodiscard]] bool has_left(int peer) const { return has_left_[static_cast<std::size_t>(peer)]; }
  [[nodiscard]] bool is_unreachable(int peer) const { return has_left(peer) || is_lost(peer); }
  [[nodiscard]] static bool fits(operation const& one, received_message const& message) {
    return (one.peer == any_source || one.peer == message.source) &&
           (one.tag == any_tag || one.tag == message.tag);
  }
  [[nodiscard]] listed& add_operation(std::list<listed>& to) {
    if (unused_.empty()) unused_.emplace_back();
    auto const one = unused_.begin();
    to.splice(to.end(), unused_, one);
    *one = {};
    one->self = one;
    return *one;
  }

  // --- one step of everything ---

  void move() {
    frames_.move([&](frame const& head, std::byte const* data) { take(head, data); });
    std::erase_if(sends_, [&](outgoing& one) { return one.move(channel_, pieces_); });
    std::erase_if(arrivals_, [&](incoming& one) { return one.move(channel_, pieces_); });
    bool has_work = !sends_.empty() || frames_.leaving() > 0;
    for (auto const& one : arrivals_) has_work = has_work || !one.is_unmatched();
    has_work_.store(has_work, std::memory_order_relaxed);
  }

  // --- what peers say ---

  void take(frame const& head, std::byte const* data) {
    received_message const what{head.source, head.tag, head.bytes};
    switch (head.what) {
      case frame::content::whole:
        return deliver(what, data);
      case frame::content::begin: {
        auto& message = arrivals_.emplace_back();
        message.what = what;
        message.number = head.number;
        message.coming = head.bytes;
        if (is_leaving_) return message.drop();
        return match_first(message);
      }
      case frame::content::withdrawn:
        return withdraw(head);
      case frame::content::failed:
        if (failure_) return;
        failure_ = collective_error({reinterpret_cast<char const*>(data), head.bytes}, head.source,
                                    head.tag, -1, -1);
        return;
      case frame::content::goodbye:
        has_left_[static_cast<std::size_t>(head.source)] = true;
        return;
    }
  }
  // A message whose data are here.
  void deliver(received_message const& what, std::byte const* data) {
    if (is_leaving_) return;
    auto& message = arrivals_.emplace_back();
    message.what = what;
    message.coming = message.asked = message.arrived = what.bytes;
    message.is_kept = true;
    message.kept.assign(data, data + what.bytes);
    match_first(message);
  }
  void match_first(incoming& message) {
    for (auto& one : waiting_) {
      if (fits(one, message.what)) return match(one, message);
    }
  }
  void withdraw(frame const& head) {
    for (auto& message : arrivals_) {
      if (message.what.source != head.source || message.number != head.number ||
          message.coming == message.arrived) {
        continue;
      }
      message.coming = head.bytes;
      if (message.is_unmatched() && head.bytes == 0) message.drop();
      return;
    }
  }
  void match(listed& one, incoming& message) {
    message.match(one);
    others_.splice(others_.end(), waiting_, one.self);
  }
  // Receives what no receive has asked for, so that its senders can go on.
  void take_in() {
    for (auto& message : arrivals_) {
      if (!message.is_unmatched() || message.is_kept) continue;
      message.keep();
    }
  }
  void give_up(outgoing& message) noexcept {
    message.of = nullptr;
    if (std::exchange(message.bytes, message.begun) == message.begun) return;
    try {
      expect_call();
      frames_.send(message.peer,
                   {frame::content::withdrawn, rank(), 0, message.number, message.begun});
    } catch (std::exception const&) {  // the receiver's time will be over
    }
  }

  // --- the ends of operations ---

  // Throws what ends the operation otherwise.
  [[nodiscard]] bool has_ended(operation& one) {
    move();
    if (one.has_ended()) {
      if (one.at != state::done) faults_.fail_ended(one, name_of_rank(one.got.source));
      return true;
    }
    expect_intact(detail::name_of(one));
    int const lost = lost_peer(one);
    if (lost < 0) return false;
    move();  // it had sent all before
    if (one.at == state::done) return true;
    if (one.has_ended()) faults_.fail_ended(one, name_of_rank(one.got.source));
    faults_.fail_lost(detail::name_of(one), lost, name_of_rank(lost), has_left(lost));
  }
  // The rank because of which an operation cannot end; -1: there is none.
  [[nodiscard]] int lost_peer(operation const& one) const {
    if (one.at == state::matched) return is_lost(one.got.source) ? one.got.source : -1;
    if (one.is_send) return is_lost(one.peer) ? one.peer : -1;  // one that leaves takes what comes
    if (one.peer >= 0) return one.peer != rank() && is_unreachable(one.peer) ? one.peer : -1;
    // From any source: one that died, or any if all others have left.
    int left = -1;
    bool all_have_left = true;
    for (int peer = 0; peer < channel_.rank_count(); ++peer) {
      if (peer == rank()) continue;
      if (!has_left(peer) && is_lost(peer)) return peer;
      all_have_left = all_have_left && has_left(peer);
      left = peer;
    }
    return all_have_left ? left : -1;
  }
  void expect_intact(detail::message_name const& name) {
    if (!failure_ && !channel_.is_intact()) {
      failure_ = collective_error(channel_.problem(), rank(), -1, -1, -1);
    }
    if (failure_) faults_.fail_with_communicator(name, *failure_);
  }
  [[nodiscard]] static std::string name_of_rank(int rank) { return "rank " + std::to_string(rank); }
  [[noreturn]] BLINK_COLD void fail_timed_out(listed const& one, std::uint64_t waited) const {
    std::size_t unasked = 0;
    received_message first;
    for (auto const& message : arrivals_) {
      if (!message.is_unmatched()) continue;
      if (unasked++ == 0) first = message.what;
    }
    int const peer = one.is_waiting_receive() || one.is_send ? one.peer : one.got.source;
    faults_.fail_timed_out(one, peer, name_of_rank(peer), one.moved, waited,
                           one.is_send ? "" : detail::message_faults::unasked(unasked, first));
  }

  std::mutex mutex_;
  Channel channel_;
  wait_options limits_;
  detail::message_faults faults_;
  detail::message_frames<Channel> frames_;
  std::vector<std::uint32_t> next_number_;  // by peer, of the next message in pieces
  std::vector<bool> has_left_;              // by peer
  std::list<listed> waiting_, others_, unused_;
  std::list<outgoing> sends_;
  std::list<incoming> arrivals_;  // in their order
  detail::packet_store<Channel> pieces_;
  std::optional<collective_error> failure_;
  bool is_leaving_ = false;
  std::atomic<bool> has_work_ = false;
};

}}  // namespace blink::BLINK_ABI
