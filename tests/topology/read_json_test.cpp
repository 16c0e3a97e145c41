// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/machines.hpp>
#include <blink/topology/read_json.hpp>
#include <blink/topology/write_json.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace blink {
namespace {

void expect_equal(topology const& a, topology const& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.unit, b.unit);
  EXPECT_EQ(a.steps_per_unit, b.steps_per_unit);
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    EXPECT_EQ(a.nodes[i].id, b.nodes[i].id);
    EXPECT_EQ(a.nodes[i].kind, b.nodes[i].kind);
    EXPECT_EQ(a.nodes[i].label, b.nodes[i].label);
    EXPECT_EQ(a.nodes[i].box, b.nodes[i].box);
  }
  ASSERT_EQ(a.links.size(), b.links.size());
  for (std::size_t i = 0; i < a.links.size(); ++i) {
    EXPECT_EQ(a.links[i].tail, b.links[i].tail);
    EXPECT_EQ(a.links[i].head, b.links[i].head);
    EXPECT_EQ(a.links[i].capacity, b.links[i].capacity);
    EXPECT_EQ(a.links[i].latency_seconds, b.links[i].latency_seconds);
    EXPECT_EQ(a.links[i].kind, b.links[i].kind);
  }
}

/// The text of the error, or "accepted".
std::string fault_of(std::string const& text) {
  try {
    validate(read_json(text, "m.json"));
    return "accepted";
  } catch (input_error const& fault) {
    return fault.what();
  }
}

TEST(ReadJson, WrittenMachinesComeBackEqual) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
    topology machine;
    machine.name = seed % 3 == 0 ? "" : "\"quoted\" \\ Zürich\n";
    machine.unit = seed % 2 == 0 ? "GB/s" : "links";
    constexpr std::int64_t steps[] = {1, 2, 3, 7, 10, 16, 80, 1000, 360360};
    machine.steps_per_unit = steps[below(9)];
    int const count = 1 + below(9);
    for (int i = 0; i < count; ++i) {
      auto const kind = i > 0 && below(3) == 0 ? node_kind::relay : node_kind::rank;
      machine.nodes.push_back({1000 - 7 * i, kind, "n" + std::to_string(below(4)), below(3) - 1});
    }
    for (int i = 0; count > 1 && i < 20; ++i) {
      int const tail = below(count);
      int const head = (tail + 1 + below(count - 1)) % count;
      machine.links.push_back({tail, head, 1 + below(100000), below(2) * 1.25e-6 / (1 + below(7)),
                               static_cast<link_kind>(below(8))});
    }
    auto const text = write_json(machine);
    expect_equal(read_json(text), machine);
    EXPECT_EQ(write_json(read_json(text)), text);
  }
}

TEST(ReadJson, DecimalsBecomeExactSteps) {
  auto const machine = read_json(R"({"name": "m", "unit": "GB/s",
    "nodes": [{"id": 4, "kind": "gpu"}, {"id": 7, "kind": "switch"}],
    "links": [{"src": 4, "dst": 7, "capacity": 12.5}, {"src": 7, "dst": 4, "capacity": 0.2},
              {"src": 7, "dst": 4, "capacity": 3, "latency": 2e-6, "kind": "pcie"},
              {"src": 7, "dst": 4, "capacity": 1.25e1}, {"src": 7, "dst": 4, "capacity": "1/3"}]})");
  EXPECT_EQ(machine.steps_per_unit, 30);
  std::vector<std::int64_t> capacities;
  for (auto const& l : machine.links) capacities.push_back(l.capacity);
  EXPECT_EQ(capacities, (std::vector<std::int64_t>{375, 6, 90, 375, 10}));
  EXPECT_EQ(machine.links[0].tail, 0);
  EXPECT_EQ(machine.links[0].head, 1);
  EXPECT_EQ(machine.links[2].latency_seconds, 2e-6);
  EXPECT_EQ(machine.links[2].kind, link_kind::pcie);
  EXPECT_EQ(machine.nodes[0].label, "gpu4");
  EXPECT_EQ(machine.nodes[0].box, 0);
  EXPECT_EQ(machine.nodes[1].label, "switch7");
  EXPECT_EQ(machine.nodes[1].box, -1);
}

