// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/readers/read_json.hpp>
#include <blink/topology/write_json.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_json_test { namespace {

void expect_equal(topology const& a, topology const& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.unit, b.unit);
  EXPECT_EQ(a.steps_per_unit, b.steps_per_unit);
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    EXPECT_EQ(a.nodes[i].id, b.nodes[i].id);
    EXPECT_EQ(a.nodes[i].kind, b.nodes[i].kind);
    EXPECT_EQ(a.nodes[i].label, b.nodes[i].label);
    EXPECT_EQ(a.nodes[i].server, b.nodes[i].server);
    EXPECT_EQ(a.nodes[i].uuids, b.nodes[i].uuids);
    EXPECT_EQ(a.nodes[i].bus_id, b.nodes[i].bus_id);
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

std::string error_of(std::string const& text) {
  try {
    (void)read_json(text, "m.json");
  } catch (input_error const& fault) {
    return fault.what();
  }
  return "no error";
}

/// A machine of two GPUs. `link` is the content of its only link.
std::string pair_with(std::string const& link, std::string const& more = "") {
  return "{\"name\": \"pair\", \"unit\": \"GB/s\"" + more +
         ",\n \"nodes\": [{\"id\": 0, \"kind\": \"gpu\"}, {\"id\": 1, \"kind\": \"gpu\"}],\n"
         " \"links\": [\n  {\"src\": 0, \"dst\": 1, " +
         link + "}]}";
}
topology pair_of(std::string const& capacity) {
  return read_json(pair_with("\"capacity\": " + capacity));
}

TEST(read_json, reads_what_the_documentation_shows) {
  auto const machine = read_json(R"({"name": "pair", "unit": "GB/s",
    "nodes": [{"id": 0, "kind": "gpu", "label": "gpu0", "box": 3},
              {"id": 7, "kind": "gpu"}, {"id": 2, "kind": "switch"}],
    "links": [{"src": 0, "dst": 7, "capacity": 12.5, "latency": 1e-6, "kind": "nvlink"},
              {"src": 7, "dst": 2, "capacity": 20}]})");
  EXPECT_EQ(machine.name, "pair");
  EXPECT_EQ(machine.unit, "GB/s");
  EXPECT_EQ(machine.steps_per_unit, 2);
  ASSERT_EQ(machine.nodes.size(), 3U);
  EXPECT_EQ(machine.nodes[0].server, 3);
  EXPECT_EQ(machine.nodes[1].id, 7);
  EXPECT_EQ(machine.nodes[1].server, 0);
  EXPECT_EQ(machine.nodes[2].kind, node_kind::switch_node);
  EXPECT_EQ(machine.nodes[2].server, -1);
  ASSERT_EQ(machine.links.size(), 2U);
  EXPECT_EQ(machine.links[0].capacity, 25);
  EXPECT_EQ(machine.links[0].latency_seconds, 1e-6);
  EXPECT_EQ(machine.links[0].kind, link_kind::nvlink);
  EXPECT_EQ(machine.links[1].tail, 1);
  EXPECT_EQ(machine.links[1].head, 2);
  EXPECT_EQ(machine.links[1].capacity, 40);
  EXPECT_EQ(machine.links[1].kind, link_kind::unknown);
}

