// SPDX-License-Identifier: Apache-2.0
#pragma once

// What blink keeps for one MPI communicator.

#include <blink/core/collective.hpp>
#include <blink/running/call/detail/call_frame.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/transports/messages/message_sizes.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include "agreement.hpp"
#include "call_stack.hpp"
#include "eager_room.hpp"
#include "pending_calls.hpp"
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace blink_pmpi {

/// The MPI calls that blink may serve.
enum class entry : std::size_t {
  allgather,
  allgatherv,
  allreduce,
  alltoall,
  alltoallv,
  barrier,
  bcast,
  gather,
  gatherv,
  reduce,
  reduce_scatter,
  reduce_scatter_block,
  scatter,
  scatterv
};
inline constexpr std::array<char const*, 14> entry_names{
    "Allgather", "Allgatherv", "Allreduce", "Alltoall", "Alltoallv",      "Barrier",
    "Bcast",     "Gather",     "Gatherv",   "Reduce",   "Reduce_scatter", "Reduce_scatter_block",
    "Scatter",   "Scatterv"};

/// The wait policy of calls through blink. A call that the program has started waits by returning
/// to it. A rank that waits in a blocking call lets its started calls go on.
class started_wait {
 public:
  using waits = blink::message_wait<blink::mpi_channel>;

  started_wait(waits const& blocking, blink::wait_options const& options,
               blink::mpi_transport const& transport)
      : blocking_(blocking), options_(&options), transport_(&transport) {}

  [[nodiscard]] blink::status on_progress() {
    if (tests_.has_looked()) blocking_.resume();
    tests_.on_progress();
    return blocking_.on_progress();
  }
  [[nodiscard]] blink::status on_idle() {
    if (!pending_calls::the().are_active()) return blocking_.on_idle();
    if (auto* const stack = call_stack::present()) {
      stack->leave();
      return after_a_test();
    }
    pending_calls::the().try_progress();
    return blocking_.on_idle();
  }
  [[nodiscard]] blink::status on_idle_tests(std::uint64_t nanoseconds) {
    return blocking_.on_idle_tests(nanoseconds);
  }
  void resume() { blocking_.resume(); }
  [[nodiscard]] static std::uint64_t now() { return waits::now(); }

 private:
  // The time that the program computes between tests counts little. Reading the clock takes as long
  // as several tests.
  [[nodiscard]] blink::status after_a_test() {
    if (++count_ % 16 == 0 && tests_.on_idle(now(), *options_, transport_->rank_count())) {
      return blocking_.on_idle_tests(tests_.waited());
    }
    return transport_->is_aborted() ? blink::status::aborted : blink::status::ok;
  }

  waits blocking_;
  blink::wait_options const* options_;
  blink::mpi_transport const* transport_;
  blink::detail::idle_tests tests_{};
  unsigned count_ = 0;
};

/// A communicator whose calls wait so.
class shim_communicator : public blink::mpi_communicator {
 public:
  using blink::mpi_communicator::mpi_communicator;
  [[nodiscard]] started_wait waits() const {
    return {blink::mpi_communicator::waits(), options().waits, transport()};
  }
};

/// The blink communicator of an MPI communicator, and its prepared schedules by root.
class attached {
 public:
  /// own: a duplicate of the program's communicator, which this object frees
  attached(agreement const& agreed, MPI_Comm own)
      : agreed_(agreed), own_(own), began_in_started_call_(call_stack::present() != nullptr) {}
  attached(attached const&) = delete;
  attached& operator=(attached const&) = delete;
  ~attached() {
    me_.reset();
    if (own_ != MPI_COMM_NULL && blink::mpi_channel::runs()) PMPI_Comm_free(&own_);
  }
  void begin(bool shares_memory) {
    auto options = options_wanted(blink::message_options());
    options.shares_memory = shares_memory;
    options.point_to_point = false;  // programs send through the library
    if (agreed_.keeps_order) options.order = blink::order_promise::ranks;
    // A rank that is given up ends the job by default. Programs that set a deadline may go on, so
    // no buffer of theirs is lent then.
    auto const zero_copy =
        agreed_.has_deadline ? blink::no_zero_copy : blink::usual_zero_copy_threshold;
    me_ = std::make_unique<shim_communicator>(own_, options, blink::default_eager_limit, zero_copy);
    pending_calls::the().spins = me_->options().waits.spins;
  }
  /// Leaks the communicator, because other ranks may never end it.
  void give_up() { static_cast<void>(me_.release()); }
  /// The duplicate. Started calls make calls of the library on it, because the program may make
  /// others on its own communicator meanwhile.
  [[nodiscard]] MPI_Comm own() const { return own_; }
  /// True if the agreement was part of a started call. Then ranks may differ in how much they know
  /// when they start the next ones, and all started calls wait in line.
  [[nodiscard]] bool began_in_started_call() const { return began_in_started_call_; }

  [[nodiscard]] bool is_used() const { return me_ != nullptr; }
  [[nodiscard]] bool shares_memory() const {
    return me_ != nullptr && me_->options().shares_memory;
  }
  [[nodiscard]] shim_communicator& comm() const { return *me_; }
  /// True if a call of `bytes` bytes, equal on all ranks, goes through blink.
  [[nodiscard]] bool takes(std::uint64_t bytes, int root = 0) const {
    return bytes > 0 && bytes >= agreed_.least && root >= 0 && root < ranks();
  }
  /// The same for a reduction. If the order of the ranks was promised, all sizes go through blink.
  [[nodiscard]] bool takes_reduction(std::uint64_t bytes, int root = 0) const {
    return takes(bytes, root) || (agreed_.keeps_order && bytes > 0 && root >= 0 && root < ranks());
  }
  /// True if a call goes through blink whose number of bytes no rank knows.
  [[nodiscard]] bool takes_unknown() const { return agreed_.least == 0; }
  /// The same for blocks to or from one rank. True only for few ranks, because every rank sends its
  /// data to all others.
  [[nodiscard]] bool takes_unknown(int root) const {
    return takes_unknown() && ranks() <= few && root >= 0 && root < ranks();
  }
  /// True if it is faster that each rank gathers all `bytes` bytes and uses its part. An eager
  /// payload takes one step, but blocks of unequal sizes are not sent eagerly.
  [[nodiscard]] bool is_small(std::uint64_t bytes) const { return ranks() <= few && bytes <= 4096; }
  [[nodiscard]] int rank() const { return me_->rank(); }
  [[nodiscard]] int ranks() const { return me_->rank_count(); }
  /// The room for eager data of blocks whose sizes only sender and receiver know.
  [[nodiscard]] eager_room& room() { return room_; }
  [[nodiscard]] bool has_ended() { return !me_ || me_->try_end(); }

  [[nodiscard]] blink::prepared_schedule& prepared(blink::collective kind, int root = 0) {
    auto& known = plans_[{kind, root}];
    if (known == nullptr) {
      // MPI may require the order of the ranks, which a binomial tree does not keep
      bool const keeps_order = kind == blink::collective::reduce;
      auto const made = keeps_order ? blink::flat_schedule(ranks(), root)
                                    : blink::default_schedule(kind, ranks(), root);
      known = &me_->prepare(made);
    }
    return *known;
  }

 private:
  static constexpr int few = 8;  // ranks that send their data to all others

  agreement agreed_;
  MPI_Comm own_;
  bool began_in_started_call_;
  std::unique_ptr<shim_communicator> me_;
  std::map<std::pair<blink::collective, int>, blink::prepared_schedule*> plans_;
  eager_room room_;
};

}  // namespace blink_pmpi
