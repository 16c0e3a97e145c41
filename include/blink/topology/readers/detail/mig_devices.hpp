// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A MIG device: a part of an NVIDIA GPU that programs see as a GPU.
struct mig_device {
  int index = 0;                     ///< among the devices of its GPU
  std::vector<std::string> uuids{};  ///< as `node::uuids`
};

/// The MIG devices of the GPUs in MIG mode, by position of the GPU's rank.
using mig_devices = std::map<int, std::vector<mig_device>>;

/// Splits GPUs into their MIG devices, which become the ranks.
class mig_splitter {
 public:
  mig_splitter(topology const& machine, mig_devices const& devices)
      : machine_(machine),
        devices_(devices),
        out_(machine.nodes.size(), -1),
        in_(machine.nodes.size(), -1),
        capacity_out_(machine.nodes.size(), 0),
        capacity_in_(machine.nodes.size(), 0),
        has_links_(machine.nodes.size(), false),
        lost_links_(machine.nodes.size(), false) {}

  [[nodiscard]] topology build() {
    result_ = {machine_.name, machine_.unit, machine_.steps_per_unit, {}, {}, machine_.remarks};
    for (auto const& l : machine_.links) count(l);
    for (int const rank : machine_.rank_positions()) add_rank(rank);
    for (std::size_t v = 0; v < machine_.nodes.size(); ++v) {
      bool const is_switch = machine_.nodes[v].kind == node_kind::switch_node;
      bool const is_cut_off = lost_links_[v] && !has_links_[v];  // an NVSwitch of split GPUs only
      if (is_switch && !is_cut_off) out_[v] = in_[v] = add(machine_.nodes[v]);
    }
    for (auto const& [gpu, devices] : devices_) add_card(gpu, devices);
    for (auto l : machine_.links) {
      if (!is_kept(l)) continue;
      l.tail = out_[index(l.tail)];
      l.head = in_[index(l.head)];
      result_.links.push_back(l);
    }
    validate(result_);
    return std::move(result_);
  }

 private:
  static std::size_t index(int at) { return static_cast<std::size_t>(at); }
  [[nodiscard]] node const& at(int position) const { return machine_.nodes[index(position)]; }

  int add(node n) {
    int const position = static_cast<int>(result_.nodes.size());
    n.id = position;
    result_.nodes.push_back(std::move(n));
    return position;
  }

  /// False for links of split GPUs that MIG does not have: those to other GPUs, by NVLink and PCIe.
  [[nodiscard]] bool is_kept(link const& l) const {
    for (auto const& [end, other] : {std::pair(l.tail, l.head), {l.head, l.tail}}) {
      auto const found = devices_.find(end);
      if (found == devices_.end()) continue;
      if (found->second.empty() || l.kind == link_kind::nvlink) return false;
      if (at(other).kind == node_kind::rank) return false;
    }
    return true;
  }

  void count(link const& l) {
    bool const is_here = is_kept(l);
    for (int const end : {l.tail, l.head}) {
      (is_here ? has_links_ : lost_links_)[index(end)] = true;
    }
    if (!is_here) return;
    capacity_out_[index(l.tail)] += l.capacity;
    capacity_in_[index(l.head)] += l.capacity;
  }

  void add_rank(int rank) {
    auto const found = devices_.find(rank);
    if (found == devices_.end()) {
      out_[index(rank)] = in_[index(rank)] = add(at(rank));
      return;
    }
    auto part = at(rank);
    for (auto const& device : found->second) {
      part.label = at(rank).label + ":" + std::to_string(device.index);
      part.uuids = device.uuids;
      first_.try_emplace(rank, add(part));
    }
  }

  /// Adds the two switches of a split GPU. Their links are one-way, so that data of one device for
  /// another passes the host.
  void add_card(int gpu, std::vector<mig_device> const& devices) {
    auto const& label = at(gpu).label;
    if (devices.empty()) {
      result_.remarks.push_back(label + " is in MIG mode without MIG devices: it is no rank");
      return;
    }
    node card{0, node_kind::switch_node, label + " to host", at(gpu).server};
    card.uuids = at(gpu).uuids;
    int const up = out_[index(gpu)] = add(card);
    card.label = label + " from host";
    card.uuids.clear();
    int const down = in_[index(gpu)] = add(card);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      int const part = first_.at(gpu) + static_cast<int>(i);
      join(part, up, capacity_out_[index(gpu)]);
      join(down, part, capacity_in_[index(gpu)]);
    }
    result_.remarks.push_back(
        (devices.size() == 1 ? "1 MIG device has"
                             : std::to_string(devices.size()) + " MIG devices share") +
        (" the links of " + label + " to its host, no NVLink and no direct path to other GPUs"));
  }
  void join(int tail, int head, std::int64_t capacity) {
    if (capacity > 0) result_.links.push_back({tail, head, capacity, 0, link_kind::pcie});
  }

  topology const& machine_;
  mig_devices const& devices_;
  // By node of the given machine.
  std::vector<int> out_;  // the node where its links begin now
  std::vector<int> in_;   // the node where its links end now
  std::vector<std::int64_t> capacity_out_;
  std::vector<std::int64_t> capacity_in_;
  std::vector<bool> has_links_;
  std::vector<bool> lost_links_;

  std::map<int, int> first_;  // the first MIG device by its GPU
  topology result_;
};

/// The machine whose ranks are MIG devices instead of the GPUs that are split into them.
///
/// - Ranks and switches are numbered again, as positions. A MIG device "gpu0:1" stands in the place
///   of its GPU, whose switches "gpu0 to host" and "gpu0 from host" follow the others.
/// - The devices share the PCIe and C2C links of their GPU, through one-way links of kind pcie. So
///   what they exchange goes up and down these links, over a PCIe switch or the processor.
/// - NVLinks of such a GPU go. A GPU in MIG mode without MIG devices goes too.
///
/// Source: NVIDIA Multi-Instance GPU User Guide: no transfers between GPUs by PCIe or NVLink
/// Time:   O((N + L) log N) for N nodes and L links.
/// Throws: input_error if no rank is left.
[[nodiscard]] inline topology with_mig_devices(topology machine, mig_devices const& devices) {
  if (devices.empty()) return machine;
  return mig_splitter(machine, devices).build();
}

}}}  // namespace blink::BLINK_ABI::detail
