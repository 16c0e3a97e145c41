// SPDX-License-Identifier: Apache-2.0

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/collectives/call_records.hpp>

#include "support/expect_error.hpp"
#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <latch>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace call_records_test { namespace {

using blink::collective;
using nlohmann::json;

std::string text_of(std::string const& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A file name of this process that is removed at the end.
struct temporary_file {
  explicit temporary_file(std::string const& kind)
      : pattern(testing::TempDir() + "blink_records_%p." + kind),
        name(testing::TempDir() + "blink_records_" + std::to_string(getpid()) + "." + kind) {
    std::remove(name.c_str());
  }
  ~temporary_file() { std::remove(name.c_str()); }
  std::string pattern, name;
};

void run_some_calls() {
  blink::communicator_options options;
  options.eager_payload = 0;
  blink::thread_ranks threads(3, options);
  auto& star = threads.prepare(blink::star_schedule(3));
  auto& gather = threads.prepare(blink::gather_schedule(3, 0));
  std::latch root_gathers(1);
  threads.run([&](auto& comm) {
    std::vector<float> in(300, 1.0F), out(900);
    for (int call = 0; call < 4; ++call) {
      blink::all_reduce(comm, star, in.data(), out.data(), 300, blink::sum{});
    }
    if (comm.rank() == 0) root_gathers.count_down();
    if (comm.rank() == 1) {
      root_gathers.wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    blink::gather(comm, gather, in.data(), out.data(), 300);
    blink::call_queue queue(comm);
    queue.start(collective::all_gather, star, static_cast<float const*>(in.data()), out.data(), 300)
        .wait();
  });
}

TEST(call_records, one_for_each_rank_and_call) {
  temporary_file records("jsonl"), trace("trace.json"), debug("txt");
  blink::record_options options;
  options.debug = blink::record_options::level::info;
  options.debug_file = debug.pattern;
  options.record_file = records.pattern;
  options.trace_file = trace.pattern;
  {
    blink::call_records all(options);
    auto* const before = blink::observe_calls(&all);
    run_some_calls();
    blink::observe_calls(before);
    EXPECT_EQ(all.sum_of(collective::all_reduce).calls, 12U);
    EXPECT_EQ(all.sum_of(collective::all_gather).calls, 3U);
    auto const gathers = all.sum_of(collective::gather);
    EXPECT_EQ(gathers.calls, 3U);
    EXPECT_EQ(gathers.failures, 0U);
    EXPECT_EQ(gathers.sent_bytes, 2 * 300 * sizeof(float));  // the root's own block stays
    // The root waited for the late rank, unless a busy machine delayed it as long.
    EXPECT_GT(gathers.for_peers, 0.01);
    EXPECT_NEAR(gathers.seconds,
                gathers.for_peers + gathers.to_receive + gathers.to_send + gathers.moving, 1e-6);
    EXPECT_NE(all.stall_report().find("gather"), std::string::npos);
  }
  std::ifstream lines(records.name);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    auto const event = json::parse(line);
    EXPECT_TRUE(event["ok"].get<bool>());
    EXPECT_EQ(event["ranks"], 3);
    EXPECT_EQ(event["count"], 300);
    EXPECT_EQ(event["way"], "trees");
    EXPECT_NE(event["types"].get<std::string>().find("float"), std::string::npos);
    EXPECT_GE(event["us"].get<double>(), event["waited_for_peers_us"].get<double>());
  }
  EXPECT_EQ(count, 18U);
  auto text = text_of(trace.name);
  ASSERT_GT(text.size(), 2U);
  auto const events = json::parse(text.substr(0, text.size() - 2) + "]");
  ASSERT_EQ(events.size(), 18U);
  EXPECT_EQ(events[0]["ph"], "X");
  EXPECT_EQ(events[0]["args"]["element_bytes"], 4);
  EXPECT_NE(text_of(debug.name).find("rank 2 of 3, all_reduce of 300 elements of 4 bytes"),
            std::string::npos);
}

/// A star of each rank in which each pair of ranks has a link of its own in each direction.
blink::schedule star_on_links(int ranks) {
  auto result = blink::star_schedule(ranks);
  auto const number = [&](int from, int to) { return from * ranks + to; };
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      result.link_bytes_per_second.push_back(1e12);
      result.link_names.push_back("wire " + std::to_string(from) + "-" + std::to_string(to));
    }
  }
  for (auto& tree : result.trees) {
    tree.reduce_route.assign(static_cast<std::size_t>(ranks), {});
    tree.broadcast_route = tree.reduce_route;
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == tree.root) continue;
      tree.reduce_route.set(static_cast<std::size_t>(rank), {number(rank, tree.root)});
      tree.broadcast_route.set(static_cast<std::size_t>(rank), {number(tree.root, rank)});
    }
  }
  return result;
}

