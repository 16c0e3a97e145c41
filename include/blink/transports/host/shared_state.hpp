// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/duration.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/eager_payload.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/detail/host_clock.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/transports/host/detail/rank_state.hpp>
#include <blink/transports/host/shared_addresses.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

class shared_state;
/// See `agree_on_survivors.hpp`.
template <class = when_used>
[[nodiscard]] std::vector<int> agree_on_survivors(shared_state& state, int rank,
                                                  nanoseconds longest);

/// State of ranks that share memory: the calls that each rank has entered, with their parameters,
/// and failures.
///
/// Its memory may belong to several processes. So it holds no pointers into itself, and no locks
/// that a dead rank could keep. It begins with all bytes 0.
class shared_state {
 public:
  /// Bytes of the state of `rank_count` ranks.
  [[nodiscard]] static constexpr std::size_t bytes(int rank_count) {
    auto const ranks = static_cast<std::size_t>(rank_count);
    return sizeof(head) + ranks * sizeof(rank_state) + ranks * words(rank_count) * 8;
  }

  /// State for ranks of this process.
  ///
  /// Throws: precondition_error beyond 65536 ranks.
  template <class = when_used>
  explicit shared_state(int rank_count)
      : rank_count_(rank_count), own_(memory_source{}, bytes(rank_count)) {
    expects(rank_count <= 1 << rank_bits, "shared_state: too many ranks, expected at most 65536");
    std::memset(own_.data(), 0, own_.size());
    place(own_.data());
  }
  /// State for ranks that share `memory`, which outlives this object.
  ///
  /// Pre: `bytes(rank_count)` bytes aligned to 128, all 0 before the first rank uses them.
  shared_state(int rank_count, void* memory) : rank_count_(rank_count) { place(memory); }

  [[nodiscard]] int rank_count() const { return rank_count_; }

  using entry = detail::call_entry;

  /// Sets where this process maps the memory that all ranks share, and the addresses at which it
  /// maps pages a second time. Without this call all ranks have the same addresses.
  void set_addresses(void* base, shared_addresses const& more) {
    base_ = reinterpret_cast<std::uintptr_t>(base);
    more_ = &more;
  }

  /// Enters the next call of `rank`. Returns the number of the call, counted from 1.
  ///
  /// eager:    the part of its input that all ranks may read, at most `largest_eager_bytes`
  /// salt:     options that must be equal on all ranks; added to the call id
  /// touches:  true if the rank will read or write buffers of peers. Then it checks `is_aborted`
  ///           before it does, see `exit_failed_call`.
  ///
  /// An entry is overwritten two calls later. By then all ranks have read it, because a call ends
  /// only when all ranks have entered it, and so have ended the one before.
  std::uint64_t enter(int rank, call_record const& record, eager_payload const& eager = {},
                      std::uint64_t salt = 0, bool touches = true) {
    auto& board = at(rank);
    std::uint64_t const call = ++board.calls;
    auto& own = board.entries[call % 2];
    std::uint64_t const call_id = record.parameters.hash() + salt;
    if (std::exchange(board.hashes[call % 2], call_id) != call_id) {
      board.call_ids[call % 2] = record.call_id();
    }
    board.waits_for.store(0, std::memory_order_relaxed);
    if (touches) {
      resume(rank);
    } else {  // does not wait until all earlier writes have left this core
      board.is_inside.store(at_work, std::memory_order_release);
    }
    // One write after the other, because a peer that reads in between takes the cache line away.
    own.call_id = call_id;
    own.input = shared_address_of(record.input);
    own.output = shared_address_of(record.output);
    if (eager.data != nullptr) {
      std::size_t const bytes = eager.whole(rank_count_);
      std::memcpy(eager_data_of(rank, call, bytes), eager.data, bytes);
    }
    publish(own.call, call);
    wake_those_that_wait_for(rank);
    return call;
  }
  void exit_call(int rank) { at(rank).is_inside.store(outside, std::memory_order_release); }
  /// Suspends the call of a rank: it touches no buffers of peers until it resumes, and checks for a
  /// failure then.
  void suspend(int rank) { at(rank).is_inside.store(resting, std::memory_order_release); }
  /// Called before `is_aborted` is read, see `exit_failed_call`.
  void resume(int rank) { at(rank).is_inside.store(at_work); }

