// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/host.hpp>
#include <blink/topology/subset.hpp>

#include "support/fresh_folder.hpp"
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::host_test { namespace {

/// A folder like that of Linux, with one subfolder for each NUMA node.
class system_folder {
 public:
  void add(std::string const& name, std::string const& cores, std::string const& distance) const {
    std::filesystem::path const node = std::filesystem::path(path()) / name;
    std::filesystem::create_directories(node);
    std::ofstream(node / "cpulist") << cores << "\n";
    std::ofstream(node / "distance") << distance << "\n";
  }
  [[nodiscard]] std::string const& path() const { return folder_.name(); }

 private:
  blink_test::fresh_folder folder_;
};

host_options with_rate(rational rate, std::string folder) {
  host_options options;
  options.copy_rate = rate;
  options.system_folder = std::move(folder);
  return options;
}

TEST(host, ranks_are_the_cores_that_this_process_may_use) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  auto const machine = this_machine(with_rate(rational(25, 2), host_options{}.system_folder));
  auto const ranks = machine.rank_positions();
  EXPECT_EQ(static_cast<int>(ranks.size()), CPU_COUNT(&set));
  std::set<std::string> labels;
  for (int const rank : ranks) {
    labels.insert(machine.nodes[static_cast<std::size_t>(rank)].label);
  }
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    EXPECT_EQ(CPU_ISSET(core, &set) != 0, labels.contains("core" + std::to_string(core))) << core;
  }
  EXPECT_NO_THROW(validate(machine));
  EXPECT_NO_THROW(require_connected(machine));
  for (auto const& l : machine.links) {
    if (l.kind == link_kind::memory) {
      EXPECT_EQ(machine.in_units(l.capacity), rational(25, 2));
    }
  }
}

TEST(host, far_memories_are_slower_by_their_distance) {
  auto const cores = detail::usable_cores();
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  system_folder const folder;
  folder.add("node0", std::to_string(cores[0]), "10 21");
  std::string rest;
  for (std::size_t i = 1; i < cores.size(); ++i) {
    rest += (i > 1 ? "," : "") + std::to_string(cores[i]);
  }
  folder.add("node2", rest, "21 10");
  folder.add("node_of_nothing", "0", "10");
  auto const machine = this_machine(with_rate(rational(10), folder.path()));
  ASSERT_EQ(machine.nodes.size(), cores.size() + 2);
  int far = 0;
  for (auto const& l : machine.links) {
    if (l.kind != link_kind::socket) continue;
    ++far;
    EXPECT_EQ(l.capacity, 47);  // floor of 100 steps * 10 / 21
  }
  EXPECT_EQ(far, 2);
  EXPECT_NO_THROW(require_connected(machine));
}

TEST(host, one_memory_where_linux_says_nothing) {
  auto const machine = this_machine(with_rate(rational(7), "/nowhere"));
  EXPECT_EQ(machine.nodes.size(), machine.rank_positions().size() + 1);
  EXPECT_EQ(machine.nodes.back().label, "memory0");
}

TEST(host, measures_within_its_time) {
  host_options options;
  options.probe_seconds = 0.02;
  options.probe_bytes = 1 << 20;
  auto const start = std::chrono::steady_clock::now();
  auto const machine = this_machine(options);
  auto const seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 2);  // far above the probe's time, because the machine may be busy
  EXPECT_GE(machine.links.front().capacity, 1);
}

TEST(host, refuses_a_rate_of_nothing) {
  EXPECT_THROW((void)this_machine(with_rate(rational(1, 100), "/nowhere")), precondition_error);
  EXPECT_THROW((void)this_machine(with_rate(rational(-3), "/nowhere")), precondition_error);
}

TEST(host, core_lists) {
  EXPECT_EQ(detail::read_core_list("0-2,5\n"), (std::set<int>{0, 1, 2, 5}));
  EXPECT_EQ(detail::read_core_list(""), std::set<int>{});
  for (auto const* text : {"x", "1-", "3-1", "1,", ",1", "-1", "1 2", "0-99999999"}) {
    EXPECT_EQ(detail::read_core_list(text), std::nullopt) << text;
  }
}

}}  // namespace blink::host_test
