// SPDX-License-Identifier: Apache-2.0
#pragma once

// Messages between the processes of one communicator besides the data: their calls, and failures.

#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/cuda/calls/call_order_check.hpp>
#include <blink/transports/host/host_processes.hpp>
#include <blink/transports/host/host_rendezvous.hpp>

#include "abi.hpp"
#include "derived_ids.hpp"
#include "errors.hpp"
#include "meeting.hpp"
#include "platform.hpp"
#include "request.hpp"
#include "split_parts.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace blink_nccl {

/// Returns the call description that all processes compare.
template <platform P>
[[nodiscard]] blink::call_description description_of_call(request<P> const& one) {
  constexpr std::uint64_t no_collective = ~std::uint64_t{0};  // named by its function
  bool const is_split = one.what == request<P>::shape::split;
  std::string const text = is_split ? one.name : details_of(one);
  blink::detail::hash names;
  names.add(text);
  return {{.kind = is_split ? no_collective : static_cast<std::uint64_t>(one.kind),
           .count = one.count,
           .element_bytes = is_split ? 0 : bytes_of(one.type),
           .types = names.value()},
          text};
}

/// The processes of one communicator. One thread uses the object at a time, except for `failure`
/// and the functions after it, which need the lock of the library.
class across {
 public:
  /// counts:  call counts of all communicators of this process
  /// devices: of the ranks of this process
  /// Throws:  what `host_processes` throws.
  template <blink::process_bootstrap Bootstrap>
  across(Bootstrap& all, std::chrono::nanoseconds deadline, blink::call_counts& counts,
         std::vector<int> const& devices)
      : all_(all, deadline),
        compared_(counts, &all_, devices),
        pieces_(static_cast<piece_counts*>(all_.common_memory(0, sizeof(piece_counts)))) {}

  [[nodiscard]] std::string name() const { return all_.name(all_.process()); }
  /// A number of the communicator, equal in all its processes.
  [[nodiscard]] std::uint64_t number() const { return all_.number(); }

  /// Runs `read` in all processes, which must get the same value.
  ///
  /// name:   of the environment variable that it reads
  /// Throws: what `read` throws; precondition_error if it fails in another process (with its text),
  ///         or returns another value there.
  template <class Read>
  void agree_about(std::string const& name, Read const& read) {
    std::uint64_t own = 0;
    all_.agree(name, [&] { own = read(); });
    for (auto const theirs : all_.gather(name, own)) {
      if (theirs != own) {
        throw blink::precondition_error(name +
                                        ": values differ between processes, expected the same");
      }
    }
  }
  /// Announces the next call of this process.
  ///
  /// runs:   true if the call now takes its place among the calls of other communicators on the
  ///         devices
  /// meets:  true: wait until all processes have entered the call; false: a later process finds a
  ///         difference
  /// Throws: refusal if other processes make another call, have failed, have left, or do not enter
  ///         the call. The communicator is then unusable.
  void enter(blink::call_description const& call, bool runs, bool meets) {
    auto const before = all_.calls(all_.process());
    auto difference = compared_.enter(call, !runs);
    expect_well(failure());
    bool const has_entered = all_.calls(all_.process()) > before;
    if (!has_entered) throw refusal(result::remote_error, difference);  // a process is far behind
    if (difference.empty() && meets) difference = compared_.match();
    if (!difference.empty()) refuse_usage("processes disagree: " + difference);
    expect_well(failure_or(loss()));
  }
  // For use after an `enter` that meets. Both throw what `host_processes::gather` throws.

  /// Returns the wishes of all ranks; `own` are those of the ranks of this process.
  [[nodiscard]] std::vector<split_wish> gather_wishes(std::vector<split_wish> const& own) {
    struct letter {
      std::size_t count = 0;
      std::array<split_wish, most_ranks> of_rank{};
    };
    letter mine;
    mine.count = own.size();
    std::copy(own.begin(), own.end(), mine.of_rank.begin());
    std::vector<split_wish> all;
    for (auto const& theirs : all_.gather("colors and keys of a split", mine)) {
      all.insert(all.end(), theirs.of_rank.begin(),
                 theirs.of_rank.begin() + static_cast<std::ptrdiff_t>(theirs.count));
    }
    return all;
  }
  /// Returns the ids of all parts. One process sets each id; the others pass 0 for it.
  [[nodiscard]] std::array<unique_id, most_ranks> gather_ids(
      std::array<unique_id, most_ranks> const& own) {
    auto all = own;
    for (auto const& theirs : all_.gather("unique ids of a split", own)) {
      for (std::size_t k = 0; k < all.size(); ++k) {
        bool const is_set = std::any_of(std::begin(theirs[k].bytes), std::end(theirs[k].bytes),
                                        [](char byte) { return byte != 0; });
        if (is_set) all[k] = theirs[k];
      }
    }
    return all;
  }

