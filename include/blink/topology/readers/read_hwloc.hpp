// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/readers/detail/hwloc_links.hpp>
#include <blink/topology/readers/detail/hwloc_objects.hpp>
#include <blink/topology/readers/detail/xml_element.hpp>
#include <blink/topology/readers/hwloc_calls.hpp>
#include <blink/topology/readers/reading_options.hpp>
#include <blink/topology/topology.hpp>

#include <pugixml.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// True if the text is XML with the root `<topology>`, as lstopo writes it.
[[nodiscard]] inline bool is_hwloc_xml(std::string_view text) {
  return detail::xml_root_name(text) == "topology";
}

/// Reads a machine from the XML of hwloc 1, 2 or 3, as `lstopo file.xml` writes it.
///
/// Ranks are the GPUs that NVML, RSMI, Level Zero or CUDA have named (nvml0, rsmi0, ze0, cuda0),
/// with ids 0 … N-1 in order of these numbers. GPUs of two makers are in order of bus id. So are
/// those that only OpenCL names. If a file names none, the PCI devices of class 0302, 0380 and 1200
/// of NVIDIA, AMD and Intel are the GPUs. Several GPUs on one PCI device are partitions of a card,
/// a switch that has its links. NVIDIAUUID, AMDUUID and LevelZeroUUID are the UUIDs of GPUs.
///
/// Switches have ids from N on. They are processors, PCIe switches, cards and network adapters, in
/// the file's order, then the NVSwitches. A processor is a NUMA node with its host bridges, or the
/// object around several of them that holds a host bridge. All processors are joined.
///
/// Links go both ways:
/// - PCIe has the stated `pci_link_speed`, as an exact decimal. Of a GPU and the port above it the
///   higher one counts, because an idle link is slow. Of ports in a row the lowest link counts. A
///   switch has one link up, and functions of an adapter share one.
/// - NVLinkBandwidth, XGMIBandwidth and XeLinkBandwidth are links between GPUs, or of a GPU to an
///   NVSwitch or processor. Rates on the diagonal mean nothing. XGMIHops above 1 is no link.
/// - If all GPUs have the same links to each NVSwitch, or boards share none, they meet at one.
/// - Rates that hwloc does not state are those of `options`, or assumed. `topology::remarks` says
///   which. These are PCIe links with the speed 0, and links between processors.
///
/// Rates of networks are not in such a file.
///
/// file:   the name that errors start with
/// Source: format as hwloc 2.12 writes it (hwloc2.dtd, chapter "Topology Attributes" of its guide)
/// Time:   O(n log n + P^2) for n elements and P processors.
/// Post:   `validate` accepts the result.
/// Throws: input_error with file, line and element, in these cases:
///         - The text is no XML, is cut short, is of another format, or has no GPU.
///         - A rate or a matrix is no number or out of range.
///         - The name or gp_index of an object appears twice.
///         - With `is_strict`: the first remark about the text.
[[nodiscard]] inline topology read_hwloc(std::string_view text, std::string const& file,
                                         reading_options const& options = {}) {
  auto const most = input_limits{}.bytes;
  if (text.size() > most) {
    throw input_error(file + ": more than " + std::to_string(most) +
                      " bytes, expected a machine description");
  }
  detail::xml_source const from{text, file};
  pugi::xml_document document;
  auto const root = detail::open_xml(from, document, "topology", "expected <topology> of hwloc");
  auto objects = detail::hwloc_object_reader(options.is_strict).read(root);
  return detail::named_after(file, detail::hwloc_link_builder(objects, root, options).build());
}

/// This machine as hwloc describes it. GPUs have names, and NVLinks are known, if hwloc has its
/// plugins for NVML, RSMI or Level Zero.
///
/// Throws: resource_error if hwloc fails; the errors of `read_hwloc`.
[[nodiscard]] inline topology read_hwloc_live(hwloc_calls const& calls,
                                              reading_options const& options = {}) {
  auto const check = [](int result, char const* call) {
    if (result != 0) throw resource_error(std::string("hwloc: ") + call + " failed");
  };
  void* handle = nullptr;
  check(calls.init(&handle), "hwloc_topology_init");
  std::unique_ptr<void, void (*)(void*)> const owner(handle, calls.destroy);
  constexpr int keep_important = 3;  // hwloc's HWLOC_TYPE_FILTER_KEEP_IMPORTANT
  check(calls.set_io_filter(handle, keep_important), "hwloc_topology_set_io_types_filter");
  check(calls.load(handle), "hwloc_topology_load");
  char* buffer = nullptr;
  int bytes = 0;
  check(calls.export_xml(handle, &buffer, &bytes, 0), "hwloc_topology_export_xmlbuffer");
  auto const free_xml = [&](char* text) { calls.free_xml(handle, text); };
  std::unique_ptr<char, decltype(free_xml)> const text(buffer, free_xml);
  std::string_view const xml(buffer, static_cast<std::size_t>(std::max(bytes - 1, 0)));
  auto machine = read_hwloc(xml, "hwloc", options);
  machine.name = "this machine";
  return machine;
}

}}  // namespace blink::BLINK_ABI
