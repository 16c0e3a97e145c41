// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// The time and the memory that a computation may take.
///
/// A computation that ends early depends on the speed of the machine. So ranks that each compute
/// the same plan have no budget.
struct work_budget {
  double seconds = std::numeric_limits<double>::infinity();  ///< by the clock on the wall
  /// by which the memory of the process may grow
  double bytes = std::numeric_limits<double>::infinity();

  [[nodiscard]] bool is_limited() const {
    return seconds < std::numeric_limits<double>::infinity() ||
           bytes < std::numeric_limits<double>::infinity();
  }
  /// Throws: input_error unless both are positive.
  void validate() const {
    if (!(seconds > 0)) throw input_error("a budget of no time, expected more than 0 seconds");
    if (!(bytes > 0)) throw input_error("a budget of no memory, expected more than 0 bytes");
  }
};

namespace detail {

/// Thrown when a budget is spent. It is no `error`, so that no planner takes it for a missing plan.
struct budget_spent {};

/// Bytes of memory that the process has now; 0 where the system does not say.
[[nodiscard]] inline double memory_of_process() {
  long pages = 0, resident = 0;
  if (auto* const file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// Limits what this thread computes until the end of the scope. Scopes nest: an inner one ends no
/// later than those around it.
class budget_scope {
  using clock = std::chrono::steady_clock;

 public:
  explicit budget_scope(work_budget const& budget) : budget_scope(budget, innermost()) {}
  budget_scope(budget_scope const&) = delete;
  budget_scope& operator=(budget_scope const&) = delete;
  ~budget_scope() { innermost() = outer_; }

  /// The part `share` of what is left here, so that the rest remains for what follows. Without a
  /// scope: no limit.
  [[nodiscard]] static work_budget part(double share) { return part(share, share); }
  /// The same with shares of time and of memory.
  [[nodiscard]] static work_budget part(double of_time, double of_memory) {
    auto const* const here = innermost();
    if (here == nullptr) return {};
    return {of_time * std::max(0.0, (here->until_ - now()).count()),
            of_memory * std::max(0.0, here->most_bytes_ - memory_of_process())};
  }
  /// Throws budget_spent if this thread's budget is spent. A look takes well below a microsecond.
  static void poll() {
    if (auto* const here = innermost()) here->look();
  }

 private:
  using seconds = std::chrono::duration<double>;
  static constexpr seconds between_memory_looks{0.01};

  budget_scope(work_budget const& budget, budget_scope* outer)
      : outer_(outer),
        until_(now() + seconds(budget.seconds)),
        most_bytes_(memory_of_process() + budget.bytes) {
    if (outer_ != nullptr) {
      until_ = std::min(until_, outer_->until_);
      most_bytes_ = std::min(most_bytes_, outer_->most_bytes_);
    }
    if (outer_ != nullptr || budget.is_limited()) innermost() = this;
  }

  [[nodiscard]] static budget_scope*& innermost() {
    thread_local budget_scope* scope = nullptr;
    return scope;
  }
  [[nodiscard]] static seconds now() { return clock::now().time_since_epoch(); }

  void look() {
    auto const time = now();
    if (time >= until_) throw budget_spent{};
    if (time < next_memory_look_) return;
    next_memory_look_ = time + between_memory_looks;
    if (memory_of_process() > most_bytes_) throw budget_spent{};
  }

  friend class unlimited_scope;

  budget_scope* outer_;
  seconds until_;
  double most_bytes_;
  seconds next_memory_look_{};
};

/// Lifts the limits of all scopes around it, for work that must not be lost.
class unlimited_scope {
 public:
  unlimited_scope() : outer_(std::exchange(budget_scope::innermost(), nullptr)) {}
  unlimited_scope(unlimited_scope const&) = delete;
  unlimited_scope& operator=(unlimited_scope const&) = delete;
  ~unlimited_scope() { budget_scope::innermost() = outer_; }

 private:
  budget_scope* outer_;
};

}  // namespace detail

/// Calls `make()` with a budget and returns what it returns.
///
/// Throws: input_error for a budget of nothing; planning_error if the budget is spent before `make`
///         has a result, with `what` for what is missing then; what `make` throws.
template <class Make>
decltype(auto) within_budget(work_budget const& budget, char const* what, Make&& make) {
  budget.validate();
  detail::budget_scope const scope(budget);
  try {
    return make();
  } catch (detail::budget_spent const&) {
    throw planning_error(std::string("the budget was spent before there was ") + what +
                         ", expected more seconds or bytes");
  }
}

}}  // namespace blink::BLINK_ABI
