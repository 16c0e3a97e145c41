// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/copying_switches.hpp>
#include <blink/topology/host.hpp>
#include <blink/topology/readers/nvml_calls.hpp>
#include <blink/topology/readers/read_driver.hpp>
#include <blink/topology/readers/read_json.hpp>
#include <blink/topology/readers/read_nccl_xml.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A machine by built-in name ("dgx1v", "dgx_a100:2", "torus:4x4"), or from a file: JSON if the
/// name ends in .json, an NCCL or RCCL system topology if it ends in .xml. "host" is the computer
/// that runs this program, with a measured copy rate or, as "host:12.5", with this one in GB/s; "gpus"
/// are its NVIDIA GPUs as the driver knows them (`read_driver`).
/// "+copying" after any of them makes its switches copy and reduce, "+copying=nvlink" those with links
/// of one kind, "+copying=8,9" those with these ids (`with_copying_switches`).
///
/// Throws: input_error; for an unknown name it lists what is known and suggests the nearest. With "gpus" what
///         `read_driver` throws.
[[nodiscard]] topology read_machine(std::string const& name_or_path);

namespace detail {

/// Levenshtein's distance: the least number of letters to insert, delete or replace.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      auto const replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j + 1] + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// The built-in machine whose name is at most `most` letters away, or nothing.
inline built_in_machine const* nearest_machine(std::string_view name, std::size_t most) {
  built_in_machine const* nearest = nullptr;
  for (auto const& each : built_in_machines()) {
    if (name.size() > each.name.size() + most) continue;
    auto const distance = edit_distance(name, each.name);
    if (distance > most || (distance == most && nearest != nullptr)) continue;
    nearest = &each;
    most = distance;
  }
  return nearest;
}

[[noreturn]] inline void fail_unknown_machine(std::string_view asked) {
  constexpr std::size_t typing_errors = 3;
  std::string known;
  for (auto const& each : built_in_machines()) {
    known += (known.empty() ? "" : ", ") + usage(each);
  }
  auto const* nearest = nearest_machine(asked.substr(0, asked.find(':')), typing_errors);
  throw input_error("unknown machine " + in_quotes(asked) +
                    (nearest == nullptr ? "" : ", did you mean " + usage(*nearest) + "?") +
                    " Expected a file that ends in .json or .xml, or one of host[:GB/s], gpus, " +
                    known);
}

}  // namespace detail

inline topology read_machine(std::string const& name_or_path) {
  std::string_view const asked = name_or_path;
  if (auto const mark = asked.rfind("+copying"); mark != std::string_view::npos) {
    auto const which = asked.substr(mark + std::string_view("+copying").size());
    if (which.empty() || which.front() == '=') {
      constexpr std::size_t longest = 4096;  // as of a path; each "+copying" calls this once more
      if (asked.size() > longest) {
        throw input_error("machine " + detail::in_quotes(asked) + ": expected a shorter name");
      }
      return with_copying_switches(read_machine(name_or_path.substr(0, mark)),
                                   which.empty() ? "all" : which.substr(1));
    }
  }
  if (asked == "host") return this_machine();
  if (asked == "gpus") return read_driver(load_nvml());
  if (asked.starts_with("host:")) {
    host_options options;
    options.copy_rate = detail::read_decimal(asked.substr(5), 9);
    if (!options.copy_rate || *options.copy_rate < rational(1, 10) ||
        *options.copy_rate > rational(1'000'000)) {
      throw input_error("machine " + detail::in_quotes(asked) +
                        ": expected host or host:GB/s with a rate from 0.1 to 1000000");
    }
    return this_machine(options);
  }
  if (asked.ends_with(".json")) return read_json_file(name_or_path);
  if (asked.ends_with(".xml")) return read_nccl_xml_file(name_or_path);
  if (auto machine = make_built_in_machine(asked)) return *std::move(machine);
  detail::fail_unknown_machine(asked);
}

}}  // namespace blink::BLINK_ABI
