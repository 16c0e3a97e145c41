// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/canonical.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/copying_switches.hpp>
#include <blink/topology/join_machines.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/readers/read_nccl_xml.hpp>
#include <blink/topology/readers/read_smi_matrix.hpp>
#include <blink/topology/subset.hpp>

#include "support/expect_error.hpp"
#include "support/fresh_folder.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::join_machines_test { namespace {

using blink_test::error_of;

int add_node(topology& machine, node_kind kind, std::string label, int server = 0) {
  auto const id = static_cast<int>(machine.nodes.size());
  machine.nodes.push_back({id, kind, std::move(label), server});
  return id;
}
void add_links(topology& machine, int a, int b, std::int64_t capacity, link_kind kind) {
  machine.links.push_back({a, b, capacity, 0, kind});
  machine.links.push_back({b, a, capacity, 0, kind});
}

// GPUs behind NVSwitch with 300 GB/s. Each two share a PCIe switch with a NIC of 25 GB/s.
topology box(int gpus = 4, link_kind nic_kind = link_kind::network) {
  topology machine;
  machine.name = "box";
  for (int i = 0; i < gpus; ++i) add_node(machine, node_kind::rank, "gpu" + std::to_string(i));
  int const nvswitch = add_node(machine, node_kind::switch_node, "nvswitch");
  for (int i = 0; i < gpus; ++i) add_links(machine, i, nvswitch, 300, link_kind::nvlink);
  for (int i = 0; 2 * i < gpus; ++i) {
    auto const number = std::to_string(i);
    int const pcie = add_node(machine, node_kind::switch_node, "pcie" + number);
    int const nic = add_node(machine, node_kind::switch_node, "mlx5_" + number);
    for (int g = 2 * i; g < std::min(gpus, 2 * i + 2); ++g) {
      add_links(machine, g, pcie, 32, link_kind::pcie);
    }
    add_links(machine, pcie, nic, 25, nic_kind);
  }
  return machine;
}

topology joined(std::vector<topology> const& servers, server_network network,
                nic_options const& nics = {}) {
  return join(servers, {network, nics});
}

// Label and server of each node.
std::vector<std::pair<std::string, int>> places(topology const& machine) {
  std::vector<std::pair<std::string, int>> result;
  for (auto const& n : machine.nodes) result.emplace_back(n.label, n.server);
  return result;
}

// Links from nodes to switches of the network: tail, label of the head, rate.
std::vector<std::tuple<int, std::string, rational>> links_out(topology const& machine) {
  std::vector<std::tuple<int, std::string, rational>> result;
  for (auto const& l : machine.links) {
    auto const& head = machine.nodes[static_cast<std::size_t>(l.head)];
    auto const& tail = machine.nodes[static_cast<std::size_t>(l.tail)];
    if (!head.label.starts_with("network") || tail.server < 0) continue;
    result.emplace_back(l.tail, head.label, machine.in_units(l.capacity));
    EXPECT_EQ(l.kind, link_kind::network);
    EXPECT_TRUE(std::ranges::any_of(machine.links, [&](link const& back) {
      return back.tail == l.head && back.head == l.tail && back.capacity == l.capacity;
    }));
  }
  return result;
}

bool has_remark(topology const& machine, std::string const& part) {
  return std::ranges::any_of(machine.remarks, [&](std::string const& text) {
    return text.find(part) != std::string::npos;
  });
}

plan sound_plan(topology const& machine, collective kind) {
  auto result = make_plan(machine, {kind, {}, planned_by::exact});
  EXPECT_EQ(check_plan(machine, result).fault.value_or(""), "") << machine.name;
  return result;
}

