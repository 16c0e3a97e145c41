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

/// Who moves the data of calls that are started and not yet waited for.
enum class progress : std::uint8_t {
  in_waits,  ///< the caller, whenever it starts, tests or waits: costs nothing, overlaps as much as
             ///< the caller tests
  thread,    ///< a thread of its own: overlaps with all that the caller computes, takes a core
};

/// A call that a queue carries out: it is started, and tested or waited for; then it may be started
/// again, with what its buffers hold by then.
class queued_call {
 public:
  queued_call() = default;

  /// Throws: precondition_error if it is under way already.
  void start() { list_->start(call_); }
  /// Has it ended? Moves data on if the queue has no thread. Tested in a loop, a call gives up when a peer
  /// has died or left, and when nothing has moved for the deadline. What the caller computes between two
  /// tests counts little: of each such while at most a sixteenth of the deadline. If the queue has a thread and it has
  /// not ended the call, the caller yields its core.
  ///
  /// Throws: what the call would have thrown, each time; precondition_error if it was never started.
  [[nodiscard]] bool test() { return list_->test(*call_); }
  /// Returns when the call has ended; calls that were started before it end first.
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
/// All ranks start the same calls in the same order, as with blocking calls; when they test and
/// wait, and in which order, is each rank's own affair. Buffers belong to a call from its start to
/// its end. No blocking call of the communicator may run until all started ones have ended, nor one of
/// another queue: it is refused. The queue is used by one thread, in a communicator whose group is a lone
/// thread; the communicator and the schedules outlive it. At its end it waits for the calls that are
/// under way; what became of them can still be asked afterwards, and none be started.
///
/// Deadlines count while something waits: in `wait`, from test to test (see `queued_call::test`), or all
/// the time with a thread of its own.
template <communicator Comm>
class call_queue {
 public:
  /// Throws: precondition_error for a thread of its own, if the communicator does not take calls of any
  ///         thread (MPI without MPI_THREAD_MULTIPLE).
  explicit call_queue(Comm& comm, progress how = progress::in_waits) : me_(&comm) {
    expects(comm.group().size() == 1, "call_queue: the session's group must be a lone thread");
    if constexpr (thread_bound_communicator<Comm>) {
      if (how == progress::thread) comm.expect_any_thread();
    }
    list_ = std::make_shared<detail::call_list>(how == progress::thread, comm.active_queue());
  }
  call_queue(call_queue const&) = delete;
  call_queue& operator=(call_queue const&) = delete;
  ~call_queue() { list_->close(); }

  /// Prepares a call without starting it: what can be checked and planned is, once.
  ///
  /// kind, input, output, count, reduce: as with the function of that name; a barrier takes null
  ///         buffers and no elements, collectives that do not reduce take no reducer
  /// Throws: precondition_error as that function; over MPI, if the queue has a thread of its own and the plan
  ///         is not prepared.
  template <chunking Chunks = scheduled_chunks, schedule_source Source, class T,
            class Reducer = detail::no_reducer>
  [[nodiscard]] queued_call make(collective kind, Source&& trees, T const* input, T* output,
                                 std::size_t count, Reducer const& reduce = {}) {
    expect_reducer<Reducer>(kind);
    expect_may_prepare<Source>();
    auto const chosen =
        detail::choose_schedule(*me_, std::forward<Source>(trees), kind,
                                buffer_bytes(kind, count, sizeof(T), me_->rank_count()));
    return list<detail::call_of<detail::collective_call<Chunks, Comm, T, Reducer>>>(
        *me_, *chosen.prepared, kind, input, output, detail::call_size{count, chosen.chunk_bytes},
        reduce);
  }

  /// The same with a block of any size for each rank, as `all_gather_v` and `reduce_scatter_v` take them.
  ///
  /// kind: all_gather or reduce_scatter
  template <chunking Chunks = scheduled_chunks, schedule_source Source, class T,
            class Reducer = detail::no_reducer>
  [[nodiscard]] queued_call make(collective kind, Source&& trees, T const* input, T* output,
                                 std::vector<block> const& blocks, Reducer const& reduce = {}) {
    expects(kind == collective::all_gather || kind == collective::reduce_scatter,
            "call_queue: blocks of unequal sizes are gathered or reduced and scattered");
    expect_reducer<Reducer>(kind);
    expect_may_prepare<Source>();
    return list<detail::call_of<detail::unequal_call<Chunks, Comm, T, Reducer>>>(
        *me_, std::forward<Source>(trees), kind, input, output, blocks, reduce);
  }

  /// `all_to_all_v`, `exchange`, `grouped` and `all_reduce_sparse`, as the functions of those names.
  /// Plans are prepared schedules or schedules. Sizes are agreed about at each start. A mask and a report (null: none is
  /// wanted) outlive their call, and tell afterwards what was reduced; lists and blocks need not.
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
  /// Starts one that is prepared.
  [[nodiscard]] static queued_call start(queued_call call) {
    call.start();
    return call;
  }

 private:
  template <class Reducer>
  static void expect_reducer(collective kind) {
    static_assert(std::is_copy_constructible_v<Reducer>);
    expects(has_reduce_phase(kind) == !std::is_same_v<Reducer, detail::no_reducer> ||
                kind == collective::barrier,
            "call_queue: a reducer where nothing is reduced, or none where something is");
  }
  // The list's thread may be using the communicator, which takes one thread at a time.
  template <class Source>
  void expect_may_prepare() const {
    if constexpr (thread_bound_communicator<Comm> &&
                  std::same_as<std::remove_cvref_t<Source>, schedule>) {
      expects(!list_->has_thread(),
              "call_queue: a queue with a thread of its own takes prepared schedules over MPI");
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
