// SPDX-License-Identifier: Apache-2.0

#include <blink/collectives.hpp>

#include "support/collective_archetypes.hpp"
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace tree_walk_test { namespace {

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
  blink::call_buffers<blink_test::least_element> const buffers{input.data(), output.data()};
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

/// Three peers. What comes on wire 1 comes only when the slots of the others are free again.
struct late_link : blink_test::least_link {
  struct state_of_wire {
    std::uint64_t taken = 0;
    int slot = 0;
  };
  explicit late_link(std::array<state_of_wire, 3>& wires) : least_link(0), wires_(&wires) {}
  int rank_count() const { return 4; }
  bool has_arrived(std::uint32_t wire, std::uint64_t message) const {
    if (wire != 1) return message == (*wires_)[wire].taken;
    return (*wires_)[0].taken > message && (*wires_)[2].taken > message;
  }
  std::byte const* inbox(std::uint32_t wire, std::uint64_t) const {
    return reinterpret_cast<std::byte const*>(&(*wires_)[wire].slot);
  }
  void take(std::uint32_t wire, std::uint64_t message) const {
    EXPECT_EQ((*wires_)[wire].taken, message) << "taken twice, or not in turn";
    (*wires_)[wire].taken = message + 1;
  }

 private:
  std::array<state_of_wire, 3>* wires_;
};

/// Waits for some rounds.
struct short_patience : blink_test::least_patience {
  int rounds = 20;
  blink::status after_none() { return --rounds > 0 ? blink::status::ok : blink::status::timed_out; }
};

/// Shows the order in its decimal digits.
struct listing {
  int operator()(int a, int b) const { return a * 10 + b; }
};

/// Returns how the walk of a root with three children ends, and what it wrote.
template <blink::order_promise Order>
std::pair<blink::status, std::vector<int>> reduce_from_late_peers() {
  std::array<late_link::state_of_wire, 3> wires;
  std::array<blink::wire_end, 3> ends;
  for (std::uint32_t k = 0; k < 3; ++k) {
    wires[k].slot = static_cast<int>(k) + 2;
    ends[k].wire = k;
    ends[k].peer = static_cast<int>(k) + 1;
  }
  blink::lane here;
  here.is_reduce = here.is_root = here.reads_input = here.writes_output = true;
  here.in = ends.data();
  here.in_count = 3;
  here.count = here.chunks = 5;
  std::vector<int> const input(5, 1);
  std::vector<int> output(5, -1);
  late_link const link(wires);
  blink::open_lane(link, here, sizeof(int));
  int sums = 0;  // of a chunk
  here.early.sums = reinterpret_cast<std::byte*>(&sums);
  short_patience wait;
  auto const result = blink::walk(blink_test::least_group{}, link, &here, 1,
                                  blink::call_buffers<int>{input.data(), output.data()},
                                  blink::with_order<Order>(listing{}), wait);
  return {result, output};
}

TEST(tree_walk, order_any_combines_what_has_come_while_it_waits) {
  auto const [result, output] = reduce_from_late_peers<blink::order_promise::any>();
  EXPECT_EQ(result, blink::status::ok);
  EXPECT_EQ(output, std::vector<int>(5, 1243));
}

TEST(tree_walk, other_orders_wait_for_all) {
  auto const [result, output] = reduce_from_late_peers<blink::order_promise::run>();
  EXPECT_EQ(result, blink::status::timed_out);
  EXPECT_EQ(output, std::vector<int>(5, -1));
}

/// One peer. Nothing comes on wire 0, two messages have come on wire 2; other wires lead to it and have room for two
/// messages, which never leave.
struct lending_link : blink_test::least_link {
  explicit lending_link(std::vector<std::string>& log) : least_link(0), log_(&log) {}
  int rank_count() const { return 2; }
  bool has_room(std::uint32_t, std::uint64_t message) const { return message < 2; }
  void post(std::uint32_t wire, std::uint64_t message, std::size_t bytes) const {
    log_->push_back("post " + std::to_string(wire) + " " + std::to_string(message) + ": " +
                    std::to_string(bytes));
  }
  bool has_arrived(std::uint32_t wire, std::uint64_t message) const {
    log_->push_back("ask " + std::to_string(wire) + " " + std::to_string(message));
    return wire == 2 && message < 2;
  }
  std::size_t least_lent() const { return 1; }
  std::byte const* inbox(std::uint32_t, std::uint64_t) const {
    return reinterpret_cast<std::byte const*>(slot_);
  }
  void lend_to_send(std::uint32_t, blink::chunk_run const&, bool) const {}
  void lend_to_receive(std::uint32_t, blink::chunk_run const&, bool) const {}
  bool has_left(std::uint32_t, std::uint64_t) const { return false; }

 private:
  static constexpr int slot_[2] = {1, 1};
  std::vector<std::string>* log_;
};
static_assert(blink::zero_copy_transport<lending_link>);

/// The root of tree 0, which awaits its peer, and the leaf of tree 1, which sends to it in three chunks.
std::vector<std::string> log_of_round() {
  std::array<blink::wire_end, 2> ends;
  ends[0].peer = ends[1].peer = 1;
  ends[1].wire = 1;
  ends[1].sends = true;
  ends[1].way = blink::passage::from_input;
  std::array<blink::lane, 2> lanes;
  for (auto& here : lanes) {
    here.is_reduce = here.reads_input = true;
    here.count = 5;
    here.chunk = here.stride = 2;
    here.chunks = 3;
  }
  lanes[0].is_root = lanes[0].writes_output = true;
  lanes[0].in = ends.data();
  lanes[0].in_count = 1;
  lanes[1].tree = 1;
  lanes[1].out = &ends[1];
  lanes[1].out_count = 1;
  std::vector<int> const input(10, 1);
  std::vector<int> output(10, -1);
  std::vector<std::string> log;
  blink_test::least_patience wait;
  auto const round =
      blink::walk_round(blink_test::least_group{}, lending_link(log), lanes.data(), lanes.size(),
                        blink::call_buffers<int>{input.data(), output.data()}, blink::sum{}, wait);
  EXPECT_TRUE(round.moved);
  EXPECT_TRUE(round.is_open);
  return log;
}

TEST(tree_walk, lent_buffers_leave_before_arrivals_are_asked_for) {
  // As many as there is room for; 4-byte elements in chunks of two.
  EXPECT_EQ(log_of_round(), (std::vector<std::string>{"post 1 0: 8", "post 1 1: 8", "ask 0 0"}));
}

TEST(tree_walk, sums_that_peers_wait_for_are_made_before_other_arrivals_are_asked_for) {
  std::array<blink::wire_end, 3> ends;
  for (auto& end : ends) end.peer = 1;
  ends[0].wire = 2;
  ends[1].wire = 3;
  ends[1].sends = true;
  ends[1].way = blink::passage::from_output;
  std::array<blink::lane, 2>
      lanes;  // the root of tree 0 and a leaf of tree 1, to which the sum comes
  for (auto& here : lanes) {
    here.count = 5;
    here.chunk = here.stride = 2;
    here.chunks = 3;
    here.writes_output = true;
  }
  lanes[0].is_reduce = lanes[0].is_root = lanes[0].reads_input = true;
  lanes[0].in = ends.data();
  lanes[0].out = &ends[1];
  lanes[0].in_count = lanes[0].out_count = 1;
  lanes[1].tree = 1;
  lanes[1].in = &ends[2];
  lanes[1].in_count = 1;
  std::vector<int> const input(10, 1);
  std::vector<int> output(10, -1);
  std::vector<std::string> log;
  blink_test::least_patience wait;
  (void)blink::walk_round(blink_test::least_group{}, lending_link(log), lanes.data(), lanes.size(),
                          blink::call_buffers<int>{input.data(), output.data()}, blink::sum{},
                          wait);
  EXPECT_EQ(log, (std::vector<std::string>{"ask 2 0", "post 3 0: 8", "ask 2 1", "post 3 1: 8",
                                           "ask 2 2", "ask 0 0"}));
  EXPECT_EQ(output, (std::vector<int>{2, 2, 2, 2, -1, -1, -1, -1, -1, -1}));
}

TEST(tree_walk, the_lowest_tree_that_is_blocked_is_told) {
  std::array<blink::wire_end, 3> ends;
  std::array<blink::lane, 3> lanes;
  for (std::uint32_t k = 0; k < 3; ++k) {
    ends[k].peer = static_cast<int>(k) + 1;
    ends[k].sends = k == 0;
    lanes[k].tree = 5 - k;
    lanes[k].chunks = 7;
    lanes[k].done = k;
    lanes[k].blocked_on = &ends[k];
  }
  auto const tree_told = [&] {
    return blink::find_stall(blink::collective::all_reduce, lanes.data(), lanes.size());
  };
  auto const all = tree_told();
  EXPECT_EQ(all.tree, 3);
  EXPECT_EQ(all.peer, 3);
  EXPECT_EQ(all.chunk, 2);
  EXPECT_EQ(all.chunks, 7U);
  EXPECT_FALSE(all.sends);
  lanes[2].is_finished = true;
  EXPECT_EQ(tree_told().tree, 4);
  lanes[1].blocked_on = nullptr;
  EXPECT_EQ(tree_told().tree, 5);
  EXPECT_TRUE(tree_told().sends);
  lanes[0].blocked_on = nullptr;
  EXPECT_EQ(tree_told().peer, -1);
}

}}  // namespace tree_walk_test
