// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The nodes of a route, a container of ints. Plans have millions of routes, most of two nodes:
/// these need no memory of their own.
class node_path {
 public:
  using value_type = int;
  using iterator = int*;
  using const_iterator = int const*;

  node_path() = default;
  node_path(std::initializer_list<int> nodes) { assign(nodes.begin(), nodes.end()); }
  node_path(std::vector<int> const& nodes) {  // NOLINT: the same values
    assign(nodes.data(), nodes.data() + nodes.size());
  }
  template <std::input_iterator Iterator>
  node_path(Iterator first, Iterator last) : node_path(std::vector<int>(first, last)) {}
  node_path(node_path const& other) { assign(other.begin(), other.end()); }
  node_path(node_path&& other) noexcept { swap(other); }
  node_path& operator=(node_path other) noexcept {
    swap(other);
    return *this;
  }
  ~node_path() {
    if (!is_short()) delete[] nodes_.many;
  }

  [[nodiscard]] int const* begin() const { return is_short() ? nodes_.few : nodes_.many; }
  [[nodiscard]] int const* end() const { return begin() + size_; }
  [[nodiscard]] int* begin() { return is_short() ? nodes_.few : nodes_.many; }
  [[nodiscard]] int* end() { return begin() + size_; }
  [[nodiscard]] auto rbegin() const { return std::make_reverse_iterator(end()); }
  [[nodiscard]] auto rend() const { return std::make_reverse_iterator(begin()); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] int operator[](std::size_t i) const { return begin()[i]; }
  [[nodiscard]] int& operator[](std::size_t i) { return begin()[i]; }
  [[nodiscard]] int front() const { return *begin(); }
  [[nodiscard]] int back() const { return *(end() - 1); }
  void clear() { *this = node_path(); }

  operator std::vector<int>() const { return {begin(), end()}; }  // NOLINT: the same values

  friend bool operator==(node_path const& a, node_path const& b) {
    return std::ranges::equal(a, b);
  }
  friend auto operator<=>(node_path const& a, node_path const& b) {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static constexpr std::size_t most_inside = 2;  // as large as a pointer

  [[nodiscard]] bool is_short() const { return size_ <= most_inside; }
  void assign(int const* first, int const* last) {
    size_ = static_cast<std::uint32_t>(last - first);
    if (!is_short()) nodes_.many = new int[size_];
    std::copy(first, last, begin());
  }
  void swap(node_path& other) noexcept {
    std::swap(nodes_, other.nodes_);
    std::swap(size_, other.size_);
  }

  union {
    int few[most_inside];
    int* many;
  } nodes_ = {};
  std::uint32_t size_ = 0;
};

}}  // namespace blink::BLINK_ABI
