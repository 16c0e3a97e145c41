// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/detail/device_names.hpp>
#include <blink/topology/readers/detail/rocm_cells.hpp>
#include <blink/topology/readers/detail/square_table.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>
#include <blink/topology/readers/detail/text_remarks.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads UUIDs and bus ids beside the tables of AMD's programs.
class rocm_name_reader {
 public:
  rocm_name_reader(rocm_tables& tables, text_remarks& remarks)
      : tables_(tables), remarks_(remarks) {}

  /// Takes the names that the tables themselves have.
  void begin() {
    tables_.uuids.resize(tables_.names.size());
    tables_.bus_ids.resize(tables_.names.size());
    for (std::size_t gpu = 0; gpu < tables_.names.size(); ++gpu) {
      auto const& name = tables_.names[gpu];
      if (!name.starts_with("GPU")) tables_.bus_ids[gpu] = in_small_letters(name);
    }
  }

  /// Reads a line that names a device. Returns false for other lines.
  bool read(numbered_line const& line, std::vector<std::string_view> const& words) {
    return read_line_of_rocm_smi(words) || read_line_of_amd_smi(line, words);
  }

  /// The position of a GPU by its name in the tables; nothing for another.
  [[nodiscard]] std::optional<std::size_t> position_of(std::string_view name) const {
    auto const& names = tables_.names;
    auto const gpu = std::find(names.begin(), names.end(), name);
    return gpu == names.end() ? std::nullopt
                              : std::optional(static_cast<std::size_t>(gpu - names.begin()));
  }

 private:
  /// Reads "GPU0 : Unique ID: 0x592c190172fd5d40" and "GPU0 : PCI Bus: 0000:C1:00.0", as
  /// `rocm-smi --showuniqueid` and `--showbus` print them.
  bool read_line_of_rocm_smi(std::vector<std::string_view> const& words) {
    constexpr std::size_t count = 5;
    if (words.size() != count || !is_gpu_name(words[0]) || words[1] != ":") return false;
    bool const is_uuid = words[2] == "Unique" && words[3] == "ID:";
    bool const is_bus_id = words[2] == "PCI" && words[3] == "Bus:";
    if (!is_uuid && !is_bus_id) return false;
    auto const gpu = position_of(words[0]);
    if (gpu && is_uuid) add_uuids(*gpu, words[4]);
    if (gpu && is_bus_id) tables_.bus_ids[*gpu] = in_small_letters(words[4]);
    return true;
  }

  /// Reads "GPU: 0", "BDF: 0000:c5:00.0" and "UUID: 12ff74a1-…", which `amd-smi list` prints for
  /// each GPU.
  bool read_line_of_amd_smi(numbered_line const& line, std::vector<std::string_view> const& words) {
    if (words.size() != 2) return false;
    if (words[0] == "GPU:" && is_digits(words[1])) {
      listed_ = position_of("GPU" + std::string(words[1]));
    } else if (words[0] == "BDF:" && is_gpu_name(words[1])) {
      set_listed(line.number, in_small_letters(words[1]));
    } else if (words[0] == "UUID:") {
      if (listed_) add_uuids(*listed_, words[1]);
    } else {
      return false;
    }
    return true;
  }

  void set_listed(int line, std::string const& bus_id) {
    auto const& ids = tables_.bus_ids;
    auto const known = std::find(ids.begin(), ids.end(), bus_id);
    if (!listed_ && known != ids.end()) listed_ = static_cast<std::size_t>(known - ids.begin());
    if (listed_) {
      tables_.bus_ids[*listed_] = bus_id;
    } else {
      remarks_.add(line, "no table names the GPU " + bus_id);
    }
  }

  void add_uuids(std::size_t gpu, std::string_view stated) {
    auto& known = tables_.uuids[gpu];
    for (auto& uuid : amd_uuids(stated)) {
      if (std::find(known.begin(), known.end(), uuid) == known.end()) {
        known.push_back(std::move(uuid));
      }
    }
  }

  rocm_tables& tables_;
  text_remarks& remarks_;
  std::optional<std::size_t> listed_;  // the GPU that the last lines of amd-smi list are about
};

}}}  // namespace blink::BLINK_ABI::detail
