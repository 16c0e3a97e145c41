// SPDX-License-Identifier: Apache-2.0
#pragma once

// The ranks of a communicator in this process: the team matches their calls, and finds the ranks
// that others wait for.

#include <blink/collectives/exchange.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/host/host_rendezvous.hpp>

#include "across.hpp"
#include "call_queues.hpp"
#include "derived_ids.hpp"
#include "errors.hpp"
#include "issuer.hpp"
#include "issuer_over.hpp"
#include "platform.hpp"
#include "request.hpp"
#include "split_across.hpp"
#include "split_parts.hpp"
#include "unique_ids.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace blink_nccl {

/// The ranks of one communicator that are in this process. A rank's calls are queued. The thread
/// that makes the last part of a call puts it into the streams of all of them. Each process does
/// the same. Processes compare their calls, but wait for each other only to allocate something
/// together.
///
/// The caller holds the lock of the library.
template <platform P>
class team {
 public:
  using call = request<P>;
  using calls = typename call_queues<P>::calls;
  using lock_type = std::unique_lock<std::mutex>;

  /// A team whose ranks are all of this process.
  ///
  /// Throws: precondition_error, resource_error, device_error, input_error.
  explicit team(blink::device_options const& options)
      : options_(options),
        issuer_(std::make_unique<issuer_over<P, transport_here>>(options)),
        queues_(0, options.devices.size()) {
    (void)issuer_->use_tuning();
  }
  /// A team of several processes. All processes construct it together, without the lock of the
  /// library.
  ///
  /// Throws: the same, on all processes; collective_error if a process does not arrive.
  template <blink::process_bootstrap Bootstrap>
  team(blink::device_options options, Bootstrap& all)
      : options_((options.checks_calls = false, options)),  // `across` compares them
        issuer_(std::make_unique<issuer_over<P, link_across>>(options_, all)),
        across_(std::make_unique<across>(all, options.deadline, P::devices().order().counts(),
                                         options.devices)),
        queues_(issuer_->first_rank(), options.devices.size()) {
    across_->agree_about("BLINK_TUNING", [&] { return issuer_->use_tuning(); });
  }
  team(team const&) = delete;
  team& operator=(team const&) = delete;
  /// Called without the lock of the library, because it waits for the other processes to end their
  /// teams.
  ~team() {
    if (across_ != nullptr && health().code != result::success) {
      issuer_->shorten_waits(std::chrono::seconds(2));  // a failed process may never arrive
    }
    across_.reset();  // no process should wait for calls of this one
  }

  /// A number that is equal in all its processes and unique there; 0 if all ranks are of this
  /// process.
  [[nodiscard]] std::uint64_t number() const { return across_ == nullptr ? 0 : across_->number(); }
  [[nodiscard]] int rank_count() const { return issuer_->rank_count(); }
  [[nodiscard]] int ranks_here() const { return queues_.end_rank() - queues_.first_rank(); }
  [[nodiscard]] blink::device_options const& options() const { return options_; }

  /// Throws: precondition_error, refusal for calls that are invalid whatever other ranks call.
  void check(int rank, std::vector<call> const& list) {
    throw_if_failed();
    expect_peers(list);
    check_pieces(rank, list);
  }
  /// Queues checked calls of a rank; the caller then calls `progress`.
  calls submit(int rank, std::vector<call> list) { return queues_.submit(rank, std::move(list)); }

  /// Runs all calls with complete parts. Releases the lock while it waits for other processes.
  /// Another thread that calls `progress` meanwhile leaves the rest to this one.
  void progress(lock_type& held) {
    while (!is_busy_ && (run_call(held) || run_distant() || run_transfers())) {
    }
  }
  /// True if another thread runs calls of the team and has released the lock.
  [[nodiscard]] bool is_busy() const { return is_busy_; }

  /// Ends all waiting calls in all processes; there will be no others.
  void fail(outcome const& why) {
    if (failure_.code == result::success) failure_ = why;
    queues_.end_all(why);
    if (across_ == nullptr) return;
    across_->fail(why);
    issuer_->abort();
  }
  /// The same, and ends the kernels that run.
  ///
  /// what: the act of the rank, such as "aborted"
  void end_calls(int rank, std::string const& what) {
    fail({result::remote_error,
          "rank " + std::to_string(rank) + " has " + what + " the communicator"});
    issuer_->abort();
  }
  void abort(int rank) { end_calls(rank, "aborted"); }
  /// True if no call runs in this process, on the host or in a kernel.
  [[nodiscard]] bool is_idle() const { return !is_busy_ && issuer_->is_idle(); }
  /// The bytes that the communicator holds on a device.
  ///
  /// Pre: !is_busy()
  [[nodiscard]] std::size_t bytes_on(int device) const { return issuer_->bytes_on(device); }
  /// The place of the id of a communicator that its ranks make from this one.
  ///
  /// Throws: resource_error
  [[nodiscard]] derived_id& place_of(derivation const& what) {
    if (across_ != nullptr) return across_->place_of(what);
    auto& place = derived_[what];
    if (place == nullptr) place = std::make_unique<derived_id>();
    return *place;
  }
  /// The id of that communicator, the same on all its ranks. Throws: resource_error
  [[nodiscard]] unique_id id_of(derivation const& what, unique_ids& ids) {
    return place_of(what).find_or_make(across_ == nullptr ? 0 : across_->process(), ids);
  }
  /// Records that the rank makes no more calls.
  void leave(int rank) {
    queues_.leave(rank);
    auto const [who, one] =
        queues_.find([&](int, call const& each) { return !each.is_of_two() || each.root == rank; });
    if (one == nullptr) return;
    fail({result::invalid_usage,
          to_text(*one) + " on rank " + std::to_string(who) + ": " + why_gone(rank)});
  }

