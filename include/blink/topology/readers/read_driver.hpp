// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/readers/detail/pci_tree.hpp>
#include <blink/topology/readers/nccl_xml_options.hpp>
#include <blink/topology/readers/nvml_calls.hpp>
#include <blink/topology/readers/read_nccl_xml.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Where the driver and the kernel are asked.
struct driver_options {
  std::string pci_devices = "/sys/bus/pci/devices";  ///< what Linux knows of PCI
  std::string processors = "/proc/cpuinfo";          ///< and of processors
  /// The GPUs that take part, by bus id ("0000:07:00.0"), in the order of the ranks; empty: all, in
  /// the order of the driver. CUDA's devices are others where CUDA_VISIBLE_DEVICES says so.
  std::vector<std::string> bus_ids{};
  nccl_xml_options reading{};
};

namespace detail {

/// NVML while it is in use.
class nvml_session {
 public:
  explicit nvml_session(nvml_calls const& calls) : calls_(calls) {
    expect(calls_.init(), "nvmlInit");
  }
  nvml_session(nvml_session const&) = delete;
  nvml_session& operator=(nvml_session const&) = delete;
  ~nvml_session() { calls_.shutdown(); }

  void expect(int result, std::string const& what) const {
    if (result == 0) return;
    throw resource_error(what + ": " + calls_.error_text(result) + " (" + std::to_string(result) +
                         ")");
  }

 private:
  nvml_calls const& calls_;
};

/// One GPU as the driver knows it.
struct driver_gpu {
  std::string bus_id;
  int index = 0;  ///< of NVML
  int capability = 0;
  struct neighbour {
    std::string bus_id;
    std::string_view pci_class;
    int links = 0;
  };
  std::vector<neighbour> neighbours;
};

inline std::string short_bus_id(char const* text) {
  std::string all(text);
  // NVML writes eight digits of the domain, Linux four.
  if (all.size() == 16 && all.compare(0, 4, "0000") == 0) all.erase(0, 4);
  std::transform(all.begin(), all.end(), all.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return all;
}

inline std::vector<driver_gpu> gpus_of_driver(nvml_calls const& calls) {
  constexpr unsigned most_links = 36;
  constexpr std::string_view classes[] = {"0x030200", "0x068001", "0x068000"};
  nvml_session const nvml(calls);
  unsigned count = 0;
  nvml.expect(calls.device_count(&count), "nvmlDeviceGetCount");
  std::vector<driver_gpu> result;
  for (unsigned index = 0; index < count; ++index) {
    auto const name = "GPU " + std::to_string(index);
    void* handle = nullptr;
    nvml.expect(calls.device(index, &handle), name + ", nvmlDeviceGetHandleByIndex");
    nvml_pci_info place{};
    nvml.expect(calls.pci_info(handle, &place), name + ", nvmlDeviceGetPciInfo");
    int major = 0, minor = 0;
    nvml.expect(calls.capability(handle, &major, &minor),
                name + ", nvmlDeviceGetCudaComputeCapability");
    auto& gpu = result.emplace_back();
    gpu.bus_id = short_bus_id(place.bus_id);
    gpu.index = static_cast<int>(index);
    gpu.capability = 10 * major + minor;
    for (unsigned link = 0; link < most_links; ++link) {
      unsigned is_active = 0;
      if (calls.nvlink_state(handle, link, &is_active) != 0) break;  // no more links
      if (is_active == 0) continue;
      nvml_pci_info far{};
      if (calls.nvlink_remote(handle, link, &far) != 0) continue;
      unsigned type = 0;
      bool const is_told = calls.nvlink_remote_type != nullptr &&
                           calls.nvlink_remote_type(handle, link, &type) == 0 && type < 3;
      auto const far_id = short_bus_id(far.bus_id);
      auto known = std::find_if(gpu.neighbours.begin(), gpu.neighbours.end(),
                                [&](auto const& each) { return each.bus_id == far_id; });
      if (known == gpu.neighbours.end()) {
        known = gpu.neighbours.insert(known, {far_id, is_told ? classes[type] : "", 0});
      }
      ++known->links;
    }
  }
  return result;
}

}  // namespace detail

/// This machine's GPUs, NVLinks and PCIe paths as NCCL's system XML: what `read_nccl_xml` reads, and
/// other programs, too.
///
/// PCIe paths are Linux's: every bridge between a processor's socket and a GPU.
/// Throws: resource_error if the driver refuses, or does not know a GPU that is asked for;
///         input_error if Linux does not know one.
[[nodiscard]] inline std::string describe_driver(nvml_calls const& calls,
                                                 driver_options const& options = {}) {
  auto gpus = detail::gpus_of_driver(calls);
  if (!options.bus_ids.empty()) {
    std::vector<detail::driver_gpu> chosen;
    for (auto const& id : options.bus_ids) {
      auto const wanted = detail::short_bus_id(id.c_str());
      auto const found = std::find_if(gpus.begin(), gpus.end(),
                                      [&](auto const& gpu) { return gpu.bus_id == wanted; });
      if (found == gpus.end()) throw resource_error("the driver knows no GPU at " + wanted);
      chosen.push_back(*found);
    }
    gpus = chosen;
  }
  if (gpus.empty()) throw resource_error("the driver knows no GPU");
  std::map<std::string, std::string> inside;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    auto const& gpu = gpus[rank];
    std::string text = "<gpu dev=\"" + std::to_string(gpu.index) + "\" sm=\"" +
                       std::to_string(gpu.capability) + "\" rank=\"" + std::to_string(rank) +
                       "\" gdr=\"0\">\n";
    for (auto const& far : gpu.neighbours) {
      bool const is_here = std::any_of(gpus.begin(), gpus.end(),
                                       [&](auto const& each) { return each.bus_id == far.bus_id; });
      std::string tclass(far.pci_class);
      if (tclass.empty()) {
        tclass = is_here ? "0x030200" : detail::class_of_device(options.pci_devices, far.bus_id);
      }
      text += "  <nvlink target=\"" + far.bus_id + "\" count=\"" + std::to_string(far.links) + "\"";
      if (!tclass.empty()) text += " tclass=\"" + tclass + "\"";
      text += "/>\n";
    }
    inside[gpu.bus_id] = text + "</gpu>\n";
  }
  return detail::pci_tree(options.pci_devices, options.processors, inside).text();
}

/// This machine by what its driver says: GPUs with NVLinks, switches, PCIe paths.
///
/// Throws: resource_error, input_error as `describe_driver`, and input_error as `read_nccl_xml`.
[[nodiscard]] inline topology read_driver(nvml_calls const& calls,
                                          driver_options const& options = {}) {
  auto machine = read_nccl_xml(describe_driver(calls, options), "the driver", options.reading);
  machine.name = "this machine";
  return machine;
}

}}  // namespace blink::BLINK_ABI
