// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/call_event.hpp>
#include <blink/running/walk/detail/no_patience.hpp>
#include <blink/running/walk/lane.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Why a rank can do nothing.
enum class stall_cause : std::uint8_t { peers, receive, send };

/// Keeps the account of one call for the observer, if there is one.
class observed_call {
 public:
  observed_call() {}
  /// `make` returns what is known of the call at its beginning.
  template <class Make>
  void begin(Make const& make) {
    observer_ = present_observer.load(std::memory_order_acquire);
    if (observer_ == nullptr) return;
    event_ = make();
    event_.begin = no_patience().now();
    idle_since_ = 0;
  }
  [[nodiscard]] bool is_on() const { return observer_ != nullptr; }

  void stands(stall_cause cause) {
    if (idle_since_ != 0) return;
    idle_since_ = no_patience().now();
    cause_ = cause;
  }
  void goes_on() {
    if (idle_since_ == 0) return;
    std::uint64_t const time = no_patience().now() - idle_since_;
    idle_since_ = 0;
    (cause_ == stall_cause::peers     ? event_.waited_for_peers
     : cause_ == stall_cause::receive ? event_.waited_to_receive
                                      : event_.waited_to_send) += time;
  }

  /// Without trees: from everyone to everyone, or from or to the root alone.
  ///
  /// is_root: does this rank send to all, or receive from all? For collectives that have a root
  void count_shown(bool is_root) {
    if (!is_on()) return;
    event_.is_shown = true;
    if (event_.kind == collective::barrier) return;
    auto const once = std::uint64_t{event_.count} * event_.element_bytes;
    auto const often = once * static_cast<std::uint64_t>(event_.rank_count - 1);
    auto const bytes = [&](bool root_has_all, bool others_have_one) {
      if (root_has_all) return is_root ? often : 0;
      return others_have_one && is_root ? 0 : others_have_one ? once : often;
    };
    bool const from_root = is_from_root(event_.kind);
    bool const to_root = is_to_root(event_.kind);
    event_.sent_bytes = bytes(from_root, to_root);
    event_.received_bytes = bytes(to_root, from_root);
  }

  void end(bool is_ok, lane const* lanes, std::size_t lane_count, element_sizes const& sizes) {
    if (!is_on()) return;
    goes_on();
    event_.is_ok = is_ok;
    event_.end = no_patience().now();
    for (std::size_t k = 0; is_ok && k < lane_count; ++k) {
      lane const& here = lanes[k];
      auto const bytes = [&](wire_end const& end) {
        return std::uint64_t{here.count} * (end.is_partial ? sizes.wire : sizes.value);
      };
      for (std::uint32_t i = 0; i < here.in_count; ++i) event_.received_bytes += bytes(here.in[i]);
      for (std::uint32_t i = 0; i < here.out_count; ++i) event_.sent_bytes += bytes(here.out[i]);
    }
    observer_->ended(event_);
    observer_ = nullptr;
  }

 private:
  call_observer* observer_ = nullptr;
  union {
    call_event event_;  // if there is an observer
  };
  std::uint64_t idle_since_ = 0;  // 0: not idle
  stall_cause cause_ = stall_cause::peers;
};

}}}  // namespace blink::BLINK_ABI::detail
