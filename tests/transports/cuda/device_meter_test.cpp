// SPDX-License-Identifier: Apache-2.0
// Patterns of copies between devices, and the machine that fits them, on emulated devices.

#include <blink/topology/fit_machine.hpp>
#include <blink/topology/topology.hpp>
#include <blink/transports/cuda/runtime/device_meter.hpp>

#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

// The sources of a folder may be compiled as one.
namespace device_meter_test { namespace {

using blink::device_route;
using blink_test::emulated_devices;

/// Few bytes, and time for every pattern.
constexpr blink::device_probe_options small{.bytes = 3'000'000, .seconds = 1e9, .calls = 1};

class device_meter : public testing::TestWithParam<device_route> {};

TEST_P(device_meter, all_pairs_are_measured_and_fit_a_machine) {
  for (int const count : {1, 2, 5}) {
    emulated_devices machine({.devices = count});
    std::vector<int> all;
    for (int device = count; device-- > 0;) all.push_back(device);
    auto const rates = blink::probe_devices(machine, all, GetParam(), small);
    EXPECT_EQ(machine.allocated_bytes(), 0U);
    EXPECT_EQ(rates.ranks(), all.size());
    EXPECT_EQ(rates.hosts(), all.size());
    for (std::size_t a = 0; a < all.size(); ++a) {
      for (std::size_t b = 0; b < all.size(); ++b) {
        EXPECT_EQ(rates.alone[a][b] > 0, a != b);
        EXPECT_EQ(rates.start_up[a][b] > 0, a != b);
      }
    }
    auto const fitted = blink::fit_machine(rates);
    EXPECT_NO_THROW(blink::validate(fitted));
    EXPECT_EQ(fitted.rank_positions().size(), all.size());
  }
}

TEST_P(device_meter, a_message_and_its_answer_arrive) {
  emulated_devices machine({.devices = 3});
  blink::detail::device_meter<emulated_devices> meter(machine, {0, 1, 2}, GetParam(), small);
  blink::detail::message_pattern pattern(3);
  pattern.send(2, 0);
  auto const large = meter.measure(pattern);
  EXPECT_EQ(large.of[0], 0);
  EXPECT_GT(large.of[2], 0);
  EXPECT_EQ(large.all, large.of[2]);
  pattern.exchange(0, 2);
  pattern.is_small = true;
  auto const exchanged = meter.measure(pattern);
  EXPECT_GT(exchanged.of[0], 0);
  EXPECT_EQ(exchanged.of[0], exchanged.of[2]);
  EXPECT_EQ(exchanged.of[1], 0);
}

INSTANTIATE_TEST_SUITE_P(routes, device_meter,
                         testing::Values(device_route::peer, device_route::host));

// Only the first pattern is measured in any case.
TEST(probe_devices, patterns_are_left_out_when_the_time_is_over) {
  emulated_devices machine({.devices = 4});
  auto options = small;
  options.seconds = 1e-9;
  auto const rates = blink::probe_devices(machine, {0, 1, 2, 3}, device_route::peer, options);
  std::size_t measured = 0;
  for (auto const& row : rates.alone) {
    for (double const each : row) measured += each > 0 ? 1U : 0U;
  }
  EXPECT_EQ(measured, 0U);
  EXPECT_NO_THROW(blink::validate(blink::fit_machine(rates)));
}

TEST(probe_devices, copies_of_both_routes_are_counted) {
  for (auto const route : {device_route::peer, device_route::host}) {
    emulated_devices machine({.devices = 2, .unreachable = {{0, 1}}});
    (void)blink::probe_devices(machine, {0, 1}, route, small);
    EXPECT_EQ(machine.copies() > 0, route == device_route::peer);
  }
}

TEST(probe_devices, options_out_of_range) {
  emulated_devices machine({.devices = 2});
  EXPECT_ERROR((void)blink::probe_devices(machine, {}, device_route::peer, small),
               "expected more than 0");
  auto options = small;
  options.bytes = 0;
  EXPECT_ERROR((void)blink::probe_devices(machine, {0, 1}, device_route::host, options),
               "expected more than 0");
}

}}  // namespace device_meter_test
