// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/detail/spanning_tree_search.hpp>
#include <blink/topology/detail/nccl_rates.hpp>
#include <blink/topology/readers/detail/rocm_cells.hpp>
#include <blink/topology/readers/detail/rocm_tables.hpp>
#include <blink/topology/readers/detail/square_table.hpp>
#include <blink/topology/readers/detail/table_machine_builder.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>
#include <blink/topology/readers/detail/text_remarks.hpp>
#include <blink/topology/readers/reading_options.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Turns the tables of AMD's programs into nodes and links.
class rocm_machine_builder {
 public:
  rocm_machine_builder(rocm_tables const& tables, std::string const& file, text_remarks& remarks,
                       assumed_rates const& rates)
      : tables_(tables),
        file_(file),
        remarks_(remarks),
        is_linked_(tables.names.size(), false),
        top_(tables.names.size(), -1),
        machine_(rates, [this](link_kind kind) { return assumed_rate(kind); }) {
    for_each_pair([&](std::size_t a, std::size_t b) {
      if (tables_.bandwidth.between(a, b).second > 0) states_rates_ = true;
    });
    if (!states_rates_) return;
    expect_no_rate_but(
        rates, {link_kind::nvlink, link_kind::xelink, link_kind::pcie, link_kind::socket}, file_);
  }

  [[nodiscard]] topology build() {
    for (std::size_t gpu = 0; gpu < count(); ++gpu) {
      auto const& name = tables_.names[gpu];
      bool const is_numbered = name.starts_with("GPU");
      int const id = machine_.add_gpu("gpu" + (is_numbered ? name.substr(3) : std::to_string(gpu)));
      machine_.machine().at(id).uuids = tables_.uuids[gpu];
      machine_.machine().at(id).bus_id = tables_.bus_ids[gpu];
    }
    for_each_pair([&](std::size_t a, std::size_t b) { compare_rows(a, b); });
    for_each_pair([&](std::size_t a, std::size_t b) { link(a, b); });
    remark_pairs();
    add_pcie();
    expect_all_linked();
    remarks_.move_to(machine_.machine());
    for (auto const& note : tables_.notes) machine_.remark(note);
    return machine_.build(file_);
  }

 private:
  static constexpr std::int64_t unknown = rocm_property::unknown;

  /// Pairs of GPUs of which the same is to be remarked.
  struct pairs {
    std::size_t count = 0;
    int line = 0;
    std::string first;

    [[nodiscard]] std::string text() const {
      return first + (count > 1 ? " and " + std::to_string(count - 1) + " other pairs" : "");
    }
  };

  [[nodiscard]] std::size_t count() const { return tables_.names.size(); }
  [[nodiscard]] std::string names_of(std::size_t a, std::size_t b) const {
    return tables_.names[a] + " and " + tables_.names[b];
  }
  template <class Call>
  void for_each_pair(Call const& call) const {
    for (std::size_t a = 0; a < count(); ++a) {
      for (std::size_t b = a + 1; b < count(); ++b) call(a, b);
    }
  }
  void add(pairs& to, std::size_t a, std::size_t b) const {
    if (to.count++ > 0) return;
    to.first = names_of(a, b);
    to.line = std::max({tables_.link.line_of(a, b), tables_.bandwidth.line_of(a, b)});
  }

  void compare_rows(std::size_t a, std::size_t b) {
    bool const differ = std::any_of(all_.begin(), all_.end(), [&](auto const property) {
      auto const [low, high] = (tables_.*property).between(a, b);
      return low != high;
    });
    if (differ) add(uneven_, a, b);
  }

  /// Adds the link of two GPUs if the tables state one.
  void link(std::size_t a, std::size_t b) {
    auto const type = tables_.link.between(a, b).second;
    auto const bandwidth = tables_.bandwidth.between(a, b).first;
    if (type == rocm_tables::pcie) {
      for (auto const gpu : {a, b}) top_[gpu] = static_cast<int>(gpu);
      return;
    }
    int const from = static_cast<int>(a), to = static_cast<int>(b);
    constexpr std::int64_t megabytes = 1000;
    if (bandwidth > 0) {
      machine_.add_both_ways_at({bandwidth, megabytes}, from, to, link_kind::xgmi);
    } else if (bandwidth == 0) {
      return;
    } else if (type == unknown) {
      return add_unknown(a, b);
    } else if (passes_other_gpus(a, b)) {
      return add(indirect_, a, b);
    } else if (states_rates_) {
      fail_at(
          file_,
          tables_.bandwidth.line_of(a, b) > 0 ? tables_.bandwidth.line_of(a, b) : tables_.last_line,
          "no bandwidth of " + names_of(a, b) +
              ", whose type is XGMI, expected one as other pairs have");
    } else {
      machine_.add_both_ways(from, to, link_kind::xgmi);
    }
    is_linked_[a] = is_linked_[b] = true;
  }

