// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A set of blocks of a buffer, usually those that are not all zero, with a bit for each block.
/// Blocks have equal lengths; the last one may be shorter.
class block_mask {
 public:
  /// A mask without blocks, for a buffer of `count` elements. Pre: block_elements >= 1.
  block_mask(std::size_t count, std::size_t block_elements)
      : count_(count), block_elements_(block_elements) {
    expects(block_elements >= 1, "block_mask: block_elements is 0, expected at least 1");
    words_.resize((block_count() + 63) / 64, 0);
  }

  /// Returns the blocks that have a byte other than 0. A negative zero of floating point has one.
  ///
  /// Time: one pass over the data; a block is left at its first bytes that are not 0.
  template <class T>
  [[nodiscard]] static block_mask of(T const* data, std::size_t count, std::size_t block_elements) {
    block_mask result(count, block_elements);
    for (std::size_t block = 0; block < result.block_count(); ++block) {
      if (is_not_zero(reinterpret_cast<std::byte const*>(data + result.begin(block)),
                      result.length(block) * sizeof(T))) {
        result.set(block);
      }
    }
    return result;
  }

  [[nodiscard]] std::size_t count() const { return count_; }  ///< elements of the buffer
  [[nodiscard]] std::size_t block_elements() const { return block_elements_; }  ///< of a block
  [[nodiscard]] std::size_t block_count() const {
    return count_ / block_elements_ + (count_ % block_elements_ == 0 ? 0 : 1);
  }
  /// Element where a block begins.
  [[nodiscard]] std::size_t begin(std::size_t block) const { return block * block_elements_; }
  /// Elements of a block.
  [[nodiscard]] std::size_t length(std::size_t block) const {
    std::size_t const rest = count_ - begin(block);
    return rest < block_elements_ ? rest : block_elements_;
  }

  /// Adds a block to the mask. Pre: block < block_count().
  void set(std::size_t block) { words_[block / 64] |= std::uint64_t{1} << block % 64; }
  /// True if the block is in the mask. Pre: block < block_count().
  [[nodiscard]] bool test(std::size_t block) const {
    return (words_[block / 64] >> block % 64 & 1) != 0;
  }
  /// A bit for each block, 64 to a word, the first block in the lowest bit.
  [[nodiscard]] std::vector<std::uint64_t>& words() { return words_; }

  /// Calls `visit(block)` for each block of the mask, in order.
  template <class Visit>
  void for_each(Visit const& visit) const {
    for (std::size_t word = 0; word < words_.size(); ++word) {
      for (std::uint64_t bits = words_[word]; bits != 0; bits &= bits - 1) {
        visit(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
      }
    }
  }
  /// Elements in all blocks of the mask.
  [[nodiscard]] std::size_t elements() const {
    std::size_t blocks = 0;
    for (auto const word : words_) blocks += static_cast<std::size_t>(std::popcount(word));
    if (blocks == 0) return 0;
    std::size_t const last = block_count() - 1;
    return blocks * block_elements_ - (test(last) ? block_elements_ - length(last) : 0);
  }

 private:
  static bool is_not_zero(std::byte const* data, std::size_t bytes) {
    constexpr std::size_t step = 256;  // checked together, so that compilers vectorise
    std::size_t at = 0;
    for (; at + step <= bytes; at += step) {
      std::uint64_t words[step / 8];
      std::memcpy(words, data + at, step);
      std::uint64_t any = 0;
      for (auto const word : words) any |= word;
      if (any != 0) return true;
    }
    for (; at < bytes; ++at) {
      if (data[at] != std::byte{0}) return true;
    }
    return false;
  }

  std::size_t count_;
  std::size_t block_elements_;
  std::vector<std::uint64_t> words_;
};

}}  // namespace blink::BLINK_ABI
