// SPDX-License-Identifier: Apache-2.0 The machine of a driver. The test imitates the library's
// functions and Linux's files for a DGX-1V, a DGX-2 and a server with PCIe only.
#include <blink/topology/machines.hpp>
#include <blink/topology/readers/nvml_calls.hpp>
#include <blink/topology/readers/read_driver.hpp>
#include <blink/topology/subset.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_driver_test { namespace {

/// A MIG device of the imitated driver.
struct played_part {
  std::string uuid;
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
  int fault = 0;  ///< of the call for its handle: 6 for a number that is free
};
/// A GPU of the imitated driver.
struct played_gpu {
  std::string bus_id;
  std::vector<std::string> links;  ///< bus ids at the far ends; "switch" and a number for a switch
  std::string uuid{};              ///< empty: the driver hides it
  int mig_fault = 3;               ///< of the call for the MIG mode: 3 for a GPU without it
  bool is_split = false;
  std::vector<played_part> parts{};
};
/// The imitated driver. It is a global variable because its functions take no argument of the test.
struct played_driver {
  std::vector<played_gpu> gpus;
  int sm = 70;
  bool reports_types = true;
  bool knows_mig = true;
  int fails_at = -1;   ///< the GPU whose calls fail; -1 for none
  int open_count = 0;  ///< NVML initialised and not yet shut down
};
played_driver now;

played_gpu& gpu_at(void* handle) {
  return *static_cast<played_gpu*>(handle);
}
void write_bus_id(nvml_pci_info* info, std::string const& id) {
  std::snprintf(info->bus_id, sizeof info->bus_id, "%s", id.c_str());
}
played_part* part_at(void* handle) {
  for (auto& gpu : now.gpus) {
    for (auto& part : gpu.parts) {
      if (&part == handle) return &part;
    }
  }
  return nullptr;
}
int write_uuid(void* handle, char* text, unsigned bytes) {
  auto const* const part = part_at(handle);
  auto const& uuid = part != nullptr ? part->uuid : gpu_at(handle).uuid;
  if (uuid.empty()) return 3;
  std::snprintf(text, bytes, "%s", uuid.c_str());
  return 0;
}
void add_mig(nvml_calls& result) {
  result.mig_mode = [](void* handle, unsigned* current, unsigned* later) {
    *current = *later = gpu_at(handle).is_split ? 1 : 0;
    return gpu_at(handle).mig_fault;
  };
  result.mig_count = [](void* handle, unsigned* most) {
    *most = static_cast<unsigned>(gpu_at(handle).parts.size());
    return 0;
  };
  result.mig_device = [](void* handle, unsigned index, void** part) {
    auto& its = gpu_at(handle).parts[index];
    *part = &its;
    return its.fault;
  };
  result.gpu_instance = [](void* handle, unsigned* id) {
    *id = part_at(handle)->gpu_instance;
    return 0;
  };
  result.compute_instance = [](void* handle, unsigned* id) {
    *id = part_at(handle)->compute_instance;
    return 0;
  };
}
std::string on_eight_digits(std::string const& id) {
  return "0000" + id;
}

nvml_calls calls() {
  nvml_calls result{};
  result.init = [] { return ++now.open_count, 0; };
  result.shutdown = [] { return --now.open_count, 0; };
  result.error_text = [](int) -> char const* { return "GPU is lost"; };
  result.device_count = [](unsigned* count) {
    *count = static_cast<unsigned>(now.gpus.size());
    return 0;
  };
  result.device = [](unsigned index, void** handle) {
    *handle = &now.gpus[index];
    return static_cast<int>(index) == now.fails_at ? 15 : 0;
  };
  result.pci_info = [](void* handle, nvml_pci_info* info) {
    write_bus_id(info, on_eight_digits(gpu_at(handle).bus_id));
    return 0;
  };
  result.capability = [](void*, int* major, int* minor) {
    *major = now.sm / 10;
    *minor = now.sm % 10;
    return 0;
  };
  result.nvlink_state = [](void* handle, unsigned link, unsigned* is_active) {
    auto const& links = gpu_at(handle).links;
    if (link >= links.size()) return 2;
    *is_active = links[link].empty() ? 0 : 1;
    return 0;
  };
  result.nvlink_remote = [](void* handle, unsigned link, nvml_pci_info* info) {
    auto const& far = gpu_at(handle).links[link];
    write_bus_id(info, on_eight_digits(far));
    return 0;
  };
  if (now.reports_types) {
    result.nvlink_remote_type = [](void* handle, unsigned link, unsigned* type) {
      *type = gpu_at(handle).links[link].starts_with("0000:f") ? 2 : 0;
      return 0;
    };
  }
  result.uuid = write_uuid;
  if (now.knows_mig) add_mig(result);
  return result;
}

