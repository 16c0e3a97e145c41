// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/host_clusters.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A part of a machine, to be joined with others: data leaves it at one node and enters it at
/// another one, or at the same.
struct machine_part {
  std::string port;            ///< the name of its port
  int up = 0, down = 0;        ///< nodes
  double out = 0, in = 0;      ///< bytes per second
  double latency_seconds = 0;  ///< of a link to others
  int server = -1;
};

/// A place where parts meet.
struct meeting_place {
  std::string name;  ///< of its switch
  int server = -1;
  link_kind kind = link_kind::network;
  bool has_ports = false;  ///< each part has a port also at a switch
  bool is_last = false;    ///< nothing is outside
  bool is_split = false;   ///< nothing that comes from outside leaves again
};

/// Adds parts to a machine and joins them.
class part_joiner {
 public:
  machine_builder machine;

  // Rates in steps of 1 MB/s. Finer ones say nothing, and plans would have more trees.
  static rational rate(double bytes_per_second) {
    auto const steps = std::max<std::int64_t>(1, std::llround(bytes_per_second / 1e6));
    return rational(steps, 1000);
  }

  /// Joins parts at one switch. With `pairs`, the rates of pairs by part, each pair has a link.
  /// There, ports for each direction keep data of a pair from taking the links of others.
  ///
  /// Returns: all of them as one part, without rates
  machine_part join(std::vector<machine_part> const& parts, meeting_place const& where,
                    host_table const* pairs) {
    std::vector<int> out, in;
    bool const has_one_way_ports = pairs != nullptr || (where.is_split && where.has_ports);
    for (auto const& each : parts) add_port(each, where, has_one_way_ports, out, in);
    auto const join_outside = [&](int up, int down) {
      for (std::size_t k = 0; k < parts.size(); ++k) {
        auto const& each = parts[k];
        machine.add_link(out[k], up, rate(each.out), where.kind, each.latency_seconds);
        machine.add_link(down, in[k], rate(each.in), where.kind, each.latency_seconds);
      }
    };
    machine_part all;
    if (pairs == nullptr && parts.size() == 1) {
      all.up = out.front();
      all.down = in.front();
    } else if (pairs == nullptr && where.is_split) {
      double within = 0;
      for (auto const& each : parts) within += each.out;
      all.up = add_switch(where.name + " out", where.server);
      all.down = add_switch(where.name + " in", where.server);
      machine.add_link(all.up, all.down, rate(within), where.kind);
      join_outside(all.up, all.down);
    } else if (pairs == nullptr) {
      all.up = all.down = add_switch(where.name, where.server);
      join_outside(all.up, all.down);
    } else {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        for (std::size_t k = 0; k < parts.size(); ++k) {
          double const here = i == k ? 0 : (*pairs)[i][k];
          double const latency = parts[i].latency_seconds + parts[k].latency_seconds;
          if (here > 0) machine.add_link(out[i], in[k], rate(here), where.kind, latency);
        }
      }
      if (where.is_last) return all;
      all.up = add_switch(where.name + " out", where.server);
      all.down = add_switch(where.name + " in", where.server);
      join_outside(all.up, all.down);
    }
    return all;
  }

 private:
  int add_switch(std::string const& name, int server) {
    return machine.add_node(node_kind::switch_node, name, server);
  }
  /// Adds the nodes at which a part meets others.
  void add_port(machine_part const& part, meeting_place const& where, bool is_one_way,
                std::vector<int>& out, std::vector<int>& in) {
    out.push_back(part.up);
    in.push_back(part.down);
    if (!where.has_ports && !is_one_way) return;
    out.back() = add_switch(part.port + (is_one_way ? " out" : ""), part.server);
    in.back() = is_one_way ? add_switch(part.port + " in", part.server) : out.back();
    machine.add_link(part.up, out.back(), rate(part.out), where.kind);
    machine.add_link(in.back(), part.down, rate(part.in), where.kind);
  }
};

}}}  // namespace blink::BLINK_ABI::detail
