// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/readers/detail/json_checks.hpp>
#include <blink/topology/readers/detail/json_keys.hpp>
#include <blink/topology/readers/detail/json_text.hpp>
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
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The links of an NDv2, as TACCL numbers its GPUs. 1 has the first beta of the list: two NVLinks;
/// 2 has the second one.
inline constexpr std::array<std::array<std::int8_t, 8>, 8> ndv2_betas{{{0, 1, 2, 2, 1, 0, 0, 0},
                                                                       {1, 0, 2, 1, 0, 2, 0, 0},
                                                                       {2, 2, 0, 1, 0, 0, 1, 0},
                                                                       {2, 1, 1, 0, 0, 0, 0, 2},
                                                                       {1, 0, 0, 0, 0, 1, 2, 2},
                                                                       {0, 2, 0, 0, 1, 0, 2, 1},
                                                                       {0, 0, 1, 0, 2, 2, 0, 1},
                                                                       {0, 0, 0, 2, 2, 1, 1, 0}}};

/// Turns a topology profile of TACCL into a machine.
class taccl_machine_reader : json_checks {
 public:
  taccl_machine_reader(std::string const& file, bool is_strict)
      : json_checks(file), remarks_(file, is_strict) {}

  topology read(json_value const& top) {
    require_kind(top, json_kind::object, "the file", "an object with gpus_per_node");
    remark_unknown_keys(top);
    constexpr std::int64_t most_gpus = 4096;
    gpus_ = static_cast<int>(
        integer(required(top, "", "gpus_per_node"), "gpus_per_node", 1, most_gpus));
    for (int i = 0; i < gpus_; ++i) {
      machine_.add_node(node_kind::rank, "gpu" + std::to_string(i), 0);
    }
    if (auto const* alpha = top.find("alpha")) {
      alpha_seconds_ = decimal(*alpha, "alpha", 0, largest_cost).to_double() * 1e-6;
    }
    if (top.find("links") != nullptr) {
      read_matrices(top);
    } else {
      read_lists(top);
    }
    add_links();
    remarks_.move_to(machine_);
    remark_assumptions(top);
    return machine_.build(file());
  }

 private:
  /// The links between two nodes, which have one beta.
  struct priced_link {
    int tail, head;
    rational rate;  ///< of all of them
    link_kind kind;
    double latency_seconds;
    bool is_both_ways;
  };

  void remark_unknown_keys(json_value const& top) {
    constexpr std::array<std::string_view, 12> known{"name",
                                                     "gpus_per_node",
                                                     "nics_per_node",
                                                     "alpha",
                                                     "remote_alpha",
                                                     "node_betas_list",
                                                     "node_invbws_list",
                                                     "remote_beta",
                                                     "remote_invbw",
                                                     "links",
                                                     "betas",
                                                     "invbws"};
    for (std::size_t i = 0; i < top.keys.size(); ++i) {
      if (std::find(known.begin(), known.end(), top.keys[i]) != known.end()) continue;
      remarks_.add(top.items[i].line, "unknown key " + in_quotes(top.keys[i]));
    }
  }

  /// The costs without latency: `betas`, or else `invbws`, which contain alpha.
  json_value const& costs(json_value const& top, std::string const& betas,
                          std::string const& invbws) {
    if (auto const* found = top.find(betas)) return *found;
    auto const* found = top.find(invbws);
    if (found == nullptr) (void)required(top, "", betas);
    remarks_.add(found->line, betas + " is missing, and " + invbws + " counts, which has alpha");
    return *found;
  }

  [[nodiscard]] rational cost(json_value const& value, std::string const& path) const {
    return decimal(value, path, rational(1, 1000), largest_cost);
  }

  /// In GB/s: the links move a megabyte each in `beta` microseconds.
  [[nodiscard]] static rational rate_of(rational const& beta, std::int64_t links) {
    return rational(1000) * links / beta;
  }