std::string const start = R"({"name": "m", "unit": "GB/s",
"nodes": [{"id": 0, "kind": "gpu"},
          {"id": 1, "kind": "gpu"}],
"links": [)";

TEST(ReadJson, FaultsNameFileLineAndExpectation) {
  struct example {
    std::string text;
    std::string fault;
  };
  std::vector<example> const examples{
      {"", "m.json:1: malformed JSON: the file is empty, expected '{'"},
      {"[]", "m.json:1: the file: found a list, expected an object with nodes and links"},
      {"{\"nodes\":\n\n[}", "m.json:3: malformed JSON at '}', expected"},
      {start, "m.json:4: malformed JSON: the text ends too early"},
      {start + "]} x", "m.json:4: malformed JSON at "},
      {"{\"unit\": \"GB/s\", \"links\": []}", "m.json:1: the machine: 'nodes' is missing"},
      {"{\"unit\": \"GB/s\", \"nodes\": [], \"links\": []}",
       "m.json:1: nodes: found no GPU, expected at least one"},
      {start + "],\n\"bandwidth\": 1}", "m.json:5: unknown key 'bandwidth', expected one of name"},
      {start + "],\n\"gpus\": 3}", "m.json:5: gpus: found 3, expected 2, the number in the file"},
      {start + "],\n\"directed_links\": 1}", "m.json:5: directed_links: found 1, expected 0"},
      {start + "],\n\"switches\": -1}", "m.json:5: switches: found -1, expected an integer from 0"},
      {start + "],\n\"name\": \"n\"}", "m.json:5: key 'name' appears twice in one object"},
      {start + "\n{\"src\": 0,\n\"dst\": 2, \"capacity\": 1}]}",
       "m.json:6: links[0].dst: found 2, expected the id of a node"},
      {start + "\n{\"src\": 0,\n\"dst\": 0, \"capacity\": 1}]}",
       "m.json:6: links[0].dst: found the node at the other end, expected another node"},
      {start + "\n{\"src\": 0, \"dst\": 1}]}", "m.json:5: links[0]: 'capacity' is missing"},
      {start + "{\"src\": 0.5, \"dst\": 1}]}",
       "m.json:4: links[0].src: found 0.5, expected an int"},
      {start + "{\"src\": 0, \"dst\": 1, \"capacity\": 1, \"delay\": 3}]}",
       "m.json:4: links[0]: unknown key 'delay', expected one of src"},
      {start + "{\"src\": 0, \"dst\": 1, \"capacity\": 1, \"unit\": \"GiB/s\"}]}",
       "m.json:4: links[0].unit: found 'GiB/s', expected 'GB/s', the machine's"},
      {start + "{\"src\": 0, \"dst\": 1, \"capacity\": 1, \"kind\": \"rope\"}]}",
       "m.json:4: links[0].kind: "},
      {start + "{\"src\": 0, \"dst\": 1, \"capacity\": 1, \"latency\": -1}]}",
       "m.json:4: links[0].latency: found -1, expected seconds, 0 or more"},
      {"{\"nodes\": [{\"id\": 0, \"kind\": \"gpu\"}],\n\"links\": []}",
       "m.json:2: the machine: 'unit' is missing"},
      {"{\"unit\": \"GB/s\", \"nodes\": [{\"id\": 0, \"kind\": \"cpu\"}], \"links\": []}",
       "m.json:1: nodes[0].kind: found 'cpu', expected \"gpu\" or \"switch\""},
      {"{\"unit\": \"GB/s\", \"nodes\": [{\"id\": 0, \"kind\": \"gpu\"},\n{\"id\": 0, \"kind\": "
       "\"gpu\"}], \"links\": []}",
       "m.json:2: nodes[1].id: found 0 a second time"},
      {std::string(5000, '['), "m.json:1: more than 100 values inside each other"},
  };
  for (auto const& [text, fault] : examples) {
    auto const found = fault_of(text);
    EXPECT_TRUE(found.starts_with(fault)) << "found:    " << found << "\nexpected: " << fault;
    EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 0);
  }
  for (auto const* capacity : {"-1", "0", "0.0", "null", "\"many\"", "[1]", "1e400", "1e-12",
                               "0.0123456789", "99999999999999999999", "\"1/0\"", "true"}) {
    auto const found =
        fault_of(start + "{\"src\": 0, \"dst\": 1,\n\"capacity\": " + capacity + "}]}");
    EXPECT_TRUE(found.starts_with("m.json:5: ")) << capacity << ": " << found;
    EXPECT_NE(found.find("expected"), std::string::npos) << found;
  }
  EXPECT_EQ(fault_of(start + "]}"), "accepted");
}

