// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <blink/topology/connectivity.hpp>
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/select_devices.hpp>
#include <blink/topology/subset.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>
#include <variant>

namespace blink::tools {

std::vector<int> read_ids(std::string const& option, std::string const& text) {
  std::vector<int> result;
  std::istringstream parts(text);
  auto const fail = [&](std::string const& part) {
    throw input_error(option + ": found '" + part + "', expected ids such as 0,1,4-6");
  };
  if (text.empty() || text.back() == ',') fail(text);
  for (std::string part; std::getline(parts, part, ',');) {
    auto const range = detail::read_id_range(part);
    if (!range) fail(part);
    for (int id = range->first; id <= range->second; ++id) result.push_back(id);
  }
  return result;
}

std::size_t read_bytes(std::string const& option, std::string const& text) {
  constexpr std::size_t kibi = 1024;
  std::size_t value = 0;
  auto const [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string const unit(rest, text.data() + text.size());
  std::size_t const scale = unit.empty()                 ? 1
                            : unit == "K" || unit == "k" ? kibi
                            : unit == "M" || unit == "m" ? kibi * kibi
                            : unit == "G" || unit == "g" ? kibi * kibi * kibi
                                                         : 0;
  if (failure != std::errc{} || scale == 0 ||
      value > std::numeric_limits<std::size_t>::max() / scale / 64) {
    throw input_error(option + " " + text + ": expected a number of bytes such as 64, 4K or 16M");
  }
  return value * scale;
}

size_range read_sizes(std::string const& option, std::string const& text) {
  auto const colon = text.find(':');
  size_range result;
  result.first = read_bytes(option, text.substr(0, colon));
  result.last =
      colon == std::string::npos ? result.first : read_bytes(option, text.substr(colon + 1));
  if (result.first < 1 || result.first > result.last) {
    throw input_error(option + " " + text + ": expected the smaller size first, at least 1 byte");
  }
  return result;
}

std::vector<std::size_t> size_range::sizes() const {
  std::vector<std::size_t> result;
  for (auto bytes = first; bytes < last; bytes *= 2) result.push_back(bytes);
  result.push_back(last);
  return result;
}

collective read_collective(std::string const& text) {
  auto name = text;
  std::replace(name.begin(), name.end(), '-', '_');
  auto const found = std::find(collective_names.begin(), collective_names.end(), name);
  if (found == collective_names.end()) {
    std::string known;
    for (auto const each : collective_names) {
      known += (known.empty() ? "" : ", ") + std::string(each);
    }
    throw input_error("unknown collective '" + text + "', expected one of " + known);
  }
  return static_cast<collective>(found - collective_names.begin());
}

std::optional<int> read_root(std::string const& text) {
  if (text == "best") return std::nullopt;
  auto const ids = read_ids("--root", text);
  if (ids.size() != 1) throw input_error("--root: several ids, expected one id or best");
  return ids.front();
}

void add_reading_options(CLI::App& command, machine_choice& choice, std::string const& about) {
  command
      .add_option("--ranks,-r", choice.ranks,
                  "ids of the ranks " + about +
                      ", such as 0,1,4-6,\nUUIDs such as GPU-8932f937, or bus ids such as 06:00.0; "
                      "visible:\n"
                      "as CUDA_VISIBLE_DEVICES or its like says")
      ->check([](std::string const& text) {
        return text.empty() ? std::string("no ids, expected some such as 0,1,4-6") : "";
      });
  command
      .add_option_function<std::vector<std::string>>(
          "--link-rate",
          [&choice](std::vector<std::string> const& texts) {
            for (auto const& text : texts) read_assumed_rate(text, choice.reading.rates);
          },
          "GB/s of links whose rate MACHINE does not state: nvlink=, xgmi=, xelink= of one such\n"
          "link, pcie= of one device, socket= between processors")
      ->type_name("KIND=GB/s")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  auto* node = command.add_option(
      "--node", choice.nodes,
      "MACHINE is the network of a cluster, such as Slurm's topology.conf: the machine of its\n"
      "nodes, or gpu[0-63]=MACHINE of some");
  node->type_name("MACHINE")->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option_function<std::string>(
          "--nic-rate",
          [&choice](std::string const& text) { choice.cluster.nics = read_nic_options(text); },
          "GB/s of NICs that --node does not state, such as 50; 50/gpu: a NIC for each GPU")
      ->needs(node);
  command
      .add_option_function<std::string>(
          "--oversubscription",
          [&choice](std::string const& text) {
            constexpr int decimals = 3;
            auto const ratio = detail::read_decimal(text, decimals);
            if (!ratio || *ratio < rational(1) || *ratio > rational(1000)) {
              throw input_error("--oversubscription " + detail::in_quotes(text) +
                                ", expected a ratio from 1 to 1000");
            }
            choice.cluster.oversubscription = *ratio;
          },
          "rate below a switch of the cluster to that of its links up, where not stated")
      ->needs(node);
  command.add_flag("--as-nccl", choice.reading.as_nccl,
                   "an XML with the figures that NCCL and RCCL assume, for comparison");
  command.add_flag("--strict", choice.reading.is_strict,
                   "refuse a MACHINE with anything unknown or cut off, instead of a remark");
}

CLI::Option* add_machine_options(CLI::App& command, machine_choice& choice,
                                 std::string const& about) {
  add_reading_options(command, choice, about);
  return command.add_option("MACHINE", choice.machine, about_machines);
}

topology machine_choice::read() const {
  if (nodes.empty()) return read_machine(machine, reading);
  auto const read_node = [&](std::string const& text) { return read_machine(text, reading); };
  return read_cluster_machine(machine, nodes, read_node, cluster, reading);
}

void add_plan_options(CLI::App& command, plan_choice& choice) {
  command.add_option("--collective,-c", choice.collective, "collective to plan")
      ->capture_default_str();
  command.add_option("--root", choice.root, "id of the root, or best")->capture_default_str();
  command.add_option("--planner,-p", choice.planner, "name of a planner, as for blink plan")
      ->capture_default_str();
  command.add_option("--links", choice.links, "kind of link to use, all, or auto")
      ->capture_default_str();
}

CLI::Option* add_output_option(CLI::App& command, std::string const& names, std::string& file,
                               std::string const& about) {
  if (command.get_option_no_throw("--force") == nullptr) {
    command.add_flag_callback("--force", [] {}, "replace files that exist");
  }
  return command.add_option(names, file, about)->check([&command](std::string const& path) {
    return kept_file(command, path);
  });
}

std::string kept_file(CLI::App const& command, std::string const& path) {
  std::error_code fault;
  bool const exists = !path.starts_with("/dev/") && std::filesystem::is_regular_file(path, fault);
  return exists && command.count("--force") == 0
             ? path + " exists, expected a new file, or --force to replace it"
             : std::string();
}

namespace {

/// The ids that --ranks names.
std::vector<int> chosen_ranks(topology const& machine, std::string const& ranks) {
  if (ranks != "visible") return select_devices(machine, ranks, "--ranks", device_numbers::ids);
  return visible_devices(machine, [](char const* name) { return std::getenv(name); });
}

}  // namespace

allocation part_of(topology whole, machine_choice const& choice) {
  allocation result;
  result.machine = whole;
  result.whole = std::move(whole);
  if (!choice.ranks.empty()) {
    result.machine = subset(result.machine, chosen_ranks(result.machine, choice.ranks));
  }
  auto const& links = choice.links;
  if (links == "auto") {
    if (auto const kind = fastest_connecting_kind(result.machine)) result.links = to_text(*kind);
  } else if (links != "all") {
    result.links = links;
  }
  if (!result.links.empty()) {
    result.machine = only_links(result.machine, read_link_kind(result.links));
  }
  return result;
}

allocation read_part(machine_choice const& choice) {
  return part_of(choice.read(), choice);
}

allocation allocation_of(topology whole, machine_choice const& choice, collective kind) {
  auto result = part_of(std::move(whole), choice);
  if (!has_root(kind)) require_connected(result.machine);
  return result;
}

allocation read_allocation(machine_choice const& choice, collective kind) {
  return allocation_of(choice.read(), choice, kind);
}

std::string in_words(rational const& value, std::string const& unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", value.to_double());
  auto const result = std::string(text) + " " + detail::printable(unit);
  return rational::from_text(text) == value ? result : result + " (" + value.to_text() + ")";
}

std::string share_of_bound(rational const& rate, rational const& bound) {
  constexpr int most_decimals = 12;
  std::string result;
  for (int decimals = 1; decimals <= most_decimals; ++decimals) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f %%", decimals, 100 * ratio(rate, bound));
    result = text;
    if (rate >= bound || !result.starts_with("100")) break;
  }
  return result;
}

std::string in_words(std::vector<int> const& ids) {
  return in_runs(ids, 17);
}

void print_loads(link_amounts const& capacity, link_amounts const& load, bool all) {
  constexpr std::size_t most_links = 256, most_kinds = 64;  // of more there is a summary
  auto const load_of = [&](std::pair<int, int> const& ends) {
    auto const found = load.find(ends);
    return found == load.end() ? rational(0) : found->second;
  };
  auto const use = [](rational const& amount, rational const& of) {
    return 100 * ratio(amount, of);
  };
  if (all || capacity.size() <= most_links) {
    std::printf("\n  %-12s %10s %10s %7s\n", "link", "load", "capacity", "use");
    for (auto const& [ends, of] : capacity) {
      auto const amount = load_of(ends);
      std::printf("  %4d -> %-4d %10s %10s %6.1f%%\n", ends.first, ends.second,
                  amount.to_text().c_str(), of.to_text().c_str(), use(amount, of));
    }
    return;
  }
  std::map<std::pair<rational, rational>, std::size_t> kinds;  // by capacity and load
  for (auto const& [ends, of] : capacity) ++kinds[{of, load_of(ends)}];
  std::printf("\n  %7s %10s %10s %7s\n", "links", "load", "capacity", "use");
  std::size_t printed = 0;
  for (auto kind = kinds.rbegin(); kind != kinds.rend() && printed < most_kinds; ++kind) {
    auto const& [of, amount] = kind->first;
    std::printf("  %7zu %10s %10s %6.1f%%\n", kind->second, amount.to_text().c_str(),
                of.to_text().c_str(), use(amount, of));
    ++printed;
  }
  if (printed < kinds.size()) std::printf("  and %zu more kinds\n", kinds.size() - printed);
  std::printf("  (--all shows each link)\n");
}

std::string in_words(certificate const& proof) {
  struct writer {
    std::string operator()(no_certificate) const { return "none"; }
    std::string operator()(cut_certificate const& c) const {
      return "the links out of the nodes {" + in_words(c.nodes) + "}";
    }
    std::string operator()(partition_certificate const& c) const {
      std::string parts;
      for (auto const& part : c.parts) parts += " {" + in_words(part) + "}";
      return "the links between the parts" + parts;
    }
    std::string operator()(price_certificate const& c) const {
      return "prices on " + std::to_string(c.prices.size()) + " links (LP dual)";
    }
  };
  return std::visit(writer{}, proof);
}

}  // namespace blink::tools
