// SPDX-License-Identifier: Apache-2.0
// Ranks that agree on the survivors, over a simulated network and clock.

#include <blink/running/call/survivor_agreement.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using blink::survivor_note;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr auto deadline = nanoseconds(milliseconds(1000));
constexpr auto never = nanoseconds(std::numeric_limits<std::int64_t>::max());

/// Messages in flight. Each takes up to `slowest`. Those from one rank to another arrive in order.
struct network {
  struct letter {
    nanoseconds comes_at;
    survivor_note said;
  };
  std::mt19937_64 random;
  nanoseconds now{};
  struct way {
    nanoseconds slowest;
    std::deque<letter> messages{};
  };
  std::vector<std::vector<way>> ways;  // from, to
  std::vector<bool> gone;

  network(std::uint64_t seed, int ranks, nanoseconds slowest_word)
      : random(seed),
        ways(static_cast<std::size_t>(ranks),
             std::vector<way>(static_cast<std::size_t>(ranks), way{slowest_word})),
        gone(static_cast<std::size_t>(ranks)) {}

  nanoseconds below(nanoseconds most) {
    return nanoseconds(
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most.count())));
  }
};

/// One rank's end of the network.
struct mailbox {
  network* all;
  int own;

  [[nodiscard]] int rank() const { return own; }
  [[nodiscard]] int rank_count() const { return static_cast<int>(all->gone.size()); }
  void say(int peer, survivor_note const& said) {
    auto& way = all->ways[static_cast<std::size_t>(own)][static_cast<std::size_t>(peer)];
    auto at = all->now + all->below(way.slowest);
    if (!way.messages.empty()) at = std::max(at, way.messages.back().comes_at);
    way.messages.push_back({at, said});
  }
  std::optional<survivor_note> next_word() {
    for (auto& from : all->ways) {
      auto& way = from[static_cast<std::size_t>(own)].messages;
      if (way.empty() || way.front().comes_at > all->now) continue;
      auto said = std::move(way.front().said);
      way.pop_front();
      return said;
    }
    return std::nullopt;
  }
  [[nodiscard]] bool is_gone(int peer) const {
    auto const at = static_cast<std::size_t>(peer);
    return all->gone[at] && all->ways[at][static_cast<std::size_t>(own)].messages.empty();
  }
};
static_assert(blink::survivor_words<mailbox>);

/// A rank that begins at some time, and may be stopped for some time, or die.
struct rank_under_test {
  nanoseconds begins{};
  nanoseconds dies = never;
  nanoseconds stops = never;
  nanoseconds goes_on = never;

  mailbox mail{};
  std::unique_ptr<blink::survivor_agreement<mailbox>> agreement;
  std::optional<std::vector<int>> group;  // the agreed group
  std::string problem;                    // or the reason why there is none

  [[nodiscard]] bool has_ended() const { return group.has_value() || !problem.empty(); }
  [[nodiscard]] bool is_to_end() const {
    return begins < never && dies == never && (stops == never || goes_on < never);
  }
  void step(nanoseconds now) {
    if (now >= dies) mail.all->gone[static_cast<std::size_t>(mail.own)] = true;
    if (now >= dies) return;
    if (now < begins || (now >= stops && now < goes_on) || has_ended()) return;
    if (agreement == nullptr) {
      agreement = std::make_unique<blink::survivor_agreement<mailbox>>(mail, deadline);
      agreement->begin(now);
    }
    if (!agreement->advance(now)) return;
    try {
      group = agreement->group();
    } catch (blink::collective_error const& failure) {
      problem = failure.what();
    }
  }
};

/// Runs until all ranks have ended that begin and are not stopped without end. Later messages are
/// lost.
void run(network& all, std::vector<rank_under_test>& ranks, nanoseconds tick = milliseconds(1)) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].mail = {&all, static_cast<int>(rank)};
  }
  auto const is_done = [](rank_under_test const& one) {
    return one.has_ended() || !one.is_to_end();
  };
  for (all.now = {}; all.now < 12 * deadline; all.now += tick) {
    for (auto& one : ranks) one.step(all.now);
    if (std::all_of(ranks.begin(), ranks.end(), is_done)) return;
  }
  ADD_FAILURE() << "a rank that is to end has not";
}

