// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/nccl_rates.hpp>
#include <blink/topology/readers/detail/xml_element.hpp>
#include <blink/topology/readers/nccl_xml_options.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A bus id as NCCL compares it, as one number of all hexadecimal digits. Nothing for other text.
[[nodiscard]] inline std::optional<std::uint64_t> bus_number(std::string_view text) {
  std::uint64_t value = 0;
  int digits = 0;
  for (char const c : text) {
    if (c == ':' || c == '.') continue;
    auto const digit = std::string_view("0123456789abcdef").find(static_cast<char>(c | 0x20));
    if (digit == std::string_view::npos || c < '0' || ++digits > 16) return std::nullopt;
    value = value * 16 + digit;
  }
  return digits > 0 ? std::optional(value) : std::nullopt;
}

[[nodiscard]] inline bool is_gpu_class(std::string_view pci_class) {
  return pci_class.starts_with("0x03") || pci_class.starts_with("0x12");
}

/// The rate in GB/s from a <cpu> to each other one of its host. An assumed one is a remark.
[[nodiscard]] inline rational rate_between_processors(xml_element const& cpu,
                                                      reading_options const& options,
                                                      xml_remarks& remarks) {
  processor const what{cpu.text("arch"), cpu.text("vendor"), cpu.integer("familyid", 0, INT32_MAX),
                       cpu.integer("modelid", 0, INT32_MAX)};
  if (auto const rate = between_processors_rate(what, options.as_nccl)) return *rate;
  auto const given = options.rates.find(link_kind::socket);
  if (given != options.rates.end()) return given->second;
  remarks.add(cpu, "arch=" + in_quotes(what.arch) + " vendor=" + in_quotes(what.vendor) +
                       (what.model ? "" : " without modelid") +
                       " has no known rate between processors, which counts as " +
                       std::to_string(assumed_between_processors) +
                       " GB/s (--link-rate socket=GB/s)");
  return assumed_between_processors;
}

/// One node of the tree from processors over PCI devices to GPUs and network ports.
struct nccl_device {
  enum class type : std::uint8_t { processor, bridge, card, gpu, adapter, network };
  type is = type::bridge;
  int parent = -1;  ///< position in `nccl_devices::all`; -1 for processors
  int host = 0;
  rational rate{};  ///< GB/s to and from the parent
  link_kind kind = link_kind::pcie;
  double latency_seconds = 0;
  std::string label;
  xml_element element;
  int chip = 0;            ///< generation of a Broadcom switch, else 0
  bool is_merged = false;  ///< the lower level of a two-level switch: the parent gets its children
  bool is_used = false;    ///< true for GPUs and network ports, and for devices above one
  std::int64_t order = 0;  ///< GPUs: rank, or dev where no GPU has a rank
  std::string_view dev{};  ///< GPUs: as in the file
};

/// The devices of a system file.
struct nccl_devices {
  std::vector<nccl_device> all{};  ///< parents before children, otherwise in the order of the file
  std::map<std::pair<int, std::uint64_t>, int> by_bus{};  ///< position in `all` by host and bus id
  std::vector<int> gpus{};                                ///< positions, in order of rank
  int host_count = 0;
  xml_remarks remarks;
  std::vector<std::string> notes{};  ///< remarks about the machine, not about the text
};

/// Reads `<system>` and lists its devices with their parents.
class nccl_device_reader {
 public:
  explicit nccl_device_reader(nccl_xml_options const& options)
      : options_(options), found_{.remarks = xml_remarks(options.reading.is_strict)} {}

  [[nodiscard]] nccl_devices read(xml_element const& system) {
    enter(system, 0, {"version", "name", "keep"});
    (void)system.required_integer("version", 1, 2);
    for_each_child(system, {"cpu"}, [&](xml_element const& cpu) { read_processor(cpu); });
    if (found_.gpus.empty()) fail_without_gpu(system);
    for (auto const& element : unknown_) found_.remarks.add(element, "unknown element");
    sort_gpus();
    find_partitions();
    for (std::size_t i = found_.all.size(); i-- > 0;) {  // children before parents
      auto const& here = found_.all[i];
      if (here.is_used && here.parent >= 0) device(here.parent).is_used = true;
    }
    return std::move(found_);
  }