TEST(join_machines, a_fabric_is_one_switch_with_all_nics) {
  auto const machine = joined({box(), box()}, server_network::fabric);
  EXPECT_EQ(machine.name, "box+box");
  using place = std::pair<std::string, int>;
  EXPECT_EQ(places(machine), (std::vector<place>{{"gpu0", 0},
                                                 {"gpu1", 0},
                                                 {"gpu2", 0},
                                                 {"gpu3", 0},
                                                 {"gpu0", 1},
                                                 {"gpu1", 1},
                                                 {"gpu2", 1},
                                                 {"gpu3", 1},
                                                 {"nvswitch", 0},
                                                 {"pcie0", 0},
                                                 {"mlx5_0", 0},
                                                 {"pcie1", 0},
                                                 {"mlx5_1", 0},
                                                 {"nvswitch", 1},
                                                 {"pcie0", 1},
                                                 {"mlx5_0", 1},
                                                 {"pcie1", 1},
                                                 {"mlx5_1", 1},
                                                 {"network", -1}}));
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    EXPECT_EQ(machine.nodes[i].id, static_cast<int>(i));
    EXPECT_EQ(machine.nodes[i].kind, i < 8 ? node_kind::rank : node_kind::switch_node);
  }
  using out = std::tuple<int, std::string, rational>;
  EXPECT_EQ(
      links_out(machine),
      (std::vector<out>{
          {10, "network", 25}, {12, "network", 25}, {15, "network", 25}, {17, "network", 25}}));
  EXPECT_EQ(machine.links.size(), 2 * box().links.size() + 8);
  EXPECT_TRUE(has_remark(machine, "the NICs of 2 servers meet at one non-blocking switch"));
  EXPECT_EQ(links_out(join({box(), box()})), links_out(machine));
}

TEST(join_machines, rails_join_nics_of_one_number) {
  auto const machine = joined({box(), box(), box()}, server_network::rails);
  ASSERT_EQ(machine.nodes.size(), 3 * 9U + 2);
  EXPECT_EQ(machine.nodes[27].label, "network0");
  EXPECT_EQ(machine.nodes[28].label, "network1");
  using out = std::tuple<int, std::string, rational>;
  EXPECT_EQ(links_out(machine), (std::vector<out>{{14, "network0", 25},
                                                  {16, "network1", 25},
                                                  {19, "network0", 25},
                                                  {21, "network1", 25},
                                                  {24, "network0", 25},
                                                  {26, "network1", 25}}));
  // A NIC that would be alone at its switch is not used.
  auto const uneven = joined({box(2), box(4)}, server_network::rails);
  EXPECT_EQ(links_out(uneven).size(), 2U);
  EXPECT_TRUE(has_remark(uneven, "1 server has more NICs, which meet no other"));
}

TEST(join_machines, networks_of_machines_become_one) {
  auto const same = [](topology const& a, topology const& b) {
    return canonical(a).key == canonical(b).key;
  };
  using machines::dgx_a100, machines::dgx_h100, machines::mi250;
  auto const rails = join({dgx_a100(2), dgx_a100(2)});
  EXPECT_TRUE(same(rails, dgx_a100(4)));
  EXPECT_TRUE(same(join({dgx_h100(2), dgx_h100(3)}), dgx_h100(5)));
  EXPECT_TRUE(same(join({mi250(2), mi250(2)}), mi250(4)));
  EXPECT_TRUE(same(join({dgx_a100(2)}), dgx_a100(2)));
  EXPECT_FALSE(same(joined({dgx_a100(2), dgx_a100(2)}, server_network::fabric), dgx_a100(4)));
  std::set<int> servers;
  for (int i = 0; i < 32; ++i) servers.insert(rails.nodes[static_cast<std::size_t>(i)].server);
  EXPECT_EQ(servers, (std::set<int>{0, 1, 2, 3}));
  EXPECT_ERROR((void)joined({dgx_a100(2), dgx_h100(2)}, server_network::rails),
               "joining machines by rails: their own networks have 1 and 2 switches, expected "
               "equal numbers");
  // One machine brings the network, the other one its NICs.
  auto const mixed = join({dgx_h100(2), box()});
  EXPECT_EQ(links_out(mixed).size(), 18U);
}

TEST(join_machines, joint_switches_copy_if_all_do) {
  auto const copying = with_copying_switches(machines::dgx_h100(2), "network");
  EXPECT_TRUE(join({copying, copying}).nodes.back().copies);
  EXPECT_TRUE(join({copying, copying}).nodes.back().reduces);
  EXPECT_FALSE(join({copying, machines::dgx_h100(2)}).nodes.back().copies);
  EXPECT_FALSE(join({machines::dgx_h100(2), copying}).nodes.back().reduces);
}

