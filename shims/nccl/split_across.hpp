// SPDX-License-Identifier: Apache-2.0
#pragma once

// A split whose ranks are in several processes.

#include "abi.hpp"
#include "across.hpp"
#include "errors.hpp"
#include "meeting.hpp"
#include "platform.hpp"
#include "request.hpp"
#include "split_parts.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace blink_nccl {

/// Splits a communicator. All processes agree on colors and keys; then the ranks of a color meet as
/// those of any unique id. All processes call it together, with the lock of the library.
///
/// parts:        of the ranks of this process, from `first_rank` on
/// without_lock: (work) -> runs `work` without the lock
/// goes_on:      () -> false if the communicator has failed meanwhile; then `parts` no longer exist
/// Returns:      by part, its outcome
/// Throws:       what `host_processes::gather` throws.
template <platform P, class WithoutLock, class GoesOn>
[[nodiscard]] std::vector<outcome> split_across(across& others,
                                                std::vector<request<P>*> const& parts,
                                                int first_rank, WithoutLock const& without_lock,
                                                GoesOn const& goes_on) {
  std::vector<outcome> how(parts.size());
  auto const is_here = [&](int rank) {
    return rank >= first_rank && rank < first_rank + static_cast<int>(parts.size());
  };
  auto const position = [&](int rank) { return static_cast<std::size_t>(rank - first_rank); };

  std::vector<split_wish> wishes;
  for (auto const* const one : parts) wishes.push_back({one->color, one->key});
  without_lock([&] { wishes = others.gather_wishes(wishes); });
  auto const together = split_parts(wishes);

  // The process of the first rank of each part makes its id.
  std::array<unique_id, most_ranks> ids{};
  for (std::size_t part = 0; part < together.size() && goes_on(); ++part) {
    int const first = together[part][0];
    if (!is_here(first)) continue;
    try {
      ids[part] = parts[position(first)]->part.make_id();
    } catch (...) {  // ranks that would join then find an id that was never set
      how[position(first)] = current_outcome();
    }
  }
  without_lock([&] { ids = others.gather_ids(ids); });
  if (!goes_on()) return how;

  struct joining {
    std::size_t position;
    typename parting<P>::question ask;
  };
  std::vector<joining> open;
  for (std::size_t part = 0; part < together.size(); ++part) {
    int const ranks = static_cast<int>(together[part].size());
    for (int rank = 0; rank < ranks; ++rank) {
      int const old = together[part][static_cast<std::size_t>(rank)];
      if (!is_here(old)) continue;
      auto const at = position(old);
      open.push_back({at, parts[at]->part.join(ids[part], rank, ranks)});
    }
  }
  // All queries run to the end, also those for communicators that are no longer wanted.
  for (auto const& one : open) {
    auto answer = one.ask(goes_on());
    while (!answer) {
      without_lock([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
      answer = one.ask(goes_on());
    }
    if (how[one.position].code == result::success) how[one.position] = *answer;
  }
  without_lock([&] { open.clear(); });  // unwanted communicators may wait for other processes
  return how;
}

}  // namespace blink_nccl
