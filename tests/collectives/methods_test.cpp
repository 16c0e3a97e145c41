// SPDX-License-Identifier: Apache-2.0
// One-shot calls, tables of methods by size, their files, and the search that fills them.

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/collectives/prepared_methods.hpp>
#include <blink/collectives/tune.hpp>
#include <blink/schedule/default_methods.hpp>
#include <blink/schedule/method_file.hpp>
#include <blink/schedule/method_table.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/expect_error.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace methods_test { namespace {

using blink_test::error_of;

using blink::collective;

blink::method_table two_methods(int ranks) {
  return {collective::all_reduce,
          {{"one-shot", blink::one_shot_schedule(ranks)}, {"star", blink::star_schedule(ranks)}},
          {{0, 0, 0}, {1 << 12, 1, 0}, {1 << 16, 1, 4096}}};
}

// Sums that depend on the order of operands: equal bits mean the same order.
template <class World>
void one_shot_gives_the_bits_of_a_star(bool in_place) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (std::size_t const count : {1U, 9U, 700U, 5003U}) {
      blink::world_options options;
      options.slot_bytes = 1000;
      World world(ranks, options);
      auto const one_shot = blink::one_shot_schedule(ranks);
      auto const star = blink::star_schedule(ranks);
      world.run([&](auto& me) {
        std::mt19937_64 random(static_cast<std::uint64_t>(me.rank()) + count);
        std::vector<float> in(count), expected(count);
        for (auto& x : in) x = static_cast<float>(random() % 1000) * 1.1e-3F + 1e3F / 3;
        blink::all_reduce(me, star, in.data(), expected.data(), count, blink::sum{});
        auto kept = in;
        auto out = in;
        if (!in_place) out.assign(count, 0);
        blink::all_reduce(me, one_shot, in_place ? out.data() : kept.data(), out.data(), count,
                          blink::sum{});
        EXPECT_EQ(out, expected) << ranks << " ranks, " << count;
        EXPECT_EQ(kept, in);
      });
    }
  }
}

TEST(one_shot, gives_the_bits_of_a_star) {
  one_shot_gives_the_bits_of_a_star<blink::thread_world>(false);
  one_shot_gives_the_bits_of_a_star<blink::thread_world>(true);
  one_shot_gives_the_bits_of_a_star<blink::basic_world<blink::slot_link>>(false);
  one_shot_gives_the_bits_of_a_star<blink::basic_world<blink::slot_link>>(true);
}

TEST(one_shot, moves_the_whole_buffer_to_every_rank) {
  constexpr int ranks = 4;
  constexpr std::size_t count = 1000;
  blink::basic_world<blink::slot_link> world(ranks);
  auto& plan = world.prepare(blink::one_shot_schedule(ranks));
  world.run([&](auto& me) {
    std::vector<int> data(count, me.rank());
    blink::all_reduce(me, plan, data.data(), data.data(), count, blink::sum{});
    EXPECT_EQ(data.back(), 6);
  });
  for (auto const& edge : plan.edges()) EXPECT_EQ(edge.bytes, count * sizeof(int));
  EXPECT_EQ(plan.edges().size(), 12U);
}

TEST(one_shot, carries_nothing_but_all_reduce) {
  auto plan = blink::one_shot_schedule(3);
  blink::validate_for(plan, collective::all_reduce);
  for (std::size_t kind = 0; kind < blink::collective_names.size(); ++kind) {
    if (static_cast<collective>(kind) == collective::all_reduce) continue;
    EXPECT_THROW(blink::validate_for(plan, static_cast<collective>(kind)),
                 blink::precondition_error);
  }
  plan.trees.pop_back();  // nobody computes the result of rank 2
  EXPECT_NE(error_of([&] {
              blink::validate_for(plan, collective::all_reduce);
            }).find("rank 2 roots no tree"),
            std::string::npos);
}

TEST(one_shot, is_told_from_two_steps_where_ranks_disagree) {
  blink::world_options options;
  options.waits.deadline = std::chrono::seconds(20);
  blink::thread_world world(2, options);
  EXPECT_THROW(world.run([&](auto& me) {
    std::vector<int> data(100, 1);
    auto const plan = me.rank() == 0 ? blink::one_shot_schedule(2) : blink::star_schedule(2);
    blink::all_reduce(me, plan, data.data(), data.data(), 100, blink::sum{});
  }),
               blink::collective_error);
}

