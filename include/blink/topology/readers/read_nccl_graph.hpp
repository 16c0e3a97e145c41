// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/readers/detail/xml_element.hpp>

#include <pugixml.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A channel of an NCCL graph: a ring or a chain of GPUs, between network devices.
struct nccl_channel {
  std::vector<std::int64_t> gpus;   ///< `dev` of each, in the order of the ring or chain
  std::vector<std::int64_t> ranks;  ///< of each; -1 where the file has none
  std::vector<std::int64_t> nets;   ///< `dev` of the devices in and out; empty on one host
};

/// The channels that NCCL found for one pattern.
struct nccl_graph {
  int id = 0;       ///< 0 ring, 1 tree, 2 chain of CollNet, 3 NVLS, 4 CollNet direct
  int pattern = 0;  ///< 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 CollNet direct
  int channel_count = 0;   ///< `nchannels`, which may differ from `channels`
  rational speed_intra;    ///< of a channel between GPUs, in GB/s
  rational speed_inter;    ///< of a channel to the network, in GB/s
  std::string type_intra;  ///< the farthest path between GPUs: "NVL", "SYS"; empty: not stated
  std::string type_inter;  ///< the farthest path to the network: "PIX", "PXN"
  std::vector<nccl_channel> channels;
};

/// The graphs of an NCCL communicator.
struct nccl_graphs {
  std::vector<nccl_graph> graphs;
  std::vector<std::string> remarks;  ///< what is unknown or does not match; for people
};

namespace detail {

/// Reads the elements of a graph file.
class nccl_graph_reader {
 public:
  explicit nccl_graph_reader(bool is_strict) : remarks_(is_strict) {}

  [[nodiscard]] nccl_graphs read(xml_element const& root) {
    check(root, {"version"});
    (void)root.required_integer("version", 1, 1);
    nccl_graphs result;
    for (auto const& each : children(root, {"graph"})) {
      result.graphs.push_back(read_graph(each));
      for (std::size_t i = 0; i + 1 < result.graphs.size(); ++i) {
        if (result.graphs[i].id != result.graphs.back().id) continue;
        each.fail("id " + std::to_string(result.graphs[i].id) + " appears twice, expected it once");
      }
    }
    if (result.graphs.empty()) root.fail("no <graph>, expected one or more");
    result.remarks = remarks_.texts();
    return result;
  }

 private:
  void check(xml_element const& element, std::initializer_list<std::string_view> known) {
    element.check_attributes(known, [&](std::string_view name) {
      remarks_.add(element, "unknown attribute " + in_quotes(name));
    });
  }

  /// The elements of these names inside another one. NCCL skips others.
  [[nodiscard]] std::vector<xml_element> children(xml_element const& parent,
                                                  std::initializer_list<std::string_view> names) {
    std::vector<xml_element> result;
    for (auto const node : parent.node().children()) {
      xml_element const each(parent.from(), node);
      if (node.type() != pugi::node_element) {
        each.fail("text in <" + std::string(parent.name()) + ">, expected elements");
      }
      if (std::find(names.begin(), names.end(), each.name()) == names.end()) {
        remarks_.add(parent, "unknown element <" + std::string(each.name().substr(0, 40)) + ">");
        continue;
      }
      result.push_back(each);
    }
    return result;
  }

  [[nodiscard]] nccl_graph read_graph(xml_element const& element) {
    check(element, {"id", "pattern", "crossnic", "nchannels", "speedintra", "speedinter",
                    "latencyinter", "typeintra", "typeinter", "samechannels"});
    constexpr std::int64_t most_ids = 63;
    constexpr std::int64_t most_channels = 1024;
    nccl_graph result;
    result.id = static_cast<int>(element.required_integer("id", 0, most_ids));
    result.pattern = static_cast<int>(element.required_integer("pattern", 0, most_ids));
    result.channel_count =
        static_cast<int>(element.required_integer("nchannels", 0, most_channels));
    result.speed_intra = speed(element, "speedintra");
    result.speed_inter = speed(element, "speedinter");
    result.type_intra = path_type(element, "typeintra");
    result.type_inter = path_type(element, "typeinter");
    for (auto const& each : children(element, {"channel"})) {
      result.channels.push_back(read_channel(each));
    }
    if (result.channels.size() != static_cast<std::size_t>(result.channel_count)) {
      remarks_.add(element, "graph " + std::to_string(result.id) + " has " +
                                std::to_string(result.channels.size()) +
                                " channels, nchannels is " + std::to_string(result.channel_count));
    }
    return result;
  }

