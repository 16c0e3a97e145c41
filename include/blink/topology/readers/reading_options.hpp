// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// Rates of links that a description does not state, in GB/s of one direction. Of a kind that is
/// not here a reader assumes its own rate, and says so in `topology::remarks`.
///
/// nvlink, xgmi, xelink: of one such link. pcie: of the link of one device. socket: between two
/// processors.
using assumed_rates = std::map<link_kind, rational>;

/// Choices for reading a description of a machine.
struct reading_options {
  assumed_rates rates{};
  bool is_strict = false;  ///< refuse what would be a remark about the input
  /// NCCL's and RCCL's own figures, where they differ from what the file states: the rates of their
  /// kernels (20 GB/s for an NVLink of a V100), "32.0 GT/s" as 8, a slot for each function of an
  /// adapter, one NVSwitch for all hosts
  bool as_nccl = false;
};

/// Reads "nvlink=50" into `rates`.
///
/// Throws: input_error for another form, a kind without an assumption, or a rate that is not from
///         0.001 to 100000.
inline void read_assumed_rate(std::string_view text, assumed_rates& rates) {
  auto const mark = text.find('=');
  auto const fail = [&] {
    throw input_error("link rate " + detail::in_quotes(text) +
                      ", expected nvlink=, xgmi=, xelink=, pcie= or socket= and GB/s from 0.001 to "
                      "100000");
  };
  if (mark == std::string_view::npos) fail();
  constexpr int decimals = 3;
  auto const rate = detail::read_decimal(text.substr(mark + 1), decimals);
  if (!rate || *rate < rational(1, 1000) || *rate > rational(100'000)) fail();
  for (auto const kind : {link_kind::nvlink, link_kind::xgmi, link_kind::xelink, link_kind::pcie,
                          link_kind::socket}) {
    if (text.substr(0, mark) == to_text(kind)) {
      rates[kind] = *rate;
      return;
    }
  }
  fail();
}

/// Throws: input_error for a rate that a description has no use for, because it states its own.
inline void expect_no_rate_but(assumed_rates const& rates, std::initializer_list<link_kind> used,
                               std::string const& machine) {
  for (auto const& [kind, rate] : rates) {
    if (std::find(used.begin(), used.end(), kind) != used.end()) continue;
    throw input_error(machine + ": states its own rates of " + std::string(to_text(kind)) +
                      " links, expected no other one");
  }
}

}}  // namespace blink::BLINK_ABI
