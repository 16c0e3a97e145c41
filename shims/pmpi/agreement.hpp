// SPDX-License-Identifier: Apache-2.0
#pragma once

// The environment of a rank, and the agreement of the ranks of a communicator about it.

#include <blink/core/error.hpp>
#include <blink/transports/host/process_environment.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>

namespace blink_pmpi {

/// The agreement of the ranks of a communicator at its first use.
struct agreement {
  bool is_used = false;        ///< true if any call goes through blink
  bool shares_memory = false;  ///< true if ranks of one host share memory
  bool keeps_order = false;    ///< true if reductions combine along the tree of ranks
  bool has_deadline = false;   ///< true if any rank has one that is not the default
  std::uint64_t least = 0;     ///< calls of fewer bytes go to the MPI library
};

/// Returns BLINK_PMPI_LEAST of this rank's environment, in bytes; 0 if unset.
///
/// Throws: input_error for a value that does not parse.
inline std::uint64_t least_bytes_wanted() {
  char const* const text = std::getenv("BLINK_PMPI_LEAST");
  if (text == nullptr) return 0;
  std::string_view const all(text);
  std::uint64_t result = 0;
  auto const [end, problem] = std::from_chars(all.data(), all.data() + all.size(), result);
  if (problem != std::errc() || end != all.data() + all.size()) {
    throw blink::input_error("BLINK_PMPI_LEAST is '" + std::string(all) +
                             "', expected a number of bytes");
  }
  return result;
}
/// True if the user says that all programs of a launch have loaded this library.
inline bool all_programs_wanted() {
  return blink::detail::environment_flag("BLINK_PMPI_ALL_PROGRAMS", false);
}
/// True if rank 0 reports at the end how many calls took which path.
inline bool report_wanted() {
  return blink::detail::environment_flag("BLINK_PMPI_REPORT", false);
}
inline bool shared_memory_wanted() {
  return blink::detail::environment_flag("BLINK_SHARED_MEMORY", true);
}

/// Returns the options of communicators. MPI's own waits have no end, so waits last a day unless
/// BLINK_DEADLINE is set. As in MPI libraries, ranks spin if each has a core, and otherwise yield.
/// A sleep of an early rank would delay all ranks.
inline blink::communicator_options options_wanted(blink::communicator_options result = {}) {
  constexpr std::chrono::hours day{24};
  result.waits.spins = 10000;
  result.waits.yields = 1 << 30;
  result.waits.deadline = blink::detail::environment_deadline().value_or(day);
  return result;
}
/// Returns the agreement that this rank's environment requests. A value that does not parse
/// excludes blink on all ranks.
inline agreement own_wish() {
  try {
    static_cast<void>(options_wanted());
    static_cast<void>(report_wanted());
    static_cast<void>(all_programs_wanted());
    bool const keeps_order = blink::detail::environment_order() == blink::order_promise::ranks;
    return {true, shared_memory_wanted(), keeps_order,
            blink::detail::environment_deadline().has_value(), least_bytes_wanted()};
  } catch (blink::input_error const& problem) {
    static std::once_flag is_reported;
    std::call_once(is_reported, [&] { std::fprintf(stderr, "blink: %s\n", problem.what()); });
    return {};
  }
}

}  // namespace blink_pmpi
