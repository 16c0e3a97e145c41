// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/all_reduce_sparse.hpp>
#include <blink/collectives/all_to_all_v.hpp>
#include <blink/collectives/block_mask.hpp>
#include <blink/collectives/exchange.hpp>
#include <blink/collectives/grouped.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/any_call.hpp>
#include <blink/running/call/detail/call_list.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/detail/run_time_call.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/block.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The thread that moves the data of calls that are started and not yet waited for.
enum class progress : std::uint8_t {
  in_waits,  ///< the caller, when it starts, tests or waits: costs nothing, overlaps only as far as
             ///< the caller tests
  thread,    ///< a thread of the queue: overlaps with all that the caller computes, takes a core
};

/// A call of a queue. It is started, then tested or waited for. Then it may be started again, with
/// the new contents of its buffers.
class queued_call {
 public:
  queued_call() = default;

  /// Starts the call.
  ///
  /// Throws: precondition_error if it is already under way, its queue has ended, or calls of
  ///         another queue of the communicator have not ended.
  void start() { list_->start(call_); }
  /// True if the call has ended. Moves its data if the queue has no thread.
  ///
  /// Tested in a loop, a call fails when a peer has died or left, or when nothing has moved for the
  /// deadline. Computation between two tests counts little: at most a sixteenth of the deadline
  /// each time. If the queue has a thread that has not ended the call, the caller yields its core.
  ///
  /// Throws: what the call throws, at each test; precondition_error if it was never started.
  [[nodiscard]] bool test() { return list_->test(*call_); }
  /// Returns when the call has ended. Calls that were started before it end first.
  ///
  /// Throws: as `test`.
  void wait() { list_->wait(*call_); }

 private:
  template <communicator Comm>
  friend class call_queue;
  queued_call(std::shared_ptr<detail::call_list> list, std::shared_ptr<detail::listed_call> call)
      : list_(std::move(list)), call_(std::move(call)) {}

  std::shared_ptr<detail::call_list> list_;
  std::shared_ptr<detail::listed_call> call_;
};

/// Collectives of one rank that run while the rank does something else.
///
/// All ranks start the same calls in the same order, as with blocking calls. Each rank may test and
/// wait at any time and in any order. Buffers belong to a call from its start to its end. Blocking
/// calls of the communicator, and calls of another queue, are refused until all started calls have
/// ended.
///
/// One thread uses the queue, in a communicator whose group is a single thread. The communicator
/// and the schedules outlive it. The destructor waits for calls under way. Their results can still
/// be asked for afterwards, but no call can be started.
///
/// Deadlines run in `wait`, from test to test (see `queued_call::test`), or always if the queue has
/// a thread.
template <communicator Comm>
class call_queue {
 public:
  /// Throws: precondition_error if the queue has a thread and the communicator takes calls of one
  ///         thread only (MPI without MPI_THREAD_MULTIPLE).
  explicit call_queue(Comm& comm, progress how = progress::in_waits) : me_(&comm) {
    expects(comm.group().size() == 1,
            "call_queue: the communicator's group has several threads, expected one");
    if constexpr (thread_bound_communicator<Comm>) {
      if (how == progress::thread) comm.expect_any_thread();
    }
    list_ = std::make_shared<detail::call_list>(how == progress::thread, comm.active_queue());
  }
  call_queue(call_queue const&) = delete;
  call_queue& operator=(call_queue const&) = delete;
  ~call_queue() { list_->close(); }

  /// Prepares a call without starting it. It is checked and planned once, here.
  ///
  /// kind, input, output, count, reduce: as for the collective's own function; a barrier takes null
  ///                                     buffers and no elements; collectives that do not reduce
  ///                                     take no reducer
  /// Throws: precondition_error as that function; over MPI, also if the queue has a thread and the
  ///         schedule is not prepared.
  template <chunking Chunks = scheduled_chunks, schedule_source Source, class T,
            class Reducer = detail::no_reducer>
  [[nodiscard]] queued_call make(collective kind, Source&& trees, T const* input, T* output,
                                 std::size_t count, Reducer const& reduce = {}) {
    if constexpr (chosen_at_run_time<Reducer>) {
      return detail::as_bytes(kind, me_->rank(), input, output, count, reduce,
                              [&](std::byte const* from, std::byte* to, auto const& bytes) {
                                return make<Chunks>(kind, std::forward<Source>(trees), from, to,
                                                    count * reduce.element_bytes, bytes);
                              });
    } else {
      expect_reducer<Reducer>(kind);
      expect_may_prepare<Source>();
      auto const chosen =
          detail::choose_schedule(*me_, std::forward<Source>(trees), kind,
                                  buffer_bytes(kind, count, sizeof(T), me_->rank_count()));
      return list<detail::call_of<detail::collective_call<Chunks, Comm, T, Reducer>>>(
          *me_, *chosen.prepared, kind, input, output, detail::call_size{count, chosen.chunk_bytes},
          reduce);
    }
  }