  [[nodiscard]] bool has_entered(int rank, std::uint64_t call) const {
    return observe(at(rank).entries[call % 2].call) >= call;
  }
  /// True if the rank has done all that its peers need of it in this call.
  [[nodiscard]] bool has_ended(int rank, std::uint64_t call) const {
    std::uint64_t const entered = calls_of(rank);
    return entered > call || (entered == call && !is_inside(rank));
  }
  [[nodiscard]] bool is_inside(int rank) const { return at(rank).is_inside.load() != outside; }
  /// True if the peer calls the same as this rank. Pre: both have entered the call.
  [[nodiscard]] bool call_the_same(int rank, int peer, std::uint64_t call) const {
    return called(peer, call).call_id == at(rank).hashes[call % 2];
  }
  /// Pre: has_entered(rank, call).
  [[nodiscard]] entry const& called(int rank, std::uint64_t call) const {
    return at(rank).entries[call % 2];
  }
  /// The buffers of a rank, at their addresses in this process.
  [[nodiscard]] void const* input_of(int rank, std::uint64_t call) const {
    return reinterpret_cast<void const*>(called(rank, call).input + base_);
  }
  [[nodiscard]] void* output_of(int rank, std::uint64_t call) const {
    return reinterpret_cast<void*>(called(rank, call).output + base_);
  }
  /// The place of a rank's eager payload of `bytes` in this call: in its entry if it fits, else
  /// beside it.
  [[nodiscard]] std::byte* eager_data_of(int rank, std::uint64_t call, std::size_t bytes) const {
    auto& board = at(rank);
    auto& in_entry = board.entries[call % 2].eager;
    return bytes <= in_entry.size() ? in_entry.data() : board.eager[call % 2].data();
  }
  /// The description of a rank's call, for messages.
  [[nodiscard]] call_description const& call_id(int rank, std::uint64_t call) const {
    return at(rank).call_ids[call % 2];
  }

  /// True if the present call of a rank has failed, or the next one if it is outside a call. A
  /// failure of a later call does not concern it, because a rank in that call has done its part of
  /// this one.
  [[nodiscard]] bool is_aborted(int rank) const {
    std::uint64_t const failed = head_->failure.load();
    return failed != 0 && call_of(failed) <= present_call(rank);
  }

  /// True if a call has failed, on whatever rank.
  [[nodiscard]] bool has_failed() const { return head_->failure.load() != 0; }

  /// Fails the present call of a rank, or the next one if it is outside a call, and all later ones,
  /// on all ranks. The first failure of the earliest call is the one that is reported.
  ///
  /// rank: the rank that reports the failure. Its text is complete before the failure counts, so
  ///       that a rank that dies here does no harm.
  template <class = when_used>
  void fail(int rank, collective_error const& failure) {
    std::uint64_t const call = present_call(rank);
    std::uint64_t before = head_->failure.load();
    auto const counts = [&] { return before == 0 || call < call_of(before); };
    // A rank never enters an earlier call later, so one report is enough.
    if (!counts() || at(rank).has_reported.exchange(1) != 0) return;
    at(rank).failure.write(failure);
    std::uint64_t const own = call << rank_bits | static_cast<std::uint64_t>(rank);
    while (counts() && !head_->failure.compare_exchange_weak(before, own)) {
    }
    wake_all();
  }
  template <class = when_used>
  [[nodiscard]] collective_error failure() const {
    std::uint64_t const reported = head_->failure.load();
    if (reported == 0) return {"no failure", -1, -1, -1, -1};
    return at(static_cast<int>(reported % (std::uint64_t{1} << rank_bits))).failure.read();
  }

