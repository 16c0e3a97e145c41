// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/detail/nccl_rates.hpp>
#include <blink/topology/readers/detail/nccl_devices.hpp>
#include <blink/topology/readers/detail/switch_planes.hpp>
#include <blink/topology/readers/detail/xml_element.hpp>
#include <blink/topology/readers/nccl_xml_options.hpp>
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

/// Turns the devices of a system file into nodes and links.
class nccl_link_builder {
 public:
  nccl_link_builder(nccl_devices const& devices, nccl_xml_options const& options)
      : devices_(devices),
        options_(options),
        remarks_(devices.remarks),
        position_(devices.all.size(), -1) {}

  [[nodiscard]] topology build() {
    for (int const gpu : devices_.gpus) add_device(gpu, node_kind::rank);
    for (std::size_t i = 0; i < devices_.all.size(); ++i) {
      auto const& here = devices_.all[i];
      if (here.is_used && !here.is_merged && here.is != type::gpu) {
        add_device(static_cast<int>(i), node_kind::switch_node);
      }
    }
    for (int const gpu : devices_.gpus) collect_links(gpu);
    refuse_one_sided_links();
    compare_planes();
    std::set<int> done;
    for (int const gpu : devices_.gpus) {
      if (done.insert(owner_of(gpu)).second) add_links(owner_of(gpu), gpu);
    }
    link_tree();
    link_processors();
    for (auto const& remark : remarks_.texts()) machine_.remark(remark);
    for (auto const& note : devices_.notes) machine_.remark(note);
    return machine_.build(devices_.all.front().element.from().file, options_.largest_step_count);
  }

 private:
  using type = nccl_device::type;
  struct link_count {
    std::int64_t count = 0;
    std::optional<xml_element> element;
  };

  [[nodiscard]] nccl_device const& device(int at) const {
    return devices_.all[static_cast<std::size_t>(at)];
  }
  [[nodiscard]] int position(int at) const { return position_[static_cast<std::size_t>(at)]; }

