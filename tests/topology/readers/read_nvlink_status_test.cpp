// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/readers/detail/gpu_models.hpp>
#include <blink/topology/readers/detail/nvlink_status.hpp>
#include <blink/topology/readers/detail/peer_access.hpp>
#include <blink/topology/readers/read_nvlink_status.hpp>
#include <blink/topology/readers/read_smi_matrix.hpp>
#include <blink/topology/select_devices.hpp>

#include "support/damaged_text.hpp"
#include "support/expect_error.hpp"
#include "support/machine_contents.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_nvlink_status_test { namespace {

using blink_test::remarks_of;
using blink_test::text_of;

std::string const table =
    "\tGPU0\tGPU1\tGPU2\tCPU Affinity\n"
    "GPU0\t X \tNV2\tSYS\t0-19\n"
    "GPU1\tNV2\t X \tSYS\t0-19\n"
    "GPU2\tSYS\tSYS\t X \t20-39\n"
    "\n"
    "Legend:\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n";

std::string const status =
    "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    "\t Link 0: 25 GB/s\n"
    "\t Link 1: 25 GB/s\n"
    "GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    "\t Link 0: 25.781 GB/s\n"
    "\t Link 1: <inactive>\n"
    "\t Link 11: <inactive>\n"
    "GPU 2: NVIDIA A100-SXM4-80GB\n"
    "NVML: Unable to retrieve NVLink information as all links are inactive\n";

std::string const access =
    " \tGPU0\tGPU1\tGPU2\t\n"
    " GPU0\tX\tOK\tNS\t\n"
    " GPU1\tOK\tX\tCNS\t\n"
    " GPU2\tNS\tCNS\tX\t\n";

std::string const mig_list =
    "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0aaa)\n"
    "  MIG 1g.10gb     Device  0: (UUID: MIG-0000)\n"
    "  MIG 1c.3g.40gb  Device  3: (UUID: MIG-3333)\n"
    "  MIG 1g.10gb+me  Device 11:\n"
    "GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-1bbb)\n"
    "  MIG 7g.80gb Device 0: (UUID: MIG-GPU-1bbb/7/0)\n";

using texts = std::vector<std::string>;
using pairs = std::set<std::pair<int, int>>;

rational rate_of(topology const& machine, link_kind kind) {
  for (auto const& l : machine.links) {
    if (l.kind == kind) return machine.in_units(l.capacity);
  }
  return 0;
}

TEST(nvlink_status, lists_models_and_links) {
  auto const found = detail::read_nvlink_lines(table + status);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found.at(0).model, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(found.at(0).links.size(), 2U);
  auto const& one = found.at(1);
  ASSERT_EQ(one.links.size(), 3U);
  EXPECT_EQ(one.links.at(0), rational(25781, 1000));
  EXPECT_EQ(one.links.at(1), std::nullopt);
  EXPECT_EQ(one.links.at(11), std::nullopt);
  EXPECT_FALSE(one.has_none_active);
  EXPECT_EQ(found.at(2).model, "NVIDIA A100-SXM4-80GB");
  EXPECT_TRUE(found.at(2).has_none_active);
  EXPECT_EQ(
      detail::inactive_nvlinks(found),
      (std::vector<std::string>{"GPU1: inactive NVLinks 1, 11", "GPU2: all NVLinks are inactive"}));
  for (auto const* other : {"", "GPU 0:", "GPU 99999: x", "GPU x: y", "Link 0: 25 GB/s",
                            "GPU 0: (UUID: x)", "GPU0 X NV1"}) {
    EXPECT_TRUE(detail::read_nvlink_lines(other).empty()) << other;
  }
  auto const odd =
      detail::read_nvlink_lines("GPU 7: X\r\nLink 0: fast\nLink one: 5 GB/s\nLink 2:\n");
  EXPECT_TRUE(odd.at(7).links.empty());
}

