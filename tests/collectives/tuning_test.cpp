// SPDX-License-Identifier: Apache-2.0
// One-shot calls, tables of algorithms by size, their files, and the search that fills them.

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/collectives/prepared_tuning.hpp>
#include <blink/collectives/tune.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/schedule/tuning_file.hpp>
#include <blink/schedule/tuning_table.hpp>
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

// A folder may be compiled as one source.
namespace tuning_test { namespace {

using blink_test::error_of;

using blink::collective;

blink::tuning_table two_algorithms(int ranks) {
  return {collective::all_reduce,
          {{"one-shot", blink::one_shot_schedule(ranks)}, {"star", blink::star_schedule(ranks)}},
          {{0, 0, 0}, {1 << 12, 1, 0}, {1 << 16, 1, 4096}}};
}

// Sums that depend on the order of operands: equal bits imply the same order.
template <class Ranks>
void one_shot_gives_the_bits_of_a_star(bool in_place) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (std::size_t const count : {1U, 9U, 700U, 5003U}) {
      blink::communicator_options options;
      options.slot_bytes = 1000;
      Ranks threads(ranks, options);
      auto const one_shot = blink::one_shot_schedule(ranks);
      auto const star = blink::star_schedule(ranks);
      threads.run([&](auto& comm) {
        std::mt19937_64 random(static_cast<std::uint64_t>(comm.rank()) + count);
        std::vector<float> in(count), expected(count);
        for (auto& x : in) x = static_cast<float>(random() % 1000) * 1.1e-3F + 1e3F / 3;
        blink::all_reduce(comm, star, in.data(), expected.data(), count, blink::sum{});
        auto kept = in;
        auto out = in;
        if (!in_place) out.assign(count, 0);
        blink::all_reduce(comm, one_shot, in_place ? out.data() : kept.data(), out.data(), count,
                          blink::sum{});
        EXPECT_EQ(out, expected) << ranks << " ranks, " << count;
        EXPECT_EQ(kept, in);
      });
    }
  }
}

TEST(one_shot, gives_the_bits_of_a_star) {
  one_shot_gives_the_bits_of_a_star<blink::thread_ranks>(false);
  one_shot_gives_the_bits_of_a_star<blink::thread_ranks>(true);
  one_shot_gives_the_bits_of_a_star<blink::basic_thread_ranks<blink::slot_transport>>(false);
  one_shot_gives_the_bits_of_a_star<blink::basic_thread_ranks<blink::slot_transport>>(true);
}

TEST(one_shot, moves_the_whole_buffer_to_every_rank) {
  constexpr int ranks = 4;
  constexpr std::size_t count = 1000;
  blink::basic_thread_ranks<blink::slot_transport> threads(ranks);
  auto& prepared = threads.prepare(blink::one_shot_schedule(ranks));
  threads.run([&](auto& comm) {
    std::vector<int> data(count, comm.rank());
    blink::all_reduce(comm, prepared, data.data(), data.data(), count, blink::sum{});
    EXPECT_EQ(data.back(), 6);
  });
  for (auto const& edge : prepared.edges()) EXPECT_EQ(edge.bytes, count * sizeof(int));
  EXPECT_EQ(prepared.edges().size(), 12U);
}

TEST(one_shot, carries_nothing_but_all_reduce) {
  auto source = blink::one_shot_schedule(3);
  blink::validate_for(source, collective::all_reduce);
  for (std::size_t kind = 0; kind < blink::collective_names.size(); ++kind) {
    if (static_cast<collective>(kind) == collective::all_reduce) continue;
    EXPECT_THROW(blink::validate_for(source, static_cast<collective>(kind)),
                 blink::precondition_error);
  }
  source.trees.pop_back();  // no rank computes the result of rank 2
  EXPECT_NE(error_of([&] {
              blink::validate_for(source, collective::all_reduce);
            }).find("rank 2 roots no tree"),
            std::string::npos);
}

