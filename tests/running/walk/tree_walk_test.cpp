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

// A folder may be compiled as one source.
namespace tree_walk_test { namespace {

template <class Transport>
void walks_alone() {
  std::vector<blink_test::least_element> input;
  std::vector<blink_test::least_element> output;
  for (int k = 0; k < 10; ++k) {
    input.emplace_back(k);
    output.emplace_back(-1);
  }
  blink::tree_task here;
  here.is_reduce = here.is_root = here.reads_input = here.writes_output = true;
  here.count = 10;
  here.chunk = here.stride = blink_test::least_chunks::elements({});
  here.chunks = 4;
  Transport const transport(0);
  blink::open_task(blink::lone_thread{}, transport, here, sizeof(blink_test::least_element));
  blink_test::least_wait wait;
  blink::call_buffers<blink_test::least_element> const buffers{input.data(), output.data()};
  EXPECT_EQ(blink::walk(blink_test::least_group{}, transport, &here, 1, buffers,
                        blink_test::least_reducer{}, wait),
            blink::status::ok);
  for (int k = 0; k < 10; ++k) EXPECT_EQ(output[static_cast<std::size_t>(k)].value, k);
  EXPECT_EQ(here.done, 4U);
}

TEST(tree_walk, needs_no_more_than_the_concepts) {
  walks_alone<blink_test::least_transport>();
  walks_alone<blink_test::least_reaching_transport>();
}

TEST(tree_walk, ends_when_wait_policy_does) {
  blink::tree_task here;
  blink::endpoint never;
  here.in = &never;
  here.in_count = 1;
  here.count = here.chunk = here.stride = here.chunks = 1;
  blink_test::least_wait wait;
  EXPECT_EQ(blink::walk(blink_test::least_group{}, blink_test::least_transport(0), &here, 1,
                        blink::call_buffers<int>{}, blink::sum{}, wait),
            blink::status::timed_out);
  EXPECT_EQ(here.blocked_on, &never);
}

/// Three peers. Data arrives on connection 1 only when the slots of the others are free again.
struct late_transport : blink_test::least_transport {
  struct state_of_connection {
    std::uint64_t consumed = 0;
    int slot = 0;
  };
  explicit late_transport(std::array<state_of_connection, 3>& connections)
      : least_transport(0), connections_(&connections) {}
  int rank_count() const { return 4; }
  bool has_arrived(std::uint32_t connection, std::uint64_t message) const {
    if (connection != 1) return message == (*connections_)[connection].consumed;
    return (*connections_)[0].consumed > message && (*connections_)[2].consumed > message;
  }
  std::byte const* inbox(std::uint32_t connection, std::uint64_t) const {
    return reinterpret_cast<std::byte const*>(&(*connections_)[connection].slot);
  }
  void consume(std::uint32_t connection, std::uint64_t message) const {
    EXPECT_EQ((*connections_)[connection].consumed, message) << "consumed twice, or out of order";
    (*connections_)[connection].consumed = message + 1;
  }

