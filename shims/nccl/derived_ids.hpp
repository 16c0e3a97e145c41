// SPDX-License-Identifier: Apache-2.0
#pragma once

// Unique ids of communicators that ranks make from one that they have: a shrunk one, a grown one.
// The ranks exchange nothing first. They find the id by what they call, also after a failure.

#include <blink/core/detail/hash.hpp>

#include "abi.hpp"
#include "errors.hpp"
#include "meeting.hpp"
#include "unique_ids.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace blink_nccl {

/// A communicator that ranks make from another one.
struct derivation {
  enum class kind : std::uint32_t { shrunk = 1, grown = 2, whole = 3 };

  kind what = kind::shrunk;
  std::uint64_t excluded = 0;  ///< the ranks that take no part, as bits
  std::uint64_t number = 0;    ///< earlier ones of this kind with these ranks

  auto operator<=>(derivation const&) const = default;
  [[nodiscard]] std::uint64_t hash() const {
    blink::detail::hash all;
    all.add(static_cast<std::uint64_t>(what));
    all.add(excluded);
    all.add(number);
    return all.value();
  }
};

/// Returns the excluded ranks as bits.
///
/// Throws: refusal for a list that is empty, or has `own`, a rank twice, or one that does not
///         exist.
[[nodiscard]] inline std::uint64_t excluded_ranks(int const* list, int count, int own,
                                                  int rank_count) {
  static_assert(most_ranks <= 64);
  if (list == nullptr || count < 1) {
    refuse_argument("the list of excluded ranks is empty, expected at least one rank");
  }
  std::uint64_t all = 0;
  for (int k = 0; k < count; ++k) {
    auto const name = "excluded rank " + std::to_string(list[k]);
    if (list[k] < 0 || list[k] >= rank_count) {
      refuse_argument(name + " of " + std::to_string(rank_count) + " ranks");
    }
    if (list[k] == own) refuse_argument(name + " is the calling rank, expected another one");
    auto const bit = std::uint64_t{1} << list[k];
    if ((all & bit) != 0) refuse_argument(name + " is listed twice, expected once");
    all |= bit;
  }
  return all;
}
/// The number of excluded ranks below `rank`.
[[nodiscard]] inline int excluded_below(std::uint64_t excluded, int rank) {
  return std::popcount(excluded & ((std::uint64_t{1} << rank) - 1));
}

/// The id of one derived communicator, in memory of all processes. All 0 at first; it changes by
/// single atomic steps, because a process may be killed at any instruction.
struct derived_id {
  std::atomic<std::uint32_t> chosen;    ///< the process whose id is valid, plus 1; 0: none
  std::atomic<std::uint32_t> is_given;  ///< 1: a rank has called ncclCommGetUniqueId for it
  std::array<unique_id, most_ranks> made_by;

  /// Returns the id. The first process that asks makes it, and no process waits.
  ///
  /// Throws: resource_error if the memory of the meeting cannot be made.
  [[nodiscard]] unique_id find_or_make(int process, unique_ids& ids) {
    std::uint32_t found = chosen.load();
    if (found == 0) {
      auto const own = ids.make();
      made_by[static_cast<std::size_t>(process)] = own;
      auto const mine = static_cast<std::uint32_t>(process) + 1;
      if (chosen.compare_exchange_strong(found, mine)) return own;
      ids.close(unique_ids::text_of(own));  // another process was faster
    }
    return made_by[found - 1];
  }
};

}  // namespace blink_nccl
