// SPDX-License-Identifier: Apache-2.0
#include <blink/core/detail/input_text.hpp>
#include <blink/drawing/picture.hpp>
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/plan/plan_file.hpp>
#include <blink/topology/subset.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "number_checks.hpp"
#include "recorded_calls.hpp"
#include "report/report_data.hpp"
#include "report/report_inputs.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

using nlohmann::json;

/// Writes one trace of all ranks, for chrome://tracing and Perfetto.
void write_trace(std::string const& name, calls_of_ranks const& calls) {
  auto const offset = clock_of_hosts(calls);
  std::map<std::string, int> number;
  for (auto const& [host, end] : offset) number.emplace(host, static_cast<int>(number.size()));
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
                        {"ts", call.begin - offset.at(host)},
                        {"dur", call.time},
                        {"args", call.all}});
    }
  }
  blink::detail::write_text(name, json{{"traceEvents", std::move(events)}}.dump() + "\n");
}

struct report_options : plan_choice {
  std::vector<std::string> inputs;
  std::string trace, html, json, csv, pictures, before;
  std::string bytes = "64M";
  bool may_replace = false;
  double seconds = 10;
  cost_options cost;

  [[nodiscard]] bool has_outputs() const {
    return !html.empty() || !json.empty() || !csv.empty() || !pictures.empty();
  }
  /// True if standard output gets the page or its data, so that nothing else may be there.
  [[nodiscard]] bool is_piped() const { return html == "/dev/stdout" || json == "/dev/stdout"; }
};

void print_records(calls_of_ranks const& calls) {
  auto const summary = summary_of(calls);
  std::printf("%zu calls of %zu ranks\n\n  %-16s %8s %12s %8s %8s %8s %8s\n", summary.count,
              calls.size(), "", "calls", "mean", "peers", "receive", "send", "moving");
  for (auto const& [name, sum] : summary.by_collective) {
    std::printf("  %-16s %8zu %12s %7.1f%% %7.1f%% %7.1f%% %7.1f%%\n",
                blink::detail::printable(name).c_str(), sum.calls / calls.size(),
                duration_in_words(sum.time / static_cast<double>(sum.calls)).c_str(),
                sum.share(sum.peers), sum.share(sum.receive), sum.share(sum.send),
                sum.share(sum.moving()));
  }
  print_links(links_of(calls, summary.count));
  std::string line;
  for (auto const& part : verdict_of(calls, summary)) line += (line.empty() ? "" : "; ") + part;
  std::printf("\n%s\n", line.c_str());
}

plan_and_report read_given_plan(std::string const& text, std::string const& file,
                                topology const& machine) {
  plan_and_report result{read_plan(text, file), {}};
  result.report = check_plan(machine, result.plan);
  if (!result.report) {
    throw input_error(file + ": does not fit the machine '" + machine.name +
                      "': " + *result.report.fault + ", expected a plan that was made for it");
  }
  return result;
}

/// A picture of a plan, alone or on a page; empty for very large machines.
std::string drawing_of(topology const& machine, plan const& p, bool for_page) {
  constexpr std::size_t most_nodes = 300;  // of more, numbers hide each other
  picture_options options;
  options.for_page = for_page;
  return machine.nodes.size() > most_nodes ? std::string() : draw_svg(machine, p, options);
}

struct made_report {
  report_json data;
  std::string drawing;
  std::vector<report_file> pictures;
};

/// The sentence of a plan: its rate, its bound and its ring.
std::string sentence_of(plan_and_ring const& plans) {
  auto const& p = plans.planned.plan;
  if (p.trees.empty()) return "One rank: nothing to move.";
  if (p.rate == rational(0)) return "A barrier moves no data.";
  auto text = std::to_string(p.trees.size()) +
              (p.trees.size() == 1 ? " tree moves " : " trees move ") + in_words(p.rate, p.unit);
  if (plans.planned.report.bound) {
    text += ", " + share_of_bound(p.rate, *plans.planned.report.bound) + " of the proven bound";
  }
  if (plans.ring && plans.ring->rate > rational(0)) {
    char gain[40];
    std::snprintf(gain, sizeof gain, "%.3g", ratio(p.rate, plans.ring->rate));
    text +=
        "; " + std::string(gain) + " times the best ring, " + in_words(plans.ring->rate, p.unit);
  }
  return text + ".";
}

