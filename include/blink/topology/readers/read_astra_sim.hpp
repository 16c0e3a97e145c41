// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/readers/detail/json_checks.hpp>
#include <blink/topology/readers/detail/json_keys.hpp>
#include <blink/topology/readers/detail/json_text.hpp>
#include <blink/topology/readers/detail/network_dimensions.hpp>
#include <blink/topology/readers/detail/rate_text.hpp>
#include <blink/topology/readers/detail/text_remarks.hpp>
#include <blink/topology/readers/detail/word_stream.hpp>
#include <blink/topology/readers/detail/yaml_text.hpp>
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

/// The building block of this name in ASTRA-sim; AllToAll is an early name of FullyConnected.
[[nodiscard]] inline std::optional<network_block> network_block_of(std::string_view name) {
  if (name == "Ring") return network_block::ring;
  if (name == "FullyConnected" || name == "AllToAll") return network_block::fully_connected;
  if (name == "Switch") return network_block::switched;
  return std::nullopt;
}

/// Turns a network of ASTRA-sim into dimensions. Both of its formats are objects of lists, with a
/// value for each dimension.
class astra_sim_reader : json_checks {
 public:
  /// is_yaml: of version 2; else the JSON of version 1
  astra_sim_reader(std::string const& file, text_remarks& remarks, bool is_yaml)
      : json_checks(file),
        remarks_(remarks),
        is_yaml_(is_yaml),
        blocks_(is_yaml ? "topology" : "topologies-per-dim"),
        extents_(is_yaml ? "npus_count" : "units-count"),
        rates_(is_yaml ? "bandwidth" : "link-bandwidth"),
        latencies_(is_yaml ? "latency" : "link-latency") {}

  [[nodiscard]] std::vector<network_dimension> read(json_value const& top) {
    require_kind(top, json_kind::object, "the file", "keys such as " + blocks_);
    remark_unknown_keys(top);
    if (auto const* name = top.find("topology-name"); name != nullptr && !is_yaml_) {
      if (name->text != "Hierarchical") {
        fail(*name, "topology-name", excerpt(*name), "\"Hierarchical\"");
      }
    }
    auto const count = dimension_count(top);
    if (!is_yaml_ && top.find("links-count") == nullptr) {
      remarks_.add(top.line, "links-count is missing, one link to each neighbour is assumed");
    }
    std::vector<network_dimension> result;
    for (std::size_t at = 0; at < count; ++at) result.push_back(dimension(top, at));
    return result;
  }

 private:
  void remark_unknown_keys(json_value const& top) {
    constexpr std::array<std::string_view, 14> of_json{
        "topology-name", "topologies-per-dim", "dimension-type", "dimensions-count",
        "units-count",   "links-count",        "link-latency",   "link-bandwidth",
        "nic-latency",   "router-latency",     "hbm-latency",    "hbm-bandwidth",
        "hbm-scale",     "use-fast-version"};
    constexpr std::array<std::string_view, 4> of_yaml{"topology", "npus_count", "bandwidth",
                                                      "latency"};
    for (std::size_t i = 0; i < top.keys.size(); ++i) {
      auto const is_in = [&](auto const& known) {
        return std::find(known.begin(), known.end(), top.keys[i]) != known.end();
      };
      if (is_yaml_ ? is_in(of_yaml) : is_in(of_json)) continue;
      remarks_.add(top.items[i].line, "unknown key " + in_quotes(top.keys[i]));
    }
  }

  [[nodiscard]] std::size_t dimension_count(json_value const& top) const {
    constexpr std::int64_t most = 32;
    auto count = list(top, blocks_).items.size();
    if (auto const* claimed = top.find("dimensions-count"); claimed != nullptr && !is_yaml_) {
      count = static_cast<std::size_t>(integer(*claimed, "dimensions-count", 1, most));
    }
    if (count == 0 || count > most) {
      fail(list(top, blocks_), blocks_, std::to_string(count) + " dimensions",
           "1 to " + std::to_string(most));
    }
    for (auto const& key : {blocks_, extents_, rates_, latencies_}) {
      auto const found = list(top, key).items.size();
      // The JSON may announce fewer dimensions.
      if (found == count || (found > count && !is_yaml_)) continue;
      fail(list(top, key), key, std::to_string(found) + " values",
           std::to_string(count) + ", one for each dimension");
    }
    return count;
  }

