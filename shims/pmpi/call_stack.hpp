// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stacks of Boost.Context, on which calls run that return to the program before they end.

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <mpi.h>

#include <cstddef>
#include <memory>
#include <thread>
#include <utility>

namespace blink_pmpi {

// Variables of threads have the TLS model of libraries that are loaded when the program starts. It
// takes no call for each use.

/// While an object exists, this thread's MPI calls come from blink and go to the library.
class inside {
 public:
  inside() : outer_(std::exchange(is_inside(), true)) {}
  inside(inside const&) = delete;
  inside& operator=(inside const&) = delete;
  ~inside() { is_inside() = outer_; }
  [[nodiscard]] static bool& is_inside() {
    [[gnu::tls_model("initial-exec")]] thread_local bool result = false;
    return result;
  }

 private:
  bool outer_;
};

/// A stack on which calls run, one after the other. A call may return to the program and go on
/// later.
class call_stack {
 public:
  call_stack()
      : inner_(std::allocator_arg, boost::context::protected_fixedsize_stack(bytes),
               [this](boost::context::fiber&& outer) {
                 outer_ = std::move(outer);
                 for (;;) {
                   work_(what_);
                   work_ = nullptr;
                   leave();
                 }
                 return std::move(outer_);
               }) {}
  call_stack(call_stack const&) = delete;
  call_stack& operator=(call_stack const&) = delete;
  void set(void (*work)(void*), void* what) {
    work_ = work;
    what_ = what;
  }
  /// Runs until the work ends or leaves. Returns true if it has ended.
  [[nodiscard]] bool enter() {
    auto* const outer = std::exchange(present(), this);
    inner_ = std::move(inner_).resume();
    present() = outer;
    return work_ == nullptr;
  }
  /// Returns to the caller of `enter`.
  ///
  /// Pre:    runs on this stack.
  void leave() { outer_ = std::move(outer_).resume(); }

  /// The stack on which this thread runs; null: its own. Not inlined, because another thread may go
  /// on with a call, and compilers keep the addresses of a thread's variables.
  [[nodiscard, gnu::noinline]] static call_stack*& present() {
    [[gnu::tls_model("initial-exec")]] thread_local call_stack* result = nullptr;
    return result;
  }

 private:
  // Operations of the program run here, too. Pages that are not used take no memory.
  static constexpr std::size_t bytes = std::size_t{1} << 18;

  boost::context::fiber outer_;
  void (*work_)(void*) = nullptr;
  void* what_ = nullptr;
  boost::context::fiber inner_;
};

/// Lets the program go on, or other processes of this core if this is the program's own stack.
inline void yield() {
  if (auto* const stack = call_stack::present()) {
    stack->leave();
  } else {
    std::this_thread::yield();
  }
}
/// Returns the code of a request of the library when it is complete. Yields meanwhile.
inline int await(MPI_Request request) {
  int is_done = 0;
  int code = MPI_SUCCESS;
  while (code = PMPI_Test(&request, &is_done, MPI_STATUS_IGNORE),
         code == MPI_SUCCESS && is_done == 0) {
    yield();
  }
  return code;
}

}  // namespace blink_pmpi
