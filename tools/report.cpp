// SPDX-License-Identifier: Apache-2.0
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

using nlohmann::json;

/// One call of one rank, as `call_records` writes it.
struct recorded_call {
  std::string collective, host;
  int rank = 0, ranks = 0, core = -1;
  bool is_ok = false;
  double begin = 0, time = 0;  // microseconds
  double for_peers = 0, to_receive = 0, to_send = 0;
  std::uint64_t sent = 0;
  struct link {
    std::string name;
    double bytes_per_second = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<link> links;
  json all;
};

recorded_call read_call(json const& value) {
  recorded_call result;
  result.collective = value.at("collective").get<std::string>();
  result.host = value.at("host").get<std::string>();
  result.rank = value.at("rank").get<int>();
  result.ranks = value.at("ranks").get<int>();
  result.core = value.at("core").get<int>();
  result.is_ok = value.at("ok").get<bool>();
  result.begin = value.at("begin_us").get<double>();
  result.time = value.at("us").get<double>();
  result.for_peers = value.at("waited_for_peers_us").get<double>();
  result.to_receive = value.at("waited_to_receive_us").get<double>();
  result.to_send = value.at("waited_to_send_us").get<double>();
  result.sent = value.at("sent_bytes").get<std::uint64_t>();
  for (auto const& on : value.at("on_links")) {
    auto name = on.at(1).get<std::string>();
    if (name.empty()) name = "link " + std::to_string(on.at(0).get<int>());
    result.links.push_back({name, on.at(2).get<double>(), on.at(3).get<std::uint64_t>()});
  }
  result.all = value;
  if (result.rank < 0 || result.rank >= result.ranks) {
    throw input_error("rank " + std::to_string(result.rank) + " of " +
                      std::to_string(result.ranks));
  }
  return result;
}

/// The calls of one rank in the order in which they ended, which is that of all ranks.
using calls_of_ranks = std::map<int, std::vector<recorded_call>>;

/// Throws: input_error that names the file and line.
calls_of_ranks read_records(std::vector<std::string> const& files) {
  calls_of_ranks result;
  for (auto const& name : files) {
    std::ifstream file(name);
    if (!file) throw input_error(name + ": cannot be read");
    std::size_t number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      try {
        auto call = read_call(json::parse(line));
        result[call.rank].push_back(std::move(call));
      } catch (std::exception const& problem) {
        throw input_error(name + ", line " + std::to_string(number) + ": " + problem.what() +
                          ", expected a record of BLINK_RECORD_FILE");
      }
    }
  }
  if (result.empty()) throw input_error("no records, expected files of BLINK_RECORD_FILE");
  int const ranks = result.begin()->second.front().ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    if (result.count(rank) != 0) continue;
    throw input_error("no records of rank " + std::to_string(rank) + " of " +
                      std::to_string(ranks) + ", expected the files of all ranks");
  }
  auto const& first = result.begin()->second;
  for (auto const& [rank, calls] : result) {
    for (std::size_t k = 0; k < std::min(first.size(), calls.size()); ++k) {
      if (calls[k].ranks == ranks && calls[k].collective == first[k].collective) continue;
      throw input_error("call " + std::to_string(k + 1) + " of rank " + std::to_string(rank) +
                        " is " + calls[k].collective + " of " + std::to_string(calls[k].ranks) +
                        " ranks, that of rank " + std::to_string(result.begin()->first) + " " +
                        first[k].collective + " of " + std::to_string(ranks) +
                        ", expected one communicator's records");
    }
  }
  return result;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// By rank, the microseconds by which it was late in some calls: the median wait of the other ranks
/// until peers entered, less this rank's own wait. So hosts may have clocks of their own.
std::map<int, std::vector<double>> late_ranks(calls_of_ranks const& calls, std::size_t count) {
  constexpr double least_share = 0.1, least_microseconds = 1;  // of a call; less is no lateness
  std::map<int, std::vector<double>> result;
  for (std::size_t k = 0; k < count; ++k) {
    int last = -1;
    double least = 0, longest = 0;
    for (auto const& [rank, all] : calls) {
      if (last < 0 || all[k].for_peers < least) {
        last = rank;
        least = all[k].for_peers;
      }
      longest = std::max(longest, all[k].time);
    }
    std::vector<double> others;
    for (auto const& [rank, all] : calls) {
      if (rank != last) others.push_back(all[k].for_peers);
    }
    double const late = median(others) - least;
    if (!others.empty() && late > least_microseconds && late > least_share * longest) {
      result[last].push_back(late);
    }
  }
  return result;
}

