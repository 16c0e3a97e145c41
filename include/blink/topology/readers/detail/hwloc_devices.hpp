// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/device_names.hpp>
#include <blink/topology/readers/detail/hwloc_objects.hpp>
#include <blink/topology/readers/detail/nccl_devices.hpp>
#include <blink/topology/readers/detail/xml_element.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The class and maker in a `pci_type` such as "0302 [10de:20b0] [10de:134f] a1".
struct hwloc_pci_type {
  std::string_view pci_class;  ///< four digits
  std::string_view maker;      ///< four digits

  explicit hwloc_pci_type(std::string_view text)
      : pci_class(text.substr(0, 4)), maker(text.substr(std::min(text.find('['), text.size()))) {
    maker = maker.substr(std::min<std::size_t>(1, maker.size()), 4);
  }
  [[nodiscard]] bool is_display() const {
    return pci_class.starts_with("03") || pci_class.starts_with("12");
  }
  /// True for a GPU that drives no screen, of a maker of such GPUs.
  [[nodiscard]] bool is_accelerator() const {
    bool const has_no_screen = pci_class == "0302" || pci_class == "0380" || pci_class == "1200";
    return has_no_screen && (maker == "10de" || maker == "1002" || maker == "8086");
  }
  [[nodiscard]] bool is_nvswitch() const { return pci_class == "0680" && maker == "10de"; }
};

