// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/duration.hpp>
#include <blink/core/error.hpp>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// A receive with this source takes a message from any rank.
inline constexpr int any_source = -1;
/// A receive with this tag takes a message with any tag.
inline constexpr int any_tag = -1;

/// The message that a receive got.
struct received_message {
  int source = -1;
  int tag = -1;
  std::size_t bytes = 0;  ///< at most those of the buffer
};

/// A send or a receive that could not end. The communicator goes on: other sends, receives and
/// collectives are not concerned.
struct message_error : error {
  enum class cause : std::uint8_t {
    timed_out,  ///< the operation made no progress for its time
    peer_lost,  ///< the peer died, or left without its part
    too_long,   ///< the message has more bytes than the receiver's buffer, and is dropped
    withdrawn,  ///< the sender gave the message up after a part of it
  };

  message_error(std::string const& text, cause its_cause, int its_rank, int its_peer, int its_tag)
      : error(text), why(its_cause), rank(its_rank), peer(its_peer), tag(its_tag) {}

  cause why;
  int rank;  ///< the rank of the operation
  int peer;  ///< the rank that it waited for; -1: any source
  int tag;   ///< -1: any tag
};

namespace detail {

/// One send or receive between its start and its end. It belongs to a messenger.
struct message_operation {
  enum class state : std::uint8_t {
    waiting,    ///< a receive without a message so far; a send
    matched,    ///< a receive whose message comes
    done,       ///< all bytes are where they belong
    too_long,   ///< see `message_error`
    withdrawn,  ///< see `message_error`
  };

  bool is_send = false;
  state at = state::waiting;
  int peer = -1;  ///< or `any_source`
  int tag = -1;   ///< or `any_tag`
  std::byte* data = nullptr;
  std::size_t bytes = 0;     ///< of the message sent, or of the buffer
  std::size_t moved = 0;     ///< bytes so far
  received_message got{};    ///< of a receive that is no longer waiting
  std::uint64_t looked = 0;  ///< nanoseconds: when a test last looked for lost peers
  int next_looked = 0;       ///< the peer to look at next

  [[nodiscard]] bool has_ended() const { return at >= state::done; }
};

}  // namespace detail

/// One rank's sends and receives: the part of `point_to_point.hpp` that depends on how bytes reach
/// a peer. Its functions are virtual so that they are compiled where ranks are made.
///
/// Semantics beyond the syntax:
/// - Arguments are valid: ranks are in range, tags of sends are not negative, buffers are not null
///   unless they are empty.
/// - Messages from one rank match receives in the order in which they were sent. Of several
///   receives that match a message, the one that was started first gets it.
/// - Any thread may use it at any time, unless a library below takes calls of some threads only.
///   One thread at a time uses an operation.
/// - No function waits for a peer except `wait`.
class messenger {
 public:
  using operation = detail::message_operation;

  /// Starts a send. Null: it has ended already.
  ///
  /// Throws: as `test`. An operation exists until `release`.
  [[nodiscard]] virtual operation* start_send(int peer, int tag, void const* data,
                                              std::size_t bytes) = 0;
  [[nodiscard]] virtual operation& start_receive(int source, int tag, void* data,
                                                 std::size_t bytes) = 0;
  /// Moves what can be moved, and returns true if the operation is done.
  ///
  /// Throws: message_error if it failed or its peer is lost; collective_error if the communicator
  ///         has failed; resource_error if there is no memory for messages.
  [[nodiscard]] virtual bool test(operation& one) = 0;
  /// Returns when the operation is done.
  ///
  /// longest: the longest time without progress; 0: the communicator's deadline
  /// Throws:  as `test`; message_error if the time is over.
  virtual void wait(operation& one, nanoseconds longest) = 0;
  /// Ends an operation. One that is not done is withdrawn: its memory is the caller's again.
  virtual void release(operation& one) noexcept = 0;

  virtual ~messenger() = default;

 protected:
  messenger() = default;
  messenger(messenger const&) = delete;
  messenger& operator=(messenger const&) = delete;
};

namespace detail {

/// The messengers of the ranks of one process. Any thread may use it.
class messengers {
 public:
  [[nodiscard]] virtual messenger& of(int rank) = 0;
  virtual ~messengers() = default;
};

/// An object that is made when first used. Any thread may use it.
template <class T>
class made_when_used {
 public:
  made_when_used() = default;
  made_when_used(made_when_used const&) = delete;
  made_when_used& operator=(made_when_used const&) = delete;
  ~made_when_used() { delete made_.load(); }

  /// make: () -> T*, of `new`
  template <class Make>
  [[nodiscard]] T& get(Make const& make) {
    if (auto* const known = made_.load(std::memory_order_acquire)) return *known;
    host_mutex::hold const held(mutex_);
    if (made_.load(std::memory_order_relaxed) == nullptr) {
      made_.store(make(), std::memory_order_release);
    }
    return *made_.load(std::memory_order_relaxed);
  }

 private:
  host_mutex mutex_;
  std::atomic<T*> made_ = nullptr;
};

/// Programs without messengers do not compile them.
using lazy_messengers = made_when_used<messengers>;

}  // namespace detail

/// A communicator with sends and receives that concern two ranks only. `messages()` is this rank's
/// messenger; any thread of the rank may ask for it. It ends with the communicator.
template <class S>
concept messaging_communicator = requires(S& comm) {
  { comm.rank() } -> std::same_as<int>;
  { comm.rank_count() } -> std::same_as<int>;
  { comm.messages() } -> std::same_as<messenger&>;
};
BLINK_MODELS(!messaging_communicator<int>);

}}  // namespace blink::BLINK_ABI
