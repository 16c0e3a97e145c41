// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/readers/detail/rate_text.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>
#include <blink/topology/readers/detail/text_remarks.hpp>
#include <blink/topology/readers/detail/word_stream.hpp>
#include <blink/topology/readers/reading_options.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

inline constexpr int words_of_astra_sim = 3;  // "nodes switches links"
inline constexpr int words_of_simai =
    6;  // "nodes gpus_per_server nvswitches switches links gpu_type"

/// The number of words in a first line of one of these forms; 0 for another line.
[[nodiscard]] inline int ns3_header_words(std::string_view line) {
  constexpr std::size_t longest = 200;
  auto const words = words_of(line.substr(0, std::min(line.find('\r'), longest)));
  auto const numbers = std::find_if_not(words.begin(), words.end(), is_digits) - words.begin();
  if (words.size() == words_of_astra_sim && numbers == 3) return words_of_astra_sim;
  return words.size() == words_of_simai && numbers == 5 ? words_of_simai : 0;
}

/// Turns such a file into nodes and links.
class ns3_machine_reader {
 public:
  ns3_machine_reader(std::string_view text, std::string const& file, bool is_strict)
      : file_(file), words_(text), remarks_(file, is_strict) {
    auto const first_line = words_.rest_of_line();
    int const header_words = ns3_header_words(first_line);
    if (header_words == 0) {
      fail_at(file, words_.line(),
              "the first line is " + in_quotes(first_line) +
                  ", expected \"nodes switches links\" or \"nodes gpus_per_server nvswitches "
                  "switches links gpu_type\"");
    }
    is_simai_ = header_words == words_of_simai;
    node_count_ = integer(words_.next(), "the number of nodes", most_nodes);
    if (is_simai_) {
      gpus_of_server_ = integer(words_.next(), "the number of GPUs of a server", most_nodes);
      if (gpus_of_server_ == 0)
        fail_at(file_, words_.line(), "servers of 0 GPUs, expected 1 or more");
      nvswitches_ = integer(words_.next(), "the number of NVSwitches", node_count_);
    }
    switches_ = integer(words_.next(), "the number of switches", node_count_);
    links_ = integer(words_.next(), "the number of links", most_links);
    if (is_simai_) (void)words_.next();  // the GPU's model, which changes nothing
  }

  topology read() {
    kinds_.assign(static_cast<std::size_t>(node_count_), kind::host);
    read_switches(nvswitches_, kind::nvswitch);
    read_switches(switches_, kind::network_switch);
    for (int i = 0; i < links_; ++i) read_link(i);
    add_nodes();
    add_links();
    if (auto const more = words_.next(); !more.empty()) {
      remarks_.add(words_.line(), in_quotes(more) + " and what follows it is not read, because " +
                                      std::to_string(links_) + " links are announced");
    }
    remarks_.move_to(machine_);
    return machine_.build(file_);
  }

 private:
  enum class kind : std::uint8_t { host, nvswitch, network_switch };
  struct found_link {
    std::size_t a, b;  ///< numbers in the file
    rational rate;
    double delay_seconds;
  };

  [[nodiscard]] int integer(std::string_view word, std::string const& what, int most) const {
    auto const number = is_digits(word) ? read_decimal(word, 0) : std::nullopt;
    if (!number || *number > rational(most)) {
      fail_at(file_, words_.line(),
              what + " is " + (word.empty() ? "missing" : in_quotes(word)) +
                  ", expected an integer from 0 to " + std::to_string(most));
    }
    return static_cast<int>(number->numerator());
  }

  /// The number of a node in the file.
  [[nodiscard]] std::size_t node_number(std::string const& what) {
    return static_cast<std::size_t>(integer(words_.next(), what, node_count_ - 1));
  }

  void read_switches(int count, kind is) {
    for (int i = 0; i < count; ++i) {
      auto const at = node_number("a switch");
      if (kinds_[at] != kind::host) {
        fail_at(file_, words_.line(),
                "node " + std::to_string(at) + " is a switch twice, expected each switch once");
      }
      kinds_[at] = is;
    }
  }

  /// GPUs come first, then switches, both in the order of their numbers.
  void add_nodes() {
    positions_.resize(kinds_.size());
    int ranks = 0;
    for (std::size_t at = 0; at < kinds_.size(); ++at) {
      if (kinds_[at] != kind::host) continue;
      int const server = is_simai_ ? ranks++ / gpus_of_server_ : ranks++;
      positions_[at] = machine_.add_node(node_kind::rank,
                                         (is_simai_ ? "gpu" : "host") + std::to_string(at), server);
    }
    auto const servers = servers_of_nvswitches();
    for (std::size_t at = 0; at < kinds_.size(); ++at) {
      if (kinds_[at] == kind::host) continue;
      auto const* name = kinds_[at] == kind::nvswitch ? "nvswitch" : "switch";
      positions_[at] =
          machine_.add_node(node_kind::switch_node, name + std::to_string(at), servers[at]);
    }
  }