  /// The first failure so far, also in streams and in other processes.
  [[nodiscard]] outcome const& health() {
    if (failure_.code != result::success) return failure_;
    if (across_ != nullptr) {
      for (auto const& found :
           {across_->failure_or(across_->loss()), across_->failure_or(loss_of_pieces())}) {
        if (found.code == result::success) continue;
        fail(found);
        return failure_;
      }
    }
    if (is_busy_ || !issuer_->has_failed()) return failure_;
    try {
      issuer_->expect_no_failure();
    } catch (...) {
      fail_by_exception();
    }
    return failure_;
  }
  /// Fails all calls if a call has waited for the deadline.
  void expect_progress(batch<P> const& mine) {
    if (mine.is_over || std::chrono::steady_clock::now() - mine.begun < options_.deadline) return;
    fail({result::remote_error, "no progress for " + seconds() + " s: " + queues_.describe()});
  }

  /// Throws: precondition_error if memory is not of the rank's device.
  void expect_place(char const* name, int rank, void const* at) {
    issuer_->expect_place(name, rank, at);
  }

 private:
  void throw_if_failed() {
    auto const& now = health();
    if (now.code != result::success) throw refusal(now.code, now.text);
  }
  static std::string why_gone(int rank) {
    return "rank " + std::to_string(rank) + " has destroyed its communicator";
  }
  void expect_peers(std::vector<call> const& list) const {
    for (auto const& one : list) {
      for (int rank = queues_.first_rank(); rank < queues_.end_rank(); ++rank) {
        if (!queues_.is_gone(rank) || (one.is_of_two() && one.root != rank)) continue;
        refuse_usage(to_text(one) + ": " + why_gone(rank));
      }
    }
  }
  void check_pieces(int rank, std::vector<call> const& list) {
    blink::transfers pieces;
    for (auto const& one : list) {
      if (!one.is_of_two()) continue;
      if (one.what == call::shape::send) {
        pieces.send(one.root, static_cast<std::byte const*>(one.input), one.bytes());
      } else {
        pieces.receive(one.root, static_cast<std::byte*>(one.output), one.bytes());
      }
    }
    blink::detail::check_transfers("rank " + std::to_string(rank), pieces, rank_count());
    for (auto const& one : list) {
      void const* const at = one.what == call::shape::send ? one.input : one.output;
      if (one.is_of_two() && one.count > 0) expect_place(one.name, rank, at);
      if (one.is_of_two() && !queues_.has(one.root)) issuer_->expect_reach(rank, one);
    }
  }

  /// Runs the first call other than sends and receives, if all ranks of this process have reached
  /// it.
  bool run_call(lock_type& held) {
    auto const parts = queues_.next_call();
    if (parts.empty()) return false;
    std::vector<outcome> how(parts.size());
    try {
      expect_agreement(parts);
      if (across_ != nullptr) {
        run_across(parts, how, held);
      } else if (parts[0]->what == call::shape::split) {
        split(parts);
      } else {
        issuer_->run(parts);
      }
    } catch (...) {
      std::fill(how.begin(), how.end(), current_outcome());
    }
    if (failure_.code != result::success) return true;  // the failure has ended the calls
    for (std::size_t k = 0; k < parts.size(); ++k) {
      queues_.done_with(queues_.first_rank() + static_cast<int>(k), parts[k], how[k]);
    }
    queues_.sweep();
    return true;
  }
  void expect_agreement(std::vector<call*> const& parts) {
    for (std::size_t k = 1; k < parts.size(); ++k) {
      if (agree(*parts[0], *parts[k])) continue;
      auto const first = static_cast<std::size_t>(queues_.first_rank());
      outcome const why{result::invalid_usage, "ranks disagree: rank " + std::to_string(first) +
                                                   " calls " + to_text(*parts[0]) + "; rank " +
                                                   std::to_string(first + k) + " calls " +
                                                   to_text(*parts[k])};
      if (across_ != nullptr) fail(why);  // other processes would wait for the call
      throw refusal(why.code, why.text);
    }
  }

