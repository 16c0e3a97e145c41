// SPDX-License-Identifier: Apache-2.0

#include <blink/collectives.hpp>

#include "support/collective_archetypes.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace {

template <class Link>
void walks_alone() {
  std::vector<blink_test::least_element> input;
  std::vector<blink_test::least_element> output;
  for (int k = 0; k < 10; ++k) {
    input.emplace_back(k);
    output.emplace_back(-1);
  }
  blink::lane here;
  here.is_reduce = here.is_root = here.reads_input = here.writes_output = true;
  here.count = 10;
  here.chunk = here.stride = blink_test::least_chunks::elements({});
  here.chunks = 4;
  Link const link(0);
  blink::open_lane(link, here, sizeof(blink_test::least_element));
  blink_test::least_patience wait;
  blink::call_buffers<blink_test::least_element> const buffers{input.data(), output.data(), false};
  EXPECT_EQ(blink::walk(blink_test::least_group{}, link, &here, 1, buffers,
                        blink_test::least_reducer{}, wait),
            blink::status::ok);
  for (int k = 0; k < 10; ++k) EXPECT_EQ(output[static_cast<std::size_t>(k)].value, k);
  EXPECT_EQ(here.done, 4U);
}

TEST(tree_walk, needs_no_more_than_the_concepts) {
  walks_alone<blink_test::least_link>();
  walks_alone<blink_test::least_reaching_link>();
}

TEST(tree_walk, ends_when_patience_does) {
  blink::lane here;
  blink::wire_end never;
  here.in = &never;
  here.in_count = 1;
  here.count = here.chunk = here.stride = here.chunks = 1;
  blink_test::least_patience wait;
  EXPECT_EQ(blink::walk(blink_test::least_group{}, blink_test::least_link(0), &here, 1,
                        blink::call_buffers<int>{}, blink::sum{}, wait),
            blink::status::timed_out);
  EXPECT_EQ(here.blocked_on, &never);
}

}  // namespace
