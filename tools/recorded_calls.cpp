// SPDX-License-Identifier: Apache-2.0
#include "recorded_calls.hpp"

#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace blink::tools {
namespace {

using nlohmann::json;

recorded_call read_call(json const& value) {
  recorded_call result;
  result.collective = value.at("collective").get<std::string>();
  result.host = value.at("host").get<std::string>();
  result.rank = value.at("rank").get<int>();
  result.ranks = value.at("ranks").get<int>();
  result.core = value.at("core").get<int>();
  result.is_ok = value.at("ok").get<bool>();
  result.is_eager = value.at("way").get<std::string>() == "eager";
  result.begin = value.at("begin_us").get<double>();
  result.time = value.at("us").get<double>();
  result.for_peers = value.at("waited_for_peers_us").get<double>();
  result.to_receive = value.at("waited_to_receive_us").get<double>();
  result.to_send = value.at("waited_to_send_us").get<double>();
  result.count = value.at("count").get<std::uint64_t>();
  result.element_bytes = value.at("element_bytes").get<std::uint64_t>();
  for (auto const& to : value.at("to_peers")) {
    result.to_peers.emplace_back(to.at(0).get<int>(), to.at(1).get<std::uint64_t>());
  }
  for (auto const& on : value.at("on_links")) {
    auto name = on.at(1).get<std::string>();
    if (name.empty()) name = "link " + std::to_string(on.at(0).get<int>());
    result.links.push_back({name, on.at(2).get<double>(), on.at(3).get<std::uint64_t>()});
  }
  if (result.rank < 0 || result.rank >= result.ranks) {
    throw input_error("rank " + std::to_string(result.rank) + " of " +
                      std::to_string(result.ranks));
  }
  return result;
}

/// Calls `take` with each record of the files and its JSON.
/// Throws: input_error that names the file and line.
template <class Take>
void for_each_record(std::vector<std::string> const& files, Take const& take) {
  for (auto const& name : files) {
    std::ifstream file(name);
    if (!file) throw input_error(name + ": cannot be read");
    std::size_t number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      try {
        auto value = json::parse(line);
        auto call = read_call(value);
        take(std::move(call), std::move(value));
      } catch (std::exception const& problem) {
        throw input_error(name + ", line " + std::to_string(number) + ": " + problem.what() +
                          ", expected a record of BLINK_RECORD_FILE");
      }
    }
  }
}

/// Throws: input_error unless each rank has records, of the same calls of one communicator.
/// Pre:    a rank has records.
void expect_same_calls(calls_of_ranks const& calls) {
  int const ranks = calls.begin()->second.front().ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    if (calls.count(rank) != 0) continue;
    throw input_error("no records of rank " + std::to_string(rank) + " of " +
                      std::to_string(ranks) + ", expected the files of all ranks");
  }
  auto const& first = calls.begin()->second;
  for (auto const& [rank, all] : calls) {
    for (std::size_t k = 0; k < std::min(first.size(), all.size()); ++k) {
      if (all[k].ranks == ranks && all[k].collective == first[k].collective) continue;
      throw input_error("call " + std::to_string(k + 1) + " of rank " + std::to_string(rank) +
                        " is " + all[k].collective + " of " + std::to_string(all[k].ranks) +
                        " ranks, that of rank " + std::to_string(calls.begin()->first) + " " +
                        first[k].collective + " of " + std::to_string(ranks) +
                        ", expected one communicator's records");
    }
  }
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

}  // namespace

calls_of_ranks read_records(std::vector<std::string> const& files) {
  calls_of_ranks result;
  for_each_record(files, [&](recorded_call call, json value) {
    call.all = std::move(value);
    result[call.rank].push_back(std::move(call));
  });
  if (result.empty()) throw input_error("no records, expected files of BLINK_RECORD_FILE");
  expect_same_calls(result);
  return result;
}

calls_of_ranks read_records_of(std::vector<std::string> const& files, int ranks,
                               std::size_t& others) {
  calls_of_ranks result;
  others = 0;
  for_each_record(files, [&](recorded_call call, json const&) {
    if (call.ranks != ranks) {
      ++others;
      return;
    }
    result[call.rank].push_back(std::move(call));
  });
  if (!result.empty()) expect_same_calls(result);
  return result;
}

