// SPDX-License-Identifier: Apache-2.0
// The epilogues and prologues of the examples, in blocks of one and of three threads. The result is
// the same as if one thread did them to the whole result.

#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/epilogue.hpp>
#include <blink/running/walk/packet.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "../../../examples/cuda/momentum_step.hpp"
#include "../../../examples/cuda/quantise.hpp"
#include "../../../examples/cuda/residual_rms_norm.hpp"
#include "../../../examples/cuda/unscaled_sum.hpp"
#include "support/collective_case.hpp"
#include "support/emulated_blocks.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

// The sources of a folder may be compiled as one.
namespace example_epilogues_test { namespace {

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

/// Reduces by blocks of one and of three threads, over slots and peers' buffers.
/// `epilogue_of(state)` must leave the same in a new state as one thread that gets the whole
/// result.
template <class State, class Reducer, class EpilogueOf>
void expect_at_root(Reducer const& reduce, EpilogueOf const& epilogue_of) {
  State expected;
  epilogue_of(expected)(blink::lone_thread{}, results_of(reduce).data(), 0, count);
  EXPECT_NE(expected, State{});
  auto const expect_on = [&](auto&& device) {
    State now;
    auto const with_epilogue = blink::with_epilogue(reduce, epilogue_of(now));
    EXPECT_EQ(device.template run<float>(sum_at_root, with_epilogue), "");
    EXPECT_EQ(now, expected);
  };
  auto const trees = blink::binomial_schedule(ranks, root);
  for (std::uint32_t const threads : {1U, 3U}) {
    SCOPED_TRACE(threads);
    emulation how;
    how.block_threads = threads;
    how.slot_bytes = 3 * row * sizeof(float);
    expect_on(blink_test::emulated_device<blink::slot_peer_transport>(trees, how));
    expect_on(blink_test::emulated_device<blink::reaching_peer_transport>(trees, how));
  }
}

struct residual_and_normed {
  std::vector<float> residual = std::vector<float>(count, 1.5F);
  std::vector<float> normed = std::vector<float>(count);
  bool operator==(residual_and_normed const&) const = default;
};

TEST(example_epilogues, residual_and_norm) {
  std::vector<float> weight(row);
  for (std::size_t k = 0; k < row; ++k) weight[k] = 0.25F * static_cast<float>(k % 7);
  expect_at_root<residual_and_normed>(blink::sum{}, [&](residual_and_normed& of) {
    return example::residual_rms_norm{of.residual.data(), of.normed.data(), weight.data(), row};
  });
}

struct codes_and_scales {
  std::vector<std::int8_t> codes = std::vector<std::int8_t>(count);
  std::vector<float> scales = std::vector<float>(count / row);
  bool operator==(codes_and_scales const&) const = default;
};

TEST(example_epilogues, quantised_sums) {
  static_assert(example::quantise::block == row);
  expect_at_root<codes_and_scales>(blink::sum{}, [](codes_and_scales& of) {
    return example::quantise{of.codes.data(), of.scales.data()};
  });
}

struct weights_and_momenta {
  std::vector<float> weights = std::vector<float>(count, 1.0F);
  std::vector<float> momenta = std::vector<float>(count, 2.0F);
  bool operator==(weights_and_momenta const&) const = default;
};

TEST(example_epilogues, a_step_of_an_optimiser) {
  expect_at_root<weights_and_momenta>(blink::avg{}, [](weights_and_momenta& of) {
    return example::momentum_step{of.weights.data(), of.momenta.data(), 0.125F, 0.5F};
  });
}

TEST(example_epilogues, sums_of_what_is_unscaled_first) {
  for (std::uint32_t const threads : {1U, 3U}) {
    emulation how;
    how.block_threads = threads;
    blink_test::emulated_device<blink::slot_peer_transport> device(blink::star_schedule(ranks),
                                                                   how);
    EXPECT_EQ(device.run<float>({blink::collective::all_reduce, count, false, 0, 7},
                                example::unscaled_sum{1024}),
              "");
  }
}

}}  // namespace example_epilogues_test