/// The number in the name of a GPU, such as 3 in "nvml3" for the family "nvml".
[[nodiscard]] inline std::optional<std::int64_t> hwloc_gpu_number(std::string_view name,
                                                                  std::string_view family) {
  if (!name.starts_with(family)) return std::nullopt;
  name.remove_prefix(family.size());
  constexpr std::size_t most_digits = 5;
  if (name.empty() || name.size() > most_digits ||
      name.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  return integer_from(name);
}

/// A GPU of an hwloc file, or a part of one that programs see as a GPU.
struct hwloc_gpu {
  int object;                            ///< the OS device that names it, or its PCI device
  int card;                              ///< its PCI device; -1 if the file has none
  std::optional<std::int64_t> number{};  ///< of the driver that named it
};

/// The devices of an hwloc file that are nodes of the machine: GPUs and network adapters.
class hwloc_devices {
 public:
  /// Throws: input_error if the file has no GPU, or names one twice.
  hwloc_devices(hwloc_objects const& objects, xml_element const& root) : objects_(objects) {
    if (!find_named_gpus() && !find_opencl_gpus() && !find_accelerators()) fail_without_gpu(root);
    constexpr std::size_t most = 1024;
    if (gpus_.size() > most) {
      root.fail(std::to_string(gpus_.size()) + " GPUs, expected at most " + std::to_string(most));
    }
    sort_gpus();
    for (auto const& gpu : gpus_) ++gpus_of_[owner_of(gpu)];
    find_adapters();
    note_others();
    note_partitions();
  }

  /// In the order of the ranks.
  [[nodiscard]] std::vector<hwloc_gpu> const& gpus() const { return gpus_; }
  /// PCI devices of network adapters, in the file's order.
  [[nodiscard]] std::vector<int> const& adapters() const { return adapters_; }

  [[nodiscard]] std::vector<std::string> const& notes() const { return notes_; }

  /// The device that has the links of a GPU: its card, if there is one.
  [[nodiscard]] static int owner_of(hwloc_gpu const& gpu) {
    return gpu.card >= 0 ? gpu.card : gpu.object;
  }
  /// True for the owner of a GPU's links.
  [[nodiscard]] bool is_gpu(int at) const { return gpus_of_.contains(at); }
  /// True for a card of several GPUs.
  [[nodiscard]] bool is_shared(int at) const {
    auto const found = gpus_of_.find(at);
    return found != gpus_of_.end() && found->second > 1;
  }
  /// The kind of the links inside a card of several GPUs.
  [[nodiscard]] link_kind kind_inside(int card) const {
    auto const maker = pci_type_of(card).maker;
    if (maker == "1002") return link_kind::xgmi;
    return maker == "8086" ? link_kind::xelink : link_kind::nvlink;
  }
  [[nodiscard]] hwloc_pci_type pci_type_of(int card) const {
    return hwloc_pci_type(objects_.at(card).element.text("pci_type"));
  }

  /// The UUIDs that a driver states for a GPU, as `node::uuids`.
  [[nodiscard]] std::vector<std::string> uuids_of(hwloc_gpu const& gpu) const {
    auto result = stated_uuids(gpu.object);
    if (gpu.card < 0 || is_shared(gpu.card)) return result;
    for (int at = gpu.card + 1; at < objects_.count() && card_of(at) == gpu.card; ++at) {
      if (result.empty()) result = stated_uuids(at);  // of another name of the GPU
    }
    return result;
  }

  /// The PCI device that holds an OS device; -1 for none.
  [[nodiscard]] int card_of(int at) const {
    while (at >= 0 && objects_.at(at).is == type::os_device) at = objects_.at(at).parent;
    return at >= 0 && objects_.at(at).is == type::pci_device ? at : -1;
  }

  /// The name of an adapter for people: that of its port for RDMA, if there is one.
  [[nodiscard]] std::string adapter_name(int card) const {
    std::string result;
    for (auto const child : objects_.at(card).element.node().children("object")) {
      auto const network = network_kind(xml_element(objects_.at(card).element.from(), child));
      if (network == 0 || (network == 1 && !result.empty())) continue;
      result = child.attribute("name").value();
      if (network == 2) break;
    }
    return result.empty() ? "nic" : result;
  }

 private:
  using type = hwloc_object::type;

  [[nodiscard]] std::vector<std::string> stated_uuids(int at) const {
    for (auto const info : objects_.at(at).element.node().children("info")) {
      std::string_view const name = info.attribute("name").value();
      std::string_view const value = info.attribute("value").value();
      if (name == "AMDUUID") return amd_uuids(value);
      bool const is_uuid = name == "NVIDIAUUID" || name == "LevelZeroUUID";
      if (is_uuid && !value.empty()) return {std::string(value)};
    }
    return {};
  }

  /// GPUs that NVML, RSMI, Level Zero or CUDA have named. CUDA's names count only without NVML's,
  /// because both name the same GPUs.
  bool find_named_gpus() {
    for (auto const* family : {"nvml", "rsmi", "ze", "cuda"}) {
      bool const is_second_name = family == std::string_view("cuda") && families_.contains("nvml");
      for (int at = 0; at < objects_.count() && !is_second_name; ++at) {
        auto const& object = objects_.at(at);
        if (object.is != type::os_device) continue;
        auto const* above = objects_.parent_of(object);
        if (above != nullptr && above->is == type::os_device) continue;  // a part of a GPU
        auto const number = hwloc_gpu_number(object.element.text("name"), family);
        if (!number) continue;
        gpus_.push_back({at, card_of(at), number});
        families_.insert(family);
      }
    }
    return !gpus_.empty();
  }

  /// GPUs that only OpenCL has named.
  bool find_opencl_gpus() {
    for (int at = 0; at < objects_.count(); ++at) {
      auto const& object = objects_.at(at);
      if (object.is != type::os_device || !object.element.text("name").starts_with("opencl"))
        continue;
      int const card = card_of(at);
      if (card < 0 || !pci_type_of(card).is_display()) continue;
      if (gpus_.empty() || gpus_.back().card != card) gpus_.push_back({card, card});
    }
    return !gpus_.empty();
  }

  bool find_accelerators() {
    for (int at = 0; at < objects_.count(); ++at) {
      if (objects_.at(at).is == type::pci_device && pci_type_of(at).is_accelerator()) {
        gpus_.push_back({at, at});
      }
    }
    return !gpus_.empty();
  }

  /// In order of the numbers of the only driver, or else of the bus ids.
  void sort_gpus() {
    bool const by_number = families_.size() == 1;
    std::vector<std::tuple<std::uint64_t, std::int64_t, hwloc_gpu>> keys;
    std::set<std::uint64_t> numbers;
    for (auto& gpu : gpus_) {
      auto const number = static_cast<std::uint64_t>(gpu.number.value_or(0));
      auto const& element = objects_.at(gpu.object).element;
      if (by_number && !numbers.insert(number).second) {
        element.fail("name=" + in_quotes(element.text("name")) + " appears twice");
      }
      std::uint64_t const bus = gpu.card < 0 ? UINT64_MAX : bus_of(gpu.card);
      keys.emplace_back(by_number ? number : bus, by_number ? 0 : gpu.number.value_or(0), gpu);
      if (!by_number) std::get<2>(keys.back()).number.reset();
    }
    std::sort(keys.begin(), keys.end(), [](auto const& a, auto const& b) {
      auto const& [key, number, gpu] = a;
      auto const& [other_key, other_number, other] = b;
      return std::tie(key, number, gpu.object) < std::tie(other_key, other_number, other.object);
    });
    gpus_.clear();
    for (auto const& key : keys) gpus_.push_back(std::get<2>(key));
  }

  [[nodiscard]] std::uint64_t bus_of(int card) const {
    auto const& element = objects_.at(card).element;
    auto const bus = bus_number(element.required_text("pci_busid"));
    if (!bus) {
      element.fail("pci_busid=" + in_quotes(element.text("pci_busid")) +
                   ", expected a bus id such as \"0000:06:00.0\"");
    }
    return *bus;
  }

  void find_adapters() {
    for (int at = 0; at < objects_.count(); ++at) {
      auto const& object = objects_.at(at);
      int const card = object.parent;
      if (object.is != type::os_device || card < 0 || network_kind(object.element) == 0) continue;
      if (objects_.at(card).is != type::pci_device || is_gpu(card) ||
          !pci_type_of(card).pci_class.starts_with("02") ||
          (!adapters_.empty() && adapters_.back() == card)) {
        continue;
      }
      adapters_.push_back(card);
    }
  }

  /// 2 for a port for RDMA, 1 for another network, 0 for no network.
  [[nodiscard]] int network_kind(xml_element const& os_device) const {
    auto const kind = integer_from(os_device.text("osdev_type")).value_or(0);
    bool const is_mask = objects_.version >= 3;  // bits 4 and 5, else the numbers 2 and 3
    bool const is_network = is_mask ? (kind & 16) != 0 : kind == 2;
    bool const is_rdma = is_mask ? (kind & 32) != 0 : kind == 3;
    return is_rdma ? 2 : (is_network ? 1 : 0);
  }

  /// Notes GPUs that no driver names although it names others, such as a lost one.
  void note_others() {
    std::vector<int> others;
    for (int at = 0; at < objects_.count(); ++at) {
      bool const is_other = objects_.at(at).is == type::pci_device && !is_gpu(at);
      if (is_other && pci_type_of(at).is_accelerator()) others.push_back(at);
    }
    if (others.empty()) return;
    notes_.push_back(std::to_string(others.size()) + " PCI devices look like GPUs, but no driver " +
                     "names them: they are no ranks, the first on line " +
                     std::to_string(objects_.at(others.front()).element.line()));
  }

  void note_partitions() {
    for (auto const& [card, count] : gpus_of_) {
      if (count < 2) continue;
      notes_.push_back(std::to_string(count) + " GPUs are partitions of one card (" +
                       std::string(objects_.at(card).element.text("pci_busid")) +
                       "), whose links they share");
    }
  }

  [[noreturn]] void fail_without_gpu(xml_element const& root) const {
    int cards = 0, displays = 0;
    for (int at = 0; at < objects_.count(); ++at) {
      if (objects_.at(at).is != type::pci_device) continue;
      ++cards;
      if (pci_type_of(at).is_display()) ++displays;
    }
    root.fail(
        "no GPU found among " + std::to_string(cards) + " PCI devices" +
        (displays > 0 ? " (" + std::to_string(displays) + " drive screens)" : "") +
        ", expected an OSDev such as nvml0, rsmi0, ze0 or cuda0, or a PCIDev of class 0302, 0380 "
        "or 1200; a computer without GPUs is the machine \"host\"");
  }

  hwloc_objects const& objects_;
  std::vector<hwloc_gpu> gpus_;
  std::vector<int> adapters_;
  std::map<int, int> gpus_of_;           // number of GPUs by owner of links
  std::set<std::string_view> families_;  // of drivers that named GPUs
  std::vector<std::string> notes_;       // remarks about the machine, not about the text
};

}}}  // namespace blink::BLINK_ABI::detail
