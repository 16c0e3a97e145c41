// SPDX-License-Identifier: Apache-2.0
#include <blink/running/call/describe_stall.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

// A folder may be compiled as one source.
namespace describe_stall_test { namespace {

using blink::peer_status;
using place = peer_status::place;

/// Peers with a given status. Without one a peer is inside the call and waits for no other.
struct known_peers {
  int count = 4;
  std::map<int, peer_status> known{};

  [[nodiscard]] std::vector<int> ranks() const {
    std::vector<int> result;
    for (int rank = 0; rank < count; ++rank) result.push_back(rank);
    return result;
  }
  [[nodiscard]] std::string name(int peer) const { return "rank " + std::to_string(peer); }
  [[nodiscard]] peer_status status(int peer) const {
    auto const found = known.find(peer);
    peer_status result = found == known.end() ? peer_status{} : found->second;
    if (result.does.empty()) result.does = "makes no progress";
    return result;
  }
};
static_assert(blink::stalled_peers<known_peers>);

blink::stall waits_for(int peer, int tree = 0) {
  return {blink::collective::reduce, peer, false, tree, 2, 8};
}
peer_status waiting(int peer, std::uint64_t nanoseconds = UINT64_MAX) {
  peer_status result;
  result.waits = {true, waits_for(peer)};
  result.waited_nanoseconds = nanoseconds;
  return result;
}
peer_status at(place where, std::string const& how) {
  peer_status result;
  result.at = where;
  result.how = how;
  return result;
}

/// The error of rank 0, which waits for rank 1.
blink::collective_error error_of(known_peers const& peers, blink::stall const& where) {
  return blink::describe_stall(where, 0, 0.5, peers);
}
blink::collective_error error_of(known_peers const& peers) {
  return error_of(peers, waits_for(1));
}

constexpr char const* begin = "rank 0, reduce, tree 0, chunk 2 of 8: ";

TEST(describe_stall, follows_the_ranks_that_wait_for_each_other_to_the_last) {
  auto const found = error_of({4, {{1, waiting(2)}, {2, waiting(3)}}});
  EXPECT_EQ(found.what(),
            begin + std::string("waits for rank 1 to send it, which waits for rank 2, "
                                "tree 0, chunk 2 to send it, which waits for rank 3, "
                                "tree 0, chunk 2 to send it, which makes no progress "
                                "(waited 0.50 s)"));
  EXPECT_EQ(found.peer, 3);
  EXPECT_EQ(found.rank, 0);
  EXPECT_EQ(found.tree, 0);
  EXPECT_EQ(found.chunk, 2);
}

TEST(describe_stall, shortens_long_chains) {
  known_peers peers{9, {}};
  for (int rank = 1; rank < 8; ++rank) peers.known[rank] = waiting(rank + 1);
  auto const found = error_of(peers);
  std::string const text = found.what();
  EXPECT_EQ(found.peer, 8);
  EXPECT_NE(text.find("rank 4"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 6"), std::string::npos) << text;
  EXPECT_NE(text.find(", …, which waits for rank 8"), std::string::npos) << text;
}

TEST(describe_stall, names_a_lost_rank_before_all_others) {
  auto const found = error_of({4,
                               {{1, waiting(2)},
                                {2, at(place::no_call, "has not entered call 7")},
                                {3, at(place::lost, "died inside call 7")}}});
  EXPECT_EQ(found.what(), begin + std::string("rank 3 died inside call 7"));
  EXPECT_EQ(found.peer, 3);
}

TEST(describe_stall, names_a_rank_that_has_not_entered) {
  auto const found =
      error_of({4, {{1, waiting(3)}, {2, at(place::no_call, "has not entered call 7")}}});
  EXPECT_EQ(found.what(), begin + std::string("rank 2 has not entered call 7 (waited 0.50 s)"));
  EXPECT_EQ(found.peer, 2);
}

// Rank 0 has done its part, and rank 2 is still in an earlier call, where it waits for rank 3.
TEST(describe_stall, finds_what_holds_up_an_earlier_call) {
  auto held_up = waiting(3);
  held_up.at = place::earlier_call;
  auto const found = error_of({4, {{2, held_up}}}, {blink::collective::reduce});
  EXPECT_EQ(found.what(), std::string("rank 0, reduce: waits for rank 2 to come, which waits for "
                                      "rank 3, tree 0, chunk 2 to send it, which makes no progress "
                                      "(waited 0.50 s)"));
  EXPECT_EQ(found.peer, 3);
}

TEST(describe_stall, names_a_silent_rank_if_no_chain_leads_to_one) {
  peer_status silent;
  silent.is_silent = true;
  auto const found = error_of({4, {{1, waiting(2)}, {2, waiting(1)}, {3, silent}}});
  EXPECT_EQ(found.what(), begin + std::string("rank 3 makes no progress (waited 0.50 s)"));
  EXPECT_EQ(found.peer, 3);
}

TEST(describe_stall, names_the_rank_of_a_circle_that_began_to_wait_last) {
  auto const found =
      error_of({4, {{1, waiting(2, 900)}, {2, waiting(3, 20)}, {3, waiting(0, 50)}}});
  EXPECT_EQ(found.peer, 2);
  std::string const text = found.what();
  EXPECT_NE(text.find("; rank 2 has entered last (waited"), std::string::npos) << text;
  auto const unknown = error_of({4, {{1, waiting(2)}, {2, waiting(1)}}});
  EXPECT_EQ(unknown.peer, 1) << "the rank that it waits for";
}

TEST(describe_stall, says_so_if_nothing_is_known) {
  auto const found = error_of({4, {}}, {blink::collective::reduce});
  EXPECT_EQ(found.what(), std::string("rank 0, reduce: no progress (waited 0.50 s)"));
  EXPECT_EQ(found.peer, -1);
}

}}  // namespace describe_stall_test
