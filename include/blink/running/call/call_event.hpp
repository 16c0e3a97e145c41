// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// The bytes that a rank sent to one peer in a call, over all trees.
struct peer_traffic {
  int peer = 0;
  std::uint64_t bytes = 0;
};
/// The bytes that a rank sent over one physical link in a call, if the schedule knows its links.
struct link_traffic {
  int link = 0;                 ///< number in the schedule
  std::string_view name;        ///< `schedule::link_names`; may be empty
  double bytes_per_second = 0;  ///< of the link
  std::uint64_t bytes = 0;
};

/// One call of one rank, for observers. Times are nanoseconds of a clock that all ranks of a
/// machine share.
struct call_event {
  collective kind = collective::broadcast;
  int rank = 0;
  int rank_count = 0;
  std::uint64_t schedule_hash = 0;  ///< `prepared_schedule::hash`
  std::size_t count = 0;            ///< elements of the buffer, or of one segment
  std::size_t element_bytes = 0;
  std::string_view types;   ///< names of element, reducer and chunking
  bool is_ok = false;       ///< true if the call ended without a failure
  std::uint64_t begin = 0;  ///< when the rank entered
  std::uint64_t end = 0;    ///< when it left
  // Nanoseconds in which the rank could do nothing, by cause. The rest is combining and copying.
  std::uint64_t waited_for_peers = 0;   ///< a peer had not entered the call
  std::uint64_t waited_to_receive = 0;  ///< data had not arrived: the sender or the link is slow
  std::uint64_t waited_to_send = 0;     ///< no credit: the receiver is slow
  std::uint64_t sent_bytes = 0;         ///< by this rank over all its edges
  std::uint64_t received_bytes = 0;
  /// True if inputs were eager payloads (`communicator_options::eager_payload`). `sent_bytes` are
  /// then the bytes of this rank's input that peers used.
  bool is_sent_with_call = false;
  /// The bytes that this rank sent, for calls along trees. They exist until the observer returns.
  peer_traffic const* to_peers = nullptr;
  std::size_t peer_count = 0;
  link_traffic const* on_links = nullptr;
  std::size_t link_count = 0;
  int core = -1;  ///< on which the rank ran when the call ended; -1: not known

  [[nodiscard]] std::uint64_t nanoseconds() const { return end - begin; }
  [[nodiscard]] std::uint64_t waited() const {
    return waited_for_peers + waited_to_receive + waited_to_send;
  }
  /// Bytes of the collective's whole buffer: the segments of all ranks together if it has segments.
  [[nodiscard]] std::uint64_t buffer_bytes() const {
    return blink::buffer_bytes(kind, count, element_bytes, rank_count);
  }
};

/// An observer of every call of every rank of this process.
class call_observer {
 public:
  virtual ~call_observer() = default;
  /// Called when a call of a rank has ended. The threads of ranks call it, several at once.
  virtual void ended(call_event const& event) = 0;
};

namespace detail {

inline std::atomic<call_observer*> present_observer = nullptr;

}  // namespace detail

/// Sets the observer of calls that begin from now on, and returns the previous one. Null means
/// none.
///
/// Without an observer a call costs one more load.
///
/// Pre: no call runs while an observer is replaced that is then destroyed.
inline call_observer* observe_calls(call_observer* observer) {
  return detail::present_observer.exchange(observer);
}

}}  // namespace blink::BLINK_ABI