  /// A known machine: the mesh of an NDv2, or GPUs at a switch.
  void read_lists(json_value const& top) {
    auto const& list = costs(top, "node_betas_list", "node_invbws_list");
    require_kind(list, json_kind::array, "node_betas_list", "a list");
    std::vector<rational> betas;
    for (std::size_t i = 0; i < std::min<std::size_t>(list.items.size(), 3); ++i) {
      betas.push_back(cost(list.items[i], "node_betas_list[" + std::to_string(i) + "]"));
    }
    if (betas.size() == 2 && gpus_ == 8) {
      add_ndv2(betas);
    } else if (betas.size() == 1) {
      add_star(betas.front());
    } else {
      fail(list, "node_betas_list",
           std::to_string(list.items.size()) + " betas for " + std::to_string(gpus_) + " GPUs",
           "two for the 8 GPUs of an NDv2, or one for GPUs at a switch");
    }
  }

  void add_ndv2(std::vector<rational> const& betas) {
    for (int i = 0; i < gpus_; ++i) {
      for (int j = i + 1; j < gpus_; ++j) {
        auto const beta = ndv2_betas[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
        if (beta == 0) continue;
        auto const rate = rate_of(betas[static_cast<std::size_t>(beta - 1)], 1);
        links_.push_back({i, j, rate, link_kind::nvlink, alpha_seconds_, true});
      }
    }
    what_ = "the mesh is that of an NDv2, because two betas are given for 8 GPUs";
  }

  void add_star(rational const& beta) {
    constexpr int gpus_of_dgx2 = 16;
    bool const is_dgx2 = gpus_ == gpus_of_dgx2;
    int const at = machine_.add_node(node_kind::switch_node, is_dgx2 ? "nvswitch" : "switch", 0);
    auto const kind = is_dgx2 ? link_kind::nvlink : link_kind::unknown;
    for (int i = 0; i < gpus_; ++i) {
      links_.push_back({i, at, rate_of(beta, 1), kind, alpha_seconds_ / 2, true});
    }
    what_ = "the GPUs meet at a switch, because one beta is given";
  }

  [[nodiscard]] json_value const& matrix(json_value const& value, std::string const& path) const {
    auto const check = [&](json_value const& list, std::string const& place) {
      require_kind(list, json_kind::array, place, "a list");
      if (list.items.size() == static_cast<std::size_t>(gpus_)) return;
      fail(list, place, std::to_string(list.items.size()) + " entries",
           std::to_string(gpus_) + ", as gpus_per_node says");
    };
    check(value, path);
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      check(value.items[i], path + "[" + std::to_string(i) + "]");
    }
    return value;
  }

  /// A machine of its own: row i, column j is the link from GPU j to GPU i.
  void read_matrices(json_value const& top) {
    for (auto const* key : {"node_betas_list", "node_invbws_list"}) {
      if (auto const* list = top.find(key)) {
        fail(*list, key, "a list beside \"links\"", "the matrix \"betas\" alone");
      }
    }
    auto const& counts = matrix(*top.find("links"), "links");
    auto const& betas = matrix(costs(top, "betas", "invbws"), "betas");
    constexpr std::int64_t most_links = 1000;
    for (std::size_t head = 0; head < counts.items.size(); ++head) {
      for (std::size_t tail = 0; tail < counts.items.size(); ++tail) {
        auto const place = "[" + std::to_string(head) + "][" + std::to_string(tail) + "]";
        auto const& count = counts.items[head].items[tail];
        auto const links = integer(count, "links" + place, 0, most_links);
        if (links == 0) continue;
        if (head == tail) fail(count, "links" + place, count.text, "0, it is the GPU itself");
        auto const beta = cost(betas.items[head].items[tail], "betas" + place);
        links_.push_back({static_cast<int>(tail), static_cast<int>(head), rate_of(beta, links),
                          link_kind::unknown, alpha_seconds_, false});
      }
    }
  }

