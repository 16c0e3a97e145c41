// SPDX-License-Identifier: Apache-2.0
#include <blink/core/detail/input_text.hpp>
#include <blink/drawing/picture.hpp>
#include <blink/planning/choose_plan.hpp>
#include <blink/planning/plan/groups_file.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan/plan_file.hpp>
#include <blink/reducers/detail/block_tree.hpp>
#include <blink/schedule/tuning_file.hpp>
#include <blink/topology/connectivity.hpp>

#include "arguments.hpp"
#include "checked_plan.hpp"
#include "commands.hpp"
#include "export_plan.hpp"
#include "number_checks.hpp"
#include "plan_comparison.hpp"
#include "plan_groups.hpp"
#include "plan_hints.hpp"
#include "plan_repair.hpp"
#include "plan_sizes.hpp"
#include "progress.hpp"
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

struct plan_arguments : machine_choice {
  std::string collective = "all_reduce";
  std::string root = "best";
  std::string destinations;
  std::string planner = planned_by::exact;
  std::string out;
  std::string svg;
  bool compare = false;
  bool all = false;
  std::string bytes = "0";
  double slow_start_microseconds = 0;
  size_options sizes;
  table_files files;  // of the table that is printed instead of a plan, or beside it
  hint_options hints;
  export_options exports;
  std::string repair;
  std::string groups;
  std::size_t blocks = 0;
  double seconds = 30;
  std::string memory = "1G";

  [[nodiscard]] work_budget budget() const {
    auto const room = read_bytes("--memory", memory);
    if (room == 0) throw input_error("--memory 0: expected more than 0 bytes");
    return {seconds, static_cast<double>(room)};
  }
};

std::string edge_text(tree_edge const& edge) {
  auto text = std::to_string(edge.from);
  for (std::size_t i = 1; i < edge.path.size(); ++i) text += ">" + std::to_string(edge.path[i]);
  return text;
}

std::string edges_text(std::vector<tree_edge> const& edges) {
  std::string text;
  for (auto const& edge : edges) text += (text.empty() ? "" : " ") + edge_text(edge);
  return text;
}

// Of more than this many, there is a summary.
constexpr std::size_t most_trees = 64;

void print_trees(plan const& p) {
  bool const moves_data = p.rate > rational(0);
  std::printf("  %4s %5s %10s %7s %6s  %s\n", "tree", "root", "weight", "share", "height", "edges");
  for (std::size_t i = 0; i < p.trees.size(); ++i) {
    auto const& t = p.trees[i];
    std::printf("  %4zu %5d %10s %6.2f%% %6d ", i, t.root, t.weight.to_text().c_str(),
                moves_data ? 100 * ratio(t.weight, p.rate) : 0, height(t));
    if (!t.reduce.empty()) std::printf(" up: %s", edges_text(t.reduce).c_str());
    if (!t.broadcast.empty()) std::printf(" down: %s", edges_text(t.broadcast).c_str());
    std::printf("\n");
  }
}

/// Prints the trees of each weight and height in one line.
void summarize_trees(plan const& p) {
  struct alike {
    std::size_t trees = 0;
    std::set<int> roots{};
  };
  std::map<std::pair<rational, int>, alike> kinds;
  for (auto const& t : p.trees) {
    auto& kind = kinds[{t.weight, height(t)}];
    ++kind.trees;
    kind.roots.insert(t.root);
  }
  std::printf("  %7s %7s %12s %7s %6s\n", "trees", "roots", "weight", "share", "height");
  std::size_t printed = 0;
  for (auto kind = kinds.rbegin(); kind != kinds.rend() && printed < most_trees; ++kind) {
    auto const& [weight, levels] = kind->first;
    auto const count = static_cast<std::int64_t>(kind->second.trees);
    std::printf("  %7zu %7zu %12s %6.2f%% %6d\n", kind->second.trees, kind->second.roots.size(),
                weight.to_text().c_str(), 100 * static_cast<double>(count) * ratio(weight, p.rate),
                levels);
    ++printed;
  }
  if (printed < kinds.size()) std::printf("  and %zu more kinds\n", kinds.size() - printed);
  std::printf("  (--all shows each tree)\n");
}