TEST(call_records, have_the_bytes_to_each_peer_and_on_each_link) {
  temporary_file records("links.jsonl");
  blink::record_options options;
  options.record_file = records.pattern;
  constexpr int ranks = 3;
  blink::communicator_options without;
  without.eager_payload = 0;
  blink::basic_thread_ranks<blink::shaped_transport> threads(ranks, without);
  auto const source = star_on_links(ranks);
  std::vector<std::uint64_t> counted;
  {
    blink::call_records all(options);
    auto* const before = blink::observe_calls(&all);
    auto& trees = threads.prepare(source);
    threads.run([&](auto& comm) {
      std::vector<float> in(1000, 1.0F), out(3000);
      blink::all_reduce(comm, trees, in.data(), out.data(), 1000, blink::sum{});
      blink::all_gather(comm, trees, in.data(), out.data(), 500);
    });
    blink::observe_calls(before);
    counted = trees.link_bytes();
  }
  std::vector<std::uint64_t> recorded(counted.size(), 0);
  std::ifstream lines(records.name);
  for (std::string line; std::getline(lines, line);) {
    auto const event = json::parse(line);
    std::uint64_t to_peers = 0, on_links = 0;
    for (auto const& to : event["to_peers"]) {
      EXPECT_NE(to[0], event["rank"]);
      to_peers += to[1].get<std::uint64_t>();
    }
    for (auto const& on : event["on_links"]) {
      auto const link = on[0].get<std::size_t>();
      EXPECT_EQ(on[1], source.link_names[link]);
      EXPECT_EQ(on[2].get<double>(), 1e12);
      recorded[link] += on[3].get<std::uint64_t>();
      on_links += on[3].get<std::uint64_t>();
    }
    EXPECT_EQ(to_peers, event["sent_bytes"].get<std::uint64_t>());
    EXPECT_EQ(on_links, to_peers);  // one link between two ranks
    EXPECT_FALSE(event["host"].get<std::string>().empty());
  }
  EXPECT_EQ(recorded, counted);
}

TEST(call_records, files_that_block_or_fail_do_not_stop_a_rank) {
  temporary_file pipe("pipe"), full("full");
  ASSERT_EQ(mkfifo(pipe.name.c_str(), 0600), 0);
  blink::record_options options;
  options.record_file = pipe.pattern;
  EXPECT_ERROR(blink::call_records{options}, "cannot be opened for writing");  // without a reader
  int const reader = open(pipe.name.c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_ERROR(blink::call_records{options}, "is a pipe");
  close(reader);
  options.record_file = "/dev/full";
  testing::internal::CaptureStderr();
  {
    blink::call_records all(options);
    auto* const before = blink::observe_calls(&all);
    run_some_calls();
    blink::observe_calls(before);
    EXPECT_EQ(all.sum_of(collective::all_reduce).calls, 12U);
  }
  auto const text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text, "blink: records of calls cannot be written: No space left on device\n");
}

/// Keeps the reported calls, by collective and rank.
struct kept_events final : blink::call_observer {
  void ended(blink::call_event const& event) override {
    std::lock_guard const lock(mutex);
    of[{event.kind, event.rank}] = event;
  }
  std::mutex mutex;
  std::map<std::pair<collective, int>, blink::call_event> of;
};

/// From and to rank 1 of three, 8 elements, along stars.
std::map<std::pair<collective, int>, blink::call_event> rooted_calls(bool by_trees) {
  blink::communicator_options options;
  if (by_trees) options.eager_payload = 0;
  kept_events kept;
  auto* const before = blink::observe_calls(&kept);
  blink::thread_ranks(3, options).run([](auto& comm) {
    auto const star = blink::flat_schedule(3, 1);
    std::vector<float> in(24, 1.0F), out(24);
    blink::broadcast(comm, star, in.data(), out.data(), 8);
    blink::reduce(comm, star, in.data(), out.data(), 8, blink::sum{});
    blink::gather(comm, blink::gather_schedule(3, 1), in.data(), out.data(), 8);
    blink::scatter(comm, blink::scatter_schedule(3, 1), in.data(), out.data(), 8);
    if (comm.options().eager_payload == 0) return;
    blink::all_gather(comm, blink::star_schedule(3), in.data(), out.data(), 8);
    blink::barrier(comm, star);
  });
  blink::observe_calls(before);
  return kept.of;
}

