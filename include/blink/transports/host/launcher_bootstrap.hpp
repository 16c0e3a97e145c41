// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/host/mailbox.hpp>
#include <blink/transports/host/process_environment.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// The processes that `blink run -n 2 -- program` has started, as a bootstrap for programs without
/// a `process_communicator`. Programs with one use `communicator_bootstrap`.
class launcher_bootstrap {
 public:
  /// Throws: input_error if the program was not started by `blink run`.
  launcher_bootstrap() : launcher_bootstrap(read_process_environment()) {}
  /// Joins as process `process` of those that share the memory at `path`.
  launcher_bootstrap(std::string const& path, int process, std::chrono::nanoseconds deadline)
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

  explicit launcher_bootstrap(process_environment const& from)
      : launcher_bootstrap(from.segment, from.rank,
                           from.deadline.value_or(std::chrono::seconds(30))) {}

  shared_segment segment_;
  int process_;
  std::chrono::nanoseconds deadline_;
  mailbox messages_;
};
static_assert(process_bootstrap<launcher_bootstrap>);

}}  // namespace blink::BLINK_ABI
