// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>

#include <optional>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// NICs that machine descriptions leave open.
struct nic_options {
  /// Of one NIC in one direction, in the machines' unit. For NICs without a stated rate, and for
  /// servers without NICs.
  std::optional<rational> rate{};
  /// Servers without NICs get one for each rank. If false, they get one at their first processor,
  /// or at all ranks if no processor is described.
  bool is_per_rank = false;
};

/// Reads "50", the rate of a NIC in GB/s, or "50/gpu", that of a NIC of each GPU.
///
/// Throws: input_error for another form, or a rate that is not from 0.001 to 100000.
[[nodiscard]] inline nic_options read_nic_options(std::string_view text) {
  constexpr std::string_view each = "/gpu";
  constexpr int decimals = 3;
  nic_options result;
  result.is_per_rank = text.ends_with(each);
  auto const number = result.is_per_rank ? text.substr(0, text.size() - each.size()) : text;
  result.rate = detail::read_decimal(number, decimals);
  if (!result.rate || *result.rate < rational(1, 1000) || *result.rate > rational(100'000)) {
    throw input_error("NIC rate " + detail::in_quotes(text) +
                      ", expected GB/s from 0.001 to 100000, then /gpu for a NIC of each GPU");
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
