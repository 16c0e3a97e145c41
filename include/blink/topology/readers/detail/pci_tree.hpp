// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

// What Linux says about PCI: who hangs on whom, in the words of NCCL's system XML.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The first line of a file of the kernel, without white space around it; empty if there is none.
inline std::string line_of_file(std::filesystem::path const& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) {
    line.pop_back();
  }
  return line;
}

/// "0x030200", or nothing.
inline std::string class_of_device(std::string const& pci_devices, std::string const& bus_id) {
  return line_of_file(std::filesystem::path(pci_devices) / bus_id / "class");
}

inline bool is_bus_id(std::string const& text) {
  if (text.size() < 12 || text[text.size() - 2] != '.') return false;
  return std::count(text.begin(), text.end(), ':') == 2 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isxdigit(c) != 0 || c == ':' || c == '.'; });
}

/// The PCI devices on the way from processors to some of them.
class pci_tree {
 public:
  /// devices: the folder with a link for each device
  /// inside:  by bus id of those that are looked for, what stands inside their element
  /// Throws:  input_error if Linux knows one of them not.
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
                        ", expected what Linux knows of this PCI device");
    }
    // …/pci0000:00/0000:00:01.0/0000:01:00.0: the bridges on the way are the parts that are bus ids.
    std::vector<std::filesystem::path> way;
    std::filesystem::path so_far;
    for (auto const& part : place) {
      so_far /= part;
      if (is_bus_id(part.string())) way.push_back(so_far);
    }
    if (way.empty()) {
      throw input_error(place.string() + ": not below a PCI bus, expected such as 0000:06:00.0");
    }
    auto const numa = line_of_file(place / "numa_node");
    auto* here = &roots_[numa.empty() ? "-1" : numa];
    pci_device* found = nullptr;
    for (auto const& step : way) {
      auto& slot = (*here)[step.filename().string()];
      if (slot == nullptr) slot = std::make_unique<pci_device>(describe(step));
      found = slot.get();
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
    say("link_width", width == "255" ? "0" : width);  // the kernel's word for unknown
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