  void add_device(int at, node_kind kind) {
    auto const& what = device(at);
    auto label = what.is == type::gpu
                     ? "gpu" + std::string(what.dev.empty() ? what.element.text("rank") : what.dev)
                     : what.label;
    int const id = machine_.add_node(kind, std::move(label), what.host);
    position_[static_cast<std::size_t>(at)] = id;
    if (what.is == type::gpu) {
      xml_element const pci(what.element.from(), what.element.node().parent());
      machine_.at(id).bus_id = pci.text("busid");
    }
  }
  /// Collects the links of one GPU. Those of a partition are its card's: each partition lists them
  /// or leaves them to another, so the largest list counts.
  void collect_links(int gpu) {
    int const owner = owner_of(gpu);
    std::map<int, link_count> direct;              // by GPU or card
    std::map<std::uint64_t, std::int64_t> planes;  // by bus id of the switch
    std::int64_t sum = 0, to_processor = 0;
    rational c2c = 0;
    for (auto const child : device(gpu).element.node().children()) {
      xml_element const element(device(gpu).element.from(), child);
      if (element.name() == "c2c") {
        auto const speed = element.required_integer("bw", 1, options_.largest_c2c_speed);
        auto const count = element.required_integer("count", 1, options_.largest_link_count);
        c2c += rational(speed * count, 1'000);
      }
      if (element.name() != "nvlink" && element.name() != "xgmi") continue;
      auto const count = element.required_integer("count", 1, options_.largest_link_count);
      if (element.name() == "nvlink") expect_nvlinks(gpu, element, sum + count);
      if ((sum += count) > options_.largest_link_count) {
        element.fail("the GPU has more than " + std::to_string(options_.largest_link_count) +
                     " links");
      }
      auto const target = target_of(gpu, element);
      if (!target) continue;  // a GPU that is not in the file
      if (*target < 0) {
        planes[plane_of(element)] += count;
      } else if (device(*target).is == type::processor) {
        to_processor += count;
      } else if (owner_of(*target) != owner) {
        auto& pair = direct[owner_of(*target)];
        pair.count += count;
        pair.element = element;
      }
    }
    for (auto const& [target, here] : direct) {
      auto& known = direct_[{owner, target}];
      if (known.count < here.count) known = here;
    }
    c2c_[owner] = std::max(c2c_[owner], c2c);
    auto& known = planes_[owner];
    for (auto const& [plane, count] : planes) known[plane] = std::max(known[plane], count);
    to_processor_[owner] = std::max(to_processor_[owner], to_processor);
  }

  /// Adds the links of a GPU, or of a card of several, that were collected. Parallel links become
  /// one with the sum of their rates.
  void add_links(int owner, int gpu) {
    int const from = position(owner);
    if (c2c_[owner] > 0) {
      machine_.add_both_ways(from, position(processor_of(owner)), c2c_[owner], link_kind::c2c);
    }
    for (auto const& [node, count] : switches_of(owner)) {
      machine_.add_both_ways(from, node, link_rate(gpu, "nvlink") * count, link_kind::nvlink);
    }
    if (auto const count = to_processor_[owner]; count > 0) {
      machine_.add_both_ways(from, position(processor_of(owner)), link_rate(gpu, "nvlink") * count,
                             link_kind::nvlink);
    }
    for (auto it = direct_.lower_bound({owner, -1});
         it != direct_.end() && it->first.first == owner; ++it) {
      auto const name = it->second.element->name();
      machine_.add_link(from, position(it->first.second), link_rate(gpu, name) * it->second.count,
                        name == "xgmi" ? link_kind::xgmi : link_kind::nvlink);
    }
  }

  /// The GPU, or the card of which it is a partition.
  [[nodiscard]] int owner_of(int gpu) const {
    int const parent = device(gpu).parent;
    return parent >= 0 && device(parent).is == type::card ? parent : gpu;
  }

  /// Fails if a GPU lists more NVLinks than its generation has.
  void expect_nvlinks(int gpu, xml_element const& element, std::int64_t count) const {
    auto const sm = device(gpu).element.required_integer("sm", 1, 999);
    if (nvlink_line_rate(sm) && count > most_nvlinks(sm)) {
      element.fail("the GPU has " + std::to_string(count) + " or more NVLinks, expected at most " +
                   std::to_string(most_nvlinks(sm)) + " for sm=" + std::to_string(sm));
    }
  }

  /// The device at the far end of a link: a GPU or a processor. -1 is the NVSwitch. Nothing for a
  /// device that is not in the file.
  [[nodiscard]] std::optional<int> target_of(int gpu, xml_element const& element) {
    auto const target = element.required_text("target");
    auto const bus = bus_number(target);
    if (!bus)
      element.fail("target=" + in_quotes(target) + ", expected a bus id such as \"0000:06:00.0\"");
    auto const found = devices_.by_bus.find({device(gpu).host, *bus});
    bool const is_in_file = found != devices_.by_bus.end();
    bool const is_gpu = is_in_file && device(found->second).is == type::gpu;
    bool const is_hidden = target.starts_with("fffffff:");
    bool const is_xgmi = element.name() == "xgmi";
    auto const far = element.text("tclass");

    if (is_gpu && found->second == gpu)
      element.fail("target " + in_quotes(target) + " is the GPU itself");
    if (is_xgmi && is_hidden) {
      remarks_.add(element, "links to GPUs that the program did not see are not used");
      return std::nullopt;
    }
    if (far.empty()) {
      if (is_gpu) return found->second;
      if (is_xgmi) return std::nullopt;
      if (is_hidden) return -1;
      element.fail("without tclass, and target " + in_quotes(target) +
                   " is no GPU of this file: a GPU or a switch?");
    }
    if (is_gpu_class(far)) {
      if (is_in_file && !is_gpu && !is_gpu_class(device(found->second).element.text("class"))) {
        element.fail("target " + in_quotes(target) + " is no GPU, expected one because of tclass");
      }
      return is_gpu ? std::optional(found->second) : std::nullopt;
    }
    if (!is_xgmi && far.starts_with("0x068000")) {
      if (is_gpu)
        element.fail("target " + in_quotes(target) + " is a GPU, its tclass says a switch");
      return -1;
    }
    if (!is_xgmi && far.starts_with("0x068001")) return processor_of(gpu);
    element.fail("tclass=" + in_quotes(far) +
                 ", expected 0x03… or 0x12… (GPU), 0x068000 (switch) or 0x068001 (processor)");
  }

  static constexpr std::uint64_t hidden_plane = UINT64_MAX;

  /// The NVSwitch at the far end of a link: its bus id, or `hidden_plane` for one that the program
  /// did not see.
  [[nodiscard]] static std::uint64_t plane_of(xml_element const& element) {
    auto const target = element.text("target");
    return target.starts_with("fffffff:") ? hidden_plane : *bus_number(target);
  }

  void compare_planes() {
    std::set<int> hidden_hosts;
    for (auto const& [owner, planes] : planes_) {
      if (planes.contains(hidden_plane)) hidden_hosts.insert(device(owner).host);
      hosts_[device(owner).host].add_gpu(planes);
    }
    if (options_.reading.as_nccl) return;
    if (hidden_hosts.size() > 1) {
      machine_.remark("NVSwitches that no host sees count as one fabric of " +
                      std::to_string(hidden_hosts.size()) + " hosts");
    }
    for (auto const& [host, planes] : hosts_) {
      if (auto const text = planes.remark(); !text.empty()) machine_.remark(text);
    }
  }

  /// The switches that a GPU or card is linked to, with the number of links.
  [[nodiscard]] std::map<int, std::int64_t> switches_of(int owner) {
    std::map<int, std::int64_t> result;
    int const host = device(owner).host;
    bool const as_nccl = options_.reading.as_nccl;
    bool const are_one = as_nccl || hosts_.at(host).are_one();
    for (auto const& [plane, count] : planes_[owner]) {
      // Switches of two hosts may have one bus id, and are two. What no host sees may join hosts.
      bool const is_shared = (plane == hidden_plane || as_nccl) && devices_.host_count > 1;
      std::pair const key =
          std::pair{is_shared ? -1 : host, are_one && (as_nccl || !is_shared) ? 0 : plane};
      auto const [at, is_new] = switches_.try_emplace(key, 0);
      if (is_new) {
        auto const number = are_one || is_shared ? "" : std::to_string(switches_.size() - 1);
        at->second = machine_.add_node(node_kind::switch_node, "nvswitch" + number, key.first);
      }
      result[at->second] += count;
    }
    return result;
  }

  [[nodiscard]] int processor_of(int at) const {
    while (device(at).parent >= 0) at = device(at).parent;
    return at;
  }

  [[nodiscard]] rational link_rate(int gpu, std::string_view name) {
    auto const& element = device(gpu).element;
    bool const by_line = !options_.reading.as_nccl;
    if (name == "xgmi") {
      auto const gcn = element.required_text("gcn");
      auto const rate = by_line ? xgmi_line_rate(gcn) : xgmi_effective_rate(gcn);
      if (!rate) return unknown_xgmi_rate(element);
      return *rate;
    }
    auto const sm = element.required_integer("sm", 1, 999);
    auto const rate = by_line ? nvlink_line_rate(sm) : nvlink_effective_rate(sm);
    if (!rate) {
      element.fail("sm=" + in_quotes(element.text("sm")) +
                   " has no NVLink, expected 60 or more, not 89");
    }
    return *rate;
  }

  rational unknown_xgmi_rate(xml_element const& gpu) {
    auto const given = options_.reading.rates.find(link_kind::xgmi);
    if (given != options_.reading.rates.end()) return given->second;
    bool const by_line = !options_.reading.as_nccl;
    rational const rate = by_line ? *xgmi_line_rate("950") : *xgmi_effective_rate("950");
    remarks_.add(gpu, "gcn=" + in_quotes(gpu.text("gcn")) +
                          " has no known rate of an XGMI link, which counts as " + rate.to_text() +
                          " GB/s (--link-rate xgmi=GB/s)");
    return rate;
  }

  void refuse_one_sided_links() const {
    for (auto const& [ends, here] : direct_) {
      auto const back = direct_.find({ends.second, ends.first});
      auto const count = back == direct_.end() ? 0 : back->second.count;
      if (count != here.count) {
        here.element->fail(std::to_string(here.count) + " links to " +
                           in_quotes(here.element->text("target")) + ", which lists " +
                           std::to_string(count) + " back");
      }
      if (back->second.element->name() != here.element->name()) {
        here.element->fail("the link back is <" + std::string(back->second.element->name()) +
                           ">, expected the same");
      }
    }
  }

  /// Links each device to its parent. The merged level of a switch is skipped.
  void link_tree() {
    std::map<std::pair<int, std::string>, int> slots;  // node by host and bus id without function
    for (std::size_t i = 0; i < devices_.all.size(); ++i) {
      auto const& here = devices_.all[i];
      if (here.parent < 0 || !here.is_used || here.is_merged) continue;
      int const parent = device(here.parent).is_merged ? device(here.parent).parent : here.parent;
      auto const id = here.element.text("busid");
      if (here.is == type::adapter && id.find('.') != std::string_view::npos &&
          !options_.reading.as_nccl) {
        // Functions of one adapter have one slot: the link of the first.
        auto const slot = std::string(id.substr(0, id.rfind('.')));
        auto const first = slots.try_emplace({here.host, slot}, position_[i]).first->second;
        if (first != position_[i]) {
          machine_.add_both_ways(position_[i], first, unlimited_rate, here.kind);
          continue;
        }
      }
      machine_.add_both_ways(position_[i], position(parent), here.rate, here.kind,
                             here.latency_seconds);
    }
    std::map<std::pair<int, int>, int> seen;
    for (std::size_t i = 0; i < devices_.all.size(); ++i) {
      auto const& here = devices_.all[i];
      if (here.is != type::bridge) continue;
      for (auto const child : here.element.node().children("pcilink")) {
        link_bridges(static_cast<int>(i), xml_element(here.element.from(), child), seen);
      }
    }
  }

  /// Links Broadcom switches that are joined chip to chip.
  void link_bridges(int at, xml_element const& element, std::map<std::pair<int, int>, int>& seen) {
    auto const target = element.required_text("target");
    auto const bus = bus_number(target);
    if (!bus)
      element.fail("target=" + in_quotes(target) + ", expected a bus id such as \"0000:06:00.0\"");
    auto const found = devices_.by_bus.find({device(at).host, *bus});
    if (found == devices_.by_bus.end()) return;  // the other switch serves no device of the file
    auto const top = [&](int where) {
      return position(device(where).is_merged ? device(where).parent : where);
    };
    int const a = top(at);
    int const b = top(found->second);
    if (a == b) element.fail("target " + in_quotes(target) + " is the switch itself");
    if (a < 0 || b < 0 || !seen.insert({std::minmax(a, b), 0}).second) return;
    machine_.add_both_ways(a, b, unlimited_rate, link_kind::pcie);
  }

  /// Links each two processors of one host.
  void link_processors() {
    std::map<int, std::vector<std::size_t>> processors;  // by host
    for (std::size_t i = 0; i < devices_.all.size(); ++i) {
      auto const& each = devices_.all[i];
      if (each.is == type::processor && each.is_used) processors[each.host].push_back(i);
    }
    for (auto const& [host, all] : processors) {
      auto const most = input_limits{}.processors;
      if (all.size() > most) {
        devices_.all[all[most]].element.fail(std::to_string(all.size()) +
                                             " processors with devices, expected at most " +
                                             std::to_string(most));
      }
      if (all.size() == 1) continue;  // its rate to others is not needed, nor a remark on it
      for (std::size_t const from : all) {
        auto const rate =
            rate_between_processors(devices_.all[from].element, options_.reading, remarks_);
        for (std::size_t const to : all) {
          if (from != to) {
            machine_.add_link(position_[from], position_[to], rate, link_kind::socket);
          }
        }
      }
    }
  }

  nccl_devices const& devices_;
  nccl_xml_options const& options_;
  xml_remarks remarks_;
  std::vector<int> position_;  ///< of each device: its node in the machine, or -1
  machine_builder machine_;
  // By GPU or card.
  std::map<std::pair<int, int>, link_count> direct_;  ///< to another GPU or card, one direction
  std::map<int, std::map<std::uint64_t, std::int64_t>> planes_;  ///< links by NVSwitch
  std::map<int, std::int64_t> to_processor_;
  std::map<int, rational> c2c_;

  std::map<int, switch_planes> hosts_;                     ///< NVSwitches by host
  std::map<std::pair<int, std::uint64_t>, int> switches_;  ///< node by host and bus id
};

}}}  // namespace blink::BLINK_ABI::detail
