// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stall_advice.hpp"
#include "stall_analysis.hpp"
#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace blink::tools {

/// One run of a program under `blink stalls`.
struct stall_run {
  std::string name;  ///< "alone", "one host", "hosts" or "tried"
  int ranks = 0;
  loop_times loop;
  std::size_t other_calls = 0;  ///< of other communicators, left out
};

/// The findings of `blink stalls`.
struct stall_findings {
  std::vector<std::string> program;
  std::vector<stall_run> runs;             ///< by rising number of ranks
  std::optional<stall_time> interconnect;  ///< of one host beside one rank alone
  std::optional<stall_time> network;       ///< of hosts beside one host
  std::vector<std::string> remarks;

  std::optional<stall_advice> advice;
  std::size_t advised = 0;         ///< the run that the advice is for
  std::string no_advice;           ///< why there is none
  std::optional<stall_run> tried;  ///< with the plans of the advice
  std::string about_try;           ///< why nothing, or nothing else, was tried
  int status = 0;                  ///< of the command
};

/// Prints the findings.
void print(stall_findings const& found);

/// Returns the findings, format 1.
[[nodiscard]] nlohmann::ordered_json to_json(stall_findings const& found);

/// The tables that are printed, by name.
inline constexpr std::array stall_table_names = {"runs",        "calls", "links",
                                                 "predictions", "gains", "tried"};

/// Returns the rows of each table, of the findings as JSON. Tables that are not printed have none.
[[nodiscard]] nlohmann::ordered_json stall_tables(nlohmann::ordered_json const& document);

}  // namespace blink::tools
