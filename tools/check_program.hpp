// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/topology/topology.hpp>

#include <optional>
#include <string>

namespace blink::tools {

/// True if the file begins as XML does.
[[nodiscard]] bool is_xml_file(std::string const& file);

/// Checks an algorithm file of MSCCL and prints its properties; with a machine, also the load on
/// its links.
/// Throws: input_error that names the first fault.
void check_program_file(std::string const& file, std::optional<topology> const& machine);

}  // namespace blink::tools