 private:
  std::array<state_of_connection, 3>* connections_;
};

/// Waits for some rounds.
struct short_wait : blink_test::least_wait {
  int rounds = 20;
  blink::status on_idle() { return --rounds > 0 ? blink::status::ok : blink::status::timed_out; }
};

/// Shows the order in its decimal digits.
struct listing {
  int operator()(int a, int b) const { return a * 10 + b; }
};

/// The status of the walk of a root with three children, and its output.
template <blink::order_promise Order>
std::pair<blink::status, std::vector<int>> reduce_from_late_peers() {
  std::array<late_transport::state_of_connection, 3> connections;
  std::array<blink::endpoint, 3> ends;
  for (std::uint32_t k = 0; k < 3; ++k) {
    connections[k].slot = static_cast<int>(k) + 2;
    ends[k].connection = k;
    ends[k].peer = static_cast<int>(k) + 1;
  }
  blink::tree_task here;
  here.is_reduce = here.is_root = here.reads_input = here.writes_output = true;
  here.in = ends.data();
  here.in_count = 3;
  here.count = here.chunks = 5;
  std::vector<int> const input(5, 1);
  std::vector<int> output(5, -1);
  late_transport const transport(connections);
  blink::open_task(blink::lone_thread{}, transport, here, sizeof(int));
  int sums = 0;  // of a chunk
  here.early.sums = reinterpret_cast<std::byte*>(&sums);
  short_wait wait;
  auto const result = blink::walk(blink_test::least_group{}, transport, &here, 1,
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

/// One peer. No message arrives on connection 0; two messages have arrived on connection 2. The
/// other connections lead to the peer and have credit for two messages, which never leave.
struct in_place_transport : blink_test::least_transport {
  explicit in_place_transport(std::vector<std::string>& log) : least_transport(0), log_(&log) {}
  int rank_count() const { return 2; }
  bool has_credit(std::uint32_t, std::uint64_t message) const { return message < 2; }
  void post(std::uint32_t connection, std::uint64_t message, std::size_t bytes) const {
    log_->push_back("post " + std::to_string(connection) + " " + std::to_string(message) + ": " +
                    std::to_string(bytes));
  }
  bool has_arrived(std::uint32_t connection, std::uint64_t message) const {
    log_->push_back("ask " + std::to_string(connection) + " " + std::to_string(message));
    return connection == 2 && message < 2;
  }
  [[nodiscard]] bool sends_messages(std::uint32_t) const { return true; }
  std::size_t zero_copy_threshold() const { return 1; }
  std::byte const* inbox(std::uint32_t, std::uint64_t) const {
    return reinterpret_cast<std::byte const*>(slot_);
  }
  void send_in_place(std::uint32_t, blink::chunk_run const&, bool) const {}
  void receive_in_place(std::uint32_t, blink::chunk_run const&, bool) const {}
  bool has_left(std::uint32_t, std::uint64_t) const { return false; }

 private:
  static constexpr int slot_[2] = {1, 1};
  std::vector<std::string>* log_;
};
static_assert(blink::zero_copy_transport<in_place_transport>);

/// The root of tree 0, which waits for its peer, and the leaf of tree 1, which sends to it in three
/// chunks.
std::vector<std::string> log_of_round() {
  std::array<blink::endpoint, 2> ends;
  ends[0].peer = ends[1].peer = 1;
  ends[1].connection = 1;
  ends[1].sends = true;
  ends[1].way = blink::transfer_mode::from_input;
  std::array<blink::tree_task, 2> tasks;
  for (auto& here : tasks) {
    here.is_reduce = here.reads_input = true;
    here.count = 5;
    here.chunk = here.stride = 2;
    here.chunks = 3;
  }
  tasks[0].is_root = tasks[0].writes_output = true;
  tasks[0].in = ends.data();
  tasks[0].in_count = 1;
  tasks[1].tree = 1;
  tasks[1].out = &ends[1];
  tasks[1].out_count = 1;
  std::vector<int> const input(10, 1);
  std::vector<int> output(10, -1);
  std::vector<std::string> log;
  blink_test::least_wait wait;
  auto const round = blink::walk_round(
      blink_test::least_group{}, in_place_transport(log), tasks.data(), tasks.size(),
      blink::call_buffers<int>{input.data(), output.data()}, blink::sum{}, wait);
  EXPECT_TRUE(round.moved);
  EXPECT_TRUE(round.is_open);
  return log;
}

TEST(tree_walk, lent_buffers_leave_before_arrivals_are_asked_for) {
  // As many as there is credit for; 4-byte elements in chunks of two.
  EXPECT_EQ(log_of_round(), (std::vector<std::string>{"post 1 0: 8", "post 1 1: 8", "ask 0 0"}));
}

TEST(tree_walk, sums_that_peers_wait_for_are_made_before_other_arrivals_are_asked_for) {
  std::array<blink::endpoint, 3> ends;
  for (auto& end : ends) end.peer = 1;
  ends[0].connection = 2;
  ends[1].connection = 3;
  ends[1].sends = true;
  ends[1].way = blink::transfer_mode::from_output;
  std::array<blink::tree_task, 2>
      tasks;  // the root of tree 0, and a leaf of tree 1 that gets the sum
  for (auto& here : tasks) {
    here.count = 5;
    here.chunk = here.stride = 2;
    here.chunks = 3;
    here.writes_output = true;
  }
  tasks[0].is_reduce = tasks[0].is_root = tasks[0].reads_input = true;
  tasks[0].in = ends.data();
  tasks[0].out = &ends[1];
  tasks[0].in_count = tasks[0].out_count = 1;
  tasks[1].tree = 1;
  tasks[1].in = &ends[2];
  tasks[1].in_count = 1;
  std::vector<int> const input(10, 1);
  std::vector<int> output(10, -1);
  std::vector<std::string> log;
  blink_test::least_wait wait;
  (void)blink::walk_round(blink_test::least_group{}, in_place_transport(log), tasks.data(),
                          tasks.size(), blink::call_buffers<int>{input.data(), output.data()},
                          blink::sum{}, wait);
  EXPECT_EQ(log, (std::vector<std::string>{"ask 2 0", "post 3 0: 8", "ask 2 1", "post 3 1: 8",
                                           "ask 2 2", "ask 0 0"}));
  EXPECT_EQ(output, (std::vector<int>{2, 2, 2, 2, -1, -1, -1, -1, -1, -1}));
}

TEST(tree_walk, the_lowest_tree_that_is_blocked_is_reported) {
  std::array<blink::endpoint, 3> ends;
  std::array<blink::tree_task, 3> tasks;
  for (std::uint32_t k = 0; k < 3; ++k) {
    ends[k].peer = static_cast<int>(k) + 1;
    ends[k].sends = k == 0;
    tasks[k].tree = 5 - k;
    tasks[k].chunks = 7;
    tasks[k].done = k;
    tasks[k].blocked_on = &ends[k];
  }
  auto const tree_reported = [&] {
    return blink::find_stall(blink::collective::all_reduce, tasks.data(), tasks.size());
  };
  auto const all = tree_reported();
  EXPECT_EQ(all.tree, 3);
  EXPECT_EQ(all.peer, 3);
  EXPECT_EQ(all.chunk, 2);
  EXPECT_EQ(all.chunks, 7U);
  EXPECT_FALSE(all.sends);
  tasks[2].is_finished = true;
  EXPECT_EQ(tree_reported().tree, 4);
  tasks[1].blocked_on = nullptr;
  EXPECT_EQ(tree_reported().tree, 5);
  EXPECT_TRUE(tree_reported().sends);
  tasks[0].blocked_on = nullptr;
  EXPECT_EQ(tree_reported().peer, -1);
}

}}  // namespace tree_walk_test