/// Each group is equal on all its members that have ended, and no rank is in two groups.
void expect_consistent(std::vector<rank_under_test> const& ranks) {
  std::vector<std::vector<int> const*> group_of(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].group) continue;
    auto const& group = *ranks[rank].group;
    EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
    EXPECT_EQ(std::count(group.begin(), group.end(), static_cast<int>(rank)), 1);
    for (int const member : group) {
      auto*& known = group_of[static_cast<std::size_t>(member)];
      if (known == nullptr) known = &group;
      EXPECT_EQ(*known, group) << "rank " << member << " is in two groups";
    }
  }
}

std::vector<int> all_but(std::size_t ranks, int out) {
  std::vector<int> result;
  for (int rank = 0; rank < static_cast<int>(ranks); ++rank) {
    if (rank != out) result.push_back(rank);
  }
  return result;
}

TEST(survivor_agreement, all_that_ask_within_the_deadline_go_on) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    network all(seed, 1 + static_cast<int>(seed % 7), milliseconds(5));
    std::vector<rank_under_test> ranks(all.gone.size());
    for (auto& one : ranks) one.begins = all.below(deadline - milliseconds(20));
    run(all, ranks);
    for (auto const& one : ranks) EXPECT_EQ(one.group, all_but(ranks.size(), -1)) << seed;
  }
}

TEST(survivor_agreement, who_does_not_ask_or_has_left_is_out) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    network all(seed, 2 + static_cast<int>(seed % 6), milliseconds(5));
    std::vector<rank_under_test> ranks(all.gone.size());
    auto const out = all.random() % ranks.size();
    bool const has_left = seed % 2 == 0;
    for (auto& one : ranks) one.begins = all.below(deadline / 4);
    ranks[out].begins = never;
    all.gone[out] = has_left;
    run(all, ranks);
    expect_consistent(ranks);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (rank == out) continue;
      EXPECT_EQ(ranks[rank].group, all_but(ranks.size(), static_cast<int>(out)));
    }
  }
}

// Ranks that have waited for the deadline propose while lower ranks come late. The members of the
// first agreed group continue, and the other ranks learn that they came too late. There is always
// such a group.
TEST(survivor_agreement, who_comes_as_others_propose_is_in_or_too_late) {
  int both = 0, late = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    network all(seed, 3 + static_cast<int>(seed % 5), milliseconds(20));
    std::vector<rank_under_test> ranks(all.gone.size());
    for (auto& one : ranks) one.begins = all.below(milliseconds(10));
    ranks.back().begins = never;
    auto const slow = all.random() % (ranks.size() - 1);
    ranks[slow].begins = deadline - milliseconds(25) + all.below(milliseconds(60));
    run(all, ranks);
    expect_consistent(ranks);
    std::size_t in_groups = 0;
    for (std::size_t rank = 0; rank + 1 < ranks.size(); ++rank) {
      in_groups += ranks[rank].group ? 1U : 0U;
      if (ranks[rank].group) continue;
      EXPECT_SAYS(ranks[rank].problem, "the other ranks continued without this rank");
    }
    (in_groups == ranks.size() - 1 ? both : late) += 1;
    EXPECT_GE(in_groups, ranks.size() - 2) << seed;
  }
  EXPECT_GT(both, 100);  // otherwise the cases do not test this
  EXPECT_GT(late, 100);
}

// Two ranks learn of each other late: both propose, and neither blocks the other permanently.
TEST(survivor_agreement, two_that_propose_at_the_same_moment_agree) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    network all(seed, 4, milliseconds(200));
    std::vector<rank_under_test> ranks(4);
    auto const moment = deadline - milliseconds(100);
    ranks[0].begins = moment + all.below(milliseconds(200));
    ranks[1].begins = all.below(milliseconds(100));
    ranks[2].begins = all.below(milliseconds(200));
    ranks[3].begins = never;
    run(all, ranks);
    expect_consistent(ranks);
    EXPECT_TRUE(ranks[1].group && ranks[2].group) << seed << ' ' << ranks[1].problem;
  }
}

TEST(survivor_agreement, a_proposer_that_hangs_is_replaced) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    network all(seed, 4 + static_cast<int>(seed % 4), milliseconds(5));
    std::vector<rank_under_test> ranks(all.gone.size());
    for (auto& one : ranks) one.begins = all.below(milliseconds(50));
    ranks.back().begins = never;  // so that its peers wait
    ranks[0].stops = milliseconds(100);
    ranks[0].goes_on = seed % 2 == 0 ? never : nanoseconds(8 * deadline);
    run(all, ranks);
    expect_consistent(ranks);
    auto expected = all_but(ranks.size(), 0);
    expected.pop_back();
    for (int const rank : expected) {
      EXPECT_EQ(ranks[static_cast<std::size_t>(rank)].group, expected) << seed;
    }
    if (seed % 2 != 0) {
      EXPECT_SAYS(ranks[0].problem, "the other ranks continued without this rank");
    }
  }
}

