// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/mscclpp_knowledge.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// An increment of a counter.
struct counter_post {
  std::shared_ptr<process_knowledge const> known;     ///< by the process that posts
  std::shared_ptr<process_knowledge const> at_start;  ///< by its rank, when the call began
  bool is_relaxed = false;
};

/// A semaphore, or the signals that one end of a channel receives: some blocks post, one takes.
///
/// The k-th take waits for the k-th post. Posts of several blocks come in any order. Then the takes
/// of a call know only together what the posts of that call know.
class mscclpp_counter {
 public:
  explicit mscclpp_counter(std::int64_t initial = 0) : initial_(initial) {}

  /// Counts posts that a block has in every call.
  void expect_posts(int block, std::int64_t times) {
    if (posts_of_call_ > 0 && block != poster_) has_one_poster_ = false;
    posts_of_call_ += times;
    poster_ = block;
  }

  /// Posts beyond the takes, without the initial value.
  [[nodiscard]] std::int64_t left() const {
    return static_cast<std::int64_t>(posts_.size()) - taken_;
  }
  [[nodiscard]] bool has_one() const { return initial_ + left() > 0; }
  /// The take before; process -1: none yet.
  [[nodiscard]] process_event const& last_take() const { return last_take_; }

  void post(counter_post next) { posts_.push_back(std::move(next)); }

  /// Takes one. Returns the posts that have certainly come before and may teach anything new.
  /// Pre: has_one().
  [[nodiscard]] std::vector<counter_post> take(process_event const& by) {
    last_take_ = by;
    auto const number = ++taken_ - initial_;  // of the last post that has certainly come
    if (number < 1) return {};
    if (!has_one_poster_ && number % posts_of_call_ != 0) return {};
    auto const last = static_cast<std::size_t>(number);
    auto const first = has_one_poster_ ? last - 1 : released_;
    std::vector<counter_post> result(posts_.begin() + static_cast<std::ptrdiff_t>(first),
                                     posts_.begin() + static_cast<std::ptrdiff_t>(last));
    for (; released_ < last; ++released_) posts_[released_] = {};
    return result;
  }

 private:
  std::int64_t initial_;
  std::int64_t taken_ = 0;
  std::int64_t posts_of_call_ = 0;
  int poster_ = -1;
  bool has_one_poster_ = true;
  std::vector<counter_post> posts_;
  std::size_t released_ = 0;  // posts whose knowledge is no longer needed
  process_event last_take_ = {-1, 0};
};

}}}  // namespace blink::BLINK_ABI::detail
