// SPDX-License-Identifier: Apache-2.0
// Pieces between any ranks, blocks of any sizes for each of them, several buffers as one: random, against serial
// loops. unequal_shares_test.cpp has one block for each rank.

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/all_to_all_v.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/collectives/exchange.hpp>
#include <blink/collectives/grouped.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/collective_case.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace unequal_blocks_test { namespace {

using blink::collective;
using blink_test::below;
using blink_test::input_element;

template <class World>
class unequal_blocks : public testing::Test {
 protected:
  static blink::world_options options(std::mt19937_64& random) {
    blink::world_options result;
    result.window = 1 + static_cast<std::uint32_t>(random() % 3);
    result.slot_bytes = 64 + random() % 400;
    result.streaming_bytes = random() % 4 == 0 ? 0 : result.streaming_bytes;
    result.measured_bytes = random() % 2 == 0 ? 0 : result.measured_bytes;
    return result;
  }
  static std::size_t end_of(std::vector<blink::block> const& blocks) {
    std::size_t end = 0;
    for (auto const& one : blocks) end = std::max(end, one.begin + one.count);
    return end;
  }
  // By the call that waits, or started, by the caller or a thread of its own.
  template <class Me, class Call, class Make>
  static void run(Me& me, std::uint64_t seed, Call const& call, Make const& make) {
    if (seed % 3 == 0) return call();
    blink::call_queue queue(me,
                            seed % 3 == 1 ? blink::progress::in_waits : blink::progress::thread);
    auto started = queue.start(make(queue));
    while (!started.test()) std::this_thread::yield();
  }
  template <class Call>
  static std::string refusal(Call const& call) {
    try {
      call();
    } catch (blink::precondition_error const& error) {
      return error.what();
    }
    return "no refusal";
  }
};
using worlds = testing::Types<blink::thread_world, blink::basic_world<blink::slot_link>>;
TYPED_TEST_SUITE(unequal_blocks, worlds);

constexpr int untouched = -77;

TYPED_TEST(unequal_blocks, from_all_to_all) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 6);
    auto const n = static_cast<std::size_t>(ranks);
    TypeParam world(ranks, this->options(random));
    auto& plan = world.prepare(blink_test::random_schedule(random, ranks, collective::all_to_all));
    bool const in_place = random() % 2 == 0;
    std::vector<std::size_t> counts(n * n);  // sender * n + receiver
    for (std::size_t from = 0; from < n; ++from) {
      for (std::size_t to = 0; to < n; ++to) {
        counts[from * n + to] = in_place && from > to ? counts[to * n + from] : random() % 100;
      }
    }
    world.run([&](auto& me) {
      auto const rank = static_cast<std::size_t>(me.rank());
      std::vector<std::size_t> to_counts, from_counts;
      for (std::size_t peer = 0; peer < n; ++peer) {
        to_counts.push_back(counts[rank * n + peer]);
        from_counts.push_back(counts[peer * n + rank]);
      }
      auto const sends = blink::consecutive_blocks(to_counts);
      auto const receives = blink::consecutive_blocks(from_counts);
      std::vector<int> in(this->end_of(sends) + 1);
      for (std::size_t to = 0; to < n; ++to) {
        for (std::size_t k = 0; k < sends[to].count; ++k) {
          in[sends[to].begin + k] = input_element<int>(seed + to, me.rank(), k);
        }
      }
      std::vector<int> apart(this->end_of(receives) + 1, untouched);
      auto& out = in_place ? in : apart;
      this->run(
          me, seed, [&] { blink::all_to_all_v(me, plan, in.data(), sends, out.data(), receives); },
          [&](auto& queue) {
            return queue.make_all_to_all_v(plan, in.data(), sends, out.data(), receives);
          });
      for (std::size_t from = 0; from < n; ++from) {
        for (std::size_t k = 0; k < receives[from].count; ++k) {
          ASSERT_EQ(out[receives[from].begin + k],
                    input_element<int>(seed + rank, static_cast<int>(from), k));
        }
      }
      if (!in_place) {
        EXPECT_EQ(apart.back(), untouched);
      }
    });
  }
}