  /// The failure that a process has reported; success if there is none.
  [[nodiscard]] outcome failure() const {
    if (!all_.has_failed()) return {};
    for (int process = 0; process < all_.count(); ++process) {
      if (auto const code = all_.report_of<result>(process)) {
        return {*code, all_.failure().what()};
      }
    }
    return {result::remote_error, all_.failure().what()};
  }
  /// The failure that a process has reported, or otherwise `lost`, which was found before. A
  /// process that aborts reports the failure before it leaves, so a reported failure explains the
  /// loss.
  [[nodiscard]] outcome failure_or(outcome const& lost) const {
    auto const reported = failure();
    return reported.code != result::success ? reported : lost;
  }
  /// A process that will not make a call that this process has made; success if none is known.
  [[nodiscard]] outcome loss() const {
    auto const own = all_.calls(all_.process());
    for (int peer = 0; peer < all_.count(); ++peer) {
      auto const calls = all_.calls(peer);
      if (calls >= own) continue;
      auto const lost = all_.loss_of(peer);
      if (lost.empty() || all_.calls(peer) >= own) continue;
      return ended(all_.name(peer), lost,
                   std::to_string(calls) + " calls, process " + std::to_string(all_.process()) +
                       " has made " + std::to_string(own));
    }
    return {};
  }
  [[nodiscard]] int process() const { return all_.process(); }
  /// The place of the id of a derived communicator, also after a failure.
  ///
  /// Throws: resource_error
  [[nodiscard]] derived_id& place_of(derivation const& what) {
    auto& place = derived_[what];
    if (place == nullptr) {
      place = static_cast<derived_id*>(all_.common_memory(what.hash(), sizeof(derived_id)));
    }
    return *place;
  }
  /// Counts a send to a peer, or a receive from it, that a rank of this process calls.
  void count_piece(int rank, int peer, bool sends) {
    auto& count = sends ? pieces_->sent(rank, peer) : pieces_->received(peer, rank);
    count.store(count.load() + 1);
  }
  /// A peer in another process that will not make the counterpart of a send or receive of a rank of
  /// this process; success if none is known.
  [[nodiscard]] outcome loss_of_piece(int rank, int peer, int process) const {
    for (bool const sends : {true, false}) {
      auto const& own = sends ? pieces_->sent(rank, peer) : pieces_->received(peer, rank);
      auto const& theirs = sends ? pieces_->received(rank, peer) : pieces_->sent(peer, rank);
      auto const wanted = own.load();
      if (theirs.load() >= wanted) continue;
      auto const lost = all_.loss_of(process);
      if (lost.empty() || theirs.load() >= wanted) continue;
      std::string const what = sends ? " sends to rank " : " receives from rank ";
      return ended("rank " + std::to_string(rank) + " has called " + std::to_string(wanted) + what +
                       std::to_string(peer) + ", whose " + all_.name(process),
                   lost, std::to_string(theirs.load()) + (sends ? " receives" : " sends"));
    }
    return {};
  }
  /// Reports a failure to all processes, after which nothing progresses.
  void fail(outcome const& why) {
    if (all_.has_failed()) return;
    all_.report(why.code);
    all_.fail({why.text, -1, -1, -1, -1});
  }

 private:
  /// Returns the failure of a process or rank that makes no more calls.
  ///
  /// how: the text of `host_processes::loss_of`
  [[nodiscard]] static outcome ended(std::string const& who, std::string const& how,
                                     std::string const& calls) {
    bool const is_dead = how == "has died";
    return {is_dead ? result::remote_error : result::invalid_usage,
            who + (is_dead ? " has died" : " has destroyed its communicator") + " after " + calls};
  }
  /// The numbers of sends and receives that each rank has called, by sender and receiver. One
  /// process writes each of them.
  struct piece_counts {
    using counts = std::array<std::atomic<std::uint64_t>, std::size_t{most_ranks} * most_ranks>;

    counts sends, receives;

    [[nodiscard]] std::atomic<std::uint64_t>& sent(int from, int to) {
      return sends[static_cast<std::size_t>(from * most_ranks + to)];
    }
    [[nodiscard]] std::atomic<std::uint64_t>& received(int from, int to) {
      return receives[static_cast<std::size_t>(from * most_ranks + to)];
    }
  };

  static void expect_well(outcome const& how) {
    if (!is_well(how)) throw refusal(how.code, how.text);
  }

  blink::host_processes all_;
  blink::call_order_check compared_;
  piece_counts* pieces_;
  std::map<derivation, derived_id*> derived_;
};

}  // namespace blink_nccl