TEST(join_machines, each_direction_has_its_rate) {
  auto machine = box(2);
  for (auto& l : machine.links) {
    if (l.kind == link_kind::network && l.tail == 4)
      l.capacity = 10;  // out of the NIC, into the box
  }
  ASSERT_EQ(machine.nodes[4].label, "mlx5_0");
  auto const two = join({machine, machine});
  int const network = two.nodes.back().id;
  for (auto const& l : two.links) {
    EXPECT_TRUE(l.head != network || l.capacity == 25);
    EXPECT_TRUE(l.tail != network || l.capacity == 10);
  }
}

TEST(join_machines, nics_without_a_stated_rate) {
  auto const table = box(4, link_kind::pcie);
  auto const assumed = join({table, table});
  EXPECT_EQ(std::get<2>(links_out(assumed).front()), rational(25));
  EXPECT_TRUE(has_remark(assumed,
                         "box: NICs such as mlx5_0 have no stated rate; each counts as its "
                         "PCIe link, 25 GB/s (COUNT@fabric=GB/s for one NIC"));
  auto const given = joined({table, table}, server_network::fabric, {rational(25, 2), false});
  EXPECT_EQ(std::get<2>(links_out(given).front()), rational(25, 2));
  EXPECT_EQ(given.steps_per_unit, 2);
  EXPECT_FALSE(has_remark(given, "no stated rate"));
  EXPECT_ERROR((void)joined({box(), box()}, server_network::fabric, {rational(50), false}),
               "machine 'box': states its own rates of NICs, expected no other one");
  EXPECT_EQ(
      links_out(joined({box(), table}, server_network::fabric, {rational(50), false})),
      (std::vector<std::tuple<int, std::string, rational>>{
          {10, "network", 25}, {12, "network", 25}, {15, "network", 50}, {17, "network", 50}}));
}

TEST(join_machines, servers_without_nics) {
  auto const bare = machines::dgx1v();
  EXPECT_ERROR((void)join({bare, bare}),
               "machine 'dgx1v': its description names no NIC, or its reader drops those near no "
               "GPU; expected NICs, or a rate of one (COUNT@fabric=GB/s for one NIC, "
               "COUNT@fabric=GB/s/gpu for one at each GPU)");
  // One at each GPU: as the built-in machines have them.
  auto const each = joined({machines::dgx_h100(), machines::dgx_h100()}, server_network::fabric,
                           {rational(50), true});
  EXPECT_EQ(canonical(each).key, canonical(machines::dgx_h100(2)).key);
  EXPECT_TRUE(has_remark(each, "no NIC is described; each rank has one of 50 GB/s"));
  // One for all GPUs of a server.
  auto const shared = joined({bare, bare}, server_network::rails, {rational(10), false});
  ASSERT_EQ(shared.nodes.size(), 19U);
  EXPECT_EQ(shared.nodes[16].label, "nic0");
  EXPECT_EQ(shared.nodes[17].server, 1);
  EXPECT_EQ(std::ranges::count(shared.links, 17, &link::head), 9);
  EXPECT_TRUE(has_remark(shared, "each server has one of 10 GB/s at all ranks"));
  EXPECT_EQ(sound_plan(shared, collective::all_reduce).rate, rational(10));
  // At the first processor where one is described.
  auto const socket = joined({machines::dgx1v_pcie(), machines::dgx1v_pcie()},
                             server_network::automatic, {rational(10), false});
  auto const nic = std::ranges::find(socket.nodes, "nic0", &node::label)->id;
  std::vector<std::string> near;
  for (auto const& l : socket.links) {
    if (l.head == nic) near.push_back(socket.nodes[static_cast<std::size_t>(l.tail)].label);
  }
  EXPECT_EQ(near, (std::vector<std::string>{"socket0", "network"}));
}