  /// Fails with the error that another process has reported, which is more precise, or otherwise
  /// with the current exception.
  void fail_by_exception() {
    auto const reported = across_ == nullptr ? outcome{} : across_->failure();
    fail(reported.code != result::success ? reported : current_outcome());
  }
  /// Releases the lock for `work`, which waits for other processes. Calls may end meanwhile; then
  /// there is a failure.
  template <class Work>
  void without_lock(lock_type& held, Work const& work) {
    std::exception_ptr problem;
    is_busy_ = true;
    held.unlock();
    try {
      work();
    } catch (...) {
      problem = std::current_exception();
    }
    held.lock();
    is_busy_ = false;
    if (problem) std::rethrow_exception(problem);
  }
  /// Other processes expect a call that has been announced, so all fail if it cannot run.
  void run_across(std::vector<call*> const& parts, std::vector<outcome>& how, lock_type& held) {
    call const first = *parts[0];
    bool const is_split = first.what == call::shape::split;
    if (!is_split) issuer_->check(parts);
    bool const meets = is_split || !issuer_->is_prepared(first);
    bool const runs = !is_split && !issuer_->is_captured(parts);
    try {
      without_lock(held, [&] { across_->enter(description_of_call(first), runs, meets); });
      if (failure_.code != result::success) return;
      if (is_split) {
        how = split_across<P>(
            *across_, parts, queues_.first_rank(),
            [&](auto const& work) { without_lock(held, work); },
            [&] { return failure_.code == result::success; });
        return;
      }
    } catch (...) {
      return fail_by_exception();
    }
    try {
      if (meets) without_lock(held, [&] { issuer_->prepare(first); });
    } catch (blink::collective_error const&) {
      return fail_by_exception();
    }  // other exceptions are thrown in all processes
    if (failure_.code != result::success) return;
    try {
      issuer_->run(parts);
    } catch (...) {
      fail_by_exception();
    }
  }

  /// Runs sends and receives whose peers are in other processes, without waiting for ranks here.
  bool run_distant() {
    auto const found = queues_.next_distant();
    if (found.empty()) return false;
    outcome how;
    try {
      issuer_->check_distant(found);
      try {
        for (auto const& one : found) {
          across_->count_piece(one.rank, one.call->root, one.call->what == call::shape::send);
        }
        issuer_->run_distant(found);
      } catch (...) {  // other processes wait for the piece
        fail_by_exception();
        return true;
      }
    } catch (...) {
      how = current_outcome();
    }
    for (auto const& one : found) queues_.done_with(one.rank, one.call, how);
    queues_.sweep();
    return true;
  }
  /// Returns a send or a receive whose counterpart will not be called; success if none is known.
  [[nodiscard]] outcome loss_of_pieces() const {
    for (int own = queues_.first_rank(); own < queues_.end_rank(); ++own) {
      for (int peer = 0; peer < rank_count(); ++peer) {
        if (queues_.has(peer)) continue;
        auto const found = across_->loss_of_piece(own, peer, issuer_->process_of(peer));
        if (found.code != result::success) return found;
      }
    }
    return {};
  }

  bool run_transfers() {
    auto const found = queues_.next_transfers();
    if (found.empty()) return false;
    std::vector<transfer<P>> equal;
    for (auto const& one : found) {
      if (one.send->bytes() == one.receive->bytes()) {
        equal.push_back(one);
      } else {
        finish_pair(one, {result::invalid_usage,
                          "ranks disagree: rank " + std::to_string(one.sender) + " calls " +
                              to_text(*one.send) + "; rank " + std::to_string(one.receiver) +
                              " calls " + to_text(*one.receive)});
      }
    }
    outcome how;
    try {
      if (!equal.empty()) issuer_->copy(equal);
    } catch (...) {
      how = current_outcome();
    }
    for (auto const& one : equal) finish_pair(one, how);
    queues_.sweep();
    return true;
  }
  void finish_pair(transfer<P> const& one, outcome const& how) {
    queues_.done_with(one.sender, one.send, how);
    queues_.done_with(one.receiver, one.receive, how);
  }

  void split(std::vector<call*> const& parts) {
    std::vector<split_wish> wishes;
    for (auto const* const one : parts) wishes.push_back({one->color, one->key});
    std::vector<std::shared_ptr<team>> made;
    auto const together = split_parts(wishes);
    for (auto const& ranks : together) {
      auto options = options_;
      options.devices.clear();
      for (int const rank : ranks) {
        options.devices.push_back(options_.devices[static_cast<std::size_t>(rank)]);
      }
      made.push_back(std::make_shared<team>(options));
    }
    for (std::size_t part = 0; part < together.size(); ++part) {
      int rank = 0;
      for (int const old : together[part]) {
        parts[static_cast<std::size_t>(old)]->part.deliver(made[part], rank++);
      }
    }
  }

  [[nodiscard]] std::string seconds() const {
    auto const text = std::to_string(static_cast<double>(options_.deadline.count()) * 1e-9);
    return text.substr(0, text.find('.') + 4);
  }

  blink::device_options options_;  // with the devices of this process
  std::unique_ptr<issuer<P>> issuer_;
  std::unique_ptr<across> across_;  // null: all ranks are of this process
  call_queues<P> queues_;
  std::map<derivation, std::unique_ptr<derived_id>> derived_;  // if all ranks are of this process
  bool is_busy_ = false;  // a thread waits for other processes, without the lock
  outcome failure_;
};

}  // namespace blink_nccl
