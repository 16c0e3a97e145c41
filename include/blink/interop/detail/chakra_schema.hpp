// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstdint>
#include <string_view>

// Numbers and names of Chakra's execution traces, as far as collective algorithms use them.
//
// A file holds messages, each behind its size: first GlobalMetadata, then a Node for each
// operation.
//
// Source: S. Sridharan et al., "Chakra: advancing performance benchmarking and co-design using
//         standardized execution traces", 2023; the schema is et_def.proto of MLCommons.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Fields of GlobalMetadata.
enum class chakra_metadata : int { version = 1, attribute = 2 };

/// Fields of Node.
enum class chakra_node : int {
  id = 1,
  name = 2,
  type = 3,
  control_dependencies = 4,
  data_dependencies = 5,
  duration_micros = 7,
  attribute = 10,
};

/// Types of nodes.
enum class chakra_type : std::uint64_t {
  invalid = 0,
  metadata = 1,
  load = 2,
  store = 3,
  compute = 4,
  send = 5,
  receive = 6,
  collective = 7,
};

/// Fields of AttributeProto: the name, and the value by its type.
enum class chakra_attribute : int {
  name = 1,
  int32_value = 7,
  int64_value = 9,
  uint32_value = 11,
  uint64_value = 13,
  sint32_value = 15,
  sint64_value = 17,
  bool_value = 27,
  string_value = 29,
};

// Attributes of sends and receives.
inline constexpr std::string_view comm_size = "comm_size";
inline constexpr std::string_view comm_source = "comm_src";
inline constexpr std::string_view comm_destination = "comm_dst";
inline constexpr std::string_view comm_tag = "comm_tag";

// Attributes of blink, which simulators pass over.
inline constexpr std::string_view blink_program_attribute = "blink_program";
inline constexpr std::string_view blink_buffers_attribute = "blink_buffers";
inline constexpr std::string_view blink_data_attribute = "blink_data";

}}}  // namespace blink::BLINK_ABI::detail
