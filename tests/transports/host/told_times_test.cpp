// SPDX-License-Identifier: Apache-2.0
// What ranks that share memory tell each other of the times that calls take them.

#include <blink/collectives.hpp>
#include <blink/running/connections/detail/write_search.hpp>
#include <blink/transports/host/detail/notice_board.hpp>
#include <blink/transports/host/slots.hpp>
#include <blink/transports/host/threads.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace {

using blink::detail::told_times;

TEST(ToldTimes, AreThoseOfTheCallThatIsAskedFor) {
  told_times times{};
  EXPECT_EQ(times.of(1), 0U);
  times.tell(1, 100);
  times.tell(2, 200);
  EXPECT_EQ(times.of(1), 100U);
  EXPECT_EQ(times.of(2), 200U);
  times.tell(3, 300);
  EXPECT_EQ(times.of(1), 0U);  // its place has been taken
  EXPECT_EQ(times.of(2), 200U);
  EXPECT_EQ(times.of(3), 300U);
  EXPECT_EQ(times.of(4), 0U);
}

TEST(ToldTimes, HoldNumbersOfAnySize) {
  told_times times{};
  std::uint64_t const call = (std::uint64_t{1} << 40) + 5;
  times.tell(call, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(times.of(call), std::numeric_limits<std::uint64_t>::max() >> 24);
  EXPECT_EQ(times.of(call + 2), 0U);
}

template <class Link>
class told_times_of_ranks : public testing::Test {};
using links = testing::Types<blink::direct_link, blink::slot_link>;
TYPED_TEST_SUITE(told_times_of_ranks, links);

TYPED_TEST(told_times_of_ranks, count_by_the_longest_and_in_the_next_call) {
  using world_type = blink::basic_world<TypeParam>;
  static_assert(blink::detail::times_telling_session<typename world_type::context>);
  world_type world(3);
  world.run([](auto& me) {
    auto const star = blink::star_schedule(3);
    int const one = 1;
    int sum = 0;
    auto const call = [&] { blink::all_reduce(me, star, &one, &sum, 1, blink::sum{}); };
    for (int round = 0; round < 50; ++round) {
      call();
      me.tell_moved(static_cast<std::uint64_t>(100 * round + (me.rank() + round) % 3 + 1));
      call();
      EXPECT_EQ(me.longest_moved_before(), static_cast<std::uint64_t>(100 * round + 3));
      call();
      EXPECT_EQ(me.longest_moved_before(), 0U);
    }
  });
}

}  // namespace
