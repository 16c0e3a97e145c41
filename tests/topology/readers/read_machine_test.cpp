// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/write_json.hpp>

#include "support/machine_contents.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_machine_test { namespace {

std::string fault_of(std::string const& name) {
  try {
    (void)read_machine(name);
    return "accepted";
  } catch (input_error const& fault) {
    return fault.what();
  }
}

TEST(read_machine, every_built_in_machine_is_valid_and_connected) {
  for (auto const& each : built_in_machines()) {
    auto name = std::string(each.name);
    SCOPED_TRACE(name);
    if (each.least_arguments == 1) name += ":4";
    if (each.least_arguments == 2) name += ":3x4";
    auto const machine = read_machine(name);
    EXPECT_EQ(machine.name.substr(0, each.name.size()), each.name);
    EXPECT_NO_THROW(validate(machine));
    EXPECT_NO_THROW(require_connected(machine));
  }
}

TEST(read_machine, arguments_are_read) {
  EXPECT_EQ(read_machine("dgx_a100").rank_positions().size(), 8U);
  EXPECT_EQ(read_machine("dgx_a100:2").rank_positions().size(), 16U);
  EXPECT_EQ(read_machine("torus:3x4x5").rank_positions().size(), 60U);
  EXPECT_EQ(read_machine("hypercube:5").links.size(), 160U);
  EXPECT_EQ(read_machine("fully_connected:5").links.size(), 20U);
}

TEST(read_machine, unknown_names_get_the_nearest_one_and_the_list) {
  auto const near = fault_of("dgx1w");
  EXPECT_NE(near.find("unknown machine 'dgx1w', did you mean dgx1"), std::string::npos) << near;
  EXPECT_NE(fault_of("torsu:4x4").find("did you mean torus:AxB[xC]?"), std::string::npos);
  for (auto const& each : built_in_machines()) {
    EXPECT_NE(near.find(each.name), std::string::npos) << each.name;
  }
  auto const far = fault_of("a supercomputer");
  EXPECT_EQ(far.find("did you mean"), std::string::npos) << far;
  EXPECT_NE(far.find("Expected a file, or one of host"), std::string::npos) << far;
}

/// A file with this text. The destructor removes it.
class file_with {
 public:
  file_with(std::string const& name, std::string const& text) : path_(::testing::TempDir() + name) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  file_with(file_with const&) = delete;
  file_with& operator=(file_with const&) = delete;
  ~file_with() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
};

TEST(read_machine, files_are_known_by_their_beginning_not_by_their_name) {
  auto const json = write_json(read_machine("torus:3x3"));
  for (auto const* name : {"misleading.xml", "no_ending", "machine.txt"}) {
    file_with const file(name, "\xef\xbb\xbf \n" + json);
    EXPECT_EQ(read_machine(file.path()).rank_positions().size(), 9U) << "after a mark of UTF-8";
    file_with const plain(name, "\n\n" + json);
    EXPECT_EQ(read_machine(plain.path()).rank_positions().size(), 9U) << name;
  }
  file_with const file("misleading.json", blink_test::text_of(BLINK_DATA_DIR "/dgx1v.xml"));
  EXPECT_EQ(read_machine(file.path()).rank_positions().size(), 8U);
}

// A sample of each format, with an ending that misleads.
TEST(read_machine, every_format_is_recognised) {
  struct sample {
    std::string file;
    std::size_t ranks, links;
  };
  std::vector<sample> const samples{
      {"blink.json", 2, 4},    {"nccl.xml", 2, 16},          {"rccl_partitions.xml", 3, 10},
      {"hwloc.xml", 2, 8},     {"nvidia_smi.txt", 3, 14},    {"nvidia_smi_status.txt", 2, 6},
      {"rocm_smi.txt", 4, 14}, {"rocm_bandwidth.txt", 3, 4}, {"xpu_smi.txt", 4, 22},
      {"taccl.json", 3, 4},    {"astra_sim.yml", 12, 60},    {"astra_sim.json", 12, 60},
      {"ns3.txt", 4, 8},       {"matrix.txt", 3, 6},
  };
  for (auto const& one : samples) {
    SCOPED_TRACE(one.file);
    auto const path = BLINK_TEST_DATA_DIR "/machines/" + one.file;
    file_with const copy("machine.log", detail::file_text(path, "a sample"));
    auto const machine = read_machine(copy.path());
    EXPECT_EQ(machine.rank_positions().size(), one.ranks);
    EXPECT_EQ(machine.links.size(), one.links);
  }
  for (char const* const name : {"cluster.conf", "cluster.yaml"}) {
    file_with const copy(
        "machine.log",
        detail::file_text(BLINK_TEST_DATA_DIR "/machines/" + std::string(name), "a sample"));
    EXPECT_NE(fault_of(copy.path()).find("the network of a cluster with 4 nodes"),
              std::string::npos);
  }
}

TEST(read_machine, what_looks_wrong_is_a_remark) {
  std::string const text =
      R"({"name": "lost", "unit": "GB/s",
          "nodes": [{"id": 0, "kind": "gpu", "label": "gpu0"}, {"id": 1, "kind": "gpu", "label": "gpu1"},
                    {"id": 2, "kind": "gpu", "label": "gpu2"}],
          "links": [{"src": 0, "dst": 1, "capacity": 25, "kind": "nvlink"},
                    {"src": 1, "dst": 0, "capacity": 25, "kind": "nvlink"},
                    {"src": 0, "dst": 2, "capacity": 1, "kind": "pcie"},
                    {"src": 2, "dst": 0, "capacity": 1, "kind": "pcie"}]})";
  file_with const file("lost.json", text);
  EXPECT_EQ(read_machine(file.path()).remarks,
            std::vector<std::string>{"gpu2: no nvlink, but 2 others have"});
}

