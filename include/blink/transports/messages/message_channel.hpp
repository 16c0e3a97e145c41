// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/communicator_options.hpp>

#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Default options of communicators over messages: large chunks.
///
/// A large message of a library begins with a handshake. With zero copy within a host only the
/// receiver copies it, so a pipeline gains nothing.
[[nodiscard]] inline communicator_options message_options() {
  communicator_options result;
  result.slot_bytes = std::size_t{4} << 20;
  result.costs.chunk_seconds = 1e-4;
  return result;
}

/// One operation of a `message_channel`. The default value is no operation. `is_pending()` is true
/// from the start of an operation until `is_done` has returned true for it.
template <class R>
concept message_request = std::semiregular<R> && requires(R const& request) {
  { request.is_pending() } -> std::same_as<bool>;
};

/// One rank's messages to the ranks of its group: the part of a transport over messages that
/// depends on a library or a network. `basic_message_communicator` builds all else on it.
///
/// Names:
/// - `name` is the transport's name in tuning tables. `communicator_name` begins the errors of the
///   communicator.
/// - `default_options()` are the options of a communicator that is made without any.
/// - `host()` is equal on ranks that can share memory, such as `host_id()` for processes.
///
/// Operations. They neither wait nor throw:
/// - `send` and `receive` start one message of `bytes` bytes. Its memory belongs to the channel
///   until the request is done. A receive has room for at least the message.
/// - `receive_from_any` takes the next message with the tag from any rank.
/// - Messages from one rank with one tag match receives in the order in which they were sent. Tags
///   are 0 to `largest_tag()`.
/// - `is_done(request)` is true if the operation has ended, or if there is none. A send that is
///   done means that its memory is free, not that the message has arrived. A test of any pending
///   operation also advances all others.
/// - `cancel(request)` lets a receive end soon, with or without a message.
/// - `drop_unmatched(kept)` receives and drops what has arrived and matches no receive, except
///   messages with the tag `kept`. The tag `no_tag` keeps none.
/// - The first error of the library breaks the channel: `is_intact()` becomes false and `problem()`
///   is the cause. Afterwards operations do nothing, and no pending one is done.
///
/// Collective members, which may wait for peers and may throw `error`:
/// - `duplicate()` is a channel of the same ranks whose messages are separate.
/// - `among(members)` is such a channel of some ranks, numbered in that order. Only they call it.
/// - `eager_bytes()` is the largest message that leaves before a receive is posted, equal on all
///   ranks. It is called before any other message of the channel.
///
/// Optional: `yield()` replaces `std::this_thread::yield()` while ranks make a communicator and
/// wait for each other.
///
/// One thread uses a channel at a time. A channel with a message in flight is never destroyed.
template <class C>
concept message_channel =
    std::is_nothrow_move_constructible_v<C> && message_request<typename C::request> &&
    requires(C& channel, C const& known, typename C::request& request, void const* from, void* to,
             std::size_t bytes, int peer, int tag, std::vector<int> const& members) {
      { C::name } -> std::convertible_to<char const*>;
      { C::communicator_name } -> std::convertible_to<char const*>;
      { C::default_options() } -> std::same_as<communicator_options>;
      { known.rank() } -> std::same_as<int>;
      { known.rank_count() } -> std::same_as<int>;
      { known.largest_tag() } -> std::same_as<int>;
      { known.host() } -> std::same_as<std::uint64_t>;
      { known.is_intact() } -> std::same_as<bool>;
      { known.problem() } -> std::same_as<std::string const&>;
      { channel.send(from, bytes, peer, tag, request) } -> std::same_as<void>;
      { channel.receive(to, bytes, peer, tag, request) } -> std::same_as<void>;
      { channel.receive_from_any(to, bytes, tag, request) } -> std::same_as<void>;
      { channel.is_done(request) } -> std::same_as<bool>;
      { channel.cancel(request) } -> std::same_as<void>;
      { channel.drop_unmatched(tag) } -> std::same_as<void>;
      { channel.duplicate() } -> std::same_as<C>;
      { channel.among(members) } -> std::same_as<C>;
      { channel.eager_bytes() } -> std::same_as<std::size_t>;
    };
BLINK_MODELS(!message_channel<int>);

/// A channel that outlives the loss of a peer.
///
/// Semantics beyond the syntax:
/// - `is_lost(peer)` is true from the time at which the connection to the peer is known to have
///   ended. Messages that arrived earlier are still received.
/// - A send to a lost peer is done. A receive from one is not done until it is cancelled.
/// - `abandon(peer)` ends the connection to a peer that may still live. The peer is lost, and no
///   message of it or to it touches memory afterwards. It applies to all channels of the ranks.
template <class C>
concept loss_tolerant_channel =
    message_channel<C> && requires(C& channel, C const& known, int peer) {
      { known.is_lost(peer) } -> std::same_as<bool>;
      { channel.abandon(peer) } -> std::same_as<void>;
    };

/// A channel with duplicates that different threads may use at the same time, each of them one. The
/// library of a `library_channel` may restrict that to some threads, or to one at a time.
template <class C>
concept independent_channel = message_channel<C> && requires { requires C::is_independent; };

/// A channel of a library that the program starts and ends, and that only some threads may call.
///
/// Semantics beyond the syntax:
/// - `runs()` is true while the library may be called.
/// - `expect_running()` throws precondition_error otherwise.
/// - `expect_call()` throws it also for a thread that may not call. It is cheap, because each call
///   uses it.
/// - `expect_any_thread()` throws it unless any thread may call at any time.
template <class C>
concept library_channel = message_channel<C> && requires(C const& channel) {
  { C::runs() } -> std::same_as<bool>;
  { channel.expect_running() } -> std::same_as<void>;
  { channel.expect_call() } -> std::same_as<void>;
  { channel.expect_any_thread() } -> std::same_as<void>;
};

namespace detail {

/// The tag that no message has.
inline constexpr int no_tag = -1;

/// True if the channel knows that the connection to another rank has ended.
template <message_channel Channel>
[[nodiscard]] bool is_lost_on([[maybe_unused]] Channel const& channel, [[maybe_unused]] int peer) {
  if constexpr (loss_tolerant_channel<Channel>) {
    return peer != channel.rank() && channel.is_lost(peer);
  } else {
    return false;
  }
}

/// Cancels a receive that no message will match, and waits for its end.
template <message_channel Channel>
void take_back(Channel& channel, typename Channel::request& request) {
  channel.cancel(request);
  while (channel.is_intact() && !channel.is_done(request)) {
  }
}

/// Returns an error text of the communicator over such a channel.
template <message_channel Channel>
[[nodiscard]] BLINK_COLD std::string communicator_text(std::string const& fact) {
  return std::string(Channel::communicator_name) + ": " + fact;
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