 private:
  using type = nccl_device::type;

  nccl_device& device(int at) { return found_.all[static_cast<std::size_t>(at)]; }

  int add(nccl_device what) {
    found_.all.push_back(std::move(what));
    return static_cast<int>(found_.all.size()) - 1;
  }

  void enter(xml_element const& element, int depth,
             std::initializer_list<std::string_view> attributes) {
    if (++element_count_ > options_.largest_element_count) {
      element.fail("more than " + std::to_string(options_.largest_element_count) + " elements");
    }
    if (depth > options_.limits.depth) {
      element.fail("more than " + std::to_string(options_.limits.depth) + " levels of elements");
    }
    element.check_attributes(attributes, [&](std::string_view name) {
      found_.remarks.add(element, "unknown attribute " + in_quotes(name));
    });
  }

  /// Visits the expected elements and keeps the others. They are remarks or errors later, unless
  /// the file has no GPU, which has an error of its own.
  template <class Visit>
  void for_each_child(xml_element const& parent, std::initializer_list<std::string_view> expected,
                      Visit visit) {
    for (auto const child : parent.node().children()) {
      xml_element const element(parent.from(), child);
      if (child.type() != pugi::node_element) parent.fail("text between tags, expected elements");
      if (std::find(expected.begin(), expected.end(), element.name()) != expected.end()) {
        visit(element);
      } else {
        unknown_.push_back(element);
      }
    }
  }

