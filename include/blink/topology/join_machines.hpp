// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/detail/machine_joiner.hpp>
#include <blink/topology/detail/machine_parts.hpp>
#include <blink/topology/nic_options.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

// Machines of several servers, made of descriptions of one.

namespace blink { inline namespace BLINK_ABI {

/// The network between servers.
enum class server_network : std::uint8_t {
  automatic,  ///< the networks that all machines have themselves, else a fabric
  rails,      ///< NIC k of each server is at switch k
  fabric,     ///< all NICs are at one switch
};

/// Choices for joining machines.
struct join_options {
  server_network network = server_network::automatic;
  nic_options nics{};
};

/// Joins machines by a network of non-blocking switches.
///
/// - Ranks have ids 0 … N-1, server by server. Switches follow, the network last. Servers have new
///   numbers in the same order, and labels stay.
/// - A NIC is a switch in a server that has a network link to one node only ("net mlx5_0"). Named
///   like a NIC ("mlx5_0", "nic3"), it may have any links inside the server.
/// - Its rate is that of its links. NICs with PCIe links have no stated rate: that of `options`
///   counts, else that of the links, with a remark.
/// - If a machine has a network of its own, its switches become those of the joint network.
/// - With rails, ranks at different rails reach each other only through their servers. Allocations
///   without such a way are not connected.
/// - Switches without a server belong to the only one of their machine, but for networks.
///
/// Time:   O(nodes + links) of the result, and O(V E) for each different machine.
/// Post:   `validate` accepts the result. Rates are exact, by the least common `steps_per_unit`.
/// Throws: input_error for no machine, different units and too many ranks. Also for a server
///         without a NIC or a rate of one, and for a rate where all are stated. Also for own
///         networks of several levels, and for rails if their numbers of switches differ.
[[nodiscard]] topology join(std::vector<topology> const& servers, join_options const& options = {});

namespace detail {

/// The switches that join servers, and what is at them.
class server_network_builder {
 public:
  server_network_builder(machine_joiner& joiner, join_options const& options)
      : joiner_(joiner), options_(options) {}

  void build() {
    if (joiner_.server_count() > 1) ports_ = joiner_.ports(options_.nics, advice);
    count_networks();
    std::vector<int> at;  // of a network
    for (std::size_t k = 0; k < network_count_; ++k) {
      at.push_back(
          joiner_.add_switch("network" + (network_count_ == 1 ? "" : std::to_string(k)), -1));
    }
    for (std::size_t m = 0; m < joiner_.machine_count(); ++m) {
      for (std::size_t k = 0; k < joiner_.parts(m).networks.size(); ++k) {
        joiner_.replace_network(m, k, at[by_rails_ ? k : 0]);
      }
    }
    for (auto const& of_server : ports_) {
      for (std::size_t k = 0; k < of_server.size() && (!by_rails_ || k < at.size()); ++k) {
        auto const& port = of_server[k];
        joiner_.add_links(port.node, at[by_rails_ ? k : 0], port.out, port.in);
      }
    }
    remark_network();
  }

 private:
  static constexpr char const* advice =
      "COUNT@fabric=GB/s for one NIC, COUNT@fabric=GB/s/gpu for one at each GPU";

  void count_networks() {
    std::size_t own = 0, least_own = SIZE_MAX;
    for (std::size_t m = 0; m < joiner_.machine_count(); ++m) {
      auto const& parts = joiner_.parts(m);
      own = std::max(own, parts.networks.size());
      least_own = std::min(least_own, parts.networks.size());
      if (parts.has_levels && joiner_.machine_count() > 1) {
        throw input_error("machine '" + joiner_.machine(m).name +
                          "': its network has several levels, expected one or none");
      }
    }
    if (options_.network == server_network::rails && own != least_own) {
      throw input_error("joining machines by rails: their own networks have " +
                        std::to_string(least_own) + " and " + std::to_string(own) +
                        " switches, expected equal numbers");
    }
    by_rails_ = options_.network == server_network::rails ||
                (options_.network == server_network::automatic && own == least_own && own > 0) ||
                joiner_.server_count() == 1;
    if (!by_rails_) {
      network_count_ = joiner_.server_count() > 1 ? 1 : 0;
      return;
    }
    // The k-th NIC of a single server would meet no other.
    network_count_ = own;
    while (servers_with_more_ports_than(network_count_) > 1) ++network_count_;
  }

  [[nodiscard]] std::size_t servers_with_more_ports_than(std::size_t count) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        ports_, [&](auto const& of_server) { return of_server.size() > count; }));
  }

