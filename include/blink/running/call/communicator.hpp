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
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

template <class S>
using waits_of = decltype(std::declval<S&>().waits());

template <class = when_used>
[[noreturn]] BLINK_COLD void refuse_second_call(int rank, collective kind, collective present) {
  throw precondition_error(text_of({"rank ", rank, " calls ", to_text(kind), " while its ",
                                    to_text(present), " has not ended"}));
}

}  // namespace detail

/// One rank's side of a communicator: what its collectives are called with, whether the ranks are
/// threads, processes or the ranks of another library.
///
/// Semantics beyond the syntax, in the order in which a call uses them:
/// - `prepare(schedule)` allocates what calls along a schedule need; the same schedule again gives the
///   same object. Ranks may come to it at different times, it does not wait for them.
/// - `active_queue()` names whoever carries out calls that were started (`call_queue`), until all of them
///   have ended; null: nobody. Others may not call meanwhile.
/// - `expect_idle(kind)` throws precondition_error if the rank is inside a call.
/// - `owner()` stands for the communicator or communicator whose prepared schedules it takes (`connection_layout::owner`).
/// - `enter(prepared, record)` begins the next call and tells the others; `transport()` is the handle to
///   the peers for it, for all threads of the group once the leader has returned. Where ranks
///   disagree in `record.parameters` the call fails on all of them. Anything but `ok`: it has failed
///   already.
/// - `waits()` is how the leader waits during this call; bounded, and it ends when a peer fails.
/// - `meet(wait)` returns when everyone is known to call the same, and the next call may begin.
/// - `rest()` says that the rank, inside a call, touches no buffers until `go_on()`, after which it looks
///   whether the call has failed: nobody who gives up waits for it.
/// - `leave()` ends the call: it was successful.
/// - `fail(where)` makes the present call fail on all ranks, with a text that says who does not
///   come or go on; `fail(why)`, with a text that says why this rank gives up. Of several
///   failures one is reported.
/// - `exit_failed_call()` ends the call once no peer touches this rank's buffers any more;
///   `failure()` is why.
/// - It may have `steps()`, the table of what calls do whatever their types (`detail::call_steps`), so that they are
///   compiled where it is made and not in each unit that calls.
/// - Only the leader of the group calls `enter`, `waits` … `exit_failed_call`. After a failure
///   every call fails.
template <class S>
concept communicator =
    transport<typename S::transport_type> &&
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

/// A communicator that has an allocator, since its peers may reach only what that returns:
/// - `allocate<T>(count)` is an array of zeros that peers reach.
/// - `is_reachable(buffer, bytes)` is false if peers should reach them and do not.
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

/// Throws: precondition_error if peers should reach a buffer of so many bytes and do not. Null is nobody's.
template <communicator Comm>
void expect_reachable(Comm& comm, void const* buffer, std::size_t bytes, std::string_view call,
                      std::string_view which) {
  if constexpr (allocating_communicator<Comm>) {
    if (buffer == nullptr || bytes == 0 || comm.is_reachable(buffer, bytes)) return;
    refuse_unreachable(comm.rank(), call, which);
  }
}

/// The same bytes where distances are those that peers see, too: a rank may have shared memory at several places.
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

/// A communicator that not every thread may use: `expect_any_thread()` throws precondition_error if only
/// the one that made it may.
template <class S>
concept thread_bound_communicator = communicator<S> && requires(S& comm) {
  { comm.expect_any_thread() } -> std::same_as<void>;
};

/// Some ranks of a communicator that go on as a communicator of their own, and as which of them this one does.
struct rank_selection {
  std::vector<int> members;  ///< by new rank, the rank in the communicator they come from
  int rank = 0;              ///< this one's new rank

  [[nodiscard]] bool is_first() const { return rank == 0 && !members.empty(); }
};

}}  // namespace blink::BLINK_ABI
