// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/detail/check_buffers.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace blink::inline BLINK_ABI {

/// The buffers of one rank in a call that one process makes for all its ranks.
template <class T>
struct rank_buffers {
  T const* input = nullptr;
  T* output = nullptr;
  std::size_t count = 0;  ///< elements of the buffer, or of one block; equal on all ranks
};

namespace detail {

/// A rank's buffers, whatever their elements are.
struct plain_buffers {
  void const* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
};

/// Consecutive ranks, those of a process.
struct rank_range {
  int first = 0;
  int of = 0;  ///< how many ranks there are in all

  /// The number of the rank at a position among them.
  [[nodiscard]] std::string text(std::size_t position) const {
    return std::to_string(static_cast<std::size_t>(first) + position);
  }
};

/// Throws: precondition_error if the output of a rank overlaps a buffer of another one: ranks on one
///         device share its memory.
///
/// Time: O(ranks log ranks). Pre: each rank's own buffers passed `check_buffers`.
inline void expect_ranks_apart(collective kind, rank_range const& which,
                               std::vector<buffer_use> const& use,
                               std::vector<plain_buffers> const& buffers,
                               std::size_t element_bytes) {
  struct range {
    std::uintptr_t begin = 0, end = 0;
    std::size_t rank = 0;
    bool is_written = false;
  };
  std::vector<range> ranges;
  auto const ranks = static_cast<std::size_t>(which.of);
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    std::size_t const bytes = buffers[rank].count * element_bytes;
    if (bytes == 0) return;
    auto const in = reinterpret_cast<std::uintptr_t>(buffers[rank].input);
    auto const out = reinterpret_cast<std::uintptr_t>(buffers[rank].output);
    if (use[rank].reads) {
      ranges.push_back({in, in + bytes * (has_input_blocks(kind) ? ranks : 1), rank, false});
    }
    if (use[rank].writes) {
      ranges.push_back({out, out + bytes * (has_output_blocks(kind) ? ranks : 1), rank, true});
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](range const& a, range const& b) { return a.begin < b.begin; });
  range const* longest[2] = {};          // of those so far: what reaches furthest, and
  range const* longest_written[2] = {};  // what does so of another rank
  auto const keep = [](range const** best, range const& one) {
    if (best[0] == nullptr || one.end > best[0]->end) {
      if (best[0] != nullptr && best[0]->rank != one.rank) best[1] = best[0];
      best[0] = &one;
    } else if (one.rank != best[0]->rank && (best[1] == nullptr || one.end > best[1]->end)) {
      best[1] = &one;
    }
  };
  for (auto const& one : ranges) {
    for (auto const* before : one.is_written ? longest : longest_written) {
      if (before == nullptr || before->rank == one.rank || before->end <= one.begin) continue;
      throw precondition_error(
          std::string(to_text(kind)) + ": the " + (one.is_written ? "output" : "input") +
          " of rank " + which.text(one.rank) + " begins inside the " +
          (before->is_written ? "output" : "input") + " of rank " + which.text(before->rank));
    }
    keep(longest, one);
    if (one.is_written) keep(longest_written, one);
  }
}

/// Checks the buffers of some ranks, which `use` and `buffers` are of in order. Returns for each
/// whether input and output are in one place.
///
/// Throws: precondition_error that names the rank for counts that differ, buffers that are null, not
///         aligned for their elements, larger than an address can name, or that overlap in another
///         way than in place.
[[nodiscard]] inline std::vector<bool> check_rank_buffers(collective kind, rank_range const& which,
                                                          std::vector<buffer_use> const& use,
                                                          std::vector<plain_buffers> const& buffers,
                                                          std::size_t element_bytes,
                                                          std::size_t alignment) {
  std::string const name(to_text(kind));
  if (buffers.size() != use.size()) {
    throw precondition_error(name + ": buffers of " + std::to_string(buffers.size()) +
                             " ranks, expected those of " + std::to_string(use.size()));
  }
  std::vector<bool> is_in_place(buffers.size(), false);
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    auto const& own = buffers[rank];
    if (own.count != buffers[0].count) {
      throw precondition_error(name + ": rank " + which.text(0) + " has count " +
                               std::to_string(buffers[0].count) + ", rank " + which.text(rank) +
                               " has " + std::to_string(own.count));
    }
    auto const overlap = check_buffers(kind, use[rank], which.first + static_cast<int>(rank),
                                       which.of, own.input, own.output, own.count, element_bytes);
    is_in_place[rank] = overlap == buffer_overlap::in_place;
    if (own.count == 0) continue;
    auto const expect_aligned = [&](bool is_used, char const* part, void const* at) {
      std::size_t const off = reinterpret_cast<std::uintptr_t>(at) % alignment;
      if (!is_used || off == 0) return;
      throw precondition_error(name + " on rank " + which.text(rank) + ": the " + part + " lies " +
                               std::to_string(off) + " bytes behind a multiple of " +
                               std::to_string(alignment) + ", the alignment of its elements");
    };
    expect_aligned(use[rank].reads, "input", own.input);
    expect_aligned(use[rank].writes, "output", own.output);
  }
  expect_ranks_apart(kind, which, use, buffers, element_bytes);
  return is_in_place;
}

}  // namespace detail

}  // namespace blink::inline BLINK_ABI
