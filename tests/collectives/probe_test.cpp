// SPDX-License-Identifier: Apache-2.0
#include <blink/collectives/probe.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/topology.hpp>
#include <blink/transports/host/threads.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::probe_test { namespace {

TEST(probe, threads_are_one_host_with_equal_results_on_all_ranks) {
  thread_ranks threads(3);
  std::vector<measured_rates> results(3);
  probe_options options;
  options.bytes = 1 << 16;
  options.calls = 2;
  threads.run(
      [&](auto& comm) { results[static_cast<std::size_t>(comm.rank())] = probe(comm, options); });
  auto const& first = results[0];
  EXPECT_EQ(first.host_of, (std::vector<int>{0, 0, 0}));
  for (std::size_t a = 0; a < 3; ++a) {
    EXPECT_GT(first.together[a], 0);
    for (std::size_t b = 0; b < 3; ++b) {
      EXPECT_EQ(first.alone[a][b] > 0, a != b);
      EXPECT_EQ(first.start_up[a][b] > 0, a != b);
    }
  }
  for (auto const& other : results) {
    EXPECT_EQ(other.alone, first.alone);
    EXPECT_EQ(other.together, first.together);
  }
  auto const machine = fit_machine(first);
  EXPECT_NO_THROW(validate(machine));
  EXPECT_NO_THROW(require_connected(machine));
  EXPECT_EQ(machine.rank_positions().size(), 3U);
}

TEST(probe, pairs_are_left_out_when_the_time_is_over) {
  thread_ranks threads(4);
  probe_options options;
  options.bytes = 1 << 12;
  options.seconds = 1e-9;
  threads.run([&](auto& comm) {
    auto const found = probe(comm, options);
    EXPECT_GT(found.together[0], 0);  // the first pattern is always measured
    EXPECT_EQ(found.alone[0][1], 0);
  });
}

TEST(probe, options_out_of_range) {
  thread_ranks threads(2);
  probe_options options;
  options.calls = 0;
  threads.run(
      [&](auto& comm) { EXPECT_ERROR((void)probe(comm, options), "expected more than 0"); });
}

}}  // namespace blink::probe_test