TEST(one_shot, is_reported_from_two_steps_where_ranks_disagree) {
  blink::communicator_options options;
  options.waits.deadline = std::chrono::seconds(20);
  blink::thread_ranks threads(2, options);
  EXPECT_THROW(threads.run([&](auto& comm) {
    std::vector<int> data(100, 1);
    auto const source = comm.rank() == 0 ? blink::one_shot_schedule(2) : blink::star_schedule(2);
    blink::all_reduce(comm, source, data.data(), data.data(), 100, blink::sum{});
  }),
               blink::collective_error);
}

TEST(algorithms, every_size_goes_the_way_that_the_table_says) {
  constexpr int ranks = 3;
  blink::communicator_options options;
  options.eager_payload = 0;
  blink::basic_thread_ranks<blink::slot_transport> threads(ranks, options);
  auto const table = two_algorithms(ranks);
  auto& one_shot = threads.prepare(table.algorithms[0].source);
  auto& star = threads.prepare(table.algorithms[1].source);
  auto const chunks_of = [](blink::prepared_schedule const& prepared) {
    std::uint64_t sum = 0;
    for (auto const& edge : prepared.edges()) sum += edge.chunks;
    return sum;
  };
  struct expected {
    std::size_t bytes;
    std::uint64_t one_shot, star;  // messages so far
  };
  // A star of three ranks has twelve edges, each with a third of the buffer. It is one chunk, or
  // two by the formula, or eight by the table.
  for (auto const& [bytes, by_one_shot, by_star] :
       {expected{400, 6, 0}, expected{4092, 12, 0}, expected{4096, 12, 12}, expected{65532, 12, 36},
        expected{98304, 12, 36 + 12 * 8}}) {
    std::size_t const count = bytes / sizeof(float);
    threads.run([&](auto& comm) {
      blink::prepared_tuning const algorithms(comm, table);
      std::vector<float> data(count, 1);
      blink::all_reduce(comm, algorithms, data.data(), data.data(), count, blink::sum{});
      EXPECT_EQ(data, std::vector<float>(count, ranks));
    });
    EXPECT_EQ(chunks_of(one_shot), by_one_shot) << bytes;
    EXPECT_EQ(chunks_of(star), by_star) << bytes;
  }
}