// Every rank lists its pieces in an order of its own; no order can block.
TYPED_TEST(unequal_blocks, exchanged_in_any_order) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 5);
    TypeParam world(ranks, this->options(random));
    auto& plan = world.prepare(blink_test::random_schedule(random, ranks, collective::all_to_all));
    struct planned {
      int from, to, number;
      std::size_t count;
    };
    std::vector<planned> all;
    for (std::uint64_t piece = random() % 12; piece > 0; --piece) {
      all.push_back({below(random, ranks), below(random, ranks), static_cast<int>(piece),
                     random() % 5 == 0 ? 0 : random() % 150});
    }
    world.run([&](auto& me) {
      std::mt19937_64 own(seed * 7 + static_cast<std::uint64_t>(me.rank()));
      std::vector<std::vector<double>> sent(all.size()), received(all.size());
      blink::transfers list;
      bool const receives_first = own() % 2 == 0;
      for (bool const receives : {receives_first, !receives_first}) {
        for (std::size_t k = 0; k < all.size(); ++k) {  // order matters between two ranks only
          auto const& one = all[k];
          if (receives && one.to == me.rank()) {
            received[k].resize(one.count);
            list.receive(one.from, received[k].data(), one.count);
          }
          if (!receives && one.from == me.rank()) {
            for (std::size_t i = 0; i < one.count; ++i) {
              sent[k].push_back(one.number + static_cast<double>(i) / 1024);
            }
            list.send(one.to, sent[k].data(), one.count);
          }
        }
      }
      this->run(
          me, seed, [&] { blink::exchange(me, plan, list); },
          [&](auto& queue) {
            auto call = queue.make_exchange(plan, list);
            list.clear();  // the call has what it needs of it
            return call;
          });
      for (std::size_t k = 0; k < all.size(); ++k) {
        for (std::size_t i = 0; i < received[k].size(); ++i) {
          ASSERT_EQ(received[k][i], all[k].number + static_cast<double>(i) / 1024);
        }
      }
    });
  }
}

TYPED_TEST(unequal_blocks, buffers_in_groups) {
  for (std::uint64_t seed = 0; seed < 44; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 4);
    auto const kind = static_cast<collective>(seed % (blink::collective_names.size() - 1));
    if (kind == collective::send_to_next && ranks == 1) continue;
    TypeParam world(ranks, this->options(random));
    auto& plan = world.prepare(blink_test::random_schedule(random, ranks, kind));
    std::vector<blink_test::collective_case> cases;
    for (std::uint64_t part = random() % 6; part > 0; --part) {
      cases.push_back({kind, random() % 300, random() % 2 == 0, 0, seed * 100 + part});
    }
    world.run([&](auto& me) {
      std::vector<blink_test::rank_buffers<std::int32_t>> buffers;
      buffers.reserve(cases.size());
      std::vector<blink::buffer_part<std::int32_t>> parts;
      for (auto const& what : cases) {
        auto& mine = buffers.emplace_back(what, ranks, me.rank());
        parts.push_back({mine.input, mine.output, what.count});
      }
      auto const run = [&](auto const& reduce) {
        this->run(
            me, seed / 11, [&] { blink::grouped(me, plan, kind, parts, reduce, 1600); },
            [&](auto& queue) { return queue.make_grouped(plan, kind, parts, reduce, 1600); });
      };
      if (blink::has_reduce_phase(kind)) {
        run(blink::sum{});
      } else {
        run(blink::detail::no_reducer{});
      }
      for (std::size_t k = 0; k < cases.size(); ++k) {
        EXPECT_EQ(blink_test::what_is_wrong(cases[k], plan.source(), buffers[k], blink::sum{}), "")
            << k;
      }
    });
  }
}

