// SPDX-License-Identifier: Apache-2.0
// The published evaluations, computed and simulated: one program, one command.
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>

#include "../../tools/progress.hpp"
#include "figures.hpp"
#include "parts.hpp"
#include <CLI/CLI.hpp>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace blink::bench { namespace {

struct named_part {
  char const* name;
  part_result (*make)();
};

constexpr named_part all_parts[]{
    {"allocations", allocations_part}, {"minimisation", minimisation_part},
    {"switch", switch_part},           {"hybrid", hybrid_part},
    {"servers", servers_part},         {"chunks", chunks_part},
    {"training", training_part},       {"phases", phases_part},
    {"degraded", degraded_part},       {"orders", orders_part},
    {"winners", winners_part}};

struct evaluation_options {
  std::vector<std::string> parts;
  std::string csv;
  std::string json;
  std::string page;
};

/// Throws: input_error if no file can be written into the folder, which is made if it is missing.
void expect_writable(std::string const& option, std::filesystem::path const& folder) {
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  if (std::filesystem::is_directory(folder, fault) && ::access(folder.c_str(), W_OK) == 0) return;
  throw input_error(option + " " + folder.string() + ": expected a folder that can be written");
}

/// Throws: input_error if a file with this name cannot be written. An empty name is none.
void expect_file(std::string const& option, std::string const& name) {
  if (name.empty()) return;
  if (std::filesystem::is_directory(name)) {
    throw input_error(option + " " + name + ": a folder, expected a file");
  }
  auto const folder = std::filesystem::absolute(name).parent_path();
  if (std::filesystem::is_directory(folder) && ::access(folder.c_str(), W_OK) == 0) return;
  throw input_error(option + " " + name + ": expected a file in a folder that can be written");
}

std::string page_head() {
  return "# The published evaluations\n\n" +
         wrapped(
             "`./run --evaluation` makes this page, in half a minute of one core. Every plan "
             "passes `check_plan`. Each column states where its figures come from. Figures of "
             "others are in the last table.") +
         "\n"
         "- computed: from the exact weights of a plan, or by the cost model\n"
         "- simulated: by `simulate`, chunk by chunk\n"
         "- measured: on a real machine; here the rates of links alone\n"
         "- published: a claim of its authors, on their machines\n"
         "- recalled: from memory of Blink's paper (MLSys 2020), so a hint and no quotation\n\n";
}

void run_evaluation(evaluation_options const& options) {
  if (!options.csv.empty()) expect_writable("--csv", options.csv);
  expect_file("--json", options.json);
  expect_file("--table", options.page);
  std::vector<named_part> chosen;
  for (auto const& each : all_parts) {
    if (options.parts.empty() || std::ranges::count(options.parts, each.name) > 0) {
      chosen.push_back(each);
    }
  }
  auto const begin = std::chrono::steady_clock::now();
  tools::progress bar("evaluation", chosen.size());
  std::vector<part_result> results;
  for (auto const& each : chosen) {
    bar.name(each.name);
    auto result = each.make();
    bar.step();
    bar.clear();
    std::fputs(as_text(result).c_str(), stdout);
    std::fflush(stdout);
    results.push_back(std::move(result));
  }
  part_result const last{
      "Beside the figures of others",
      "A figure is met if ours is at least as good. It is not comparable if it was measured where "
      "only a simulation is possible here, or if its machine or data are not at hand.",
      {findings_table(results)},
      {}};
  std::fputs(as_text(last).c_str(), stdout);
  double const seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!options.json.empty()) blink::detail::write_text(options.json, as_json(results, seconds));
  if (!options.page.empty()) {
    auto text = page_head();
    for (auto const& each : results) text += as_markdown(each);
    text += as_markdown(last);
    while (text.ends_with("\n\n")) text.pop_back();
    blink::detail::write_text(options.page, text);
  }
  if (options.csv.empty()) return;
  for (auto const& part : results) {
    for (auto const& each : part.tables) {
      blink::detail::write_text(options.csv + "/" + each.name + ".csv", as_csv(each));
    }
  }
  blink::detail::write_text(options.csv + "/findings.csv", as_csv(last.tables.front()));
}

}}  // namespace blink::bench

int main(int argc, char** argv) {
  blink::bench::evaluation_options options;
  CLI::App app("The published evaluations of Blink and others, computed and simulated.");
  std::vector<std::string> names;
  for (auto const& each : blink::bench::all_parts) names.emplace_back(each.name);
  app.add_option("--part", options.parts, "only these parts; default: all")
      ->check(CLI::IsMember(names))
      ->delimiter(',');
  app.add_option("--csv", options.csv, "write each table as CSV into this folder");
  app.add_option("--json", options.json, "write all tables as JSON to this file");
  app.add_option("--table", options.page,
                 "write the Markdown of docs/results/evaluation.md to this file");
  try {
    app.parse(argc, argv);
    blink::bench::run_evaluation(options);
    if (std::fflush(stdout) != 0) throw blink::input_error("the output cannot be written");
    return 0;
  } catch (CLI::ParseError const& fault) {
    return app.exit(fault) == 0 ? 0 : 2;
  } catch (blink::input_error const& fault) {
    std::fprintf(stderr, "evaluation: %s\n", fault.what());
    return 2;
  } catch (std::exception const& fault) {
    std::fprintf(stderr, "evaluation: %s\n", fault.what());
    return 1;
  }
}
