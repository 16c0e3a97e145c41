// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/text.hpp>
#include <blink/running/walk/stall.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Ranks that wait for each other in a row, starting at one rank.
struct waiting_way {
  std::vector<int> ranks;  ///< each waits for the next one
  bool has_end = false;    ///< true if the last rank waits for no other, as far as is known
  std::string text;  ///< as "rank 1 to send it, which waits for rank 2, tree 0, chunk 3 to take it"
};

/// Returns the tree and chunk as ", tree 0, chunk 3 of 8"; empty if no task is blocked.
template <class = when_used>
[[nodiscard]] std::string place_of(stall const& where) {
  if (where.peer < 0) return {};
  return detail::text_of({", tree ", where.tree, ", chunk ", where.chunk, " of ", where.chunks});
}

/// Follows the ranks that wait for each other, from `first` on. The text names the first few and
/// the last.
///
/// where:   the stall of `rank`
/// first:   the rank that `rank` waits for
/// name:    the text for a rank
/// waiting: the stall of a rank (`reported_stall`), if it waits and has published it
template <class Name, class Waiting>
[[nodiscard]] BLINK_COLD waiting_way wait_chain(stall const& where, int rank, int first,
                                                Name const& name, Waiting const& waiting) {
  using detail::text_of;
  constexpr std::size_t most_reported = 4;  // ranks of a long chain, and its last one
  waiting_way way;
  std::string last;
  stall at = where;
  at.peer = first;
  auto const has_met = [&way](int peer) {
    for (int const met : way.ranks) {
      if (met == peer) return true;
    }
    return false;
  };
  while (at.peer >= 0 && at.peer != rank && !has_met(at.peer)) {
    std::size_t const step = way.ranks.size();
    std::string const chunk = step == 0 || at.tree < 0
                                  ? std::string()
                                  : text_of({", tree ", at.tree, ", chunk ", at.chunk});
    std::string const part = text_of({step == 0 ? "" : ", which waits for ", name(at.peer), chunk,
                                      at.tree < 0 ? " to come"
                                      : at.sends  ? " to take it"
                                                  : " to send it"});
    if (step < most_reported) way.text += part;
    last = step < most_reported ? "" : text_of({step == most_reported ? "" : ", …", part});
    way.ranks.push_back(at.peer);
    reported_stall const next = waiting(at.peer);
    way.has_end = !next.is_reported;
    if (!next.is_reported) break;
    at = next.where;
  }
  way.text += last;
  return way;
}

}}  // namespace blink::BLINK_ABI
