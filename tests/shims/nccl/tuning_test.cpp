// SPDX-License-Identifier: Apache-2.0
// Trees of tuning tables that the user names: the calls that use them, equal results with and
// without them, and errors for files that are invalid or differ between processes.

#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/schedule/tuning_file.hpp>
#include <blink/schedule/tuning_table.hpp>
#include <blink/transports/cuda/ranks/protocol_schedules.hpp>

#include "forked_program.hpp"
#include "random_call.hpp"
#include "support/random_schedules.hpp"
#include <routes.hpp>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

// The sources of a folder may be compiled as one.
namespace tuning_test { namespace {

using namespace blink_test;

/// A file of tables that BLINK_TUNING names during the life of this object.
class tuning_files {
 public:
  explicit tuning_files(std::string const& text) {
    path_ = ::testing::TempDir() + "blink_methods_" + std::to_string(getpid()) + ".json";
    std::ofstream(path_) << text;
    setenv("BLINK_TUNING", path_.c_str(), 1);
  }
  explicit tuning_files(std::vector<blink::tuning_table> const& tables)
      : tuning_files(blink::write_tuning(tables)) {}
  tuning_files(tuning_files const&) = delete;
  tuning_files& operator=(tuning_files const&) = delete;
  ~tuning_files() {
    unsetenv("BLINK_TUNING");
    std::remove(path_.c_str());
  }
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
};

/// Two random schedules for each collective, with a random size from which the second one is used.
std::vector<blink::tuning_table> random_tables(std::mt19937_64& random, int ranks) {
  std::vector<blink::tuning_table> result;
  for (auto const kind : {blink::collective::all_reduce, blink::collective::reduce,
                          blink::collective::broadcast, blink::collective::reduce_scatter,
                          blink::collective::all_gather, blink::collective::all_to_all}) {
    blink::tuning_table table{kind, {}, {}};
    auto const first = random_schedule(random, ranks, kind);
    table.algorithms.push_back({"first", first});
    auto second = random_schedule(random, ranks, kind);
    while (blink::detail::end_points(second, kind) != blink::detail::end_points(first, kind)) {
      second = random_schedule(random, ranks, kind);
    }
    table.algorithms.push_back({"second", second});
    table.ranges = {{0, 0, 0}, {100, 1, 64}, {1000, 0, 128}};
    blink::validate(table);
    result.push_back(std::move(table));
  }
  return result;
}

TEST(nccl_tuning, random_tables_do_not_change_results) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::size_t const ranks = 2 + random() % 4;
    tuning_files const files(random_tables(random, static_cast<int>(ranks)));
    std::vector<int> on;
    for (std::size_t rank = 0; rank < ranks; ++rank) on.push_back(static_cast<int>(random() % 4));
    program const all(on);
    for (int round = 0; round < 8; ++round) {
      auto const kind = static_cast<what>(random() % 9);
      one_call<std::int32_t> const call(ranks, 0, on, kind, data_type::int32, random);
      std::vector<operation> own(ranks);
      std::int32_t one = 1;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        one = factor_of(rank);
        EXPECT_EQ(ncclRedOpCreatePreMulSum(&own[rank], &one, data_type::int32,
                                           residence::host_immediate, all.comm[rank]),
                  result::success);
      }
      EXPECT_EQ(all.by_one_thread(
                    [&](std::size_t rank) { return call.make(rank, all.comm[rank], own[rank]); }),
                result::success)
          << ncclGetLastError(nullptr);
      all.synchronize();
      EXPECT_EQ(call.wrong(), "");
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(ncclRedOpDestroy(own[rank], all.comm[rank]), result::success);
      }
    }
  }
}

using all_ranks = ranks_t<emulated_platform, transport_here>;

TEST(nccl_tuning, calls_take_the_table_of_their_ranks_root_and_size) {
  auto options = blink::device_options{};
  options.devices = {0, 1, 2};
  all_ranks all(devices(), options);
  blink::schedule const chain = blink::chain_schedule(3, 0), star = blink::star_schedule(3);
  blink::tuning_table sums{blink::collective::all_reduce,
                           {{"chain", chain}, {"star", star}},
                           {{0, 0, 0}, {4096, 1, 256}}};
  auto const from_one =
      blink::only_algorithm(blink::collective::broadcast, "chain", blink::chain_schedule(3, 1));
  auto const of_two =
      blink::only_algorithm(blink::collective::all_gather, "of two ranks", blink::star_schedule(2));
  auto of_hosts =
      blink::only_algorithm(blink::collective::reduce_scatter, "of hosts",
                            blink::default_schedule(blink::collective::reduce_scatter, 3));
  of_hosts.ranges[0].chunk_bytes = 512;
  of_hosts.transport = "direct memory";
  routes<emulated_platform, transport_here> ways(all);
  ways.take({sums, from_one, of_two, of_hosts});
  auto const expect_way = [&](blink::collective kind, int root, std::size_t bytes,
                              blink::schedule const& trees, std::size_t chunk_bytes) {
    EXPECT_FALSE(ways.knows(kind, root, bytes));
    auto const taken = ways.along(kind, root, bytes);
    EXPECT_TRUE(ways.knows(kind, root, bytes));
    EXPECT_EQ(taken.chunk_bytes, chunk_bytes);
    EXPECT_EQ(taken.prepared, &all.prepare(trees));
  };
  int const ways_of_one = emulated_platform::ways(1);
  expect_way(blink::collective::all_reduce, 0, 4095, blink::replicate_trees(chain, ways_of_one), 0);
  expect_way(blink::collective::all_reduce, 0, 4096, star, 256);
  EXPECT_TRUE(ways.knows(blink::collective::all_reduce, 0, 1));
  expect_way(blink::collective::broadcast, 1, 1,
             blink::replicate_trees(blink::chain_schedule(3, 1), ways_of_one), 0);
  // No table: another root, another number of ranks, another transport.
  for (auto const kind : {blink::collective::all_gather, blink::collective::reduce_scatter}) {
    expect_way(kind, 0, 1, blink::default_schedule(kind, 3, 0), 0);
  }
  expect_way(blink::collective::broadcast, 0, 1,
             blink::default_schedule(blink::collective::broadcast, 3, 0), 0);
}