  /// Throws: input_error if no row speaks of the two GPUs.
  void add_unknown(std::size_t a, std::size_t b) {
    if (tables_.link.line_of(a, b) == 0 && tables_.bandwidth.line_of(a, b) == 0) {
      fail_at(file_, tables_.last_line,
              "the text ends here and says nothing about a link between " + names_of(a, b) +
                  ", expected the row of one of them");
    }
    add(unknown_, a, b);
  }

  /// True for XGMI of more than one hop. AMD's hops stay 1 then, but each hop weighs 15.
  [[nodiscard]] bool passes_other_gpus(std::size_t a, std::size_t b) const {
    constexpr std::int64_t two_hops = 30;
    return tables_.hops.between(a, b).second > 1 || tables_.weight.between(a, b).second >= two_hops;
  }

  void remark_pairs() {
    if (uneven_.count > 0) {
      remarks_.add(std::max(uneven_.line, tables_.header_line),
                   uneven_.text() + " say other things of each other; the slower ones count");
    }
    if (unknown_.count > 0) {
      remarks_.add(unknown_.line, unknown_.text() + ": the link type is unknown, none is counted");
    }
    if (indirect_.count > 0) {
      machine_.remark(indirect_.text() +
                      " are joined by several XGMI hops, which are links of other pairs");
    }
  }

  /// A rate, and the reason for it.
  [[nodiscard]] reasoned_rate assumed_rate(link_kind kind) const {
    if (kind == link_kind::socket) {
      return {assumed_between_processors, "as NCCL assumes between AMD processors"};
    }
    auto const& of = tables_.architecture;
    auto const known = xgmi_line_rate(of);
    if (kind == link_kind::xgmi) {
      return {known.value_or(*xgmi_line_rate("gfx90a")),
              known ? "one link of a " + of + " for each pair"
                    : "one link of an MI250X for each pair (MI300X: 64), because only "
                      "rocm-smi --shownodesbw states links"};
    }
    constexpr std::int64_t lanes = 16;
    bool const is_mi300 = known && *known > *xgmi_line_rate("gfx90a");
    if (is_mi300) return {pcie_rate(lanes, "32 GT/s"), "Gen 5 x16 as of a " + of};
    return {pcie_rate(lanes, "16 GT/s"), "Gen 4 x16"};
  }

  /// GPUs of PCIE pairs have a link to their processor. GPUs share one if nothing parts them.
  void add_pcie() {
    disjoint_sets processors(static_cast<int>(count()));
    std::vector<std::vector<bool>> are_apart(count(), std::vector<bool>(count(), false));
    auto const set_of = [&](std::size_t gpu) {
      return static_cast<std::size_t>(processors.find(static_cast<int>(gpu)));
    };
    auto const join = [&](std::size_t a, std::size_t b) {
      auto const from = set_of(a), to = set_of(b);
      if (!processors.join(static_cast<int>(a), static_cast<int>(b))) return;
      for (std::size_t set = 0; set < count(); ++set) {
        bool const is_apart = are_apart[from][set] || are_apart[to][set];
        for (auto const joined : {from, to}) {
          are_apart[joined][set] = are_apart[set][joined] = is_apart;
        }
      }
    };
    for_each_pair([&](std::size_t a, std::size_t b) {
      are_apart[a][b] = are_apart[b][a] = share_processor(a, b) == false;
    });
    for_each_pair([&](std::size_t a, std::size_t b) {
      if (share_processor(a, b) == true) join(a, b);
    });
    for_each_pair([&](std::size_t a, std::size_t b) {
      if (!are_apart[set_of(a)][set_of(b)]) join(a, b);
    });
    machine_.add_processors(processors, top_);
  }

  /// True if two GPUs have one processor, false if they have two; nothing if no table says so.
  [[nodiscard]] std::optional<bool> share_processor(std::size_t a, std::size_t b) const {
    auto const here = tables_.numa_nodes[a], there = tables_.numa_nodes[b];
    if (here && there) return *here == *there;
    if (tables_.link.between(a, b).second != rocm_tables::pcie) return std::nullopt;
    constexpr std::int64_t near_hops = 2, near_weight = 40;
    if (auto const hops = tables_.hops.between(a, b).second; hops != unknown) {
      return hops <= near_hops;
    }
    auto const weight = tables_.weight.between(a, b).second;
    return weight == unknown ? std::nullopt : std::optional(weight <= near_weight);
  }

