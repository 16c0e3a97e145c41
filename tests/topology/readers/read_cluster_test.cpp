// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/canonical.hpp>
#include <blink/topology/cluster.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/join_machines.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/readers/read_cluster.hpp>
#include <blink/topology/readers/read_smi_matrix.hpp>

#include "support/expect_error.hpp"
#include "support/fresh_folder.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_cluster_test { namespace {

using names = std::vector<std::string>;

// Two leaves of four nodes below one switch.
std::string const two_leaves =
    "# a tree\n"
    "SwitchName=s0 Nodes=tux[0-3]\n"
    "SwitchName=s1 Nodes=tux[4-7]  # the other\n"
    "SwitchName=s2 Switches=s[0-1]\n";

cluster_tree read(std::string const& text) {
  return read_cluster(text, "topology.conf");
}

// Each switch with the one above it.
std::vector<std::pair<std::string, std::string>> parents(cluster_tree const& tree) {
  std::vector<std::pair<std::string, std::string>> result;
  for (auto const& s : tree.switches) {
    result.emplace_back(s.name,
                        s.parent < 0 ? "" : tree.switches[static_cast<std::size_t>(s.parent)].name);
  }
  return result;
}

// Each node with its switch.
std::vector<std::pair<std::string, std::string>> leaves(cluster_tree const& tree) {
  std::vector<std::pair<std::string, std::string>> result;
  for (auto const& n : tree.nodes) {
    result.emplace_back(n.name, tree.switches[static_cast<std::size_t>(n.leaf)].name);
  }
  return result;
}

using name_pairs = std::vector<std::pair<std::string, std::string>>;

// Four GPUs behind NVSwitch, two NICs of 25 GB/s, each at two GPUs.
topology server(int gpus = 4) {
  topology machine;
  machine.name = "server";
  auto const add = [&](node_kind kind, std::string label) {
    auto const id = static_cast<int>(machine.nodes.size());
    machine.nodes.push_back({id, kind, std::move(label), 0});
    return id;
  };
  auto const link_both = [&](int a, int b, std::int64_t capacity, link_kind kind) {
    machine.links.push_back({a, b, capacity, 0, kind});
    machine.links.push_back({b, a, capacity, 0, kind});
  };
  for (int i = 0; i < gpus; ++i) add(node_kind::rank, "gpu" + std::to_string(i));
  int const nvswitch = add(node_kind::switch_node, "nvswitch");
  for (int i = 0; i < gpus; ++i) link_both(i, nvswitch, 300, link_kind::nvlink);
  for (int i = 0; 2 * i < gpus; ++i) {
    int const pcie = add(node_kind::switch_node, "pcie" + std::to_string(i));
    int const nic = add(node_kind::switch_node, "mlx5_" + std::to_string(i));
    for (int g = 2 * i; g < 2 * i + 2; ++g) link_both(g, pcie, 32, link_kind::pcie);
    link_both(pcie, nic, 25, link_kind::network);
  }
  return machine;
}

topology cluster(std::string const& text, cluster_options const& options = {}) {
  return cluster_of(read(text), {{"", server()}}, options);
}

// Links between switches of the network, upwards and downwards: labels and rate.
std::vector<std::tuple<std::string, std::string, rational>> network_links(topology const& machine) {
  std::vector<std::tuple<std::string, std::string, rational>> result;
  for (auto const& l : machine.links) {
    auto const& tail = machine.nodes[static_cast<std::size_t>(l.tail)];
    auto const& head = machine.nodes[static_cast<std::size_t>(l.head)];
    if (tail.server >= 0 || head.server >= 0) continue;
    EXPECT_EQ(l.kind, link_kind::network);
    result.emplace_back(tail.label, head.label, machine.in_units(l.capacity));
  }
  return result;
}

// Labels of the network's switches, each with the number of NICs at it.
std::vector<std::pair<std::string, int>> network_nodes(topology const& machine) {
  std::vector<std::pair<std::string, int>> result;
  for (std::size_t v = 0; v < machine.nodes.size(); ++v) {
    if (machine.nodes[v].server >= 0) continue;
    auto const nics = std::ranges::count_if(machine.links, [&](link const& l) {
      return l.head == static_cast<int>(v) &&
             machine.nodes[static_cast<std::size_t>(l.tail)].server >= 0;
    });
    result.emplace_back(machine.nodes[v].label, static_cast<int>(nics));
  }
  return result;
}

