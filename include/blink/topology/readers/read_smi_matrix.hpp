// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/detail/spanning_tree_search.hpp>
#include <blink/topology/detail/nccl_rates.hpp>
#include <blink/topology/readers/detail/smi_matrix.hpp>
#include <blink/topology/readers/detail/smi_neighbours.hpp>
#include <blink/topology/readers/detail/table_machine_builder.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>
#include <blink/topology/readers/reading_options.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Turns the table of paths into nodes and links.
class smi_machine_builder {
 public:
  using level = smi_path::level;

  smi_machine_builder(smi_matrix const& table, smi_neighbours const& beside,
                      std::string const& file, assumed_rates const& rates)
      : table_(table),
        beside_(beside),
        file_(file),
        machine_(rates, [this](link_kind kind) { return assumed_rate(kind); }) {
    for (int at = 0; at < device_count(); ++at) {
      if (device(at).is_gpu()) gpus_.push_back(at);
    }
  }

  [[nodiscard]] topology build() {
    for (auto const& remark : table_.remarks) machine_.remark(remark);
    expect_known_pairs();
    mig_devices split;
    auto listed = beside_.gpus();
    for (auto const gpu : gpus_) {
      auto const digits = device(gpu).name.substr(3);
      int const id = machine_.add_gpu("gpu" + digits);
      constexpr std::size_t most_digits = 4;  // as many as the other commands have
      bool const is_number = is_digits(digits) && digits.size() <= most_digits;
      int const number = is_number ? std::stoi(digits) : -1;
      listed.erase(number);
      machine_.machine().at(id).uuids = beside_.uuids_of(number);
      if (auto parts = beside_.parts_of(number); !parts.empty()) split[id] = std::move(parts);
    }
    for (int const number : listed) {
      machine_.remark("the table does not name GPU" + std::to_string(number) +
                      ", which is listed beside it");
    }
    remark_lost_nvlinks();
    for (auto const& remark : beside_.remarks()) machine_.remark(remark);
    add_nvlinks();
    add_pcie();
    return with_mig_devices(machine_.build(file_), split);
  }

 private:
  static std::size_t index(int at) { return static_cast<std::size_t>(at); }
  [[nodiscard]] smi_device const& device(int at) const { return table_.devices[index(at)]; }
  [[nodiscard]] int device_count() const { return static_cast<int>(table_.devices.size()); }
  [[nodiscard]] smi_path between(int a, int b) const { return table_.between(index(a), index(b)); }
  /// The device of GPU `i`, which is node `i`.
  [[nodiscard]] int gpu_at(int i) const { return gpus_[index(i)]; }
  [[nodiscard]] int gpu_count() const { return static_cast<int>(gpus_.size()); }

  /// Throws: input_error that names two GPUs of which the table says nothing.
  void expect_known_pairs() const {
    for (auto const a : gpus_) {
      for (auto const b : gpus_) {
        if (a >= b || between(a, b).is != level::unknown) continue;
        int last = table_.header_line;
        for (auto const& each : table_.devices) last = std::max(last, each.line);
        fail_at(file_, last,
                "the table ends here and says nothing about " + device(a).name + " and " +
                    device(b).name + ", expected the row of one of them");
      }
    }
  }

  /// The largest number of NVLinks between a GPU and one other, and of all pairs of the GPU.
  [[nodiscard]] std::pair<int, int> nvlinks_of(int gpu) const {
    int most = 0, sum = 0;
    for (auto const other : gpus_) {
      if (other == gpu || between(gpu, other).is != level::nvlink) continue;
      most = std::max(most, between(gpu, other).links);
      sum += between(gpu, other).links;
    }
    return {most, sum};
  }
  static constexpr int hopper = 90;  // compute capability
  /// The most NVLinks of a GPU before Rubin. Pairs with more in sum share them at a switch.
  static constexpr std::int64_t most_in_sum = most_nvlinks(hopper);

