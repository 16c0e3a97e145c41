// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// A collective could not end: a rank did not come or did not go on before the deadline, or it
/// called something else. Results and inputs that are written in place are unspecified, and the
/// communicator that it happened in refuses further calls. -1: not known, or of no meaning.
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

/// A failure as plain bytes in memory that processes share: written once by the rank that found it, and read by the others
/// when they are reported that it is complete, which is not said here. Texts that are too long are cut.
struct failure_note {
  std::int32_t rank, peer, tree;
  long long chunk;
  bool disagrees;
  std::array<char, 1000> text;  // ends with a 0

  template <class = when_used>
  void write(collective_error const& failure) {
    rank = failure.rank;
    peer = failure.peer;
    tree = failure.tree;
    chunk = failure.chunk;
    disagrees = failure.disagrees;
    text = {};
    std::string_view(failure.what()).copy(text.data(), text.size() - 1);
  }
  template <class = when_used>
  [[nodiscard]] collective_error read() const {
    return {text.data(), rank, peer, tree, chunk, disagrees};
  }
};

/// What is known of the other ranks beside what they say themselves. Threads of one process live
/// and die together; processes do not.
class failure_detector {
 public:
  /// Has the rank come to its end without saying so? Asked by ranks that have waited for a while.
  [[nodiscard]] virtual bool is_dead(int rank) const = 0;

  /// What else is known, such as "process 4711, stopped by a signal"; may be empty.
  [[nodiscard]] virtual std::string describe(int rank) const = 0;

 protected:
  ~failure_detector() = default;
};

}}  // namespace blink::BLINK_ABI
