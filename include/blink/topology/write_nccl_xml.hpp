// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/nccl_attributes.hpp>
#include <blink/topology/detail/nccl_rates.hpp>
#include <blink/topology/detail/nccl_written_links.hpp>
#include <blink/topology/device_tree.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Writes a machine as a topology file of NCCL (NCCL_TOPO_FILE), or of RCCL if it has XGMI links.
/// `read_nccl_xml` reads it back with the same nodes, links and rates.
///
/// A file states the generations of GPUs, PCIe and processors, from which rates follow. The writer
/// states the first ones with the machine's rates. Bus ids are those of nodes and of labels such as
/// "pci 0000:06:00.0", else numbers in a row. UUIDs have no place there.
///
/// Characters of port names that XML reserves become underscores.
///
/// Time:   O((N + L) log N) for N nodes and L links.
/// Throws: input_error, with the node or link, for a machine that no such file describes. Its unit
///         is not GB/s, network switches join its servers, or its switches copy or reduce. Or it
///         has links of other kinds or rates, or latencies of links that are no network ports.
[[nodiscard]] std::string write_nccl_xml(topology const& machine);

namespace detail {

class nccl_xml_writer : nccl_written_links {
 public:
  explicit nccl_xml_writer(topology const& machine) : nccl_written_links(machine) {}

  [[nodiscard]] std::string write() {
    expect_stateable();
    std::map<int, std::vector<int>> processors;  // by server
    for (int const root : tree_.roots()) {
      if (node_at(root).server < 0) refuse(root, "is in no server");
      if (is_rank(root)) refuse(root, "hangs below no processor");
      processors[node_at(root).server].push_back(root);
    }
    number_ranks();
    for (auto const& [server, roots] : processors) {
      std::vector<int> devices;
      for (int const root : roots) list_below(root, devices);
      bus_.merge(bus_ids_of(machine_, devices));
    }
    bool const is_rccl = has_kind(link_kind::xgmi);
    text_ = std::string("<system version=\"") + (is_rccl ? "2" : "1") + "\">\n";
    for (auto const& [server, roots] : processors) {
      expect_complete(roots);
      std::set<int> numbers;
      for (int const root : roots) write_processor(root, server, numbers);
    }
    expect_all_written();
    return text_ + "</system>\n";
  }

 private:
  void number_ranks() {
    auto const ranks = machine_.rank_positions();
    for (std::size_t i = 0; i < ranks.size(); ++i) rank_[ranks[i]] = static_cast<int>(i);
  }

  void list_below(int node, std::vector<int>& devices) const {
    for (auto const& child : tree_.children(node)) {
      devices.push_back(child.node);
      list_below(child.node, devices);
    }
  }
  /// Processors of one server are joined each with each.
  void expect_complete(std::vector<int> const& roots) {
    for (int const a : roots) {
      for (int const b : roots) {
        if (a < b && tree_.between(a, b, link_kind::socket) == device_tree::capacities()) {
          refuse(a, "and node " + std::to_string(node_at(b).id) +
                        " of one server have no socket link");
        }
      }
    }
  }

