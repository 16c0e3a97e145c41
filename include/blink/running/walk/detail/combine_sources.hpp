// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/detail/block_tree.hpp>
#include <blink/reducers/detail/rows.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/detail/chunk_address.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

// The combination of the sources of a chunk, a block of elements at a time.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Bytes that are combined at a time. Together with the sources they fit into a first-level cache.
inline constexpr std::size_t block_bytes = 2048;

/// Elements that are combined at a time, by the largest of the types involved.
template <class T, class A = T>
inline constexpr std::size_t block_elements =
    block_bytes / (sizeof(T) < sizeof(A) ? sizeof(A) : sizeof(T)) +
    (block_bytes < sizeof(T) || block_bytes < sizeof(A) ? 1 : 0);

/// Memory for the elements of a block. Their lifetime begins when they are written.
template <class T, std::size_t Count>
struct block_storage {
  alignas(T) alignas(64) std::byte bytes[Count * sizeof(T)];
  [[nodiscard]] T* elements() { return reinterpret_cast<T*>(bytes); }
};

/// Elements that a block has memory for: `block_elements`, or a whole item of the reducer.
template <class T, class A, class Reducer>
inline constexpr std::size_t row_elements =
    most_unit<Reducer> < block_elements<T, A> ? block_elements<T, A> : most_unit<Reducer>;

/// The most elements up to `most` that are whole items of the reducer; at least one item.
template <class Reducer>
[[nodiscard]] std::size_t whole_items(std::size_t most, Reducer const& reduce) {
  std::size_t const unit = unit_of(reduce);
  return most < unit ? unit : most - most % unit;
}

/// Calls `use(read)`, where `read(i)` is the contribution of element `first + i` of a source.
template <class T, class Reducer, class Use>
void read_source(chunk_source const& source, std::size_t first, std::uint64_t index,
                 Reducer const& reduce, Use const& use) {
  auto const* const values = static_cast<T const*>(source.data) + first;
  if constexpr (combines_elements<Reducer, T>) {
    use([=](std::size_t i) -> T const& { return values[i]; });
  } else if (source.kind == source_kind::sums) {
    auto const* const sums = static_cast<accumulator_t<Reducer, T> const*>(source.data) + first;
    use([=](std::size_t i) -> accumulator_t<Reducer, T> const& { return sums[i]; });
  } else if (source.kind == source_kind::partials) {
    auto const* const partials = static_cast<sent_t<Reducer, T> const*>(source.data) + first;
    use([=, &reduce](std::size_t i) { return detail::receive<T>(reduce, partials[i]); });
  } else {
    use([=, &reduce, rank = source.rank](std::size_t i) {
      return detail::lift(reduce, values[i], element_place{index + i, rank});
    });
  }
}

/// True if the combination of two sources may take the place of one of them, as each element is
/// read before it is overwritten.
template <class Reducer, class T>
inline constexpr bool replaces_source =
    combines_elements<Reducer, T> && (std::is_scalar_v<T> || combines_arrays<Reducer, T>);

/// The contributions of the elements of a source from `first` on: where they are, or lifted into
/// `buffer`.
template <class T, class A, class Reducer>
[[nodiscard]] A const* source_row(chunk_source const& source, std::size_t first, std::size_t count,
                                  std::uint64_t index, A* buffer, Reducer const& reduce) {
  if constexpr (combines_elements<Reducer, T>) {
    return static_cast<A const*>(source.data) + first;
  } else if constexpr (lifts_rows<Reducer, T, A>) {
    static_assert(!has_send<Reducer, A>,
                  "blink: a reducer that lifts arrays sends accumulators, expected no send");
    if (source.kind != source_kind::elements) return static_cast<A const*>(source.data) + first;
    reduce.lift(static_cast<T const*>(source.data) + first, buffer, count);
    return buffer;
  } else {
    read_source<T>(source, first, index, reduce,
                   [&](auto const& read) { fill(buffer, count, read); });
    return buffer;
  }
}

/// Combines element `first + i` of all sources, in their order, into total[i].
///
/// total: may be one of two sources that it `replaces_source`
/// count: at most `row_elements` if elements are lifted
template <class T, class Source, class A, class Reducer>
void combine_sources(Source const& source, std::uint32_t sources, std::size_t first,
                     std::size_t count, std::uint64_t index, A* total, Reducer const& reduce) {
  std::uint32_t next = 1;
  if constexpr (combines_elements<Reducer, T>) {
    if (sources > 1) {  // two at once saves writing and reading the total
      auto const* const a = static_cast<T const*>(source(0).data) + first;
      auto const* const b = static_cast<T const*>(source(1).data) + first;
      fill(total, count, [=, &reduce](std::size_t i) { return reduce(a[i], b[i]); });
      next = 2;
    }
  }
  if (next == 1) {
    read_source<T>(source(0), first, index, reduce,
                   [&](auto const& read) { fill(total, count, read); });
  }
  A const* const before = total;
  for (; next < sources; ++next) {
    read_source<T>(source(next), first, index, reduce, [&](auto const& read) {
      fill(total, count, [=, &reduce](std::size_t i) {
        A const own = before[i];  // a copy: the result takes its place
        return reduce(own, read(i));
      });
    });
  }
}

/// The same by functions over arrays.
template <class T, class Source, class A, class Reducer>
  requires combines_arrays<Reducer, T>
void combine_sources(Source const& source, std::uint32_t sources, std::size_t first,
                     std::size_t count, std::uint64_t index, A* total, Reducer const& reduce) {
  A const* before = source_row<T>(source(0), first, count, index, total, reduce);
  if (sources == 1 && before != total) std::memcpy(total, before, count * sizeof(A));
  for (std::uint32_t next = 1; next < sources; ++next) {
    block_storage<A, row_elements<T, A, Reducer>> lifted;
    A const* const more =
        source_row<T>(source(next), first, count, index, lifted.elements(), reduce);
    reduce.combine(before, more, total, count);
    before = total;
  }
}

/// Combines the sources of an element along the tree of ranks, for a block of elements.
///
/// Ranks: ranks(k) returns the ranks whose elements source `k` holds
template <class T, class Source, class Ranks, class Reducer>
class tree_combination {
 public:
  using A = accumulator_t<Reducer, T>;

  tree_combination(Source const& source, Ranks const& ranks, Reducer const& reduce)
      : source_(source), ranks_(ranks), reduce_(reduce) {}

  /// Combines element `first + i` of all sources into total[i].
  ///
  /// sources: two or more
  /// count:   at most `row_elements`
  void make(std::uint32_t sources, std::size_t first, std::size_t count, std::uint64_t index,
            A* total) {
    next_ = 0;
    first_ = first;
    count_ = count;
    index_ = index;
    of_node({ranks_(0).begin, ranks_(sources - 1).end}, total);
  }

 private:
  // Returns the totals of a node: in `to`, or where they are already.
  A const* of_node(block_node const& node, A* to) {
    if (ranks_(next_) == node) return of_source(next_++, to);
    auto const [left, right] = children_of(node);
    A const* const a = of_node(left, to);
    block_storage<A, row_elements<T, A, Reducer>> storage;
    A const* const b = of_node(right, storage.elements());
    combine_rows(a, b, to, count_, reduce_);
    return to;
  }
  A const* of_source(std::uint32_t k, A* to) {
    return source_row<T>(source_(k), first_, count_, index_, to, reduce_);
  }

  Source const& source_;
  Ranks const& ranks_;
  Reducer const& reduce_;
  std::uint32_t next_ = 0;  // source
  std::size_t first_ = 0, count_ = 0;
  std::uint64_t index_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