TEST(read_json, nodes_have_names_of_their_devices) {
  auto const with = [](std::string const& names) {
    return "{\"unit\": \"x\", \"links\": [], \"nodes\": [\n{\"id\": 0, \"kind\": \"gpu\", " +
           names + "}]}";
  };
  auto const machine =
      read_json(with(R"("uuids": ["MIG-1", "MIG-GPU-2/1/0"], "bus_id": "0000:06:00.0")"));
  EXPECT_EQ(machine.nodes[0].uuids, (std::vector<std::string>{"MIG-1", "MIG-GPU-2/1/0"}));
  EXPECT_EQ(machine.nodes[0].bus_id, "0000:06:00.0");
  EXPECT_NE(write_json(machine).find("\"uuids\": [\"MIG-1\", \"MIG-GPU-2/1/0\"], "
                                     "\"bus_id\": \"0000:06:00.0\"}"),
            std::string::npos);
  EXPECT_TRUE(read_json(with("\"uuids\": []")).nodes[0].uuids.empty());
  struct row {
    std::string names, fault;
  };
  for (auto const& [names, fault] : std::vector<row>{
           {"\"uuids\": \"GPU-1\"", "m.json:2: nodes[0].uuids: found 'GPU-1', expected a list"},
           {"\"uuids\": [\"GPU-1\", 2]", "m.json:2: nodes[0].uuids[1]: found 2, expected a UUID"},
           {"\"uuids\": [\"\"]", "m.json:2: nodes[0].uuids[0]: found '', expected a UUID"},
           {"\"bus_id\": 6",
            "m.json:2: nodes[0].bus_id: found 6, expected a bus id such as 0000:06:00.0"},
           {"\"bus_id\": \"\"", "m.json:2: nodes[0].bus_id: found ''"},
           {"\"uuid\": \"GPU-1\"",
            "m.json:2: nodes[0]: unknown key 'uuid', expected one of id, kind, label, server, box, "
            "copies, reduces, uuids, bus_id"}}) {
    EXPECT_EQ(error_of(with(names)).substr(0, fault.size()), fault);
  }
}

TEST(read_json, decimals_are_exact) {
  struct row {
    char const* text;
    std::int64_t capacity, steps;
  };
  for (auto const& each : std::vector<row>{{"25", 25, 1},
                                           {"25.0", 25, 1},
                                           {"25.000000000000", 25, 1},
                                           {"12.5", 25, 2},
                                           {"0.1", 1, 10},
                                           {"20.6", 103, 5},
                                           {"0.000000001", 1, 1000000000},
                                           {"1e3", 1000, 1},
                                           {"1.25E1", 25, 2},
                                           {"125e-1", 25, 2},
                                           {"\"25/3\"", 25, 3},
                                           {"\"12.5\"", 25, 2},
                                           {"4000000000000000000", 4000000000000000000, 1}}) {
    SCOPED_TRACE(each.text);
    auto const machine = pair_of(each.text);
    EXPECT_EQ(machine.links[0].capacity, each.capacity);
    EXPECT_EQ(machine.steps_per_unit, each.steps);
  }
}

TEST(read_json, refuses_capacities_that_are_none) {
  for (auto const* text :
       {"0", "0.0", "-1", "-0.5", "1e-10", "0.0000000001", "1e30", "99999999999999999999",
        "4611686018427387905", "\"\"", "\"fast\"", "\"1/0\"", "\"-1/2\"", "null", "true", "[]",
        "{}", "[25]", "1e100000000000"}) {
    SCOPED_TRACE(text);
    auto const fault = error_of(pair_with(std::string("\"capacity\": ") + text));
    EXPECT_NE(fault, "no error");
    EXPECT_EQ(fault.substr(0, 6), "m.json") << fault;
  }
  EXPECT_EQ(error_of(pair_with("\"capacity\": -1")),
            "m.json:4: links[0].capacity: found -1, expected a positive number of at most 9 "
            "decimals");
}

TEST(read_json, refuses_capacities_that_overflow_together) {
  std::string const large = "\"capacity\": 3000000000000000000";
  std::string const more = "}, {\"src\": 1, \"dst\": 0, ";
  EXPECT_EQ(error_of(pair_with(large)), "no error");
  EXPECT_NE(error_of(pair_with(large + more + large)).find("62 bits"), std::string::npos);
  EXPECT_EQ(error_of(pair_with(large + more + "\"capacity\": 0.001")).substr(0, 29),
            "m.json:4: links[0].capacity: ");
}

TEST(read_json, the_number_of_links_is_for_people) {
  auto const text = pair_with("\"capacity\": 1", ", \"directed_links\": 2");
  EXPECT_EQ(blink::read_json(text, "m.json").links.size(), 1U);  // one link was deleted by hand
}

