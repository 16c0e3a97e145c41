// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/readers/detail/hwloc_devices.hpp>
#include <blink/topology/readers/detail/hwloc_matrix.hpp>
#include <blink/topology/readers/detail/hwloc_objects.hpp>
#include <blink/topology/readers/detail/hwloc_processors.hpp>
#include <blink/topology/readers/detail/switch_planes.hpp>
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
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The numbers of links in a row between two GPUs. Without a matrix all are 0.
class hwloc_hops {
 public:
  explicit hwloc_hops(std::optional<hwloc_matrix> matrix) : matrix_(std::move(matrix)) {
    for (std::size_t i = 0; matrix_ && i < matrix_->objects.size(); ++i) {
      rows_[matrix_->objects[i]] = i;
    }
  }
  [[nodiscard]] std::int64_t between(int a, int b) const {
    auto const row = rows_.find(a);
    auto const column = rows_.find(b);
    if (row == rows_.end() || column == rows_.end()) return 0;
    return matrix_->value(row->second, column->second);
  }

 private:
  std::optional<hwloc_matrix> matrix_;
  std::map<int, std::size_t> rows_;  // by object
};

/// The links of GPUs beside PCIe: NVLink, XGMI and Xe Link, as the matrices of bandwidths state.
class hwloc_fabric {
 public:
  hwloc_fabric(hwloc_objects& objects, hwloc_devices const& devices, hwloc_processors& processors)
      : objects_(objects), devices_(devices), processors_(processors) {}

  /// Reads the matrices. Processors that a GPU has a link to become nodes.
  void read(xml_element const& root) {
    read_matrix(root, "NVLinkBandwidth", link_kind::nvlink);
    read_matrix(root, "XGMIBandwidth", link_kind::xgmi);
    read_matrix(root, "XeLinkBandwidth", link_kind::xelink);
  }
  [[nodiscard]] bool has_links() const { return !links_.empty(); }

  /// Adds the NVSwitches and all links.
  ///
  /// node: by object
  void add_to(machine_builder& machine, std::vector<int> const& node) const {
    auto const switches = add_switches(machine);
    auto const node_of = [&](int at) {
      auto const found = switches.find(at);
      return found == switches.end() ? node[static_cast<std::size_t>(at)] : found->second;
    };
    std::map<std::tuple<int, int, link_kind>, std::int64_t> sums;
    for (auto const& [ends, rate] : links_) {
      auto const& [tail, head, kind] = ends;
      sums[{node_of(tail), node_of(head), kind}] += rate;
    }
    for (auto const& [ends, rate] : sums) {
      auto const& [tail, head, kind] = ends;
      machine.add_link(tail, head, rational(rate, 1'000), kind);
    }
  }

 private:
  using type = hwloc_object::type;

  void read_matrix(xml_element const& root, std::string_view name, link_kind kind) {
    auto const matrix = find_hwloc_matrix(root, name, objects_);
    if (!matrix) return;
    std::vector<int> ends;
    for (int const at : matrix->objects) ends.push_back(end_of(at, matrix->element));
    hwloc_hops const hops(kind == link_kind::xgmi ? find_hwloc_matrix(root, "XGMIHops", objects_)
                                                  : std::nullopt);
    int distant = 0, near = 0, pairs = 0;
    std::int64_t least = INT64_MAX, most = 0;
    for (std::size_t a = 0; a < ends.size(); ++a) {
      for (std::size_t b = 0; b < ends.size(); ++b) {
        if (!are_two_ends(ends[a], ends[b])) continue;
        auto const rate = matrix->value(a, b);
        auto const steps = hops.between(matrix->objects[a], matrix->objects[b]);
        ++pairs;
        if (steps == 1) ++near;
        least = std::min(least, rate);
        most = std::max(most, rate);
        if (rate > 0 && steps > 1) ++distant;
        if (rate > 0 && steps <= 1) add(ends[a], ends[b], kind, rate);
      }
    }
    constexpr int pairs_of_three = 6;
    if (least == most && near == pairs && pairs >= pairs_of_three) {
      objects_.remarks.add(matrix->element,
                           "hwloc states the same rate for all pairs, as some releases do for any "
                           "GPUs; rocm-smi --shownodesbw has the links");
    }
    if (distant > 0) {
      objects_.remarks.add(
          matrix->element,
          std::to_string(distant) + " rates are of paths through other GPUs, and no links");
    }
  }

  [[nodiscard]] bool are_two_ends(int a, int b) const {
    return a >= 0 && b >= 0 && a != b && (devices_.is_gpu(a) || devices_.is_gpu(b));
  }

  /// Parts of one card each list the card's links, of which the largest list counts. Tiles of an
  /// Intel card have links of their own, which add up.
  void add(int tail, int head, link_kind kind, std::int64_t rate) {
    auto& known = links_[{tail, head, kind}];
    known = kind == link_kind::xgmi ? std::max(known, rate) : known + rate;
    for (int const end : {tail, head}) {
      if (!objects_.at(end).is_device()) processors_.use(end);
    }
  }

  /// The device or processor at the end of a link; -1 for what has no links of its own.
  [[nodiscard]] int end_of(int at, xml_element const& matrix) {
    if (at < 0) return -1;
    auto const& here = objects_.at(at);
    if (!here.is_device()) return processors_.processor_of(at);
    if (here.is == type::os_device) {
      // The links of a GPU's parts are in the sums of the GPU.
      if (objects_.at(here.parent).is == type::os_device) return -1;
      int const card = devices_.card_of(at);
      int const owner = card < 0 ? at : card;
      if (devices_.is_gpu(owner)) return owner;
    }
    if (here.is == type::pci_device && (devices_.is_gpu(at) || is_nvswitch(at))) {
      return at;
    }
    objects_.remarks.add(matrix, "gp_index " + std::string(here.element.text("gp_index")) +
                                     " is no GPU, NVSwitch or processor");
    return -1;
  }

  [[nodiscard]] bool is_nvswitch(int at) const {
    auto const& here = objects_.at(at);
    return here.is == type::pci_device && !devices_.is_gpu(at) &&
           (here.element.text("subtype") == "NVSwitch" || devices_.pci_type_of(at).is_nvswitch());
  }

  /// Nodes by NVSwitch.
  [[nodiscard]] std::map<int, int> add_switches(machine_builder& machine) const {
    std::map<int, switch_planes::links_of_gpu> planes_of;  // MB/s, by GPU
    std::set<int> switches;
    for (auto const& [ends, rate] : links_) {
      auto const& [tail, head, kind] = ends;
      if (is_nvswitch(tail)) switches.insert(tail);
      if (!is_nvswitch(head)) continue;
      planes_of[tail][static_cast<std::uint64_t>(head)] += rate;
      switches.insert(head);
    }
    switch_planes planes;
    for (auto const& [gpu, its_planes] : planes_of) planes.add_gpu(its_planes);
    if (auto const text = planes.remark(); !text.empty()) machine.remark(text);
    bool const are_one = planes.are_one();
    std::map<int, int> result;
    int node = -1;
    for (int const each : switches) {
      auto const number = are_one ? "" : std::to_string(result.size());
      if (node < 0 || !are_one)
        node = machine.add_node(node_kind::switch_node, "nvswitch" + number, 0);
      result[each] = node;
    }
    return result;
  }

  hwloc_objects& objects_;
  hwloc_devices const& devices_;
  hwloc_processors& processors_;
  std::map<std::tuple<int, int, link_kind>, std::int64_t> links_;  // MB/s from object to object
};

}}}  // namespace blink::BLINK_ABI::detail
