// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/copying_switches.hpp>
#include <blink/topology/host.hpp>
#include <blink/topology/join_machines.hpp>
#include <blink/topology/readers/hwloc_calls.hpp>
#include <blink/topology/readers/nvml_calls.hpp>
#include <blink/topology/readers/read_astra_sim.hpp>
#include <blink/topology/readers/read_cluster.hpp>
#include <blink/topology/readers/read_driver.hpp>
#include <blink/topology/readers/read_hwloc.hpp>
#include <blink/topology/readers/read_json.hpp>
#include <blink/topology/readers/read_nccl_xml.hpp>
#include <blink/topology/readers/read_ns3_topology.hpp>
#include <blink/topology/readers/read_nvlink_status.hpp>
#include <blink/topology/readers/read_rate_matrix.hpp>
#include <blink/topology/readers/read_rocm_smi.hpp>
#include <blink/topology/readers/read_smi_matrix.hpp>
#include <blink/topology/readers/read_taccl.hpp>
#include <blink/topology/readers/read_xpu_smi.hpp>
#include <blink/topology/readers/reading_options.hpp>
#include <blink/topology/suspicions.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A format of machine files. It is recognised by the beginning of the text, not by the file's
/// name.
struct machine_format {
  std::string_view name;                        ///< for errors
  bool (*accepts)(std::string_view beginning);  ///< gets the text after its leading white space
  /// throws input_error
  topology (*read)(std::string_view text, std::string const& file, reading_options const& options);
  bool can_be_as_nccl = false;  ///< heeds `reading_options::as_nccl`
};

/// Adds what looks wrong to the remarks of a machine.
[[nodiscard]] inline topology with_suspicions(topology machine) {
  for (auto& each : suspicions(machine)) machine.remarks.push_back(std::move(each));
  return machine;
}

/// The formats that `read_machine` reads, in the order in which they are tried. A new reader is one
/// line here.
inline constexpr std::array<machine_format, 12> machine_formats{{
    {"the network of a cluster (topology.conf, topology.yaml)", is_cluster, refuse_cluster},
    {"a topology profile of TACCL in JSON", is_taccl, read_taccl},
    {"a network of ASTRA-sim in YAML or JSON", is_astra_sim, read_astra_sim},
    {"a JSON object with \"nodes\" and \"links\"",
     [](std::string_view beginning) { return beginning.starts_with('{'); },
     [](std::string_view text, std::string const& file, reading_options const& options) {
       expect_no_rate_but(options.rates, {}, file);
       return with_suspicions(read_json(text, file));
     }},
    {"the XML of hwloc (lstopo)", is_hwloc_xml,
     [](std::string_view text, std::string const& file, reading_options const& options) {
       expect_no_rate_but(options.rates, {link_kind::pcie, link_kind::socket}, file);
       return with_suspicions(read_hwloc(text, file, options));
     }},
    {"an NCCL or RCCL topology in XML",
     [](std::string_view beginning) { return beginning.starts_with('<'); },
     [](std::string_view text, std::string const& file, reading_options const& options) {
       expect_no_rate_but(options.rates, {link_kind::socket, link_kind::xgmi}, file);
       nccl_xml_options xml_options;
       xml_options.reading = options;
       return with_suspicions(read_nccl_xml(text, file, xml_options));
     },
     true},
    {"tables of rocm-smi, amd-smi or TransferBench", is_rocm_smi, read_rocm_smi},
    {"the table of xpu-smi topology -m", is_xpu_smi, read_xpu_smi},
    {"the table of nvidia-smi topo -m", is_smi_matrix, read_smi_matrix},
    {"nvidia-smi nvlink -s or -L beside topo -m", is_nvlink_status, read_nvlink_status},
    {"a topology of ns-3 or SimAI", is_ns3_topology, read_ns3_topology},
    {"a matrix of rates in GB/s", is_rate_matrix, read_rate_matrix},
}};

/// The names of formats, for errors.
template <std::size_t Count>
[[nodiscard]] std::string names_of(std::array<machine_format, Count> const& formats) {
  std::string names;
  for (std::size_t i = 0; i < Count; ++i) {
    names += (i == 0 ? "" : i + 1 < Count ? ", " : " or ") + std::string(formats[i].name);
  }
  return names;
}

/// Throws: input_error for a machine that NCCL does not describe.
[[noreturn]] inline void fail_as_nccl(std::string const& machine) {
  throw input_error(machine +
                    ": NCCL has no figures of its own for it, expected a topology of NCCL or RCCL");
}

/// Reads a description in one of `formats`: `machine_formats`, or the table of a program.
///
/// file:   the name that errors start with
/// Throws: input_error; for a text of no format it quotes the beginning and names the formats.
template <std::size_t Count>
[[nodiscard]] topology read_machine_text(std::string_view text, std::string const& file,
                                         std::array<machine_format, Count> const& formats,
                                         reading_options const& options = {}) {
  std::string_view beginning = text;
  if (beginning.starts_with("\xef\xbb\xbf")) beginning.remove_prefix(3);  // byte order mark
  auto const first = beginning.find_first_not_of(" \t\r\n");
  beginning.remove_prefix(std::min(first, beginning.size()));
  for (auto const& format : formats) {
    if (!format.accepts(beginning)) continue;
    if (options.as_nccl && !format.can_be_as_nccl) fail_as_nccl(file);
    return format.read(text, file, options);
  }
  throw input_error(file + ": " +
                    (beginning.empty()
                         ? "the file is empty"
                         : "the file begins with " + detail::in_quotes(beginning, 20)) +
                    ", expected " + names_of(formats));
}