TEST(read_json, says_where_content_is_wrong) {
  struct row {
    std::string text, fault;
  };
  std::string const link = "\"capacity\": 1";
  for (auto const& each : std::vector<row>{
           {"{\"unit\": \"x\",\n", "m.json:1: malformed JSON: the text ends too early"},
           {pair_with(link) + " x", "m.json:4: malformed JSON at "},
           {pair_with("\"latency\": 0"), "m.json:4: links[0]: 'capacity' is missing"},
           {"[]", "m.json:1: the file: found a list, expected an object with nodes and links"},
           {"{}", "m.json:1: the machine: 'nodes' is missing"},
           {pair_with(link + ", \"weight\": 3"),
            "m.json:4: links[0]: unknown key 'weight', expected one of src, dst, capacity, unit, "
            "latency, kind"},
           {pair_with(link, ", \"duplex\": true"), "m.json:1: unknown key 'duplex'"},
           {pair_with(link, ", \"gpus\": 3"),
            "m.json:1: gpus: found 3, expected 2, the number in the file"},
           {pair_with(link, ", \"switches\": 1"), "m.json:1: switches: found 1, expected 0"},
           {pair_with(link, ", \"directed_links\": \"2\""), "directed_links: found '2', expected"},
           {pair_with(link, ", \"name\": \"again\""), "key 'name' appears twice in one object"},
           {pair_with(link + ", \"kind\": \"rope\""),
            "m.json:4: links[0].kind: unknown link kind 'rope', expected one of unknown, nvlink"},
           {pair_with(link + ", \"unit\": \"MB/s\""),
            "m.json:4: links[0].unit: found 'MB/s', expected 'GB/s', the machine's"},
           {pair_with(link + ", \"latency\": -1e-6"),
            "links[0].latency: found -1e-6, expected seconds, 0 to 3600"},
           {pair_with(link + ", \"latency\": \"1 us\""), "links[0].latency: found '1 us'"},
           {pair_with(link, ", \"steps_per_unit\": 0"), "steps_per_unit: found 0"},
           {pair_with("\"capacity\": 12.5", ", \"steps_per_unit\": 3"),
            "steps_per_unit: found 3, expected a multiple of 2"},
           {"{\"unit\": \"x\", \"nodes\": [{\"id\": 0, \"kind\": \"switch\"}], \"links\": []}",
            "nodes: found no GPU, expected at least one"},
           {"{\"unit\": \"x\", \"nodes\": [{\"id\": 0, \"kind\": \"cpu\"}], \"links\": []}",
            "nodes[0].kind: found 'cpu', expected \"gpu\" or \"switch\""},
           {"{\"unit\": \"x\", \"nodes\": [{\"id\": -1, \"kind\": \"gpu\"}], \"links\": []}",
            "nodes[0].id: found -1, expected an integer from 0"},
           {"{\"unit\": \"x\", \"nodes\": [{\"id\": 1.5, \"kind\": \"gpu\"}], \"links\": []}",
            "nodes[0].id: found 1.5, expected an integer"},
           {"{\"unit\": \"x\", \"nodes\": [{\"id\": 0, \"kind\": \"gpu\"},\n"
            "{\"id\": 0, \"kind\": \"gpu\"}], \"links\": []}",
            "m.json:2: nodes[1].id: found 0 a second time"},
           {"{\"unit\": \"x\", \"nodes\": [{\"id\": 0, \"kind\": \"gpu\"}], \"links\": [\n"
            "{\"src\": 0, \"dst\": 5, \"capacity\": 1}]}",
            "m.json:2: links[0].dst: found 5, expected the id of a node"},
           {"{\"unit\": \"x\", \"nodes\": [{\"id\": 0, \"kind\": \"gpu\"}], \"links\": [\n"
            "{\"src\": 0, \"dst\": 0, \"capacity\": 1}]}",
            "m.json:2: links[0].dst: found the node at the other end, expected another node"},
           {"{\"nodes\": [{\"id\": 0, \"kind\": \"gpu\"}], \"links\": []}", "'unit' is missing"},
           {"{\"unit\": \"x\", \"nodes\": {}, \"links\": []}",
            "nodes: found an object, expected a list"}}) {
    SCOPED_TRACE(each.text);
    EXPECT_NE(error_of(each.text).find(each.fault), std::string::npos) << error_of(each.text);
  }
}