  void read_processor(xml_element const& cpu) {
    enter(cpu, 1,
          {"host_hash", "numaid", "affinity", "arch", "vendor", "familyid", "modelid", "keep"});
    auto const hash = cpu.has("host_hash") ? std::string(cpu.text("host_hash")) : "0";
    auto const host = host_numbers_.try_emplace(hash, found_.host_count).first->second;
    found_.host_count = std::max(found_.host_count, host + 1);
    auto const numa = cpu.required_integer("numaid", -1, 65'535);
    if (!numa_nodes_.insert({{host, numa}, 0}).second) {
      cpu.fail("numaid=" + in_quotes(cpu.text("numaid")) + " appears twice for one host");
    }
    int const here = add({.is = type::processor,
                          .host = host,
                          .label = "numa" + std::to_string(numa),
                          .element = cpu});
    for_each_child(cpu, {"pci", "nic"}, [&](xml_element const& child) {
      if (child.name() == "pci") return read_pci(child, here, 2);
      if (!options_.with_networks) return;
      int const adapter = add({.is = type::adapter,
                               .parent = here,
                               .host = host,
                               .rate = unlimited_rate,
                               .kind = link_kind::network,
                               .label = "nic",
                               .element = child});
      read_nic(child, adapter, 2);
    });
  }

  void read_pci(xml_element const& pci, int parent, int depth) {
    enter(pci, depth,
          {"busid", "class", "vendor", "device", "subsystem_vendor", "subsystem_device",
           "link_speed", "link_width", "keep"});
    auto const bus = bus_number(pci.required_text("busid"));
    if (!bus)
      pci.fail("busid=" + in_quotes(pci.text("busid")) +
               ", expected a bus id such as \"0000:06:00.0\"");
    int const host = device(parent).host;
    nccl_device what{.parent = parent,
                     .host = host,
                     .label = "pci " + std::string(pci.text("busid")),
                     .element = pci};
    what.rate = pcie_rate(lanes(pci), pci.text("link_speed"), options_.reading.as_nccl);
    set_chip(what);
    int const here = add(std::move(what));
    if (!found_.by_bus.insert({{host, *bus}, here}).second) {
      pci.fail("busid=" + in_quotes(pci.text("busid")) + " appears twice for one host");
    }
    auto const pci_class = pci.text("class");
    bool const may_be_gpu = pci_class.empty() || is_gpu_class(pci_class);
    bool const may_be_nic = pci_class.empty() || pci_class.starts_with("0x02");
    bool is_bridge = false;
    for_each_child(pci, {"pci", "gpu", "nic", "pcilink"}, [&](xml_element const& child) {
      if (child.name() == "gpu") {
        if (!may_be_gpu)
          pci.fail("class " + in_quotes(pci_class) + " with a <gpu>, expected 0x03…");
        // A second <gpu> is another part of the same card.
        read_gpu(child, device(here).is == type::gpu ? add(device(here)) : here, depth + 1);
      } else if (child.name() == "nic") {
        if (!may_be_nic)
          pci.fail("class " + in_quotes(pci_class) + " with a <nic>, expected 0x02…");
        if (!options_.with_networks) return;
        device(here).is = type::adapter;
        read_nic(child, here, depth + 1);
      } else if (child.name() == "pcilink") {
        enter(child, depth + 1, {"target"});
      } else {
        is_bridge = true;
        read_pci(child, here, depth + 1);
      }
    });
    if (device(here).is != type::bridge && is_bridge) {
      pci.fail("holds a <gpu> or <nic> and further <pci>, expected one or the other");
    }
    if (device(here).is == type::bridge && is_gpu_class(pci_class)) ++bare_gpus_;
  }

  void read_gpu(xml_element const& gpu, int here, int depth) {
    enter(gpu, depth, {"dev", "sm", "gcn", "arch", "rank", "gdr", "mlopart", "keep"});
    device(here).is = type::gpu;
    device(here).is_used = true;
    device(here).element = gpu;
    device(here).dev = gpu.text("dev");
    found_.gpus.push_back(here);
    for_each_child(gpu, {"nvlink", "xgmi", "c2c"}, [&](xml_element const& child) {
      if (child.name() == "c2c") return enter(child, depth + 1, {"bw", "count"});
      enter(child, depth + 1, {"target", "count", "tclass"});
    });
  }

  void read_nic(xml_element const& nic, int adapter, int depth) {
    enter(nic, depth, {"keep"});
    for_each_child(nic, {"net"}, [&](xml_element const& net) {
      enter(net, depth + 1,
            {"name", "dev", "speed", "port", "latency", "guid", "maxconn", "gdr", "coll", "net",
             "gin", "rma", "rail", "plane", "keep"});
      if (!net.has("dev")) return;
      (void)net.integer("dev", 0, 65'535);
      auto speed = net.integer("speed", INT32_MIN, options_.largest_net_speed).value_or(0);
      if (speed <= 0) speed = 10'000;
      auto const latency = net.has("latency") ? read_decimal(net.text("latency"), 9) : rational(0);
      if (!latency || *latency < 0) {
        net.fail("latency=" + in_quotes(net.text("latency")) + ", expected microseconds");
      }
      auto const name = net.has("name") ? net.text("name") : net.text("dev");
      add({.is = type::network,
           .parent = adapter,
           .host = device(adapter).host,
           .rate = rational(speed, 8'000),
           .kind = link_kind::network,
           .latency_seconds = latency->to_double() * 1e-6,
           .label = "net " + std::string(name),
           .element = net,
           .is_used = true});
    });
  }

  [[nodiscard]] std::int64_t lanes(xml_element const& pci) {
    constexpr std::int64_t unknown = 16;
    if (pci.text("link_width").empty()) return unknown;
    constexpr std::array<std::int64_t, 8> widths{0, 1, 2, 4, 8, 12, 16, 32};
    auto const width = *pci.integer("link_width", 0, 255);
    if (width == 63 || width == 255) {  // what Linux and drivers write for a width they do not know
      found_.remarks.add(pci, "link_width=" + in_quotes(pci.text("link_width")) +
                                  " stands for an unknown width, which counts as 16");
      return unknown;
    }
    if (std::find(widths.begin(), widths.end(), width) == widths.end()) {
      pci.fail("link_width=" + in_quotes(pci.text("link_width")) +
               ", expected 1, 2, 4, 8, 12, 16, 32, or 0 for unknown");
    }
    return width == 0 ? unknown : width;
  }

  /// Finds Broadcom's Gen4 and Gen5 switches. They appear as two levels of one chip, which NCCL
  /// joins.
  void set_chip(nccl_device& what) {
    auto const& pci = what.element;
    if (pci.text("vendor") == "0x1000" && pci.text("device") == "0xc030") what.chip = 5;
    if (pci.text("vendor") == "0x1000" && pci.text("device") == "0xc010" &&
        pci.text("subsystem_vendor") == "0x1000" &&
        pci.text("subsystem_device").starts_with("0xa0")) {
      what.chip = 4;
    }
    auto const& above = device(what.parent);
    what.is_merged = what.chip != 0 && above.chip == what.chip && !above.is_merged;
  }

  void sort_gpus() {
    auto const ranked = std::count_if(found_.gpus.begin(), found_.gpus.end(),
                                      [&](int gpu) { return device(gpu).element.has("rank"); });
    bool const by_rank = ranked != 0;
    char const* const key = by_rank ? "rank" : "dev";
    std::map<std::pair<int, std::int64_t>, int> seen;
    for (int const gpu : found_.gpus) {
      auto const& element = device(gpu).element;
      if (!element.has(key)) {
        element.fail(by_rank ? "no rank though other GPUs have one: the dump of one process, "
                               "expected one with all ranks or none"
                             : "neither rank nor dev");
      }
      device(gpu).order = element.required_integer(key, 0, INT32_MAX);
      int const host = by_rank ? 0 : device(gpu).host;
      if (!seen.insert({{host, device(gpu).order}, gpu}).second) {
        element.fail(std::string(key) + "=" + in_quotes(element.text(key)) + " appears twice");
      }
    }
    std::sort(found_.gpus.begin(), found_.gpus.end(), [&](int a, int b) {
      return by_rank ? device(a).order < device(b).order
                     : std::pair(device(a).host, device(a).order) <
                           std::pair(device(b).host, device(b).order);
    });
  }

  /// Puts the GPUs that are parts of one card under a switch, which has the card's links. They are
  /// functions of one PCI slot, or one <pci> holds them.
  void find_partitions() {
    std::map<std::pair<int, std::string_view>, std::vector<int>> slots;
    for (int const gpu : found_.gpus) {
      auto const bus = xml_element(device(gpu).element.from(), device(gpu).element.node().parent())
                           .text("busid");
      slots[{device(gpu).host, bus.substr(0, bus.rfind('.'))}].push_back(gpu);
    }
    for (auto const& [slot, gpus] : slots) {
      if (gpus.size() < 2) continue;
      auto above = device(gpus.front());
      above.is = type::card;
      above.label = "card " + std::string(slot.second);
      std::string names;
      int const card = add(std::move(above));
      for (int const gpu : gpus) {
        auto& here = device(gpu);
        here.parent = card;
        here.rate = unlimited_rate;
        here.kind = here.element.has("gcn") ? link_kind::xgmi : link_kind::nvlink;
        names += (names.empty() ? "" : ", ") + std::string("gpu") + std::string(here.dev);
      }
      found_.notes.push_back(names + " are partitions of one card (" + std::string(slot.second) +
                             "), whose links they share");
    }
  }

  [[noreturn]] void fail_without_gpu(xml_element const& system) const {
    std::string why = "no GPU found";
    if (bare_gpus_ > 0) {
      why += ": " + std::to_string(bare_gpus_) +
             " PCI devices are GPUs without <gpu>, which NCCL completes from the machine itself; "
             "expected a dump made there (NCCL_TOPO_DUMP_FILE)";
    } else if (!unknown_.empty()) {
      why += ": line " + std::to_string(unknown_.front().line()) + " has an unknown element <" +
             std::string(unknown_.front().name().substr(0, 40)) +
             ">, expected <system> <cpu> <pci> <gpu>";
    } else {
      why += ", expected <system> <cpu> <pci> <gpu>";
    }
    system.fail(why);
  }

  nccl_xml_options const& options_;
  nccl_devices found_;
  std::map<std::string, int> host_numbers_;
  std::map<std::pair<int, std::int64_t>, int> numa_nodes_;
  std::vector<xml_element> unknown_;
  std::int64_t element_count_ = 0;
  int bare_gpus_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