TEST(methods, every_size_goes_the_way_that_the_table_says) {
  constexpr int ranks = 3;
  blink::world_options options;
  options.shown_bytes = 0;
  blink::basic_world<blink::slot_link> world(ranks, options);
  auto const table = two_methods(ranks);
  auto& one_shot = world.prepare(table.methods[0].plan);
  auto& star = world.prepare(table.methods[1].plan);
  auto const chunks_of = [](blink::prepared_schedule const& plan) {
    std::uint64_t sum = 0;
    for (auto const& edge : plan.edges()) sum += edge.chunks;
    return sum;
  };
  struct expected {
    std::size_t bytes;
    std::uint64_t one_shot, star;  // messages so far
  };
  // A star of three ranks has twelve edges, each with a third of the buffer: one chunk, or two as the
  // formula says, or eight as the table does.
  for (auto const& [bytes, by_one_shot, by_star] :
       {expected{400, 6, 0}, expected{4092, 12, 0}, expected{4096, 12, 12}, expected{65532, 12, 36},
        expected{98304, 12, 36 + 12 * 8}}) {
    std::size_t const count = bytes / sizeof(float);
    world.run([&](auto& me) {
      blink::prepared_methods const methods(me, table);
      std::vector<float> data(count, 1);
      blink::all_reduce(me, methods, data.data(), data.data(), count, blink::sum{});
      EXPECT_EQ(data, std::vector<float>(count, ranks));
    });
    EXPECT_EQ(chunks_of(one_shot), by_one_shot) << bytes;
    EXPECT_EQ(chunks_of(star), by_star) << bytes;
  }
}

TEST(methods, started_calls_take_them_too) {
  blink::thread_world world(2);
  world.run([&](auto& me) {
    blink::prepared_methods const methods(me, two_methods(2));
    blink::call_queue queue(me);
    for (std::size_t const count : {std::size_t{300}, std::size_t{30'000}}) {
      std::vector<int> in(count, me.rank() + 1), out(count);
      queue
          .start(collective::all_reduce, methods, static_cast<int const*>(in.data()), out.data(),
                 count, blink::sum{})
          .wait();
      EXPECT_EQ(out, std::vector<int>(count, 3));
    }
  });
}

TEST(methods, chunks_that_differ_between_ranks_are_told) {
  blink::world_options options;
  options.waits.deadline = std::chrono::seconds(20);
  blink::thread_world world(2, options);
  EXPECT_THROW(world.run([&](auto& me) {
    auto table = two_methods(2);
    if (me.rank() == 1) table.ranges[2].chunk_bytes = 8192;
    blink::prepared_methods const methods(me, table);
    std::vector<char> data(1 << 17);
    blink::broadcast(me, blink::flat_schedule(2, 0), data.data(), data.data(), data.size());
    blink::all_reduce(me, methods, data.data(), data.data(), data.size(), blink::sum{});
  }),
               blink::collective_error);
}

TEST(methods, tables_that_are_not_sound_are_refused) {
  auto const with = [](auto const& change) {
    auto table = two_methods(3);
    change(table);
    return error_of([&] { blink::validate(table); });
  };
  EXPECT_EQ(with([](auto&) {}), "no error");
  struct fault {
    std::string found, expected;
  };
  for (auto const& [found, expected] : std::vector<fault>{
           {with([](auto& t) { t.methods.clear(); }), "none, expected at least one"},
           {with([](auto& t) { t.ranges.clear(); }), "no ranges of sizes"},
           {with([](auto& t) { t.ranges[0].from_bytes = 8; }), "range 0 begins at 8 bytes"},
           {with([](auto& t) { t.ranges[2].from_bytes = 4096; }), "range 2 begins at 4096 bytes"},
           {with([](auto& t) { t.ranges[1].method = 2; }), "range 1 names method 2 of 2"},
           {with([](auto& t) { t.methods[1].plan = blink::star_schedule(4); }),
            "'star' is for 4 ranks, the first for 3"},
           {with([](auto& t) {
              t.collective = collective::broadcast;
              t.methods = {{"a", blink::flat_schedule(3, 0)}, {"b", blink::flat_schedule(3, 1)}};
            }),
            "'b' has other roots or receivers than 'a'"},
           {with([](auto& t) {
              t.collective = collective::permute;
              t.methods = {{"a", blink::permute_schedule({1, 2, 0})},
                           {"b", blink::permute_schedule({2, 0, 1})}};
            }),
            "'b' has other roots or receivers than 'a'"},
           {with([](auto& t) { t.collective = collective::all_gather; }),
            "'one-shot': all_gather: a one-shot schedule carries all_reduce only"}}) {
    EXPECT_NE(found.find(expected), std::string::npos) << found << "\n" << expected;
  }
  blink::thread_world world(3);
  EXPECT_NE(error_of([&] {
              world.run([&](auto& me) {
                blink::prepared_methods const twice(me, {two_methods(3), two_methods(3)});
              });
            }).find("two tables, expected one"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              world.run([&](auto& me) {
                blink::prepared_methods const methods(me, two_methods(3));
                int data = 0;
                blink::broadcast(me, methods, &data, &data, 1);
              });
            }).find("methods: none for broadcast"),
            std::string::npos);
}

TEST(method_files, come_back_as_they_were) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<blink::method_table> tables;
    for (auto const kind : {collective::all_reduce, collective::gather, collective::all_gather}) {
      blink::method_table table;
      table.collective = kind;
      int const ranks = 2 + blink_test::below(random, 4);
      auto plan = blink_test::random_schedule(random, ranks, kind);
      plan.link_bytes_per_second = {1e9, 2.5e10};
      auto& tree = plan.trees[0];
      if (!tree.broadcast_parent.empty()) {
        tree.broadcast_route.assign(static_cast<std::size_t>(ranks), {0, 1});
      }
      table.methods = {{"a \"quoted\" name", plan}, {"b", plan}};
      table.methods[1].plan.trees[0].chunk_bytes += 17;
      table.ranges = {{0, 1, 0}, {random() % 1000 + 1, 0, random() % 1000}};
      tables.push_back(table);
    }
    EXPECT_EQ(blink::read_methods(blink::write_methods(tables), "m.json"), tables);
  }
}