TEST(nvlink_status, lists_uuids_and_mig_devices) {
  auto const found = detail::read_nvlink_lines(mig_list + status);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found.at(0).model, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(found.at(0).uuids, (texts{"GPU-0aaa", "GPU-00000000-0000-0000-0000-000000000000"}));
  EXPECT_EQ(found.at(0).parts,
            (std::map<int, std::string>{{0, "MIG-0000"}, {3, "MIG-3333"}, {11, ""}}));
  EXPECT_EQ(found.at(0).links.size(), 2U);
  EXPECT_EQ(found.at(1).parts, (std::map<int, std::string>{{0, "MIG-GPU-1bbb/7/0"}}));
  EXPECT_TRUE(found.at(2).uuids.empty());
  EXPECT_TRUE(found.at(2).parts.empty());
  EXPECT_TRUE(detail::read_nvlink_lines("MIG 1g.5gb Device 0: (UUID: MIG-0)").empty());
  auto const odd = detail::read_nvlink_lines(
      "GPU 0: X (UUID: )\nMIG Device 0: (UUID: a)\nMIG 1g.5gb Device x: (UUID: a)\nMIG 1g.5gb\n"
      "MIG 1g.5gb Device 99999: (UUID: a)\n");
  EXPECT_TRUE(odd.at(0).uuids.empty());
  EXPECT_TRUE(odd.at(0).parts.empty());
}

TEST(nvlink_status, uuids_beside_the_table_are_those_of_the_ranks) {
  auto const list =
      "GPU 0: A (UUID: GPU-0aaa)\r\nGPU 2: A (UUID: GPU-2ccc)\nGPU 7: A (UUID: GPU-7777)\n";
  for (auto const& text : {table + list, list + table}) {
    auto const machine = read_smi_matrix(text, "t");
    EXPECT_EQ(machine.nodes[0].uuids, texts{"GPU-0aaa"});
    EXPECT_TRUE(machine.nodes[1].uuids.empty());
    EXPECT_EQ(machine.nodes[2].uuids, texts{"GPU-2ccc"});
    EXPECT_SAYS(remarks_of(machine), "the table does not name GPU7, which is listed beside it\n");
  }
  EXPECT_SAYS(remarks_of(read_smi_matrix(table + mig_list + status, "t")),
              "GPU0 has several UUIDs (GPU-0aaa and GPU-00000000-0000-0000-0000-000000000000): the "
              "lists may be of different hosts\n");
}