/// Returns text such as "44.3 MB", to three digits.
std::string about_bytes(double bytes) {
  char const* const units[] = {"B", "kB", "MB", "GB"};
  int unit = 0;
  for (; unit < 3 && bytes >= 1000; ++unit) bytes /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %s", bytes, units[unit]);
  return text;
}

/// True if the links join all ranks without those that the constraints forbid.
bool joins_without(topology machine, plan_constraints const& constraints) {
  auto const& forbidden = constraints.forbidden_links;
  std::erase_if(machine.links, [&](link const& l) {
    std::pair const ends(machine.nodes[static_cast<std::size_t>(l.tail)].id,
                         machine.nodes[static_cast<std::size_t>(l.head)].id);
    return std::find(forbidden.begin(), forbidden.end(), ends) != forbidden.end();
  });
  return rank_groups(machine).size() < 2;
}

/// The plan on the fastest kind of link beside the plan on all links.
struct kinds_of_links {
  allocation place;
  plan_and_report planned;
  std::string other;     ///< what the plan that is not shown would give, in words; empty: no more
  rational whole_bound;  ///< of all links; 0 if it was not computed
};

/// Plans on the links of `place` and, if --links auto has left some out, on all links. Takes the
/// plan on all links if the buffer of --bytes is so large that it is faster by the cost model.
kinds_of_links plan_on_kinds(allocation place, plan_request const& request,
                             plan_arguments const& options) {
  constexpr std::size_t most_ranks = 64;  // more take the second plan long
  kinds_of_links result{std::move(place), {}, {}, {}};
  result.planned = checked_plan(result.place, request);
  auto const& p = result.planned.plan;
  if (options.links != "auto" || result.place.links.empty() || p.rate == rational(0) ||
      p.ranks.size() > most_ranks || request.planner == planned_by::hybrid) {
    return result;
  }
  auto everything = part_of(result.place.whole, options.on_all_links());
  if (everything.machine.links.size() == result.place.machine.links.size()) return result;
  std::optional<plan_and_report> on_all;
  try {
    auto fixed = request;
    if (has_one_root(p.collective)) fixed.root = p.trees.front().root;
    on_all = checked_plan(everything, fixed);
  } catch (error const&) {  // no plan on all links
    return result;
  }
  result.whole_bound = on_all->plan.bound;
  if (on_all->plan.rate <= p.rate) return result;
  std::string from;
  bool takes_all = false;
  try {
    auto const parameters = options.sizes.cost.parameters();
    plan_candidates both;
    both.plans.push_back({p, cost_of(result.place.machine, p, parameters)});
    both.plans.push_back({on_all->plan, cost_of(everything.machine, on_all->plan, parameters)});
    auto const changes = crossovers(both, 1, std::int64_t{1} << 50);
    if (changes.back().candidate == 0) return result;
    from = changes.size() == 1 ? ", and are faster at every size"
                               : ", and are faster from " +
                                     about_bytes(static_cast<double>(changes.back().bytes)) + " on";
    takes_all =
        request.bytes > 0 && fastest(both, static_cast<double>(request.bytes)).candidate == 1;
  } catch (input_error const&) {  // a unit without a known rate: no sizes
  }
  char gain[32];
  std::snprintf(gain, sizeof gain, "%.1f %%", 100 * (ratio(on_all->plan.rate, p.rate) - 1));
  if (takes_all) {
    result.other =
        p.links + " alone gives " + in_words(p.rate, p.unit) + "; all links give " + gain + " more";
    result.planned = std::move(*on_all);
    result.place = std::move(everything);
  } else {
    result.other = "all links give " + in_words(on_all->plan.rate, p.unit) + ", " + gain + " more" +
                   from + " (--links all)";
  }
  return result;
}