template <class Texts>
bool has_remark(Texts const& remarks, std::string const& part) {
  return std::ranges::any_of(
      remarks, [&](std::string const& text) { return text.find(part) != std::string::npos; });
}

TEST(host_list, stands_for_names) {
  auto const list = [](std::string_view text) {
    return detail::host_list_reader(text, 1000).read();
  };
  EXPECT_EQ(list("a"), names{"a"});
  EXPECT_EQ(list("tux[0-2,12]"), (names{"tux0", "tux1", "tux2", "tux12"}));
  EXPECT_EQ(list("a[08-11]"), (names{"a08", "a09", "a10", "a11"}));
  EXPECT_EQ(list("a[8-11]b"), (names{"a8b", "a9b", "a10b", "a11b"}));
  EXPECT_EQ(list("r[1-2]n[3-4,7],x.y"),
            (names{"r1n3", "r1n4", "r1n7", "r2n3", "r2n4", "r2n7", "x.y"}));
  EXPECT_EQ(list("[1-2]"), (names{"1", "2"}));
  EXPECT_EQ(list(" a, b ,,c,"), (names{"a", "b", "c"}));
  EXPECT_EQ(list(""), names{});
  EXPECT_EQ(list("a[0-999]").size(), 1000U);
  EXPECT_EQ(list("a[0-9]b[0-9]c[0-9]").size(), 1000U);
  auto const fault = [&](std::string_view text) {
    return blink_test::error_of([&] { (void)list(text); });
  };
  EXPECT_EQ(fault("a[0-1000]"),
            "host list 'a[0-1000]': stands for more than 1000 names, expected fewer");
  EXPECT_SAYS(fault("a[0-9]b[0-9]c[0-10]"), "more than 1000 names");
  EXPECT_SAYS(fault("a[0-999999999]b[0-999999999]c[0-999999999]"), "more than 1000 names");
  EXPECT_SAYS(fault("a[0-999],b"), "more than 1000 names");
  EXPECT_SAYS(fault("a[3-2]"), "the range '3-2' descends, expected an ascending one");
  EXPECT_SAYS(fault("a[1-2"), "found its end in a bracket, expected numbers and ranges, then ]");
  EXPECT_SAYS(fault("a[1-[2-3]]"), "found '[' in a bracket, expected a number");
  EXPECT_SAYS(fault("a[]"), "found ']' in a bracket, expected a number");
  EXPECT_SAYS(fault("a[1-]"), "found ']' in a bracket, expected a number");
  EXPECT_SAYS(fault("a[x]"), "found 'x' in a bracket");
  EXPECT_SAYS(fault("a]"), "found ']', expected letters, digits, - _ . : + @ / and [ranges]");
  EXPECT_SAYS(fault("a[1234567890]"), "a number of more than 9 digits");
  EXPECT_SAYS(fault(std::string(256, 'a')), "a name of more than 255 characters");
  EXPECT_SAYS(fault("a\x01"), "found '?'");
}

TEST(read_cluster, topology_conf_of_a_tree) {
  auto const tree = read(two_leaves);
  EXPECT_EQ(tree.name, "topology");
  EXPECT_EQ(parents(tree), (name_pairs{{"s0", "s2"}, {"s1", "s2"}, {"s2", ""}}));
  EXPECT_EQ(leaves(tree), (name_pairs{{"tux0", "s0"},
                                      {"tux1", "s0"},
                                      {"tux2", "s0"},
                                      {"tux3", "s0"},
                                      {"tux4", "s1"},
                                      {"tux5", "s1"},
                                      {"tux6", "s1"},
                                      {"tux7", "s1"}}));
  EXPECT_EQ(tree.remarks, names{});
  EXPECT_FALSE(tree.switches[0].link_speed.has_value());
}

