// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// What one rank did in one call. Nanoseconds of a clock that is the same for all ranks of a machine.
struct call_event {
  collective kind = collective::broadcast;
  int rank = 0;
  int rank_count = 0;
  std::uint64_t schedule_hash = 0;  ///< `prepared_schedule::hash`
  std::size_t count = 0;            ///< elements: of the buffer, or of a block
  std::size_t element_bytes = 0;
  std::string_view types;   ///< names of element, reducer and chunking
  bool is_ok = false;       ///< did it end well?
  std::uint64_t begin = 0;  ///< when the rank entered
  std::uint64_t end = 0;    ///< when it left
  // How long it could do nothing at all, and why; what is left is combining and copying.
  std::uint64_t waited_for_peers = 0;   ///< somebody had not entered the call
  std::uint64_t waited_to_receive = 0;  ///< data did not arrive: who sends, or the link, is slow
  std::uint64_t waited_to_send = 0;     ///< data was not taken: who receives is slow
  std::uint64_t sent_bytes = 0;         ///< by this rank over all its edges
  std::uint64_t received_bytes = 0;
  /// Ranks have shown each other their inputs instead (`communicator_options::eager_payload`): bytes sent are what
  /// others used of this rank's.
  bool is_sent_with_call = false;

  [[nodiscard]] std::uint64_t nanoseconds() const { return end - begin; }
  [[nodiscard]] std::uint64_t waited() const {
    return waited_for_peers + waited_to_receive + waited_to_send;
  }
  /// Of the collective: all ranks' blocks together where it has blocks.
  [[nodiscard]] std::uint64_t buffer_bytes() const {
    return blink::buffer_bytes(kind, count, element_bytes, rank_count);
  }
};

/// Somebody who wants to know of every call of every rank of this process.
class call_observer {
 public:
  virtual ~call_observer() = default;
  /// A call of a rank has ended. Called by the ranks' threads, several at once.
  virtual void ended(call_event const& event) = 0;
};

namespace detail {

inline std::atomic<call_observer*> present_observer = nullptr;

}  // namespace detail

/// Sets who is reported of calls that begin from now on, null for nobody; returns who was reported before.
/// Without an observer a call costs one more load.
///
/// Pre: no call runs while an observer is taken away that is then destroyed.
inline call_observer* observe_calls(call_observer* observer) {
  return detail::present_observer.exchange(observer);
}

}}  // namespace blink::BLINK_ABI
