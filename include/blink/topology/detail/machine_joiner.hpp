// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/detail/machine_parts.hpp>
#include <blink/topology/nic_options.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The most ranks of joined machines.
inline constexpr std::size_t most_joined_ranks = 65'536;

namespace detail {

/// Puts machines beside each other and adds switches and links that join them.
///
/// Ranks come first, server by server. The switches of the machines follow, then the added ones.
class machine_joiner {
 public:
  /// machines: the same pointer may appear several times
  /// Throws: input_error for different units or too many ranks, nodes or links.
  explicit machine_joiner(std::vector<topology const*> machines) : machines_(std::move(machines)) {
    expect_one_unit_and_size();
    result_.unit = machines_.front()->unit;
    for (auto const* machine : machines_) {
      auto const [entry, is_new] = kinds_.try_emplace(machine);
      if (is_new) {
        entry->second = machine_parts_finder(*machine).find();
        for (auto const& text : machine->remarks) remark(text);
      }
      parts_.push_back(&entry->second);
      first_server_.push_back(server_count_);
      server_count_ += entry->second.server_count;
    }
    add_nodes();
  }

  [[nodiscard]] std::size_t machine_count() const { return machines_.size(); }
  [[nodiscard]] int server_count() const { return server_count_; }
  [[nodiscard]] topology const& machine(std::size_t m) const { return *machines_[m]; }
  [[nodiscard]] machine_parts const& parts(std::size_t m) const { return *parts_[m]; }
  [[nodiscard]] int first_server(std::size_t m) const { return first_server_[m]; }

  void remark(std::string const& text) {
    if (std::ranges::find(result_.remarks, text) == result_.remarks.end()) {
      result_.remarks.push_back(text);
    }
  }
  int add_switch(std::string label, int server) {
    int const at = static_cast<int>(result_.nodes.size());
    result_.nodes.push_back({at, node_kind::switch_node, std::move(label), server});
    return at;
  }
  /// Makes switch `k` of the own network of machine `m` the node `at`. It copies and reduces if all
  /// switches that it replaces do.
  void replace_network(std::size_t m, std::size_t k, int at) {
    auto const& old = machine(m).nodes[index(parts(m).networks[k])];
    auto& now = result_.nodes[index(at)];
    bool const is_first = replaced_.insert(at).second;
    now.copies = old.copies && (is_first || now.copies);
    now.reduces = old.reduces && (is_first || now.reduces);
    position_[m][index(parts(m).networks[k])] = at;
  }
  /// rates: of both directions
  void add_links(int a, int b, rational const& there, rational const& back) {
    added_.push_back({a, b, there});
    added_.push_back({b, a, back});
  }

  /// The ports of each server, by position in the result. Adds NICs where a machine has none and no
  /// network of its own.
  ///
  /// advice: for errors, how to give the rate of a NIC
  /// Throws: input_error for a server without a NIC or a rate of one, and for a rate without use.
  [[nodiscard]] std::vector<std::vector<network_port>> ports(nic_options const& options,
                                                             std::string const& advice) {
    std::vector<std::vector<network_port>> result(static_cast<std::size_t>(server_count_));
    bool is_used = !options.rate;
    for (std::size_t m = 0; m < machines_.size(); ++m) {
      for (auto port : parts(m).ports) {
        if (!port.is_stated) {
          if (!options.rate) remark_assumed(m, port, advice);
          if (options.rate) port.out = port.in = *options.rate;
          is_used = true;
        }
        port.node = position_[m][index(port.node)];
        port.server += first_server_[m];
        result[index(port.server)].push_back(port);
      }
      for (int s = 0; s < parts(m).server_count; ++s) {
        auto& of_server = result[index(first_server_[m] + s)];
        if (!of_server.empty() || !parts(m).networks.empty() || parts(m).ranks[index(s)].empty())
          continue;
        if (!options.rate) fail_without_nic(m, s, advice);
        add_nics(m, s, options, of_server);
        is_used = true;
      }
    }
    if (!is_used) {
      throw input_error("machine '" + machines_.front()->name +
                        "': states its own rates of NICs, expected no other one");
    }
    return result;
  }

  /// The machine, whose `steps_per_unit` is the least that makes all capacities integers.
  ///
  /// Throws: input_error if there is none below a limit.
  [[nodiscard]] topology build(std::string name) {
    result_.name = std::move(name);
    auto& steps = result_.steps_per_unit;
    for (auto const& [machine, parts] : kinds_) raise_steps(machine->steps_per_unit);
    for (auto const& l : added_) raise_steps(l.rate.denominator());
    for (std::size_t m = 0; m < machines_.size(); ++m) {
      auto const factor = steps / machines_[m]->steps_per_unit;
      for (auto l : machines_[m]->links) {
        if (l.capacity > (std::int64_t{1} << 62) / factor) fail("capacities of more than 62 bits");
        l.capacity *= factor;
        l.tail = position_[m][index(l.tail)];
        l.head = position_[m][index(l.head)];
        result_.links.push_back(l);
      }
    }
    for (auto const& [tail, head, rate] : added_) {
      try {
        result_.links.push_back({tail, head, (rate * steps).numerator(), 0, link_kind::network});
      } catch (overflow_error const&) {
        fail("capacities of more than 62 bits");
      }
    }
    validate(result_);
    return std::move(result_);
  }

