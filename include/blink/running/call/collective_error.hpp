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

/// A collective that could not end.
///
/// A rank did not enter or made no progress until the deadline, or it called something else.
/// Results, and inputs that are written in place, are unspecified. The communicator refuses further
/// calls. A member that is -1 is unknown or has no meaning.
struct collective_error : error {
  collective_error(std::string const& text, int its_rank, int its_peer, int its_tree,
                   long long its_chunk, bool they_disagree = false)
      : error(text),
        rank(its_rank),
        peer(its_peer),
        tree(its_tree),
        chunk(its_chunk),
        disagrees(they_disagree) {}

  int rank;         ///< the rank that found the failure
  int peer;         ///< the rank that it waited for or disagreed with
  int tree;         ///< the tree of the schedule
  long long chunk;  ///< the chunk
  bool disagrees;   ///< true if ranks entered calls that differ; false if a rank waited too long
};

/// A failure as plain bytes in memory that processes share.
///
/// The rank that found the failure writes it once. Peers read it after they learn, by other means,
/// that it is complete. Long texts are cut.
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

/// Information about peers that they do not send themselves. Threads of one process end together;
/// processes do not.
class failure_detector {
 public:
  /// True if the rank has ended without leaving. Asked by ranks that have waited for a while.
  [[nodiscard]] virtual bool is_dead(int rank) const = 0;

  /// Returns further facts about the rank, such as "process 4711, stopped"; may be empty.
  [[nodiscard]] virtual std::string describe(int rank) const = 0;

 protected:
  ~failure_detector() = default;
};

}}  // namespace blink::BLINK_ABI
