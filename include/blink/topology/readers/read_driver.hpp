// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/detail/device_names.hpp>
#include <blink/topology/readers/detail/driver_gpus.hpp>
#include <blink/topology/readers/detail/mig_devices.hpp>
#include <blink/topology/readers/nccl_xml_options.hpp>
#include <blink/topology/readers/nvml_calls.hpp>
#include <blink/topology/readers/read_nccl_xml.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

// PCI devices and their parents as Linux lists them, written as NCCL's system XML.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The first line of a file of the kernel, without white space around it. Empty if there is no
/// file.
inline std::string line_of_file(std::filesystem::path const& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) {
    line.pop_back();
  }
  return line;
}

/// The PCI class of a device, such as "0x030200". Empty if Linux does not know the device.
inline std::string class_of_device(std::string const& pci_devices, std::string const& bus_id) {
  return line_of_file(std::filesystem::path(pci_devices) / bus_id / "class");
}

/// Some PCI devices and the bridges between them and their processors.
class pci_tree {
 public:
  /// devices:    Linux's folder with a link for each device
  /// processors: Linux's file about processors
  /// inside:     the content of each device's element, by bus id; the devices of the tree
  /// Throws:     input_error if Linux does not know a device.
  pci_tree(std::string const& devices, std::string const& processors,
           std::map<std::string, std::string> const& inside)
      : devices_(devices), processor_(first_processor(processors)) {
    for (auto const& [bus_id, text] : inside) add(bus_id).inside = text;
  }

  [[nodiscard]] std::string text() const {
    std::string result = "<system version=\"1\">\n";
    for (auto const& [numa, roots] : roots_) {
      result += "<cpu numaid=\"" + numa + "\" " + processor_ + ">\n";
      for (auto const& [bus_id, device] : roots) append(result, *device);
      result += "</cpu>\n";
    }
    return result + "</system>\n";
  }

 private:
  struct pci_device;
  using pci_devices = std::map<std::string, std::unique_ptr<pci_device>>;
  struct pci_device {
    std::string attributes;
    std::string inside;
    pci_devices below;
  };

  pci_device& add(std::string const& bus_id) {
    std::error_code fault;
    auto const place = std::filesystem::canonical(devices_ / bus_id, fault);
    if (fault) {
      throw input_error((devices_ / bus_id).string() + ": " + fault.message() +
                        ", expected Linux's folder of this PCI device");
    }
    // In …/pci0000:00/0000:00:01.0/0000:01:00.0 the bridges are the parts that are bus ids.
    std::vector<std::filesystem::path> way;
    std::filesystem::path so_far;
    for (auto const& part : place) {
      so_far /= part;
      auto const address = read_pci_address(part.string());
      if (address && address->domain) way.push_back(so_far);
    }
    if (way.empty()) {
      throw input_error(place.string() +
                        ": not below a PCI bus, expected bus ids such as 0000:06:00.0");
    }
    auto const numa = line_of_file(place / "numa_node");
    auto* here = &roots_[numa.empty() ? "-1" : numa];
    pci_device* found = nullptr;
    for (auto const& step : way) {
      auto& entry = (*here)[step.filename().string()];
      if (entry == nullptr) entry = std::make_unique<pci_device>(describe(step));
      found = entry.get();
      here = &found->below;
    }
    return *found;
  }

  static pci_device describe(std::filesystem::path const& place) {
    pci_device result;
    auto const say = [&](char const* name, std::string const& value) {
      if (!value.empty()) result.attributes += std::string(" ") + name + "=\"" + value + "\"";
    };
    say("busid", place.filename().string());
    say("class", line_of_file(place / "class"));
    say("vendor", line_of_file(place / "vendor"));
    say("device", line_of_file(place / "device"));
    say("subsystem_vendor", line_of_file(place / "subsystem_vendor"));
    say("subsystem_device", line_of_file(place / "subsystem_device"));
    say("link_speed", line_of_file(place / "max_link_speed"));
    auto const width = line_of_file(place / "max_link_width");
    say("link_width", width == "255" ? "0" : width);  // the kernel writes 255 for unknown
    return result;
  }

  static void append(std::string& result, pci_device const& device) {
    result += "<pci" + device.attributes + ">\n" + device.inside;
    for (auto const& [bus_id, below] : device.below) append(result, *below);
    result += "</pci>\n";
  }