/// asked:       the planner that was asked for
/// other_links: what the plan on other links would give
/// whole_bound: the bound of all links, if known
void print_plan(topology const& machine, plan_and_report const& planned, bool all,
                std::string const& asked, std::string const& other_links = {},
                rational const& whole_bound = 0) {
  auto const& p = planned.plan;
  std::printf("collective   %s over %zu ranks: %s\n", std::string(to_text(p.collective)).c_str(),
              p.ranks.size(), in_words(p.ranks).c_str());
  std::printf("machine      %s%s\n", detail::printable(machine.name).c_str(),
              p.links.empty() ? "" : (", links: " + p.links + " only").c_str());
  if (!other_links.empty()) std::printf("             %s\n", other_links.c_str());
  for (auto const& remark : machine.remarks)
    std::printf("remark       %s\n", detail::printable(remark).c_str());
  bool const is_instead = is_substitute(p, asked);
  std::printf("planner      %s%s\n", p.planner.c_str(),
              is_instead ? ", because the budget was spent (--time, --memory)" : "");
  if (p.trees.empty()) {
    std::printf("%s: nothing to move\n", p.ranks.size() == 1 ? "one rank" : "all stay");
    return;
  }
  std::printf("rate         %s\n",
              p.rate > rational(0) ? in_words(p.rate, p.unit).c_str() : "none: signals only");
  if (p.bound > rational(0)) {
    std::printf("bound        %s%s, rate/bound %s\n", in_words(p.bound, p.unit).c_str(),
                p.links.empty() ? "" : (" of " + p.links + " links").c_str(),
                share_of_bound(p.rate, p.bound).c_str());
    if (whole_bound > p.bound) {
      std::printf("             %s of all links\n", in_words(whole_bound, p.unit).c_str());
    }
    std::printf("certificate  %s\n", in_words(p.proof).c_str());
  }
  std::printf("trees        %zu, height %d\n\n", p.trees.size(), max_height(p));
  if (all || p.trees.size() <= most_trees) {
    print_trees(p);
  } else {
    summarize_trees(p);
  }
  print_loads(detail::member_view(machine, p).capacity, planned.report.load, all);
}

/// Returns the planners, one on each line.
std::string planner_list() {
  std::string text = "one of";
  for (auto const& [name, about] : all_planners()) text += "\n" + name + ": " + about;
  return text;
}

/// Prints the rate of an all-reduce of `blocks` blocks in their own order (`all_reduce_blocks`).
void print_block_order(allocation const& place, plan const& unordered, std::size_t blocks,
                       work_budget const& budget) {
  auto const ranks = unordered.ranks.size();
  auto const most = detail::nodes_by_rank(ranks, blocks).most;
  if (ranks == 2 && most == 1) {
    std::printf("order        %zu blocks: as an all_reduce, at its rate\n", blocks);
    return;
  }
  auto const rate_of = [&](collective kind) {
    plan_request request{kind, {}, planned_by::exact};
    request.budget = budget;
    return checked_plan(place, request).plan.rate.to_double();
  };
  auto const exchanged = rate_of(collective::all_to_all),
             gathered = rate_of(collective::all_gather);
  auto const rate = 1 / (static_cast<double>(most) / exchanged + 1 / gathered);
  std::printf(
      "order        %zu blocks: totals of a rank: at most %zu, as an all_to_all of %.4g %s each,\n"
      "             then an all_gather of %.4g %s: %.4g %s, %.1f %% of the rate above\n",
      blocks, most, exchanged, detail::printable(unordered.unit).c_str(), gathered,
      detail::printable(unordered.unit).c_str(), rate, detail::printable(unordered.unit).c_str(),
      100 * rate / unordered.rate.to_double());
}

void write_outputs(topology const& machine, plan const& p, plan_arguments const& options) {
  if (!options.out.empty()) {
    write_plan_file(p, options.out);
    std::printf("\nplan written to %s\n", options.out.c_str());
  }
  if (!options.sizes.algorithms.empty()) {
    auto plan = make_schedule(machine, p, options.sizes.cost.rate_of_unit(machine));
    write_tuning_file(options.sizes.algorithms,
                      {only_algorithm(p.collective, p.planner, std::move(plan))});
    std::printf("\ntuning table written to %s\n", options.sizes.algorithms.c_str());
  }
  export_plan(machine, p, options.exports,
              static_cast<std::int64_t>(read_bytes("--bytes", options.bytes)));
  if (!options.svg.empty()) {
    detail::write_text(options.svg, draw_svg(machine, p));
    std::printf("\npicture written to %s\n", options.svg.c_str());
  }
}

