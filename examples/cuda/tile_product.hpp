// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernel of matrix_product.cu. Blocks of devices run it and, in tests, host threads.

#include <blink/core/config.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/running/walk/counter.hpp>

#include <cstddef>
#include <cstdint>

namespace example {

/// One rank's share of a product, rows x inner times inner x columns: first its own addend, then
/// the sum over all ranks.
struct tile_product {
  float const* left;   // rows x inner
  float const* right;  // inner x columns
  float* product;      // rows x columns
  std::size_t rows, inner, columns, tile_rows;

  /// Each block owns some tiles of rows, and all-reduces each tile as soon as it is complete, in
  /// its own channel.
  template <class Group, class Channels>
  BLINK_HOST_DEVICE void operator()(Group const group, Channels const& ranks,
                                    std::uint32_t block) const {
    std::size_t const stride = ranks.channel_count() * tile_rows;
    for (std::size_t first = block * tile_rows; first < rows; first += stride) {
      std::size_t const own_rows = rows - first < tile_rows ? rows - first : tile_rows;
      float* const tile = product + first * columns;
      multiply(group, first, own_rows * columns, tile);
      auto const end = ranks.run(group, block, tile, tile, own_rows * columns, blink::sum{});
      if (end != blink::status::ok) return;  // the communicator's `wait` throws the cause
    }
  }

 private:
  template <class Group>
  BLINK_HOST_DEVICE void multiply(Group const group, std::size_t first, std::size_t count,
                                  float* tile) const {
    for (std::size_t e = group.thread_rank(); e < count; e += group.size()) {
      std::size_t const row = first + e / columns;
      std::size_t const column = e % columns;
      float total = 0;
      for (std::size_t k = 0; k < inner; ++k) {
        total += left[row * inner + k] * right[k * columns + column];
      }
      tile[e] = total;
    }
  }
};

}  // namespace example
