// SPDX-License-Identifier: Apache-2.0
// A collective inside one's own kernel: each rank multiplies its share of the inner dimension, and each
// block all-reduces its tile of the product as soon as it has it, while other blocks still multiply.

#include <blink/collectives/default_schedules.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/transports/cuda/peer_memory.hpp>
#include <blink/transports/cuda/walk_kernel.cuh>
#include <blink/transports/prepared_schedule.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

namespace example {

using tile_work = blink::block_work<blink::reaching_peer_link, float>;

/// One rank's share of a product: rows x inner times inner x columns, in tiles of some rows.
struct share {
  float const* left;
  float const* right;
  float* partial;  ///< rows x columns, what this rank adds to the product
  std::size_t inner, columns, tile_rows;
};

/// What one block does: a tile of the partial product, then the sum of it over all ranks.
template <class Group>
BLINK_HOST_DEVICE void multiply_and_reduce(Group const group, share const& own, std::size_t tile,
                                           tile_work& work, std::uint64_t deadline_nanoseconds) {
  std::size_t const first = tile * own.tile_rows * own.columns;
  for (std::size_t e = group.thread_rank(); e < own.tile_rows * own.columns; e += group.size()) {
    std::size_t const row = (first + e) / own.columns;
    std::size_t const column = (first + e) % own.columns;
    float total = 0;
    for (std::size_t k = 0; k < own.inner; ++k) {
      total += own.left[row * own.inner + k] * own.right[k * own.columns + column];
    }
    own.partial[first + e] = total;
  }
  group.sync();
  blink::walk_block(group, work, deadline_nanoseconds, blink::sum{});
}

/// A block for each tile of a rank. Launched cooperatively, on all ranks.
__global__ void product_kernel(share const own, tile_work* works,
                               std::uint64_t deadline_nanoseconds) {
  multiply_and_reduce(blink::thread_block{}, own, blockIdx.x, works[blockIdx.x],
                      deadline_nanoseconds);
}

constexpr int ranks = 2;
constexpr std::size_t rows = 6, columns = 10, tile_rows = 2, tiles = rows / tile_rows;
constexpr std::size_t inner = 4;  // of each rank
constexpr std::size_t tile_count = tile_rows * columns;

struct one_rank {
  std::vector<float> left = std::vector<float>(rows * inner);
  std::vector<float> right = std::vector<float>(inner * columns);
  std::vector<float> partial = std::vector<float>(rows * columns);
  std::vector<float> product = std::vector<float>(rows * columns);
};

/// Wires for one tile: all ranks read each other's partial results, in one step.
struct tile_wires {
  tile_wires(std::vector<one_rank>& all, std::size_t tile, blink::counter& abort)
      : prepared(blink::one_shot_schedule(ranks), layout(), {}) {
    for (auto& one : all) {
      inputs.push_back(one.partial.data() + tile * tile_count);
      outputs.push_back(one.product.data() + tile * tile_count);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      constexpr auto kind = blink::collective::all_reduce;
      auto const lanes = prepared.tables().lanes(rank, kind);
      for (std::size_t k = 0; k < lanes.count; ++k) {
        auto const block = prepared.equal_block(lanes.first[k], kind, tile_count);
        prepared.set_call<blink::scheduled_chunks>(lanes.first[k], kind, block,
                                                   blink::sizes_of<blink::sum, float>(),
                                                   blink::order_promise::run);
      }
      auto& work = works.emplace_back();
      work.here = lanes.first;
      work.lane_count = static_cast<std::uint32_t>(lanes.count);
      work.link.wires = prepared.tables().wires();
      work.link.abort = &abort;
      work.link.bytes_of_slot = prepared.tables().layout().slot_bytes;
      work.link.own_rank = rank;
      work.link.ranks = ranks;
      work.link.inputs = inputs.data();
      work.link.outputs = outputs.data();
      auto const own = static_cast<std::size_t>(rank);
      work.buffers = {static_cast<float const*>(inputs[own]), static_cast<float*>(outputs[own])};
    }
  }
  static blink::wire_layout layout() {
    blink::wire_layout result;
    result.reaches = true;
    result.slot_bytes = tile_count * sizeof(float);
    return result;
  }

  blink::prepared_schedule prepared;
  std::vector<void const*> inputs;
  std::vector<void*> outputs;
  std::vector<tile_work> works;  // by rank
};

}  // namespace example

// Without a GPU the blocks are threads of the host; what they run is the same.
int main() {
  using namespace example;
  std::vector<one_rank> all(ranks);
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t k = 0; k < rows * inner; ++k) all[r].left[k] = static_cast<float>(k % 5 + r);
    for (std::size_t k = 0; k < inner * columns; ++k) all[r].right[k] = static_cast<float>(k % 7);
  }
  blink::counter abort = 0;
  std::vector<std::unique_ptr<tile_wires>> wires;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    wires.push_back(std::make_unique<tile_wires>(all, tile, abort));
  }
  {
    std::vector<std::jthread> blocks;
    for (std::size_t r = 0; r < all.size(); ++r) {
      for (std::size_t tile = 0; tile < tiles; ++tile) {
        blocks.emplace_back([&, r, tile] {
          share const own{
              all[r].left.data(), all[r].right.data(), all[r].partial.data(), inner, columns,
              tile_rows};
          multiply_and_reduce(blink::lone_thread{}, own, tile, wires[tile]->works[r],
                              10'000'000'000);
        });
      }
    }
  }
  bool right = true;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      float expected = 0;
      for (auto const& one : all) {
        for (std::size_t k = 0; k < inner; ++k) {
          expected += one.left[row * inner + k] * one.right[k * columns + column];
        }
      }
      for (auto const& one : all) right = right && one.product[row * columns + column] == expected;
    }
  }
  std::printf("product of shares: %s\n", right ? "as computed in one place" : "WRONG");
  return right ? 0 : 1;
}