/// Throws: input_error if --json or --csv is given for a plan without hints that prints no table.
void expect_table(plan_arguments const& options, collective kind) {
  auto const& files = options.files;
  if (!files.are_requested() || !options.sizes.sizes.empty() || options.hints.frontier > 0) return;
  std::string const option = files.json.empty() ? "--csv" : "--json";
  if (!options.compare) {
    throw input_error(option +
                      ": found without a table, expected --sizes, --compare, --frontier, --groups "
                      "or hints beside it");
  }
  if (!has_spanning_trees(kind)) {
    throw input_error(option + ": no other planner plans " + std::string(to_text(kind)) +
                      ", expected a collective along spanning trees beside --compare");
  }
}

void run_plan(plan_arguments const& options) {
  if (options.blocks > 0 && read_collective(options.collective) != collective::all_reduce) {
    throw input_error("--blocks: expected an all_reduce, found " + options.collective);
  }
  if (!options.repair.empty()) {
    auto const again = show_repair(options, options.repair, options.budget());
    auto const& p = again.planned.plan;
    print_plan(again.place.machine, again.planned, options.all, p.planner);
    return write_outputs(again.place.machine, again.planned.plan, options);
  }
  plan_request request;
  request.collective = read_collective(options.collective);
  request.planner = options.planner;
  request.root = read_root(options.root);
  if (!options.destinations.empty()) {
    request.destinations = read_ids("--to", options.destinations);
  }
  request.bytes = static_cast<std::int64_t>(read_bytes("--bytes", options.bytes));
  request.slow_start_seconds = options.slow_start_microseconds * 1e-6;
  request.budget = options.budget();
  if (!options.groups.empty()) {
    // ways are checked for each group
    auto const place = read_allocation(options, collective::broadcast);
    auto const groups = read_groups_option(options.groups, place.machine, request.collective);
    auto const planned =
        show_groups(place, groups, options.budget(), options.compare, options.all, options.files);
    if (options.out.empty()) return;
    write_groups_file(planned, options.out);
    std::printf("\nplans written to %s\n", options.out.c_str());
    return;
  }
  request.constraints = options.hints.options();
  bool const hinted = !request.constraints.empty();
  if (!hinted) expect_table(options, request.collective);
  auto place = read_allocation(options, request.collective);
  if (options.links == "auto" && !joins_without(place.machine, request.constraints)) {
    place = part_of(place.whole, options.on_all_links());
  }
  if (options.blocks > 0) {
    detail::expect_blocks(options.blocks, place.machine.rank_positions().size());
  }
  if (!options.sizes.sizes.empty()) return show_sizes(place, request, options.sizes, options.files);
  if (options.hints.frontier > 0)
    return show_frontier(place.machine, request, options.hints.frontier, options.files);
  progress bar("planning", 0, options.seconds);
  auto const made =
      hinted ? kinds_of_links{place, plan_with_hints(place, request, options.files), {}, {}}
             : plan_on_kinds(std::move(place), request, options);
  bar.clear();
  auto const& p = made.planned.plan;
  print_plan(made.place.machine, made.planned, options.all, request.planner, made.other,
             made.whole_bound);
  if (options.blocks > 0 && !p.trees.empty()) {
    print_block_order(made.place, p, options.blocks, request.budget);
  }
  if (has_spanning_trees(p.collective) && !hinted) {
    show_comparison(made.place, p, request.budget, options.compare, options.files);
  }
  write_outputs(made.place.machine, p, options);
}