TEST(method_files, hold_the_largest_weights) {
  auto star = blink::star_schedule(2);
  star.trees[0].weight = std::numeric_limits<std::int64_t>::max();
  star.trees[1].weight = 0;
  blink::method_table const table{collective::all_reduce, {{"star", star}}, {{0, 0, 0}}};
  EXPECT_EQ(blink::read_methods(blink::write_methods({table}), "m.json"), std::vector{table});
}

TEST(method_files, that_are_damaged_say_where) {
  auto const text = blink::write_methods({two_methods(2)});
  auto const with = [&](std::string const& from, std::string const& to) {
    auto damaged = text;
    auto const at = damaged.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    damaged.replace(at, from.size(), to);
    return error_of([&] { (void)blink::read_methods(damaged, "m.json"); });
  };
  struct fault {
    std::string from, to, expected;
  };
  for (auto const& [from, to, expected] : std::vector<fault>{
           {"\"blink_methods\": 1", "\"blink_methods\": 2", "found format 2, expected 1"},
           {"all_reduce", "all_reduse", "tables[0].collective: found \"all_reduse\""},
           {"\"ranks\":2", "\"ranks\":\"2\"", "schedule.ranks: found \"2\", expected an integer"},
           {"\"one_shot\":true", "\"one_shot\":1", "one_shot: expected true or false"},
           {"\"weight\":1", "\"weight\":-1", "found -1, expected an integer from 0 on"},
           {"\"root\":0", "\"root\":5", "tables[0]: methods of all_reduce: 'one-shot': schedule"},
           {"\"from_bytes\":4096", "\"from_bytes\":0", "range 1 begins at 0 bytes"},
           {"\"method\":1", "\"methode\":1", "ranges[1].method: missing"},
           {"\"ranges\"", "\"ranges", "m.json:"}}) {
    auto const found = with(from, to);
    EXPECT_NE(found.find(expected), std::string::npos) << found << "\n" << expected;
  }
  EXPECT_NE(error_of([] {
              (void)blink::read_methods_file("/does/not/exist");
            }).find("/does/not/exist: cannot be opened"),
            std::string::npos);
}