TEST(join_machines, servers_of_one_description_stay_apart) {
  topology machine;
  machine.name = "pair";
  // Ranks of two servers in turn, and one of no server.
  for (int i = 0; i < 4; ++i) {
    add_node(machine, node_kind::rank, "gpu" + std::to_string(i), i % 2 == 0 ? 7 : 3);
  }
  add_node(machine, node_kind::rank, "alone", -1);
  for (int s = 0; s < 2; ++s) {
    int const nic = add_node(machine, node_kind::switch_node, "nic0", s == 0 ? 7 : 3);
    for (int g = s; g < 4; g += 2) add_links(machine, g, nic, 10, link_kind::unknown);
  }
  int const nic = add_node(machine, node_kind::switch_node, "nvswitch", -1);
  for (int g = 0; g < 4; ++g) add_links(machine, g, nic, 40, link_kind::nvlink);
  machine.remarks = {"as it is"};
  EXPECT_ERROR((void)join({machine}), "its description names no NIC of server 2");
  machine.nodes[4].server = 3;
  auto const result = join({machine, machine});
  using place = std::pair<std::string, int>;
  EXPECT_EQ(places(result), (std::vector<place>{{"gpu0", 0},
                                                {"gpu2", 0},
                                                {"gpu1", 1},
                                                {"gpu3", 1},
                                                {"alone", 1},
                                                {"gpu0", 2},
                                                {"gpu2", 2},
                                                {"gpu1", 3},
                                                {"gpu3", 3},
                                                {"alone", 3},
                                                {"nic0", 0},
                                                {"nic0", 1},
                                                {"nvswitch", -1},
                                                {"nic0", 2},
                                                {"nic0", 3},
                                                {"nvswitch", -1},
                                                {"network", -1}}));
  EXPECT_EQ(links_out(result).size(), 4U);
  EXPECT_EQ(std::get<2>(links_out(result)[0]), rational(20));  // of two GPUs
  EXPECT_EQ(std::ranges::count(result.remarks, "as it is"), 1);
}

TEST(join_machines, switches_without_a_server_belong_to_the_only_one) {
  auto machine = box();
  for (auto& n : machine.nodes) {
    if (n.kind == node_kind::switch_node && n.label != "pcie0") n.server = -1;
  }
  auto const with_server = join({box(), box()});
  EXPECT_EQ(places(join({machine, machine})), places(with_server));
  // A switch with network links only is the network.
  auto const network = add_node(machine, node_kind::switch_node, "ib", -1);
  add_links(machine, 0, network, 50, link_kind::network);
  EXPECT_EQ(join({machine, machine}).nodes.back().label, "network1");
}

TEST(join_machines, units_are_exact) {
  auto half = box();
  half.steps_per_unit = 2;
  auto third = box();
  third.steps_per_unit = 3;
  auto const machine = join({half, third});
  EXPECT_EQ(machine.steps_per_unit, 6);
  EXPECT_EQ(machine.links[0].capacity, 900);
  EXPECT_EQ(std::get<2>(links_out(machine)[0]), rational(25, 2));
  EXPECT_EQ(std::get<2>(links_out(machine)[2]), rational(25, 3));
  auto other = box();
  other.unit = "links";
  EXPECT_ERROR((void)join({box(), other}),
               "machine 'box': its unit is 'links', expected 'GB/s' as in machine 'box'");
  auto fine = box(), finer = box();
  fine.steps_per_unit = 999'999'937;
  finer.steps_per_unit = 999'999'929;
  EXPECT_ERROR((void)join({fine, finer}), "joining 2 machines: rates without a common unit");
  auto wide = box();
  wide.links[0].capacity = std::int64_t{1} << 61;
  EXPECT_ERROR((void)join({wide, wide}), "62 bits");
  EXPECT_ERROR((void)join({wide, third}), "capacities of more than 62 bits");
  EXPECT_ERROR((void)join({}), "none given");
}

TEST(join_machines, many_copies) {
  std::vector<topology> const boxes(256, machines::dgx_a100());
  auto const machine = joined(boxes, server_network::rails, {rational(25), true});
  EXPECT_EQ(machine.rank_positions().size(), 2048U);
  EXPECT_EQ(machine.nodes.size(), 2048U + 256 + 8);
  EXPECT_EQ(machine.name, "dgx_a100+dgx_a100+dgx_a100+dgx_a100+...");
  EXPECT_ERROR((void)joined_machine("x:4096@fabric=1/gpu",
                                    [](std::string const&) { return machines::mesh(3, 6); }),
               "joining 4096 machines: more than 65536 ranks");
}

