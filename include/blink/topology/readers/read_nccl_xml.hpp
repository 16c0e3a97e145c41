// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/readers/detail/nccl_devices.hpp>
#include <blink/topology/readers/detail/nccl_links.hpp>
#include <blink/topology/readers/detail/xml_element.hpp>
#include <blink/topology/readers/nccl_xml_options.hpp>
#include <blink/topology/topology.hpp>

#include <pugixml.hpp>

#include <filesystem>
#include <string>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// Reads a machine from the system XML of NCCL (version 1) or RCCL (version 2), as dumped by
/// NCCL_TOPO_DUMP_FILE.
///
/// Ranks are the GPUs, with ids 0 … N-1 in the order of `rank`, or of `dev` if no GPU has a rank.
///
/// Switches have ids from N on. They are the processors (NUMA nodes), PCIe switches, network
/// adapters and ports that serve a GPU or a port, in the file's order. The NVSwitch comes
/// last, if there is one.
///
/// Links go both ways:
/// - NVLink and XGMI join GPUs, or a GPU and the NVSwitch or processor. The count times
///   `options.rate` is their capacity. C2C joins a GPU and its processor.
/// - PCIe has its width times NCCL's rate of one lane.
/// - All processors of a host are joined, at a rate by maker and model. Ports have their speed.
/// - A server is a `host_hash`. Networks between servers are not in such a file.
///
/// As NCCL does it:
/// - link_width 0 or "" is 16. A link_speed without a known number of GT/s is 8 GT/s.
/// - A net speed that is absent or not positive is 10000 Mb/s. A `<net>` without dev is ignored.
/// - The two levels of one Broadcom switch are one switch.
/// - Links to GPUs that are not in the file are ignored. An NVLink to a hidden device goes to the
///   NVSwitch.
///
/// Unlike NCCL, "16.0 GT/s" without " PCIe" is 16 GT/s, and Granite Rapids has its own rate. A GPU
/// with more NVLinks than its generation has is an error.
///
/// `topology::remarks` names elements and attributes that are unknown, processors whose rate is
/// assumed, and XGMI links to GPUs that the program did not see.
///
/// Not used are affinity, gdr, and guid. Ports and functions of one adapter share its PCIe link.
///
/// file:   the name that errors start with
/// Source: file format and constants as in NCCL 2.30 and RCCL of October 2024; line rates of the
///         makers' data sheets
/// Time:   O(E log E + P^2) for E elements and P processors.
/// Post:   `validate` accepts the result; `steps_per_unit` is the least common denominator.
/// Throws: input_error with file, line and element, in these cases:
///         - The text is no XML, is cut short, is of another format, or has no GPU.
///         - Numbers are out of range, or rates are unknown.
///         - With `is_strict`: the first remark.
///         - Bus ids or ranks appear twice. Only some of the GPUs have a rank.
///         - One end of a link lists it and the other end does not.
[[nodiscard]] inline topology read_nccl_xml(std::string_view text, std::string const& file,
                                            nccl_xml_options const& options = {}) {
  if (text.size() > options.limits.bytes) {
    throw input_error(file + ": more than " + std::to_string(options.limits.bytes) +
                      " bytes, expected a machine description");
  }
  detail::xml_source const from{text, file};
  pugi::xml_document document;
  auto const system = detail::open_xml(
      from, document, "system",
      "no GPU found, expected the element <system> of a machine, as "
      "NCCL_TOPO_DUMP_FILE has it (<graphs> is NCCL_GRAPH_DUMP_FILE's: blink check compares it)");
  auto const devices = detail::nccl_device_reader(options).read(system);
  auto machine = detail::nccl_link_builder(devices, options).build();
  machine.name = system.has("name") ? std::string(system.text("name"))
                                    : std::filesystem::path(file).stem().string();
  try {
    validate(machine);
  } catch (input_error const& fault) {
    throw input_error(file + ": " + fault.what());
  }
  return machine;
}

/// Reads the file at `path`.
///
/// Throws: input_error as `read_nccl_xml`, or if the file cannot be read.
[[nodiscard]] inline topology read_nccl_xml_file(std::string const& path,
                                                 nccl_xml_options const& options = {}) {
  return read_nccl_xml(detail::file_text(path, "a machine description", options.limits.bytes), path,
                       options);
}

}}  // namespace blink::BLINK_ABI