TEST(default_schedule, is_one_of_the_methods_and_carries_what_it_is_for) {
  for (int ranks = 1; ranks <= 12; ++ranks) {
    for (std::size_t k = 0; k < blink::collective_names.size(); ++k) {
      auto const kind = static_cast<collective>(k);
      if (kind == collective::permute || (ranks == 1 && kind == collective::send_to_next)) continue;
      auto const plan = blink::default_schedule(kind, ranks, ranks / 2);
      EXPECT_NO_THROW(blink::validate_for(plan, kind)) << to_text(kind) << " of " << ranks;
      auto const methods = blink::default_methods(kind, ranks, ranks / 2);
      EXPECT_TRUE(std::any_of(methods.begin(), methods.end(),
                              [&](blink::method const& one) { return one.plan == plan; }));
    }
  }
  EXPECT_EQ(blink::default_schedule(collective::reduce, 8, 3), blink::flat_schedule(8, 3));
  EXPECT_EQ(blink::default_schedule(collective::reduce, 9, 3), blink::binomial_schedule(9, 3));
}

TEST(default_methods, carry_what_they_are_for) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (std::size_t k = 0; k < blink::collective_names.size(); ++k) {
      auto const kind = static_cast<collective>(k);
      if (kind == collective::permute || (kind == collective::send_to_next && ranks == 1)) continue;
      blink::method_table table{kind, blink::default_methods(kind, ranks, ranks - 1), {{0, 0, 0}}};
      EXPECT_EQ(error_of([&] { blink::validate(table); }), "no error");
    }
  }
  EXPECT_THROW(static_cast<void>(blink::default_methods(collective::permute, 2)),
               blink::precondition_error);
  EXPECT_THROW(static_cast<void>(blink::default_methods(collective::reduce, 2, 2)),
               blink::precondition_error);
}

// What is fast is the machine's affair; that ranks agree and every range was measured is not.
TEST(tune, gives_all_ranks_one_table) {
  blink::tuning_options options;
  options.last_bytes = 1 << 14;
  options.calls = 3;
  options.chunks_from_bytes = 1 << 13;
  options.chunks = {
      .first_bytes = 1024, .smallest_bytes = 512, .largest_bytes = 4096, .decreases = 4};
  for (auto const kind : {collective::all_reduce, collective::all_gather}) {
    constexpr int ranks = 3;
    std::vector<blink::method> methods{{"star", blink::star_schedule(ranks)}};
    if (kind == collective::all_reduce) {
      methods.push_back({"one-shot", blink::one_shot_schedule(ranks)});
      methods.push_back({"chain", blink::chain_schedule(ranks, 0)});
    }
    std::vector<blink::tuning_result> results(ranks);
    blink::thread_world world(ranks);
    world.run([&](auto& me) {
      results[static_cast<std::size_t>(me.rank())] = blink::tune(me, kind, methods, options);
    });
    auto const& first = results[0];
    for (auto const& other : results) EXPECT_EQ(other.table, first.table);
    validate(first.table);
    EXPECT_EQ(first.table.methods, methods);
    std::size_t with_chunks = 0;
    for (auto const& sample : first.samples) {
      EXPECT_GT(sample.seconds, 0);
      if (sample.chunk_bytes == 0) continue;
      ++with_chunks;
      EXPECT_GE(sample.bytes, options.chunks_from_bytes);
      EXPECT_GE(sample.chunk_bytes, 512U);
      EXPECT_LE(sample.chunk_bytes, 4096U);
    }
    EXPECT_EQ(with_chunks, 1U);  // 8 B to 8 KiB by fours: 8192 alone
    EXPECT_GE(first.samples.size(), 7U);
  }
}

TEST(tune, refuses_what_it_cannot_measure) {
  blink::thread_world world(2);
  auto const refusal = [&](collective kind, std::vector<blink::method> const& methods,
                           blink::tuning_options const& options) {
    return error_of(
        [&] { world.run([&](auto& me) { (void)blink::tune(me, kind, methods, options); }); });
  };
  std::vector<blink::method> const star{{"star", blink::star_schedule(2)}};
  EXPECT_NE(refusal(collective::barrier, star, {}).find("a barrier has one size"),
            std::string::npos);
  EXPECT_NE(refusal(collective::broadcast, star, {}).find("'star'"), std::string::npos);
  EXPECT_NE(refusal(collective::all_reduce, star, {.first_bytes = 0}).find("tuning_options"),
            std::string::npos);
}

}}  // namespace methods_test