TEST(read_cluster, topology_conf_as_people_write_it) {
  auto const tree = read(
      "\xef\xbb\xbf"
      "switchname=s0\tNODES=\"a[1-2], b\" LinkSpeed=400\r\n"
      "SwitchName = s1 Nodes = c \\\n"
      "   LinkSpeed=0\\  \n"
      "\n"
      "  SWITCHNAME=s2 Switches=s0,\\\n"
      "s1 # \\\n"
      "# SwitchName=s9 Switches=s8 \\\n"
      "BlockSizes=2\n");
  EXPECT_EQ(parents(tree), (name_pairs{{"s0", "s2"}, {"s1", "s2"}, {"s2", ""}}));
  EXPECT_EQ(leaves(tree), (name_pairs{{"a1", "s0"}, {"a2", "s0"}, {"b", "s0"}, {"c", "s1"}}));
  EXPECT_EQ(tree.switches[0].link_speed, 400);
  EXPECT_EQ(tree.switches[1].link_speed, 0);
  // topograph writes two entries for a switch with switches and nodes.
  auto const mixed =
      read("SwitchName=s0 Switches=s1\nSwitchName=s0 Nodes=a\nSwitchName=s1 Nodes=b\n");
  EXPECT_EQ(parents(mixed), (name_pairs{{"s0", ""}, {"s1", "s0"}}));
  EXPECT_EQ(leaves(mixed), (name_pairs{{"a", "s0"}, {"b", "s1"}}));
  // Other entries of a slurm.conf.
  auto const others = read(
      "ClusterName=x\nNodeName=a[1-2] Gres=gpu:h100:8\nSwitchName=s0 Nodes=a[1-2] Port=7\n"
      "Include other.conf\n");
  EXPECT_EQ(leaves(others).size(), 2U);
  EXPECT_EQ(others.remarks,
            (names{"line 1: 'ClusterName' is not used", "line 2: 'NodeName' is not used",
                   "line 3: unknown key 'Port'", "line 4: 'Include' is not used"}));
  EXPECT_ERROR((void)read_cluster("SwitchName=s0 Nodes=a Port=7\n", "t", {{}, true}),
               "t:1: unknown key 'Port'");
}

TEST(read_cluster, blocks_count_as_switches) {
  auto const tree = read(
      "# block001=nvl1\nBlockName=block001 Nodes=node[11-12]\nBlockName=block002\n"
      "BlockName=block003 Nodes=node21\nBlockSizes=2,4\n");
  EXPECT_EQ(
      parents(tree),
      (name_pairs{
          {"block001", "network"}, {"block002", ""}, {"block003", "network"}, {"network", ""}}));
  EXPECT_EQ(tree.remarks,
            (names{"1 switches or blocks have no nodes",
                   "each block counts as a switch; NVLinks between its nodes are not in the file",
                   "one switch joins the 2 blocks: the file does not say what does"}));
  auto const one = read("BlockName=network Nodes=a\n");
  EXPECT_EQ(parents(one), (name_pairs{{"network", ""}}));
  auto const named = read("BlockName=network Nodes=a\nBlockName=b Nodes=c\n");
  EXPECT_EQ(parents(named).back().first, "network_");
}

TEST(read_cluster, topology_yaml) {
  std::string const text =
      "---\n"
      "# as topograph writes it\n"
      "- topology: topo1\n"
      "  cluster_default: false\n"
      "  block:\n"
      "    block_sizes:\n"
      "        - 2\n"
      "    blocks:\n"
      "        - block: block1\n"
      "          nodes: Node[104-105]\n"
      "- topology: topo2\n"
      "  cluster_default: true   # this one\n"
      "  tree:\n"
      "    switches:\n"
      "        - switch: S1\n"
      "          children: S[2-3]\n"
      "        - switch: \"S2\"\n"
      "          nodes: Node[201,205]\n"
      "        -\n"
      "          switch: 'S3'\n"
      "          nodes: ['Node304']\n"
      "- topology: topo3\n"
      "  cluster_default: false\n"
      "  flat: true\n";
  EXPECT_ERROR((void)read(text), "topology.conf:21: found '['Node304']', expected a list");
  auto good = text;
  good.replace(good.find("['Node304']"), 11, "[Node304, Node305]");
  EXPECT_TRUE(is_slurm_topology_yaml(good));
  auto const tree = read(good);
  EXPECT_EQ(parents(tree), (name_pairs{{"S1", ""}, {"S2", "S1"}, {"S3", "S1"}}));
  EXPECT_EQ(
      leaves(tree),
      (name_pairs{{"Node201", "S2"}, {"Node205", "S2"}, {"Node304", "S3"}, {"Node305", "S3"}}));
  EXPECT_EQ(tree.remarks, names{"line 11: topology 'topo2' counts, of 2"});
  good.replace(good.find("cluster_default: true"), 21, "cluster_default: no  ");
  auto const first = read(good);
  EXPECT_EQ(parents(first), (name_pairs{{"block1", ""}}));
  auto const flat = read(
      "- topology: a\n  tree:\n    switches:\n    - switch: s\n      nodes: n1\n      colour: "
      "red\n");
  EXPECT_EQ(leaves(flat), (name_pairs{{"n1", "s"}}));
  EXPECT_EQ(flat.remarks, names{"line 6: unknown key 'colour'"});
}

