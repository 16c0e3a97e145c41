// SPDX-License-Identifier: Apache-2.0

#include <blink/collectives.hpp>

#include "support/collective_archetypes.hpp"
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace tree_walk_test {

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
                                  blink::call_buffers<int>{input.data(), output.data(), false},
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

}  // namespace

}  // namespace tree_walk_test