  void expect_all_linked() {
    auto const is_alone = [&](std::size_t gpu) { return !is_linked_[gpu] && top_[gpu] < 0; };
    std::size_t alone = 0;
    for (std::size_t gpu = 0; gpu < count() && count() > 1; ++gpu) {
      if (!is_alone(gpu)) continue;
      ++alone;
      machine_.remark(tables_.names[gpu] + " has no link");
    }
    if (alone < count()) return;
    fail_at(file_, tables_.header_line,
            "the tables name no link between two GPUs, expected XGMI or PCIE for some");
  }

  static constexpr std::array<rocm_property rocm_tables::*, 4> all_{
      &rocm_tables::link, &rocm_tables::hops, &rocm_tables::weight, &rocm_tables::bandwidth};

  rocm_tables const& tables_;
  std::string const& file_;
  text_remarks& remarks_;
  std::vector<bool> is_linked_;  // by GPU: has a link of XGMI
  std::vector<int> top_;         // by GPU: itself if it has a link of PCIe, else -1
  table_machine_builder machine_;
  bool states_rates_ = false;  // of XGMI
  pairs uneven_, unknown_, indirect_;
};

}  // namespace detail

/// True if the text has a title of rocm-smi, amd-smi or TransferBench, or a row of their types.
[[nodiscard]] inline bool is_rocm_smi(std::string_view text) {
  constexpr std::array<std::string_view, 14> marks{
      "ROCm System Management Interface",
      " between two GPUs",
      "= Bandwidth =",
      "(Topology) Numa ",
      "Units: mps",
      "LINK TYPE TABLE:",
      "NUMA BW TABLE:",
      "WEIGHT TABLE:",
      "HOPS TABLE:",
      "ACCESS TABLE:",
      "CACHE COHERANCY TABLE:",
      "XGMI LINK STATUS:",
      "LINK METRIC TABLE:",
      " | Closest NUMA | ",
  };
  auto const appears = [&](std::string_view mark) {
    return text.find(mark) != std::string_view::npos;
  };
  if (std::any_of(marks.begin(), marks.end(), appears)) return true;
  if (!appears("XGMI") && !appears("PCIE")) return false;
  for (auto const& line : detail::text_lines(text)) {
    auto const plain = detail::with_plain_names(line);
    auto const words = detail::words_of(plain);
    if (words.size() < 2 || !detail::is_gpu_name(words[0])) continue;
    for (auto const word : words) {
      auto const type = detail::rocm_type_of(word);
      if (type && type->link != detail::rocm_property::unknown) return true;
    }
  }
  return false;
}

/// Reads a machine of AMD GPUs from what `rocm-smi --showtopo`, `--showtopotype`,
/// `--showtopoweight`, `--showtopohops`, `--showtoponuma` and `--shownodesbw`, `amd-smi topology`
/// or TransferBench print. Tables of one text are combined, in any order.
///
/// Ranks are the GPUs or their partitions, with ids 0 … N-1 in the order of the columns. Processors
/// follow.
///
/// - A pair of type XGMI has one link, because types, hops and weights do not state how many. With
///   bandwidths it has the largest one, and none if that is 0.
/// - XGMI of several hops, and of weight 30 and more, is no link of its own.
/// - GPUs of PCIE pairs have one link to their processor, and processors are joined. GPUs of one
///   NUMA node share a processor. Without NUMA nodes those with hops of 2 do, or else with weights
///   up to 40, and those that nothing parts.
/// - Without types hops count, or else weights.
/// - `rocm-smi --showuniqueid`, `--showbus` and `amd-smi list` in the same text name the GPUs.
/// - Other rates are those of `options`, or assumed. `topology::remarks` says which.
///
/// file:   the name that errors start with
/// Source: types, hops and weights as AMD SMI's documentation explains them; bandwidths as
///         rocm_smi_lib prints them; rates of XGMI as the data sheets
/// Time:   O(text + N^2 log N) for N GPUs.
/// Post:   `validate` accepts the result.
/// Throws: input_error with file and line if the tables state no links or contradict each other.
///         Also if they say nothing about two GPUs, or a row is damaged. With `is_strict` also for
///         the first remark about the text.
[[nodiscard]] inline topology read_rocm_smi(std::string_view text, std::string const& file,
                                            reading_options const& options = {}) {
  detail::text_remarks remarks(file, options.is_strict);
  auto const found = detail::square_table_reader(text, file, remarks).read();
  auto const tables = detail::rocm_table_reader(found, file, remarks).read();
  return detail::rocm_machine_builder(tables, file, remarks, options.rates).build();
}

}}  // namespace blink::BLINK_ABI