  /// Returns when no rank touches the buffers of another one any more.
  ///
  /// A rank inside the failed call notices the failure after its present chunk or when it resumes,
  /// and also calls this function. A rank inside an earlier call ends it. For ranks that hang it
  /// waits `longest`; afterwards they may still use the buffers of the failed call when they
  /// continue.
  template <class Pause>
  void exit_failed_call(int rank, nanoseconds longest, Pause const& pause) {
    exit_call(rank);
    auto const end = time_after(longest);
    for (int peer = 0; peer < rank_count(); ++peer) {
      while (at(peer).is_inside.load() == at_work) {
        if (is_dead(peer) || detail::host_nanoseconds() > end) break;
        pause();
      }
    }
  }

  /// Marks a rank as having left: it enters no further call.
  void set_gone(int rank, bool is_gone) {
    at(rank).is_gone.store(is_gone ? 1 : 0, std::memory_order_release);
    wake_all();
  }
  [[nodiscard]] bool is_gone(int rank) const {
    return at(rank).is_gone.load(std::memory_order_acquire) != 0;
  }

  enum class loss : std::uint8_t { none, left, died };
  /// Returns how a rank was lost before it had done what its peers need of it; `none` if it has
  /// done that or may still do it.
  ///
  /// is_done: true once it has. It is read once more after a loss is seen, because the rank may do
  ///          it and leave between two looks.
  template <class Done>
  [[nodiscard]] loss loss_before(int rank, Done const& is_done) const {
    if (is_done()) return loss::none;
    auto const found = is_gone(rank) ? loss::left : is_dead(rank) ? loss::died : loss::none;
    return found == loss::none || is_done() ? loss::none : found;
  }
  /// The same for a call.
  [[nodiscard]] loss loss_before_end(int rank, std::uint64_t call) const {
    return loss_before(rank, [&] { return has_ended(rank, call); });
  }
  /// The same for the arrival at a barrier.
  [[nodiscard]] loss loss_before_arrival(int rank, std::uint64_t round) const {
    return loss_before(rank, [&] { return has_arrived_at(rank, round); });
  }

  [[nodiscard]] bool is_dead(int rank) const { return signs_ != nullptr && signs_->is_dead(rank); }
  template <class = when_used>
  [[nodiscard]] std::string describe(int rank) const {
    return signs_ == nullptr ? std::string() : signs_->describe(rank);
  }
  /// Pre: `signs` outlives this object.
  void set_failure_detector(failure_detector const* signs) { signs_ = signs; }

  // --- barriers without a schedule ---

  /// Enters the next barrier of a rank. Returns its number, counted from 1.
  std::uint64_t come(int rank) {
    auto& board = at(rank);
    std::uint64_t const round = board.barriers.load(std::memory_order_relaxed) + 1;
    board.barriers.store(round, std::memory_order_release);  // see `can_never_meet`
    auto const before = head_->arrivals.fetch_add(1, std::memory_order_acq_rel);
    if (before + 1 == round * static_cast<std::uint64_t>(rank_count_)) wake_all();
    return round;
  }
  /// True if all ranks have entered this barrier. Their earlier writes are visible then.
  [[nodiscard]] bool all_arrived(std::uint64_t round) const {
    return head_->arrivals.load(std::memory_order_acquire) >=
           round * static_cast<std::uint64_t>(rank_count_);
  }
  [[nodiscard]] bool has_arrived_at(int rank, std::uint64_t round) const {
    return barriers_of(rank) >= round;
  }

  /// The number of calls, and of barriers, that a rank has entered.
  [[nodiscard]] std::uint64_t calls_of(int rank) const {
    auto const& entries = at(rank).entries;
    std::uint64_t const even = observe(entries[0].call);
    std::uint64_t const odd = observe(entries[1].call);
    return even > odd ? even : odd;
  }
  [[nodiscard]] std::uint64_t barriers_of(int rank) const {
    return at(rank).barriers.load(std::memory_order_acquire);
  }

  // --- stalls ---

  /// Publishes the stall of a rank and a heartbeat; called repeatedly while it waits.
  void set_waiting(int rank, stall const& where) {
    auto& board = at(rank);
    board.waits_for.store(encode_stall(where), std::memory_order_relaxed);
    board.heartbeats.fetch_add(1, std::memory_order_relaxed);
  }
  void set_working(int rank) { at(rank).waits_for.store(0, std::memory_order_relaxed); }