TEST(nccl_tuning, two_tables_for_the_same_calls_are_refused) {
  auto const sums = [](blink::schedule const& trees) {
    return blink::only_algorithm(blink::collective::all_reduce, "one", trees);
  };
  tuning_files const files({sums(blink::star_schedule(2)), sums(blink::chain_schedule(2, 0)),
                            sums(blink::star_schedule(3))});
  std::vector<communicator*> comm(2);
  std::vector<int> const on{0, 1};
  expect_refused(ncclCommInitAll(comm.data(), 2, on.data()), result::invalid_usage,
                 "BLINK_TUNING: two tables for all_reduce of 2 ranks over CUDA, expected one");
  program const three({0, 1, 2});
}

TEST(nccl_tuning, files_that_are_wrong_are_named) {
  std::vector<communicator*> comm(2);
  std::vector<int> const on{0, 1};
  auto const expect_said = [&](std::string const& text, std::string const& part) {
    tuning_files const files(text);
    expect_refused(ncclCommInitAll(comm.data(), 2, on.data()), result::invalid_usage,
                   "BLINK_TUNING: " + files.path() + part);
  };
  expect_said("{", "");
  expect_said("{\"blink_methods\": 1, \"tables\": 3}", ": tables: found 3, expected a list");
  auto unequal = blink::star_schedule(2);
  unequal.shares = {1, 2};
  expect_said(blink::write_tuning(
                  {blink::only_algorithm(blink::collective::all_gather, "uneven", unequal)}),
              ": algorithms of all_gather, 'uneven' has shares, expected none");
  setenv("BLINK_TUNING", "/no/such/file", 1);
  expect_refused(ncclCommInitAll(comm.data(), 2, on.data()), result::invalid_usage,
                 "/no/such/file");
  unsetenv("BLINK_TUNING");
}

/// The result of two sums of 100 floats, one after the other, in two processes. Each process first
/// runs `given`.
template <class Given>
std::vector<std::string> sums_after(Given const& given) {
  return run_processes(2, [&](own_process& mine) -> std::string {
    [[maybe_unused]] auto const files = given(mine.number());
    auto ranks = ranks_of(mine, {1, 1});
    if (ranks.begin(mine.new_id()) != result::success) return ncclGetLastError(nullptr);
    elements<float> const data(0, 100, 1.0F);
    for (int turn = 0; turn < 2; ++turn) {
      auto const code = ncclAllReduce(data.data(), data.data(), 100, data_type::float32,
                                      operation::sum, ranks.comm[0], program::stream(ranks.first));
      if (code != result::success) return ncclGetLastError(ranks.comm[0]);
    }
    ranks.synchronize();
    std::string const sum = std::to_string(data[99]);
    return ranks.destroy() == result::success ? sum : "not destroyed";
  });
}
std::string const table_of_two = blink::write_tuning(
    {blink::only_algorithm(blink::collective::all_reduce, "chain", blink::chain_schedule(2, 1))});

TEST(nccl_tuning, processes_with_the_same_tables_go_the_same_way) {
  auto const texts = sums_after([](int) { return std::make_unique<tuning_files>(table_of_two); });
  for (auto const& text : texts) EXPECT_EQ(text, "4.000000");
}

TEST(nccl_tuning, processes_with_other_tables_are_refused) {
  auto const texts = sums_after([](int process) {
    return process == 0 ? std::make_unique<tuning_files>(table_of_two) : nullptr;
  });
  for (auto const& text : texts) {
    EXPECT_NE(text.find("BLINK_TUNING: values differ between processes"), std::string::npos)
        << text;
  }
}

TEST(nccl_tuning, a_file_that_is_wrong_in_one_process_is_named_in_all) {
  auto const texts = sums_after(
      [](int process) { return process == 0 ? 0 : setenv("BLINK_TUNING", "/no/such/file", 1); });
  for (auto const& text : texts) {
    EXPECT_NE(text.find("BLINK_TUNING: "), std::string::npos) << text;
    EXPECT_NE(text.find("/no/such/file"), std::string::npos) << text;
  }
}

}}  // namespace tuning_test