/// Pairs of ranks of one host that ended calls on one core.
std::map<std::pair<int, int>, std::size_t> shared_cores(calls_of_ranks const& calls,
                                                        std::size_t count) {
  std::map<std::pair<int, int>, std::size_t> result;
  for (auto a = calls.begin(); a != calls.end(); ++a) {
    for (auto b = std::next(a); b != calls.end(); ++b) {
      for (std::size_t k = 0; k < count; ++k) {
        auto const &x = a->second[k], &y = b->second[k];
        if (x.core >= 0 && x.core == y.core && x.host == y.host) ++result[{a->first, b->first}];
      }
    }
  }
  return result;
}

std::string duration_in_words(double microseconds) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), microseconds < 1000 ? "%.1f us" : "%.3g ms",
                microseconds < 1000 ? microseconds : microseconds / 1000);
  return text.data();
}

struct link_use {
  double bytes_per_second = 0;
  std::uint64_t bytes = 0;
};

void print_links(std::map<std::string, link_use> const& links, double seconds) {
  if (links.empty()) return;
  std::printf("\nlinks, in %s of calls along their trees\n  %-24s %14s %10s %8s\n",
              duration_in_words(seconds * 1e6).c_str(), "", "bytes", "GB/s", "of rate");
  for (auto const& [name, use] : links) {
    double const rate = static_cast<double>(use.bytes) / seconds;
    std::printf("  %-24s %14llu %10.3f %7.1f%%\n", name.c_str(),
                static_cast<unsigned long long>(use.bytes), rate * 1e-9,
                100 * rate / use.bytes_per_second);
  }
}

// Parts of the verdict.

std::vector<std::string> what_is_missing(calls_of_ranks const& calls, std::size_t count,
                                         std::size_t failed) {
  std::vector<std::string> result;
  if (failed > 0) result.push_back(std::to_string(failed) + " calls failed");
  for (auto const& [rank, all] : calls) {
    if (all.size() > count) {
      result.push_back("rank " + std::to_string(rank) + " ended " +
                       std::to_string(all.size() - count) + " calls more than others");
    }
  }
  return result;
}

std::string use_in_words(std::map<std::string, link_use> const& links, double seconds) {
  auto const busiest =
      std::max_element(links.begin(), links.end(), [](auto const& a, auto const& b) {
        return static_cast<double>(a.second.bytes) / a.second.bytes_per_second <
               static_cast<double>(b.second.bytes) / b.second.bytes_per_second;
      });
  auto const share = [&](auto const& link) {
    std::array<char, 20> text{};
    std::snprintf(
        text.data(), text.size(), "%.0f %%",
        100 * static_cast<double>(link->second.bytes) / seconds / link->second.bytes_per_second);
    return std::string(text.data());
  };
  std::map<std::string, std::size_t> kinds;
  for (auto const& [name, use] : links) ++kinds[name.substr(0, name.find(' '))];
  std::string used;
  for (auto const& [kind, number] : kinds) {
    used += (used.empty() ? "" : " and ") + kind + " on " + std::to_string(number);
  }
  return used + " of " + std::to_string(links.size()) + " links, busiest " + busiest->first +
         " at " + share(busiest) + " of its rate";
}

std::vector<std::string> late_in_words(calls_of_ranks const& calls, std::size_t count) {
  std::vector<std::string> result;
  for (auto const& [rank, late] : late_ranks(calls, count)) {
    if (10 * late.size() < count) continue;  // by chance
    result.push_back("rank " + std::to_string(rank) + " late in " + std::to_string(late.size()) +
                     " of " + std::to_string(count) + " calls, by " +
                     duration_in_words(median(late)));
  }
  if (result.empty()) result.push_back("no rank often late");
  return result;
}

/// Empty: no two ranks often ran on one core.
std::string sharing_in_words(calls_of_ranks const& calls, std::size_t count) {
  auto const shared = shared_cores(calls, count);
  auto const most =
      std::max_element(shared.begin(), shared.end(),
                       [](auto const& a, auto const& b) { return a.second < b.second; });
  if (most == shared.end() || 10 * most->second < count) return {};
  return "ranks " + std::to_string(most->first.first) + " and " +
         std::to_string(most->first.second) + " shared a core in " + std::to_string(most->second) +
         " calls" +
         (shared.size() == 1 ? ""
                             : ", as did " + std::to_string(shared.size() - 1) + " pairs more");
}