  [[nodiscard]] static rational speed(xml_element const& element, char const* attribute) {
    constexpr int decimals = 6;
    constexpr std::int64_t most = 1'000'000;
    auto const text = element.required_text(attribute);
    auto const result = read_decimal(text, decimals);
    if (!result || *result < 0 || *result > most) {
      element.fail(std::string(attribute) + "=" + in_quotes(text) + ", expected GB/s from 0 to " +
                   std::to_string(most));
    }
    return *result;
  }

  [[nodiscard]] std::string path_type(xml_element const& element, char const* attribute) {
    auto const text = element.text(attribute);
    constexpr std::string_view known[] = {"",    "LOC", "NVL", "NVB", "C2C", "PIX",
                                          "PXB", "P2C", "PXN", "PHB", "SYS", "NET"};
    if (std::find(std::begin(known), std::end(known), text) == std::end(known)) {
      remarks_.add(element, "unknown " + std::string(attribute) + "=" + in_quotes(text));
    }
    return std::string(text);
  }

  [[nodiscard]] nccl_channel read_channel(xml_element const& element) {
    check(element, {});
    nccl_channel result;
    for (auto const& each : children(element, {"net", "gpu"})) {
      check(each, {"dev", "rank"});
      if (each.name() == "net") {
        result.nets.push_back(hexadecimal(each));
        continue;
      }
      constexpr std::int64_t most_ranks = 1 << 30;
      result.gpus.push_back(hexadecimal(each));
      result.ranks.push_back(each.integer("rank", 0, most_ranks).value_or(-1));
    }
    if (result.gpus.empty()) element.fail("no <gpu>, expected one or more");
    return result;
  }

  /// The number of a device, which NCCL reads as hexadecimal with and without 0x.
  [[nodiscard]] static std::int64_t hexadecimal(xml_element const& element) {
    auto const text = element.required_text("dev");
    auto digits = text;
    if (digits.starts_with("0x") || digits.starts_with("0X")) digits.remove_prefix(2);
    std::int64_t value = 0;
    auto const* const end = digits.data() + digits.size();
    auto const [last, failure] = std::from_chars(digits.data(), end, value, 16);
    if (failure != std::errc{} || last != end || value < 0) {
      element.fail("dev=" + in_quotes(text) + ", expected a hexadecimal number");
    }
    return value;
  }

  xml_remarks remarks_;
};

}  // namespace detail

/// True for the XML of NCCL's graphs.
[[nodiscard]] inline bool is_nccl_graph(std::string_view text) {
  return detail::xml_root_name(text) == "graphs";
}

/// Reads the graphs that NCCL writes to NCCL_GRAPH_DUMP_FILE and reads from NCCL_GRAPH_FILE. They
/// are no machine; a plan can be compared with them.
///
/// - The `dev` of a GPU or network device is hexadecimal, with and without 0x.
/// - Unknown elements, attributes and path types are remarks, and so is a number of channels other
///   than `nchannels`.
///
/// file:   the name that errors start with
/// Source: format as in NCCL 2.30, src/graph/search.cc
/// Time:   O(length of the text + graphs^2).
/// Throws: input_error with file, line and element for XML of another form, missing or unreadable
///         numbers, channels without GPUs, and ids that appear twice. With `is_strict` also the
///         first remark.
[[nodiscard]] inline nccl_graphs read_nccl_graphs(std::string_view text, std::string const& file,
                                                  bool is_strict = false) {
  detail::xml_source const from{text, file};
  pugi::xml_document document;
  auto const root = detail::open_xml(from, document, "graphs",
                                     "expected <graphs>, as NCCL_GRAPH_DUMP_FILE has it");
  return detail::nccl_graph_reader(is_strict).read(root);
}

/// Reads the file at `path`.
///
/// Throws: input_error as `read_nccl_graphs`, or if the file cannot be read.
[[nodiscard]] inline nccl_graphs read_nccl_graph_file(std::string const& path,
                                                      bool is_strict = false) {
  return read_nccl_graphs(detail::file_text(path, "graphs of NCCL", input_limits{}.bytes), path,
                          is_strict);
}

}}  // namespace blink::BLINK_ABI
