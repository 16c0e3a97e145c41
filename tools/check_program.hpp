// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/topology/topology.hpp>

#include <optional>
#include <string>

namespace blink::tools {

/// True if a text is XML, an execution plan of MSCCL++, a schedule in GOAL or a file of a Chakra
/// trace. The name of its file does not matter.
[[nodiscard]] bool is_program_text(std::string const& text);

/// Checks an algorithm of MSCCL, an execution plan of MSCCL++, a schedule in GOAL or a Chakra
/// trace, and prints its properties; with a machine, also the load on its links. Of a trace, the
/// files of the other ranks are read as well. Prints graphs of NCCL in the same way, without a
/// check.
///
/// Pre:    is_program_text(text).
/// Throws: input_error that names the first fault.
void check_program_text(std::string const& text, std::string const& file,
                        std::optional<topology> const& machine);

}  // namespace blink::tools
