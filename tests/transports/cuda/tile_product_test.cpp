// SPDX-License-Identifier: Apache-2.0
// The kernel of examples/cuda/matrix_product.cu on devices whose blocks are threads.

#include "../../../examples/cuda/tile_product.hpp"

#include <blink/running/walk/choose_protocol.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "support/device_case.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// The sources of a folder may be compiled as one.
namespace tile_product_test { namespace {

using blink_test::emulated_devices;
using blink_test::options_in_vectors;
using all_ranks = blink::basic_device_ranks<emulated_devices, blink::reaching_peer_transport,
                                            blink::fixed_protocol<blink::whole_chunks>>;

/// Shares of a product, with values that sums represent exactly.
class shares {
 public:
  shares(int ranks, std::size_t rows, std::size_t inner, std::size_t columns, std::size_t tile_rows)
      : shape_{nullptr, nullptr, nullptr, rows, inner, columns, tile_rows} {
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      left_.emplace_back(rows * inner);
      right_.emplace_back(inner * columns);
      product_.emplace_back(rows * columns);
      for (std::size_t k = 0; k < left_[rank].size(); ++k) {
        left_[rank][k] = static_cast<float>(k * 3 % 5 + rank);
      }
      for (std::size_t k = 0; k < right_[rank].size(); ++k) {
        right_[rank][k] = static_cast<float>(k % 7) - static_cast<float>(rank);
      }
    }
  }
  [[nodiscard]] std::vector<example::tile_product> kernels() {
    std::vector<example::tile_product> result;
    for (std::size_t rank = 0; rank < left_.size(); ++rank) {
      auto& own = result.emplace_back(shape_);
      own.left = left_[rank].data();
      own.right = right_[rank].data();
      own.product = product_[rank].data();
    }
    return result;
  }
  /// The number of wrong elements of the product on all ranks; clears the product.
  [[nodiscard]] std::size_t wrong() {
    std::size_t count = 0;
    for (std::size_t e = 0; e < shape_.rows * shape_.columns; ++e) {
      float expected = 0;
      for (std::size_t rank = 0; rank < left_.size(); ++rank) {
        for (std::size_t k = 0; k < shape_.inner; ++k) {
          expected += left_[rank][e / shape_.columns * shape_.inner + k] *
                      right_[rank][k * shape_.columns + e % shape_.columns];
        }
      }
      for (auto& own : product_) count += std::exchange(own[e], -1.0F) != expected ? 1U : 0U;
    }
    return count;
  }

 private:
  example::tile_product shape_;
  std::vector<std::vector<float>> left_, right_, product_;
};

TEST(tile_product, is_that_of_one_place) {
  struct one_case {
    std::vector<int> devices;
    std::size_t rows, inner, columns, tile_rows;
    std::uint32_t blocks, threads_each;
  };
  for (auto const& now :
       std::vector<one_case>{{{0, 1}, 6, 4, 10, 2, 3, 1},
                             {{0, 0, 0}, 33, 3, 7, 4, 4, 1},  // the last one is short
                             {{0, 0, 1, 1}, 20, 5, 9, 3, 5, 3},
                             {{0, 1, 0}, 5, 2, 3, 8, 2, 2}}) {  // one tile
    SCOPED_TRACE(now.rows);
    emulated_devices machine({.devices = 2, .room = 8192, .threads_each = now.threads_each});
    all_ranks all(machine, options_in_vectors(now.devices));
    int const ranks = all.rank_count();
    auto const channels = all.prepare_channels<float>(
        blink::star_schedule(ranks),
        {.most_count = now.tile_rows * now.columns, .channels = now.blocks});
    shares product(ranks, now.rows, now.inner, now.columns, now.tile_rows);
    for (int launch = 0; launch < 3; ++launch) {
      all.launch(channels, product.kernels(), {.blocks = now.blocks});
      all.wait();
      EXPECT_EQ(product.wrong(), 0U) << "launch " << launch;
    }
  }
}

TEST(tile_product, by_packets) {
  emulated_devices machine({.devices = 2, .room = 8192, .threads_each = 3});
  all_ranks all(machine, options_in_vectors({0, 0, 1}));
  auto const channels = all.prepare_channels<float, blink::small_packets>(
      blink::star_schedule(3), {.most_count = 40, .channels = 3});
  shares product(3, 25, 4, 10, 4);
  for (int launch = 0; launch < 3; ++launch) {
    all.launch(channels, product.kernels(), {.blocks = 3});
    all.wait();
    EXPECT_EQ(product.wrong(), 0U) << "launch " << launch;
  }
}

TEST(tile_product, a_rank_with_fewer_tiles_is_named) {
  emulated_devices machine({.devices = 2});
  auto options = options_in_vectors({0, 1});
  options.deadline = std::chrono::milliseconds(1500);  // enough for busy machines
  all_ranks all(machine, options);
  auto const channels =
      all.prepare_channels<float>(blink::chain_schedule(2, 0), {.most_count = 20, .channels = 3});
  shares product(2, 6, 4, 10, 2);
  auto kernels = product.kernels();
  kernels[1].rows = 4;
  all.launch(channels, kernels, {.blocks = 3});
  EXPECT_ERROR(all.wait(),
               "all_reduce in channel 2, tree 0, chunk 0 of 1: waits for rank 1 (device 1) "
               "to send it; its kernel has made 0 calls in this channel, others 1");
  all.recover();
  all.launch(channels, product.kernels(), {.blocks = 3});
  all.wait();
  EXPECT_EQ(product.wrong(), 0U);
}

}}  // namespace tile_product_test
