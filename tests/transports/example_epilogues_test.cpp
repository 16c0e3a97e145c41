// SPDX-License-Identifier: Apache-2.0
// What the examples put into the kernel of a collective, in blocks of one and of three threads: as when one
// thread does it to the whole result.

#include <blink/collectives/default_schedules.hpp>
#include <blink/collectives/epilogue.hpp>
#include <blink/collectives/packet.hpp>
#include <blink/collectives/thread_group.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/transports/cuda/peer_memory.hpp>

#include "../../examples/cuda/momentum_step.hpp"
#include "../../examples/cuda/quantise.hpp"
#include "../../examples/cuda/residual_rms_norm.hpp"
#include "../../examples/cuda/unscaled_sum.hpp"
#include "support/collective_case.hpp"
#include "support/emulated_blocks.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

// Rooms may be compiled as one source.
namespace example_epilogues_test {

namespace {

using blink_test::collective_case;
using blink_test::emulation;

constexpr int ranks = 3;
constexpr int root = 1;
constexpr std::size_t row = 32;  // of elements, which stay in one chunk
constexpr std::size_t count = 37 * row;
collective_case const sum_at_root{blink::collective::reduce, count, false, 0, 5};

/// The result at the root.
template <class Reducer>
std::vector<float> results_of(Reducer const& reduce) {
  std::vector<float> result(count);
  for (std::size_t k = 0; k < count; ++k) {
    result[k] = blink_test::expected_element<float>(sum_at_root, ranks, root, root, k, reduce);
  }
  return result;
}

/// Reduces by blocks of one and of three threads, over slots and peers' buffers; `is_right` looks at what the epilogue
/// of `make()` left.
template <class Reducer, class Make, class IsRight>
void expect_at_root(Reducer const& reduce, Make const& make, IsRight const& is_right) {
  auto const plan = blink::binomial_schedule(ranks, root);
  for (std::uint32_t const threads : {1U, 3U}) {
    SCOPED_TRACE(threads);
    emulation how;
    how.block_threads = threads;
    how.slot_bytes = 3 * row * sizeof(float);
    blink_test::emulated_device<blink::slot_peer_link> slots(plan, how);
    EXPECT_EQ(slots.template run<float>(sum_at_root, blink::with_epilogue(reduce, make())), "");
    is_right();
    blink_test::emulated_device<blink::reaching_peer_link> buffers(plan, how);
    EXPECT_EQ(buffers.template run<float>(sum_at_root, blink::with_epilogue(reduce, make())), "");
    is_right();
  }
}

TEST(example_epilogues, residual_and_norm) {
  std::vector<float> weight(row);
  for (std::size_t k = 0; k < row; ++k) weight[k] = 0.25F * static_cast<float>(k % 7);
  struct state {
    std::vector<float> residual = std::vector<float>(count, 1.5F);
    std::vector<float> normed = std::vector<float>(count);
    bool operator==(state const&) const = default;
  };
  auto const epilogue = [&](state& of) {
    return example::residual_rms_norm{of.residual.data(), of.normed.data(), weight.data(), row};
  };
  state expected, now;
  epilogue(expected)(blink::lone_thread{}, results_of(blink::sum{}).data(), 0, count);
  expect_at_root(
      blink::sum{},
      [&] {
        now = {};
        return epilogue(now);
      },
      [&] { EXPECT_EQ(now, expected); });
}

TEST(example_epilogues, quantised_sums) {
  static_assert(example::quantise::block == row);
  struct state {
    std::vector<std::int8_t> codes = std::vector<std::int8_t>(count);
    std::vector<float> scales = std::vector<float>(count / row);
    bool operator==(state const&) const = default;
  };
  auto const epilogue = [](state& of) {
    return example::quantise{of.codes.data(), of.scales.data()};
  };
  state expected, now;
  epilogue(expected)(blink::lone_thread{}, results_of(blink::sum{}).data(), 0, count);
  EXPECT_NE(expected, now);
  expect_at_root(
      blink::sum{},
      [&] {
        now = {};
        return epilogue(now);
      },
      [&] { EXPECT_EQ(now, expected); });
}

TEST(example_epilogues, a_step_of_an_optimiser) {
  struct state {
    std::vector<float> weights = std::vector<float>(count, 1.0F);
    std::vector<float> momenta = std::vector<float>(count, 2.0F);
    bool operator==(state const&) const = default;
  };
  auto const epilogue = [](state& of) {
    return example::momentum_step{of.weights.data(), of.momenta.data(), 0.125F, 0.5F};
  };
  state expected, now;
  epilogue(expected)(blink::lone_thread{}, results_of(blink::avg{}).data(), 0, count);
  expect_at_root(
      blink::avg{},
      [&] {
        now = {};
        return epilogue(now);
      },
      [&] { EXPECT_EQ(now, expected); });
}

TEST(example_epilogues, sums_of_what_is_unscaled_first) {
  for (std::uint32_t const threads : {1U, 3U}) {
    emulation how;
    how.block_threads = threads;
    blink_test::emulated_device<blink::slot_peer_link> device(blink::star_schedule(ranks), how);
    EXPECT_EQ(device.run<float>({blink::collective::all_reduce, count, false, 0, 7},
                                example::unscaled_sum{1024}),
              "");
  }
}

}  // namespace

}  // namespace example_epilogues_test
