// SPDX-License-Identifier: Apache-2.0
#include "stall_report.hpp"

#include <blink/core/detail/input_text.hpp>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

namespace blink::tools {
namespace {

using json = nlohmann::ordered_json;

used_links links_of(loop_times const& loop) {
  auto result = links_of(loop.calls, loop.counted_calls());
  return result.links.empty() ? pairs_of(loop.calls, loop.counted_calls()) : result;
}

std::vector<std::string> verdict_of(loop_times const& loop) {
  auto const count = loop.counted_calls();
  std::vector<std::string> result;
  if (auto const used = links_of(loop.calls, count); !used.links.empty()) {
    result.push_back(use_in_words(used));
  }
  for (auto const& late : late_in_words(loop.calls, count)) result.push_back(late);
  if (auto const shared = sharing_in_words(loop.calls, count); !shared.empty()) {
    result.push_back(shared);
  }
  return result;
}

double share_of(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

/// The part of a bucket's time in which a rank could do nothing.
double waiting_time(call_bucket const& bucket) {
  return bucket.time * share_of(bucket.waiting(), bucket.mean);
}

std::string time_or_dash(double seconds) {
  return seconds > 0 ? duration_in_words(seconds * 1e6) : "-";
}

std::string name_or_dash(std::string const& name) {
  return name.empty() ? "-" : detail::printable(name);
}

std::string size_of(call_bucket const& bucket) {
  return bytes_in_words(static_cast<std::size_t>(bucket.bytes));
}

void print_runs(stall_findings const& found) {
  auto const& shown = found.runs.back().loop;
  std::printf("%s: %zu calls an iteration, from call %zu of %zu on\n\n",
              detail::printable(found.program[0]).c_str(), shown.found.period,
              shown.found.first + 1, shown.all_calls);
  std::printf("  %-10s %6s %11s %11s  %s\n", "run", "ranks", "iterations", "median", "stall");
  for (auto const& run : found.runs) {
    std::printf("  %-10s %6d %11zu %11s", run.name.c_str(), run.ranks, run.loop.counted,
                duration_in_words(run.loop.iteration).c_str());
    auto const print_stall = [](char const* name, std::optional<stall_time> const& stall) {
      if (!stall) return;
      std::printf("  %s %s, %.1f%%", name, duration_in_words(stall->microseconds).c_str(),
                  100 * stall->share);
    };
    if (run.name == "one host") print_stall("interconnect", found.interconnect);
    if (run.name == "hosts") print_stall("network", found.network);
    std::printf("\n");
  }
  for (auto const& remark : found.remarks) std::printf("%s\n", detail::printable(remark).c_str());
}

void print_buckets(stall_run const& run) {
  auto const& loop = run.loop;
  std::printf("\ncalls of an iteration, %s\n\n  %4s %-14s %8s %11s %6s %11s %7s %7s %7s  %s\n",
              run.name.c_str(), "", "", "bytes", "time", "share", "waiting", "peers", "receive",
              "send", "busiest link");
  double time = 0, waiting = 0;
  for (std::size_t k = 0; k < loop.buckets.size(); ++k) {
    auto const& bucket = loop.buckets[k];
    double const waits = waiting_time(bucket);
    time += bucket.time;
    waiting += waits;
    std::printf("  %4zu %-14s %8s %11s %5.1f%% %11s %6.1f%% %6.1f%% %6.1f%%  %s\n", k + 1,
                detail::printable(bucket.collective).c_str(), size_of(bucket).c_str(),
                duration_in_words(bucket.time).c_str(), 100 * share_of(bucket.time, loop.iteration),
                duration_in_words(waits).c_str(), 100 * share_of(bucket.for_peers, bucket.mean),
                100 * share_of(bucket.to_receive, bucket.mean),
                100 * share_of(bucket.to_send, bucket.mean),
                bucket.is_eager ? "(with the call)" : name_or_dash(bucket.busiest).c_str());
  }
  std::printf("  %4s %-14s %8s %11s %5.1f%% %11s\n", "", "all", "", duration_in_words(time).c_str(),
              100 * share_of(time, loop.iteration), duration_in_words(waiting).c_str());
  print_links(links_of(loop));
  std::string line;
  for (auto const& part : verdict_of(loop)) line += (line.empty() ? "" : "; ") + part;
  std::printf("\n%s\n", line.c_str());
}

double with_best(loop_times const& loop, stall_advice const& advice) {
  return predicted_iteration(loop, advice,
                             [](advised_bucket const& each) { return each.ratio_of_best(); });
}

/// The predicted time of an iteration after a change.
struct iteration_gain {
  std::string with;  ///< the change
  double microseconds = 0;
  double share = 0;  ///< of the iteration, that is saved
};

std::vector<iteration_gain> gains_of(loop_times const& loop, stall_advice const& advice) {
  std::vector<iteration_gain> result;
  auto const add = [&](std::string with, double microseconds) {
    result.push_back(
        {std::move(with), microseconds, share_of(loop.iteration - microseconds, loop.iteration)});
  };
  add("the best plans", with_best(loop, advice));
  for (auto const& kind : advice.link_kinds) {
    add(kind + " links twice as fast",
        predicted_iteration(loop, advice, [&](auto const& each) { return each.ratio_with(kind); }));
  }
  return result;
}

void print_advice(stall_findings const& found) {
  if (!found.advice) {
    std::printf("\nno predictions: %s\n", detail::printable(found.no_advice, "\n").c_str());
    return;
  }
  auto const& advice = *found.advice;
  auto const& run = found.runs[found.advised];
  std::printf("\nwhat would help, predicted for %s\n\n  %4s %-14s %8s %11s  %-24s  %-24s",
              detail::printable(advice.machine).c_str(), "", "", "bytes", "measured", "plan in use",
              "best plan");
  for (auto const& kind : advice.link_kinds) std::printf(" %14s", ("2 x " + kind).c_str());
  std::printf("\n");
  for (std::size_t k = 0; k < advice.buckets.size(); ++k) {
    auto const& bucket = run.loop.buckets[k];
    auto const& each = advice.buckets[k];
    std::printf("  %4zu %-14s %8s %11s", k + 1, detail::printable(bucket.collective).c_str(),
                size_of(bucket).c_str(), duration_in_words(bucket.time).c_str());
    for (auto const* plan : {&each.in_use, &each.best}) {
      std::printf("  %11s %-12s", time_or_dash(plan->seconds).c_str(),
                  name_or_dash(plan->name).c_str());
    }
    for (auto const& kind : advice.link_kinds) {
      auto const with = each.with_faster.find(kind);
      std::printf(" %14s", time_or_dash(with == each.with_faster.end() ? 0 : with->second).c_str());
    }
    std::printf("\n");
  }
  std::printf("\nat best, if calls overlap with no computation\n");
  for (auto const& gain : gains_of(run.loop, advice)) {
    std::printf("  %-36s %11s an iteration, %.1f%% less\n", ("with " + gain.with).c_str(),
                duration_in_words(gain.microseconds).c_str(), 100 * gain.share);
  }
}

/// The rows of the table that --try shows; the last one is of the iteration.
json tried_rows(stall_findings const& found) {
  auto rows = json::array();
  if (!found.tried) return rows;
  auto const& before = found.runs[found.advised].loop;
  auto const& after = found.tried->loop;
  for (std::size_t k = 0; k < after.buckets.size(); ++k) {
    auto const& bucket = before.buckets[k];
    rows.push_back(
        {{"call", k + 1},
         {"collective", bucket.collective},
         {"bytes", bucket.bytes},
         {"before_microseconds", bucket.time},
         {"predicted_microseconds", scaled_time(bucket, found.advice->buckets[k].ratio_of_best())},
         {"measured_microseconds", after.buckets[k].time}});
  }
  rows.push_back({{"call", nullptr},
                  {"collective", "iteration"},
                  {"bytes", nullptr},
                  {"before_microseconds", before.iteration},
                  {"predicted_microseconds", with_best(before, *found.advice)},
                  {"measured_microseconds", after.iteration}});
  return rows;
}

void print_tried(stall_findings const& found) {
  if (!found.about_try.empty())
    std::printf("\n--try: %s\n", detail::printable(found.about_try).c_str());
  if (!found.tried) return;
  std::printf("\ntried with the best plans\n\n  %4s %-14s %8s %11s %11s %11s\n", "", "", "bytes",
              "before", "predicted", "measured");
  for (auto const& row : tried_rows(found)) {
    auto const number = [&](char const* key) {
      return row.at(key).is_null() ? std::string() : row.at(key).dump();
    };
    auto const time = [&](char const* key) { return duration_in_words(row.at(key).get<double>()); };
    auto const& bytes = row.at("bytes");
    std::printf("  %4s %-14s %8s %11s %11s %11s\n", number("call").c_str(),
                detail::printable(row.at("collective").get<std::string>()).c_str(),
                bytes.is_null() ? "" : bytes_in_words(bytes.get<std::size_t>()).c_str(),
                time("before_microseconds").c_str(), time("predicted_microseconds").c_str(),
                time("measured_microseconds").c_str());
  }
}

json to_json(call_bucket const& bucket, std::size_t call, double iteration) {
  return {{"call", call},
          {"collective", bucket.collective},
          {"bytes", bucket.bytes},
          {"way", bucket.is_eager ? "eager" : "trees"},
          {"microseconds", bucket.time},
          {"share_of_iteration", share_of(bucket.time, iteration)},
          {"waiting_microseconds", waiting_time(bucket)},
          {"share_for_peers", share_of(bucket.for_peers, bucket.mean)},
          {"share_to_receive", share_of(bucket.to_receive, bucket.mean)},
          {"share_to_send", share_of(bucket.to_send, bucket.mean)},
          {"mean_microseconds", bucket.mean},
          {"busiest_link", bucket.busiest}};
}

json to_json(stall_run const& run) {
  auto const& loop = run.loop;
  auto buckets = json::array(), links = json::array();
  for (std::size_t k = 0; k < loop.buckets.size(); ++k) {
    buckets.push_back(to_json(loop.buckets[k], k + 1, loop.iteration));
  }
  auto const used = links_of(loop);
  for (auto const& [name, use] : used.links) {
    double const rate = share_of(static_cast<double>(use.bytes), used.seconds);
    bool const is_known = use.bytes_per_second > 0;
    links.push_back({{"link", name},
                     {"bytes", use.bytes},
                     {"gigabytes_per_second", rate * 1e-9},
                     {"share_of_rate", is_known ? json(rate / use.bytes_per_second) : json()}});
  }
  return {{"run", run.name},
          {"ranks", run.ranks},
          {"calls", loop.all_calls},
          {"other_calls", run.other_calls},
          {"first_call", loop.found.first},
          {"calls_per_iteration", loop.found.period},
          {"iterations", loop.found.iterations()},
          {"counted_iterations", loop.counted},
          {"iteration_microseconds", loop.iteration},
          {"buckets", std::move(buckets)},
          {"links", std::move(links)},
          {"verdict", verdict_of(loop)}};
}

json to_json(stall_time const& stall) {
  return {{"microseconds", stall.microseconds}, {"share", stall.share}};
}

json to_json(predicted_plan const& plan) {
  return {{"plan", plan.name.empty() ? json() : json(plan.name)},
          {"microseconds", plan.seconds > 0 ? json(plan.seconds * 1e6) : json()}};
}

json advice_to_json(stall_findings const& found) {
  auto const& advice = *found.advice;
  auto const& loop = found.runs[found.advised].loop;
  auto buckets = json::array(), gains = json::array();
  for (std::size_t k = 0; k < advice.buckets.size(); ++k) {
    auto const& bucket = loop.buckets[k];
    auto const& each = advice.buckets[k];
    auto with = json::object();
    for (auto const& kind : advice.link_kinds) {
      auto const seconds = each.with_faster.find(kind);
      with[kind] = seconds == each.with_faster.end() ? json() : json(seconds->second * 1e6);
    }
    buckets.push_back({{"call", k + 1},
                       {"collective", bucket.collective},
                       {"bytes", bucket.bytes},
                       {"microseconds", bucket.time},
                       {"in_use", to_json(each.in_use)},
                       {"best", to_json(each.best)},
                       {"microseconds_with_links_twice_as_fast", std::move(with)}});
  }
  for (auto const& gain : gains_of(loop, advice)) {
    gains.push_back({{"with", gain.with},
                     {"iteration_microseconds", gain.microseconds},
                     {"share_saved", gain.share}});
  }
  return {{"machine", advice.machine},
          {"run", found.runs[found.advised].name},
          {"buckets", std::move(buckets)},
          {"gains", std::move(gains)}};
}

/// Adds rows to those of a table, each with the name of its run first.
void add_rows(json& rows, json const& run, json const& more) {
  for (auto const& each : more) {
    json row{{"run", run.at("run")}};
    row.update(each);
    rows.push_back(std::move(row));
  }
}

}  // namespace

void print(stall_findings const& found) {
  print_runs(found);
  for (auto const& run : found.runs) {
    if (run.ranks > 1) print_buckets(run);
  }
  print_advice(found);
  print_tried(found);
}

json to_json(stall_findings const& found) {
  auto runs = json::array();
  for (auto const& run : found.runs) runs.push_back(to_json(run));
  json result{{"blink_stalls", 1},
              {"program", found.program},
              {"runs", std::move(runs)},
              {"remarks", found.remarks}};
  if (found.interconnect) result["interconnect_stall"] = to_json(*found.interconnect);
  if (found.network) result["network_stall"] = to_json(*found.network);
  if (found.advice) result["advice"] = advice_to_json(found);
  if (!found.advice) result["no_advice"] = found.no_advice;
  if (found.tried) {
    result["tried"] = to_json(*found.tried);
    result["tried"]["beside_prediction"] = tried_rows(found);
  }
  if (!found.about_try.empty()) result["about_try"] = found.about_try;
  return result;
}

json stall_tables(json const& document) {
  json tables;
  for (auto const* const name : stall_table_names) tables[name] = json::array();
  for (auto const& run : document.at("runs")) {
    json row;
    for (auto const& [key, value] : run.items()) {
      if (!value.is_array()) row[key] = value;
    }
    for (auto const* const stall : {"interconnect_stall", "network_stall"}) {
      bool const is_here =
          run.at("run") == (std::string_view(stall) == "network_stall" ? "hosts" : "one host");
      row[stall] = is_here && document.contains(stall)
                       ? document.at(stall)
                       : json{{"microseconds", nullptr}, {"share", nullptr}};
    }
    tables["runs"].push_back(std::move(row));
    if (run.at("ranks") > 1) {
      add_rows(tables["calls"], run, run.at("buckets"));
      add_rows(tables["links"], run, run.at("links"));
    }
  }
  if (document.contains("advice")) {
    tables["predictions"] = document.at("advice").at("buckets");
    tables["gains"] = document.at("advice").at("gains");
  }
  if (document.contains("tried")) tables["tried"] = document.at("tried").at("beside_prediction");
  return tables;
}

}  // namespace blink::tools
