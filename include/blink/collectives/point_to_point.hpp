// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/duration.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/messenger.hpp>

#include <cstddef>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// A started send or receive, released at the end.
class held_operation {
 public:
  held_operation() = default;
  held_operation(messenger& its, message_operation& operation)
      : messenger_(&its), operation_(&operation) {}
  held_operation(held_operation&& other) noexcept
      : messenger_(other.messenger_), operation_(std::exchange(other.operation_, nullptr)) {}
  held_operation& operator=(held_operation&& other) noexcept {
    std::swap(messenger_, other.messenger_);
    std::swap(operation_, other.operation_);
    return *this;
  }
  ~held_operation() { release(); }

  [[nodiscard]] bool is_there() const { return operation_ != nullptr; }
  [[nodiscard]] message_operation const& operator*() const { return *operation_; }

  // An operation that failed ends at once, so that its memory is the caller's before the caller
  // handles the error.

  [[nodiscard]] bool test() {
    held_operation failed(std::move(*this));
    bool const is_done = failed.messenger_->test(*failed.operation_);
    *this = std::move(failed);
    return is_done;
  }
  void wait(nanoseconds longest) {
    held_operation failed(std::move(*this));
    failed.messenger_->wait(*failed.operation_, longest);
    *this = std::move(failed);
  }
  void release() noexcept {
    if (operation_ != nullptr) messenger_->release(*std::exchange(operation_, nullptr));
  }

 private:
  messenger* messenger_ = nullptr;
  message_operation* operation_ = nullptr;
};

template <class = when_used>
[[noreturn]] BLINK_COLD void refuse_message(std::string_view call, int rank,
                                            std::initializer_list<text_piece> fault) {
  throw precondition_error(text_of({call, " on rank ", rank, ": ", text_of(fault)}));
}

/// Returns the bytes of a message's elements.
///
/// Throws: precondition_error if an argument is out of range or null.
template <class T>
[[nodiscard]] std::size_t check_message(std::string_view call, int rank, int rank_count, int peer,
                                        int least_peer, int tag, int least_tag, T const* data,
                                        std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T>,
                "blink: elements of messages are trivially copyable types");
  if (peer < least_peer || peer >= rank_count) {
    refuse_message(call, rank,
                   {"the other rank is ", peer, ", expected a rank of the communicator"});
  }
  if (tag < least_tag) refuse_message(call, rank, {"the tag is ", tag, ", expected at least 0"});
  if (count > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T)) {
    refuse_message(call, rank,
                   {count, " elements of ", sizeof(T),
                    " bytes are more than an address can name, expected fewer elements"});
  }
  if (data == nullptr && count > 0) {
    refuse_message(call, rank,
                   {"the buffer of ", count, " elements is null, expected their address"});
  }
  return count * sizeof(T);
}

inline void check_time(nanoseconds longest) {
  expects(longest.count() >= 0,
          "point to point: the longest time of a wait is negative, expected at least 0");
}

}  // namespace detail

/// A send that was started. Move-only. It ends before its communicator.
///
/// The destructor withdraws a send that has not ended. The receiver of a part of it gets an error.
class started_send {
 public:
  started_send() = default;
  explicit started_send(detail::held_operation held) : held_(std::move(held)) {}

  /// True if the send has ended: its memory is the caller's again. That does not mean that the
  /// message was received. Moves what can be moved; does not wait.
  ///
  /// Throws: message_error if the receiver is lost; collective_error if the communicator has
  ///         failed. The send has ended then.
  [[nodiscard]] bool test() {
    if (held_.is_there() && held_.test()) held_.release();
    return !held_.is_there();
  }
  /// Returns when the send has ended.
  ///
  /// longest: the longest time without progress, then the send is withdrawn; 0: the communicator's
  ///          deadline
  /// Throws:  as `test`; message_error if the time is over.
  void wait(nanoseconds longest = {}) {
    detail::check_time(longest);
    if (!held_.is_there()) return;
    held_.wait(longest);
    held_.release();
  }

 private:
  detail::held_operation held_;
};

/// A receive that was started. Move-only. It ends before its communicator.
///
/// The destructor withdraws a receive that has not ended. A message of which it got a part is
/// dropped.
class started_receive {
 public:
  started_receive() = default;
  explicit started_receive(detail::held_operation held) : held_(std::move(held)) {}

