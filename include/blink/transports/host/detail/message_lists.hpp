// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/messenger.hpp>
#include <blink/transports/host/detail/message_pool.hpp>
#include <blink/transports/host/detail/message_stream.hpp>

#include <atomic>
#include <cstddef>
#include <list>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// An operation in one of the lists of a rank. It moves between them without allocation.
struct listed_operation : message_operation {
  std::list<listed_operation>::iterator self;
};
using message_operations = std::list<listed_operation>;

/// Appends an operation as it is at first to `to`, from the unused ones if there are some.
[[nodiscard]] inline listed_operation& take_operation(message_operations& unused,
                                                      message_operations& to) {
  if (unused.empty()) unused.emplace_back();
  auto const one = unused.begin();
  to.splice(to.end(), unused, one);
  *one = {};
  one->self = one;
  return *one;
}

/// The rows of all ranks, found when first used. Any thread may use it.
class message_rows {
 public:
  message_rows(message_memory& memory, int rank_count)
      : memory_(&memory), rows_(static_cast<std::size_t>(rank_count)) {}

  [[nodiscard]] int rank_count() const { return static_cast<int>(rows_.size()); }

  /// Throws: resource_error or std::bad_alloc if there is no memory.
  [[nodiscard]] message_row& of(int rank) {
    auto& known = rows_[static_cast<std::size_t>(rank)];
    auto* row = known.load(std::memory_order_acquire);
    if (row == nullptr) {
      row = reinterpret_cast<message_row*>(memory_->row(rank, message_row::bytes(rank_count())));
      known.store(row, std::memory_order_release);
    }
    return *row;
  }

 private:
  message_memory* memory_;
  std::vector<std::atomic<message_row*>> rows_;
};

}}}  // namespace blink::BLINK_ABI::detail