/// Linux's files about PCI. Each GPU is below a switch, which is below a root port of its NUMA
/// node.
class played_linux {
 public:
  played_linux(std::size_t gpus, std::size_t gpus_of_switch, std::size_t gpus_of_numa) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "devices");
    write(folder_ / "cpuinfo",
          "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 79\n\n"
          "processor\t: 1\nvendor_id\t: other\n");
    for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
      std::size_t const at_switch = gpu / gpus_of_switch;
      auto const numa = std::to_string(gpu / gpus_of_numa);
      auto const bridge =
          folder_ / "sys" / "pci0000:00" / ("0000:" + two_digits(0x10 + 4 * at_switch) + ":00.0");
      place(bridge, "0x060400", numa);
      place(bridge / bus_id(gpu, gpus_of_switch), "0x030200", numa);
    }
  }
  ~played_linux() { std::filesystem::remove_all(folder_); }
  [[nodiscard]] driver_options options() const {
    driver_options result;
    result.pci_devices = (folder_ / "devices").string();
    result.processors = (folder_ / "cpuinfo").string();
    return result;
  }
  static std::string bus_id(std::size_t gpu, std::size_t gpus_of_switch) {
    return "0000:" + two_digits(0x11 + 4 * (gpu / gpus_of_switch) + gpu % gpus_of_switch) + ":00.0";
  }
  void add_switch(std::string const& bus_id) {
    place(folder_ / "sys" / "pci0000:00" / bus_id, "0x068000", "0");
  }

 private:
  static std::string two_digits(std::size_t number) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%02zx", number);
    return text.data();
  }
  static void write(std::filesystem::path const& file, std::string const& text) {
    std::ofstream(file) << text;
  }
  void place(std::filesystem::path const& at, std::string const& pci_class,
             std::string const& numa) {
    std::filesystem::create_directories(at);
    write(at / "class", pci_class + "\n");
    write(at / "vendor", "0x10de\n");
    write(at / "max_link_speed", "8.0 GT/s PCIe\n");
    write(at / "max_link_width", "16\n");
    write(at / "numa_node", numa + "\n");
    auto const link = folder_ / "devices" / at.filename();
    if (!std::filesystem::exists(link)) std::filesystem::create_directory_symlink(at, link);
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("blink_played_linux_" + std::to_string(getpid()));
};

/// NVLink capacities between ranks, in GB/s. Switches have the number -1.
std::map<std::pair<int, int>, std::int64_t> nvlinks_of(topology const& machine) {
  std::map<int, int> number;  // by position: the rank, or -1 for a switch
  int rank = 0;
  for (std::size_t at = 0; at < machine.nodes.size(); ++at) {
    number[static_cast<int>(at)] = machine.nodes[at].kind == node_kind::rank ? rank++ : -1;
  }
  std::map<std::pair<int, int>, std::int64_t> result;
  for (auto const& one : machine.links) {
    if (one.kind != link_kind::nvlink) continue;
    result[{number[one.tail], number[one.head]}] += one.capacity / machine.steps_per_unit;
  }
  return result;
}

/// Makes the imitated driver list the NVLinks of a machine, of 25 GB/s each.
void play(topology const& machine, std::size_t gpus_of_switch) {
  now = {};
  std::size_t const gpus = machine.rank_positions().size();
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    now.gpus.push_back({played_linux::bus_id(gpu, gpus_of_switch), {}});
  }
  for (auto const& [ends, capacity] : nvlinks_of(machine)) {
    if (ends.first < 0) continue;
    for (std::int64_t link = 0; link < capacity / 25; ++link) {
      auto& links = now.gpus[static_cast<std::size_t>(ends.first)].links;
      links.push_back(ends.second < 0 ? "0000:f" + std::to_string(link % 6) + ":00.0"
                                      : now.gpus[static_cast<std::size_t>(ends.second)].bus_id);
    }
  }
}

TEST(read_driver, finds_the_links_of_a_dgx1_v) {
  auto const machine = machines::dgx1v();
  play(machine, 2);
  now.gpus[0].links.insert(now.gpus[0].links.begin(), "");  // a link that is down
  played_linux const linux_files(8, 2, 4);
  auto const found = read_driver(calls(), linux_files.options());
  EXPECT_EQ(nvlinks_of(found), nvlinks_of(machine));
  EXPECT_EQ(now.open_count, 0);
  // Two GPUs share a PCIe switch, and four share a processor.
  std::map<std::string, int> pcie;
  for (auto const& one : found.links) {
    if (one.kind == link_kind::pcie) ++pcie[found.nodes[static_cast<std::size_t>(one.head)].label];
  }
  EXPECT_EQ(pcie["pci 0000:10:00.0"], 3);
  EXPECT_EQ(pcie["numa0"], 2);
  EXPECT_EQ(pcie["numa1"], 2);
}