TEST(read_cluster, topograph_instances) {
  std::string const text =
      "{\"instances\": [\n"
      " {\"id\": \"n1\", \"network_layers\": [\"leaf1\", \"spine\", \"core\"], \"labels\": {}},\n"
      " {\"id\": \"n2\", \"network_layers\": [\"leaf2\", \"spine\", \"core\"]},\n"
      " {\"id\": \"n3\", \"network_layers\": [\"leaf1\"]}]}\n";
  EXPECT_TRUE(is_topograph_instances(text));
  auto const tree = read(text);
  EXPECT_EQ(parents(tree),
            (name_pairs{{"leaf1", "spine"}, {"spine", "core"}, {"core", ""}, {"leaf2", "spine"}}));
  EXPECT_EQ(leaves(tree), (name_pairs{{"n1", "leaf1"}, {"n3", "leaf1"}, {"n2", "leaf2"}}));
  auto const fault = [&](std::string const& from, std::string const& to) {
    auto changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return blink_test::error_of([&] { (void)read(changed); });
  };
  EXPECT_SAYS(fault("[\"leaf2\", \"spine\", \"core\"]", "[\"leaf2\", \"spine\", \"other\"]"),
              "topology.conf:3: 'spine' is below 'other' and 'core', expected one switch above it");
  EXPECT_SAYS(fault("[\"leaf1\"]", "[]"),
              "topology.conf:4: instance 'n3' has no network layers, expected a switch");
  EXPECT_SAYS(fault("\"id\": \"n2\", ", ""), "topology.conf:3: 'id' is missing, expected the name");
  EXPECT_SAYS(fault("\"n2\"", "2"), "topology.conf:3: 'id' has another value, expected the name");
  EXPECT_SAYS(fault("\"n2\"", "\"n[1-2]\""), "topology.conf:3: found 'n[1-2]', expected one name");
  EXPECT_SAYS(fault("\"n2\"", "\"n1\""), "node 'n1' is at 'leaf2' and");
  EXPECT_SAYS(fault("\"core\"]}", "\"leaf2\"]}"), "is below");
  EXPECT_SAYS(fault("\"spine\"", "3"), "a network layer is no text, expected the name of a switch");
}

TEST(read_cluster, is_recognised_by_content) {
  EXPECT_TRUE(is_slurm_topology(two_leaves));
  EXPECT_TRUE(is_slurm_topology("ClusterName=x\r\n  blockname = b Nodes=a\r\n"));
  EXPECT_FALSE(is_slurm_topology("# SwitchName=s0 Nodes=a\n"));
  EXPECT_FALSE(is_slurm_topology("SwitchName s0\n"));
  EXPECT_TRUE(is_slurm_topology_yaml("# x\n---\n-   topology: a\n"));
  EXPECT_FALSE(is_slurm_topology_yaml("topology: a\n- topology: b\n"));
  EXPECT_FALSE(is_topograph_instances("{\"instances\": []}"));
  for (auto const* const other :
       {"", "\n", "<system version=\"1\"/>", "{\"nodes\": [], \"links\": []}",
        "\tGPU0\tGPU1\nGPU0\tX\tNV1\nGPU1\tNV1\tX\n", "- name: x\n", "GPU 0: A100 (UUID: x)\n"}) {
    EXPECT_FALSE(is_cluster(other)) << other;
  }
  EXPECT_FALSE(is_smi_matrix(two_leaves));
}