TEST(algorithms, started_calls_take_them_too) {
  blink::thread_ranks threads(2);
  threads.run([&](auto& comm) {
    blink::prepared_tuning const algorithms(comm, two_algorithms(2));
    blink::call_queue queue(comm);
    for (std::size_t const count : {std::size_t{300}, std::size_t{30'000}}) {
      std::vector<int> in(count, comm.rank() + 1), out(count);
      queue
          .start(collective::all_reduce, algorithms, static_cast<int const*>(in.data()), out.data(),
                 count, blink::sum{})
          .wait();
      EXPECT_EQ(out, std::vector<int>(count, 3));
    }
  });
}

TEST(algorithms, chunks_that_differ_between_ranks_are_reported) {
  blink::communicator_options options;
  options.waits.deadline = std::chrono::seconds(20);
  blink::thread_ranks threads(2, options);
  EXPECT_THROW(threads.run([&](auto& comm) {
    auto table = two_algorithms(2);
    if (comm.rank() == 1) table.ranges[2].chunk_bytes = 8192;
    blink::prepared_tuning const algorithms(comm, table);
    std::vector<char> data(1 << 17);
    blink::broadcast(comm, blink::flat_schedule(2, 0), data.data(), data.data(), data.size());
    blink::all_reduce(comm, algorithms, data.data(), data.data(), data.size(), blink::sum{});
  }),
               blink::collective_error);
}

TEST(algorithms, tables_that_are_not_sound_are_refused) {
  auto const with = [](auto const& change) {
    auto table = two_algorithms(3);
    change(table);
    return error_of([&] { blink::validate(table); });
  };
  EXPECT_EQ(with([](auto&) {}), "no error");
  struct fault {
    std::string found, expected;
  };
  for (auto const& [found, expected] : std::vector<fault>{
           {with([](auto& t) { t.algorithms.clear(); }), "none, expected at least one"},
           {with([](auto& t) { t.ranges.clear(); }), "no ranges of sizes"},
           {with([](auto& t) { t.ranges[0].from_bytes = 8; }), "range 0 begins at 8 bytes"},
           {with([](auto& t) { t.ranges[2].from_bytes = 4096; }), "range 2 begins at 4096 bytes"},
           {with([](auto& t) { t.ranges[1].algorithm = 2; }), "range 1 names algorithm 2 of 2"},
           {with([](auto& t) { t.algorithms[1].source = blink::star_schedule(4); }),
            "'star' is for 4 ranks, the first for 3"},
           {with([](auto& t) {
              t.collective = collective::broadcast;
              t.algorithms = {{"a", blink::flat_schedule(3, 0)}, {"b", blink::flat_schedule(3, 1)}};
            }),
            "'b' has other roots or receivers than 'a'"},
           {with([](auto& t) {
              t.collective = collective::permute;
              t.algorithms = {{"a", blink::permute_schedule({1, 2, 0})},
                              {"b", blink::permute_schedule({2, 0, 1})}};
            }),
            "'b' has other roots or receivers than 'a'"},
           {with([](auto& t) { t.collective = collective::all_gather; }),
            "'one-shot': all_gather: a one-shot schedule carries all_reduce only"}}) {
    EXPECT_NE(found.find(expected), std::string::npos) << found << "\n" << expected;
  }
  blink::thread_ranks threads(3);
  EXPECT_NE(error_of([&] {
              threads.run([&](auto& comm) {
                blink::prepared_tuning const twice(comm, {two_algorithms(3), two_algorithms(3)});
              });
            }).find("two tables, expected one"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              threads.run([&](auto& comm) {
                blink::prepared_tuning const algorithms(comm, two_algorithms(3));
                int data = 0;
                blink::broadcast(comm, algorithms, &data, &data, 1);
              });
            }).find("tuning: no table for broadcast"),
            std::string::npos);
}

TEST(tuning_files, come_back_as_they_were) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<blink::tuning_table> tables;
    for (auto const kind : {collective::all_reduce, collective::gather, collective::all_gather}) {
      blink::tuning_table table;
      table.collective = kind;
      int const ranks = 2 + blink_test::below(random, 4);
      auto source = blink_test::random_schedule(random, ranks, kind);
      source.link_bytes_per_second = {1e9, 2.5e10};
      auto& tree = source.trees[0];
      if (!tree.broadcast_parent.empty()) {
        tree.broadcast_route.assign(static_cast<std::size_t>(ranks), {0, 1});
      }
      table.algorithms = {{"a \"quoted\" name", source}, {"b", source}};
      table.algorithms[1].source.trees[0].chunk_bytes += 17;
      table.ranges = {{0, 1, 0}, {random() % 1000 + 1, 0, random() % 1000}};
      tables.push_back(table);
    }
    EXPECT_EQ(blink::read_tuning(blink::write_tuning(tables), "m.json"), tables);
  }
}

TEST(tuning_files, hold_the_largest_weights) {
  auto star = blink::star_schedule(2);
  star.trees[0].weight = std::numeric_limits<std::int64_t>::max();
  star.trees[1].weight = 0;
  blink::tuning_table const table{collective::all_reduce, {{"star", star}}, {{0, 0, 0}}};
  EXPECT_EQ(blink::read_tuning(blink::write_tuning({table}), "m.json"), std::vector{table});
}