/// Reads a file of one of `formats`.
///
/// Throws: input_error as `read_machine_text`, and for a file that cannot be read.
template <std::size_t Count>
[[nodiscard]] topology read_machine_file(std::string const& path,
                                         std::array<machine_format, Count> const& formats,
                                         reading_options const& options = {}) {
  std::error_code fault;
  if (std::filesystem::is_directory(path, fault)) {
    throw input_error(path + ": is a folder, expected " + names_of(formats));
  }
  auto const text = detail::file_text(path, "a machine description", input_limits{}.bytes);
  return read_machine_text(text, path, formats, options);
}

/// Returns a machine by its built-in name ("dgx1v", "dgx_a100:2", "torus:4x4"), or from a file of
/// one of `machine_formats`.
///
/// - "host" is the computer that runs this program, with a measured copy rate. "host:12.5" sets the
///   rate, in GB/s.
/// - "gpus" are the NVIDIA GPUs of this computer, as the driver lists them (`read_driver`).
/// - "hwloc" are the GPUs of this computer of any vendor, as hwloc finds them (`read_hwloc_live`).
/// - "-" is a description from standard input.
/// - "dump.xml:4" are four copies of a file's machine, joined by their NICs (`join`): one network
///   for all, or with "@rails" one for the first NICs, one for the second ones, and so on. "=50"
///   sets the GB/s of NICs that the file leaves open, "=50/gpu" gives each GPU one.
/// - "+copying" after any of these makes all switches copy and reduce (`with_copying_switches`).
///   "+copying=nvlink" does so for switches with links of one kind, "+copying=8,9" for those ids.
///
/// Throws: input_error. For an unknown name it lists the known names and suggests the nearest. For
///         a file of no known format it quotes the beginning. For "gpus" also the errors of
///         `read_driver`.
[[nodiscard]] topology read_machine(std::string const& name_or_path,
                                    reading_options const& options = {});

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

/// The machine that a name stands for, or nothing for another text.
[[nodiscard]] inline std::optional<topology> named_machine(std::string_view asked) {
  if (asked == "host") return this_machine();
  if (asked == "gpus") return read_driver(load_nvml());
  if (!asked.starts_with("host:")) return make_built_in_machine(asked);
  host_options options;
  options.copy_rate = read_decimal(asked.substr(5), 9);
  if (!options.copy_rate || *options.copy_rate < rational(1, 10) ||
      *options.copy_rate > rational(1'000'000)) {
    throw input_error("machine " + in_quotes(asked) +
                      ": expected host or host:GB/s with a rate from 0.1 to 1000000");
  }
  return this_machine(options);
}

/// True if a name that is no built-in machine can only be meant as a file.
[[nodiscard]] inline bool is_path(std::string_view name) {
  return name.ends_with(".json") || name.ends_with(".xml") ||
         name.find('/') != std::string_view::npos || std::ifstream(std::string(name)).is_open();
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
                    " Expected a file, or one of host[:GB/s], gpus, hwloc, " + known);
}

}  // namespace detail

inline topology read_machine(std::string const& name_or_path, reading_options const& options) {
  std::string_view const asked = name_or_path;
  if (auto const mark = asked.rfind("+copying"); mark != std::string_view::npos) {
    auto const which = asked.substr(mark + std::string_view("+copying").size());
    if (which.empty() || which.front() == '=') {
      // as of a path, because each "+copying" is one call deeper
      constexpr std::size_t longest = 4096;
      if (asked.size() > longest) {
        throw input_error("machine " + detail::in_quotes(asked) + ": expected a shorter name");
      }
      return with_copying_switches(read_machine(name_or_path.substr(0, mark), options),
                                   which.empty() ? "all" : which.substr(1));
    }
  }
  if (asked == "hwloc") {
    expect_no_rate_but(options.rates, {link_kind::pcie, link_kind::socket}, name_or_path);
    if (options.as_nccl) fail_as_nccl(name_or_path);
    return read_hwloc_live(load_hwloc(), options);
  }
  if (auto machine = detail::named_machine(asked)) {
    expect_no_rate_but(options.rates, {}, name_or_path);
    if (options.as_nccl) fail_as_nccl(name_or_path);
    return *std::move(machine);
  }
  auto const read = [&](std::string const& text) { return read_machine(text, options); };
  if (auto machine = joined_machine(name_or_path, read)) return *std::move(machine);
  if (asked == "-") return read_machine_file("/dev/stdin", machine_formats, options);
  if (detail::is_path(asked)) return read_machine_file(name_or_path, machine_formats, options);
  detail::fail_unknown_machine(asked);
}

}}  // namespace blink::BLINK_ABI
