// SPDX-License-Identifier: Apache-2.0
#include "report_data.hpp"

#include <algorithm>
#include <utility>

namespace blink::tools {
namespace {

constexpr std::size_t most_bars = 6000;  // calls of ranks on the page's time line

/// The time of each call on each rank, with the clocks of hosts joined.
void add_calls(report_json& report, calls_of_ranks const& calls, std::size_t count) {
  auto const shown = std::min(count, std::max<std::size_t>(1, most_bars / calls.size()));
  auto const offset = clock_of_hosts(calls);
  double zero = 0;
  for (auto const& [rank, all] : calls) {
    double const begin = all[0].begin - offset.at(all[0].host);
    zero = rank == calls.begin()->first ? begin : std::min(zero, begin);
  }
  auto events = report_json::array();
  auto names = report_json::array();
  auto ranks = report_json::array();
  for (auto const& call : calls.begin()->second) {
    if (names.size() < shown) names.push_back(call.collective);
  }
  for (auto const& [rank, all] : calls) {
    ranks.push_back({{"rank", rank}, {"host", all[0].host}});
    for (std::size_t k = 0; k < shown; ++k) {
      auto const& call = all[k];
      events.push_back({ranks.size() - 1, k, call.begin - offset.at(call.host) - zero, call.time,
                        call.for_peers, call.to_receive, call.to_send, call.is_ok ? 1 : 0});
    }
  }
  report["calls"] = {
      {"count", count},
      {"shown", shown},
      {"names", std::move(names)},
      {"ranks", std::move(ranks)},
      {"fields", {"rank", "call", "begin_us", "us", "peers_us", "receive_us", "send_us", "ok"}},
      {"events", std::move(events)}};
}

}  // namespace

void describe_records(report_json& report, calls_of_ranks const& calls) {
  auto const summary = summary_of(calls);
  std::string sentence;
  for (auto const& part : verdict_of(calls, summary)) {
    sentence += (sentence.empty() ? "" : "; ") + part;
  }
  report["title"] = "Records of " + std::to_string(calls.size()) + " ranks";
  report["sentence"] = sentence;
  auto rows = report_json::array();
  for (auto const& [name, sum] : summary.by_collective) {
    rows.push_back({name, sum.calls / calls.size(), sum.time / static_cast<double>(sum.calls),
                    sum.share(sum.peers), sum.share(sum.receive), sum.share(sum.send),
                    sum.share(sum.moving())});
  }
  add_table(report, "collectives", "Time of calls by cause",
            "Peers: waiting until other ranks entered the call. Receive and send: waiting for "
            "data and for credits. Moving: the rest.",
            {{"collective"},
             {"calls"},
             {"mean time", "us", true},
             {"peers", "%"},
             {"receive", "%"},
             {"send", "%"},
             {"moving", "%"}},
            std::move(rows));
  auto by_rank = report_json::array();
  for (auto const& [rank, all] : calls) {
    call_times sum;
    for (std::size_t k = 0; k < summary.count; ++k) {
      sum.time += all[k].time;
      sum.peers += all[k].for_peers;
      sum.receive += all[k].to_receive;
      sum.send += all[k].to_send;
    }
    auto const calls_here = static_cast<double>(std::max<std::size_t>(summary.count, 1));
    by_rank.push_back({rank, all[0].host, sum.time / calls_here, sum.peers / calls_here,
                       sum.receive / calls_here, sum.send / calls_here, sum.share(sum.peers)});
  }
  add_table(report, "ranks", "Ranks",
            "A rank that waits for its peers less than the others do is late itself. Times are "
            "means of a call.",
            {{"rank"},
             {"host"},
             {"time", "us"},
             {"peers", "us", true},
             {"receive", "us", true},
             {"send", "us", true},
             {"peers of time", "%"}},
            std::move(by_rank));
  auto const used = links_of(calls, summary.count);
  auto links = report_json::array();
  for (auto const& [name, use] : used.links) {
    double const rate = used.seconds > 0 ? static_cast<double>(use.bytes) / used.seconds : 0;
    bool const is_known = use.bytes_per_second > 0;
    links.push_back({name, use.bytes, rate * 1e-9,
                     is_known ? report_json(use.bytes_per_second * 1e-9) : nullptr,
                     is_known ? report_json(100 * rate / use.bytes_per_second) : nullptr});
  }
  if (!links.empty()) {
    add_table(report, "used_links", "Links in calls along their trees",
              "Rate of the bytes over the time of these calls, beside the rate of the link.",
              {{"link"},
               {"bytes", "B"},
               {"moved", "GB/s"},
               {"capacity", "GB/s"},
               {"use", "%", true, "100"}},
              std::move(links));
  }
  add_calls(report, calls, summary.count);
}

}  // namespace blink::tools