/// Refuses options that would be ignored beside another.
void refuse_ignored_options(CLI::App& command) {
  std::vector<std::string> const hints = {"--hints", "--max-trees", "--max-height", "--weight-unit",
                                          "--trees-per-root"};
  std::vector<std::string> const files = {"--svg", "--msccl", "--mscclpp", "--goal", "--chakra"};
  auto const refuse = [&](std::string const& mode, std::vector<std::string> const& others) {
    for (auto const& other : others) {
      command.get_option(mode)->excludes(command.get_option(other));
    }
  };
  for (auto const* const mode : {"--sizes", "--frontier"}) {
    refuse(mode, files);
    refuse(mode, {"--out", "--compare", "--all", "--blocks", "--repair", "--groups", "--bytes"});
  }
  refuse("--sizes", hints);
  refuse("--frontier", hints);
  refuse("--frontier", {"--sizes", "--planner", "--root", "--to", "--tuning"});
  refuse("--groups", files);
  refuse("--groups", hints);
  refuse("--groups", {"--repair", "--root", "--to", "--planner", "--tuning", "--blocks"});
  // The old plan fixes them.
  refuse("--repair", {"--collective", "--root", "--to", "--planner", "--blocks", "--compare"});
  refuse("--repair", hints);
  refuse("--repair", {"--json", "--csv"});
  refuse("--compare", hints);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto options = std::make_shared<plan_arguments>();
  auto* command =
      app.add_subcommand("plan",
                         "Plan a collective: trees, rate, proven bound, load on each link.\n"
                         "The plan is checked by independent code before it is shown or written.");
  add_machine_options(*command, *options, "that take part")->required();
  command
      ->add_option("--collective,-c", options->collective,
                   "broadcast, reduce, all_reduce, all_gather, reduce_scatter, gather, scatter,\n"
                   "all_to_all, send_to_next, permute or barrier")
      ->capture_default_str();
  command
      ->add_option("--root", options->root,
                   "id of the root of a broadcast, reduce, gather or scatter, or best")
      ->capture_default_str();
  command->add_option("--to", options->destinations,
                      "for permute: where each rank sends, such as 1,2,0; itself: nowhere");
  command->add_option("--planner,-p", options->planner, planner_list())->capture_default_str();
  command
      ->add_option("--links", options->links,
                   "kind of link to use (nvlink, xgmi, pcie, ...), all, or auto: the fastest kind\n"
                   "that joins all ranks by itself; says what all links would give")
      ->capture_default_str();
  add_output_option(*command, "--out,-o", options->out,
                    "write the plan file (JSON, format 1) here");
  add_output_option(*command, "--svg", options->svg, "draw machine, trees and loads here");
  command
      ->add_option(
          "--bytes", options->bytes,
          "size of the buffer, such as 64M, for --goal and --chakra, for --planner hybrid, and "
          "for\n"
          "--links auto to take all links where that is faster; 0: large for hybrid, the fastest\n"
          "kind for auto")
      ->capture_default_str();
  command
      ->add_option("--slow-start-us", options->slow_start_microseconds,
                   "for --planner hybrid: microseconds by which the slow kind of link starts later")
      ->check(number_from_0())
      ->capture_default_str();
  command->add_flag("--compare", options->compare, "also show what every other planner gets");
  command->add_flag("--all", options->all, "show each tree and link, not a summary of hundreds");
  add_export_options(*command, options->exports);
  command->add_option(
      "--repair", options->repair,
      "repair this plan file for MACHINE as it is now: as good as a fresh plan, with\n"
      "as many of the old trees as may stay; says what changed");
  command->add_option(
      "--groups", options->groups,
      "plan groups of ranks that run at the same time, with fair rates: 0-3/4-7, each with\n"
      "a collective of its own as all_to_all:0-3/4-7; or of=8: 8 ranks in a row in each;\n"
      "or across=8: 8 groups, of every eighth rank; with --compare what each gets alone");
  command->add_option(
      "--blocks", options->blocks,
      "also the rate of an all_reduce whose sums have the order of this many blocks, and so\n"
      "the same bits on every number of ranks that divides it (all_reduce_blocks)");
  command
      ->add_option("--time", options->seconds,
                   "seconds for planning; then the best plan so far is the result")
      ->check(positive_number())
      ->capture_default_str();
  command
      ->add_option("--memory", options->memory,
                   "memory for planning, such as 512M; then the best plan so far is the result")
      ->capture_default_str();
  add_hint_options(*command, options->hints);
  add_size_options(*command, options->sizes);
  add_table_files(*command, options->files,
                  "of --sizes, --frontier, --compare, --groups or hints: ");
  refuse_ignored_options(*command);
  command->callback([options] { run_plan(*options); });
}

}  // namespace blink::tools
