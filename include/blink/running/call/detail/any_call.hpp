// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <utility>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A call of one rank with any types and stages. It can begin again after it has ended.
class any_call {
 public:
  any_call() = default;
  any_call(any_call const&) = delete;
  any_call& operator=(any_call const&) = delete;
  virtual ~any_call() = default;

  virtual void begin() = 0;                  ///< enters
  [[nodiscard]] virtual bool advance() = 0;  ///< without waiting; true once the call has ended
  virtual void complete() = 0;               ///< waits for the end
};

/// A call of a known type.
template <class Call>
class call_of final : public any_call {
 public:
  template <class... Arguments>
  explicit call_of(Arguments&&... arguments) : one_(std::forward<Arguments>(arguments)...) {}
  void begin() override { one_.begin(); }
  bool advance() override { return one_.advance(); }
  void complete() override { one_.complete(); }

 private:
  Call one_;
};

/// A call of several stages, each a call. When one has ended the next begins at once.
class staged_call : public any_call {
 public:
  void begin() final {
    ended_ = 0;
    begin_next();
  }
  [[nodiscard]] bool advance() final {
    while (present_ != nullptr) {
      if (!present_->advance()) return false;
      resume();
    }
    return true;
  }
  void complete() final {
    while (present_ != nullptr) {
      present_->complete();
      resume();
    }
  }

 private:
  /// The call that follows after `ended` stages; null if the whole call has ended.
  [[nodiscard]] virtual any_call* next(std::size_t ended) = 0;

  void begin_next() {
    present_ = nullptr;
    present_ = next(ended_);
    if (present_ != nullptr) present_->begin();
  }
  void resume() {
    ++ended_;
    begin_next();
  }

  any_call* present_ = nullptr;
  std::size_t ended_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
