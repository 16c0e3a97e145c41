// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The communicators that a thread has made, and those of them whose end waits for other ranks.
/// Other threads may end them.
///
/// Ranks may end their communicators in different orders. If each waited for the end of its first
/// one, none would begin to end the next.
///
/// Comm: movable, with `try_end()`; its constructor calls `enter`, and its destructor the others
template <class Comm>
class communicator_ends {
 public:
  /// The time that a destructor waits before `takes`.
  static constexpr std::chrono::milliseconds longest_wait{10};

  [[nodiscard]] static std::shared_ptr<communicator_ends> const& of_thread() {
    static thread_local auto const all = std::make_shared<communicator_ends>();
    return all;
  }

  void enter() {
    end_others();
    std::lock_guard const lock(access_);
    ++living_;
  }
  /// Takes a communicator whose ranks have not all left, if there are others that will end.
  [[nodiscard]] bool takes(Comm& one) {
    std::lock_guard const lock(access_);
    if (living_ - leaving_.size() < 2) return false;
    leaving_.push_back(std::make_unique<Comm>(std::move(one)));
    return true;
  }
  void advance_others() {
    std::lock_guard const lock(access_);
    for (auto& one : leaving_) static_cast<void>(one->try_end());
  }
  /// Ends those whose ranks have all left.
  void end_others() {
    while (auto const one = next([](Comm& other) { return other.try_end(); })) {
    }
  }
  /// Called at the end of each. The last one ends those that still wait.
  void leave() {
    {
      std::lock_guard const lock(access_);
      --living_;
      if (living_ > leaving_.size()) return;
    }
    while (auto const one = next([](Comm&) { return true; })) {
    }
  }

 private:
  // Removes one that `is_chosen`; null: none.
  template <class Choice>
  [[nodiscard]] std::unique_ptr<Comm> next(Choice const& is_chosen) {
    std::lock_guard const lock(access_);
    for (auto& one : leaving_) {
      if (!is_chosen(*one)) continue;
      auto result = std::exchange(one, nullptr);
      std::erase(leaving_, nullptr);
      return result;
    }
    return nullptr;
  }

  std::mutex access_;
  std::size_t living_ = 0;  // including those that are leaving
  std::vector<std::unique_ptr<Comm>> leaving_;
};

}}}  // namespace blink::BLINK_ABI::detail
