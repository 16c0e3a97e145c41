// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// The positions of the switches whose links are all of this kind.
[[nodiscard]] inline std::set<int> switches_with_links_of(topology const& machine, link_kind kind) {
  std::set<int> result, others;
  for (auto const& l : machine.links) {
    for (int const end : {l.tail, l.head}) (l.kind == kind ? result : others).insert(end);
  }
  for (int const other : others) result.erase(other);
  std::erase_if(result, [&](int at) {
    return machine.nodes[static_cast<std::size_t>(at)].kind != node_kind::switch_node;
  });
  return result;
}

}  // namespace detail

/// The machine with switches that copy and reduce (NVLS, SHARP).
///
/// which:  "all", or ids of switches ("8,9"), or a kind of link ("nvlink") for the switches with
///         links of this kind only
/// Throws: input_error if no switch matches, or an id does not belong to a switch.
[[nodiscard]] inline topology with_copying_switches(topology machine, std::string_view which) {
  auto const fail = [&](std::string const& what) {
    throw input_error("copying switches '" + std::string(which) + "' of machine '" + machine.name +
                      "': " + what);
  };
  std::set<int> chosen;  // positions
  if (which == "all") {
    for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
      if (machine.nodes[i].kind == node_kind::switch_node) chosen.insert(static_cast<int>(i));
    }
  } else if (!which.empty() && '0' <= which.front() && which.front() <= '9') {
    for (std::size_t begin = 0; begin <= which.size();) {
      auto const end = std::min(which.find(',', begin), which.size());
      int id = -1;
      auto const [stop, failure] = std::from_chars(which.data() + begin, which.data() + end, id);
      int const at =
          failure == std::errc{} && stop == which.data() + end ? machine.position_of(id) : -1;
      if (at < 0 || machine.nodes[static_cast<std::size_t>(at)].kind != node_kind::switch_node) {
        fail("found '" + std::string(which.substr(begin, end - begin)) +
             "', expected the id of a switch");
      }
      chosen.insert(at);
      begin = end + 1;
    }
  } else {
    chosen = detail::switches_with_links_of(machine, read_link_kind(which));
  }
  if (chosen.empty()) fail("no switch matches, expected at least one");
  for (int const at : chosen) {
    auto& node = machine.nodes[static_cast<std::size_t>(at)];
    node.copies = node.reduces = true;
  }
  machine.name += which == "all" ? "+copying" : "+copying=" + std::string(which);
  return machine;
}

}}  // namespace blink::BLINK_ABI