  /// A rate, and the reason for it.
  [[nodiscard]] reasoned_rate assumed_rate(link_kind kind) const {
    if (auto of_models = beside_.rate_of(kind)) return *of_models;
    if (kind == link_kind::socket) {
      return {assumed_between_processors, "as NCCL assumes between AMD processors"};
    }
    if (kind == link_kind::nvlink) {
      return {*nvlink_line_rate(hopper), "one link of a V100, A100 or H100 (B200: 50)"};
    }
    int most = 0;  // NVLinks of a GPU
    for (auto const gpu : gpus_) {
      auto const [of_pair, sum] = nvlinks_of(gpu);
      most = std::max(most, sum > most_in_sum ? of_pair : sum);
    }
    constexpr std::int64_t lanes = 16;
    if (most > 12) return {pcie_rate(lanes, "32 GT/s"), "Gen 5 x16 as beside 18 NVLinks"};
    if (most == 5 || most == 6) {
      return {pcie_rate(lanes, "8 GT/s"), "Gen 3 x16 as beside 6 NVLinks"};
    }
    return {pcie_rate(lanes, "16 GT/s"), "Gen 4 x16"};
  }

  void remark_lost_nvlinks() {
    auto const has_some = [&](int gpu) { return nvlinks_of(gpu).first > 0; };
    if (std::none_of(gpus_.begin(), gpus_.end(), has_some)) return;
    for (auto const gpu : gpus_) {
      if (!has_some(gpu)) machine_.remark(device(gpu).name + " has no NVLink, other GPUs have");
    }
  }

  /// Direct links, or a switch for GPUs whose pairs have more links in sum than a GPU has.
  void add_nvlinks() {
    disjoint_sets sets(gpu_count());
    std::set<int> switched;
    for (int i = 0; i < gpu_count(); ++i) {
      for (int j = 0; j < gpu_count(); ++j) {
        if (i != j && between(gpu_at(i), gpu_at(j)).is == level::nvlink) sets.join(i, j);
      }
    }
    for (int i = 0; i < gpu_count(); ++i) {
      if (nvlinks_of(gpu_at(i)).second > most_in_sum) switched.insert(sets.find(i));
    }
    std::map<int, int> switches;  // node by set
    for (int i = 0; i < gpu_count(); ++i) {
      if (switched.contains(sets.find(i))) {
        auto const [at, is_new] = switches.try_emplace(sets.find(i), 0);
        if (is_new) at->second = machine_.add_switch("nvswitch");
        machine_.add_both_ways(i, at->second, link_kind::nvlink, nvlinks_of(gpu_at(i)).first);
        continue;
      }
      for (int j = i + 1; j < gpu_count(); ++j) {
        auto const path = between(gpu_at(i), gpu_at(j));
        if (path.is != level::nvlink) continue;
        machine_.add_both_ways(i, j, link_kind::nvlink, path.links);
      }
    }
  }

  /// PCIe switches, adapters and processors.
  void add_pcie() {
    std::vector<int> top(table_.devices.size(), -1);  // by device: the top of its branch so far
    for (int i = 0; i < gpu_count(); ++i) top[index(gpu_at(i))] = i;
    for (int at = 0; at < device_count(); ++at) {
      if (top[index(at)] < 0 && is_near_a_gpu(at)) {
        top[index(at)] = machine_.add_switch(device(at).label);
      }
    }
    disjoint_sets sets(device_count());
    for (auto const farthest : {level::pix, level::pxb}) {
      join_nearer(sets, farthest);
      machine_.raise(sets, top);
    }
    join_nearer(sets, level::node);
    table_machine_builder::join_by_affinity(sets, affinities());
    join_unknown(sets);
    machine_.add_processors(sets, top);
  }

  [[nodiscard]] bool is_near_a_gpu(int at) const {
    return std::any_of(gpus_.begin(), gpus_.end(), [&](int gpu) {
      auto const is = between(gpu, at).is;
      return level::pix <= is && is <= level::node;
    });
  }

