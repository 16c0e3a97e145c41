// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/cuda/runtime/device_handles.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/stream_ends.hpp>
#include <blink/transports/nccl/nccl_calls.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One send or receive of a rank of this process.
struct nccl_transfer {
  bool sends = false;
  int rank = 0;
  int peer = 0;
  void* data = nullptr;  ///< only read if `sends`
  std::size_t bytes = 0;
};

/// The communicators of NCCL of a process: groups of sends and receives, waits with a deadline, and
/// the reaction to failures.
template <polled_runtime Devices, nccl_calls Calls>
class nccl_team {
 public:
  using communicator = typename Calls::communicator;
  using stream = typename Devices::stream;
  using clock = std::chrono::steady_clock;

  /// all:      by rank of this process: consecutive ranks, each on a separate device
  /// deadline: of waits for other processes
  /// Throws:   precondition_error if the ranks are not consecutive or share a device; nccl_error,
  ///           device_error.
  nccl_team(Devices& driver, Calls& calls, std::vector<communicator> const& all,
            std::chrono::nanoseconds deadline)
      : driver_(driver), calls_(calls), all_(all), deadline_(deadline) {
    expects(!all.empty(), "nccl_ranks: no communicators, expected at least one");
    expects(all.size() == 1 || !driver.launches_block(),
            "nccl_ranks: CUDA_LAUNCH_BLOCKING is set, expected asynchronous launches for several "
            "devices");
    for (std::size_t k = 0; k < all.size(); ++k) {
      int rank = 0, ranks = 0, device = 0;
      int const position = static_cast<int>(k);
      expect_success(calls_.rank(all[k], rank), "ncclCommUserRank", position);
      expect_success(calls_.rank_count(all[k], ranks), "ncclCommCount", rank);
      expect_success(calls_.device(all[k], device), "ncclCommCuDevice", rank);
      if (k == 0) {
        first_rank_ = rank;
        rank_count_ = ranks;
      }
      if (rank != first_rank_ + position || ranks != rank_count_) {
        throw precondition_error("nccl_ranks: communicator " + std::to_string(k) + " is rank " +
                                 std::to_string(rank) + " of " + std::to_string(ranks) +
                                 ", expected rank " + std::to_string(first_rank_ + position) +
                                 " of " + std::to_string(rank_count_) +
                                 ", as the ranks of a process follow each other");
      }
      if (std::find(devices_.begin(), devices_.end(), device) != devices_.end()) {
        throw precondition_error("nccl_ranks: rank " + std::to_string(rank) + " is on device " +
                                 std::to_string(device) +
                                 ", where another rank of this process is");
      }
      devices_.push_back(device);
    }
    for (int const device : devices_) own_.emplace_back(driver, device);
    ends_.emplace(driver, devices_);
  }
  nccl_team(nccl_team const&) = delete;
  nccl_team& operator=(nccl_team const&) = delete;

  /// The number of ranks of all processes.
  [[nodiscard]] int rank_count() const { return rank_count_; }
  /// The first rank of this process; its ranks are consecutive.
  [[nodiscard]] int first_rank() const { return first_rank_; }
  [[nodiscard]] int ranks_here() const { return static_cast<int>(all_.size()); }
  /// By rank of this process.
  [[nodiscard]] std::vector<int> const& devices() const { return devices_; }
  [[nodiscard]] Devices& driver() const { return driver_; }
  /// The team's own streams, by rank of this process, for work that is not a call.
  [[nodiscard]] std::vector<stream> own_streams() const {
    std::vector<stream> result;
    for (auto const& each : own_) result.push_back(each.get());
    return result;
  }

  /// Puts transfers into the streams of their ranks, as one group.
  ///
  /// on:     by rank of this process
  /// Throws: nccl_error if NCCL refuses; collective_error if its communicators do not block and the
  ///         group does not end before the deadline. After that nothing moves.
  void issue(std::vector<nccl_transfer> const& transfers, std::vector<stream> const& on) {
    if (transfers.empty()) return;
    expect_or_fail(calls_.group_start(), "ncclGroupStart", first_rank_);
    for (auto const& one : transfers) {
      auto const k = static_cast<std::size_t>(one.rank - first_rank_);
      int const result = one.sends ? calls_.send(one.data, one.bytes, one.peer, all_[k], on[k])
                                   : calls_.receive(one.data, one.bytes, one.peer, all_[k], on[k]);
      if (is_fine(result)) continue;
      std::string const what = std::string(one.sends ? "ncclSend of " : "ncclRecv of ") +
                               std::to_string(one.bytes) + " bytes " + (one.sends ? "to" : "from") +
                               " rank " + std::to_string(one.peer);
      nccl_error const error = error_of(result, what, one.rank);
      (void)calls_.group_end();  // its result is no longer of interest
      fail({error.what(), one.rank, one.peer, -1, -1});
      throw error;
    }
    int const result = calls_.group_end();
    expect_or_fail(result, "ncclGroupEnd", first_rank_);
    if (result != nccl_in_progress) return;
    wait_until("ncclGroupEnd", [] { return 0; }, [&] { return !is_in_progress(); });
  }

