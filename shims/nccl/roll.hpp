// SPDX-License-Identifier: Apache-2.0
#pragma once

// The assignment of a communicator's ranks to processes, and the bootstrap of these processes.

#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/host/mailbox.hpp>

#include "errors.hpp"
#include "meeting.hpp"
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace blink_nccl {

/// The processes of a communicator, in the order of their ranks. The ranks of a process are
/// consecutive.
struct roll {
  struct member {
    std::int64_t process = 0;
    int first_rank = 0;
    std::vector<int> devices{};  ///< by rank there
  };
  std::vector<member> members;
  std::size_t own = nobody;  ///< the position of this process

  /// Computes the processes. The result is equal in all of them, except for `own`.
  ///
  /// Throws: refusal if this process has no rank; in all of them if the ranks of a process are not
  ///         consecutive.
  explicit roll(std::vector<meeting::guest> const& by_rank) {
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      auto const& guest = by_rank[rank];
      if (members.empty() || members.back().process != guest.process) {
        for (auto const& before : members) {
          if (before.process == guest.process) refuse_gap(before, members.back(), rank);
        }
        if (guest.process == getpid()) own = members.size();
        members.push_back({guest.process, static_cast<int>(rank)});
      }
      members.back().devices.push_back(guest.device);
    }
    if (own == nobody)
      refuse_usage("the unique id was used for a communicator already, expected a new one");
  }

 private:
  static constexpr auto nobody = static_cast<std::size_t>(-1);

  [[noreturn]] static void refuse_gap(member const& one, member const& between, std::size_t rank) {
    refuse_usage("ranks " + std::to_string(one.first_rank) + " and " + std::to_string(rank) +
                 " are of process " + std::to_string(one.process) + ", rank " +
                 std::to_string(between.first_rank) + " between them is of process " +
                 std::to_string(between.process) + ", expected consecutive ranks in each process");
  }
};

/// Bootstrap of the processes of a complete meeting.
class meeting_bootstrap {
 public:
  meeting_bootstrap(std::shared_ptr<meeting> at, roll const& all, std::chrono::nanoseconds deadline)
      : at_(std::move(at)),
        all_(all),
        deadline_(deadline),
        messages_(at_->segment().find_or_make(2, blink::mailbox::bytes(process_count())), process(),
                  process_count()) {}

  [[nodiscard]] int process() const { return static_cast<int>(all_.own); }
  [[nodiscard]] int process_count() const { return static_cast<int>(all_.members.size()); }
  /// Throws: collective_error if a process has died or does not arrive before the deadline.
  void all_gather(void const* own, void* all, std::size_t bytes) {
    auto const first = [&](int peer) {
      return all_.members[static_cast<std::size_t>(peer)].first_rank;
    };
    messages_.gather(
        "construction of the communicator", own, all, bytes, deadline_,
        [&](int peer) {
          return std::string(at_->segment().is_dead(first(peer)) ? "has died" : "");
        },
        [&](int peer) {
          return "rank " + std::to_string(first(peer)) + " (" +
                 at_->segment().describe(first(peer)) + ")";
        });
  }

 private:
  std::shared_ptr<meeting> at_;
  roll all_;
  std::chrono::nanoseconds deadline_;
  blink::mailbox messages_;
};
static_assert(blink::process_bootstrap<meeting_bootstrap>);

}  // namespace blink_nccl
