// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/topology/measured_rates.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

// What a probe of GPUs measured, and the machine that fits it.

namespace blink::tools {

/// The output of `tools/cuda/probe_gpus.cu`.
struct gpu_probe {
  std::vector<std::string> bus_ids;          ///< by GPU
  std::size_t bytes = 0;                     ///< of a large message
  std::vector<std::pair<int, int>> refused;  ///< GPUs without access to another one
  std::vector<std::pair<int, int>> lost;     ///< GPUs whose writes to another one do not arrive
  measured_rates peer;                       ///< GPU to GPU. Each counts as a host of one rank.
  measured_rates host;                       ///< through memory of the host
};

/// Reads the text of a probe.
///
/// Throws: input_error that starts with `name`.
[[nodiscard]] gpu_probe read_gpu_probe(std::string const& text, std::string const& name);

/// The machine that fits the rates of GPUs: ports of GPUs, which meet at switches. GPUs that share
/// an uplink have a switch of their own.
///
/// Throws: what `fit_machine` throws.
[[nodiscard]] topology fit_gpus(measured_rates const& rates,
                                std::vector<std::string> const& bus_ids);

/// Rates in the order of a machine's ranks, which are found by their bus ids. Drivers and CUDA may
/// number GPUs differently. A machine that states no bus ids has the order of the probe.
///
/// Throws: input_error if the machine has other GPUs.
[[nodiscard]] measured_rates in_order_of(topology const& machine, measured_rates const& rates,
                                         std::vector<std::string> const& bus_ids);

/// Runs the program that measures, and reads what it prints.
///
/// Throws: input_error if there is no such program or it fails.
[[nodiscard]] gpu_probe run_gpu_probe(std::size_t bytes, double seconds);

/// Prints the rates of one kind of route, the GPUs that share links, and the best ring.
void print_gpu_rates(measured_rates const& rates, topology const& fitted, char const* title,
                     std::size_t bytes);

/// Prints pairs without access or whose data is lost.
void print_gpu_access(gpu_probe const& probe);

}  // namespace blink::tools