  /// Waits until streams have reached their present end, by rank of this process. Replaces earlier
  /// points of the streams.
  ///
  /// progress: the deadline restarts each time that its result changes
  /// Throws:   collective_error with the cause if a communicator has failed or the deadline is
  ///           over. The work in the streams has then ended, unless it cannot.
  template <class Progress>
  void wait(std::vector<stream> const& on, std::string const& what, Progress const& progress) {
    ends_->set(on);
    auto const is_over = [&] { return ends_->are_reached(); };
    try {
      wait_until(what, progress, is_over);
    } catch (collective_error const&) {
      (void)let_end(is_over);
      throw;
    }
  }

  /// Waits after a failure until the work in streams has ended, at most for the deadline. Returns
  /// true if it has.
  template <class IsOver>
  [[nodiscard]] bool let_end(IsOver const& is_over) const {
    return poll_until(clock::now() + deadline_, is_over);
  }

  /// The same for the team's own streams.
  [[nodiscard]] bool let_end() {
    try {
      ends_->set(own_streams());
      return let_end([&] { return ends_->are_reached(); });
    } catch (device_error const&) {  // a device that is lost reports nothing
      return false;
    }
  }

  /// Waits until `is_over()`, as `wait` does.
  template <class Progress, class IsOver>
  void wait_until(std::string const& what, Progress const& progress, IsOver const& is_over) {
    auto seen = progress();
    auto end = clock::now() + deadline_;
    polling_pause const pause;
    while (!is_over()) {
      check();
      if (clock::now() > end) {
        auto now = progress();  // the host itself may have been held up
        if (now == seen) {
          if (is_over()) return;
          fail({what + ": " + own_name() + " saw no progress for " + seconds_text(deadline_) +
                    ": a rank has died, has not made the call or has made another one, or a stream "
                    "is held up",
                first_rank_, -1, -1, -1});
          throw_failure();
        }
        seen = now;
        end = clock::now() + deadline_;
      }
      pause();
      if (auto now = progress(); now != seen) {
        seen = now;
        end = clock::now() + deadline_;
      }
    }
    check();
  }

  // --- failures ---

  /// True if a failure is known. Does not ask NCCL.
  [[nodiscard]] bool has_failed() const { return failure_.has_value(); }
  /// Throws: collective_error if a call has failed, or a communicator of NCCL reports a failure
  ///         now.
  void check() {
    if (failure_) throw_failure();
    for (std::size_t k = 0; k < all_.size(); ++k) {
      int code = nccl_success;
      int const rank = first_rank_ + static_cast<int>(k);
      int const result = calls_.asynchronous_error(all_[k], code);
      if (!is_fine(result)) code = result;
      if (is_fine(code)) continue;
      fail({error_of(code, "ncclCommGetAsyncError", rank).what(), rank, -1, -1, -1});
      throw_failure();
    }
  }
  /// Aborts all communicators of NCCL of the process, which ends the work in streams here and makes
  /// other processes fail. Only the first failure is reported.
  void fail(collective_error const& why) {
    if (failure_) return;
    failure_ = why;
    for (auto const& one : all_) (void)calls_.abort(one);
  }
  /// "rank 2", or "ranks 2 to 3": the ranks of this process, for errors.
  [[nodiscard]] std::string own_name() const {
    return all_.size() == 1 ? "rank " + std::to_string(first_rank_)
                            : "ranks " + std::to_string(first_rank_) + " to " +
                                  std::to_string(first_rank_ + ranks_here() - 1);
  }

 private:
  [[nodiscard]] static bool is_fine(int result) {
    return result == nccl_success || result == nccl_in_progress;
  }
  [[nodiscard]] static std::string seconds_text(std::chrono::nanoseconds time) {
    auto text = std::to_string(std::chrono::duration<double>(time).count());
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text + " s";
  }
  [[nodiscard]] bool is_in_progress() {
    for (auto const& one : all_) {
      int code = nccl_success;
      if (calls_.asynchronous_error(one, code) == nccl_success && code == nccl_in_progress) {
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] nccl_error error_of(int result, std::string const& what, int rank) {
    auto const k = static_cast<std::size_t>(std::clamp(rank - first_rank_, 0, ranks_here() - 1));
    std::string const more = calls_.last_error(all_[k]);
    return {"rank " + std::to_string(rank) + ": " + what + ": " + calls_.text_of(result) +
                (more.empty() ? "" : " (" + more + ")"),
            rank, result};
  }
  void expect_success(int result, char const* what, int rank) {
    if (!is_fine(result)) throw error_of(result, what, rank);
  }
  void expect_or_fail(int result, char const* what, int rank) {
    if (is_fine(result)) return;
    nccl_error const error = error_of(result, what, rank);
    fail({error.what(), rank, -1, -1, -1});
    throw error;
  }
  [[noreturn]] void throw_failure() const { throw *failure_; }

  Devices& driver_;
  Calls& calls_;
  std::vector<communicator> all_;  // by rank of this process
  std::chrono::nanoseconds deadline_;
  int first_rank_ = 0;
  int rank_count_ = 0;
  std::vector<int> devices_;
  std::vector<device_stream<Devices>> own_;
  std::optional<stream_ends<Devices>> ends_;
  std::optional<collective_error> failure_;
};

}}  // namespace blink::BLINK_ABI