TEST(ReadJson, CapacitiesThatOverflowTogetherAreRefused) {
  std::string const link = "{\"src\": 0, \"dst\": 1, \"capacity\": 3000000000000000000}";
  EXPECT_EQ(fault_of(start + link + "]}"), "accepted");
  EXPECT_NE(fault_of(start + link + "," + link + "]}").find("62 bits"), std::string::npos);
  auto const mixed = fault_of(start + link + ",\n{\"src\": 0, \"dst\": 1, \"capacity\": 0.001}]}");
  EXPECT_TRUE(mixed.starts_with("m.json:4: links[0].capacity: ")) << mixed;
}

/// Whatever happens to a file: a valid machine or an input_error.
TEST(ReadJson, DamagedFilesAreReadOrRefused) {
  auto const good = write_json(machines::dgx_a100(2));
  int refused = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const below = [&](std::size_t n) {
      return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
    };
    auto text = good.substr(0, 2000) + good.substr(good.size() - 2000);
    if (seed % 5 == 0) text = good;
    if (seed % 3 == 0) text.resize(below(text.size()));
    constexpr char letters[] = "{}[]\",:0123456789.-eE \n\\ugpx\0\x80\xff";
    for (std::size_t i = 0; i < 1 + seed % 4 && !text.empty(); ++i) {
      auto const at = below(text.size());
      if (seed % 2 == 0) {
        text[at] = letters[below(sizeof letters - 1)];
      } else {
        text.insert(text.begin() + static_cast<std::ptrdiff_t>(at),
                    letters[below(sizeof letters - 1)]);
      }
    }
    auto const outcome = fault_of(text);
    if (outcome != "accepted") {
      ++refused;
      EXPECT_TRUE(outcome.starts_with("m.json:")) << outcome;
      EXPECT_LT(outcome.size(), 400U);
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(ReadJson, MissingFilesAndFoldersAreRefused) {
  for (auto const& path : {std::string("/nowhere/m.json"), std::string("/tmp")}) {
    try {
      (void)read_json_file(path);
      ADD_FAILURE() << path << " was accepted";
    } catch (input_error const& fault) {
      EXPECT_TRUE(std::string(fault.what()).starts_with(path)) << fault.what();
    }
  }
}

TEST(ReadJson, ReadsTheSharedMachines) {
  auto const folder = std::filesystem::path(BLINK_SHARED_DIR) / "topologies";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << folder << " is not here";
  int count = 0;
  for (auto const& entry : std::filesystem::directory_iterator(folder)) {
    auto const name = entry.path().filename().string();
    if (name == "EXPECTED.json" || name == "DGX1_FRAGMENTS.json") {
      EXPECT_THROW((void)read_json_file(entry.path().string()), input_error);
      continue;
    }
    SCOPED_TRACE(name);
    auto const machine = read_json_file(entry.path().string());
    EXPECT_EQ(machine.name + ".json", name);
    EXPECT_EQ(machine.steps_per_unit, name.starts_with("ndv2") ? 2 : 1);
    expect_equal(read_json(write_json(machine)), machine);
    ++count;
  }
  EXPECT_GE(count, 60);
}

}  // namespace
}  // namespace blink
