// SPDX-License-Identifier: Apache-2.0
#include "stall_report.hpp"

#include <blink/core/detail/input_text.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace blink::tools {
namespace {

using nlohmann::json;

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
    double const waits = bucket.time * share_of(bucket.waiting(), bucket.mean);
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

double with_faster(loop_times const& loop, stall_advice const& advice, std::string const& kind) {
  return predicted_iteration(loop, advice,
                             [&](advised_bucket const& each) { return each.ratio_with(kind); });
}

void print_gain(loop_times const& loop, std::string const& what, double microseconds) {
  std::printf("  %-36s %11s an iteration, %.1f%% less\n", what.c_str(),
              duration_in_words(microseconds).c_str(),
              100 * share_of(loop.iteration - microseconds, loop.iteration));
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
  print_gain(run.loop, "with the best plans", with_best(run.loop, advice));
  for (auto const& kind : advice.link_kinds) {
    print_gain(run.loop, "with " + kind + " links twice as fast",
               with_faster(run.loop, advice, kind));
  }
}

void print_tried(stall_findings const& found) {
  if (!found.about_try.empty())
    std::printf("\n--try: %s\n", detail::printable(found.about_try).c_str());
  if (!found.tried) return;
  auto const& before = found.runs[found.advised].loop;
  auto const& after = found.tried->loop;
  std::printf("\ntried with the best plans\n\n  %4s %-14s %8s %11s %11s %11s\n", "", "", "bytes",
              "before", "predicted", "measured");
  for (std::size_t k = 0; k < after.buckets.size(); ++k) {
    auto const& bucket = before.buckets[k];
    auto const predicted = scaled_time(bucket, found.advice->buckets[k].ratio_of_best());
    std::printf("  %4zu %-14s %8s %11s %11s %11s\n", k + 1,
                detail::printable(bucket.collective).c_str(), size_of(bucket).c_str(),
                duration_in_words(bucket.time).c_str(), duration_in_words(predicted).c_str(),
                duration_in_words(after.buckets[k].time).c_str());
  }
  std::printf("  %4s %-14s %8s %11s %11s %11s\n", "", "iteration", "",
              duration_in_words(before.iteration).c_str(),
              duration_in_words(with_best(before, *found.advice)).c_str(),
              duration_in_words(after.iteration).c_str());
}

json to_json(stall_run const& run) {
  auto const& loop = run.loop;
  json buckets = json::array(), links = json::array();
  for (auto const& bucket : loop.buckets) {
    buckets.push_back({{"collective", bucket.collective},
                       {"bytes", bucket.bytes},
                       {"way", bucket.is_eager ? "eager" : "trees"},
                       {"us", bucket.time},
                       {"share", share_of(bucket.time, loop.iteration)},
                       {"mean_us", bucket.mean},
                       {"waited_for_peers_us", bucket.for_peers},
                       {"waited_to_receive_us", bucket.to_receive},
                       {"waited_to_send_us", bucket.to_send},
                       {"busiest_link", bucket.busiest}});
  }
  auto const used = links_of(loop);
  for (auto const& [name, use] : used.links) {
    json link{
        {"link", name},
        {"bytes", use.bytes},
        {"gigabytes_per_second", share_of(static_cast<double>(use.bytes), used.seconds) * 1e-9}};
    if (use.bytes_per_second > 0) link["rate"] = use.bytes_per_second * 1e-9;
    links.push_back(std::move(link));
  }
  return {{"run", run.name},
          {"ranks", run.ranks},
          {"calls", loop.all_calls},
          {"other_calls", run.other_calls},
          {"first_call", loop.found.first},
          {"calls_per_iteration", loop.found.period},
          {"iterations", loop.found.iterations()},
          {"counted_iterations", loop.counted},
          {"iteration_us", loop.iteration},
          {"buckets", std::move(buckets)},
          {"links", std::move(links)},
          {"verdict", verdict_of(loop)}};
}

json to_json(stall_time const& stall) {
  return {{"us", stall.microseconds}, {"share", stall.share}};
}

json to_json(predicted_plan const& plan) {
  json result{{"plan", plan.name.empty() ? json() : json(plan.name)}};
  result["us"] = plan.seconds > 0 ? json(plan.seconds * 1e6) : json();
  return result;
}

json advice_to_json(stall_findings const& found) {
  auto const& advice = *found.advice;
  auto const& loop = found.runs[found.advised].loop;
  json buckets = json::array(), faster = json::object();
  for (auto const& each : advice.buckets) {
    json with = json::object();
    for (auto const& [kind, seconds] : each.with_faster) with[kind] = seconds * 1e6;
    buckets.push_back({{"in_use", to_json(each.in_use)},
                       {"best", to_json(each.best)},
                       {"us_with_links_twice_as_fast", std::move(with)}});
  }
  for (auto const& kind : advice.link_kinds) faster[kind] = with_faster(loop, advice, kind);
  return {{"machine", advice.machine},
          {"run", found.runs[found.advised].name},
          {"buckets", std::move(buckets)},
          {"iteration_us_with_best_plans", with_best(loop, advice)},
          {"iteration_us_with_links_twice_as_fast", std::move(faster)}};
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
  json runs = json::array();
  for (auto const& run : found.runs) runs.push_back(to_json(run));
  json result{{"blink_stalls", 1},
              {"program", found.program},
              {"runs", std::move(runs)},
              {"remarks", found.remarks}};
  if (found.interconnect) result["interconnect_stall"] = to_json(*found.interconnect);
  if (found.network) result["network_stall"] = to_json(*found.network);
  if (found.advice) result["advice"] = advice_to_json(found);
  if (!found.advice) result["no_advice"] = found.no_advice;
  if (found.tried) result["tried"] = to_json(*found.tried);
  if (!found.about_try.empty()) result["about_try"] = found.about_try;
  return result;
}

}  // namespace blink::tools