// Ranks that have accepted the proposal of a rank that dies are free again, and agree without it.
// If it had decided, all are in its group.
TEST(survivor_agreement, a_proposer_that_dies_is_replaced) {
  int without = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    network all(seed, 4 + static_cast<int>(seed % 3), milliseconds(5));
    std::vector<rank_under_test> ranks(all.gone.size());
    nanoseconds last{};
    for (std::size_t rank = 0; rank + 1 < ranks.size(); ++rank) {
      ranks[rank].begins = all.below(milliseconds(50));
      last = std::max(last, ranks[rank].begins);
    }
    ranks.back().begins = never;
    all.gone.back() = true;                              // so that the proposal follows at once
    ranks[0].dies = last + all.below(milliseconds(14));  // while it proposes
    run(all, ranks);
    expect_consistent(ranks);
    auto expected = all_but(ranks.size(), 0);
    expected.pop_back();
    std::size_t are_without = 0;
    for (int const rank : expected) {
      auto const& one = ranks[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(one.group) << seed << ": rank " << rank << ": " << one.problem;
      are_without += *one.group == expected ? 1U : 0U;
    }
    EXPECT_TRUE(are_without == 0 || are_without == expected.size()) << seed;
    without += are_without == 0 ? 0 : 1;
  }
  EXPECT_GT(without, 100);  // otherwise it died too late
}

// A rank that has accepted and gives up reports it, so that its peers continue without it.
TEST(survivor_agreement, who_gives_up_is_rarely_in_a_group) {
  int with = 0, without = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    network all(seed, 4, milliseconds(3));
    std::vector<rank_under_test> ranks(4);
    for (auto& one : ranks) one.begins = all.below(deadline);
    ranks[3].begins = all.random() % 2 == 0 ? never : ranks[3].begins;
    ranks[0].stops = ranks[0].begins + deadline + all.below(milliseconds(10));  // while it proposes
    ranks[0].goes_on = ranks[0].stops + 2 * deadline + all.below(deadline);
    run(all, ranks);
    expect_consistent(ranks);
    for (auto const& one : ranks) {
      for (int const member : one.group.value_or(std::vector<int>{})) {
        (ranks[static_cast<std::size_t>(member)].group ? with : without) += 1;
      }
    }
  }
  EXPECT_GT(with, 100 * without);
}

TEST(survivor_agreement, a_member_that_hangs_is_left_out) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    network all(seed, 4, milliseconds(5));
    std::vector<rank_under_test> ranks(4);
    for (auto& one : ranks) one.begins = all.below(milliseconds(50));
    ranks[3].begins = never;
    ranks[2].stops = milliseconds(100);
    run(all, ranks);
    expect_consistent(ranks);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(ranks[rank].group, (std::vector{0, 1})) << seed << ranks[rank].problem;
    }
  }
}

// No rank is in two groups, under any timing. Messages take from nothing to more than the deadline,
// by sender and receiver. Ranks stop at any moment, and may resume.
TEST(survivor_agreement, no_rank_is_in_two_groups) {
  int agreed = 0;
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    network all(seed, 3 + static_cast<int>(seed % 4), milliseconds(1));
    for (auto& from : all.ways) {
      for (auto& way : from) way.slowest = milliseconds(1) * (1 << all.random() % 12);
    }
    std::vector<rank_under_test> ranks(all.gone.size());
    for (auto& one : ranks) {
      one.begins = all.random() % 4 == 0 ? never : all.below(deadline);
      if (one.begins == never || all.random() % 4 != 0) continue;
      one.stops = one.begins + all.below(3 * deadline);
      one.goes_on = all.random() % 2 == 0 ? never : one.stops + all.below(4 * deadline);
    }
    run(all, ranks, milliseconds(5));
    expect_consistent(ranks);
    for (auto const& one : ranks) agreed += one.group ? 1 : 0;
  }
  EXPECT_GT(agreed, 10000);
}

}  // namespace