made_report report_plan(report_options const& options, report_inputs const& inputs, progress& bar) {
  machine_choice choice = options;
  choice.machine = *inputs.machine;
  plan_report_settings settings;
  settings.choice = choice;
  settings.cost = options.cost;
  settings.bytes = static_cast<double>(read_bytes("--bytes", options.bytes));
  if (settings.bytes < 1) throw input_error("--bytes 0: expected at least 1 byte");
  settings.budget.seconds = options.seconds;
  settings.request = options.request();
  settings.request.budget.seconds = options.seconds;
  auto whole = choice.read();
  allocation place;
  plan_and_report planned;
  if (inputs.plan) {
    place = part_of(std::move(whole), choice.on_all_links());
    planned = read_given_plan(inputs.plan_text, *inputs.plan, place.whole);
    place.links = planned.plan.links;
    settings.choice.links = place.links.empty() ? "all" : place.links;
    auto const kind = planned.plan.links;
    if (!kind.empty()) place.machine = only_links(place.machine, read_link_kind(kind));
  } else {
    place = allocation_of(std::move(whole), choice, settings.request.collective);
    planned = checked_plan(place, settings.request);
  }
  std::optional<plan_and_report> before;
  if (!options.before.empty()) {
    auto const text = detail::file_text(options.before, "a plan file");
    before = read_given_plan(text, options.before, place.whole);
    if (before->plan.collective != planned.plan.collective) {
      throw input_error(options.before + ": plans " +
                        std::string(to_text(before->plan.collective)) + ", expected " +
                        std::string(to_text(planned.plan.collective)));
    }
  }
  auto const plans = beside_ring(place, std::move(planned));
  auto const& p = plans.planned.plan;
  made_report result;
  auto& data = result.data;
  data["title"] = std::string(to_text(p.collective)) + " on " + place.whole.name;
  data["sentence"] = sentence_of(plans);
  describe_machine(data, p.ranks.empty() ? place.whole : subset(place.whole, p.ranks));
  describe_plan(data, place, plans);
  describe_times(data, place, plans, settings, bar);
  describe_changes(data, place, plans.planned, settings, bar);
  if (before) describe_difference(data, *before, plans.planned, place.whole);
  result.drawing = drawing_of(place.machine, p, true);
  if (!options.pictures.empty()) {
    plan bare = p;
    bare.trees.clear();
    result.pictures = {{options.pictures + "/machine.svg", drawing_of(place.machine, bare, false)},
                       {options.pictures + "/plan.svg", drawing_of(place.machine, p, false)}};
    for (std::size_t i = 0; i < p.trees.size(); ++i) {
      auto one = p;
      one.trees = {p.trees[i]};
      result.pictures.push_back({options.pictures + "/tree_" + std::to_string(i + 1) + ".svg",
                                 drawing_of(place.machine, one, false)});
    }
  }
  return result;
}

made_report report_program(report_options const& options, report_inputs const& inputs) {
  made_report result;
  std::optional<topology> machine;
  if (inputs.machine) {
    machine_choice choice = options;
    choice.machine = *inputs.machine;
    machine = part_of(choice.read(), choice.on_all_links()).machine;
    describe_machine(result.data, *machine);
    plan bare;  // no trees: the machine alone
    bare.unit = machine->unit;
    result.drawing = drawing_of(*machine, bare, true);
  }
  describe_program(result.data, inputs.program_text, *inputs.program, machine);
  return result;
}

