// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A machine in the making. Its links have exact rates until `build` gives all of them one unit.
class machine_builder {
 public:
  static constexpr std::int64_t largest_step_count = 1'000'000'000;

  /// Returns the id of the new node, which is its position.
  int add_node(node_kind kind, std::string label, int server) {
    int const id = static_cast<int>(machine_.nodes.size());
    machine_.nodes.push_back({id, kind, std::move(label), server});
    return id;
  }
  /// The node with this id, for names of its device.
  [[nodiscard]] struct node& at(int id) { return machine_.nodes[static_cast<std::size_t>(id)]; }
  /// rate: in GB/s
  void add_link(int tail, int head, rational const& rate, link_kind kind, double latency = 0) {
    links_.push_back({tail, head, rate, kind, latency});
  }
  void add_both_ways(int a, int b, rational const& rate, link_kind kind, double latency = 0) {
    add_link(a, b, rate, kind, latency);
    add_link(b, a, rate, kind, latency);
  }
  void remark(std::string text) { machine_.remarks.push_back(std::move(text)); }

  /// The machine, whose `steps_per_unit` is the least common denominator of the rates.
  ///
  /// file:   the name that errors start with
  /// Throws: input_error if that exceeds `most`.
  [[nodiscard]] topology build(std::string const& file, std::int64_t most = largest_step_count) {
    for (auto const& each : links_) {
      auto const steps = common_steps(machine_.steps_per_unit, each.rate.denominator(), most);
      if (!steps) {
        throw input_error(file + ": rates such as " + each.rate.to_text() +
                          " GB/s have no common unit, expected coarser ones");
      }
      machine_.steps_per_unit = *steps;
    }
    for (auto const& each : links_) {
      auto const capacity = (each.rate * machine_.steps_per_unit).numerator();
      machine_.links.push_back({each.tail, each.head, capacity, each.latency_seconds, each.kind});
    }
    return std::move(machine_);
  }

 private:
  struct exact_link {
    int tail, head;
    rational rate;
    link_kind kind;
    double latency_seconds;
  };

  topology machine_;
  std::vector<exact_link> links_;
};

/// Names a machine after its file, without folder and ending, and validates it.
///
/// Throws: input_error that starts with the file's name.
[[nodiscard]] inline topology named_after(std::string const& file, topology machine) {
  machine.name = std::filesystem::path(file).stem().string();
  try {
    validate(machine);
  } catch (input_error const& fault) {
    throw input_error(file + ": " + fault.what());
  }
  return machine;
}

}}}  // namespace blink::BLINK_ABI::detail
