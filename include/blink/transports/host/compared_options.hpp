// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/host/process_environment.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Returns the order of reductions, by the options and by BLINK_ORDER: the stronger promise.
///
/// Throws: input_error if that variable is neither `run` nor `ranks`.
[[nodiscard]] inline order_promise wanted_order(communicator_options const& options) {
  return std::max(options.order, environment_order());
}

/// The names of the options that are equal on all ranks.
inline constexpr std::array compared_option_names{"window",
                                                  "slot_bytes",
                                                  "order",
                                                  "eager_payload",
                                                  "shares_memory",
                                                  "point_to_point",
                                                  "costs.chunk_seconds",
                                                  "costs.bytes_per_second",
                                                  "costs.latency_seconds"};

/// Their values as numbers, in the same order.
using compared_options = std::array<std::uint64_t, compared_option_names.size()>;

/// order, shares_memory: as they are after the environment was read
[[nodiscard]] inline compared_options options_to_compare(communicator_options const& options,
                                                         order_promise order, bool shares_memory) {
  auto const bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  return {options.window,
          options.slot_bytes,
          static_cast<std::uint64_t>(order),
          options.eager_payload,
          shares_memory ? 1u : 0u,
          options.point_to_point ? 1u : 0u,
          bits(options.costs.chunk_seconds),
          bits(options.costs.bytes_per_second),
          bits(options.costs.latency_seconds)};
}

/// Returns the first option that differs between ranks, in words; empty if none does.
///
/// values: of an introduction, an array in the order of `names`
template <std::size_t Count, class Introduction, class Values>
[[nodiscard]] std::string difference_of_options(std::array<char const*, Count> const& names,
                                                std::vector<Introduction> const& all,
                                                Values const& values) {
  for (std::size_t k = 0; k < Count; ++k) {
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (values(all[rank])[k] == values(all[0])[k]) continue;
      return std::string(names[k]) + " differs between ranks, 0 and " + std::to_string(rank) +
             ", expected one value";
    }
  }
  return {};
}

/// Compares the options of the processes of a bootstrap. Collective.
///
/// Throws: precondition_error on all of them if an option is out of range in one or differs; what
///         the bootstrap throws.
template <process_bootstrap Bootstrap>
void expect_equal_options(Bootstrap& all, communicator_options const& options) {
  struct introduction {
    compared_options options{};
    std::array<char, 256> fault{};  // empty: none
  };
  introduction own;
  try {
    validate(options);
    own.options = options_to_compare(options, wanted_order(options), options.shares_memory);
  } catch (std::exception const& fault) {
    std::string_view(fault.what()).copy(own.fault.data(), own.fault.size() - 1);
  }
  std::vector<introduction> everyone(static_cast<std::size_t>(all.process_count()));
  all.all_gather(&own, everyone.data(), sizeof own);
  for (std::size_t rank = 0; rank < everyone.size(); ++rank) {
    if (everyone[rank].fault[0] == '\0') continue;
    throw precondition_error("rank " + std::to_string(rank) + ": " + everyone[rank].fault.data());
  }
  auto const fault = difference_of_options(compared_option_names, everyone,
                                           [](auto const& each) { return each.options; });
  if (!fault.empty()) throw precondition_error("communicator_options: " + fault);
}

}}}  // namespace blink::BLINK_ABI::detail
