// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/call_signature.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/world_options.hpp>
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
/// - `prepare(plan)` allocates what calls along a schedule need; the same schedule again gives the
///   same object. Ranks may come to it at different times, it does not wait for them.
/// - `holder()` names whoever carries out calls that were started (`call_queue`), until all of them
///   have ended; null: nobody. Others may not call meanwhile.
/// - `expect_outside(kind)` throws precondition_error if the rank is inside a call.
/// - `owner()` stands for the world or session whose prepared schedules it takes (`wire_layout::owner`).
/// - `enter(prepared, record)` begins the next call and tells the others; `link()` is the handle to
///   the peers for it, for all threads of the group once the leader has returned. Where ranks
///   disagree in `record.terms` the call fails on all of them. Anything but `ok`: it has failed
///   already.
/// - `waits()` is how the leader waits during this call; bounded, and it ends when a peer fails.
/// - `meet(wait)` returns when everyone is known to call the same, and the next call may begin.
/// - `rest()` says that the rank, inside a call, touches no buffers until `go_on()`, after which it looks
///   whether the call has failed: nobody who gives up waits for it.
/// - `leave()` ends the call: it was successful.
/// - `fail(where)` makes the present call fail on all ranks, with a text that says who does not
///   come or go on; `fail(why)`, with a text that says why this rank gives up. Of several
///   failures one is told.
/// - `leave_after_failure()` ends the call once no peer touches this rank's buffers any more;
///   `failure()` is why.
/// - It may have `steps()`, the table of what calls do whatever their types (`detail::call_steps`), so that they are
///   compiled where it is made and not in each unit that calls.
/// - Only the leader of the group calls `enter`, `waits` … `leave_after_failure`. After a failure
///   every call fails.
template <class S>
concept session =
    transport<typename S::link_type> &&
    requires(S& me, schedule const& plan, prepared_schedule& prepared, call_record const& record,
             stall const& where, detail::waits_of<S>& wait) {
      { me.rank() } -> std::same_as<int>;
      { me.rank_count() } -> std::same_as<int>;
      requires thread_group<std::remove_cvref_t<decltype(me.group())>>;
      { me.options() } -> std::same_as<world_options const&>;
      { me.prepare(plan) } -> std::same_as<prepared_schedule&>;
      { me.holder() } -> std::same_as<std::atomic<void const*>&>;
      { me.expect_outside(collective{}) } -> std::same_as<void>;
      { me.owner() } -> std::same_as<void const*>;
      { me.enter(prepared, record) } -> std::same_as<status>;
      { me.link() } -> std::same_as<typename S::link_type const&>;
      requires patience<detail::waits_of<S>>;
      { me.meet(wait) } -> std::same_as<status>;
      { me.rest() } -> std::same_as<void>;
      { me.go_on() } -> std::same_as<void>;
      { me.leave() } -> std::same_as<void>;
      { me.fail(where) } -> std::same_as<void>;
      { me.fail(std::string()) } -> std::same_as<void>;
      { me.leave_after_failure() } -> std::same_as<void>;
      { me.failure() } -> std::same_as<collective_error>;
    };

/// A session that has an allocator, since its peers may reach only what that returns:
/// - `allocate<T>(count)` is an array of zeros that peers reach.
/// - `is_reachable(buffer, bytes)` is false if peers should reach them and do not.
template <class S>
concept allocating_session = session<S> && requires(S& me, void const* buffer, std::size_t bytes) {
  { me.template allocate<char>(1).data() } -> std::same_as<char*>;
  { me.is_reachable(buffer, bytes) } -> std::same_as<bool>;
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
template <session Me>
void expect_reachable(Me& me, void const* buffer, std::size_t bytes, std::string_view call,
                      std::string_view which) {
  if constexpr (allocating_session<Me>) {
    if (buffer == nullptr || bytes == 0 || me.is_reachable(buffer, bytes)) return;
    refuse_unreachable(me.rank(), call, which);
  }
}

/// The same bytes where distances are those that peers see, too: a rank may have shared memory at several places.
template <session Me>
[[nodiscard]] void* shared_place(Me& me, void* data) {
  if constexpr (requires {
                  { me.shared_place(data) } -> std::same_as<void*>;
                }) {
    return me.shared_place(data);
  } else {
    return data;
  }
}

}  // namespace detail

/// A session that not every thread may use: `expect_any_thread()` throws precondition_error if only
/// the one that made it may.
template <class S>
concept thread_bound_session = session<S> && requires(S& me) {
  { me.expect_any_thread() } -> std::same_as<void>;
};

/// Some ranks of a world that go on as a world of their own, and as which of them this one does.
struct rank_selection {
  std::vector<int> members;  ///< by new rank, the rank in the world they come from
  int rank = 0;              ///< this one's new rank

  [[nodiscard]] bool is_first() const { return rank == 0 && !members.empty(); }
};

}}  // namespace blink::BLINK_ABI