 private:
  struct exact_link {
    int tail, head;
    rational rate;
  };

  [[noreturn]] void fail(std::string const& what) const {
    throw input_error("joining " + std::to_string(machines_.size()) + " machines: " + what +
                      ", expected fewer or smaller ones");
  }

  void expect_one_unit_and_size() const {
    constexpr std::size_t most_parts = std::size_t{1} << 22;
    if (machines_.empty()) throw input_error("joining machines: none given, expected one or more");
    std::size_t ranks = 0, parts = 0;
    std::map<topology const*, std::size_t> ranks_of;
    for (auto const* machine : machines_) {
      auto const [entry, is_new] = ranks_of.try_emplace(machine, 0);
      if (is_new) entry->second = machine->rank_positions().size();
      ranks += entry->second;
      parts += machine->nodes.size() + machine->links.size();
      if (ranks > most_joined_ranks) {
        fail("more than " + std::to_string(most_joined_ranks) + " ranks");
      }
      if (parts > most_parts) fail("more than " + std::to_string(most_parts) + " nodes and links");
      if (machine->unit != machines_.front()->unit) {
        throw input_error("machine '" + machine->name + "': its unit is " +
                          in_quotes(machine->unit) + ", expected " +
                          in_quotes(machines_.front()->unit) + " as in machine '" +
                          machines_.front()->name + "'");
      }
    }
  }

  void add_nodes() {
    position_.resize(machines_.size());
    for (std::size_t m = 0; m < machines_.size(); ++m) {
      position_[m].assign(machine(m).nodes.size(), -1);
      for (auto const& ranks : parts(m).ranks) {
        for (int const at : ranks) add_node(m, index(at));
      }
    }
    for (std::size_t m = 0; m < machines_.size(); ++m) {
      std::vector<bool> is_network(machine(m).nodes.size());
      for (int const at : parts(m).networks) is_network[index(at)] = true;
      for (std::size_t v = 0; v < is_network.size(); ++v) {
        if (position_[m][v] < 0 && !is_network[v]) add_node(m, v);
      }
    }
  }

  void add_node(std::size_t m, std::size_t v) {
    auto n = machine(m).nodes[v];
    n.id = position_[m][v] = static_cast<int>(result_.nodes.size());
    auto const server = parts(m).server_of[v];
    n.server = server < 0 ? -1 : first_server_[m] + server;
    result_.nodes.push_back(std::move(n));
  }

  void raise_steps(std::int64_t denominator) {
    auto const common =
        common_steps(result_.steps_per_unit, denominator, machine_builder::largest_step_count);
    if (!common) fail("rates without a common unit");
    result_.steps_per_unit = *common;
  }

  [[nodiscard]] static std::size_t index(int at) { return static_cast<std::size_t>(at); }

  void remark_assumed(std::size_t m, network_port const& port, std::string const& advice) {
    auto const first = std::ranges::find(parts(m).ports, false, &network_port::is_stated);
    if (first->node != port.node) return;
    remark(machine(m).name + ": NICs such as " + machine(m).nodes[index(port.node)].label +
           " have no stated rate; each counts as its PCIe link, " + port.out.to_text() + " " +
           machine(m).unit + " (" + advice + ")");
  }

  [[noreturn]] void fail_without_nic(std::size_t m, int server, std::string const& advice) const {
    throw input_error("machine '" + machine(m).name + "': its description names no NIC" +
                      (parts(m).server_count == 1 ? "" : " of server " + std::to_string(server)) +
                      ", or its reader drops those near no GPU; expected NICs, or a rate of one (" +
                      advice + ")");
  }

  void add_nics(std::size_t m, int s, nic_options const& options,
                std::vector<network_port>& of_server) {
    auto const& rate = *options.rate;
    int const server = first_server_[m] + s;
    std::vector<int> ranks;
    for (int const at : parts(m).ranks[index(s)]) ranks.push_back(position_[m][index(at)]);
    auto const begin = machine(m).name + ": no NIC is described; ";
    if (options.is_per_rank) {
      for (int const rank : ranks) of_server.push_back({rank, server, rate, rate});
      remark(begin + "each rank has one of " + rate.to_text() + " " + machine(m).unit);
      return;
    }
    int const nic = add_switch("nic0", server);
    of_server.push_back({nic, server, rate, rate});
    int const processor = parts(m).processors[index(s)];
    if (processor >= 0) ranks = {position_[m][index(processor)]};
    for (int const at : ranks) add_links(at, nic, rate, rate);
    remark(begin + "each server has one of " + rate.to_text() + " " + machine(m).unit + " at " +
           (processor >= 0 ? machine(m).nodes[index(processor)].label : std::string("all ranks")));
  }

  std::vector<topology const*> machines_;
  std::map<topology const*, machine_parts> kinds_;
  std::vector<machine_parts const*> parts_;  // by machine
  std::vector<int> first_server_;            // by machine
  int server_count_ = 0;
  std::vector<std::vector<int>> position_;  // by machine and node; -1: not yet
  std::set<int> replaced_;                  // nodes that take the place of a network
  std::vector<exact_link> added_;
  topology result_;
};

}  // namespace detail

}}  // namespace blink::BLINK_ABI