  [[nodiscard]] json_value const& list(json_value const& top, std::string const& key) const {
    auto const& result = required(top, "", key);
    require_kind(result, json_kind::array, key, "a list");
    return result;
  }
  [[nodiscard]] json_value const& value(json_value const& top, std::string const& key,
                                        std::size_t at) const {
    auto const& from = list(top, key);
    if (at >= from.items.size()) {
      fail(from, key, std::to_string(from.items.size()) + " values", "one for each dimension");
    }
    return from.items[at];
  }
  [[nodiscard]] static std::string place(std::string const& key, std::size_t at) {
    return key + "[" + std::to_string(at) + "]";
  }

  [[nodiscard]] network_dimension dimension(json_value const& top, std::size_t at) {
    network_dimension result;
    auto const& name = value(top, blocks_, at);
    auto const block = network_block_of(name.text);
    if (!block) {
      fail(name, place(blocks_, at), excerpt(name), "Ring, FullyConnected or Switch");
    }
    result.block = *block;
    constexpr std::int64_t most_extent = 1 << 16;
    result.extent =
        static_cast<int>(integer(value(top, extents_, at), place(extents_, at), 1, most_extent));
    auto const& rate = value(top, rates_, at);
    result.rate = decimal(rate, place(rates_, at), rational(1, 1'000'000), 1'000'000);
    result.latency_seconds = latency(top, latencies_, at);
    if (!is_yaml_) add_links_and_hops(top, at, result);
    return result;
  }

  /// A latency in seconds; 0 if the file has no such key.
  [[nodiscard]] double latency(json_value const& top, std::string const& key,
                               std::size_t at) const {
    constexpr std::int64_t most = 3'600'000'000'000;  // nanoseconds: an hour
    if (top.find(key) == nullptr) return 0;
    return decimal(value(top, key, at), place(key, at), 0, most).to_double() * 1e-9;
  }

  void add_links_and_hops(json_value const& top, std::size_t at, network_dimension& of) {
    of.rate = of.rate * links_to_a_neighbour(top, at, of);
    if (of.rate > rational(largest_rate)) {
      fail(value(top, rates_, at), place(rates_, at), "links of " + of.rate.to_text() + " GB/s",
           "at most " + std::to_string(largest_rate));
    }
    // A message passes a NIC at each end and a router at the switch, which has two links.
    bool const is_switched = of.block == network_block::switched;
    of.latency_seconds += latency(top, "nic-latency", at) * (is_switched ? 1 : 2) +
                          latency(top, "router-latency", at) * (is_switched ? 0.5 : 0);
  }

  /// The links of an NPU in one dimension go to its neighbours in equal numbers.
  [[nodiscard]] std::int64_t links_to_a_neighbour(json_value const& top, std::size_t at,
                                                  network_dimension const& of) {
    if (top.find("links-count") == nullptr || of.extent == 1) return 1;
    constexpr std::int64_t most = 1 << 16;
    auto const& from = value(top, "links-count", at);
    auto const links = integer(from, place("links-count", at), 1, most);
    std::int64_t neighbours = 1;  // a switch, or the other one of two NPUs
    if (of.block == network_block::ring && of.extent > 2) neighbours = 2;
    if (of.block == network_block::fully_connected) neighbours = of.extent - 1;
    if (links < neighbours) {
      fail(from, place("links-count", at), from.text,
           std::to_string(neighbours) + " or more, the number of neighbours");
    }
    if (links % neighbours != 0) {
      remarks_.add(from.line, place("links-count", at) + " is " + from.text +
                                  ", which is no multiple of " + std::to_string(neighbours) +
                                  ": the rest is left out");
    }
    return links / neighbours;
  }

