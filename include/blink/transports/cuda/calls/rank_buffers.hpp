// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/detail/check_buffers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The buffers of one rank in a call that one process makes for all its ranks.
template <class T>
struct rank_buffers {
  T const* input = nullptr;
  T* output = nullptr;
  /// Elements of the buffer, or of one segment, equal on all ranks. In a call with segments of any
  /// sizes: elements of the rank's own segment.
  std::size_t count = 0;
};

namespace detail {

/// A rank's buffers, independent of the type of their elements.
struct plain_buffers {
  void const* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
};

/// Consecutive ranks: those of a process.
struct rank_range {
  int first = 0;
  int of = 0;  ///< number of ranks of all processes

  /// The number of the rank at a position, as text.
  [[nodiscard]] std::string text(std::size_t position) const {
    return std::to_string(static_cast<std::size_t>(first) + position);
  }
};

/// The largest number of bytes that a call accesses from the addresses of a rank's buffers on.
struct buffer_reach {
  std::size_t input = 0;
  std::size_t output = 0;
};

/// Throws: precondition_error if the output of a rank overlaps a buffer of another rank. That can
///         happen because ranks on one device share its memory.
///
/// reach: by position among the ranks, as `use` and `buffers`
/// Time:  O(ranks log ranks).
/// Pre:   each rank's own buffers passed `check_buffers`.
inline void expect_ranks_apart(collective kind, rank_range const& which,
                               std::vector<buffer_use> const& use,
                               std::vector<plain_buffers> const& buffers,
                               std::vector<buffer_reach> const& reach) {
  struct range {
    std::uintptr_t begin = 0, end = 0;
    std::size_t rank = 0;
    bool is_written = false;
  };
  std::vector<range> ranges;
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    auto const in = reinterpret_cast<std::uintptr_t>(buffers[rank].input);
    auto const out = reinterpret_cast<std::uintptr_t>(buffers[rank].output);
    auto const& bytes = reach[rank];
    if (use[rank].reads && bytes.input > 0) ranges.push_back({in, in + bytes.input, rank, false});
    if (use[rank].writes && bytes.output > 0) {
      ranges.push_back({out, out + bytes.output, rank, true});
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](range const& a, range const& b) { return a.begin < b.begin; });
  range const* longest[2] = {};          // of the ranges so far: the one that ends last, and
  range const* longest_written[2] = {};  // the one of another rank that ends last
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

/// Throws: precondition_error unless there are buffers for each rank of this process.
inline void expect_all_buffers(std::string const& name, std::vector<buffer_use> const& use,
                               std::vector<plain_buffers> const& buffers) {
  if (buffers.size() == use.size()) return;
  throw precondition_error(name + ": buffers of " + std::to_string(buffers.size()) +
                           " ranks, expected " + std::to_string(use.size()));
}

/// Checks the buffers of some ranks, which `use` and `buffers` list in order. Returns for each rank
/// if input and output are in one place.
///
/// Throws: precondition_error that names the rank, for counts that differ; for buffers that are
///         null, not aligned for their elements, or larger than the address space; for buffers that
///         overlap otherwise than in place.
[[nodiscard]] inline std::vector<bool> check_rank_buffers(collective kind, rank_range const& which,
                                                          std::vector<buffer_use> const& use,
                                                          std::vector<plain_buffers> const& buffers,
                                                          std::size_t element_bytes,
                                                          std::size_t alignment) {
  std::string const name(to_text(kind));
  expect_all_buffers(name, use, buffers);
  auto const ranks = static_cast<std::size_t>(which.of);
  std::vector<bool> is_in_place(buffers.size(), false);
  std::vector<buffer_reach> reach(buffers.size());
  for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
    auto const& own = buffers[rank];
    if (own.count != buffers[0].count) {
      throw precondition_error(name + ": rank " + which.text(0) + " has count " +
                               std::to_string(buffers[0].count) + ", rank " + which.text(rank) +
                               " has " + std::to_string(own.count));
    }
    auto const overlap =
        check_buffers(kind, use[rank], which.first + static_cast<int>(rank), which.of, own.input,
                      own.output, own.count, element_bytes, alignment);
    is_in_place[rank] = overlap == buffer_overlap::in_place;
    std::size_t const bytes = own.count * element_bytes;
    reach[rank] = {bytes * (has_input_blocks(kind) ? ranks : 1),
                   bytes * (has_output_blocks(kind) ? ranks : 1)};
  }
  expect_ranks_apart(kind, which, use, buffers, reach);
  return is_in_place;
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
