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

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// Reads a machine from the system XML of NCCL (version 1) or RCCL (version 2), as dumped by
/// NCCL_TOPO_DUMP_FILE. `file` is the name that errors start with.
///
/// Ranks:  the GPUs, ids 0 … N-1 in order of `rank`, or of `dev` where no GPU has a rank.
/// Relays: the processors (NUMA nodes), PCIe switches, network adapters and ports that serve a GPU
///         or a port, in the file's order from id N on; then one NVSwitch for all.
/// Links:  both ways each: NVLink and XGMI between GPUs, or from a GPU to the switch or processor
///         (counts times `options.rate`); C2C; PCIe (lanes times NCCL's rate of a lane); between all
///         processors of a host by maker and model; ports by their speed. A server is a `host_hash`.
///         Networks between servers are not in such a file.
/// As NCCL has it: link_width 0 or "" is 16; a link_speed that NCCL does not know is 8 GT/s; a
///         net speed that is absent or not positive is 10000 Mb/s; a `<net>` without dev does not
///         exist; the two levels of one Broadcom switch are one; links to GPUs that are not in the
///         file do not exist; an NVLink to a device that is not visible goes to the NVSwitch.
/// Not used: affinity, gdr, guid (ports of one adapter share no more than its PCIe link).
///
/// Source: file format and constants as in NCCL 2.30 and RCCL of October 2024; line rates of the
///         makers' data sheets.
/// Time:   O(E log E + P^2) for E elements and P processors.
/// Post:   `validate` accepts the result; `steps_per_unit` is the least common denominator.
/// Throws: input_error with file, line, element and what was expected: not XML or cut short, not
///         this format, no GPU, unknown elements or attributes, numbers out of range, bus ids or
///         ranks that stand twice, links that one end lists and the other does not, GPUs without a
///         rank beside ones with a rank, rates that are not known.
[[nodiscard]] inline topology read_nccl_xml(std::string_view text, std::string const& file,
                                            nccl_xml_options const& options = {}) {
  if (text.size() > options.limits.bytes) {
    throw input_error(file + ": more than " + std::to_string(options.limits.bytes) +
                      " bytes, expected a machine description");
  }
  detail::xml_source const from{text, file};
  if (auto const zero = text.find('\0'); zero != std::string_view::npos) {
    detail::fail_at(file, from.line_of(static_cast<std::ptrdiff_t>(zero)),
                    "a zero byte, expected XML text");
  }
  pugi::xml_document document;
  auto const parsed =
      document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) {
    detail::fail_at(file, from.line_of(parsed.offset),
                    std::string("not well-formed XML, or cut short: ") + parsed.description());
  }
  auto const root = document.document_element();
  detail::xml_element const system(from, root);
  if (std::string_view(root.name()) != "system") {
    system.fail("no GPU found, expected the element <system> of a machine");
  }
  for (auto const beside : document.children()) {
    if (beside != root) detail::xml_element(from, beside).fail("expected nothing beside <system>");
  }
  auto const devices = detail::nccl_device_reader(options).read(system);
  auto machine = detail::nccl_link_builder(devices, options).build();
  machine.name = root.attribute("name") ? root.attribute("name").value()
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
