// SPDX-License-Identifier: Apache-2.0
#pragma once

// Calls that a program has started and not completed yet: nonblocking and persistent collectives.
// Each runs the code of the blocking call on a stack of its own (Boost.Context). Where that code
// would wait, it returns to the program instead. It goes on whenever the program tests, waits,
// sends or receives.

#include "call_stack.hpp"
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace blink_pmpi {

/// Runs a started call from begin to end. Returns an error code of MPI.
///
/// is_taken: true if it is known that blink serves it
template <class Call>
int run_started(Call const& call, bool is_taken);

/// A call that was started, or a persistent one that can be.
///
/// In the program, a request of the library stands for it. That request is never active, so the
/// library knows nothing of the call.
class pending_call {
 public:
  explicit pending_call(MPI_Request handle) : handle_(handle) {}
  [[nodiscard]] MPI_Request handle() const { return handle_; }
  /// The communicator on which it runs.
  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  /// The program's communicator, to which errors are reported; MPI_COMM_WORLD once it is freed.
  [[nodiscard]] MPI_Comm named() const { return named_; }
  /// True if it can be started again. Then it has a communicator of its own.
  [[nodiscard]] bool is_persistent() const { return is_persistent_; }

  /// Keeps a copy of the call, and of datatypes of the program, which may free them.
  ///
  /// named: the program's communicator, if the call is persistent; else null
  template <class Call>
  void keep(Call call, MPI_Comm named) {
    static_assert(std::is_trivially_copyable_v<Call> && sizeof(Call) <= sizeof(arguments_));
    comm_ = call.comm;
    is_persistent_ = named != MPI_COMM_NULL;
    named_ = is_persistent_ ? named : comm_;
    auto const keep = [this](MPI_Datatype& type) { keep_type(type); };
    if constexpr (requires { call.for_each_type(keep); }) call.for_each_type(keep);
    ::new (arguments_.data()) Call(call);
    run_ = [](void const* arguments, bool is_known) {
      return run_started(*static_cast<Call const*>(arguments), is_known);
    };
    op_ = MPI_OP_NULL;
    if constexpr (requires { call.op; }) op_ = call.op;
  }
  void run() { code = run_(arguments_.data(), is_taken); }
  [[nodiscard]] MPI_Op op() const { return op_; }
  void forget() {
    for (; type_count_ > 0; --type_count_) PMPI_Type_free(&types_[type_count_ - 1]);
    run_ = nullptr;
  }
  void note_free(MPI_Comm comm) {
    if (named_ == comm) named_ = MPI_COMM_WORLD;
  }
  void free_communicator() {
    if (is_persistent()) PMPI_Comm_free(&comm_);
  }
  /// True if the program holds the request.
  [[nodiscard]] bool is_held() const { return run_ != nullptr; }

  bool is_active = false;             ///< it was started, and the program has not completed it
  std::atomic<bool> is_done = false;  ///< it has ended
  bool is_taken = true;               ///< it is known that blink serves it
  int code = MPI_SUCCESS;
  call_stack* stack = nullptr;

 private:
  void keep_type(MPI_Datatype& type) {
    int integers = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
    if (type == MPI_DATATYPE_NULL ||
        PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS ||
        combiner == MPI_COMBINER_NAMED || PMPI_Type_dup(type, &type) != MPI_SUCCESS) {
      return;
    }
    types_[type_count_++] = type;
  }

  MPI_Request handle_;
  MPI_Comm comm_ = MPI_COMM_NULL, named_ = MPI_COMM_NULL;
  bool is_persistent_ = false;
  MPI_Op op_ = MPI_OP_NULL;
  int (*run_)(void const*, bool) = nullptr;
  std::array<MPI_Datatype, 2> types_{};
  std::size_t type_count_ = 0;
  alignas(std::max_align_t) std::array<std::byte, 128> arguments_{};
};

/// All such calls of the process. Those of one communicator run one after the other, in the order
/// in which they were started, which is the same on all ranks.
class pending_calls {
 public:
  /// It outlives everything, because a call whose ranks have failed may never end.
  static pending_calls& the() {
    static auto& all = *new pending_calls;
    return all;
  }

  /// True if calls have been started that have not ended.
  [[nodiscard]] bool are_active() const { return active_.load(std::memory_order_relaxed) > 0; }
  /// True if the program holds requests for such calls.
  [[nodiscard]] bool are_held() const { return held_.load(std::memory_order_relaxed) > 0; }

  /// Makes a call that can be started, with `named` again and again.
  template <class Call>
  pending_call& make(Call const& call, MPI_Comm named = MPI_COMM_NULL) {
    auto const lock = locked();
    if (free_.empty()) {
      MPI_Request handle = MPI_REQUEST_NULL;
      PMPI_Recv_init(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_SELF, &handle);
      auto fresh = std::make_unique<pending_call>(handle);
      free_.push_back(fresh.get());
      all_.emplace(handle, std::move(fresh));
    }
    auto& result = *free_.back();
    free_.pop_back();
    result.keep(call, named);
    recent_ = &result;
    ++held_;
    return result;
  }
  /// Starts a call. It runs as far as it can without the other ranks, unless others must end first.
  ///
  /// is_known: true if it is known that blink serves it
  void start(pending_call& call, bool is_known) {
    auto const lock = locked();
    call.is_active = true;
    call.is_done = false;
    call.is_taken = is_known;
    ++active_;
    auto& queue = queue_of(call.comm());
    queue.calls.push_back(&call);
    if (queue.calls.size() == 1) advance(queue);
  }
  /// The call for which a request stands; null: none.
  [[nodiscard]] pending_call* find(MPI_Request handle) {
    if (!are_held() || handle == MPI_REQUEST_NULL) return nullptr;
    auto const lock = locked();
    if (recent_ != nullptr && recent_->handle() == handle) return held(recent_);
    auto const known = all_.find(handle);
    return known != all_.end() ? held(known->second.get()) : nullptr;
  }
  /// Takes a call back whose request the program has given up.
  void release(pending_call& call) {
    call.free_communicator();  // attributes of the program may make calls then
    auto const lock = locked();
    call.forget();
    free_.push_back(&call);
    --held_;
  }

  /// Moves all calls as far as they can go.
  void progress() {
    auto const lock = locked();
    progress_locked();
  }
  /// The same for a thread that waits for a call of its own; nothing if another thread does it.
  void try_progress() {
    if (!has_threads) return progress_locked();
    std::unique_lock const lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) progress_locked();
  }
  /// Returns when `is_over()`; moves all calls meanwhile.
  template <class Condition>
  void progress_until(Condition const& is_over) {
    for (int rounds = 0; !is_over(); ++rounds) {
      progress();
      if (rounds > spins) std::this_thread::yield();
    }
  }
  /// Waits until the started calls of a communicator have ended.
  void finish(MPI_Comm comm) {
    if (!are_active() || inside::is_inside()) return;
    inside const guard;
    progress_until([&] {
      auto const lock = locked();
      return std::none_of(queues_.begin(), queues_.end(),
                          [&](auto const& queue) { return queue->comm == comm; });
    });
  }
  /// The same before the program frees the communicator.
  void finish_for_good(MPI_Comm comm) {
    if (!are_held() || inside::is_inside()) return;
    finish(comm);
    auto const lock = locked();
    for (auto& [handle, call] : all_) call->note_free(comm);
  }
  /// Waits until all started calls have ended.
  void finish() {
    if (!are_active() || inside::is_inside()) return;
    inside const guard;
    progress_until([&] { return !are_active(); });
  }

  /// Frees an operation of the program once no call uses it. Returns false if none does.
  [[nodiscard]] bool free_later(MPI_Op op) {
    if (!are_active()) return false;
    auto const lock = locked();
    for (auto const& queue : queues_) {
      for (auto const* call : queue->calls) {
        if (call->op() != op) continue;
        freed_ops_.push_back(op);
        return true;
      }
    }
    return false;
  }
  /// Gives the library its requests back, before it ends.
  void end() {
    auto const lock = locked();
    for (auto& [handle, call] : all_) {
      auto copy = handle;
      PMPI_Request_free(&copy);
    }
    all_.clear();
    free_.clear();
    recent_ = nullptr;
    held_ = 0;
  }

  /// True if several threads call MPI at a time.
  std::atomic<bool> has_threads = true;
  /// Rounds of a wait before it yields; few if ranks share cores.
  std::atomic<int> spins = 2;

 private:
  [[nodiscard]] std::unique_lock<std::mutex> locked() {
    return has_threads ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
  }

  struct call_queue {
    MPI_Comm comm;
    std::deque<pending_call*> calls{};
  };
  [[nodiscard]] static pending_call* held(pending_call* call) {
    return call->is_held() ? call : nullptr;
  }
  // A queue stays where it is while other calls start.
  call_queue& queue_of(MPI_Comm comm) {
    for (auto& queue : queues_) {
      if (queue->comm == comm) return *queue;
    }
    if (spare_ == nullptr) spare_ = std::make_unique<call_queue>();
    spare_->comm = comm;
    return *queues_.emplace_back(std::move(spare_));
  }
  void progress_locked() {
    for (std::size_t k = 0; k < queues_.size(); ++k) advance(*queues_[k]);
    std::erase_if(queues_, [this](auto& queue) {
      if (!queue->calls.empty()) return false;
      spare_ = std::move(queue);
      return true;
    });
    if (!freed_ops_.empty() && !are_active()) {
      for (auto op : freed_ops_) PMPI_Op_free(&op);
      freed_ops_.clear();
    }
  }
  // Runs calls until one has to wait.
  void advance(call_queue& queue) {
    inside const guard;
    while (!queue.calls.empty()) {
      auto& call = *queue.calls.front();
      if (call.stack == nullptr) {
        if (stacks_.empty()) stacks_.push_back(new call_stack);  // lives as long as the process
        call.stack = stacks_.back();
        stacks_.pop_back();
        call.stack->set([](void* what) { static_cast<pending_call*>(what)->run(); }, &call);
      }
      if (!call.stack->enter()) return;
      stacks_.push_back(std::exchange(call.stack, nullptr));
      queue.calls.pop_front();
      --active_;
      call.is_done = true;
    }
  }

  std::mutex mutex_;
  std::atomic<std::size_t> active_ = 0, held_ = 0;
  std::unordered_map<MPI_Request, std::unique_ptr<pending_call>> all_;
  std::vector<pending_call*> free_;
  pending_call* recent_ = nullptr;  // the last one that was made
  std::vector<std::unique_ptr<call_queue>> queues_;
  std::unique_ptr<call_queue> spare_;
  std::vector<call_stack*> stacks_;  // not in use
  std::vector<MPI_Op> freed_ops_;
};

}  // namespace blink_pmpi