  static std::string first_processor(std::string const& file) {
    std::map<std::string, std::string> known;
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line) && !(line.empty() && !known.empty());) {
      auto const colon = line.find(':');
      if (colon == std::string::npos) continue;
      auto name = line.substr(0, colon);
      while (!name.empty() && std::isspace(static_cast<unsigned char>(name.back())) != 0) {
        name.pop_back();
      }
      known[name] = colon + 2 < line.size() ? line.substr(colon + 2) : "";
    }
    if (known.contains("vendor_id")) {
      return "arch=\"x86_64\" vendor=\"" + known["vendor_id"] + "\" familyid=\"" +
             known["cpu family"] + "\" modelid=\"" + known["model"] + "\"";
    }
    return known.contains("CPU implementer") ? "arch=\"arm64\"" : "arch=\"ppc64\"";
  }

  std::filesystem::path devices_;
  std::string processor_;
  std::map<std::string, pci_devices> roots_;  // by NUMA node
};

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// The places in which `read_driver` looks, and its choices.
struct driver_options {
  std::string pci_devices = "/sys/bus/pci/devices";  ///< Linux's folder of PCI devices
  std::string processors = "/proc/cpuinfo";          ///< Linux's file about processors
  /// The GPUs that take part, by bus id ("0000:07:00.0"), in the order of the ranks. Empty means
  /// all GPUs in the driver's order. CUDA_VISIBLE_DEVICES may give CUDA other devices or another
  /// order.
  std::vector<std::string> bus_ids{};
  nccl_xml_options reading{};
};

namespace detail {

/// The GPUs that the options name, or all.
///
/// Throws: resource_error as `driver_gpu_reader`, for a GPU that the driver does not list, and for
///         no GPU.
[[nodiscard]] inline std::vector<driver_gpu> chosen_gpus(nvml_calls const& calls,
                                                         driver_options const& options) {
  auto gpus = driver_gpu_reader(calls).read();
  if (!options.bus_ids.empty()) {
    std::vector<driver_gpu> chosen;
    for (auto const& id : options.bus_ids) {
      auto const wanted = short_bus_id(id.c_str());
      auto const found = std::find_if(gpus.begin(), gpus.end(),
                                      [&](auto const& gpu) { return gpu.bus_id == wanted; });
      if (found == gpus.end())
        throw resource_error("describe_driver: the driver lists no GPU " + wanted +
                             ", expected one of its bus ids");
      chosen.push_back(*found);
    }
    gpus = std::move(chosen);
  }
  if (gpus.empty())
    throw resource_error("describe_driver: the driver lists no GPU, expected one or more");
  return gpus;
}

/// NCCL's system XML of GPUs.
///
/// Throws: input_error if Linux does not know one.
[[nodiscard]] inline std::string nccl_xml_of(std::vector<driver_gpu> const& gpus,
                                             driver_options const& options) {
  std::map<std::string, std::string> inside;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    auto const& gpu = gpus[rank];
    std::string text = "<gpu dev=\"" + std::to_string(gpu.index) + "\" sm=\"" +
                       std::to_string(gpu.capability) + "\" rank=\"" + std::to_string(rank) +
                       "\" gdr=\"0\">\n";
    for (auto const& far : gpu.neighbours) {
      auto const there = std::find_if(gpus.begin(), gpus.end(),
                                      [&](auto const& each) { return each.bus_id == far.bus_id; });
      bool const is_here = there != gpus.end();
      if (is_here && there->is_split) continue;
      std::string tclass(far.pci_class);
      if (tclass.empty()) {
        tclass = is_here ? "0x030200" : class_of_device(options.pci_devices, far.bus_id);
      }
      text += "  <nvlink target=\"" + far.bus_id + "\" count=\"" + std::to_string(far.links) + "\"";
      if (!tclass.empty()) text += " tclass=\"" + tclass + "\"";
      text += "/>\n";
    }
    inside[gpu.bus_id] = text + "</gpu>\n";
  }
  return pci_tree(options.pci_devices, options.processors, inside).text();
}

}  // namespace detail

/// The GPUs, NVLinks and PCIe routes of this machine as NCCL's system XML. `read_nccl_xml` reads
/// it, and so do other programs.
///
/// A PCIe route has every bridge that Linux lists between a processor's socket and a GPU. A GPU in
/// MIG mode is one GPU without NVLinks.
///
/// Throws: resource_error if a call of the driver fails, or the driver does not know a GPU of
///         `options.bus_ids`; input_error if Linux does not know a GPU.
[[nodiscard]] inline std::string describe_driver(nvml_calls const& calls,
                                                 driver_options const& options = {}) {
  return detail::nccl_xml_of(detail::chosen_gpus(calls, options), options);
}

/// This machine as its driver describes it: GPUs with NVLinks, switches and PCIe routes, UUIDs and
/// bus ids.
///
/// The MIG devices of a GPU are ranks in its place (`topology::remarks`). They share its PCIe link
/// and have no other.
///
/// Throws: the errors of `describe_driver` and of `read_nccl_xml`.
[[nodiscard]] inline topology read_driver(nvml_calls const& calls,
                                          driver_options const& options = {}) {
  auto const gpus = detail::chosen_gpus(calls, options);
  auto machine = read_nccl_xml(detail::nccl_xml_of(gpus, options), "the driver", options.reading);
  machine.name = "this machine";
  detail::mig_devices split;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {  // node k is rank k
    machine.nodes[rank].uuids = gpus[rank].uuids;
    if (gpus[rank].is_split) split[static_cast<int>(rank)] = gpus[rank].parts;
  }
  return detail::with_mig_devices(std::move(machine), split);
}

}}  // namespace blink::BLINK_ABI
