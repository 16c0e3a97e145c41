// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/topology/readers/detail/xml_element.hpp>

#include <pugixml.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// An object of an hwloc file: `<object type=…>`.
struct hwloc_object {
  enum class type : std::uint8_t {
    locality,    ///< Machine, Group, cache, core and what else has processors
    package,     ///< also Socket, its name in hwloc 1
    numa_node,   ///< holds other objects in hwloc 1, and none later
    bridge,      ///< a host bridge, or one port of a PCIe switch
    pci_device,  ///< a function of a card
    os_device    ///< a name by which a program knows the device that holds it
  };
  type is = type::locality;
  int parent = -1;  ///< position in `hwloc_objects::all`; -1 for the machine
  xml_element element;

  /// True for what hangs at a processor: bridges, cards and the devices on them.
  [[nodiscard]] bool is_device() const {
    return is == type::bridge || is == type::pci_device || is == type::os_device;
  }
  /// True for the bridge from a processor to its root ports, which states no rate.
  [[nodiscard]] bool is_host_bridge() const {
    return is == type::bridge && element.text("bridge_type").starts_with('0');
  }
};

/// The objects of an hwloc file.
struct hwloc_objects {
  std::vector<hwloc_object> all{};           ///< parents before children, in the file's order
  std::map<std::uint64_t, int> by_number{};  ///< position by gp_index
  std::int64_t version = 1;                  ///< of the format: 1, 2 or 3
  xml_remarks remarks;

  [[nodiscard]] hwloc_object const& at(int position) const {
    return all[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] hwloc_object const* parent_of(hwloc_object const& object) const {
    return object.parent < 0 ? nullptr : &at(object.parent);
  }
  [[nodiscard]] int count() const { return static_cast<int>(all.size()); }
};

/// Reads `<topology>` and lists its objects. Other elements are for other readers.
class hwloc_object_reader {
 public:
  explicit hwloc_object_reader(bool is_strict) : found_{.remarks = xml_remarks(is_strict)} {}

  /// Time: O(n log n) for n objects; without recursion.
  [[nodiscard]] hwloc_objects read(xml_element const& topology) {
    read_version(topology);
    std::vector<int> above;  // positions of the open objects
    auto const next_object = [](pugi::xml_node node) {
      while (node && node.name() != std::string_view("object")) node = node.next_sibling();
      return node;
    };
    auto node = next_object(topology.node().first_child());
    while (node) {
      xml_element const element(topology.from(), node);
      if (element.text("type") != "Misc") {
        above.push_back(add(element, above.empty() ? -1 : above.back()));
        if (above.size() > most_levels) {
          element.fail("more than " + std::to_string(most_levels) + " levels of objects");
        }
        if (auto const child = next_object(node.first_child())) {
          node = child;
          continue;
        }
        above.pop_back();
      }
      auto next = next_object(node.next_sibling());
      while (!next && !above.empty()) {
        node = node.parent();
        above.pop_back();
        next = next_object(node.next_sibling());
      }
      node = next;
    }
    if (found_.all.empty()) topology.fail("no <object>, expected a file of lstopo");
    return std::move(found_);
  }

 private:
  using type = hwloc_object::type;
  static constexpr std::size_t most_levels = 256;

  void read_version(xml_element const& topology) {
    if (!topology.has("version")) return;
    auto const text = topology.text("version");
    auto const major = integer_from(text.substr(0, text.find('.')));
    if (major && 1 <= *major && *major <= 3) {
      found_.version = *major;
    } else {
      found_.version = 3;
      found_.remarks.add(
          topology, "version=" + in_quotes(text) + " is read as 3.0, expected 1.0, 2.0 or 3.0");
    }
  }

  int add(xml_element const& element, int parent) {
    element.check_attributes();
    hwloc_object object{.is = type_of(element), .parent = parent, .element = element};
    if (parent < 0 && !found_.all.empty()) {
      element.fail("a second machine, expected one in a file");
    }
    if (parent < 0 && object.is != type::locality) {
      element.fail("type=" + in_quotes(element.text("type")) + " outside a Machine");
    }
    int const here = found_.count();
    if (auto const number = element.text("gp_index"); !number.empty()) {
      std::uint64_t value = 0;
      auto const [end, failure] =
          std::from_chars(number.data(), number.data() + number.size(), value);
      if (failure != std::errc{} || end != number.data() + number.size()) {
        element.fail("gp_index=" + in_quotes(number) + ", expected a number");
      }
      if (!found_.by_number.emplace(value, here).second) {
        element.fail("gp_index=" + in_quotes(number) + " appears twice");
      }
    }
    found_.all.push_back(object);
    return here;
  }

  [[nodiscard]] type type_of(xml_element const& element) {
    auto const name = element.required_text("type");
    if (name == "Bridge") return type::bridge;
    if (name == "PCIDev") return type::pci_device;
    if (name == "OSDev") return type::os_device;
    if (name == "Package" || name == "Socket") return type::package;
    if (name == "NUMANode" || name == "Node") return type::numa_node;
    constexpr std::array<std::string_view, 7> known{"System", "Machine", "Group", "Die",
                                                    "Core",   "PU",      "Cache"};
    bool const is_known =
        std::find(known.begin(), known.end(), name) != known.end() || name.ends_with("Cache");
    if (!is_known) found_.remarks.add(element, "unknown type " + in_quotes(name));
    return type::locality;
  }

  hwloc_objects found_;
};

}}}  // namespace blink::BLINK_ABI::detail