TEST(tuning_files, that_are_damaged_say_where) {
  auto const text = blink::write_tuning({two_algorithms(2)});
  auto const with = [&](std::string const& from, std::string const& to) {
    auto damaged = text;
    auto const at = damaged.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    damaged.replace(at, from.size(), to);
    return error_of([&] { (void)blink::read_tuning(damaged, "m.json"); });
  };
  struct fault {
    std::string from, to, expected;
  };
  for (auto const& [from, to, expected] : std::vector<fault>{
           {"\"blink_tuning\": 1", "\"blink_tuning\": 2", "found format 2, expected 1"},
           {"all_reduce", "all_reduse", "tables[0].collective: found \"all_reduse\""},
           {"\"ranks\":2", "\"ranks\":\"2\"", "schedule.ranks: found \"2\", expected an integer"},
           {"\"one_shot\":true", "\"one_shot\":1", "one_shot: expected true or false"},
           {"\"weight\":1", "\"weight\":-1", "found -1, expected an integer from 0 on"},
           {"\"root\":0", "\"root\":5",
            "tables[0]: algorithms of all_reduce: 'one-shot': schedule"},
           {"\"from_bytes\":4096", "\"from_bytes\":0", "range 1 begins at 0 bytes"},
           {"\"algorithm\":1", "\"algorithme\":1", "ranges[1].algorithm: missing"},
           {"\"ranges\"", "\"ranges", "m.json:"}}) {
    auto const found = with(from, to);
    EXPECT_NE(found.find(expected), std::string::npos) << found << "\n" << expected;
  }
  EXPECT_NE(error_of([] {
              (void)blink::read_tuning_file("/does/not/exist");
            }).find("/does/not/exist: cannot be opened"),
            std::string::npos);
}

TEST(default_schedule, is_one_of_the_algorithms_and_carries_what_it_is_for) {
  for (int ranks = 1; ranks <= 12; ++ranks) {
    for (std::size_t k = 0; k < blink::collective_names.size(); ++k) {
      auto const kind = static_cast<collective>(k);
      if (kind == collective::permute || (ranks == 1 && kind == collective::send_to_next)) continue;
      auto const source = blink::default_schedule(kind, ranks, ranks / 2);
      EXPECT_NO_THROW(blink::validate_for(source, kind)) << to_text(kind) << " of " << ranks;
      auto const algorithms = blink::default_algorithms(kind, ranks, ranks / 2);
      EXPECT_TRUE(std::any_of(algorithms.begin(), algorithms.end(),
                              [&](blink::algorithm const& one) { return one.source == source; }));
    }
  }
  EXPECT_EQ(blink::default_schedule(collective::reduce, 8, 3), blink::flat_schedule(8, 3));
  EXPECT_EQ(blink::default_schedule(collective::reduce, 9, 3), blink::binomial_schedule(9, 3));
}

TEST(default_tuning, carry_what_they_are_for) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (std::size_t k = 0; k < blink::collective_names.size(); ++k) {
      auto const kind = static_cast<collective>(k);
      if (kind == collective::permute || (kind == collective::send_to_next && ranks == 1)) continue;
      blink::tuning_table table{
          kind, blink::default_algorithms(kind, ranks, ranks - 1), {{0, 0, 0}}};
      EXPECT_EQ(error_of([&] { blink::validate(table); }), "no error");
    }
  }
  EXPECT_THROW(static_cast<void>(blink::default_algorithms(collective::permute, 2)),
               blink::precondition_error);
  EXPECT_THROW(static_cast<void>(blink::default_algorithms(collective::reduce, 2, 2)),
               blink::precondition_error);
}

TEST(default_tuning, suits_many_ranks_over_every_transport) {
  std::vector<std::uint64_t> hosts(80);
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) hosts[rank] = rank / 2;
  std::vector<blink::transport_traits> const transports{
      {true, true, {}}, {false, true, {}}, {false, false, {}}, {false, false, hosts}};
  for (auto const& over : transports) {
    for (int const ranks : {2, 8, 9, 32, 33, 80, 511, 512, 700}) {
      if (!over.hosts.empty() && ranks != 80) continue;
      for (auto const kind : {collective::all_reduce, collective::broadcast, collective::reduce}) {
        auto const table = blink::default_tuning(kind, ranks, 1, over);
        EXPECT_EQ(error_of([&] { blink::validate(table); }), "no error")
            << to_text(kind) << " of " << ranks;
        auto const& small = table.algorithms[blink::range_of(table, 4096).algorithm];
        EXPECT_TRUE(ranks <= 32 || small.source.trees.size() == 1)
            << to_text(kind) << " of " << ranks << " exchanges small messages with each";
      }
    }
  }
}

