// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/nccl_rates.hpp>
#include <blink/topology/readers/detail/hwloc_objects.hpp>
#include <blink/topology/readers/detail/xml_element.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The processors of an hwloc file: the NUMA nodes, as in NCCL's files.
class hwloc_processors {
 public:
  explicit hwloc_processors(hwloc_objects const& objects)
      : objects_(objects),
        has_children_(objects.all.size(), false),
        has_memory_(objects.all.size(), false),
        is_used_(objects.all.size(), false) {
    for (int at = objects_.count() - 1; at >= 0; --at) {  // children before parents
      int const parent = objects_.at(at).parent;
      if (objects_.at(at).is == type::numa_node && has_children_[index(at)]) {
        has_memory_[index(at)] = true;
      }
      if (parent < 0) continue;
      has_children_[index(parent)] = true;
      bool const is_memory = objects_.at(at).is == type::numa_node;
      if (is_memory || has_memory_[index(at)]) has_memory_[index(parent)] = true;
    }
  }

  /// The nearest object around `at` that is a package or has a NUMA node of its own or below. In
  /// hwloc 1 a NUMA node holds its devices. Since hwloc 2 it stands beside them.
  [[nodiscard]] int processor_of(int at) const {
    auto const& here = objects_.at(at);
    if (here.is == type::numa_node && !has_children_[index(at)] && here.parent >= 0) {
      at = here.parent;
    }
    while (objects_.at(at).parent >= 0 && !has_memory_[index(at)] &&
           objects_.at(at).is != type::package) {
      at = objects_.at(at).parent;
    }
    return at;
  }

  /// Makes a node of the processor around `at`.
  void use(int at) { is_used_[index(processor_of(at))] = true; }
  [[nodiscard]] bool is_used(int at) const { return is_used_[index(at)]; }
  /// Positions of processors with devices, in the file's order.
  [[nodiscard]] std::vector<int> used() const {
    std::vector<int> result;
    for (int at = 0; at < objects_.count(); ++at) {
      if (is_used(at)) result.push_back(at);
    }
    return result;
  }

  /// The rate between two processors, which hwloc does not state, and the reason for it.
  [[nodiscard]] std::pair<rational, std::string> assumed_rate(xml_element const& root) const {
    auto const architecture = info(root, objects_.at(0).element, "Architecture");
    for (auto const& object : objects_.all) {
      if (object.is != type::package) continue;
      auto const maker = info(object.element, object.element, "CPUVendor");
      processor const what{architecture, maker,
                           integer_from(info(object.element, object.element, "CPUFamilyNumber")),
                           integer_from(info(object.element, object.element, "CPUModelNumber"))};
      if (auto const rate = between_processors_rate(what)) {
        return {*rate, "as NCCL takes it for " + in_quotes(maker.empty() ? architecture : maker)};
      }
    }
    return {assumed_between_processors, "as NCCL assumes between AMD processors"};
  }

 private:
  using type = hwloc_object::type;
  static std::size_t index(int at) { return static_cast<std::size_t>(at); }

  /// The value of `<info name=…>` in either element. hwloc 3 moved some from the machine to the
  /// top.
  [[nodiscard]] static std::string_view info(xml_element const& first, xml_element const& second,
                                             std::string_view name) {
    for (auto const* element : {&first, &second}) {
      for (auto const child : element->node().children("info")) {
        if (child.attribute("name").value() == name) return child.attribute("value").value();
      }
    }
    return {};
  }

  hwloc_objects const& objects_;
  std::vector<bool> has_children_;
  std::vector<bool> has_memory_;  // of its own, or below
  std::vector<bool> is_used_;
};

}}}  // namespace blink::BLINK_ABI::detail
