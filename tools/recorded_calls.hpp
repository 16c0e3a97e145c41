// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

// Records of calls, as files of BLINK_RECORD_FILE hold them, and what they show. Shared by `blink
// report` and `blink stalls`.

namespace blink::tools {

/// One call of one rank, as `call_records` writes it. Times are in microseconds.
struct recorded_call {
  std::string collective, host;
  int rank = 0, ranks = 0, core = -1;
  bool is_ok = false;
  bool is_eager = false;  ///< inputs travelled with the call, not along trees
  double begin = 0, time = 0;
  double for_peers = 0, to_receive = 0, to_send = 0;
  std::uint64_t count = 0, element_bytes = 0;
  struct link {
    std::string name;
    double bytes_per_second = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<link> links;
  std::vector<std::pair<int, std::uint64_t>> to_peers;  ///< peer and bytes
  nlohmann::json all;                                   ///< of the record, for traces
};

/// The calls of each rank in the order in which they ended, which is that of all ranks.
using calls_of_ranks = std::map<int, std::vector<recorded_call>>;

/// Reads files of records, in which each rank has its calls of one communicator.
///
/// Throws: input_error that names the file and line; input_error if a rank has no record, or ranks
///         made different calls.
[[nodiscard]] calls_of_ranks read_records(std::vector<std::string> const& files);

/// The same of the calls of `ranks` ranks alone: a program may have parts of its communicator. No
/// such calls are no error.
///
/// Post: `others` is the number of records that are left out.
[[nodiscard]] calls_of_ranks read_records_of(std::vector<std::string> const& files, int ranks,
                                             std::size_t& others);

/// The upper median; 0 of no values.
[[nodiscard]] inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns text such as "12.5 us" or "1.25 ms".
[[nodiscard]] std::string duration_in_words(double microseconds);

/// The microseconds of calls by cause, of all ranks together.
struct call_times {
  std::size_t calls = 0;
  double time = 0, peers = 0, receive = 0, send = 0;

  /// The part of the time in percent; 0 of no time.
  [[nodiscard]] double share(double part) const { return time > 0 ? 100 * part / time : 0; }
  [[nodiscard]] double moving() const { return time - peers - receive - send; }
};

/// The calls that all ranks ended, summed up.
struct call_summary {
  std::size_t count = 0;   ///< calls of each rank
  std::size_t failed = 0;  ///< of them
  std::map<std::string, call_times> by_collective;
};
[[nodiscard]] call_summary summary_of(calls_of_ranks const& calls);

/// The microseconds to subtract from the times of each host, so that all leave the first call
/// together: the clocks of hosts differ.
[[nodiscard]] std::map<std::string, double> clock_of_hosts(calls_of_ranks const& calls);

/// A link, or a pair of ranks, and the bytes over it.
struct link_use {
  double bytes_per_second = 0;  ///< of the link; 0: not known
  std::uint64_t bytes = 0;
};

/// The bytes over links, and the time in which they moved.
struct used_links {
  std::map<std::string, link_use> links;  ///< by name
  double seconds = 0;                     ///< of the calls that moved something over them
};

/// Adds up the bytes that `add(call, links)` finds in each call, and the times of calls with some.
template <class Add>
[[nodiscard]] used_links add_up_links(calls_of_ranks const& calls, std::size_t count,
                                      Add const& add) {
  used_links result;
  for (std::size_t k = 0; k < count; ++k) {
    double longest = 0;
    bool has_links = false;
    for (auto const& [rank, all] : calls) {
      longest = std::max(longest, all[k].time);
      has_links = add(all[k], result.links) || has_links;
    }
    if (has_links) result.seconds += longest * 1e-6;
  }
  return result;
}

/// The links of the first `count` calls of each rank, for calls along schedules that know links.
[[nodiscard]] inline used_links links_of(calls_of_ranks const& calls, std::size_t count) {
  return add_up_links(calls, count, [](recorded_call const& call, auto& links) {
    for (auto const& on : call.links) {
      auto& use = links[on.name];
      use.bytes_per_second = on.bytes_per_second;
      use.bytes += on.bytes;
    }
    return !call.links.empty();
  });
}

/// The same with a link for each pair of a sender and its receiver, "0 -> 1".
[[nodiscard]] inline used_links pairs_of(calls_of_ranks const& calls, std::size_t count) {
  return add_up_links(calls, count, [](recorded_call const& call, auto& links) {
    for (auto const& [peer, bytes] : call.to_peers) {
      links[std::to_string(call.rank) + " -> " + std::to_string(peer)].bytes += bytes;
    }
    return !call.to_peers.empty();
  });
}

/// Prints a table of links; nothing if there are none.
void print_links(used_links const& used);

// Parts of a verdict, of the first `count` calls of each rank.

/// A sentence about the links. Pre: there are some.
[[nodiscard]] std::string use_in_words(used_links const& used);
/// A part for each rank that was late in a tenth of the calls or more; else that there is none.
[[nodiscard]] std::vector<std::string> late_in_words(calls_of_ranks const& calls,
                                                     std::size_t count);
/// Empty: no two ranks often ran on one core.
[[nodiscard]] std::string sharing_in_words(calls_of_ranks const& calls, std::size_t count);

/// All parts: failed calls, links, late ranks, shared cores.
[[nodiscard]] std::vector<std::string> verdict_of(calls_of_ranks const& calls,
                                                  call_summary const& summary);

}  // namespace blink::tools