  /// The same with a segment of any size for each rank, as for `all_gather_v` and
  /// `reduce_scatter_v`.
  ///
  /// kind: all_gather or reduce_scatter
  template <chunking Chunks = scheduled_chunks, schedule_source Source, class T,
            class Reducer = detail::no_reducer>
  [[nodiscard]] queued_call make(collective kind, Source&& trees, T const* input, T* output,
                                 std::vector<block> const& blocks, Reducer const& reduce = {}) {
    expects(has_equal_roots(kind),
            "call_queue: blocks of unequal sizes with another collective, expected all_gather or "
            "reduce_scatter");
    if constexpr (chosen_at_run_time<Reducer>) {
      return detail::as_bytes(kind, me_->rank(), input, output, blocks.size(), reduce,
                              [&](std::byte const* from, std::byte* to, auto const& bytes) {
                                return make<Chunks>(kind, std::forward<Source>(trees), from, to,
                                                    blocks, bytes);
                              });
    } else {
      expect_reducer<Reducer>(kind);
      expect_may_prepare<Source>();
      return list<detail::call_of<detail::unequal_call<Chunks, Comm, T, Reducer>>>(
          *me_, std::forward<Source>(trees), kind, input, output, blocks, reduce);
    }
  }

  /// Prepares a call of `all_to_all_v`, `exchange`, `grouped` or `all_reduce_sparse`, with the
  /// arguments of that function.
  ///
  /// trees: a prepared schedule or a schedule. The ranks agree on sizes at each start. A mask and a
  ///        report outlive their call; afterwards they show which elements were reduced. A null
  ///        report is not written. Lists and blocks need not outlive this function.
  template <chunking Chunks = scheduled_chunks, single_schedule Source, class T>
  [[nodiscard]] queued_call make_all_to_all_v(Source&& trees, T const* input,
                                              std::vector<block> const& sends, T* output,
                                              std::vector<block> const& receives) {
    return list<detail::all_to_all_v_call<Chunks, Comm, T>>(
        *me_, prepared_from(std::forward<Source>(trees)), input, sends, output, receives);
  }
  template <single_schedule Source>
  [[nodiscard]] queued_call make_exchange(Source&& trees, transfers const& pieces) {
    return list<detail::exchange_call<Comm>>(*me_, prepared_from(std::forward<Source>(trees)),
                                             pieces);
  }
  template <chunking Chunks = scheduled_chunks, single_schedule Source, class T,
            class Reducer = detail::no_reducer>
  [[nodiscard]] queued_call make_grouped(Source&& trees, collective kind,
                                         std::vector<buffer_part<T>> const& parts,
                                         Reducer const& reduce = {},
                                         std::size_t pack_below = default_pack_below) {
    expect_reducer<Reducer>(kind);
    return list<detail::grouped_call<Chunks, Comm, T, Reducer>>(
        *me_, prepared_from(std::forward<Source>(trees)), kind, parts, reduce, pack_below);
  }
  template <chunking Chunks = scheduled_chunks, single_schedule Source, class T, class Reducer>
  [[nodiscard]] queued_call make_all_reduce_sparse(Source&& trees, T* data, block_mask& mask,
                                                   Reducer const& reduce,
                                                   double pays_below = default_pays_below,
                                                   sparse_report* report = nullptr) {
    return list<detail::sparse_call<Chunks, Comm, T, Reducer>>(
        *me_, prepared_from(std::forward<Source>(trees)), data, mask, reduce, pays_below, report);
  }

  /// Prepares a call and starts it.
  template <chunking Chunks = scheduled_chunks, schedule_source Source, class T,
            class Reducer = detail::no_reducer>
  [[nodiscard]] queued_call start(collective kind, Source&& trees, T const* input, T* output,
                                  std::size_t count, Reducer const& reduce = {}) {
    return start(make<Chunks>(kind, std::forward<Source>(trees), input, output, count, reduce));
  }
  template <chunking Chunks = scheduled_chunks, schedule_source Source, class T,
            class Reducer = detail::no_reducer>
  [[nodiscard]] queued_call start(collective kind, Source&& trees, T const* input, T* output,
                                  std::vector<block> const& blocks, Reducer const& reduce = {}) {
    return start(make<Chunks>(kind, std::forward<Source>(trees), input, output, blocks, reduce));
  }
  /// Starts a prepared call.
  [[nodiscard]] static queued_call start(queued_call call) {
    call.start();
    return call;
  }

 private:
  template <class Reducer>
  static void expect_reducer(collective kind) {
    static_assert(std::is_copy_constructible_v<Reducer>);
    expects(
        has_reduce_phase(kind) == !std::is_same_v<Reducer, detail::no_reducer> || !moves_data(kind),
        "call_queue: a collective that reduces and no reducer, or the reverse, expected both "
        "or neither");
  }
  // The queue's thread may be using the communicator, which takes one thread at a time.
  template <class Source>
  void expect_may_prepare() const {
    if constexpr (thread_bound_communicator<Comm> &&
                  std::same_as<std::remove_cvref_t<Source>, schedule>) {
      expects(!list_->has_thread(),
              "call_queue: a schedule for a queue with a thread over MPI, expected a prepared "
              "schedule");
    }
  }
  template <single_schedule Source>
  [[nodiscard]] prepared_schedule& prepared_from(Source&& trees) const {
    expect_may_prepare<Source>();
    return detail::prepared_from(*me_, std::forward<Source>(trees));
  }
  template <class Call, class... Arguments>
  [[nodiscard]] queued_call list(Arguments&&... arguments) {
    return queued_call(list_,
                       list_->add(std::make_unique<Call>(std::forward<Arguments>(arguments)...)));
  }

  Comm* me_;
  std::shared_ptr<detail::call_list> list_;
};

}}  // namespace blink::BLINK_ABI
