// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/make_plan.hpp>
#include <blink/topology/readers/hwloc_calls.hpp>
#include <blink/topology/readers/read_hwloc.hpp>
#include <blink/topology/subset.hpp>

#include "support/damaged_text.hpp"
#include "support/expect_error.hpp"
#include "support/machine_contents.hpp"
#include "support/sanitizers.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_hwloc_test { namespace {

using blink_test::labels_of;
using blink_test::remarks_of;
using blink_test::text_of;

using blink_test::error_of;
using blink_test::read_damaged;

std::string object(std::string const& type, std::string const& attributes,
                   std::string const& inside = "") {
  auto const start = "<object type=\"" + type + "\"" + (attributes.empty() ? "" : " ") + attributes;
  return inside.empty() ? start + "/>\n" : start + ">\n" + inside + "</object>\n";
}
std::string file(std::string const& inside, std::string const& behind = "",
                 std::string const& version = "2.0") {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
         "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology" +
         (version.empty() ? "" : " version=\"" + version + "\"") + ">\n" +
         object("Machine", "os_index=\"0\"", inside) + behind + "</topology>\n";
}
std::string host_bridge(std::string const& inside) {
  return object("Bridge", R"(bridge_type="0-1" depth="0")", inside);
}
std::string port(std::string const& bus, std::string const& rate, std::string const& inside) {
  return object("Bridge",
                "bridge_type=\"1-1\" pci_busid=\"0000:" + bus +
                    "\" pci_type=\"0604 [10b5:8725] [10b5:8725] ca\" pci_link_speed=\"" + rate +
                    "\"",
                inside);
}
std::string card(std::string const& bus, std::string const& type, std::string const& rate,
                 std::string const& inside = "") {
  return object("PCIDev",
                "pci_busid=\"0000:" + bus + "\" pci_type=\"" + type +
                    " [0000:0000] a1\" pci_link_speed=\"" + rate + "\"",
                inside);
}
std::string device(std::string const& name, std::string const& more = "") {
  return object("OSDev",
                "name=\"" + name + "\" osdev_type=\"1\"" + (more.empty() ? "" : " ") + more);
}
std::string gpu(std::string const& bus, std::string const& name, std::string const& rate,
                std::string const& more = "") {
  return card(bus, "0302 [10de:20b0]", rate, device(name, more));
}
std::string nic(std::string const& bus, std::string const& name, std::string const& rate) {
  return card(bus, "0207 [15b3:101b]", rate,
              object("OSDev", "name=\"hsi" + bus + "\" osdev_type=\"2\"") +
                  object("OSDev", "name=\"" + name + "\" osdev_type=\"3\""));
}
std::string const numa_node = object("NUMANode", "os_index=\"0\"");
std::string package(std::string const& inside) {
  return object("Package", "", numa_node + inside);
}

std::string matrix(std::string const& name, std::string const& indexes, std::string const& values,
                   int count) {
  bool const is_hetero = indexes.find(':') != std::string::npos;
  std::string const tag = is_hetero ? "distances2hetero" : "distances2";
  return "<" + tag + (is_hetero ? "" : " type=\"OSDev\" indexing=\"gp\"") + " nbobjs=\"" +
         std::to_string(count) + "\" kind=\"9\" name=\"" + name + "\">\n<indexes length=\"9\">" +
         indexes + "</indexes>\n<u64values length=\"9\">" + values + "</u64values>\n</" + tag +
         ">\n";
}

// Two processors. The first has a switch with two GPUs and an adapter, the second has two GPUs.
std::string const server =
    file(package(host_bridge(
             port("00:01.0", "15.753846",
                  port("01:00.0", "15.753846",
                       port("02:00.0", "31.507692", gpu("03:00.0", "nvml0", "31.507692")) +
                           port("02:01.0", "31.507692", gpu("04:00.0", "nvml1", "31.507692")) +
                           port("02:02.0", "31.507692", nic("05:00.0", "mlx5_0", "15.753846")))))) +
         package(host_bridge(port("80:01.0", "63.015385", gpu("81:00.0", "nvml2", "63.015385")) +
                             port("80:02.0", "2.000000", gpu("82:00.0", "nvml3", "31.507692")))));

topology read(std::string const& text, reading_options const& options = {}) {
  return read_hwloc(text, "t.xml", options);
}

/// The links in order of the nodes: "a - b pcie 12.5", once if the way back is the same.
std::vector<std::string> links_of(topology const& machine, link_kind only = link_kind::unknown) {
  auto links = machine.links;
  std::sort(links.begin(), links.end(), [](auto const& a, auto const& b) {
    return std::tie(a.tail, a.head, a.kind) < std::tie(b.tail, b.head, b.kind);
  });
  std::vector<std::string> result;
  std::map<std::string, int> seen;
  for (auto const& l : links) {
    if (only != link_kind::unknown && l.kind != only) continue;
    auto const label = [&](int at) { return machine.nodes[static_cast<std::size_t>(at)].label; };
    auto const behind =
        " " + std::string(to_text(l.kind)) + " " + machine.in_units(l.capacity).to_text();
    if (seen[label(l.head) + " - " + label(l.tail) + behind]-- > 0) continue;
    auto const text = label(l.tail) + " - " + label(l.head) + behind;
    ++seen[text];
    result.push_back(text);
  }
  return result;
}
using texts = std::vector<std::string>;