TEST(read_machine, copies_of_a_file_are_joined) {
  std::string const file = BLINK_TEST_DATA_DIR "/machines/nccl.xml";
  EXPECT_EQ(read_machine(file + ":3").rank_positions().size(), 6U);
  EXPECT_EQ(read_machine(file + ":2@rails").rank_positions().size(), 4U);
  EXPECT_NO_THROW(require_connected(read_machine(file + ":2@fabric")));
  EXPECT_NE(fault_of(file + ":0").find("copies"), std::string::npos) << fault_of(file + ":0");
  EXPECT_NE(fault_of(file + ":2@ring").find("@ring"), std::string::npos);
  EXPECT_NE(fault_of("no_such.xml:2").find("no_such.xml"), std::string::npos);
}

TEST(read_machine, files_of_no_format_are_quoted) {
  auto const expected = ", expected " + names_of(machine_formats);
  EXPECT_NE(expected.find(", the table of xpu-smi topology -m, "), std::string::npos);
  EXPECT_TRUE(expected.ends_with(" or a matrix of rates in GB/s")) << expected;
  file_with const empty("empty.json", "");
  EXPECT_EQ(fault_of(empty.path()), empty.path() + ": the file is empty" + expected);
  file_with const junk("junk.xml", std::string("\0\1PK\3 binary", 11));
  EXPECT_EQ(fault_of(junk.path()), junk.path() + ": the file begins with '??PK? binar'" + expected);
  auto const folder = ::testing::TempDir();
  EXPECT_EQ(fault_of(folder), folder + ": is a folder" + expected);
}

TEST(read_machine, names_that_go_on_and_on_are_refused) {
  std::string name = "dgx2";
  for (int k = 0; k < 100'000; ++k) name += "+copying";
  EXPECT_NE(fault_of(name).find("expected a shorter name"), std::string::npos);
  EXPECT_EQ(fault_of("dgx2+copying+copying"), "accepted");
}

TEST(read_machine, the_host_is_one_switch_with_equal_ports_or_several_memories) {
  auto const machine = read_machine("host:12.5");
  EXPECT_EQ(machine.name, "host");
  EXPECT_NO_THROW(require_connected(machine));
  for (auto const& l : machine.links) {
    if (l.kind != link_kind::memory) continue;
    EXPECT_EQ(machine.in_units(l.capacity), rational(25, 2));
  }
  for (auto const* name : {"host:", "host:x", "host:-1", "host:0", "host:1e9"}) {
    EXPECT_NE(fault_of(name).find("expected host or host:GB/s"), std::string::npos) << name;
  }
}

TEST(read_machine, wrong_arguments_are_refused) {
  for (auto const* name :
       {"ring", "ring:", "ring:x", "ring:-3", "ring:4x4", "dgx1v:2", "dgx_a100:1x2", "torus:4",
        "torus:4x", "torus:4xx4", "torus:x4", "ring:99999999999", "mesh:2,3"}) {
    auto const found = fault_of(name);
    EXPECT_NE(found.find("expected"), std::string::npos) << name << ": " << found;
  }
  for (auto const* name :
       {"ring:0", "torus:0x4", "dgx_a100:0", "mi250:0", "hypercube:13", "ring:5000", "mesh:100x100",
        "dgx_h100:100000", "fully_connected:1000"}) {
    EXPECT_NE(fault_of(name), "accepted") << name;
  }
  EXPECT_EQ(fault_of("ring:1"), "accepted");
}

TEST(read_machine, files_by_their_ending) {
  EXPECT_TRUE(fault_of("/nowhere/m.json").starts_with("/nowhere/m.json: "));
  EXPECT_TRUE(fault_of("/nowhere/m.xml").starts_with("/nowhere/m.xml: "));
  auto const ticks = std::chrono::steady_clock::now().time_since_epoch().count();
  auto const path =
      std::filesystem::temp_directory_path() / ("blink_machine_" + std::to_string(ticks) + ".json");
  std::ofstream(path) << write_json(read_machine("mi250:2"));
  EXPECT_EQ(write_json(read_machine(path.string())), write_json(machines::mi250(2)));
  std::filesystem::remove(path);
}

/// Without PCIe the hand-written XML is the built-in machine.
TEST(read_machine, the_dgx1v_file_is_the_built_in_machine) {
  auto const file = read_machine(std::string(BLINK_DATA_DIR) + "/dgx1v.xml");
  EXPECT_EQ(fastest_connecting_kind(file), link_kind::nvlink);
  auto const nvlink = only_links(file, link_kind::nvlink);
  auto const built_in = read_machine("dgx1v");
  ASSERT_EQ(nvlink.nodes.size(), built_in.nodes.size());
  ASSERT_EQ(nvlink.links.size(), built_in.links.size());
  auto const between = [](topology const& machine, int a, int b) {
    rational sum;
    for (auto const& l : machine.links) {
      if (l.tail == machine.position_of(a) && l.head == machine.position_of(b)) {
        sum += machine.in_units(l.capacity);
      }
    }
    return sum;
  };
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) EXPECT_EQ(between(nvlink, a, b), between(built_in, a, b));
  }
}

}}  // namespace blink::read_machine_test