  text_remarks& remarks_;
  bool is_yaml_;
  std::string blocks_, extents_, rates_, latencies_;  // keys
};

/// The values of a YAML text. Those in lists that can be numbers become numbers.
[[nodiscard]] inline json_value yaml_with_numbers(std::string_view text, std::string const& file) {
  auto result = yaml_reader(without_byte_order_mark(text), file, input_limits{}).read();
  for (auto& list : result.items) {
    for (auto& value : list.items) {
      constexpr int decimals = 9;
      bool const is_text = value.kind == json_kind::string;
      if (is_text && read_decimal(value.text, decimals)) value.kind = json_kind::number;
    }
  }
  return result;
}

/// True if a line of the text begins with this word.
[[nodiscard]] inline bool has_line(std::string_view text, std::string_view word) {
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') return true;
  }
  return false;
}

}  // namespace detail

/// True if the text is a network of ASTRA-sim's analytical backend, in YAML or in JSON.
[[nodiscard]] inline bool is_astra_sim(std::string_view text) {
  if (detail::has_json_keys(text, {"topologies-per-dim", "units-count"})) return true;
  return detail::has_line(text, "topology:") && detail::has_line(text, "npus_count:");
}

/// Reads a machine from a network of ASTRA-sim's analytical backend: the YAML of version 2, or the
/// JSON of version 1.
///
///     topology: [ Ring, FullyConnected, Switch ]
///     npus_count: [ 2, 8, 4 ]            # 64 NPUs
///     bandwidth: [ 200.0, 100.0, 50.0 ]  # GB/s
///     latency: [ 50.0, 500.0, 2000.0 ]   # ns
///
/// Ranks are the NPUs, with ids 0 … N-1; the first coordinate varies fastest. Switches follow,
/// dimension by dimension. The kinds of links are unknown, and all is one server.
///
/// - Ring: each NPU has a link to both neighbours, each way with the whole bandwidth. Two NPUs have
///   one link each way.
/// - FullyConnected: each NPU has a link of this bandwidth to each other one.
/// - Switch: each NPU has a link of this bandwidth to a switch.
/// - Each dimension has links of its own. `latency` is that of one link.
/// - In JSON `links-count` is the number of links of an NPU. They go to the neighbours in equal
///   numbers, and a rest is left out with a remark. Latencies of NICs and routers are added.
///   Memory (`hbm`) is left out.
/// - Rates are the file's numbers. The simulator takes 2^30 bytes for a GB.
///
/// file:   the name that errors start with
/// Source: github.com/astra-sim/astra-network-analytical, common/network-parser, congestion_aware
///         and congestion_unaware; for JSON its analytical/src/topology of 2021
/// Time:   O(nodes + links + length of the text).
/// Post:   `validate` accepts the result.
/// Throws: input_error with file and line for missing or unknown values, lists of other lengths,
///         and YAML beyond lists of names and numbers. For more than 65536 ranks or 2^20 links.
///         With `is_strict` for the first remark. For any of `options.rates`.
[[nodiscard]] inline topology read_astra_sim(std::string_view text, std::string const& file,
                                             reading_options const& options = {}) {
  expect_no_rate_but(options.rates, {}, file);
  detail::text_remarks remarks(file, options.is_strict);
  bool const is_yaml = !detail::word_stream(text).next().starts_with('{');
  auto const top = is_yaml ? detail::yaml_with_numbers(text, file)
                           : detail::json_builder(text, file, input_limits{}).parse();
  auto const dimensions = detail::astra_sim_reader(file, remarks, is_yaml).read(top);
  detail::machine_builder machine;
  detail::network_dimension_builder(machine, file).add(dimensions);
  remarks.move_to(machine);
  return detail::named_after(file, machine.build(file));
}

}}  // namespace blink::BLINK_ABI
