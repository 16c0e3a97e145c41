// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A value for each rank, many of which are absent: the parents of a tree, or the links of its
/// edges. Numbers are absent at -1, lists if they are empty.
///
/// Reads like a vector. The trees of an all-to-all have one edge each, and a thousand ranks have a
/// million trees, so only present values take memory.
template <class T>
class by_rank {
 public:
  /// A present value.
  struct entry {
    int rank = 0;
    T value{};
    friend bool operator==(entry const&, entry const&) = default;
  };

  [[nodiscard]] static T const& absent() {
    static T const value = [] {
      if constexpr (std::is_integral_v<T>) {
        return T{-1};
      } else {
        return T{};
      }
    }();
    return value;
  }

  by_rank() = default;
  by_rank(std::vector<T> const& values) { fill(values); }
  by_rank(std::initializer_list<T> values) { fill(values); }
  /// Values for `ranks` ranks, of which only this one may be present.
  by_rank(int ranks, entry const& only) : size_(static_cast<std::size_t>(ranks)) {
    if (only.value != absent()) entries_.push_back(only);
  }

  void assign(std::size_t ranks, T const& value) {
    clear();
    if (value == absent()) size_ = ranks;
    while (size_ < ranks) push_back(value);
  }
  void push_back(T const& value) {
    if (value != absent()) entries_.push_back({static_cast<int>(size_), value});
    ++size_;
  }
  void clear() { *this = {}; }

  /// Sets the value of a rank, which may lie beyond the others.
  ///
  /// Time: O(1) where ranks come in rising order, else O(present values).
  void set(std::size_t rank, T value) {
    if (rank >= size_) size_ = rank + 1;
    auto const at = place_of(rank);
    bool const is_there = at != entries_.end() && at->rank == static_cast<int>(rank);
    if (value == absent()) {
      if (is_there) entries_.erase(at);
    } else if (is_there) {
      entries_[static_cast<std::size_t>(at - entries_.begin())].value = std::move(value);
    } else {
      entries_.insert(at, entry{static_cast<int>(rank), std::move(value)});
    }
  }

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Time: O(1) if nearly all values are present, or one, else O(log present values).
  [[nodiscard]] T const& operator[](std::size_t rank) const {
    auto const at = place_of(rank);
    return at != entries_.end() && at->rank == static_cast<int>(rank) ? at->value : absent();
  }
  /// The present values, by rising rank.
  [[nodiscard]] std::vector<entry> const& entries() const { return entries_; }

  /// All values, absent ones too.
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> result(size_, absent());
    for (auto const& [rank, value] : entries_) result[static_cast<std::size_t>(rank)] = value;
    return result;
  }
  /// The same in turn.
  class iterator {
   public:
    iterator(by_rank const& of, std::size_t rank) : of_(&of), rank_(rank) {}
    [[nodiscard]] T const& operator*() const { return (*of_)[rank_]; }
    iterator& operator++() {
      ++rank_;
      return *this;
    }
    friend bool operator==(iterator const&, iterator const&) = default;

   private:
    by_rank const* of_ = nullptr;
    std::size_t rank_ = 0;
  };
  [[nodiscard]] iterator begin() const { return {*this, 0}; }
  [[nodiscard]] iterator end() const { return {*this, size_}; }

  friend bool operator==(by_rank const&, by_rank const&) = default;

 private:
  template <class Values>
  void fill(Values const& values) {
    for (auto const& value : values) push_back(value);
  }
  // The first entry of this rank or a later one. At most `rank` entries are before it, and in a
  // spanning tree one less below the root.
  [[nodiscard]] typename std::vector<entry>::const_iterator place_of(std::size_t rank) const {
    auto const are_before = [&](std::size_t count) {
      return count == 0 || entries_[count - 1].rank < static_cast<int>(rank);
    };
    std::size_t before = rank < entries_.size() ? rank : entries_.size();
    if (!are_before(before) && !are_before(--before)) {
      std::size_t end = before;
      before = 0;
      while (end - before > 1) {
        std::size_t const middle = (before + end) / 2;
        (are_before(middle) ? before : end) = middle;
      }
    }
    return entries_.begin() + static_cast<std::ptrdiff_t>(before);
  }

  std::size_t size_ = 0;
  std::vector<entry> entries_{};
};

}}  // namespace blink::BLINK_ABI