  void write_processor(int root, int server, std::set<int>& numbers) {
    int number = 0;
    std::string_view const label = node_at(root).label;
    if (label.starts_with("numa")) {
      number = static_cast<int>(integer_of(label.substr(4)).value_or(0));
    }
    while (!numbers.insert(number).second) ++number;
    text_ += "  <cpu host_hash=\"0x" + std::to_string(server + 1) + "\" numaid=\"" +
             std::to_string(number) + "\" " + processor_of(root) + ">\n";
    write_children(root, 2);
    text_ += "  </cpu>\n";
  }
  static std::optional<std::int64_t> integer_of(std::string_view text) {
    auto const value = rational::from_text(std::string(text));
    if (!value || value->denominator() != 1 || *value < 0 || *value > 65'535) return std::nullopt;
    return value->numerator();
  }

  /// The attributes of a processor with this rate to the others.
  std::string processor_of(int root) {
    std::optional<rational> to_others;
    for (auto const& to : tree_.neighbours(root)) {
      if (to.kind != link_kind::socket) continue;
      auto const [forth, back] = tree_.between(root, to.node, to.kind);
      mark_written(root, to.node, to.kind);
      if (to_others && *to_others != rate(forth)) {
        refuse_link(root, to.node, to.kind, "a processor has one rate to all others");
      }
      to_others = rate(forth);
    }
    auto const text = processor_attributes(to_others.value_or(assumed_between_processors));
    if (!text) {
      refuse(root, "has " + to_others->to_text() + " GB/s to other processors, which none has");
    }
    return *text;
  }

  void write_children(int parent, int depth) {
    for (auto const& child : tree_.children(parent)) write_device(child, parent, depth);
  }

  void write_device(device_tree::neighbour const& child, int parent, int depth) {
    std::string const indent(static_cast<std::size_t>(2 * depth), ' ');
    auto const device = child.node;
    auto const down = take(device, parent, child.kind);
    if (child.kind == link_kind::network) {
      return write_adapter_without_device(device, down, indent, depth);
    }
    if (child.kind != link_kind::pcie) {
      refuse_link(device, parent, child.kind, "devices hang by PCIe");
    }
    auto const& below = tree_.children(device);
    bool const is_adapter = !below.empty() && below.front().kind == link_kind::network;
    bool const is_card =
        !below.empty() && is_rank(below.front().node) && below.front().kind != link_kind::pcie;
    if (is_card) return write_card(device, down, indent, depth);
    char const* const pci_class = is_rank(device) ? "0x030200"
                                  : is_adapter    ? "0x020000"
                                                  : "0x060400";
    text_ += indent + "<pci busid=\"" + bus_[device] + "\" class=\"" + pci_class + "\"" +
             speed_of(device, down) + ">\n";
    std::vector<device_tree::neighbour> functions;  // further functions of an adapter
    if (is_rank(device)) {
      if (!below.empty()) refuse(device, "is a GPU with devices below");
      write_gpu(device, device, depth + 1);
    } else if (is_adapter) {
      text_ += indent + "  <nic>\n";
      for (auto const& port : below) {
        if (port.kind == link_kind::pcie) {
          functions.push_back(port);
        } else {
          write_port(port.node, device, indent + "    ");
        }
      }
      text_ += indent + "  </nic>\n";
    } else {
      write_children(device, depth + 1);
      write_bridges(device, indent);
    }
    text_ += indent + "</pci>\n";
    for (std::size_t i = 0; i < functions.size(); ++i) {
      write_function(functions[i].node, device, static_cast<int>(i) + 1, down, indent);
    }
  }

  /// A function of an adapter shares the slot of the first.
  void write_function(int device, int first, int number, rational const& down,
                      std::string const& indent) {
    if (take(device, first, link_kind::pcie) != rational(unlimited_rate)) {
      refuse(device, "hangs below an adapter");
    }
    auto const slot = bus_[first].substr(0, bus_[first].rfind('.'));
    text_ += indent + "<pci busid=\"" + slot + "." + std::to_string(number) +
             "\" class=\"0x020000\"" + speed_of(device, down) + ">\n" + indent + "  <nic>\n";
    for (auto const& port : tree_.children(device)) write_port(port.node, device, indent + "    ");
    text_ += indent + "  </nic>\n" + indent + "</pci>\n";
  }

  /// Partitions of one card are GPUs of one PCI device.
  void write_card(int card, rational const& down, std::string const& indent, int depth) {
    text_ += indent + "<pci busid=\"" + bus_[card] + "\" class=\"0x030200\"" +
             speed_of(card, down) + ">\n";
    for (auto const& part : tree_.children(card)) {
      if (!is_rank(part.node) || take(part.node, card, part.kind) != rational(unlimited_rate)) {
        refuse(card, "is no card of several GPUs");
      }
      write_gpu(part.node, card, depth + 1);
    }
    text_ += indent + "</pci>\n";
  }

  /// The width and speed of a PCIe link of this rate.
  [[nodiscard]] std::string speed_of(int device, rational const& down) const {
    if (auto const text = pcie_attributes(down)) return " " + *text;
    refuse(device, "has a PCIe link of " + down.to_text() +
                       " GB/s, which no width and generation of NCCL's table has (16 lanes: 3, 6, "
                       "12, 24, 48, 96)");
  }

  void write_adapter_without_device(int device, rational const& down, std::string const& indent,
                                    int depth) {
    if (depth > 2 || down != rational(unlimited_rate)) {
      refuse(device, "is a network port without an adapter");
    }
    text_ += indent + "<nic>\n";
    for (auto const& port : tree_.children(device)) write_port(port.node, device, indent + "  ");
    text_ += indent + "</nic>\n";
  }

  void write_port(int port, int adapter, std::string const& indent) {
    auto const speed = take(port, adapter, link_kind::network) * 8'000;
    if (speed.denominator() != 1 || !tree_.children(port).empty()) {
      refuse(port, "is no network port of whole Mb/s");
    }
    std::string_view name = node_at(port).label;
    if (name.starts_with("net ")) name.remove_prefix(4);
    text_ += indent + "<net name=\"" + escaped(name) + "\" dev=\"" + std::to_string(ports_++) +
             "\" speed=\"" + speed.to_text() + "\" port=\"1\" latency=\"" +
             latency_of(port, adapter) + "\" maxconn=\"131072\" gdr=\"0\"/>\n";
  }
  [[nodiscard]] std::string latency_of(int port, int adapter) const {
    for (auto const& l : machine_.links) {
      if (l.tail == port && l.head == adapter) {
        char text[40];
        std::snprintf(text, sizeof text, "%.6f", l.latency_seconds * 1e6);
        return text;
      }
    }
    return "0";
  }

  /// owner: the card of a partition, else the GPU itself
  void write_gpu(int gpu, int owner, int depth) {
    std::string const indent(static_cast<std::size_t>(2 * depth), ' ');
    std::string_view const label = node_at(gpu).label;
    auto const number =
        label.starts_with("gpu") ? integer_of(label.substr(3)) : std::optional<std::int64_t>();
    std::string links;
    bool const is_rccl = has_kind(link_kind::xgmi);
    auto const chip = chip_of(owner, is_rccl);
    auto const one = is_rccl ? *xgmi_line_rate(chip) : *nvlink_line_rate(*integer_of(chip));
    for (auto const& to : tree_.neighbours(owner)) links += link_of(owner, to, one, indent + "  ");
    text_ += indent + "<gpu dev=\"" + std::to_string(number.value_or(rank_[gpu])) + "\" rank=\"" +
             std::to_string(rank_[gpu]) + "\" gdr=\"1\" " +
             (is_rccl ? "gcn=\"gfx" + chip + "\" sm=\"90\"" : "sm=\"" + chip + "\"") +
             (links.empty() ? "/>\n" : ">\n" + links + indent + "</gpu>\n");
  }

  std::string link_of(int owner, device_tree::neighbour const& to, rational const& one,
                      std::string const& indent) {
    bool const is_xgmi = to.kind == link_kind::xgmi;
    if (to.kind == link_kind::c2c) {
      expect_own_processor(owner, to);
      auto const speed = take(owner, to.node, to.kind) * 1'000;
      return indent + "<c2c bw=\"" + speed.to_text() + "\" count=\"1\"/>\n";
    }
    if ((to.kind != link_kind::nvlink && !is_xgmi) || tree_.parent(to.node) == owner) return "";
    auto const count = take(owner, to.node, to.kind) / one;
    auto const& name = is_xgmi ? "xgmi" : "nvlink";
    std::string target, far = "0x030200";
    if (tree_.is_star(to.node)) {
      target = node_at(to.node).server < 0 ? "fffffff:ffff:ff" : switch_of(to.node);
      far = "0x068000";
    } else if (is_rank(to.node) || bus_.contains(to.node)) {
      target = bus_[to.node];
    } else {
      expect_own_processor(owner, to);
      target = "ffff:ff:00.0";
      far = "0x068001";  // the processor
    }
    return indent + "<" + name + " target=\"" + target + "\" count=\"" + count.to_text() +
           "\" tclass=\"" + far + "\"/>\n";
  }
  /// The bus id of an NVSwitch: in the last domain, where no other device is.
  std::string switch_of(int node) {
    auto const number = switches_.try_emplace(node, switches_.size()).first->second;
    char text[32];
    std::snprintf(text, sizeof text, "fffe:%02zx:00.0", number % 256);
    return text;
  }

  /// Links to a processor are those to the own one.
  void expect_own_processor(int gpu, device_tree::neighbour const& to) const {
    int own = gpu;
    while (tree_.parent(own) >= 0) own = tree_.parent(own);
    if (own == to.node) return;
    refuse_link(gpu, to.node, to.kind, "it leads to another processor");
  }

  /// The chip of a GPU whose links have such rates.
  [[nodiscard]] std::string chip_of(int gpu, bool is_amd) const {
    std::vector<rational> rates;
    for (auto const& to : tree_.neighbours(gpu)) {
      bool const counts = to.kind == (is_amd ? link_kind::xgmi : link_kind::nvlink);
      if (!counts || tree_.parent(to.node) == gpu) continue;
      rates.push_back(rate(tree_.between(gpu, to.node, to.kind).first));
    }
    if (is_amd) {
      if (auto const chip = xgmi_generation(rates)) return *chip;
      refuse(gpu, "has XGMI links that no generation of GPUs has");
    }
    if (auto const sm = nvlink_generation(rates)) return std::to_string(*sm);
    refuse(gpu, "has NVLinks that no generation of GPUs has");
  }

  /// Switches that are joined chip to chip.
  void write_bridges(int device, std::string const& indent) {
    for (auto const& to : tree_.neighbours(device)) {
      if (to.kind != link_kind::pcie || tree_.parent(to.node) == device ||
          tree_.parent(device) == to.node || !bus_.contains(to.node)) {
        continue;
      }
      if (is_written(device, to.node, to.kind)) continue;
      if (take(device, to.node, to.kind) != rational(unlimited_rate)) {
        refuse(device, "is joined with a switch of another branch");
      }
      text_ += indent + "  <pcilink target=\"" + bus_[to.node] + "\"/>\n";
    }
  }

  static std::string escaped(std::string_view text) {
    std::string result;
    for (char const c : text) {
      if (c == '<' || c == '>' || c == '&' || c == '"' || c < ' ' || c > '~') {
        result += '_';
      } else {
        result += c;
      }
    }
    return result;
  }

  std::map<int, int> rank_;
  std::map<int, std::string> bus_;
  std::map<int, std::size_t> switches_;
  int ports_ = 0;
  std::string text_;
};

}  // namespace detail

inline std::string write_nccl_xml(topology const& machine) {
  validate(machine);
  return detail::nccl_xml_writer(machine).write();
}

}}  // namespace blink::BLINK_ABI
