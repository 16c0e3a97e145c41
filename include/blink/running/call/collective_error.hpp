// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <string>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// A collective could not end: a rank did not come or did not go on before the deadline, or it
/// called something else. Results and inputs that are written in place are unspecified, and the
/// world that it happened in refuses further calls. -1: not known, or of no meaning.
struct collective_error : error {
  collective_error(std::string const& text, int its_rank, int its_peer, int its_tree,
                   long long its_chunk, bool they_disagree = false)
      : error(text),
        rank(its_rank),
        peer(its_peer),
        tree(its_tree),
        chunk(its_chunk),
        disagrees(they_disagree) {}

  int rank;         ///< who found out
  int peer;         ///< whom it waited for or disagreed with
  int tree;         ///< in which tree of the schedule
  long long chunk;  ///< for which chunk
  bool disagrees;   ///< has somebody compared calls that do not fit together, instead of waiting?
};

}}  // namespace blink::BLINK_ABI