std::string duration_in_words(double microseconds) {
  std::array<char, 40> text{};
  bool const is_short = microseconds < 1000 && microseconds > -1000;
  std::snprintf(text.data(), text.size(), is_short ? "%.1f us" : "%.3g ms",
                is_short ? microseconds : microseconds / 1000);
  return text.data();
}

void print_links(used_links const& used) {
  if (used.links.empty()) return;
  std::printf("\nlinks, in %s of calls along their trees\n  %-24s %14s %10s %8s\n",
              duration_in_words(used.seconds * 1e6).c_str(), "", "bytes", "GB/s", "of rate");
  for (auto const& [name, use] : used.links) {
    double const rate = used.seconds > 0 ? static_cast<double>(use.bytes) / used.seconds : 0;
    std::printf("  %-24s %14llu %10.3f", detail::printable(name).c_str(),
                static_cast<unsigned long long>(use.bytes), rate * 1e-9);
    use.bytes_per_second > 0 ? std::printf(" %7.1f%%\n", 100 * rate / use.bytes_per_second)
                             : std::printf(" %8s\n", "-");
  }
}

std::string use_in_words(used_links const& used) {
  auto const busiest =
      std::max_element(used.links.begin(), used.links.end(), [](auto const& a, auto const& b) {
        return static_cast<double>(a.second.bytes) / a.second.bytes_per_second <
               static_cast<double>(b.second.bytes) / b.second.bytes_per_second;
      });
  auto const share = [&](auto const& link) {
    std::array<char, 20> text{};
    std::snprintf(text.data(), text.size(), "%.0f %%",
                  100 * static_cast<double>(link->second.bytes) / used.seconds /
                      link->second.bytes_per_second);
    return std::string(text.data());
  };
  std::map<std::string, std::size_t> kinds;
  for (auto const& [name, use] : used.links) ++kinds[name.substr(0, name.find(' '))];
  std::string named;
  for (auto const& [kind, number] : kinds) {
    named += (named.empty() ? "" : " and ") + kind + " on " + std::to_string(number);
  }
  return detail::printable(named + " of " + std::to_string(used.links.size()) + " links, busiest " +
                           busiest->first) +
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

call_summary summary_of(calls_of_ranks const& calls) {
  call_summary result;
  result.count = SIZE_MAX;
  for (auto const& [rank, all] : calls) result.count = std::min(result.count, all.size());
  for (std::size_t k = 0; k < result.count; ++k) {
    bool is_ok = true;
    for (auto const& [rank, all] : calls) {
      auto const& call = all[k];
      is_ok = is_ok && call.is_ok;
      auto& sum = result.by_collective[call.collective];
      ++sum.calls;
      sum.time += call.time;
      sum.peers += call.for_peers;
      sum.receive += call.to_receive;
      sum.send += call.to_send;
    }
    result.failed += is_ok ? 0 : 1;
  }
  return result;
}

std::map<std::string, double> clock_of_hosts(calls_of_ranks const& calls) {
  std::map<std::string, double> first_end;  // of the first call
  for (auto const& [rank, all] : calls) {
    auto const end = all[0].begin + all[0].time;
    auto const [known, is_new] = first_end.emplace(all[0].host, end);
    if (!is_new) known->second = std::max(known->second, end);
  }
  auto const zero = first_end.begin()->second;
  for (auto& [host, end] : first_end) end -= zero;
  return first_end;
}

std::vector<std::string> verdict_of(calls_of_ranks const& calls, call_summary const& summary) {
  std::vector<std::string> result;
  auto const count = summary.count;
  if (summary.failed > 0) result.push_back(std::to_string(summary.failed) + " calls failed");
  for (auto const& [rank, all] : calls) {
    if (all.size() > count) {
      result.push_back("rank " + std::to_string(rank) + " ended " +
                       std::to_string(all.size() - count) + " calls more than others");
    }
  }
  auto const used = links_of(calls, count);
  if (!used.links.empty()) result.push_back(use_in_words(used));
  for (auto const& late : late_in_words(calls, count)) result.push_back(late);
  if (auto const shared = sharing_in_words(calls, count); !shared.empty()) {
    result.push_back(shared);
  }
  return result;
}

}  // namespace blink::tools
