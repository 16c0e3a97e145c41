// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/topology.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The links among the ranks of a line along one dimension.
enum class network_block : std::uint8_t { ring, fully_connected, switched };

/// A dimension of a network. Ranks that differ in this coordinate alone are joined.
struct network_dimension {
  network_block block = network_block::ring;
  int extent = 1;
  rational rate;  ///< of a link in one direction, in GB/s: to a neighbour, or to the switch
  double latency_seconds = 0;  ///< of a link
};

/// Adds the nodes and links of a network with several dimensions, of which the first varies
/// fastest. Ranks come first; each line along a dimension with switches has one.
class network_dimension_builder {
 public:
  network_dimension_builder(machine_builder& machine, std::string const& file)
      : machine_(machine), file_(file) {}

  /// Throws: input_error for more ranks or links than a machine may have.
  void add(std::vector<network_dimension> const& dimensions) {
    ranks_ = checked_ranks(dimensions);
    for (int i = 0; i < ranks_; ++i) {
      machine_.add_node(node_kind::rank, "npu" + std::to_string(i), 0);
    }
    int stride = 1;
    for (std::size_t at = 0; at < dimensions.size(); ++at) {
      add_dimension(dimensions[at], stride, "dim" + std::to_string(at));
      stride *= dimensions[at].extent;
    }
  }

 private:
  [[nodiscard]] int checked_ranks(std::vector<network_dimension> const& dimensions) const {
    std::int64_t ranks = 1;
    for (auto const& each : dimensions) {
      ranks *= each.extent;
      if (ranks > most_ranks) {
        throw input_error(file_ + ": more than " + std::to_string(most_ranks) +
                          " ranks, expected fewer");
      }
    }
    std::int64_t links = 0;
    for (auto const& each : dimensions) {
      bool const is_full = each.block == network_block::fully_connected;
      links += ranks * (is_full ? each.extent - 1 : 2);
    }
    if (links > most_links) {
      throw input_error(file_ + ": " + std::to_string(links) + " links, expected at most " +
                        std::to_string(most_links));
    }
    return static_cast<int>(ranks);
  }

  void add_dimension(network_dimension const& dimension, int stride, std::string const& name) {
    if (dimension.extent == 1) return;
    int lines = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank / stride % dimension.extent == 0) {  // the first of its line
        add_line(dimension, rank, stride, name + ".switch" + std::to_string(lines++));
      }
    }
  }

  void add_line(network_dimension const& dimension, int first, int stride,
                std::string const& switch_name) {
    auto const rank = [&](int i) { return first + i * stride; };
    auto const join = [&](int a, int b) {
      machine_.add_both_ways(a, b, dimension.rate, link_kind::unknown, dimension.latency_seconds);
    };
    int const extent = dimension.extent;
    switch (dimension.block) {
      case network_block::ring:
        for (int i = 0; i + 1 < extent; ++i) join(rank(i), rank(i + 1));
        if (extent > 2) join(rank(extent - 1), first);  // with two, both neighbours are one
        break;
      case network_block::fully_connected:
        for (int i = 0; i < extent; ++i) {
          for (int j = i + 1; j < extent; ++j) join(rank(i), rank(j));
        }
        break;
      case network_block::switched: {
        int const at = machine_.add_node(node_kind::switch_node, switch_name, 0);
        for (int i = 0; i < extent; ++i) join(rank(i), at);
        break;
      }
    }
  }

  static constexpr std::int64_t most_ranks = 1 << 16;
  static constexpr std::int64_t most_links = 1 << 20;

  machine_builder& machine_;
  std::string const& file_;
  int ranks_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
