// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

// Rates and times with units, as people and ns-3 write them.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The largest rate of a link that a file may state, in GB/s. Sums of such rates stay exact.
inline constexpr int largest_rate = 1'000'000'000;

/// A number of at most 9 decimals times `unit`, in GB/s. Nothing for another text, and for rates
/// that are negative, above `largest_rate` or too fine.
[[nodiscard]] inline std::optional<rational> read_rate(std::string_view text,
                                                       rational const& unit = 1) {
  constexpr int decimals = 9;
  auto const number = read_decimal(text, decimals);
  if (!number || *number < 0) return std::nullopt;
  try {
    auto const rate = *number * unit;
    return rate > rational(largest_rate) ? std::nullopt : std::optional(rate);
  } catch (overflow_error const&) {
    return std::nullopt;
  }
}

/// A unit of rates in GB/s: 1/8 for "Gbps" and "Gb/s", 1 for "GBps" and "GB/s", and so on from
/// "bps" to "GiB/s". Nothing for another text.
[[nodiscard]] inline std::optional<rational> rate_unit(std::string_view text) {
  if (text.ends_with("ps")) {
    text.remove_suffix(2);
  } else if (text.ends_with("/s")) {
    text.remove_suffix(2);
  } else {
    return std::nullopt;
  }
  rational result(1, 1'000'000'000);
  if (text.ends_with('b')) {
    result /= 8;
  } else if (!text.ends_with('B')) {
    return std::nullopt;
  }
  text.remove_suffix(1);
  struct prefix {
    std::string_view text;
    int factor;
  };
  constexpr std::array<prefix, 8> prefixes{{{"", 1},
                                            {"k", 1000},
                                            {"K", 1000},
                                            {"M", 1'000'000},
                                            {"G", 1'000'000'000},
                                            {"Ki", 1 << 10},
                                            {"Mi", 1 << 20},
                                            {"Gi", 1 << 30}}};
  for (auto const& each : prefixes) {
    if (each.text == text) return result * each.factor;
  }
  return std::nullopt;
}

/// "200Gbps" in GB/s; a number alone is in bits a second. Nothing for another text.
[[nodiscard]] inline std::optional<rational> read_data_rate(std::string_view text) {
  auto const end = text.find_first_not_of("0123456789.");
  auto const unit = rate_unit(end == std::string_view::npos ? "bps" : text.substr(end));
  return unit ? read_rate(text.substr(0, end), *unit) : std::nullopt;
}

/// "0.005ms" in seconds; a number alone is in seconds. Nothing for another text, and for times
/// that are negative or above an hour.
[[nodiscard]] inline std::optional<double> read_delay(std::string_view text) {
  struct unit {
    std::string_view text;
    double seconds;
  };
  constexpr std::array<unit, 9> units{{{"ms", 1e-3},
                                       {"us", 1e-6},
                                       {"ns", 1e-9},
                                       {"ps", 1e-12},
                                       {"fs", 1e-15},
                                       {"min", 60},
                                       {"h", 3600},
                                       {"s", 1},
                                       {"", 1}}};
  auto const end = text.find_first_not_of("+-0123456789.eE");
  constexpr int decimals = 15;
  auto const number = read_decimal(text.substr(0, end), decimals);
  auto const name = end == std::string_view::npos ? std::string_view{} : text.substr(end);
  for (auto const& each : units) {
    if (each.text != name || !number) continue;
    constexpr double longest = 3600;
    auto const seconds = number->to_double() * each.seconds;
    return 0 <= seconds && seconds <= longest ? std::optional(seconds) : std::nullopt;
  }
  return std::nullopt;
}

}}}  // namespace blink::BLINK_ABI::detail