TEST(join_machines, nics_of_files) {
  std::string const xml =
      "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\" "
      "familyid=\"143\" modelid=\"49\">\n"
      "<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" "
      "link_width=\"16\"><gpu dev=\"0\" sm=\"80\" rank=\"0\"/></pci>\n"
      "<pci busid=\"0000:02:00.0\" class=\"0x020700\" link_speed=\"16.0 GT/s PCIe\" "
      "link_width=\"16\"><nic><net name=\"mlx5_0\" dev=\"0\" speed=\"200000\" port=\"1\" "
      "guid=\"0x1\" maxconn=\"131072\" gdr=\"1\"/></nic></pci></cpu></system>\n";
  auto const host = read_nccl_xml(xml, "host.xml");
  auto const two = join({host, host});
  ASSERT_EQ(links_out(two).size(), 2U);
  EXPECT_EQ(std::get<2>(links_out(two)[0]), rational(25));
  EXPECT_EQ(two.nodes[static_cast<std::size_t>(std::get<0>(links_out(two)[0]))].label,
            "net mlx5_0");
  EXPECT_EQ(sound_plan(two, collective::all_reduce).rate, rational(24));  // PCIe is narrower
  auto const table = read_smi_matrix(
      "\tGPU0\tGPU1\tmlx5_0\nGPU0\tX\tNV12\tPIX\nGPU1\tNV12\tX\tSYS\nmlx5_0\tPIX\tSYS\tX\n", "t");
  auto const tables = join({table, table});
  ASSERT_EQ(links_out(tables).size(), 2U);
  EXPECT_TRUE(has_remark(tables, "t: NICs such as mlx5_0 have no stated rate"));
}

TEST(join_machines, plans_reach_the_rate_of_the_nics) {
  for (auto const network : {server_network::rails, server_network::fabric}) {
    auto const machine = joined({box(), box()}, network);
    // Two servers, each entered twice by a pair of trees, by 50 GB/s.
    auto const all_reduce = sound_plan(machine, collective::all_reduce);
    EXPECT_EQ(all_reduce.rate, rational(50));
    EXPECT_EQ(all_reduce.bound, rational(50));
    // A server receives half of the buffer, by 50 GB/s.
    EXPECT_EQ(sound_plan(machine, collective::all_gather).rate, rational(100));
    EXPECT_EQ(sound_plan(machine, collective::broadcast).rate, rational(50));
  }
  // One rail of 25 GB/s; four servers, entered 2 * 3 times in sum.
  auto const four = joined({box(2), box(2), box(2), box(2)}, server_network::rails);
  EXPECT_EQ(sound_plan(four, collective::all_reduce).rate, rational(4 * 25, 2 * 3));
}

TEST(join_machines, all_subsets_are_machines) {
  for (auto const network : {server_network::rails, server_network::fabric}) {
    auto const machine = joined({box(3), box(3)}, network);
    auto const ranks = machine.rank_positions();
    for (unsigned chosen = 1; chosen < 1U << ranks.size(); ++chosen) {
      SCOPED_TRACE(chosen);
      std::vector<int> ids;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        if ((chosen >> i & 1U) != 0) ids.push_back(static_cast<int>(i));
      }
      auto const part = subset(machine, ids);
      EXPECT_NO_THROW(validate(part));
      // By rails, the last GPU of a server meets only the last one of the other.
      auto const in_first = chosen & 7U, in_second = chosen >> 3;
      bool const is_apart = network == server_network::rails && in_first != 0 && in_second != 0 &&
                            (in_first & in_second & 4U) == 0 &&
                            ((in_first & 3U) == 0 || (in_second & 3U) == 0);
      EXPECT_EQ(rank_groups(part).size(), is_apart ? 2U : 1U);
      if (ids.size() < 2 || is_apart) continue;
      auto const made = sound_plan(part, collective::all_gather);
      EXPECT_EQ(made.rate, made.bound);
      bool const is_one_server = in_first == 0 || in_second == 0;
      EXPECT_EQ(made.rate > rational(200), is_one_server);
    }
  }
}