TEST(read_driver, finds_the_switch_of_a_dgx2) {
  auto const machine = machines::dgx2();
  play(machine, 2);
  played_linux const linux_files(16, 2, 8);
  EXPECT_EQ(nvlinks_of(read_driver(calls(), linux_files.options())), nvlinks_of(machine));
}

TEST(read_driver, asks_linux_what_is_at_the_far_end_of_a_link) {
  auto const machine = machines::dgx2();
  play(machine, 2);
  now.reports_types = false;
  played_linux linux_files(16, 2, 8);
  for (int k = 0; k < 6; ++k) linux_files.add_switch("0000:f" + std::to_string(k) + ":00.0");
  EXPECT_EQ(nvlinks_of(read_driver(calls(), linux_files.options())), nvlinks_of(machine));
}

TEST(read_driver, a_box_without_nvlink_has_pcie_paths_only) {
  now = {};
  for (std::size_t gpu = 0; gpu < 4; ++gpu) now.gpus.push_back({played_linux::bus_id(gpu, 4), {}});
  played_linux const linux_files(4, 4, 4);
  auto const found = read_driver(calls(), linux_files.options());
  EXPECT_TRUE(nvlinks_of(found).empty());
  EXPECT_EQ(found.rank_positions().size(), 4U);
  for (auto const& one : found.links) EXPECT_EQ(one.kind, link_kind::pcie);
}

TEST(read_driver, takes_the_gpus_that_are_asked_for_in_their_order) {
  auto const machine = machines::dgx1v();
  play(machine, 2);
  played_linux const linux_files(8, 2, 4);
  auto options = linux_files.options();
  std::vector<int> const chosen{5, 1, 0, 4};
  for (int const gpu : chosen) {
    options.bus_ids.push_back(now.gpus[static_cast<std::size_t>(gpu)].bus_id);
  }
  auto const found = nvlinks_of(read_driver(calls(), options));
  auto const all = nvlinks_of(machine);
  for (std::size_t a = 0; a < chosen.size(); ++a) {
    for (std::size_t b = 0; b < chosen.size(); ++b) {
      auto const mine = found.find({static_cast<int>(a), static_cast<int>(b)});
      auto const theirs = all.find({chosen[a], chosen[b]});
      EXPECT_EQ(mine == found.end() ? 0 : mine->second, theirs == all.end() ? 0 : theirs->second);
    }
  }
}

using texts = std::vector<std::string>;

TEST(read_driver, ranks_have_their_uuids_and_bus_ids) {
  play(machines::dgx1v(), 2);
  now.gpus[0].uuid = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6";
  now.gpus[5].uuid = "GPU-55555555-0000-0000-0000-000000000000";
  played_linux const linux_files(8, 2, 4);
  auto options = linux_files.options();
  auto const found = read_driver(calls(), options);
  EXPECT_EQ(found.nodes[0].uuids, texts{"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"});
  EXPECT_TRUE(found.nodes[1].uuids.empty());
  EXPECT_EQ(found.nodes[5].uuids, texts{"GPU-55555555-0000-0000-0000-000000000000"});
  for (std::size_t gpu = 0; gpu < 8; ++gpu) {
    EXPECT_EQ(found.nodes[gpu].bus_id, played_linux::bus_id(gpu, 2));
  }
  EXPECT_EQ(found.nodes[8].bus_id, "");
  options.bus_ids = {now.gpus[5].bus_id, now.gpus[0].bus_id};
  EXPECT_EQ(read_driver(calls(), options).nodes[0].uuids, texts{now.gpus[5].uuid});
  auto without = calls();
  without.uuid = nullptr;
  EXPECT_TRUE(read_driver(without, options).nodes[0].uuids.empty());
}