TEST(read_hwloc, switches_processors_and_links_follow_from_the_tree) {
  auto const machine = read(server);
  EXPECT_EQ(machine.name, "t");
  EXPECT_EQ(machine.rank_positions(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(labels_of(machine), (texts{"gpu0", "gpu1", "gpu2", "gpu3", "processor0",
                                       "pci 0000:01:00.0", "mlx5_0", "processor1"}));
  EXPECT_EQ(links_of(machine), (texts{"gpu0 - pci 0000:01:00.0 pcie 7876923/250000",
                                      "gpu1 - pci 0000:01:00.0 pcie 7876923/250000",
                                      "gpu2 - processor1 pcie 12603077/200000",
                                      "gpu3 - processor1 pcie 7876923/250000",
                                      "processor0 - pci 0000:01:00.0 pcie 7876923/500000",
                                      "processor0 - processor1 socket 16",
                                      "pci 0000:01:00.0 - mlx5_0 pcie 7876923/500000"}));
  EXPECT_SAYS(remarks_of(machine),
              "socket counts as 16 GB/s, as NCCL assumes between AMD processors");
  EXPECT_SAYS(remarks_of(machine), "the file states no NVLink, XGMI or Xe Link");
  EXPECT_EQ(machine.remarks.size(), 2u);
  // Into the first two GPUs goes half of the buffer, through the link up of 15.75 GB/s.
  auto const plan = make_plan(machine, {collective::all_gather, {}, planned_by::exact});
  EXPECT_EQ(plan.rate, rational(7876923, 250000));
  EXPECT_EQ(plan.bound, plan.rate);
}

TEST(read_hwloc, the_three_versions_say_the_same) {
  auto one = server;
  auto const replace = [](std::string& text, std::string const& from, std::string const& to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  // In hwloc 1 a NUMA node is around the socket.
  replace(one, numa_node, "");
  replace(one, "<object type=\"Package\">", "<object type=\"NUMANode\"><object type=\"Socket\">");
  replace(one, "</object>\n</object>\n<object type=\"NUMANode\"",
          "</object>\n</object>\n</object>\n<object type=\"NUMANode\"");
  replace(one, "</object>\n</topology>", "</object>\n</object>\n</topology>");
  replace(one, " version=\"2.0\"", "");
  EXPECT_EQ(links_of(read(one)), links_of(read(server)));
  auto three = server;
  replace(three, "version=\"2.0\"", "version=\"3.0\"");
  replace(three, "osdev_type=\"2\"", "osdev_type=\"16\"");
  replace(three, "osdev_type=\"3\"", "osdev_type=\"48\"");
  EXPECT_EQ(links_of(read(three)), links_of(read(server)));
  auto other = server;
  replace(other, "version=\"2.0\"", "version=\"4.2\"");
  EXPECT_SAYS(remarks_of(read(other)), "line 3: <topology>: version='4.2' is read as 3.0");
  EXPECT_ERROR((void)read(other, {{}, true}), "t.xml:3: <topology>: version='4.2'");
}

TEST(read_hwloc, both_ends_of_a_link_count_and_the_slowest_of_a_row) {
  auto const link = [](std::string const& port_rate, std::string const& gpu_rate) {
    auto const machine = read(
        file(package(host_bridge(port("00:01.0", port_rate, gpu("01:00.0", "nvml0", gpu_rate))))));
    return links_of(machine).front() + "\n" + remarks_of(machine);
  };
  // A driver wakes the GPU after lstopo has read the port, or the GPU sleeps.
  EXPECT_SAYS(link("2.0", "15.75"), "gpu0 - processor0 pcie 63/4\n");
  EXPECT_SAYS(link("15.75", "2.0"), "gpu0 - processor0 pcie 63/4\n");
  EXPECT_SAYS(link("0.000000", "15.75"), "pcie 63/4\n");
  EXPECT_SAYS(link("15.75", "0"), "pcie 63/4\n");
  EXPECT_SAYS(link("1", "1"), "pcie 1\n");
  EXPECT_SAYS(
      link("1", "1"),
      "line 9: <object>: links of GPUs state less than 3 GB/s, maybe because the GPUs were");
  EXPECT_SAYS(link("0", "0"), "pcie 63/2\n");
  EXPECT_SAYS(link("0", "0"),
              "pcie counts as 31.5 GB/s, Gen 4 x16, for 1 links of which the file "
              "states no rate, the first on line 9 (--link-rate pcie=GB/s)");
  // The switch in between has one input and one output.
  auto const row = [](std::string const& up, std::string const& down) {
    return links_of(
               read(file(package(host_bridge(port(
                   "00:01.0", up,
                   port("01:00.0", up, port("02:00.0", down, gpu("03:00.0", "nvml0", down)))))))))
        .front();
  };
  EXPECT_EQ(row("8", "16"), "gpu0 - processor0 pcie 8");
  EXPECT_EQ(row("16", "8"), "gpu0 - processor0 pcie 8");
  EXPECT_EQ(row("0", "8"), "gpu0 - processor0 pcie 8");
  // A port of a virtual machine may state more than the adapter behind it.
  auto const adapter = links_of(
      read(file(package(host_bridge(port("00:01.0", "63", nic("01:00.0", "mlx5_0", "15.75")) +
                                    port("00:02.0", "63", gpu("02:00.0", "nvml0", "63")))))));
  EXPECT_EQ(adapter, (texts{"gpu0 - processor0 pcie 63", "processor0 - mlx5_0 pcie 63/4"}));
}

TEST(read_hwloc, options_replace_what_is_assumed) {
  reading_options const options{{{link_kind::pcie, 12}, {link_kind::socket, 40}}};
  auto const machine = read(file(package(host_bridge(gpu("01:00.0", "nvml0", "0"))) +
                                 package(host_bridge(gpu("81:00.0", "nvml1", "31.5")))),
                            options);
  EXPECT_EQ(links_of(machine), (texts{"gpu0 - processor0 pcie 12", "gpu1 - processor1 pcie 63/2",
                                      "processor0 - processor1 socket 40"}));
  EXPECT_EQ(machine.remarks.size(), 1u) << remarks_of(machine);
}

TEST(read_hwloc, processors_have_the_rate_that_nccl_takes) {
  auto const rate = [](std::string const& infos) {
    auto const processor = [&](std::string const& devices) {
      return object("Package", "", infos + numa_node + host_bridge(devices));
    };
    auto const machine = read(file("<info name=\"Architecture\" value=\"x86_64\"/>\n" +
                                   processor(gpu("01:00.0", "nvml0", "31.5")) +
                                   processor(gpu("81:00.0", "nvml1", "31.5"))));
    return links_of(machine).back() + "\n" + remarks_of(machine);
  };
  EXPECT_SAYS(rate(R"(<info name="CPUVendor" value="GenuineIntel"/>
                      <info name="CPUModelNumber" value="143"/>)"),
              "socket 22\nsocket counts as 22 GB/s, as NCCL takes it for 'GenuineIntel': the file");
  EXPECT_SAYS(rate(R"(<info name="CPUVendor" value="Other"/>)"), "socket 16\n");
}

TEST(read_hwloc, a_processor_is_a_numa_node_or_what_is_around_several) {
  auto const group = [](std::string const& inside) {
    return object("Group", "", numa_node + inside);
  };
  auto const at = [](std::string const& bus, std::string const& name) {
    return host_bridge(gpu(bus, name, "16"));
  };
  // Two NUMA nodes of a package, a bridge of both, one of the machine, one inside a cache.
  auto const machine = read(file(
      object("Package", "",
             group(at("01:00.0", "nvml0")) + group(object("L3Cache", "", at("02:00.0", "nvml1"))) +
                 at("03:00.0", "nvml2")) +
      at("04:00.0", "nvml3") + host_bridge(gpu("05:00.0", "nvml4", "16"))));
  EXPECT_EQ(machine.nodes.size(), 5u + 4u);
  auto const links = links_of(machine);
  EXPECT_EQ(
      texts(links.begin(), links.begin() + 5),
      (texts{"gpu0 - processor2 pcie 16", "gpu1 - processor3 pcie 16", "gpu2 - processor1 pcie 16",
             "gpu3 - processor0 pcie 16", "gpu4 - processor0 pcie 16"}));
  EXPECT_EQ(links.size(), 5u + 6u);
  // Without NUMA nodes the packages part devices. A group inside a NUMA node does not.
  auto const packages = read(file(object("Package", "", at("01:00.0", "nvml0")) +
                                  object("Package", "", at("02:00.0", "nvml1"))));
  EXPECT_EQ(links_of(packages).back(), "processor0 - processor1 socket 16");
  auto const inner =
      read(file(package(object("Group", "", at("01:00.0", "nvml0")) + at("02:00.0", "nvml1"))));
  EXPECT_EQ(inner.nodes.size(), 3u);
}

TEST(read_hwloc, functions_of_an_adapter_share_its_slot) {
  auto const machine = read(
      file(package(host_bridge(nic("01:00.0", "mlx5_0", "16") + nic("01:00.1", "mlx5_1", "16") +
                               port("00:02.0", "8", gpu("02:00.0", "nvml0", "8")) +
                               card("03:00.0", "0108 [144d:a808]", "4", device("nvme0n1")) +
                               card("04:00.0", "0200 [8086:1521]", "1")))));
  EXPECT_EQ(links_of(machine), (texts{"gpu0 - processor0 pcie 8", "processor0 - mlx5_0 pcie 16",
                                      "mlx5_0 - mlx5_1 pcie 5000"}));
}

TEST(read_hwloc, gpus_are_those_that_drivers_name_in_the_order_of_their_numbers) {
  auto const order = [](std::string const& devices) {
    auto const machine = read(file(package(host_bridge(devices))));
    std::string result;
    for (auto const& text : links_of(machine)) result += text + "\n";
    return result + remarks_of(machine);
  };
  // The rate names the device here.
  EXPECT_SAYS(order(gpu("01:00.0", "nvml1", "11") + gpu("02:00.0", "nvml10", "12") +
                    gpu("03:00.0", "nvml0", "13")),
              "gpu0 - processor0 pcie 13\ngpu1 - processor0 pcie 11\ngpu10 - processor0 pcie 12\n");
  EXPECT_SAYS(order(gpu("01:00.0", "cuda1", "11") + gpu("02:00.0", "cuda0", "12")),
              "gpu0 - processor0 pcie 12\ngpu1 - processor0 pcie 11\n");
  // NVML's order counts. A program may have hidden GPUs from CUDA.
  EXPECT_SAYS(order(card("01:00.0", "0302 [10de:20b0]", "11", device("cuda0") + device("nvml1")) +
                    card("02:00.0", "0302 [10de:20b0]", "12", device("nvml0"))),
              "gpu0 - processor0 pcie 12\ngpu1 - processor0 pcie 11\n");
  // GPUs of two makers: by bus id.
  EXPECT_SAYS(order(card("03:00.0", "0380 [1002:7408]", "11", device("rsmi0")) +
                    card("01:00.0", "0380 [8086:0bd5]", "12", device("ze0"))),
              "gpu0 - processor0 pcie 12\ngpu1 - processor0 pcie 11\n");
  // OpenCL names GPUs of a class, if no other driver does.
  EXPECT_SAYS(order(card("02:00.0", "0300 [1002:66a1]", "11", device("opencl0d1")) +
                    card("01:00.0", "1200 [1002:74a1]", "12", device("opencl0d0")) +
                    card("03:00.0", "1100 [10ee:0000]", "13", device("opencl1d0"))),
              "gpu0 - processor0 pcie 12\ngpu1 - processor0 pcie 11\n");
  // Without a name: accelerators, but no screens.
  EXPECT_SAYS(
      order(device("opencl0d0") + card("04:00.0", "0300 [1a03:2000]", "9", device("card0")) +
            card("03:00.0", "0302 [10de:15f9]", "11", device("renderD128")) +
            card("01:00.0", "0380 [1002:7408]", "12")),
      "gpu0 - processor0 pcie 12\ngpu1 - processor0 pcie 11\n");
  auto const lost =
      order(gpu("01:00.0", "nvml0", "11") + card("02:00.0", "0302 [10de:20b0]", "12"));
  EXPECT_SAYS(lost,
              "gpu0 - processor0 pcie 11\n1 PCI devices look like GPUs, but no driver names "
              "them: they are no ranks, the first on line ");
  // A GPU without a PCI device.
  EXPECT_SAYS(order(gpu("01:00.0", "nvml0", "11") + device("nvml1")),
              "gpu0 - processor0 pcie 11\ngpu1 - processor0 pcie 63/2\n");
}

TEST(read_hwloc, gpus_have_the_uuids_that_drivers_state) {
  auto const named = [](std::string const& name, std::string const& key, std::string const& value) {
    auto const info = "<info name=\"Backend\" value=\"X\"/>\n<info name=\"" + key + "\" value=\"" +
                      value + "\"/>\n";
    return object("OSDev", "name=\"" + name + "\" osdev_type=\"1\"", info);
  };
  auto const first = [](std::string const& devices) {
    return read(file(package(host_bridge(devices)))).nodes.front();
  };
  auto const at = [&](std::string const& type, std::string const& inside) {
    return first(card("0b:00.0", type, "16", inside));
  };
  std::string const nvidia = "0302 [10de:20b0]", amd = "1200 [1002:74a0]";
  auto const plain = at(nvidia, named("nvml0", "NVIDIAUUID", "GPU-8932f937"));
  EXPECT_EQ(plain.uuids, texts{"GPU-8932f937"});
  EXPECT_EQ(plain.bus_id, "0000:0b:00.0");
  EXPECT_EQ(at(amd, named("rsmi0", "AMDUUID", "e54792172da5eeb")).uuids,
            texts{"GPU-0e54792172da5eeb"});
  EXPECT_EQ(
      at("0380 [8086:0bd5]", named("ze0", "LevelZeroUUID", "8680d50b2f0000000000000018000000"))
          .uuids,
      texts{"8680d50b2f0000000000000018000000"});
  // Another name of the GPU states it. Of a partition it may be that of another one.
  auto const other = named("other", "NVIDIAUUID", "GPU-1");
  EXPECT_EQ(at(nvidia, device("opencl0d0") + device("cuda0") + other).uuids, texts{"GPU-1"});
  EXPECT_TRUE(at(amd, device("rsmi0") + named("rsmi1", "AMDUUID", "1")).uuids.empty());
  EXPECT_TRUE(at(nvidia, named("nvml0", "NVIDIAUUID", "")).uuids.empty());
  EXPECT_TRUE(at(nvidia, named("nvml0", "SerialNumber", "GPU-1")).uuids.empty());
  auto const two =
      read(file(package(host_bridge(gpu("01:00.0", "nvml0", "11") + device("nvml1")))));
  EXPECT_EQ(two.nodes[0].bus_id, "0000:01:00.0");
  EXPECT_EQ(two.nodes[1].bus_id, "");
}

TEST(read_hwloc, partitions_of_a_card_share_its_links) {
  auto const partitions = [](int first) {
    auto const name = [&](int i) {
      return device("rsmi" + std::to_string(first + i),
                    "gp_index=\"" + std::to_string(10 + first + i) + "\"");
    };
    return card(std::to_string(first + 1) + "0:00.0", "1200 [1002:74a0]", "63", name(0) + name(1));
  };
  auto const machine = read(
      file(package(host_bridge(partitions(0) + partitions(2))),
           matrix("XGMIBandwidth", "10 11 12 13",
                  "9 7 128000 128000  7 9 128000 128000  128000 128000 9 7  128000 0 7 9", 4)));
  EXPECT_EQ(labels_of(machine), (texts{"gpu0", "gpu1", "gpu2", "gpu3", "processor0",
                                       "card 0000:10:00.0", "card 0000:30:00.0"}));
  EXPECT_EQ(
      links_of(machine),
      (texts{"gpu0 - card 0000:10:00.0 xgmi 5000", "gpu1 - card 0000:10:00.0 xgmi 5000",
             "gpu2 - card 0000:30:00.0 xgmi 5000", "gpu3 - card 0000:30:00.0 xgmi 5000",
             "processor0 - card 0000:10:00.0 pcie 63", "processor0 - card 0000:30:00.0 pcie 63",
             "card 0000:10:00.0 - card 0000:30:00.0 xgmi 128"}));
  EXPECT_SAYS(remarks_of(machine),
              "2 GPUs are partitions of one card (0000:10:00.0), whose links they share");
}

// GPUs with gp_index 10, 11, …, each at its own root port.
std::string gpus(int count) {
  std::string result;
  for (int i = 0; i < count; ++i) {
    auto const text = std::to_string(i);
    result += gpu("0" + text + ":00.0", "nvml" + text, "16", "gp_index=\"1" + text + "\"");
  }
  return result;
}
std::string nvswitch(std::string const& number) {
  return object("PCIDev", "pci_busid=\"0000:" + number +
                              ":00.0\" subtype=\"NVSwitch\" pci_type=\"0680 "
                              "[10de:1ac2] [0000:0000] a1\" gp_index=\"" +
                              number + "\"");
}
texts nvlinks(topology const& machine) {
  return links_of(machine, link_kind::nvlink);
}

TEST(read_hwloc, nvlinks_join_gpus_processors_and_switches) {
  // As on POWER: two links between the GPUs, two to the processor.
  auto const power =
      read(file(object("Package", "gp_index=\"3\"",
                       object("NUMANode", "gp_index=\"4\"") + host_bridge(gpus(2))),
                matrix("NVLinkBandwidth", "OSDev:10 OSDev:11 Package:3",
                       "1000000 40000 40000 40000 1000000 40000\n40000 40000 1000000", 3)));
  EXPECT_EQ(nvlinks(power), (texts{"gpu0 - gpu1 nvlink 40", "gpu0 - processor0 nvlink 40",
                                   "gpu1 - processor0 nvlink 40"}));
  EXPECT_EQ(remarks_of(power), "");
  // The two ways may differ.
  auto const uneven = read(file(package(host_bridge(gpus(2))),
                                matrix("NVLinkBandwidth", "10 11", "0 50000 25500 0", 2)));
  EXPECT_EQ(nvlinks(uneven), (texts{"gpu0 - gpu1 nvlink 50", "gpu1 - gpu0 nvlink 51/2"}));

  auto const switched = [](std::string const& values, int gpu_count) {
    auto const count = std::to_string(gpu_count);
    std::string indexes = "OSDev:10 OSDev:11 ";
    if (gpu_count == 3) indexes += "OSDev:12 ";
    return read(
        file(package(host_bridge(gpus(gpu_count) + nvswitch("50") + nvswitch("51"))),
             matrix("NVLinkBandwidth", indexes + "PCIDev:50 PCIDev:51", values, gpu_count + 2)));
  };
  // Both GPUs have the same links to each switch: one switch. The last GPU has none.
  auto const even = switched(
      "0 0 0 25000 50000  0 0 0 25000 50000  0 0 0 0 0 "
      "25000 25000 0 0 0  50000 50000 0 0 0",
      3);
  EXPECT_EQ(nvlinks(even), (texts{"gpu0 - nvswitch nvlink 75", "gpu1 - nvswitch nvlink 75"}));
  EXPECT_EQ(even.nodes.back().label, "nvswitch");
  EXPECT_EQ(even.remarks.size(), 0u) << remarks_of(even);
  // Boards of their own, as in a DGX-2.
  auto const boards = switched("0 0 25000 0  0 0 0 50000  25000 0 0 0  0 50000 0 0", 2);
  EXPECT_EQ(nvlinks(boards), (texts{"gpu0 - nvswitch nvlink 25", "gpu1 - nvswitch nvlink 50"}));
  EXPECT_SAYS(remarks_of(boards), "NVSwitches of 2 boards count as one: the file does not state");
  // A GPU has lost its links to one switch.
  auto const lost = switched("0 0 25000 25000  0 0 25000 0  25000 25000 0 0  25000 0 0 0", 2);
  EXPECT_EQ(nvlinks(lost), (texts{"gpu0 - nvswitch0 nvlink 25", "gpu0 - nvswitch1 nvlink 25",
                                  "gpu1 - nvswitch0 nvlink 25"}));
}

TEST(read_hwloc, eight_gpus_at_switches_have_the_known_bound) {
  std::string indexes, values;
  for (int i = 0; i < 9; ++i) {
    indexes += i < 8 ? "OSDev:1" + std::to_string(i) + " " : "PCIDev:50";
    for (int j = 0; j < 9; ++j) values += (i == 8) != (j == 8) ? "450000 " : "0 ";
  }
  auto const machine = read(file(package(host_bridge(gpus(8) + nvswitch("50"))),
                                 matrix("NVLinkBandwidth", indexes, values, 9)));
  auto const plan = make_plan(only_links(machine, link_kind::nvlink),
                              {collective::all_gather, {}, planned_by::exact});
  EXPECT_EQ(plan.rate, rational(8 * 450, 7));
  EXPECT_EQ(plan.bound, plan.rate);
}

TEST(read_hwloc, xgmi_that_is_the_same_everywhere_is_a_remark) {
  auto const read_xgmi = [](std::string const& rates, std::string const& hops,
                            bool is_strict = false) {
    return read(file(package(host_bridge(gpus(3))), matrix("XGMIBandwidth", "10 11 12", rates, 3) +
                                                        matrix("XGMIHops", "12 11 10", hops, 3)),
                {{}, is_strict});
  };
  std::string const equal = "1000000 100000 100000 100000 1000000 100000 100000 100000 1000000";
  auto const same = read_xgmi(equal, "0 1 1 1 0 1 1 1 0");
  EXPECT_SAYS(remarks_of(same), "<distances2>: hwloc states the same rate for all pairs");
  EXPECT_EQ(links_of(same, link_kind::xgmi),
            (texts{"gpu0 - gpu1 xgmi 100", "gpu0 - gpu2 xgmi 100", "gpu1 - gpu2 xgmi 100"}));
  EXPECT_ERROR((void)read_xgmi(equal, "0 1 1 1 0 1 1 1 0", true), "hwloc states the same rate");
  // Two links away is no link. The hops list the GPUs backwards.
  auto const path = read_xgmi(equal, "0 2 1 2 0 1 1 1 0");
  EXPECT_EQ(links_of(path, link_kind::xgmi),
            (texts{"gpu0 - gpu1 xgmi 100", "gpu0 - gpu2 xgmi 100"}));
  EXPECT_SAYS(remarks_of(path), "2 rates are of paths through other GPUs, and no links");
  EXPECT_EQ(read_xgmi("0 50000 0 50000 0 0 0 0 0", "0 0 1 0 0 1 1 1 0").remarks.size(), 0u);
}

TEST(read_hwloc, xe_links_of_tiles_are_in_the_sums_of_their_gpus) {
  auto const two_tiles = [](int number) {
    auto const text = std::to_string(number);
    auto const tile = [&](std::string const& which) {
      return object("OSDev",
                    "name=\"ze" + text + "." + which + "\" gp_index=\"2" + text + which + "\"");
    };
    return card("0" + text + ":00.0", "0380 [8086:0bd5]", "63",
                object("OSDev", "name=\"ze" + text + "\" gp_index=\"1" + text + "\"",
                       tile("0") + tile("1")));
  };
  auto const machine = read(file(package(host_bridge(two_tiles(0) + two_tiles(1))),
                                 matrix("XeLinkBandwidth", "10 200 201 11 210 211",
                                        "9 9 9 52000 0 0  9 9 9 0 26000 0  9 9 9 0 0 26000 "
                                        "52000 0 0 9 9 9  0 26000 0 9 9 9  0 0 26000 9 9 9",
                                        6)));
  EXPECT_EQ(links_of(machine, link_kind::xelink), (texts{"gpu0 - gpu1 xelink 52"}));
  EXPECT_EQ(remarks_of(machine), "");
}

TEST(read_hwloc, unknown_objects_and_indexes_are_remarks) {
  auto const text =
      file(package(object("Quantum", "", host_bridge(gpus(2))) + object("Quantum", "") +
                   object("Misc", "name=\"x\"", object("OSDev", "name=\"nvml7\""))),
           matrix("NVLinkBandwidth", "10 99", "0 25000 25000 0", 2) +
               matrix("NVLinkBandwidth", "10 11", "0 50000 50000 0", 2) +
               matrix("Other", "1 2", "bad", 7) + "<support name=\"x\"/>\n");
  auto const machine = read(text);
  EXPECT_EQ(machine.rank_positions().size(), 2u);
  EXPECT_EQ(nvlinks(machine), texts{});
  EXPECT_SAYS(remarks_of(machine), "line 7: <object>: unknown type 'Quantum'");
  EXPECT_SAYS(remarks_of(machine), "<distances2>: the index '99' is no object of the file");
  EXPECT_SAYS(remarks_of(machine), "<distances2>: a second 'NVLinkBandwidth' is not used");
  EXPECT_ERROR((void)read(text, {{}, true}), "t.xml:7: <object>: unknown type 'Quantum'");
  auto const bridge = read(file(package(object("Bridge", "gp_index=\"9\"", gpus(2))),
                                matrix("NVLinkBandwidth", "10 9", "0 25000 25000 0", 2)));
  EXPECT_SAYS(remarks_of(bridge), "gp_index 9 is no GPU, NVSwitch or processor");
}

TEST(read_hwloc, refuses_what_it_cannot_read) {
  auto const fails = [](std::string const& text, std::string const& part) {
    EXPECT_ERROR((void)read(text), part);
  };
  auto const one = [](std::string const& devices, std::string const& behind = "") {
    return file(package(host_bridge(devices)), behind);
  };
  fails("<topology version=\"2.0\">\n", "t.xml:1: not well-formed XML, or cut short");
  fails("<system version=\"1\"/>", "t.xml:1: <system>: expected <topology> of hwloc");
  fails("<topology version=\"2.0\"/>",
        "t.xml:1: <topology>: no <object>, expected a file of lstopo");
  fails(one(""),
        "t.xml:3: <topology>: no GPU found among 0 PCI devices, expected an OSDev such as "
        "nvml0, rsmi0, ze0 or cuda0, or a PCIDev of class 0302, 0380 or 1200; a computer "
        "without GPUs is the machine \"host\"");
  fails(one(card("01:00.0", "0300 [102b:0532]", "0", device("card0"))),
        "no GPU found among 1 PCI devices (1 drive screens)");
  fails("<topology><object/></topology>", "<object>: attribute type is missing");
  fails("<topology>" + object("OSDev", "name=\"nvml0\"") + "</topology>",
        "<object>: type='OSDev' outside a Machine");
  fails("<topology>" + object("Machine", "") + object("Machine", "") + "</topology>",
        "t.xml:2: <object>: a second machine, expected one in a file");
  fails(
      one(gpu("01:00.0", "nvml0", "fast")),
      "t.xml:8: <object>: pci_link_speed='fast', expected GB/s from 0 to 10000 with at most 6 dec");
  fails(one(gpu("01:00.0", "nvml0", "-1")), "pci_link_speed='-1', expected GB/s");
  fails(one(gpu("01:00.0", "nvml0", "1e6")), "pci_link_speed='1e6', expected GB/s");
  fails(one(gpu("01:00.0", "nvml0", "1") + gpu("02:00.0", "nvml0", "1")),
        "t.xml:12: <object>: name='nvml0' appears twice");
  fails(one(gpu("01:00.0", "nvml0", "1") +
            object("PCIDev", "pci_type=\"0380 [1002:7408]\"", device("rsmi0"))),
        "<object>: attribute pci_busid is missing");
  fails(one(card("zz:00.0", "0380 [1002:7408]", "1")),
        "pci_busid='0000:zz:00.0', expected a bus id");
  fails(one(device("nvml0", "gp_index=\"5\"") + device("nvml1", "gp_index=\"5\"")),
        "t.xml:9: <object>: gp_index='5' appears twice");
  fails(one(device("nvml0", "gp_index=\"-5\"")), "gp_index='-5', expected a number");
  fails(one(device("nvml0", "name=\"nvml1\"")), "attribute 'name' appears twice, expected once");
  fails(one(device("nvml0", "subtype=\"\xff\"")), "attribute 'subtype' holds");
  auto const bad = [&](std::string const& indexes, std::string const& values, int count) {
    return one(gpus(2), matrix("NVLinkBandwidth", indexes, values, count));
  };
  fails(bad("10", "0 1 1 0", 2), "<distances2>: 1 indexes, expected 2 for nbobjs='2'");
  fails(bad("10 11", "0 1 1", 2), "t.xml:17: <distances2>: 3 values, expected 4 for nbobjs='2'");
  fails(bad("10 11", "0 1 1 0 0", 2), "5 values, expected 4");
  fails(bad("10 11", "0 1 one 0", 2), "the value 'one', expected a number from 0 to 100000000");
  fails(bad("10 11", "0 1 99999999999999999999 0", 2), "the value '99999999999999999999'");
  fails(bad("10 10", "0 1 1 0", 2), "the index '10' appears twice");
  fails(bad("10 x", "0 1 1 0", 2), "the index 'x', expected a gp_index such as 702");
  fails(bad("10 11", "0 1 1 0", 5000), "nbobjs='5000', expected an integer from 1 to 4096");
  fails(one(gpus(2), "<distances2 name=\"NVLinkBandwidth\" indexing=\"os\" nbobjs=\"2\"/>"),
        "indexing='os', expected 'gp'");
}

TEST(read_hwloc, hostile_sizes_end_in_an_error) {
  constexpr int levels = 100'000;
  auto const nested = [](std::string const& start, std::string const& end) {
    std::string text = "<topology>";
    for (int i = 0; i < levels; ++i) text += start;
    for (int i = 0; i < levels; ++i) text += end;
    return text + "</topology>";
  };
  EXPECT_ERROR((void)read(nested("<object type=\"Group\">", "</object>")),
               "t.xml:1: <object>: more than 256 levels of objects");
  EXPECT_ERROR((void)read(nested("<info>", "</info>")), "<topology>: no <object>");
  std::string many, processors;
  for (int i = 0; i < 1025; ++i) {
    auto const name = device("nvml" + std::to_string(i));
    many += name;
    processors += i < 257 ? package(name) : "";
  }
  EXPECT_ERROR((void)read(file(package(many))), "1025 GPUs, expected at most 1024");
  EXPECT_ERROR((void)read(file(processors)), "257 processors with devices, expected at most 256");
  // Entities are text.
  auto entity = file(package(device("&a;")));
  entity.replace(entity.find("SYSTEM"), entity.find(".dtd") + 5 - entity.find("SYSTEM"),
                 "[<!ENTITY a \"nvml0\">]");
  EXPECT_ERROR((void)read(entity), "no GPU found");
}

TEST(read_hwloc, damaged_files_end_in_a_machine_or_an_error) {
  auto const text = file(
      object("Package", "gp_index=\"3\"",
             numa_node + host_bridge(port("00:01.0", "8", gpus(3) + nic("05:00.0", "mlx5_0", "8")) +
                                     nvswitch("50"))),
      matrix("NVLinkBandwidth", "OSDev:10 OSDev:11 OSDev:12 PCIDev:50 Package:3",
             "9 25000 0 50000 0  25000 9 0 50000 0  0 0 9 50000 40000  50000 50000 50000 9 0 "
             "0 0 40000 0 9",
             5));
  auto const read_one = [](std::string const& one) { validate(read(one)); };
  int const count = read_damaged(text, read_one);
  EXPECT_GT(count, 100);
  EXPECT_LT(count, 900);
}

TEST(read_hwloc, is_recognised_by_its_root) {
  EXPECT_TRUE(is_hwloc_xml(server));
  EXPECT_TRUE(is_hwloc_xml("<topology>"));
  EXPECT_TRUE(is_hwloc_xml("\n<!-- <system> --><!-- x -->\r\n<topology\nversion='2.0'>"));
  EXPECT_TRUE(is_hwloc_xml("<!DOCTYPE topology [ <!ENTITY a \">\"> ]><topology/>"));
  for (auto const* other : {"", "<", "<?xml", "<!-- <topology>", "<system version=\"1\"><topology>",
                            "<topologyx>", "topology", "{\"topology\": 1}", "<!DOCTYPE topology>",
                            "<!-- --> x <topology>", "\tGPU0\tGPU1\n<topology>"}) {
    EXPECT_FALSE(is_hwloc_xml(other)) << other;
  }
}

// The imitated library. It is global because its functions take no argument of the test.
struct played_hwloc {
  std::string fails;  ///< the call that fails
  std::string text;
  int filter = -1;
  int open_count = 0, text_count = 0;
};
played_hwloc now;

int result_of(char const* call) {
  return now.fails == call ? -1 : 0;
}

hwloc_calls played_calls() {
  hwloc_calls result{};
  result.init = [](void** topology) {
    if (result_of("init") != 0) return -1;
    *topology = &now;
    return ++now.open_count, 0;
  };
  result.set_io_filter = [](void*, int filter) { return now.filter = filter, result_of("filter"); };
  result.load = [](void*) { return result_of("load"); };
  result.export_xml = [](void*, char** text, int* bytes, unsigned long) {
    if (result_of("export") != 0) return -1;
    *text = now.text.data();
    *bytes = static_cast<int>(now.text.size()) + 1;
    return ++now.text_count, 0;
  };
  result.free_xml = [](void*, char*) { --now.text_count; };
  result.destroy = [](void*) { --now.open_count; };
  return result;
}

TEST(read_hwloc_live, reads_what_the_library_exports) {
  now = {};
  now.text = server;
  auto const machine = read_hwloc_live(played_calls(), {{{link_kind::socket, 20}}});
  EXPECT_EQ(machine.name, "this machine");
  EXPECT_EQ(links_of(machine, link_kind::socket), (texts{"processor0 - processor1 socket 20"}));
  EXPECT_EQ(now.filter, 3);
  now.text = file(package(""));
  EXPECT_ERROR((void)read_hwloc_live(played_calls()), "hwloc:3: <topology>: no GPU found");
  std::map<std::string, std::string> const calls{{"init", "hwloc_topology_init"},
                                                 {"filter", "hwloc_topology_set_io_types_filter"},
                                                 {"load", "hwloc_topology_load"},
                                                 {"export", "hwloc_topology_export_xmlbuffer"}};
  for (auto const& [name, function] : calls) {
    now.fails = name;
    EXPECT_ERROR((void)read_hwloc_live(played_calls()), "hwloc: " + function + " failed");
  }
  EXPECT_EQ(now.open_count, 0);
  EXPECT_EQ(now.text_count, 0);
}

TEST(read_hwloc_live, names_a_library_that_is_missing_or_another_one) {
  EXPECT_ERROR((void)load_hwloc("libno_such_hwloc.so"), "no hwloc: libno_such_hwloc.so");
  EXPECT_ERROR((void)load_hwloc("libm.so.6"),
               "libm.so.6: no function hwloc_topology_init, expected hwloc 2.1 or newer");
}

std::string const corpus = std::string(BLINK_SHARED_DIR) + "/topo-corpus/hwloc/";

TEST(read_hwloc_live, works_with_the_library_of_this_computer) {
  blink_test::leaks_of_others const in_plugins;
  hwloc_calls calls{};
  try {
    calls = load_hwloc();
  } catch (resource_error const& missing) {
    GTEST_SKIP() << missing.what();
  }
  auto const text = error_of([&] { (void)read_hwloc_live(calls); });
  EXPECT_TRUE(text == "no error" || text.find("no GPU found") != std::string::npos) << text;
  // The library reads files, also of hwloc 1, and writes them as hwloc 2 does.
  for (auto const* name : {"aws-p4d.24xl.xml", "eas-tioga.xml", "corona.xml"}) {
    SCOPED_TRACE(name);
    auto const path = corpus + name;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no corpus here";
    setenv("HWLOC_XMLFILE", path.c_str(), 1);
    auto const live = read_hwloc_live(calls);
    unsetenv("HWLOC_XMLFILE");
    auto const direct = read_hwloc(text_of(path), path);
    EXPECT_EQ(links_of(live), links_of(direct));
    EXPECT_EQ(labels_of(live), labels_of(direct));
  }
}

TEST(read_hwloc_corpus, agrees_with_the_facts) {
  if (!std::filesystem::exists(corpus)) GTEST_SKIP() << "no corpus here";
  // GPUs, and links of one direction by kind.
  struct facts {
    std::size_t ranks;
    std::map<link_kind, int> links;
    std::size_t nodes;
  };
  using kind = link_kind;
  std::map<std::string, facts> const known{
      {"aws-g6.48xl", {8, {{kind::pcie, 22}, {kind::socket, 2}}, 13}},
      {"aws-p4d.24xl", {8, {{kind::pcie, 32}, {kind::socket, 2}}, 18}},
      {"aws-p5en.48xl", {8, {{kind::pcie, 88}, {kind::socket, 2}}, 46}},
      {"coral-ea-hwloc1", {4, {{kind::pcie, 16}, {kind::socket, 2}}, 10}},
      {"corona", {8, {{kind::pcie, 22}, {kind::socket, 2}}, 13}},
      {"corona-rsmi240", {8, {{kind::pcie, 22}, {kind::socket, 2}}, 13}},
      {"eas-tioga", {8, {{kind::pcie, 26}, {kind::socket, 12}, {kind::xgmi, 56}}, 17}},
      {"epyc-corona", {4, {{kind::pcie, 14}, {kind::socket, 30}}, 13}},
      {"hwloc-40intel64-pcilocality", {}},
      {"hwloc-fakepcilocalities", {}},
      {"sierra", {4, {{kind::pcie, 20}, {kind::socket, 2}}, 12}}};
  for (auto const& [name, expected] : known) {
    SCOPED_TRACE(name);
    auto const path = corpus + name + ".xml";
    auto const text = text_of(path);
    EXPECT_TRUE(is_hwloc_xml(text));
    if (expected.ranks == 0) {
      EXPECT_ERROR((void)read_hwloc(text, path), name + ".xml:3: <topology>: no GPU found among");
      continue;
    }
    auto const machine = read_hwloc(text, path);
    EXPECT_EQ(machine.name, name);
    EXPECT_EQ(machine.rank_positions().size(), expected.ranks);
    EXPECT_EQ(machine.nodes.size(), expected.nodes);
    std::map<link_kind, int> links;
    for (auto const& l : machine.links) ++links[l.kind];
    EXPECT_EQ(links, expected.links);
    auto const plan = make_plan(machine, {collective::all_reduce, {}, planned_by::exact});
    EXPECT_EQ(plan.rate, plan.bound);
  }
}

}}  // namespace blink::read_hwloc_test
