// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/topology/detail/input_text.hpp>
#include <blink/topology/detail/nccl_machine.hpp>
#include <blink/topology/detail/nccl_rates.hpp>
#include <blink/topology/detail/xml_text.hpp>
#include <blink/topology/topology.hpp>

#include <string>
#include <string_view>

namespace blink::inline BLINK_ABI {

/// Reads a system topology as NCCL and RCCL write it (NCCL_TOPO_DUMP_FILE) and read it
/// (NCCL_TOPO_FILE): `<system>` with CPUs, the PCI tree, GPUs with their links, NICs.
///
/// GPUs become ranks 0 … N-1 in the order of their `rank` (of `dev` if no GPU has a rank). Behind
/// them come the relays: CPUs (NUMA nodes), PCI switches that lead to a GPU or NIC, NICs, networks,
/// and one NVSwitch for all. Links, in GB/s of one direction:
///
/// - gpu, nic, pci to what is above: pcie, lanes x the rate of NCCL's table (8 GT/s x16: 12).
///   `link_width` 0 or absent is 16 lanes, an absent or unknown `link_speed` generation 3, as there.
/// - nvlink and xgmi between GPUs, to the NVSwitch, or to the CPU (POWER), by `tclass`: count x
///   the rate of `options.rates`. A link to a GPU that is not in the file is left out; so is one
///   from a GPU to itself, which some files have to hide a link.
/// - c2c to the CPU: count x bw. CPUs of one host: each pair, by vendor and model.
/// - network ports: their speed, but no more than the NIC's own slot; speed 0 is 10 Gbit/s, as in
///   NCCL; a `<net>` without `dev` is not used. CPUs of several hosts (`host_hash`) meet in one
///   network that joins all ports.
///
/// Stricter than NCCL, which would guess: refused are elements and attributes that are unknown,
/// GPUs of which some have no rank, equal ranks or bus ids, NVLinks without `tclass` or listed at
/// one end only, GPU models and CPUs of unknown rate, and files without a GPU.
///
/// Source: NCCL 2.30.7 src/graph/{topo,xml}.cc, RCCL of October 2024.
/// file:   name for the error messages.
/// Throws: input_error "file:line: <element> what was found, expected what".
[[nodiscard]] inline topology read_nccl_xml(std::string_view text,
                                            std::string const& file = "text",
                                            nccl_xml_options const& options = {}) {
  auto const root = detail::xml_reader(text, file, options.limits.depth).read_root();
  return detail::nccl_machine(file, options).read(root);
}

/// The machine in this file. Throws: input_error.
[[nodiscard]] inline topology read_nccl_xml_file(std::string const& path,
                                                 nccl_xml_options const& options = {}) {
  return read_nccl_xml(detail::read_input_file(path, options.limits), path, options);
}

}  // namespace blink::inline BLINK_ABI