TYPED_TEST(unequal_blocks, mistakes_are_told_and_the_next_call_works) {
  TypeParam world(3);
  auto& star = world.prepare(blink::star_schedule(3));
  auto& flows = world.prepare(blink::all_to_all_schedule(3));
  world.run([&](auto& me) {
    auto const names = [](std::string const& text, std::string const& part) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    std::vector<int> in(100), out(100);
    int const* const from = in.data();
    int* const nothing = nullptr;
    std::vector<blink::block> const blocks{{0, 10}, {10, 10}, {20, 10}};
    if (me.rank() == 1) {  // known to this rank alone
      names(this->refusal([&] { blink::all_gather_v(me, star, from, out.data(), {{0, 1}}); }),
            "1 blocks, expected one for each of 3 ranks");
      names(this->refusal([&] {
        blink::all_gather_v(me, star, from, out.data(), {{0, 10}, {9, 10}, {20, 1}});
      }),
            "blocks of ranks 0 and 1 overlap");
      names(this->refusal([&] {
        blink::all_gather_v(me, star, from, out.data(), {{0, 10}, {SIZE_MAX / 2, 10}, {20, 1}});
      }),
            "the block of rank 1 has more bytes");
      names(this->refusal([&] { blink::all_gather_v(me, star, from, nothing, blocks); }),
            "the output is null");
      names(this->refusal([&] { blink::all_gather_v(me, star, from, in.data() + 1, blocks); }),
            "overlap");
      names(this->refusal([&] { blink::all_gather_v(me, flows, from, out.data(), blocks); }),
            "all_gather");
      names(this->refusal([&] { blink::all_to_all_v(me, star, from, blocks, out.data(), blocks); }),
            "all_to_all");
      blink::transfers list;
      list.send(3, from, 1);
      names(this->refusal([&] { blink::exchange(me, flows, list); }), "sends to rank 3 of 3");
      list.clear();
      list.receive(0, nothing, 1);
      names(this->refusal([&] { blink::exchange(me, flows, list); }), "a piece is null");
      list.clear();
      list.receive(0, in.data(), 4);
      list.send(2, from + 3, 4);
      names(this->refusal([&] { blink::exchange(me, flows, list); }), "overlaps another piece");
      names(this->refusal([&] { list.send(0, from, SIZE_MAX / 4); }), "more than an address");
      auto const overlaps = [&](int const* input, int* output) {
        std::vector<blink::buffer_part<int>> parts{{from, out.data(), 8}, {input, output, 8}};
        names(this->refusal([&] {
          blink::grouped(me, star, blink::collective::all_reduce, parts, blink::sum{});
        }),
              "the output of a part overlaps another part");
      };
      overlaps(from + 50, out.data() + 4);        // two results in one place
      overlaps(out.data() + 7, out.data() + 20);  // what is reduced is a result, too
      overlaps(out.data() + 20, in.data() + 4);   // a result in what is reduced
      overlaps(out.data() + 4, out.data() + 4);   // in place, but for its place
    }
    // Parts may share what they only read, and lie in place beside each other.
    blink::grouped(me, star, blink::collective::all_reduce,
                   std::vector<blink::buffer_part<int>>{{from, out.data(), 8},
                                                        {from + 4, out.data() + 8, 8},
                                                        {out.data() + 16, out.data() + 16, 8}},
                   blink::sum{});
    // What only both ends together know: told to all, and nothing is lost.
    auto wanted = blocks;
    if (me.rank() == 2) wanted[0].count = 9;
    names(this->refusal([&] { blink::all_to_all_v(me, flows, from, blocks, out.data(), wanted); }),
          "rank 0 sends rank 2 10, which expects 9");
    blink::transfers list;
    if (me.rank() == 0) {
      list.send(1, from, 1);
      list.send(1, from, 2);
    }
    if (me.rank() == 1) {
      list.receive(0, in.data(), 2);
      list.receive(0, in.data() + 2, 1);
    }
    names(this->refusal([&] { blink::exchange(me, flows, list); }), "other pieces");
    blink::transfers typed;  // as many bytes
    if (me.rank() == 0) typed.send(1, from, 1);
    std::vector<float> floats(1);
    if (me.rank() == 1) typed.receive(0, floats.data(), 1);
    names(this->refusal([&] { blink::exchange(me, flows, typed); }), "of other types");
    blink::all_to_all_v(me, flows, from, blocks, out.data(), blocks);
  });
}

/// Both ranks of a world call something else: how many are told "sizes of blocks"?
template <class World, class Call>
int told_of_other_sizes(Call const& call) {
  blink::world_options options;
  options.waits.deadline = std::chrono::seconds(20);
  World world(2, options);
  int told = 0;
  std::mutex mutex;
  EXPECT_THROW(world.run([&](auto& me) {
    try {
      call(me);
    } catch (blink::collective_error const& error) {
      std::lock_guard const lock(mutex);
      told += std::string(error.what()).find("sizes of blocks") != std::string::npos ? 1 : 0;
      throw;
    }
  }),
               blink::collective_error);
  return told;
}

TYPED_TEST(unequal_blocks, other_blocks_are_told_by_all) {
  EXPECT_EQ(2, told_of_other_sizes<TypeParam>([](auto& me) {
              std::vector<int> in(10), out(10);
              std::vector<blink::block> blocks{{0, 5}, {5, 5}};
              if (me.rank() == 1) blocks = {{0, 4}, {4, 6}};
              blink::all_gather_v(me, blink::star_schedule(2), static_cast<int const*>(in.data()),
                                  out.data(), blocks);
            }));
}

TYPED_TEST(unequal_blocks, parts_of_a_group_in_another_order_are_told_by_all) {
  EXPECT_EQ(2, told_of_other_sizes<TypeParam>([](auto& me) {
              std::vector<int> few(40), more(60);
              std::vector<blink::buffer_part<int>> parts{{few.data(), few.data(), few.size()},
                                                         {more.data(), more.data(), more.size()}};
              if (me.rank() == 1) std::swap(parts[0], parts[1]);
              auto& plan = me.prepare(blink::star_schedule(2));
              blink::grouped(me, plan, blink::collective::all_reduce, parts, blink::sum{});
            }));
}

}}  // namespace unequal_blocks_test