/// Writes one trace of all ranks, for chrome://tracing and Perfetto. The clocks of hosts are moved,
/// so that all leave the first call together.
void write_trace(std::string const& name, calls_of_ranks const& calls) {
  std::map<std::string, double> first_end;  // by host, of the first call
  for (auto const& [rank, all] : calls) {
    auto& end = first_end[all[0].host];
    end = std::max(end, all[0].begin + all[0].time);
  }
  std::map<std::string, int> number;
  for (auto const& [host, end] : first_end) number.emplace(host, static_cast<int>(number.size()));
  auto const zero = first_end.begin()->second;
  auto events = json::array();
  for (auto const& [host, k] : number) {
    events.push_back(
        {{"name", "process_name"}, {"ph", "M"}, {"pid", k}, {"args", {{"name", "host " + host}}}});
  }
  for (auto const& [rank, all] : calls) {
    auto const& host = all[0].host;
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", number[host]},
                      {"tid", rank},
                      {"args", {{"name", "rank " + std::to_string(rank)}}}});
    for (auto const& call : all) {
      events.push_back({{"name", call.collective},
                        {"ph", "X"},
                        {"pid", number[host]},
                        {"tid", rank},
                        {"ts", call.begin - first_end[host] + zero},
                        {"dur", call.time},
                        {"args", call.all}});
    }
  }
  blink::detail::write_text(name, json{{"traceEvents", std::move(events)}}.dump() + "\n");
}

struct report_options {
  std::vector<std::string> files;
  std::string trace;
};

void run_report(report_options const& options) {
  auto const calls = read_records(options.files);
  auto const ranks = calls.size();
  std::size_t count = SIZE_MAX, failed = 0;
  for (auto const& [rank, all] : calls) count = std::min(count, all.size());
  std::map<std::string, link_use> links;
  double seconds_on_links = 0;
  struct sums {
    std::size_t calls = 0;
    double time = 0, peers = 0, receive = 0, send = 0;
  };
  std::map<std::string, sums> of_collective;
  for (std::size_t k = 0; k < count; ++k) {
    double longest = 0;
    bool has_links = false, is_ok = true;
    for (auto const& [rank, all] : calls) {
      auto const& call = all[k];
      is_ok = is_ok && call.is_ok;
      longest = std::max(longest, call.time);
      for (auto const& on : call.links) {
        auto& use = links[on.name];
        use.bytes_per_second = on.bytes_per_second;
        use.bytes += on.bytes;
        has_links = true;
      }
      auto& sum = of_collective[call.collective];
      ++sum.calls;
      sum.time += call.time;
      sum.peers += call.for_peers;
      sum.receive += call.to_receive;
      sum.send += call.to_send;
    }
    if (has_links) seconds_on_links += longest * 1e-6;
    failed += is_ok ? 0 : 1;
  }
  std::printf("%zu calls of %zu ranks\n\n  %-16s %8s %12s %8s %8s %8s %8s\n", count, ranks, "",
              "calls", "mean", "peers", "receive", "send", "moving");
  for (auto const& [name, sum] : of_collective) {
    auto const share = [&](double part) { return sum.time > 0 ? 100 * part / sum.time : 0; };
    std::printf(
        "  %-16s %8zu %12s %7.1f%% %7.1f%% %7.1f%% %7.1f%%\n", name.c_str(), sum.calls / ranks,
        duration_in_words(sum.time / static_cast<double>(sum.calls)).c_str(), share(sum.peers),
        share(sum.receive), share(sum.send), share(sum.time - sum.peers - sum.receive - sum.send));
  }
  print_links(links, seconds_on_links);

  auto verdict = what_is_missing(calls, count, failed);
  if (!links.empty()) verdict.push_back(use_in_words(links, seconds_on_links));
  for (auto const& late : late_in_words(calls, count)) verdict.push_back(late);
  if (auto const shared = sharing_in_words(calls, count); !shared.empty()) {
    verdict.push_back(shared);
  }
  std::string line;
  for (auto const& part : verdict) line += (line.empty() ? "" : "; ") + part;
  std::printf("\n%s\n", line.c_str());
  if (!options.trace.empty()) write_trace(options.trace, calls);
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto options = std::make_shared<report_options>();
  auto* command = app.add_subcommand(
      "report",
      "Say what records of calls show: times by cause, bytes on each link, late ranks, ranks that\n"
      "shared a core. A program writes them with BLINK_RECORD_FILE=calls.%h.%p.jsonl if it calls\n"
      "record_calls_as_environment_says(), as blink perf does.");
  command->add_option("FILE", options->files, "records of all ranks of one communicator")
      ->required();
  add_output_option(*command, "--trace", options->trace,
                    "also write one trace of all ranks, for Perfetto");
  command->callback([options] { run_report(*options); });
}

}  // namespace blink::tools