  /// True if the message is in the buffer. Moves what can be moved; does not wait.
  ///
  /// Throws: message_error if the sender is lost or the message is longer than the buffer;
  ///         collective_error if the communicator has failed. The receive has ended then.
  ///         precondition_error if there is none, or it has failed before.
  [[nodiscard]] bool test() {
    expect_one();
    if (!is_done_ && held_.test()) end();
    return is_done_;
  }
  /// Returns when the message is in the buffer.
  ///
  /// longest: the longest time without progress, then the receive is withdrawn; 0: the
  ///          communicator's deadline
  /// Throws:  as `test`; message_error if the time is over.
  received_message wait(nanoseconds longest = {}) {
    detail::check_time(longest);
    expect_one();
    if (!is_done_) {
      held_.wait(longest);
      end();
    }
    return got_;
  }

 private:
  void expect_one() const {
    expects(is_done_ || held_.is_there(),
            "started_receive: it was not started, or has failed, expected a receive");
  }
  void end() {
    got_ = (*held_).got;
    is_done_ = true;
    held_.release();
  }

  detail::held_operation held_;
  bool is_done_ = false;
  received_message got_;
};

/// Starts to send `count` elements to `peer`, which may be this rank.
///
/// Only the two ranks take part. Messages from one rank to another with equal tags are received in
/// the order in which they were sent. Any thread of the rank may call it, also while another one is
/// inside a collective; over MPI that takes MPI_THREAD_MULTIPLE.
///
/// Between ranks that share memory the message is copied out of `data` at once, whatever the
/// receiver does. Copies that no rank has received may take
/// `communicator_options::kept_message_bytes` for each sender. Beyond that, the rest of the message
/// moves while this rank tests or waits. The receiver is then inside a receive from this rank, or
/// waits for another message. Over UCX and MPI that holds for each message of more than some
/// kilobytes, between ranks of one host too. It also moves while this rank waits in a collective.
///
/// data:   belongs to the send until it has ended
/// tag:    at least 0
/// Time:   a copy of the message; about a microsecond for a small one.
/// Throws: precondition_error if an argument is out of range or null. Also for a communicator that
///         was made without sends and receives, and in a thread that may not call its library.
///         message_error if the receiver has left; collective_error if the communicator has failed;
///         resource_error if there is no memory for messages.
template <messaging_communicator Comm, class T>
[[nodiscard]] started_send start_send(Comm& comm, int peer, T const* data, std::size_t count,
                                      int tag = 0) {
  auto const bytes = detail::check_message("start_send", comm.rank(), comm.rank_count(), peer, 0,
                                           tag, 0, data, count);
  messenger& messages = comm.messages();
  auto* const started = messages.start_send(peer, tag, data, bytes);
  return started == nullptr ? started_send() : started_send({messages, *started});
}

/// Starts to receive a message of at most `count` elements.
///
/// Of several receives that match a message, the one that was started first gets it.
///
/// source: a rank, also this one, or `any_source`
/// data:   belongs to the receive until it has ended; its contents are unspecified if that fails,
///         and behind the end of a shorter message unchanged
/// tag:    at least 0, or `any_tag`
/// Throws: precondition_error as `start_send`; collective_error if the communicator has failed;
///         resource_error if there is no memory for messages.
template <messaging_communicator Comm, class T>
[[nodiscard]] started_receive start_receive(Comm& comm, int source, T* data, std::size_t count,
                                            int tag = 0) {
  auto const bytes = detail::check_message("start_receive", comm.rank(), comm.rank_count(), source,
                                           any_source, tag, any_tag, data, count);
  messenger& messages = comm.messages();
  return started_receive({messages, messages.start_receive(source, tag, data, bytes)});
}

/// Sends `count` elements to `peer`. Returns when `data` may be used again.
///
/// It does not wait for the receiver, unless the copies of messages take more memory than they may
/// (see `start_send`). While it waits, it takes in messages from senders that wait in the same way.
/// So two ranks that send to each other first and receive then always end.
///
/// longest: the longest time without progress; 0: the communicator's deadline
/// Throws:  as `start_send`; message_error if the receiver is lost or the time is over.
template <messaging_communicator Comm, class T>
void send(Comm& comm, int peer, T const* data, std::size_t count, int tag = 0,
          nanoseconds longest = {}) {
  detail::check_time(longest);
  start_send(comm, peer, data, count, tag).wait(longest);
}

/// Receives a message of at most `count` elements.
///
/// longest: the longest time without progress; 0: the communicator's deadline
/// Throws:  as `start_receive`; message_error if the sender is lost, if the time is over, or if the
///          message is longer than the buffer. Such a message is dropped.
template <messaging_communicator Comm, class T>
received_message receive(Comm& comm, int source, T* data, std::size_t count, int tag = 0,
                         nanoseconds longest = {}) {
  detail::check_time(longest);
  return start_receive(comm, source, data, count, tag).wait(longest);
}

}}  // namespace blink::BLINK_ABI