void write_report(report_options const& options, made_report made) {
  made.data["blink_report"] = 1;
  std::vector<report_file> files;
  if (!options.html.empty()) files.push_back({options.html, report_page(made.data, made.drawing)});
  if (!options.json.empty()) files.push_back({options.json, report_text(made.data) + "\n"});
  if (!options.csv.empty()) {
    for (auto& each : report_csv(made.data, options.csv)) files.push_back(std::move(each));
  }
  for (auto& each : made.pictures) files.push_back(std::move(each));
  write_report_files(files, options.may_replace);
  for (auto const& file : files) {
    if (!file.path.starts_with("/dev/")) {
      std::fprintf(options.is_piped() ? stderr : stdout, "written: %s\n",
                   detail::printable(file.path).c_str());
    }
  }
}

void run_report(report_options options) {
  auto const inputs = sort_inputs(options.inputs);
  progress bar("planning");
  if (!inputs.records.empty()) {
    if (!options.before.empty() || !options.pictures.empty()) {
      throw input_error("report: --diff or --pictures beside records, expected a machine");
    }
    auto const calls = read_records(inputs.records);
    print_records(calls);
    if (!options.trace.empty()) write_trace(options.trace, calls);
    made_report made;
    describe_records(made.data, calls);
    return write_report(options, std::move(made));
  }
  if (!options.trace.empty()) {
    throw input_error("report: --trace without records of calls, expected files of them");
  }
  if (inputs.program && (!options.before.empty() || !options.pictures.empty())) {
    throw input_error("report: --diff or --pictures beside a program, expected a machine");
  }
  if (!options.has_outputs()) options.html = "report.html";
  auto made = inputs.program ? report_program(options, inputs) : report_plan(options, inputs, bar);
  bar.clear();
  std::fprintf(options.is_piped() ? stderr : stdout, "%s\n%s\n",
               detail::printable(made.data.at("title").get<std::string>()).c_str(),
               detail::printable(made.data.at("sentence").get<std::string>()).c_str());
  write_report(options, std::move(made));
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto options = std::make_shared<report_options>();
  auto* command = app.add_subcommand(
      "report",
      "Write one HTML page, without other files or a network, about a machine and its plan, a\n"
      "plan file, a program of another runtime, or records of calls. The contents decide, not\n"
      "the names.\n"
      "  blink report MACHINE                  plan, proof, times, sets of ranks, changes\n"
      "  blink report MACHINE PLAN             the same of a plan file\n"
      "  blink report PROGRAM [MACHINE]        MSCCL, MSCCL++, GOAL or Chakra: verdict and steps\n"
      "  blink report calls.*.jsonl            late ranks and slow links, printed; -o: the page\n"
      "Records hold times by cause, bytes on each link, late ranks, ranks that shared a core.\n"
      "Programs of `blink run` write them with BLINK_RECORD_FILE=calls.%h.%p.jsonl, others if\n"
      "they call record_calls_as_environment_says(), as blink perf does.");
  command
      ->add_option("INPUT", options->inputs,
                   "a machine (blink topo --list, or a file), a plan file, a program, or records\n"
                   "of all ranks of one communicator")
      ->required();
  add_output_option(*command, "--html,-o", options->html,
                    "the page; default: report.html, of records none");
  add_output_option(*command, "--json", options->json, "also write the data of the page");
  command->add_option("--csv", options->csv, "also write each table as a file of this folder");
  command->add_option("--pictures", options->pictures,
                      "also write machine, plan and each tree as SVG into this folder");
  command->add_option("--diff", options->before,
                      "a plan file from before, whose differences are shown");
  add_output_option(*command, "--trace", options->trace,
                    "of records: also write one trace of all ranks, for Perfetto");
  add_reading_options(*command, *options, "that take part");
  add_plan_options(*command, *options);
  command->add_option("--bytes", options->bytes, "size of the buffer on the time line")
      ->capture_default_str();
  command->add_option("--time", options->seconds, "seconds for each plan; then the best one so far")
      ->check(positive_number())
      ->capture_default_str();
  add_cost_options(*command, options->cost);
  command->callback([options, command] {
    options->may_replace = command->count("--force") > 0;
    run_report(*options);
  });
}

}  // namespace blink::tools