TEST(read_json, says_the_line_of_malformed_text) {
  EXPECT_EQ(error_of(""), "m.json:1: malformed JSON: the file is empty, expected '{'");
  EXPECT_EQ(error_of("{\n\n  \"nodes\": [1,\n ,]}").substr(0, 25), "m.json:4: malformed JSON ");
  EXPECT_EQ(error_of("{\n \"unit\": \"x\"\n").substr(0, 9), "m.json:2:");
  EXPECT_EQ(error_of("{\"a\": 01}").substr(0, 9), "m.json:1:");
  EXPECT_EQ(error_of("{\"name\": \"\xff\"}").substr(0, 9), "m.json:1:");
  EXPECT_EQ(error_of("{\"name\": 1e999}").substr(0, 9), "m.json:1:");
}

TEST(read_json, depth_and_size_are_bounded) {
  for (auto const* part : {"[", "{\"a\":", "[{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 300000; ++i) text += part;
    EXPECT_NE(error_of(text).find("values inside each other"), std::string::npos);
  }
  std::string keys = "{";
  for (int i = 0; i < 100000; ++i) keys += "\"k" + std::to_string(i) + "\": 1,";
  EXPECT_NE(error_of(keys).find("more than 100 keys in one object"), std::string::npos);
  input_limits tight;
  tight.bytes = 10;
  auto const path = std::filesystem::temp_directory_path() / "blink_json_test_large.json";
  std::ofstream(path) << pair_with("\"capacity\": 1");
  EXPECT_THROW((void)read_json_file(path.string(), tight), input_error);
  EXPECT_NO_THROW((void)read_json_file(path.string()));
  std::filesystem::remove(path);
  EXPECT_THROW((void)read_json_file(path.string()), input_error);
  EXPECT_THROW((void)read_json_file(std::filesystem::temp_directory_path().string()), input_error);
}

topology random_machine(std::mt19937& random) {
  auto const below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  std::string const messages = "ab \"\\\n\t/\xc3\xa9";  // the last letter has two bytes
  topology machine;
  machine.name = messages.substr(0, static_cast<std::size_t>(below(8)));
  machine.unit = below(2) == 0 ? "GB/s" : "\xc2\xb5";
  machine.steps_per_unit = std::vector<std::int64_t>{
      1, 2, 3, 7, 10, 60, 1000, 1000000000}[static_cast<std::size_t>(below(8))];
  int const count = 1 + below(9);
  for (int i = 0; i < count; ++i) {
    auto const kind = i == 0 || below(3) > 0 ? node_kind::rank : node_kind::switch_node;
    machine.nodes.push_back({i * (1 + below(2)) + 1000 * i, kind, messages, below(4) - 1});
    auto& n = machine.nodes.back();
    for (int k = below(3); k > 0; --k) n.uuids.push_back("MIG-" + messages + "/1/0");
    if (below(2) == 0) n.bus_id = "0000:0" + std::to_string(i) + ":00.0";
  }
  for (int i = 0; count > 1 && i < 3 * count; ++i) {
    int const tail = below(count);
    int const head = (tail + 1 + below(count - 1)) % count;
    auto const capacity = below(4) == 0
                              ? std::uniform_int_distribution<std::int64_t>(1, 1LL << 55)(random)
                              : 1 + below(1000);
    double const latency = below(2) == 0 ? 0 : std::uniform_real_distribution(0.0, 1e-5)(random);
    machine.links.push_back({tail, head, capacity, latency, static_cast<link_kind>(below(8))});
  }
  return machine;
}

TEST(write_json, round_trip_is_exact) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const machine = random_machine(random);
    auto const text = write_json(machine);
    expect_equal(read_json(text), machine);
    EXPECT_EQ(write_json(read_json(text)), text);
  }
  for (auto const* name : {"dgx1v", "dgx_a100:2", "mi250:2", "torus:3x4"}) {
    SCOPED_TRACE(name);
    auto const machine = *make_built_in_machine(name);
    expect_equal(read_json(write_json(machine)), machine);
  }
}