TEST(nvlink_status, mig_devices_beside_the_table_are_ranks) {
  auto const machine = read_smi_matrix(table + mig_list, "t");
  EXPECT_EQ(blink_test::labels_of(machine),
            (texts{"gpu0:0", "gpu0:3", "gpu0:11", "gpu1:0", "gpu2", "processor0", "processor1",
                   "gpu0 to host", "gpu0 from host", "gpu1 to host", "gpu1 from host"}));
  EXPECT_EQ(machine.rank_positions(), (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(machine.nodes[1].uuids, texts{"MIG-3333"});
  EXPECT_TRUE(machine.nodes[2].uuids.empty());
  EXPECT_EQ(machine.nodes[3].uuids, texts{"MIG-GPU-1bbb/7/0"});
  EXPECT_EQ(machine.nodes[7].uuids, texts{"GPU-0aaa"});
  EXPECT_TRUE(machine.nodes[8].uuids.empty());
  EXPECT_EQ(rate_of(machine, link_kind::nvlink), rational(0));
  EXPECT_SAYS(remarks_of(machine),
              "3 MIG devices share the links of gpu0 to its host, no NVLink and no direct path to "
              "other GPUs\n1 MIG device has the links of gpu1 to its host, ");
  for (auto const* list : {"0:3,gpu-0aaa", "GPU-0aaa"}) {
    EXPECT_ERROR((void)select_devices(machine, list, "--ranks", device_numbers::labels),
                 "a GPU that is split, expected one of 0 (MIG-0000), 1 (MIG-3333), 2 (gpu0:11)");
  }
}

TEST(gpu_models, are_found_as_whole_words) {
  using detail::gpu_model_of;
  EXPECT_EQ(gpu_model_of("Tesla V100-SXM2-32GB")->sm, 70);
  EXPECT_EQ(gpu_model_of("NVIDIA A100-SXM4-80GB")->sm, 80);
  EXPECT_EQ(gpu_model_of("NVIDIA GeForce RTX 3090 Ti")->sm, 86);
  EXPECT_EQ(gpu_model_of("NVIDIA RTX A6000")->pcie, "16 GT/s");
  EXPECT_EQ(gpu_model_of("NVIDIA H200 NVL")->name, "H200");
  EXPECT_EQ(gpu_model_of("NVIDIA H20")->name, "H20");
  EXPECT_EQ(gpu_model_of("NVIDIA B200")->sm, 100);
  EXPECT_EQ(gpu_model_of("NVIDIA GB200")->pcie, "");
  EXPECT_EQ(gpu_model_of("NVIDIA L40S")->sm, 0);
  EXPECT_EQ(gpu_model_of("NVIDIA A10")->sm, 0);
  EXPECT_EQ(gpu_model_of("NVIDIA RTX PRO 6000 Blackwell Server Edition")->pcie, "32 GT/s");
  for (auto const* unknown : {"", "A1000", "XA100", "Radeon", "RTX3090"}) {
    EXPECT_EQ(gpu_model_of(unknown), std::nullopt) << unknown;
  }
}

TEST(nvlink_status, models_beside_the_table_set_rates) {
  auto const plain = read_smi_matrix(table, "t");
  EXPECT_EQ(rate_of(plain, link_kind::nvlink), rational(50));
  for (auto const& text : {table + status, status + "\n" + table}) {
    auto const machine = read_smi_matrix(text, "t");
    EXPECT_EQ(rate_of(machine, link_kind::nvlink), rational(50));
    EXPECT_EQ(rate_of(machine, link_kind::pcie), rational(24));
    auto const remarks = remarks_of(machine);
    EXPECT_SAYS(remarks, "GPU1: inactive NVLinks 1, 11\n");
    EXPECT_SAYS(remarks, "GPU2: all NVLinks are inactive\n");
    EXPECT_SAYS(remarks, "nvlink counts as 25 GB/s, one link of A100: ");
    EXPECT_SAYS(remarks, "pcie counts as 24 GB/s, x16 of A100: ");
  }
  struct row {
    std::string models;
    rational nvlink, pcie;
  };
  for (auto const& [models, nvlink, pcie] : std::vector<row>{
           {"GPU 0: Tesla V100-SXM2-32GB (UUID: x)\n", 50, 12},
           {"GPU 0: NVIDIA B200\n", 100, 48},
           {"GPU 0: NVIDIA GB200\n", 100, 24},
           {"GPU 0: NVIDIA GeForce RTX 3090\n", rational(225, 8), 24},
           {"GPU 0: NVIDIA B200\nGPU 1: NVIDIA H200\n", 50, 48},
           {"GPU 0: NVIDIA L40S\n", 50, 24},  // has no NVLink, yet the table says so
           {"GPU 0: unheard of\n", 50, 24},
       }) {
    SCOPED_TRACE(models);
    auto const machine = read_smi_matrix(models + table, "t");
    EXPECT_EQ(rate_of(machine, link_kind::nvlink), nvlink);
    EXPECT_EQ(rate_of(machine, link_kind::pcie), pcie);
    reading_options const given{{{link_kind::nvlink, 20}, {link_kind::pcie, 10}}};
    auto const set = read_smi_matrix(models + table, "t", given);
    EXPECT_EQ(rate_of(set, link_kind::nvlink), rational(40));
    EXPECT_EQ(rate_of(set, link_kind::pcie), rational(10));
  }
}

TEST(nvlink_status, alone_it_is_no_machine) {
  EXPECT_TRUE(is_nvlink_status(status));
  EXPECT_FALSE(is_nvlink_status(table));
  EXPECT_TRUE(is_nvlink_status("GPU 0: Tesla V100 (UUID: x)\n"));
  EXPECT_FALSE(is_nvlink_status("GPU 0: Tesla V100\n"));
  EXPECT_FALSE(is_smi_matrix(status));
  EXPECT_ERROR(
      (void)read_nvlink_status(status, "t.txt"),
      "t.txt: the output of nvidia-smi nvlink -s or -L, which does not say where the links go, "
      "expected that of nvidia-smi topo -m beside it");
}

TEST(peer_access, pairs_without_ok_are_a_remark) {
  auto const without = [](std::string const& text) {
    return detail::peer_access_reader(text).pairs_without();
  };
  EXPECT_EQ(without(access), (pairs{{0, 2}, {1, 2}}));
  EXPECT_EQ(without("nvidia-smi topo -p2p r\n" + access), (pairs{{0, 2}, {1, 2}}));
  EXPECT_TRUE(without("nvidia-smi topo -p2p n\n" + access).empty());
  EXPECT_TRUE(without("nvidia-smi topo -p2p a\n" + access).empty());
  EXPECT_TRUE(without(table).empty());
  EXPECT_TRUE(without("GPU0 GPU1\nGPU0 X NS NS\nGPU1 NS X\n").empty());  // a row of another width
  for (auto const& text : {table + "\n" + access, table + access, access + "\n" + table}) {
    auto const machine = read_smi_matrix(text, "t");
    EXPECT_EQ(machine.rank_positions().size(), 3U);
    EXPECT_EQ(rate_of(machine, link_kind::nvlink), rational(50));
    EXPECT_SAYS(remarks_of(machine),
                "no peer access between GPU0 and GPU2, GPU1 and GPU2 (topo -p2p): they exchange "
                "data through the host's memory\n");
  }
  EXPECT_ERROR((void)read_smi_matrix(access, "t.txt"), "a table of topo -p2p");
  std::string names, rows;
  for (int i = 0; i < 5; ++i) {
    names += " GPU" + std::to_string(i);
    rows += "GPU" + std::to_string(i);
    for (int j = 0; j < 5; ++j) rows += i == j ? " X" : " GNS";
    rows += "\n";
  }
  EXPECT_SAYS(remarks_of(read_smi_matrix(table + names + "\n" + rows, "t")),
              "GPU1 and GPU2, GPU1 and GPU3 and 4 more pairs (topo -p2p)");
}

TEST(nvlink_status, damaged_texts_end_in_a_machine_or_an_error) {
  int const read = blink_test::read_damaged(
      table + mig_list + status + access,
      [](std::string const& text) { validate(read_smi_matrix(text, "t.txt")); });
  EXPECT_GT(read, 50);
  EXPECT_LT(read, 999);
}

TEST(nvlink_status_corpus, agrees_with_the_facts) {
  std::string const folder = std::string(BLINK_SHARED_DIR) + "/topo-corpus/nvidia-smi/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no corpus here";
  struct facts {
    std::string file, model;
    std::size_t gpus, links;
    rational rate;
    int inactive;
  };
  for (auto const& [file, model, gpus, links, rate, inactive] : std::vector<facts>{
           {"nvlink-s-a100x8.txt", "NVIDIA A100-SXM4-80GB", 8, 12, 25, 0},
           {"nvlink-s-rtx3090x2.txt", "NVIDIA GeForce RTX 3090", 2, 4, rational(14062, 1000), 0},
           {"nvlink-s-v100-inactive.txt", "Tesla V100-SXM2-32GB", 7, 6, rational(25781, 1000), 6},
       }) {
    SCOPED_TRACE(file);
    auto const text = text_of(folder + file);
    auto const found = detail::read_nvlink_lines(text);
    EXPECT_EQ(found.size(), gpus);
    int off = 0;
    for (auto const& [number, gpu] : found) {
      EXPECT_EQ(gpu.model, model);
      EXPECT_EQ(gpu.links.size(), links);
      for (auto const& [link, its_rate] : gpu.links) {
        off += its_rate ? 0 : 1;
        EXPECT_EQ(its_rate.value_or(rate), rate);
      }
    }
    EXPECT_EQ(off, inactive);
    EXPECT_TRUE(is_nvlink_status(text));
    EXPECT_FALSE(is_smi_matrix(text));
  }
  auto const yard = read_smi_matrix(text_of(folder + "yard-v100x8-nolegend.txt"), "yard");
  EXPECT_SAYS(remarks_of(yard), "nvlink counts as 25 GB/s, one link of V100: ");
  EXPECT_SAYS(remarks_of(yard), "pcie counts as 12 GB/s, x16 of V100: ");
  auto const pair = read_smi_matrix(text_of(folder + "rtx3090x2-reflowed.txt"), "pair");
  EXPECT_SAYS(remarks_of(pair), "no peer access between GPU0 and GPU1 (topo -p2p)");
  EXPECT_EQ(
      detail::peer_access_reader(text_of(folder + "p2p-perfkit-4gpu-pairs.txt")).pairs_without(),
      (pairs{{0, 2}, {0, 3}, {1, 2}, {1, 3}}));
}

}}  // namespace blink::read_nvlink_status_test
