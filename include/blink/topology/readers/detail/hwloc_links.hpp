// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/detail/nccl_rates.hpp>
#include <blink/topology/readers/detail/hwloc_devices.hpp>
#include <blink/topology/readers/detail/hwloc_fabric.hpp>
#include <blink/topology/readers/detail/hwloc_objects.hpp>
#include <blink/topology/readers/detail/hwloc_processors.hpp>
#include <blink/topology/readers/detail/xml_element.hpp>
#include <blink/topology/readers/reading_options.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Turns the devices of an hwloc file into nodes and links.
class hwloc_link_builder {
 public:
  hwloc_link_builder(hwloc_objects& objects, xml_element const& root,
                     reading_options const& options)
      : objects_(objects),
        root_(root),
        options_(options),
        devices_(objects, root),
        processors_(objects),
        fabric_(objects, devices_, processors_),
        node_(objects.all.size(), -1),
        branches_(objects.all.size(), 0),
        gpu_rate_(objects.all.size()) {}

  [[nodiscard]] topology build() {
    fabric_.read(root_);
    add_gpus();
    count_branches();
    add_switches();
    fabric_.add_to(machine_, node_);
    link_devices();
    link_processors();
    for (auto const& text : objects_.remarks.texts()) machine_.remark(text);
    for (auto const& text : devices_.notes()) machine_.remark(text);
    remark_assumed_rates();
    return machine_.build(root_.from().file);
  }

 private:
  using type = hwloc_object::type;
  using known_rate = std::optional<rational>;  // nothing for a rate that is not stated

  [[nodiscard]] hwloc_object const& object(int at) const { return objects_.at(at); }
  int& node(int at) { return node_[static_cast<std::size_t>(at)]; }
  int& branches(int at) { return branches_[static_cast<std::size_t>(at)]; }

  /// The smaller of two rates. One that is not stated limits nothing.
  [[nodiscard]] static known_rate lower(known_rate const& a, known_rate const& b) {
    if (!a || !b) return a ? a : b;
    return std::min(*a, *b);
  }

  void add_gpus() {
    for (auto const& gpu : devices_.gpus()) {
      auto const name = gpu.number.value_or(gpu_count_++);
      auto const id = machine_.add_node(node_kind::rank, "gpu" + std::to_string(name), 0);
      node(devices_.is_shared(gpu.card) ? gpu.object : devices_.owner_of(gpu)) = id;
      machine_.at(id).uuids = devices_.uuids_of(gpu);
      if (gpu.card >= 0) machine_.at(id).bus_id = object(gpu.card).element.text("pci_busid");
    }
  }

  /// Counts the branches that meet at each device, and finds the processors that serve a device.
  /// Later functions of an adapter are branches of the first.
  void count_branches() {
    for (int const card : devices_.adapters()) {
      auto const bus = object(card).element.required_text("pci_busid");
      auto const slot = bus.substr(0, bus.rfind('.'));
      if (slots_.try_emplace(slot, card).second) branches(card) = 1;
    }
    for (int at = objects_.count() - 1; at >= 0; --at) {  // children before parents
      auto const& here = object(at);
      if (!here.is_device() || (branches(at) == 0 && node(at) < 0)) continue;
      auto const& above = object(here.parent);
      if (!above.is_device()) {
        processors_.use(here.parent);
        continue;
      }
      ++branches(here.parent);
      if (devices_.is_gpu(at)) {
        auto& rate = gpu_rate_[index(here.parent)];
        rate = std::max(rate, stated(at));
      }
    }
  }