TEST(write_json, refuses_what_is_no_machine) {
  EXPECT_THROW((void)write_json(topology{}), input_error);
}

TEST(write_json, replaces_bytes_that_are_no_text) {
  auto machine = *make_built_in_machine("ring:3");
  machine.nodes[0].label = "\xff";
  EXPECT_EQ(read_json(write_json(machine)).nodes[0].label, "\xef\xbf\xbd");
}

TEST(read_json, published_descriptions_as_another_parser_sees_them) {
  std::filesystem::path const folder = BLINK_TEST_DATA_DIR "/topologies";
  int count = 0;
  for (auto const& entry : std::filesystem::directory_iterator(folder)) {
    auto const document = nlohmann::json::parse(std::ifstream(entry.path()));
    if (!document.contains("nodes")) {
      EXPECT_THROW((void)read_json_file(entry.path().string()), input_error);
      continue;
    }
    SCOPED_TRACE(entry.path().string());
    ++count;
    auto const machine = read_json_file(entry.path().string());
    ASSERT_EQ(machine.nodes.size(), document["nodes"].size());
    ASSERT_EQ(machine.links.size(), document["links"].size());
    EXPECT_EQ(machine.unit, document["unit"].get<std::string>());
    for (std::size_t i = 0; i < machine.links.size(); ++i) {
      auto const& l = machine.links[i];
      auto const& other = document["links"][i];
      EXPECT_EQ(machine.nodes[static_cast<std::size_t>(l.tail)].id, other["src"]);
      EXPECT_EQ(machine.nodes[static_cast<std::size_t>(l.head)].id, other["dst"]);
      EXPECT_EQ(machine.in_units(l.capacity).to_double(), other["capacity"].get<double>());
    }
    expect_equal(read_json(write_json(machine)), machine);
  }
  EXPECT_GT(count, 50);
}

/// Expects a valid machine, or an input_error that names the file.
void expect_machine_or_error(std::string const& text) {
  try {
    validate(read_json(text, "m.json"));
  } catch (input_error const& fault) {
    EXPECT_EQ(std::string(fault.what()).substr(0, 7), "m.json:") << text;
  } catch (std::exception const& other) {
    ADD_FAILURE() << other.what() << " for\n" << text;
  }
}

TEST(read_json, damaged_text_is_a_machine_or_an_error) {
  auto base = *make_built_in_machine("ring:3");
  base.steps_per_unit = 2;
  base.links[0].latency_seconds = 1e-6;
  base.links[1].kind = link_kind::pcie;
  base.nodes.push_back({9, node_kind::switch_node, "switch", -1});
  auto const text = write_json(base);
  for (std::size_t length = 0; length < text.size(); ++length) {
    expect_machine_or_error(text.substr(0, length));
  }
  std::string const alphabet = "{}[]\",:.-+eE0123456789 \n\\/abtrufnl\x01\x80\xff";
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const at = [&](std::size_t n) {
      return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
    };
    auto damaged = text;
    for (std::size_t changes = 1 + at(3); changes > 0; --changes) {
      auto const place = at(damaged.size());
      switch (at(4)) {
        case 0:
          damaged[place] = alphabet[at(alphabet.size())];
          break;
        case 1:
          damaged.erase(place, 1 + at(8));
          break;
        case 2:
          damaged.insert(place, 1, alphabet[at(alphabet.size())]);
          break;
        default:
          damaged.insert(at(damaged.size()), damaged.substr(place, 1 + at(40)));
      }
    }
    expect_machine_or_error(damaged);
  }
}

}}  // namespace blink::read_json_test
