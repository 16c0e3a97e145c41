// SPDX-License-Identifier: Apache-2.0
#include "perf_engine.hpp"

#include <blink/core/error.hpp>

#include <cstdint>
#include <string>

namespace blink::tools {

perf_result measure(perf_request const& request) {
  if (request.type == "int8") return measure_type<std::int8_t>(request);
  if (request.type == "uint8") return measure_type<std::uint8_t>(request);
  if (request.type == "int32") return measure_type<std::int32_t>(request);
  if (request.type == "int64") return measure_type<std::int64_t>(request);
  if (request.type == "float") return measure_type<float>(request);
  if (request.type == "double") return measure_type<double>(request);
  std::string known;
  for (auto const& name : perf_types) known += (known.empty() ? "" : ", ") + name;
  throw input_error("unknown type '" + request.type + "', expected one of " + known);
}

}  // namespace blink::tools
