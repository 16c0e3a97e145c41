// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/readers/detail/nvlink_status.hpp>
#include <blink/topology/readers/reading_options.hpp>
#include <blink/topology/topology.hpp>

#include <string>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// True if the text has a GPU with an NVLink or a UUID, as `nvidia-smi nvlink -s` and
/// `nvidia-smi -L` print them.
[[nodiscard]] inline bool is_nvlink_status(std::string_view text) {
  for (auto const& [number, gpu] : detail::read_nvlink_lines(text)) {
    if (!gpu.links.empty() || gpu.has_none_active || !gpu.uuids.empty()) return true;
  }
  return false;
}

/// Refuses what `nvidia-smi nvlink -s` and `nvidia-smi -L` print: it does not state where the links
/// go. Beside the table of `nvidia-smi topo -m` it counts (`read_smi_matrix`).
///
/// Throws: input_error that names the command to run beside it.
[[noreturn]] inline topology read_nvlink_status(std::string_view, std::string const& file,
                                                reading_options const& = {}) {
  throw input_error(
      file +
      ": the output of nvidia-smi nvlink -s or -L, which does not say where the links go, "
      "expected that of nvidia-smi topo -m beside it");
}

}}  // namespace blink::BLINK_ABI
