// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10d_names.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <ratio>
#include <utility>

#ifdef BLINK_TORCH_HAS_HOOKS
#include <torch/csrc/distributed/c10d/Hooks.hpp>
#endif

namespace blink_torch {

#ifdef BLINK_TORCH_HAS_HOOKS
/// Functions of PyTorch under their numbers. They run outside the lock, because a function may
/// remove itself.
template <class Hook>
class hook_table {
 public:
  void add(std::int64_t id, Hook hook) {
    change([&](auto& all) { all[id] = std::move(hook); });
  }
  void remove(std::int64_t id) {
    change([&](auto& all) { all.erase(id); });
  }
  template <class... Arguments>
  void run(Arguments const&... arguments) const {
    std::shared_ptr<hooks const> present;
    {
      std::lock_guard<std::mutex> const lock(mutex_);
      present = hooks_;
    }
    for (auto const& [id, hook] : *present) hook(arguments...);
  }

 private:
  using hooks = std::map<std::int64_t, Hook>;
  template <class Change>
  void change(Change const& apply) {
    std::lock_guard<std::mutex> const lock(mutex_);
    auto changed = std::make_shared<hooks>(*hooks_);
    apply(*changed);
    hooks_ = std::move(changed);
  }

  mutable std::mutex mutex_;
  std::shared_ptr<hooks const> hooks_ = std::make_shared<hooks>();
};
#endif

[[nodiscard]] inline float milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

/// The functions that PyTorch runs when calls of a group end, such as those of its flight recorder.
/// None before PyTorch 2.15.
class group_hooks {
 public:
  /// A number that no other call of this process has.
  [[nodiscard]] static std::uint64_t new_key() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
  }

  /// Reports a call that has succeeded. Pre: its work says so.
  void completed([[maybe_unused]] std::uint64_t key, [[maybe_unused]] float milliseconds) const {
#ifdef BLINK_TORCH_HAS_HOOKS
    completion.run(c10d::CompletionHookArgs{key, milliseconds});
#endif
  }
  /// Reports a failure, before the program gets it. Pre: the thread does not hold Python's lock.
  void failed() const {
#ifdef BLINK_TORCH_HAS_HOOKS
    abort.run();
#endif
  }

#ifdef BLINK_TORCH_HAS_HOOKS
  hook_table<c10d::CompletionHook> completion;
  hook_table<c10d::AbortHook> abort;
#endif
};

}  // namespace blink_torch
