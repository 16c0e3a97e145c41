// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/messenger.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A send or receive as errors name it.
struct message_name {
  bool is_send;
  int peer, tag;  ///< as in `message_operation`
};
[[nodiscard]] inline message_name name_of(message_operation const& one) {
  return {one.is_send, one.peer, one.tag};
}

/// Throws the errors of one rank's sends and receives. Peers have names, such as "rank 2 (process
/// 4711)".
class message_faults {
 public:
  explicit message_faults(int rank) : rank_(rank) {}

  [[noreturn]] BLINK_COLD void fail_with_communicator(message_name const& one,
                                                      collective_error const& cause) const {
    throw collective_error(text_of({title(one), "ended because: ", cause.what()}), rank_,
                           cause.peer == rank_ ? cause.rank : cause.peer, cause.tree, cause.chunk,
                           cause.disagrees);
  }
  /// has_left: true if the peer ended its communicator
  [[noreturn]] BLINK_COLD void fail_lost(message_name const& one, int peer, std::string const& name,
                                         bool has_left) const {
    fail(one, message_error::cause::peer_lost, peer,
         text_of({name, has_left ? " has left" : " died",
                  has_left && one.peer < 0 ? ", as all others" : "", ", expected ",
                  one.is_send ? "a receiver" : "its message"}));
  }
  /// Pre: the message was too long, or its sender gave it up.
  [[noreturn]] BLINK_COLD void fail_ended(message_operation const& one,
                                          std::string const& name) const {
    auto const& got = one.got;
    if (one.at == message_operation::state::withdrawn) {
      fail(name_of(one), message_error::cause::withdrawn, got.source,
           text_of({name, " gave the message up after ", one.moved, " of ", got.bytes,
                    " bytes, expected all of them"}));
    }
    fail(name_of(one), message_error::cause::too_long, got.source,
         text_of({"the message of rank ", got.source, " with tag ", got.tag, " has ", got.bytes,
                  " bytes and is dropped, expected at most the buffer's ", one.bytes}));
  }
  /// peer:   that the operation waits for; -1: any source
  /// moved:  bytes so far
  /// waited: nanoseconds
  /// more:   what else may be the cause, or nothing
  [[noreturn]] BLINK_COLD void fail_timed_out(message_operation const& one, int peer,
                                              std::string const& name, std::size_t moved,
                                              std::uint64_t waited, std::string const& more) const {
    auto const time = text_of({" (waited ", static_cast<double>(waited) * 1e-9, " s)"});
    std::string text;
    if (one.is_send) {
      text = text_of({name, " takes no more than ", moved, " of ", one.bytes, " bytes", time,
                      ", expected all"});
    } else if (moved > 0) {
      text = text_of(
          {name, " sent ", moved, " bytes of the message and no more", time, ", expected all"});
    } else {
      text = text_of({"no message", time, ", expected one"});
    }
    fail(name_of(one), message_error::cause::timed_out, peer,
         more.empty() ? text : text + "; " + more);
  }
  /// A cause of a time-out: messages that no receive has asked for. Empty if there are none.
  ///
  /// first: one of them
  [[nodiscard]] BLINK_COLD static std::string unasked(std::size_t count,
                                                      received_message const& first) {
    if (count == 0) return {};
    return text_of({"no receive has asked for ", count, count == 1 ? " message" : " messages",
                    ", the first from rank ", first.source, " with tag ", first.tag});
  }

 private:
  [[nodiscard]] BLINK_COLD std::string title(message_name const& one) const {
    auto const number = [](int value, char const* what, char const* any) {
      return value < 0 ? std::string(any) : text_of({what, value});
    };
    return text_of({"rank ", rank_, one.is_send ? ", send to " : ", receive from ",
                    number(one.peer, "rank ", "any rank"), ", ", number(one.tag, "tag ", "any tag"),
                    ": "});
  }
  [[noreturn]] BLINK_COLD void fail(message_name const& one, message_error::cause why, int peer,
                                    std::string const& text) const {
    throw message_error(title(one) + text, why, rank_, peer, one.tag);
  }

  int rank_;
};

}}}  // namespace blink::BLINK_ABI::detail