TEST(machine_copies, are_read_from_text) {
  auto const copies = [](std::string_view text) { return read_machine_copies(text).value(); };
  EXPECT_EQ(copies("box.xml:2").machine, "box.xml");
  EXPECT_EQ(copies("box.xml:2").count, 2);
  EXPECT_EQ(copies("box.xml:2").options.network, server_network::automatic);
  EXPECT_EQ(copies("a:b:4096@rails").machine, "a:b");
  EXPECT_EQ(copies("a:b:4096@rails").count, 4096);
  EXPECT_EQ(copies("a:b:4096@rails").options.network, server_network::rails);
  EXPECT_EQ(copies("x:3@fabric").options.network, server_network::fabric);
  EXPECT_EQ(copies("x:3@fabric=12.5").options.nics.rate, rational(25, 2));
  EXPECT_FALSE(copies("x:3@fabric=12.5").options.nics.is_per_rank);
  EXPECT_TRUE(copies("x:3@rails=50/gpu").options.nics.is_per_rank);
  EXPECT_EQ(copies("x:3@rails=50/gpu").options.nics.rate, rational(50));
  for (auto const* const other : {"", "box.xml", "box:", ":2", "host:12.5", "torus:4x4",
                                  "a:b@rails", "a:-1", "a:2 ", "C:/box.xml", "a:@rails"}) {
    EXPECT_FALSE(read_machine_copies(other).has_value()) << other;
  }
  for (auto const* const wrong : {"x:0", "x:4097", "x:99999999999999999999", "x:2@", "x:2@ring",
                                  "x:2@=50", "x:2@rails=", "x:2@rails=0", "x:2@rails=x",
                                  "x:2@rails=1e9", "x:2@rails=50/node", "x:2@fabric=-1"}) {
    EXPECT_ERROR((void)read_machine_copies(wrong),
                 "expected MACHINE:COUNT with 1 to 4096 copies, then @rails or @fabric, or one of "
                 "these with =GB/s or =GB/s/gpu");
  }
}

TEST(machine_copies, mutants_are_read_or_refused) {
  std::mt19937 random(7);
  std::string const letters = "x:2@=/gpurailsfbc0195.-";
  for (int i = 0; i < 3000; ++i) {
    std::string text = "x:2@rails=50/gpu";
    for (int change = 0; change < 3; ++change) {
      auto const at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, 1);
      else
        text[at] = letters[random() % letters.size()];
      if (text.empty()) text = ":";
    }
    SCOPED_TRACE(text);
    try {
      auto const copies = read_machine_copies(text);
      EXPECT_TRUE(!copies || (1 <= copies->count && copies->count <= 4096));
    } catch (input_error const&) {
    }
  }
}

TEST(joined_machine, copies_a_machine_unless_the_text_is_a_file) {
  auto const read = [](std::string const& text) {
    EXPECT_EQ(text, "one.json");
    return box();
  };
  auto const two = joined_machine("one.json:2@rails", read);
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ(two->name, "box:2");
  EXPECT_EQ(canonical(*two).key, canonical(joined({box(), box()}, server_network::rails)).key);
  auto const one = joined_machine("one.json:1", read);
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->name, "box");
  EXPECT_EQ(canonical(*one).key, canonical(box()).key);
  EXPECT_FALSE(joined_machine("one.json", read).has_value());
  blink_test::fresh_folder const folder;
  auto const path = folder.name() + "/one.json:2";
  std::ofstream(path) << "{}";
  EXPECT_FALSE(joined_machine(path, read).has_value());
}

// Each machine of the corpus is joined, or refused because it names no NIC.
TEST(join_machines_corpus, two_of_each) {
  std::string const folder = std::string(BLINK_SHARED_DIR) + "/topo-corpus/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no corpus here";
  int count_joined = 0, count_bare = 0;
  for (auto const* const kind : {"nccl-xml", "nvidia-smi"}) {
    for (auto const& file : std::filesystem::directory_iterator(folder + kind)) {
      SCOPED_TRACE(file.path().string());
      std::optional<topology> machine;
      try {
        machine = read_machine(file.path().string());
      } catch (input_error const&) {
        continue;
      }
      auto const fault = error_of([&] {
        auto const two = join({*machine, *machine});
        EXPECT_EQ(two.rank_positions().size(), 2 * machine->rank_positions().size());
        EXPECT_GE(links_out(two).size(), 2U);
      });
      ++(fault == "no error" ? count_joined : count_bare);
      if (fault != "no error") EXPECT_SAYS(fault, "its description names no NIC");
    }
  }
  RecordProperty("joined", count_joined);
  RecordProperty("bare", count_bare);
  std::printf("joined %d, without NIC %d\n", count_joined, count_bare);
  EXPECT_GT(count_joined, 40);
}

}}  // namespace blink::join_machines_test
