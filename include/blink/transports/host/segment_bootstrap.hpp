// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/host/mailbox.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// A bootstrap of processes that share memory, which a launcher of their own made
/// (`shared_segment::create`). Programs with a `process_communicator` use `communicator_bootstrap`,
/// and programs under `blink run` use `launcher_bootstrap`.
class segment_bootstrap {
 public:
  /// Joins as process `process` of those that share the memory at `path`.
  segment_bootstrap(std::string const& path, int process, std::chrono::nanoseconds deadline)
      : segment_(shared_segment::open(path)),
        process_(process),
        deadline_(deadline),
        messages_(segment_.find_or_make(key, mailbox::bytes(segment_.rank_count())), process,
                  segment_.rank_count()) {
    segment_.claim(process);
  }

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int process_count() const { return segment_.rank_count(); }
  /// Throws: collective_error if a process has died or does not arrive before the deadline.
  void all_gather(void const* own, void* all, std::size_t bytes) {
    messages_.gather(
        "bootstrap", own, all, bytes, deadline_,
        [&](int peer) { return std::string(segment_.is_dead(peer) ? "has died" : ""); },
        [&](int peer) {
          return "process " + std::to_string(peer) + " (" + segment_.describe(peer) + ")";
        });
  }

 private:
  static constexpr std::uint64_t key = 0xb0075712a9;  // among the blocks of the launch

  shared_segment segment_;
  int process_;
  std::chrono::nanoseconds deadline_;
  mailbox messages_;
};
static_assert(process_bootstrap<segment_bootstrap>);

}}  // namespace blink::BLINK_ABI