  /// Adds the links with exact rates if these have a unit in common, else with rounded ones.
  void add_links() {
    std::optional<std::int64_t> steps = 1;
    for (auto const& each : links_) {
      if (steps)
        steps = common_steps(*steps, each.rate.denominator(), machine_builder::largest_step_count);
    }
    constexpr std::int64_t thousandths = 1000;
    for (auto& each : links_) {
      if (!steps) {
        auto const& exact = each.rate;
        each.rate =
            rational(exact.numerator() / exact.denominator()) +
            rational(exact.numerator() % exact.denominator() * thousandths / exact.denominator(),
                     thousandths);
      }
      machine_.add_link(each.tail, each.head, each.rate, each.kind, each.latency_seconds);
      if (each.is_both_ways) {
        machine_.add_link(each.head, each.tail, each.rate, each.kind, each.latency_seconds);
      }
    }
    if (!steps) machine_.remark("rates are rounded down to thousandths of a GB/s");
  }

  void remark_assumptions(json_value const& top) {
    if (!what_.empty()) machine_.remark(what_);
    machine_.remark(
        "a beta counts as microseconds for 10^6 bytes: a profile of another size scales all rates");
    if (top.find("nics_per_node") != nullptr) {
      machine_.remark("nics_per_node and remote_beta are left out: the file is one node");
    }
  }

  static constexpr std::int64_t largest_cost = 1'000'000;  // microseconds

  text_remarks remarks_;
  machine_builder machine_;
  std::vector<priced_link> links_;
  int gpus_ = 0;
  double alpha_seconds_ = 0;
  std::string what_;  // why the machine has these links
};

}  // namespace detail

/// True if the text is a topology profile of TACCL: a JSON object with `gpus_per_node` and costs.
[[nodiscard]] inline bool is_taccl(std::string_view text) {
  using detail::has_json_keys;
  return has_json_keys(text, {"gpus_per_node", "node_betas_list"}) ||
         has_json_keys(text, {"gpus_per_node", "node_invbws_list"}) ||
         has_json_keys(text, {"gpus_per_node", "links"});
}

/// Reads a machine from a topology profile of TACCL.
///
/// Ranks are the GPUs of one node, with ids 0 … N-1. The file has no number of nodes, and no GPUs
/// of NICs: what it says about links between nodes is left out, with a remark.
///
/// - `links`, `betas`, `invbws`: matrices of a machine of its own (`custom`). Row i, column j is
///   the number of links from GPU j to GPU i, and the cost of one. Their kind is unknown.
/// - `node_betas_list` with two costs for 8 GPUs: the NVLink mesh of an NDv2. With one cost: GPUs
///   at a switch (`HubAndSpoke`), for 16 GPUs NVLinks (`DGX2`). The program that reads such files
///   gets the machine as an argument, so a remark says which one is assumed.
/// - A beta is the time of 10^6 bytes in microseconds: 46 is 1000/46 GB/s. A profile for another
///   size has all costs multiplied by a factor that is not in the file. A remark says so.
/// - `alpha` is the latency in microseconds; through a switch, half of it on each link.
/// - `invbws` are alpha + beta. They count where betas are missing, with a remark.
/// - If the rates have no common unit they are rounded down to thousandths of a GB/s.
///
/// file:   the name that errors start with
/// Source: github.com/microsoft/taccl, INPUT_GUIDE.md and taccl/topologies
/// Time:   O(N^2) for N GPUs.
/// Post:   `validate` accepts the result.
/// Throws: input_error with file and line for malformed JSON, numbers out of range, matrices of
///         another size, and lists that fit no known machine. With `is_strict` for unknown keys and
///         missing betas. For any of `options.rates`.
[[nodiscard]] inline topology read_taccl(std::string_view text, std::string const& file,
                                         reading_options const& options = {}) {
  expect_no_rate_but(options.rates, {}, file);
  auto const top = detail::json_builder(text, file, input_limits{}).parse();
  return detail::named_after(file, detail::taccl_machine_reader(file, options.is_strict).read(top));
}

}}  // namespace blink::BLINK_ABI
