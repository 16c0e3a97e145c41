// SPDX-License-Identifier: Apache-2.0
// The times of calls that ranks with shared memory publish to each other.

#include <blink/collectives.hpp>
#include <blink/running/connections/detail/store_mode_tuner.hpp>
#include <blink/transports/host/detail/rank_state.hpp>
#include <blink/transports/host/slots.hpp>
#include <blink/transports/host/threads.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace {

using blink::detail::published_times;

TEST(told_times, are_those_of_the_call_that_is_asked_for) {
  published_times times{};
  EXPECT_EQ(times.of(1), 0U);
  times.report(1, 100);
  times.report(2, 200);
  EXPECT_EQ(times.of(1), 100U);
  EXPECT_EQ(times.of(2), 200U);
  times.report(3, 300);
  EXPECT_EQ(times.of(1), 0U);  // its place has been reused
  EXPECT_EQ(times.of(2), 200U);
  EXPECT_EQ(times.of(3), 300U);
  EXPECT_EQ(times.of(4), 0U);
}

TEST(told_times, hold_numbers_of_any_size) {
  published_times times{};
  std::uint64_t const call = (std::uint64_t{1} << 40) + 5;
  times.report(call, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(times.of(call), std::numeric_limits<std::uint64_t>::max() >> 24);
  EXPECT_EQ(times.of(call + 2), 0U);
}

template <class Transport>
class reported_times_of_ranks : public testing::Test {};
using links = testing::Types<blink::direct_transport, blink::slot_transport>;
TYPED_TEST_SUITE(reported_times_of_ranks, links);

TYPED_TEST(reported_times_of_ranks, count_by_the_longest_and_in_the_next_call) {
  using ranks_type = blink::basic_thread_ranks<TypeParam>;
  static_assert(
      blink::detail::time_publishing_communicator<typename ranks_type::communicator_type>);
  ranks_type all_threads(3);
  all_threads.run([](auto& comm) {
    auto const star = blink::star_schedule(3);
    int const one = 1;
    int sum = 0;
    auto const call = [&] { blink::all_reduce(comm, star, &one, &sum, 1, blink::sum{}); };
    for (int round = 0; round < 50; ++round) {
      call();
      comm.publish_moved(static_cast<std::uint64_t>(100 * round + (comm.rank() + round) % 3 + 1));
      call();
      EXPECT_EQ(comm.longest_moved_before(), static_cast<std::uint64_t>(100 * round + 3));
      call();
      EXPECT_EQ(comm.longest_moved_before(), 0U);
    }
  });
}

}  // namespace