  void join_nearer(disjoint_sets& sets, level farthest) const {
    for (int a = 0; a < device_count(); ++a) {
      for (int b = a + 1; b < device_count(); ++b) {
        auto const is = between(a, b).is;
        if (level::pix <= is && is <= farthest) sets.join(a, b);
      }
    }
  }

  /// The affinities of GPUs, by device. NVLink hides what else joins them.
  [[nodiscard]] std::vector<std::string_view> affinities() const {
    std::vector<std::string_view> result(table_.devices.size());
    for (int const gpu : gpus_) result[index(gpu)] = device(gpu).affinity;
    return result;
  }

  /// Makes one processor of all branches if the table says nothing that parts them.
  void join_unknown(disjoint_sets& sets) const {
    std::set<std::string_view> affinities;
    for (int const gpu : gpus_) affinities.insert(device(gpu).affinity);
    if (affinities.size() > 1) return;
    for (int a = 0; a < device_count(); ++a) {
      for (int b = 0; b < device_count(); ++b) {
        if (between(a, b).is == level::sys) return;
      }
    }
    for (int at = 1; at < device_count(); ++at) sets.join(0, at);
  }

  smi_matrix const& table_;
  smi_neighbours const& beside_;
  std::string const& file_;
  std::vector<int> gpus_;  // positions in the table; node i is GPU i
  table_machine_builder machine_;
};

}  // namespace detail

/// True if the text has the header of `nvidia-smi topo -m`, a line with GPU0, GPU1, …, or a row.
[[nodiscard]] inline bool is_smi_matrix(std::string_view text) {
  std::string const none;
  detail::smi_matrix_reader const reader(text, none);
  return reader.header().has_value() || reader.has_row();
}

/// Reads a machine from the table that `nvidia-smi topo -m` prints, of any driver: with or without
/// NICs, legend, affinities and colours, as people paste it.
///
/// Ranks are the GPUs, with ids 0 … N-1 in the order of the columns. Switches follow: NVSwitch,
/// NICs, PCIe switches and processors.
///
/// - NV# are direct NVLinks. No GPU before Rubin has more than 18. If the pairs of a GPU have more
///   in sum, the GPUs meet at a switch.
/// - NICs are left out that are near no GPU (SYS).
/// - Devices with PIX between them share a PCIe switch, and switches with PXB one above. Each
///   branch has one link to its processor. PHB, NODE and equal affinities make one processor; SYS
///   parts two.
/// - Rates are those of `options`, or assumed. `topology::remarks` says which.
/// - If the table is cut off, what its other rows say counts. A remark says where.
///
/// The text may also hold what other commands print:
/// - The names of the GPUs in `nvidia-smi nvlink -s` or `nvidia-smi -L` set the rates of NVLink and
///   PCIe. Of several models the slowest counts. Inactive links are remarks.
/// - The UUIDs there are those of the ranks.
/// - The MIG devices in `nvidia-smi -L` are ranks in the place of their GPU. They share its PCIe
///   link and have no other.
/// - Pairs without OK in `nvidia-smi topo -p2p` are a remark. They keep their links.
///
/// file:   the name that errors start with
/// Source: codes as in the legend of nvidia-smi; rates as `read_nccl_xml`
/// Time:   O(D^2 log D) for D devices.
/// Post:   `validate` accepts the result.
/// Throws: input_error with file and line if the text has no such table, a row does not match the
///         header, or two GPUs have no path. With `is_strict` also the first remark about the text.
[[nodiscard]] inline topology read_smi_matrix(std::string_view text, std::string const& file,
                                              reading_options const& options = {}) {
  auto const table = detail::smi_matrix_reader(text, file).read();
  if (options.is_strict && !table.remarks.empty()) {
    throw input_error(file + ": " + table.remarks.front() + ", expected a table without remarks");
  }
  detail::smi_neighbours const beside(text);
  return detail::smi_machine_builder(table, beside, file, options.rates).build();
}

}}  // namespace blink::BLINK_ABI