// The fastest algorithm depends on the machine. The ranks must agree, and every range must be
// measured.
TEST(tune, gives_all_ranks_one_table) {
  blink::tuning_options options;
  options.last_bytes = 1 << 14;
  options.calls = 3;
  options.chunks_from_bytes = 1 << 13;
  options.chunks = {
      .first_bytes = 1024, .smallest_bytes = 512, .largest_bytes = 4096, .decreases = 4};
  for (auto const kind : {collective::all_reduce, collective::all_gather}) {
    constexpr int ranks = 3;
    std::vector<blink::algorithm> algorithms{{"star", blink::star_schedule(ranks)}};
    if (kind == collective::all_reduce) {
      algorithms.push_back({"one-shot", blink::one_shot_schedule(ranks)});
      algorithms.push_back({"chain", blink::chain_schedule(ranks, 0)});
    }
    std::vector<blink::tuning_result> results(ranks);
    blink::thread_ranks threads(ranks);
    threads.run([&](auto& comm) {
      results[static_cast<std::size_t>(comm.rank())] = blink::tune(comm, kind, algorithms, options);
    });
    auto const& first = results[0];
    for (auto const& other : results) EXPECT_EQ(other.table, first.table);
    validate(first.table);
    EXPECT_EQ(first.table.algorithms, algorithms);
    std::size_t with_chunks = 0;
    for (auto const& sample : first.samples) {
      EXPECT_GT(sample.seconds, 0);
      if (sample.chunk_bytes == 0) continue;
      ++with_chunks;
      EXPECT_GE(sample.bytes, options.chunks_from_bytes);
      EXPECT_GE(sample.chunk_bytes, 512U);
      EXPECT_LE(sample.chunk_bytes, 4096U);
    }
    // The table has the fastest of its own samples, or one that is nearly as fast.
    for (auto const& range : first.table.ranges) {
      double chosen = 0, best = 0;
      for (auto const& sample : first.samples) {
        if (sample.bytes != std::max(range.from_bytes, options.first_bytes)) continue;
        if (best == 0 || sample.seconds < best) best = sample.seconds;
        if (sample.algorithm == range.algorithm && (chosen == 0 || sample.seconds < chosen)) {
          chosen = sample.seconds;
        }
      }
      EXPECT_LE(chosen, best * 1.06) << "from " << range.from_bytes;
    }
    EXPECT_EQ(with_chunks, 1U);  // 8 B to 8 KiB by fours: only 8192
    EXPECT_GE(first.samples.size(), 7U);
  }
}

TEST(tune, refuses_what_it_cannot_measure) {
  blink::thread_ranks threads(2);
  auto const refusal = [&](collective kind, std::vector<blink::algorithm> const& algorithms,
                           blink::tuning_options const& options) {
    return error_of([&] {
      threads.run([&](auto& comm) { (void)blink::tune(comm, kind, algorithms, options); });
    });
  };
  std::vector<blink::algorithm> const star{{"star", blink::star_schedule(2)}};
  EXPECT_NE(refusal(collective::barrier, star, {}).find("a barrier has one size"),
            std::string::npos);
  EXPECT_NE(refusal(collective::broadcast, star, {}).find("'star'"), std::string::npos);
  EXPECT_NE(refusal(collective::all_reduce, star, {.first_bytes = 0}).find("tuning_options"),
            std::string::npos);
}

}}  // namespace tuning_test