TEST(read_cluster, errors_name_line_and_text) {
  auto const fault = [](std::string const& text) {
    return blink_test::error_of([&] { (void)read(text); });
  };
  EXPECT_EQ(fault(two_leaves + "SwitchName=s3 Switches=s9\n"),
            "topology.conf:5: 's9' below 's3' has no entry, expected SwitchName=s9");
  EXPECT_EQ(
      fault(two_leaves + "SwitchName=s3 Nodes=tux2\n"),
      "topology.conf:5: node 'tux2' is at 's3' and, in line 2, at 's0', expected one of them");
  EXPECT_EQ(fault(two_leaves + "SwitchName=s3 Switches=s0\n"),
            "topology.conf:5: 's0' is below 's3' and 's2', expected one switch above it: parallel "
            "ones count as one");
  EXPECT_EQ(fault(two_leaves + "SwitchName=s3 Switches=s4\nSwitchName=s4 Switches=s3\n"),
            "topology.conf:5: 's3' is below itself, expected a tree");
  EXPECT_EQ(fault("SwitchName=s0 Switches=s0\n"),
            "topology.conf:1: 's0' is below itself, expected a tree");
  EXPECT_EQ(fault(two_leaves + "SwitchName=s1 Nodes=x\n"),
            "topology.conf:5: 's1' appears a second time, expected one entry as in line 3");
  EXPECT_EQ(fault(two_leaves + "BlockName=s2 Nodes=x\n"),
            "topology.conf:5: 's2' is a switch and a block, expected one entry as in line 4");
  EXPECT_EQ(fault("SwitchName=s0 Nodes=a[0-65536]\n"),
            "topology.conf:1: host list 'a[0-65536]': stands for more than 65536 names, expected "
            "fewer");
  EXPECT_SAYS(fault("SwitchName=s0 Nodes=a[0-65535]\nSwitchName=s1 Nodes=b\n"),
              "topology.conf:2: host list 'b': stands for more than 0 names");
  EXPECT_SAYS(fault("\nSwitchName=s0 Nodes=a[1-\n"),
              "topology.conf:2: host list 'a[1-': found its");
  EXPECT_SAYS(fault("SwitchName=s[0-1] Nodes=a\n"),
              "topology.conf:1: the name of a switch or block is 's[0-1]', expected one name");
  EXPECT_SAYS(fault("SwitchName= Nodes=a\n"), "host list 'Nodes=a': found '='");
  EXPECT_SAYS(fault("SwitchName=\n"), "is '', expected one name");
  EXPECT_SAYS(fault("SwitchName=s0 Nodes\n"), "topology.conf:1: found 'Nodes', expected KEY=VALUE");
  EXPECT_SAYS(fault("SwitchName=s0 Nodes=\"a\n"),
              "topology.conf:1: 'Nodes' has a quote without end");
  EXPECT_SAYS(fault("SwitchName=s0 Nodes=a nodes=b\n"), "'nodes' appears twice, expected it once");
  EXPECT_SAYS(fault("SwitchName=s0 Nodes=a LinkSpeed=fast\n"),
              "LinkSpeed='fast', expected an integer from 0 to 4294967295");
  EXPECT_SAYS(fault("SwitchName=s0 Nodes=a LinkSpeed=4294967296\n"), "LinkSpeed='4294967296'");
  EXPECT_SAYS(fault("SwitchName=s0\nSwitchName=s1 Switches=s0\n"),
              "topology.conf:1: no switch has nodes, expected the nodes of at least one");
  EXPECT_SAYS(fault("RingName=r Nodes=a\n"),
              "topology.conf:1: no switch and no block, expected SwitchName= or BlockName=");
  EXPECT_SAYS(fault("- topology: a\n  flat: true\n"), "topology.conf:1: no topology has switches");
  EXPECT_SAYS(fault("- topology: a\n  tree:\n    switches: s0\n"),
              "topology.conf:3: found 's0', expected a list of switches");
  EXPECT_SAYS(fault("- topology: a\n  tree: yes\n"),
              "topology.conf:2: found 'yes', expected switches");
  EXPECT_SAYS(fault("- topology: a\n\ttree:\n"), "topology.conf:2: a tab in the indentation");
  EXPECT_SAYS(fault("- topology: a\n  topology: b\n"),
              "topology.conf:2: key 'topology' a second time");
  EXPECT_SAYS(fault("- topology: &a b\n"),
              "topology.conf:1: found '&a b', expected a value on one");
  EXPECT_SAYS(fault("- topology: a\n x: y\n"),
              "topology.conf:2: found 'x: y', expected the indent");
  EXPECT_SAYS(fault("- topology: a\n  tree:\n    switches:\n    - nodes: n1\n"),
              "expected one name");
  std::string deep = "- topology: a\n  tree: \n    ";
  for (int i = 0; i < 200'000; ++i) deep += "- ";
  EXPECT_SAYS(fault(deep + "x\n"), "topology.conf:3: more than 100 values inside each other");
  EXPECT_ERROR((void)read_cluster(two_leaves, "t", {{{link_kind::pcie, rational(1)}}, false}),
               "t:");
}

TEST(cluster_of, switches_that_carry_all_are_one) {
  auto const machine = cluster(two_leaves);
  EXPECT_EQ(machine.name, "topology");
  EXPECT_EQ(machine.rank_positions().size(), 32U);
  EXPECT_EQ(network_nodes(machine), (std::vector<std::pair<std::string, int>>{{"s2", 16}}));
  EXPECT_EQ(network_links(machine).size(), 0U);
  EXPECT_TRUE(has_remark(machine.remarks,
                         "2 switches that carry all that is below are one with the switch above"));
  EXPECT_TRUE(has_remark(machine.remarks, "links up of switches without LinkSpeed carry all"));
  std::vector<topology> const servers(8, server());
  EXPECT_EQ(canonical(machine).key, canonical(join(servers)).key);
  for (int rank = 0; rank < 32; ++rank) {
    EXPECT_EQ(machine.nodes[static_cast<std::size_t>(rank)].server, rank / 4);
  }
  auto const apart = cluster(two_leaves, {.merges_non_blocking = false});
  EXPECT_EQ(network_nodes(apart),
            (std::vector<std::pair<std::string, int>>{{"s0", 8}, {"s1", 8}, {"s2", 0}}));
  using up = std::tuple<std::string, std::string, rational>;
  EXPECT_EQ(network_links(apart),
            (std::vector<up>{
                {"s1", "s2", 200}, {"s2", "s1", 200}, {"s0", "s2", 200}, {"s2", "s0", 200}}));
}

TEST(cluster_of, link_speed_and_oversubscription_limit_links_up) {
  using up = std::tuple<std::string, std::string, rational>;
  auto const machine = cluster(
      "SwitchName=s0 Nodes=a[0-3] LinkSpeed=800\nSwitchName=s1 Nodes=b[0-3] LinkSpeed=1600\n"
      "SwitchName=s2 Switches=s[0-1] LinkSpeed=1\n");
  EXPECT_EQ(network_links(machine), (std::vector<up>{{"s0", "s2", 100}, {"s2", "s0", 100}}));
  EXPECT_EQ(network_nodes(machine),
            (std::vector<std::pair<std::string, int>>{{"s0", 8}, {"s2", 8}}));
  EXPECT_TRUE(has_remark(machine.remarks, "LinkSpeed counts as 1/8 GB/s for each unit"));
  EXPECT_FALSE(has_remark(machine.remarks, "without LinkSpeed"));
  auto const in_gigabytes = cluster(
      "SwitchName=s0 Nodes=a LinkSpeed=20\nSwitchName=s1 Nodes=b\n"
      "SwitchName=s2 Switches=s[0-1]\n",
      {.link_speed_unit = rational(1)});
  EXPECT_EQ(std::get<2>(network_links(in_gigabytes).front()), rational(20));
  // 200 GB/s below a leaf, 3:2 above it; what is above the leaves carries all that they do.
  auto const narrow = cluster(
      "SwitchName=s0 Nodes=a[0-3]\nSwitchName=s1 Nodes=b[0-3]\nSwitchName=s2 Switches=s0\n"
      "SwitchName=s3 Switches=s[1-2]\n",
      {.oversubscription = rational(3, 2)});
  EXPECT_EQ(network_links(narrow), (std::vector<up>{{"s1", "s3", rational(400, 3)},
                                                    {"s3", "s1", rational(400, 3)},
                                                    {"s0", "s3", rational(400, 3)},
                                                    {"s3", "s0", rational(400, 3)}}));
  EXPECT_EQ(narrow.steps_per_unit, 3);
  EXPECT_TRUE(has_remark(narrow.remarks, "or 2/3 of it above nodes"));
  EXPECT_ERROR((void)cluster(two_leaves, {.oversubscription = rational(0)}),
               "cluster 'topology': an oversubscription of 0 and a LinkSpeed unit of 1/8, expected "
               "positive numbers");
}

TEST(cluster_of, types_of_nodes) {
  auto const tree = read(two_leaves + "SwitchName=empty\n");
  auto const machine = cluster_of(tree, {{"tux[2-3,7]", server(2)}, {"", server()}});
  EXPECT_EQ(machine.rank_positions().size(), 5 * 4U + 3 * 2U);
  EXPECT_EQ(machine.nodes[8].server, 2);
  EXPECT_EQ(machine.nodes[10].server, 3);
  EXPECT_EQ(network_nodes(machine), (std::vector<std::pair<std::string, int>>{{"s2", 13}}));
  EXPECT_ERROR(
      (void)cluster_of(tree, {{"tux[0-6]", server()}}),
      "cluster 'topology': no machine for node 'tux7', expected a description of each node");
  EXPECT_ERROR((void)cluster_of(tree, {{"", server()}, {"tux[7-9]", server()}}),
               "a machine for 'tux8', which is no node, expected nodes such as 'tux0'");
  EXPECT_ERROR((void)cluster_of(tree, {{"", server()}, {"", server()}}),
               "two machines for all other");
  EXPECT_ERROR((void)cluster_of(tree, {{"tux0", server()}, {"tux[0-1]", server()}, {"", server()}}),
               "two machines for node 'tux0', expected one");
  EXPECT_ERROR((void)cluster_of(tree, {{"", machines::dgx_a100(2)}}),
               "machine 'dgx_a100:2' of node 'tux0': has a network of its own, expected a server");
  EXPECT_ERROR((void)cluster_of(tree, {{"", machines::dgx1v()}}),
               "expected NICs, or a rate of one (--nic-rate GB/s for one NIC, GB/s/gpu for one at "
               "each GPU)");
  auto const each =
      cluster_of(tree, {{"", machines::dgx1v()}}, {.nics = read_nic_options("25/gpu")});
  EXPECT_EQ(network_nodes(each), (std::vector<std::pair<std::string, int>>{{"s2", 64}}));
}

TEST(cluster_of, trees_that_nothing_joins_stay_apart) {
  auto const machine = cluster(
      "SwitchName=core Switches=leaf\nSwitchName=leaf Nodes=a[1-2]\nSwitchName=no-topology "
      "Nodes=b\n");
  EXPECT_EQ(network_nodes(machine),
            (std::vector<std::pair<std::string, int>>{{"core", 4}, {"no-topology", 2}}));
  EXPECT_TRUE(has_remark(machine.remarks, "nothing joins 2 trees of switches"));
  EXPECT_EQ(rank_groups(machine).size(), 2U);
}

TEST(cluster_of, cycles_and_overflows_are_errors) {
  cluster_tree ring{"ring", {{"a", 1, {}}, {"b", 0, {}}}, {{"n", 0}}, {}};
  EXPECT_ERROR((void)cluster_of(ring, {{"", server()}}),
               "cluster 'ring': its switches form a cycle");
  cluster_tree wide{"wide", {{"a", 1, 4'000'000'000}, {"b", -1, {}}}, {{"n", 0}}, {}};
  auto const unit = rational(std::int64_t{1} << 40);
  EXPECT_ERROR((void)cluster_of(wide, {{"", server()}}, {.link_speed_unit = unit}),
               "cluster 'wide': rates of switches exceed 64 bits");
}

TEST(cluster_of, plans_reach_the_rate_of_the_links_up) {
  auto const planned = [](topology const& machine, collective kind) {
    auto made = make_plan(machine, {kind, {}, planned_by::exact});
    EXPECT_EQ(check_plan(machine, made).fault.value_or(""), "");
    EXPECT_EQ(made.rate, made.bound);
    return made.rate;
  };
  std::string const text =
      "SwitchName=s0 Nodes=a[0-1]\nSwitchName=s1 Nodes=b[0-1]\nSwitchName=s2 Switches=s[0-1]\n";
  // Each of four servers receives 3/4 of the buffer by 50 GB/s.
  EXPECT_EQ(planned(cluster(text), collective::all_gather), rational(200, 3));
  // Each leaf receives half of it, by 50 GB/s at 2:1 and by 25 GB/s at 4:1.
  EXPECT_EQ(planned(cluster(text, {.oversubscription = 2}), collective::all_gather),
            rational(200, 3));
  EXPECT_EQ(planned(cluster(text, {.oversubscription = 4}), collective::all_gather), rational(50));
  EXPECT_EQ(planned(cluster(text, {.oversubscription = 4}), collective::broadcast), rational(25));
  EXPECT_EQ(planned(cluster(text, {.merges_non_blocking = false}), collective::all_gather),
            rational(200, 3));
}

TEST(cluster_of, a_thousand_gpus_in_few_nodes) {
  auto const begin = std::chrono::steady_clock::now();
  std::string text;
  for (int leaf = 0; leaf < 8; ++leaf) {
    auto const number = std::to_string(leaf);
    text += "SwitchName=leaf" + number + " Nodes=rack" + number + "node[00-15]\n";
  }
  text += "SwitchName=spine Switches=leaf[0-7]\n";
  auto const machine =
      cluster_of(read(text), {{"", machines::dgx_h100()}}, {.nics = read_nic_options("50/gpu")});
  std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 0.5);
  EXPECT_EQ(machine.rank_positions().size(), 1024U);
  EXPECT_EQ(machine.nodes.size(), 1024U + 128 + 1);
  auto const made =
      make_plan(machine, {.collective = collective::all_reduce, .budget = {.seconds = 120}});
  EXPECT_EQ(made.planner, planned_by::exact);
  // 128 servers of 400 GB/s, entered 2 * 127 times in sum.
  EXPECT_EQ(made.bound, rational(128 * 400, 2 * 127));
  EXPECT_EQ(made.rate, made.bound);
  EXPECT_EQ(check_plan(machine, made, 1).fault.value_or(""), "");
}

TEST(read_cluster_machine, reads_files_as_command_lines_name_them) {
  blink_test::fresh_folder const folder;
  auto const path = folder.name() + "/topology.conf";
  std::ofstream(path) << two_leaves;
  names asked;
  auto const read_one = [&](std::string const& text) {
    asked.push_back(text);
    return server(text == "small" ? 2 : 4);
  };
  auto const machine = read_cluster_machine(path, {"tux[0-2]=small", "big:1@rails=5"}, read_one);
  EXPECT_EQ(asked, (names{"small", "big:1@rails=5"}));
  EXPECT_EQ(machine.rank_positions().size(), 3 * 2U + 5 * 4U);
  EXPECT_ERROR((void)read_cluster_machine(path, {}, read_one),
               "topology.conf: no machine for its nodes, expected --node MACHINE");
  EXPECT_ERROR((void)read_cluster_machine(folder.name() + "/none", {"x"}, read_one),
               "/none: cannot be opened, expected the network of a cluster");
  EXPECT_ERROR((void)refuse_cluster(two_leaves, "t.conf"),
               "t.conf: the network of a cluster with 8 nodes, which does not say what a node is, "
               "expected --node MACHINE beside it");
}

// Every change of a file makes another cluster or an input_error, in bounded time.
TEST(read_cluster, mutants_are_read_or_refused) {
  std::vector<std::string> const texts{
      two_leaves + "SwitchName=s3 Nodes=a[01-02]b[1,3] LinkSpeed=400 \\\n Switches=s2\n",
      "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n3\nBlockSizes=2\n",
      "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n      - switch: s\n"
      "        children: a,b\n      - switch: a\n        nodes: n[1-2]\n      - switch: b\n"
      "        nodes: [n3, n4]\n",
      "{\"instances\": [{\"id\": \"a\", \"network_layers\": [\"s\", \"t\"]},\n"
      "{\"id\": \"b\", \"network_layers\": [\"s\"]}]}\n"};
  std::mt19937 random(11);
  std::string const letters = "=[]-,0129 \n#\\\"'{}:sSN\t\x80";
  auto const small = server(2);
  int read_count = 0, refused_count = 0;
  for (int i = 0; i < 4000; ++i) {
    auto text = texts[random() % texts.size()];
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      auto const at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = letters[random() % letters.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        case 2:
          text.insert(at, 1, letters[random() % letters.size()]);
          break;
        default: {  // a line twice
          auto const end = std::min(text.find('\n', at), text.size() - 1) + 1;
          text.insert(end, text.substr(at, end - at));
        }
      }
      if (text.empty()) text = "\n";
    }
    SCOPED_TRACE(text);
    try {
      auto const tree = read(text);
      if (tree.nodes.size() <= 64) validate(cluster_of(tree, {{"", small}}));
      ++read_count;
    } catch (input_error const&) {
      ++refused_count;
    }
  }
  EXPECT_GT(read_count, 500);
  EXPECT_GT(refused_count, 500);
}

}}  // namespace blink::read_cluster_test
