// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/collective_error.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/status.hpp>
#include <blink/collectives/tree_walk.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/transports/link_parts.hpp>
#include <blink/transports/patience.hpp>
#include <blink/transports/world.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>

namespace blink::inline BLINK_ABI::detail {

/// Names its arguments, for comparing what ranks called and for telling it.
template <class... Types>
[[nodiscard]] constexpr std::string_view names_of() {
  std::string_view const text = __PRETTY_FUNCTION__;
  auto const first = text.find("Types");
  auto const last = text.find_first_of(";]", first);  // gcc goes on with "; std::string_view = …"
  return text.substr(first, last == std::string_view::npos ? last : last - first);
}

/// The element types that cross links: bytes are all that is needed to copy them.
template <class T>
inline constexpr bool is_element = std::is_trivially_copyable_v<T> && !std::is_const_v<T>;

/// Stands where a collective does not reduce.
struct no_reducer {
  template <class T>
  BLINK_HOST_DEVICE T const& operator()(T const& a, T const&) const {
    return a;
  }
};

/// Why a rank gave up.
template <transport Link>
[[nodiscard]] collective_error describe_timeout(Link const& link, world_state const& world,
                                                std::uint64_t call, collective kind,
                                                lane_list const& lanes, double seconds) {
  auto const whole = std::to_string(seconds);
  auto const who = "rank " + std::to_string(link.rank()) + ", " + std::string(to_text(kind));
  lane const* blocked = nullptr;
  for (std::size_t k = 0; k < lanes.count; ++k) {
    if (!lanes.first[k].is_finished && lanes.first[k].blocked_on != nullptr) {
      blocked = &lanes.first[k];
      break;
    }
  }
  int const tree = blocked == nullptr ? -1 : static_cast<int>(blocked->tree);
  auto const chunk = blocked == nullptr ? -1 : static_cast<long long>(blocked->done);
  auto const where = blocked == nullptr
                         ? std::string()
                         : ", tree " + std::to_string(tree) + ", chunk " + std::to_string(chunk) +
                               " of " + std::to_string(blocked->chunks);
  for (int peer = 0; peer < link.rank_count(); ++peer) {  // the cause, if it is elsewhere
    if (world.has_entered(peer, call)) continue;
    auto const how =
        world.is_gone(peer) ? " has left without entering call " : " has not entered call ";
    return {who + where + ": rank " + std::to_string(peer) + how + std::to_string(call) +
                " (waited " + whole + " s)",
            link.rank(), peer, tree, chunk};
  }
  if (blocked == nullptr)
    return {who + ": no progress in " + whole + " s", link.rank(), -1, -1, -1};
  auto const& end = *blocked->blocked_on;
  auto const how = end.sends ? " has not taken it in " : " has not sent it in ";
  return {who + where + ": rank " + std::to_string(end.peer) + how + whole + " s", link.rank(),
          end.peer, tree, chunk};
}

/// Waits until every rank has entered the call: their records may be reused afterwards, and all
/// have been found to call the same.
template <transport Link, patience Wait>
[[nodiscard]] status meet_all(Link const& link, Wait& wait) {
  for (int peer = 0; peer < link.rank_count(); ++peer) {
    while (!link.is_present(peer)) {
      if (auto const result = wait.after_none(); result != status::ok) return result;
    }
  }
  return wait.after_progress();
}

/// The walls around `walk` on host threads: agree, cut, walk, and turn failure into an exception.
///
/// count: elements of the whole buffer, or of one rank's block where every rank roots a share
template <chunking Chunks, class Context, class T, class Reducer>
void run_collective(Context& me, prepared_schedule& plan, collective kind, T const* input,
                    T* output, std::size_t count, Reducer const& reduce) {
  static_assert(is_element<T>, "blink: elements of collectives are trivially copyable types");
  static_assert(reducer_for<Reducer, T>,
                "blink: this reducer cannot combine two elements of this type into a third");
  static_assert(alignof(T) <= 128, "blink: elements need an alignment of at most 128 bytes");
  plan.expect_carries(kind);
  if (plan.source().rank_count != me.rank_count()) {
    throw precondition_error("schedule: prepared for another number of ranks");
  }
  if constexpr (!is_commutative<Reducer>) {
    expects(plan.keeps_order(),
            "a reducer that is not commutative needs a schedule that keeps the order of the ranks");
  }
  auto const ranks = static_cast<std::size_t>(me.rank_count());
  expects(count <= std::numeric_limits<std::size_t>::max() / sizeof(T) / ranks,
          "count: the buffer has more bytes than an address can name");
  expects(sizeof(T) <= plan.tables().layout().slot_bytes,
          "world_options: slot_bytes is less than the size of one element");

  using link_type = typename Context::link_type;
  auto const group = me.group();
  bool const leads = group.thread_rank() == 0;
  auto& world = me.state();
  auto& shared = me.shared();
  int const rank = me.rank();
  lane_list const lanes = plan.tables().lanes(rank, kind);
  if (leads) {
    std::fill_n(shared.seen.get(), ranks, false);
    call_signature const signature{kind, &plan, count, sizeof(T), names_of<T, Reducer, Chunks>()};
    std::uint64_t const call = world.enter(rank, {signature, input, output});
    shared.link = link_type(link_parts{&world, &plan, shared.seen.get(), call, rank});
    shared.call = call;
    for (std::size_t k = 0; k < lanes.count; ++k) {
      plan.set_call<Chunks>(lanes.first[k], kind, count, sizeof(T));
      if (!world.is_aborted()) open_lane(shared.link, lanes.first[k], sizeof(T));
    }
  }
  group.sync();

  call_buffers<T> buffers{input, output, false};
  std::size_t const written = has_broadcast_phase(kind) || kind == collective::reduce ? count : 0;
  buffers.streams =
      written * sizeof(T) * (has_equal_roots(kind) ? ranks : 1) >= me.options().streaming_bytes;
  host_patience wait(me.options().waits, world);
  status result = world.is_aborted() ? status::aborted : status::ok;
  if (group.from_leader(result == status::ok)) {
    result = walk(group, shared.link, lanes.first, lanes.count, buffers, reduce, wait);
  }
  if (leads) {
    if (result == status::ok) result = meet_all(shared.link, wait);
    if (result == status::timed_out) {
      auto const seconds = std::chrono::duration<double>(me.options().waits.deadline).count();
      world.fail(describe_timeout(shared.link, world, shared.call, kind, lanes, seconds));
    }
    if (result == status::ok) {
      for (std::size_t k = 0; k < lanes.count; ++k) close_lane(lanes.first[k]);
      world.leave(rank);
    } else {
      world.leave_after_failure(rank, [] { std::this_thread::yield(); });
    }
  }
  if (group.from_leader(result == status::ok)) return;
  collective_error const cause = world.failure();
  if (cause.rank == rank || cause.peer < 0) throw cause;
  throw collective_error("rank " + std::to_string(rank) + ", " + std::string(to_text(kind)) +
                             ": ended because of " + cause.what(),
                         rank, cause.peer == rank ? cause.rank : cause.peer, cause.tree,
                         cause.chunk);
}

}  // namespace blink::inline BLINK_ABI::detail
