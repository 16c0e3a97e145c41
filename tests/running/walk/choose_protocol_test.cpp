// SPDX-License-Identifier: Apache-2.0

#include <blink/running/walk/choose_protocol.hpp>
#include <blink/schedule/default_schedules.hpp>

#include <gtest/gtest.h>

#include <cstddef>

// A folder may be compiled as one source.
namespace choose_protocol_test { namespace {

using blink::protocol_choice;

TEST(choose_protocol, packets_up_to_a_size_and_chunks_from_there_on) {
  for (auto const& trees : {blink::chain_schedule(4, 0), blink::star_schedule(4),
                            blink::binomial_schedule(5, 2), blink::one_shot_schedule(3)}) {
    constexpr auto kind = blink::collective::all_reduce;
    EXPECT_EQ(choose_protocol(trees, kind, 8), protocol_choice::small_packets);
    EXPECT_EQ(choose_protocol(trees, kind, std::size_t{1} << 30), protocol_choice::whole_chunks);
    bool chunks = false;  // there is one border
    for (std::size_t bytes = 8; bytes < std::size_t{1} << 30; bytes *= 2) {
      bool const now = choose_protocol(trees, kind, bytes) == protocol_choice::whole_chunks;
      EXPECT_TRUE(now || !chunks) << bytes;
      chunks = now;
    }
  }
}

TEST(choose_protocol, the_border_is_where_both_take_as_long) {
  blink::protocol_costs const costs{3e-6, 1e-6, 1e9};
  blink::modelled_protocol const choose{costs};
  // One more byte on the edge costs packets 1 ns more than chunks: 2 us are 2000 bytes.
  EXPECT_EQ(choose(3, 1990), protocol_choice::small_packets);
  EXPECT_EQ(choose(3, 2010), protocol_choice::whole_chunks);
}

TEST(choose_protocol, may_be_fixed) {
  auto const trees = blink::star_schedule(2);
  constexpr auto kind = blink::collective::all_reduce;
  EXPECT_EQ(choose_protocol(trees, kind, 1 << 30, blink::fixed_protocol<blink::small_packets>{}),
            protocol_choice::small_packets);
  EXPECT_EQ(choose_protocol(trees, kind, 8, blink::fixed_protocol<blink::whole_chunks>{}),
            protocol_choice::whole_chunks);
  EXPECT_THROW((void)choose_protocol(trees, blink::collective::broadcast, 8),
               blink::precondition_error);
}

}}  // namespace choose_protocol_test
