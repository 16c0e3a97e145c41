// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/topology/readers/reading_options.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Choices for reading NCCL's system XML, and limits above which a number is a mistake.
struct nccl_xml_options {
  /// `rates`: only socket and xgmi, for processors and GPUs that NCCL does not know
  reading_options reading{};
  bool with_networks = true;                      ///< false: `<nic>` and `<net>` are skipped
  std::int64_t largest_link_count = 36;           ///< NVLinks or XGMI links of one GPU
  std::int64_t largest_net_speed = 2'000'000;     ///< Mb/s of one `<net>`
  std::int64_t largest_c2c_speed = 1'000'000;     ///< MB/s of one chip-to-chip link
  std::int64_t largest_element_count = 65'536;    ///< as many as NCCL reads
  std::int64_t largest_step_count = 100'000'000;  ///< of `topology::steps_per_unit`
  input_limits limits;
};

}}  // namespace blink::BLINK_ABI