TEST(read_driver, mig_devices_are_ranks_without_nvlink) {
  play(machines::dgx1v(), 2);
  auto& split = now.gpus[1];
  split.uuid = "GPU-1111";
  split.mig_fault = 0;
  split.is_split = true;
  split.parts = {{"MIG-aaaa", 1, 0}, {"", 0, 0, 6}, {"MIG-cccc", 5, 2}, {"MIG-hidden", 6, 0, 4}};
  now.gpus[2].mig_fault = 0;  // knows MIG, and is not in that mode
  played_linux const linux_files(8, 2, 4);
  auto const found = read_driver(calls(), linux_files.options());
  EXPECT_EQ(now.open_count, 0);
  ASSERT_EQ(found.rank_positions(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(found.nodes[0].label, "gpu0");
  EXPECT_EQ(found.nodes[1].label, "gpu1:0");
  EXPECT_EQ(found.nodes[1].uuids, (texts{"MIG-aaaa", "MIG-GPU-1111/1/0"}));
  EXPECT_EQ(found.nodes[2].label, "gpu1:2");
  EXPECT_EQ(found.nodes[2].uuids, (texts{"MIG-cccc", "MIG-GPU-1111/5/2"}));
  EXPECT_EQ(found.nodes[2].bus_id, split.bus_id);
  EXPECT_EQ(found.nodes[3].label, "gpu2");
  // The other GPUs keep the NVLinks that they have to each other.
  auto const all = nvlinks_of(machines::dgx1v());
  auto const left = nvlinks_of(found);
  std::size_t expected = 0;
  for (auto const& [ends, capacity] : all) {
    auto const [a, b] = ends;
    if (a == 1 || b == 1) continue;
    ++expected;
    auto const link = left.find({a > 1 ? a + 1 : a, b > 1 ? b + 1 : b});
    ASSERT_NE(link, left.end());
    EXPECT_EQ(link->second, capacity);
  }
  EXPECT_EQ(left.size(), expected);
  // NCCL's XML has the GPU itself, without NVLinks.
  auto const xml = describe_driver(calls(), linux_files.options());
  EXPECT_NE(xml.find("rank=\"1\" gdr=\"0\">\n</gpu>"), std::string::npos);
  EXPECT_EQ(xml.find("target=\"" + split.bus_id + "\""), std::string::npos);
}

TEST(read_driver, old_drivers_state_mig_devices_by_their_instances_or_not_at_all) {
  now = {};
  now.gpus.push_back({played_linux::bus_id(0, 2), {}, "GPU-0000", 0, true, {}});
  now.gpus.push_back({played_linux::bus_id(1, 2), {}, "GPU-1111"});
  now.gpus[0].parts = {{"MIG-GPU-0000/7/0", 7, 0}, {"", 8, 0}};
  played_linux const linux_files(2, 2, 2);
  auto const found = read_driver(calls(), linux_files.options());
  EXPECT_EQ(found.nodes[0].uuids, texts{"MIG-GPU-0000/7/0"});
  EXPECT_EQ(found.nodes[1].uuids, texts{"MIG-GPU-0000/8/0"});
  EXPECT_EQ(found.nodes[2].uuids, texts{"GPU-1111"});
  now.gpus[0].parts.clear();
  auto const without = read_driver(calls(), linux_files.options());
  EXPECT_EQ(without.rank_positions().size(), 1U);
  EXPECT_EQ(without.nodes[0].label, "gpu1");
  now.knows_mig = false;
  EXPECT_EQ(read_driver(calls(), linux_files.options()).nodes[0].label, "gpu0");
}

std::string fault_of(driver_options const& options) {
  try {
    (void)read_driver(calls(), options);
    return "accepted";
  } catch (error const& fault) {
    return fault.what();
  }
}

TEST(read_driver, says_what_is_missing) {
  play(machines::dgx1v(), 2);
  played_linux const linux_files(7, 2, 4);
  auto options = linux_files.options();
  EXPECT_NE(fault_of(options).find("No such file or directory, expected Linux's folder"),
            std::string::npos);
  options.bus_ids = {"0000:77:00.0"};
  EXPECT_EQ(fault_of(options),
            "describe_driver: the driver lists no GPU 0000:77:00.0, expected one of its bus ids");
  options.bus_ids = {};
  now.fails_at = 3;
  EXPECT_EQ(fault_of(options), "GPU 3, nvmlDeviceGetHandleByIndex: GPU is lost (15)");
  now.fails_at = -1;
  now.gpus[2].mig_fault = 15;
  EXPECT_EQ(fault_of(options), "GPU 2, nvmlDeviceGetMigMode: GPU is lost (15)");
  now.gpus[2].mig_fault = 0;
  now.gpus[2].is_split = true;
  now.gpus[2].parts = {{"MIG-a", 1, 0, 15}};
  EXPECT_EQ(fault_of(options),
            "GPU 2, MIG device 0, nvmlDeviceGetMigDeviceHandleByIndex: GPU is lost (15)");
  EXPECT_EQ(now.open_count, 0);
  now.gpus.clear();
  EXPECT_EQ(fault_of(options), "describe_driver: the driver lists no GPU, expected one or more");
  EXPECT_THROW((void)load_nvml("libthere_is_no_such_library.so"), resource_error);
}

}}  // namespace blink::read_driver_test