  /// The rate that a device states for its link; nothing for 0, which is unknown.
  [[nodiscard]] known_rate stated(int at) const {
    auto const& element = object(at).element;
    auto const text = element.text("pci_link_speed");
    if (text.empty()) return std::nullopt;
    constexpr int decimals = 6;
    auto const rate = read_decimal(text, decimals);
    if (!rate || *rate < 0 || *rate > rational(10'000)) {
      element.fail("pci_link_speed=" + in_quotes(text) +
                   ", expected GB/s from 0 to 10000 with at most 6 decimals");
    }
    return *rate > 0 ? rate : std::nullopt;
  }

  /// Processors, PCIe switches, cards of several GPUs and adapters, in the file's order.
  void add_switches() {
    std::set<int> const adapters(devices_.adapters().begin(), devices_.adapters().end());
    std::size_t processor_count = 0;
    for (int at = 0; at < objects_.count(); ++at) {
      auto const& here = object(at);
      if (processors_.is_used(at)) {
        node(at) = add_switch("processor" + std::to_string(processor_count++));
      } else if (adapters.contains(at)) {
        node(at) = add_switch(devices_.adapter_name(at));
      } else if (here.is == type::bridge && branches(at) > 1 && !here.is_host_bridge()) {
        node(at) = add_switch("pci " + std::string(here.element.text("pci_busid")));
      } else if (devices_.is_shared(at)) {
        node(at) = add_switch("card " + std::string(here.element.text("pci_busid")));
      }
    }
    auto const most = input_limits{}.processors;
    if (processor_count > most) {
      root_.fail(std::to_string(processor_count) + " processors with devices, expected at most " +
                 std::to_string(most));
    }
  }
  int add_switch(std::string label) {
    return machine_.add_node(node_kind::switch_node, std::move(label), 0);
  }

  void link_devices() {
    for (int at = 0; at < objects_.count(); ++at) {
      if (node(at) < 0 || !object(at).is_device()) continue;
      int const parent = object(at).parent;
      if (devices_.is_shared(parent)) {
        machine_.add_both_ways(node(at), node(parent), unlimited_rate,
                               devices_.kind_inside(parent));
      } else if (int const first = first_function(at); first != at) {
        machine_.add_both_ways(node(at), node(first), unlimited_rate, link_kind::pcie);
      } else {
        link_upwards(at);
      }
    }
  }

  /// The first function of an adapter, which has the link of all of them.
  [[nodiscard]] int first_function(int at) const {
    auto const bus = object(at).element.text("pci_busid");
    auto const found = slots_.find(bus.substr(0, bus.rfind('.')));
    bool const is_adapter = object(at).is == type::pci_device && branches_[index(at)] == 0 &&
                            !devices_.is_gpu(at) && found != slots_.end();
    return is_adapter ? found->second : at;
  }

  /// Links a device to the next node above. Ports in between are part of the link.
  void link_upwards(int at) {
    auto rate = rate_upwards(at);
    int above = object(at).parent;
    for (; object(above).is_device() && node(above) < 0; above = object(above).parent) {
      rate = lower(rate, rate_upwards(above));
    }
    if (!object(above).is_device()) above = processors_.processor_of(above);
    constexpr std::int64_t least = 3;  // Gen3 x4 has 3.94
    if (rate && *rate < least && devices_.is_gpu(at)) {
      objects_.remarks.add(
          object(at).element,
          "links of GPUs state less than 3 GB/s, maybe because the GPUs were idle");
    }
    machine_.add_both_ways(node(at), node(above), rate ? *rate : assumed_pcie_rate(at),
                           link_kind::pcie);
  }

  /// The rate of the PCIe link of a port or device. Two ends of a link state a rate each. Of a GPU
  /// and the port above it the higher one counts, because drivers wake a GPU while lstopo reads.
  [[nodiscard]] known_rate rate_upwards(int at) const {
    if (object(at).is_host_bridge()) return std::nullopt;
    auto const& above = object(object(at).parent);
    bool const has_port = above.is == type::bridge && !above.is_host_bridge();
    if (devices_.is_gpu(at) && has_port) return std::max(stated(at), stated(object(at).parent));
    return std::max(stated(at), gpu_rate_[index(at)]);
  }

  [[nodiscard]] rational assumed_pcie_rate(int at) {
    if (assumed_links_++ == 0) first_assumed_ = at;
    auto const given = options_.rates.find(link_kind::pcie);
    return given == options_.rates.end() ? gen4_x16 : given->second;
  }

  void link_processors() {
    auto const used = processors_.used();
    auto const rate = socket_rate();
    for (int const a : used) {
      for (int const b : used) {
        if (a < b) machine_.add_both_ways(node(a), node(b), rate, link_kind::socket);
      }
    }
  }

  [[nodiscard]] rational socket_rate() const {
    auto const given = options_.rates.find(link_kind::socket);
    return given == options_.rates.end() ? processors_.assumed_rate(root_).first : given->second;
  }

  void remark_assumed_rates() {
    if (assumed_links_ > 0 && !options_.rates.contains(link_kind::pcie)) {
      machine_.remark("pcie counts as 31.5 GB/s, Gen 4 x16, for " + std::to_string(assumed_links_) +
                      " links of which the file states no rate, the first on line " +
                      std::to_string(object(first_assumed_).element.line()) +
                      " (--link-rate pcie=GB/s)");
    }
    if (processors_.used().size() > 1 && !options_.rates.contains(link_kind::socket)) {
      auto const [rate, why] = processors_.assumed_rate(root_);
      machine_.remark("socket counts as " + rate.to_text() + " GB/s, " + why +
                      ": the file states no rate between processors (--link-rate socket=GB/s)");
    }
    if (devices_.gpus().size() > 1 && !fabric_.has_links()) {
      machine_.remark(
          "the file states no NVLink, XGMI or Xe Link: lstopo finds them with NVML, RSMI or Level "
          "Zero only");
    }
  }

  static std::size_t index(int at) { return static_cast<std::size_t>(at); }
  inline static rational const gen4_x16{63, 2};

  hwloc_objects& objects_;
  xml_element root_;
  reading_options const& options_;
  hwloc_devices devices_;
  hwloc_processors processors_;
  hwloc_fabric fabric_;
  std::vector<int> node_;                  // by object; -1 for none
  std::vector<int> branches_;              // by object: with a node below
  std::vector<known_rate> gpu_rate_;       // by object: the highest that a GPU below states
  std::map<std::string_view, int> slots_;  // adapter by bus id without function
  machine_builder machine_;
  std::int64_t gpu_count_ = 0;
  int assumed_links_ = 0;
  int first_assumed_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