  /// The published stall of a rank; `peer` is -1 if it does not wait for a single peer.
  /// `encode_stall` documents what is kept.
  [[nodiscard]] reported_stall waiting(int rank) const {
    return decode_stall(at(rank).waits_for.load(std::memory_order_relaxed));
  }
  /// A counter that grows as long as the rank waits.
  [[nodiscard]] std::uint64_t heartbeats(int rank) const {
    return at(rank).heartbeats.load(std::memory_order_relaxed);
  }

  /// The times of moving chunks of a rank, for its peers.
  [[nodiscard]] detail::published_times& moved(int rank) const { return at(rank).moved; }

  // --- sleep ---

  /// See `detail::doorbell`.
  [[nodiscard]] std::uint32_t prepare_sleep(int rank) {
    return at(rank).doorbell.prepare_sleep(head_->sleepers);
  }
  void sleep(int rank, std::uint32_t ticket, nanoseconds longest) {
    at(rank).doorbell.sleep(ticket, longest);
  }
  void end_sleep(int rank) { at(rank).doorbell.end_sleep(head_->sleepers); }
  void ring(int rank) { at(rank).doorbell.ring(head_->sleepers); }
  /// Wakes ranks that sleep until this one enters a call. Waking all of them at each entry takes
  /// long if there are many: 1,024 threads on two cores needed 0.6 s for each call.
  void wake_those_that_wait_for(int rank) {
    if (head_->sleepers.load(std::memory_order_relaxed) == 0) return;
    for (int other = 0; other < rank_count(); ++other) {
      if (waiting(other).where.peer == rank) ring(other);
    }
  }
  void wake_all() {
    if (head_->sleepers.load(std::memory_order_relaxed) == 0) return;
    for (int rank = 0; rank < rank_count(); ++rank) ring(rank);
  }

  template <class>
  friend std::vector<int> agree_on_survivors(shared_state& state, int rank, nanoseconds longest);

 private:
  enum place_in_call : std::uint32_t { outside, at_work, resting };
  using rank_state = detail::rank_state;
  using head = detail::common_state_of_ranks;

  [[nodiscard]] static std::uint64_t time_after(nanoseconds span) {
    return detail::host_nanoseconds() + static_cast<std::uint64_t>(span.count());
  }

  static constexpr int rank_bits = 16;
  [[nodiscard]] static constexpr std::uint64_t call_of(std::uint64_t failure) {
    return failure >> rank_bits;
  }
  // The number of the call that a rank is in, or of its next one.
  [[nodiscard]] std::uint64_t present_call(int rank) const {
    return calls_of(rank) + (is_inside(rank) ? 0 : 1);
  }

  void place(void* memory) {
    head_ = static_cast<head*>(memory);
    boards_ = reinterpret_cast<rank_state*>(head_ + 1);
  }
  [[nodiscard]] rank_state& at(int rank) const { return boards_[rank]; }

  // A bit for each rank.
  [[nodiscard]] static constexpr std::size_t words(int rank_count) {
    return (static_cast<std::size_t>(rank_count) + 63) / 64;
  }
  // Behind the boards; written by one rank.
  [[nodiscard]] std::uint64_t* proposal(int rank) const {
    return reinterpret_cast<std::uint64_t*>(boards_ + rank_count_) +
           static_cast<std::size_t>(rank) * words(rank_count_);
  }

  // Counted from the begin of the shared memory.
  [[nodiscard]] std::uintptr_t shared_address_of(void const* buffer) const {
    auto const at = reinterpret_cast<std::uintptr_t>(buffer);
    return (more_ == nullptr || more_->is_empty() ? at : more_->home_of(at)) - base_;
  }

  int rank_count_;
  memory_block own_;
  head* head_ = nullptr;
  rank_state* boards_ = nullptr;
  failure_detector const* signs_ = nullptr;
  std::uintptr_t base_ = 0;
  shared_addresses const* more_ = nullptr;
};

}}  // namespace blink::BLINK_ABI