  /// An NVSwitch is in the server of the GPU of its last link. -1 for other nodes.
  [[nodiscard]] std::vector<int> servers_of_nvswitches() const {
    std::vector<int> result(kinds_.size(), -1);
    for (auto const& each : found_) {
      for (auto const& [at, gpu] : {std::pair(each.a, each.b), {each.b, each.a}}) {
        if (kinds_[at] != kind::nvswitch || kinds_[gpu] != kind::host) continue;
        result[at] = positions_[gpu] / gpus_of_server_;
      }
    }
    return result;
  }

  void add_links() {
    for (auto const& [a, b, rate, delay] : found_) {
      bool const is_nvlink = kinds_[a] == kind::nvswitch || kinds_[b] == kind::nvswitch;
      machine_.add_both_ways(positions_[a], positions_[b], rate,
                             is_nvlink ? link_kind::nvlink : link_kind::network, delay);
    }
  }

  void read_link(int number) {
    auto const name = "link " + std::to_string(number + 1) + " of " + std::to_string(links_);
    auto const a = node_number(name + ": its first node");
    auto const b = node_number(name + ": its second node");
    auto const rate_text = words_.next();
    auto const rate = read_data_rate(rate_text);
    auto const fail = [&](std::string const& what, std::string_view word, char const* expected) {
      fail_at(file_, words_.line(),
              name + ": " + what + " is " + (word.empty() ? "missing" : in_quotes(word)) +
                  ", expected " + expected);
    };
    if (!rate || *rate == 0) fail("its rate", rate_text, "a positive one such as 200Gbps");
    auto const delay_text = words_.next();
    auto const delay = read_delay(delay_text);
    if (!delay) fail("its delay", delay_text, "one such as 0.005ms, of at most an hour");
    auto const loss_text = words_.next();
    constexpr int decimals = 15;
    auto const loss = read_decimal(loss_text, decimals);
    if (!loss || *loss < 0 || *loss > 1) fail("its error rate", loss_text, "a number from 0 to 1");
    if (a == b) {
      fail_at(file_, words_.line(),
              name + " joins node " + std::to_string(a) + " with itself, expected two nodes");
    }
    if (*loss > 0) remarks_.add(words_.line(), name + " loses packets, which is left out");
    found_.push_back({a, b, *rate, *delay});
  }

  static constexpr int most_nodes = 100'000;
  static constexpr int most_links = 10'000'000;

  std::string const& file_;
  word_stream words_;
  text_remarks remarks_;
  machine_builder machine_;
  bool is_simai_ = false;
  int node_count_ = 0, gpus_of_server_ = 1, nvswitches_ = 0, switches_ = 0, links_ = 0;
  std::vector<kind> kinds_;     // by number in the file
  std::vector<int> positions_;  // in the machine, by number in the file
  std::vector<found_link> found_;
};

}  // namespace detail

/// True if the text is a physical topology of ASTRA-sim's ns-3 backend or of SimAI: a line of
/// counts, numbers of switches, and links with rates such as "200Gbps".
[[nodiscard]] inline bool is_ns3_topology(std::string_view text) {
  detail::word_stream words(text);
  int const header_words = detail::ns3_header_words(words.rest_of_line());
  if (header_words == 0) return false;
  for (int i = 0; i < header_words; ++i) (void)words.next();
  auto word = words.next();
  while (detail::is_digits(word)) word = words.next();
  // Without a link, three numbers may be anything.
  return word.empty() ? header_words == detail::words_of_simai
                      : detail::read_data_rate(word).has_value();
}

/// Reads a machine from the file of a physical topology, as ASTRA-sim's ns-3 backend and SimAI
/// have it.
///
/// - First line of SimAI, `34 8 2 16 96 H20`: nodes, GPUs of a server, NVSwitches, other
///   switches, links, GPU model.
/// - First line of ASTRA-sim, `9 1 8`: nodes, switches, links.
/// - Then the numbers of the switches, NVSwitches first.
/// - Then links, `0 16 900Gbps 0.000025ms 0`: two nodes, rate, delay, error rate. A link goes both
///   ways.
///
/// Ranks are the other nodes, with ids 0 … N-1 in the order of their numbers. Switches follow, in
/// that order, too. Labels have the file's numbers. Links at an NVSwitch are NVLinks, others
/// network. SimAI's servers are GPUs in a row, with their NVSwitches. Each host of ASTRA-sim is a
/// server of its own.
///
/// Rates and times have ns-3's units: 200Gbps is 25 GB/s. Error rates are left out, with a remark.
/// As in ns-3, ends of lines are blanks, and text behind the last link is not read.
///
/// file:   the name that errors start with
/// Source: github.com/astra-sim/astra-network-ns3, scratch/common.h and src/network/utils;
///         github.com/aliyun/SimAI, astra-sim-alibabacloud/inputs/topo
/// Time:   O(nodes + length of the text).
/// Post:   `validate` accepts the result.
/// Throws: input_error with file and line for numbers out of range, unknown nodes, and words that
///         are no rate or time. With `is_strict` for error rates and text behind the last link. For
///         any of `options.rates`.
[[nodiscard]] inline topology read_ns3_topology(std::string_view text, std::string const& file,
                                                reading_options const& options = {}) {
  expect_no_rate_but(options.rates, {}, file);
  return detail::named_after(file,
                             detail::ns3_machine_reader(text, file, options.is_strict).read());
}

}}  // namespace blink::BLINK_ABI
