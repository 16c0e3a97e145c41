// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/schedule/schedule.hpp>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

class call_steps;

template <class S>
using waits_of = decltype(std::declval<S&>().waits());

template <class = when_used>
[[noreturn]] BLINK_COLD void refuse_second_call(int rank, collective kind, collective present) {
  throw precondition_error(text_of({"rank ", rank, " calls ", to_text(kind), " while its ",
                                    to_text(present), " has not ended"}));
}

}  // namespace detail

/// One rank's handle to a group of ranks, which are threads, processes or the ranks of another
/// library. Every collective takes one.
///
/// Semantics beyond the syntax, in the order in which a call uses the members:
/// - `prepare(schedule)` allocates what calls along a schedule need. The same schedule gives the
///   same object again. It does not wait for peers.
/// - `active_queue()` is the queue that carries out started calls (`call_queue`), until all of them
///   have ended; null means none. No other call may run meanwhile.
/// - `expect_idle(kind)` throws precondition_error if the rank is inside a call.
/// - `owner()` identifies the communicator whose prepared schedules this one takes
///   (`connection_layout::owner`).
/// - `enter(prepared, record)` begins the next call and announces it to the peers. Once the leader
///   has returned from it, `transport()` is the handle to the peers for all threads of the group.
///   If ranks disagree in `record.parameters` the call fails on all of them. A result other than
///   `ok` means that the call has failed already.
/// - `waits()` is the leader's wait policy in this call. Waits are bounded, and they end when a
///   peer fails.
/// - `match(wait)` returns when all ranks are known to call the same, so that the next call may
///   begin.
/// - `suspend()` states that the rank, inside a call, touches no buffers until `resume()`. So no
///   failing peer waits for it. After `resume()` the rank checks whether the call has failed.
/// - `exit_call()` ends a call that succeeded.
/// - `fail(where)` makes the present call fail on all ranks, with a text that names the peer that
///   is late. `fail(why)` fails it with a text that states why this rank gives up. Of several
///   failures one is reported.
/// - `exit_failed_call()` ends the call once no peer touches this rank's buffers any more.
///   `failure()` is the cause.
/// - A communicator derives from `communicator_base`, the part of calls that does not depend on
///   types. So that part is compiled where the communicator is made, and not in each unit that
///   calls.
/// - Only the leader of the group calls `enter`, `waits` … `exit_failed_call`. After a failure
///   every call fails.
template <class S>
concept communicator =
    std::derived_from<S, detail::call_steps> && transport<typename S::transport_type> &&
    requires(S& comm, schedule const& source, prepared_schedule& prepared,
             call_record const& record, stall const& where, detail::waits_of<S>& wait) {
      { comm.rank() } -> std::same_as<int>;
      { comm.rank_count() } -> std::same_as<int>;
      requires thread_group<std::remove_cvref_t<decltype(comm.group())>>;
      { comm.options() } -> std::same_as<communicator_options const&>;
      { comm.prepare(source) } -> std::same_as<prepared_schedule&>;
      { comm.active_queue() } -> std::same_as<std::atomic<void const*>&>;
      { comm.expect_idle(collective{}) } -> std::same_as<void>;
      { comm.owner() } -> std::same_as<void const*>;
      { comm.enter(prepared, record) } -> std::same_as<status>;
      { comm.transport() } -> std::same_as<typename S::transport_type const&>;
      requires wait_policy<detail::waits_of<S>>;
      { comm.match(wait) } -> std::same_as<status>;
      { comm.suspend() } -> std::same_as<void>;
      { comm.resume() } -> std::same_as<void>;
      { comm.exit_call() } -> std::same_as<void>;
      { comm.fail(where) } -> std::same_as<void>;
      { comm.fail(std::string()) } -> std::same_as<void>;
      { comm.exit_failed_call() } -> std::same_as<void>;
      { comm.failure() } -> std::same_as<collective_error>;
    };

/// A communicator with an allocator, because its peers may reach only memory from it:
/// - `allocate<T>(count)` is an array of zeros that peers reach.
/// - `is_reachable(buffer, bytes)` is false if peers need to reach the buffer and cannot.
template <class S>
concept allocating_communicator =
    communicator<S> && requires(S& comm, void const* buffer, std::size_t bytes) {
      { comm.template allocate<char>(1).data() } -> std::same_as<char*>;
      { comm.is_reachable(buffer, bytes) } -> std::same_as<bool>;
    };

namespace detail {

template <class = when_used>
[[noreturn]] BLINK_COLD void refuse_unreachable(int rank, std::string_view call,
                                                std::string_view which) {
  throw precondition_error(
      text_of({call, " on rank ", rank, ": ", which,
               " is not in shared memory, or not all of it: expected memory from allocate(), of a "
               "shared_memory_resource, or in registered_memory"}));
}

/// Checks a buffer of a call. Null is always accepted.
///
/// Throws: precondition_error if peers need to reach the buffer and cannot.
template <communicator Comm>
void expect_reachable(Comm& comm, void const* buffer, std::size_t bytes, std::string_view call,
                      std::string_view which) {
  if constexpr (allocating_communicator<Comm>) {
    if (buffer == nullptr || bytes == 0 || comm.is_reachable(buffer, bytes)) return;
    refuse_unreachable(comm.rank(), call, which);
  }
}

/// Returns the address of the same bytes in the shared memory, where distances are those that peers
/// see. A rank may map its pages at a second address (`registered_memory`).
template <communicator Comm>
[[nodiscard]] void* shared_place(Comm& comm, void* data) {
  if constexpr (requires {
                  { comm.shared_place(data) } -> std::same_as<void*>;
                }) {
    return comm.shared_place(data);
  } else {
    return data;
  }
}

}  // namespace detail

/// A communicator that knows where its ranks are:
/// - `hosts()` has a number for each rank, by rank, which is equal for ranks of one host.
/// - `all_share_memory()` is true if all data crosses in memory that the ranks share.
template <class S>
concept host_aware_communicator = communicator<S> && requires(S const& comm) {
  { comm.hosts() } -> std::convertible_to<std::vector<std::uint64_t>>;
  { comm.all_share_memory() } -> std::same_as<bool>;
};

/// A communicator that forgets schedules. `prepare_for_call(schedule)` prepares one for the next
/// call; afterwards the result may be destroyed.
template <class S>
concept forgetting_communicator = communicator<S> && requires(S& comm, schedule const& source) {
  { comm.prepare_for_call(source) } -> std::same_as<prepared_schedule&>;
};

namespace detail {

/// The hosts of a communicator's ranks, by rank; empty: not known, or one.
template <communicator Comm>
[[nodiscard]] std::vector<std::uint64_t> hosts_of([[maybe_unused]] Comm const& comm) {
  if constexpr (host_aware_communicator<Comm>) {
    return comm.hosts();
  } else {
    return {};
  }
}

}  // namespace detail

/// A communicator that only some threads may use: `expect_any_thread()` throws precondition_error
/// if only the thread that made it may.
template <class S>
concept thread_bound_communicator = communicator<S> && requires(S& comm) {
  { comm.expect_any_thread() } -> std::same_as<void>;
};

/// Some ranks of a communicator that form a new communicator, and this rank's number in it.
struct rank_selection {
  std::vector<int> members;  ///< by new rank, the rank in the original communicator
  int rank = 0;              ///< this rank's new number

  [[nodiscard]] bool is_first() const { return rank == 0 && !members.empty(); }
};

}}  // namespace blink::BLINK_ABI