  void remark_network() {
    if (ports_.empty() || servers_with_more_ports_than(0) == 0) return;
    auto const servers = std::to_string(joiner_.server_count()) + " servers";
    if (!by_rails_)
      return joiner_.remark("the NICs of " + servers + " meet at one non-blocking switch");
    joiner_.remark("NIC k of each of " + servers + " is at a non-blocking switch of its own, " +
                   std::to_string(network_count_) + " in all");
    auto const more = servers_with_more_ports_than(network_count_);
    if (more == 0) return;
    joiner_.remark(std::to_string(more) + " server" + (more == 1 ? " has" : "s have") +
                   " more NICs, which meet no other and are not used");
  }

  machine_joiner& joiner_;
  join_options const& options_;
  std::vector<std::vector<network_port>> ports_;  // by server
  bool by_rails_ = false;
  std::size_t network_count_ = 0;
};

[[nodiscard]] inline topology join_machines(std::vector<topology const*> machines, std::string name,
                                            join_options const& options) {
  machine_joiner joiner(std::move(machines));
  server_network_builder(joiner, options).build();
  return joiner.build(std::move(name));
}

}  // namespace detail

inline topology join(std::vector<topology> const& servers, join_options const& options) {
  constexpr std::size_t most_names = 4;
  std::vector<topology const*> machines;
  std::string name;
  for (auto const& machine : servers) {
    if (machines.size() < most_names) name += (name.empty() ? "" : "+") + machine.name;
    if (machines.size() == most_names) name += "+...";
    machines.push_back(&machine);
  }
  return detail::join_machines(std::move(machines), std::move(name), options);
}

/// Several copies of a machine, as a command line writes them: "box.xml:2@rails".
struct machine_copies {
  std::string machine;  ///< the text before the colon
  int count = 1;
  join_options options{};
};

/// Reads "MACHINE:COUNT", "MACHINE:COUNT@rails" or "MACHINE:COUNT@fabric". "=GB/s" after the
/// network is the rate of a NIC, "=GB/s/gpu" that of a NIC of each GPU. Nothing for a text that
/// does not end like that.
///
/// Throws: input_error for a count that is not from 1 to 4096, another network, or a rate that is
///         not from 0.001 to 100000.
[[nodiscard]] inline std::optional<machine_copies> read_machine_copies(std::string_view text) {
  constexpr int most = 4096;
  auto const colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  auto rest = text.substr(colon + 1);
  auto const digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  if (digits == 0 || (digits < rest.size() && rest[digits] != '@')) return std::nullopt;
  auto const fail = [&](std::string const& what) {
    throw input_error("machine " + detail::in_quotes(text, 80) + ": " + what +
                      ", expected MACHINE:COUNT with 1 to " + std::to_string(most) +
                      " copies, then @rails or @fabric, or one of these with =GB/s or =GB/s/gpu");
  };
  machine_copies result;
  result.machine = text.substr(0, colon);
  auto const [end, fault] = std::from_chars(rest.data(), rest.data() + digits, result.count);
  if (fault != std::errc{} || result.count < 1 || result.count > most) {
    fail("found " + detail::in_quotes(rest.substr(0, digits)) + " copies");
  }
  rest.remove_prefix(digits);
  if (rest.empty()) return result;
  auto const mark = std::min(rest.find('='), rest.size());
  auto const network = rest.substr(0, mark);
  if (network != "@rails" && network != "@fabric") fail("found " + detail::in_quotes(network));
  result.options.network = network == "@rails" ? server_network::rails : server_network::fabric;
  if (mark == rest.size()) return result;
  try {
    result.options.nics = read_nic_options(rest.substr(mark + 1));
  } catch (input_error const& refused) {
    fail(refused.what());
  }
  return result;
}

/// Several copies of a machine that a text names, joined. Nothing if the text is no such text, or
/// if it is the name of a file or folder.
///
/// read:   makes the machine of the text before the colon: `topology read(std::string const&)`
/// Throws: input_error as `read_machine_copies` and `join`; what `read` throws.
template <class Read>
[[nodiscard]] std::optional<topology> joined_machine(std::string const& text, Read const& read) {
  std::error_code fault;
  if (std::filesystem::exists(text, fault)) return std::nullopt;
  auto const copies = read_machine_copies(text);
  if (!copies) return std::nullopt;
  topology const machine = read(copies->machine);
  std::vector<topology const*> machines(static_cast<std::size_t>(copies->count), &machine);
  return detail::join_machines(
      std::move(machines),
      copies->count == 1 ? machine.name : machine.name + ":" + std::to_string(copies->count),
      copies->options);
}

}}  // namespace blink::BLINK_ABI
