// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/order.hpp>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace blink { inline namespace BLINK_ABI {

/// The communicator that a process belongs to, as its environment describes it.
struct process_environment {
  int rank = 0;           ///< BLINK_RANK
  int rank_count = 0;     ///< BLINK_RANK_COUNT
  std::string segment{};  ///< BLINK_SEGMENT: the file of the shared memory
  /// BLINK_DEADLINE, in seconds; may be missing
  std::optional<std::chrono::nanoseconds> deadline{};
  order_promise order = order_promise::run;  ///< BLINK_ORDER: `run` or `ranks`; may be missing
};

/// Seconds of the longest deadline that a process accepts from its environment: 30 years.
inline constexpr double longest_deadline_seconds = 1e9;

namespace detail {

/// Throws: input_error if the variable is not set.
[[nodiscard]] inline std::string environment_text(char const* name) {
  char const* const text = std::getenv(name);
  if (text == nullptr) {
    throw input_error(std::string(name) +
                      " is not set: start the program with `blink run -n RANKS -- PROGRAM`");
  }
  return text;
}

/// Throws: input_error if the text is no integer of [least, most].
[[nodiscard]] inline int environment_number(char const* name, int least, int most) {
  std::string const text = environment_text(name);
  int number = 0;
  char const* const end = text.data() + text.size();
  auto const [stop, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc{} || stop != end || number < least || number > most) {
    throw input_error(std::string(name) + " is '" + text + "', expected an integer from " +
                      std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

/// Returns BLINK_DEADLINE, which the environment gives in seconds; nullopt if it is not set.
///
/// Throws: input_error if it is no positive number, or above `longest_deadline_seconds`.
[[nodiscard]] inline std::optional<std::chrono::nanoseconds> environment_deadline() {
  char const* const text = std::getenv("BLINK_DEADLINE");
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  double const seconds = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds > 0) || seconds > longest_deadline_seconds) {
    throw input_error("BLINK_DEADLINE is '" + std::string(text) +
                      "', expected a positive number of seconds, at most 1e9");
  }
  return std::chrono::nanoseconds(static_cast<long long>(seconds * 1e9) + 1);
}

/// Returns the order of reductions that BLINK_ORDER names; `run` if it is not set.
///
/// Throws: input_error for another value than `run` and `ranks`.
[[nodiscard]] inline order_promise environment_order() {
  char const* const text = std::getenv("BLINK_ORDER");
  if (text == nullptr || std::string_view(text) == "run") return order_promise::run;
  if (std::string_view(text) == "ranks") return order_promise::ranks;
  throw input_error("BLINK_ORDER is '" + std::string(text) + "', expected run or ranks");
}

}  // namespace detail

/// Reads the environment of a rank.
///
/// Throws: input_error that names the variable, its value and what was expected.
[[nodiscard]] inline process_environment read_process_environment() {
  constexpr int most_ranks = 1 << 14;
  process_environment result;
  result.rank_count = detail::environment_number("BLINK_RANK_COUNT", 1, most_ranks);
  result.rank = detail::environment_number("BLINK_RANK", 0, result.rank_count - 1);
  result.segment = detail::environment_text("BLINK_SEGMENT");
  result.deadline = detail::environment_deadline();
  result.order = detail::environment_order();
  return result;
}

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Returns the value of a variable that is 0 or 1; `unless_set` if it is not set.
///
/// Throws: input_error for a value that is neither.
[[nodiscard]] inline bool environment_flag(char const* name, bool unless_set) {
  char const* const text = std::getenv(name);
  if (text == nullptr) return unless_set;
  std::string_view const all(text);
  if (all != "0" && all != "1") {
    throw input_error(std::string(name) + " is '" + std::string(all) + "', expected 0 or 1");
  }
  return all == "1";
}

}}}  // namespace blink::BLINK_ABI::detail