TEST(call_records, what_is_eager_counts_as_along_a_star) {
  auto const trees = rooted_calls(true);
  auto const eager = rooted_calls(false);
  ASSERT_EQ(trees.size(), 4U * 3);
  ASSERT_EQ(eager.size(), 6U * 3);
  for (auto const& [of, event] : trees) {
    auto const& same = eager.at(of);
    EXPECT_FALSE(event.is_sent_with_call);
    EXPECT_TRUE(same.is_sent_with_call);
    EXPECT_EQ(same.sent_bytes, event.sent_bytes) << to_text(of.first) << ", rank " << of.second;
    EXPECT_EQ(same.received_bytes, event.received_bytes) << to_text(of.first);
  }
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(eager.at({collective::all_gather, rank}).sent_bytes, 2 * 8 * sizeof(float));
    EXPECT_EQ(eager.at({collective::all_gather, rank}).received_bytes, 2 * 8 * sizeof(float));
    EXPECT_EQ(eager.at({collective::barrier, rank}).sent_bytes, 0U);
  }
}

TEST(call_records, failures_are_reported_from_warn_on) {
  temporary_file debug("txt");
  blink::record_options options;
  options.debug = blink::record_options::level::warn;
  options.debug_file = debug.pattern;
  blink::call_records all(options);
  auto* const before = blink::observe_calls(&all);
  blink::communicator_options brief;
  brief.waits.deadline = std::chrono::milliseconds(1500);
  blink::thread_ranks threads(2, brief);
  threads.run([&](auto& comm) {
    float one = 1;
    blink::all_reduce(comm, blink::star_schedule(2), &one, &one, 1, blink::sum{});
    if (comm.rank() == 1) return;
    EXPECT_THROW(
        blink::broadcast(comm, blink::flat_schedule(2, 1), static_cast<float*>(nullptr), &one, 1),
        blink::collective_error);
  });
  blink::observe_calls(before);
  EXPECT_EQ(all.sum_of(collective::broadcast).failures, 1U);
  auto const text = text_of(debug.name);
  EXPECT_NE(text.find("broadcast"), std::string::npos) << text;
  EXPECT_NE(text.find("failed"), std::string::npos) << text;
  EXPECT_EQ(text.find("all_reduce"), std::string::npos) << text;
}

TEST(call_records, the_environment_is_read_with_care) {
  auto const with = [](char const* name, char const* value) {
    setenv(name, value, 1);
    struct restore {
      char const* name;
      ~restore() { unsetenv(name); }
    } const later{name};
    return blink::read_record_environment();
  };
  EXPECT_TRUE(blink::read_record_environment().writes_nothing());
  EXPECT_EQ(with("BLINK_DEBUG", "warn").debug, blink::record_options::level::warn);
  EXPECT_EQ(with("BLINK_DEBUG", "info").debug, blink::record_options::level::info);
  EXPECT_TRUE(with("BLINK_DEBUG", "none").writes_nothing());
  EXPECT_THROW((void)with("BLINK_DEBUG", "loud"), blink::input_error);
  EXPECT_THROW((void)with("BLINK_TRACE_FILE", ""), blink::input_error);
  EXPECT_EQ(with("BLINK_TRACE_FILE", "a.%p").trace_file, "a.%p");
  // A named file is written, unless the level is none.
  EXPECT_EQ(with("BLINK_DEBUG_FILE", "a").debug, blink::record_options::level::info);
  setenv("BLINK_DEBUG_FILE", "a", 1);
  EXPECT_EQ(with("BLINK_DEBUG", "warn").debug, blink::record_options::level::warn);
  EXPECT_TRUE(with("BLINK_DEBUG", "none").writes_nothing());
  unsetenv("BLINK_DEBUG_FILE");
  for (char const* const name : {"a.%z", "a.%", "%%%"}) {
    EXPECT_ERROR((void)with("BLINK_DEBUG_FILE", name),
                 "BLINK_DEBUG_FILE is '" + std::string(name) +
                     "', expected %p (the process), %h (the host) or %% (a percent sign)");
    blink::record_options unknown;
    unknown.record_file = name;
    EXPECT_ERROR(blink::call_records{unknown}, "expected %p");
  }
  EXPECT_EQ(blink::detail::record_file_name("%%a%%p", ""), "%a%p");
  blink::record_options nowhere;
  nowhere.record_file = "/no/such/folder/file";
  EXPECT_THROW(blink::call_records{nowhere}, blink::input_error);
}

}}  // namespace call_records_test
