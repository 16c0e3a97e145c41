// SPDX-License-Identifier: Apache-2.0
#include <blink/collectives/call_records.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan/plan_file.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/schedule/given_tuning.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/schedule/tuning_file.hpp>
#include <blink/schedule/tuning_table.hpp>
#include <blink/topology/topology.hpp>
#include <blink/transports/host/slots.hpp>

#include "arguments.hpp"
#include "checked_plan.hpp"
#include "commands.hpp"
#include "machine_load.hpp"
#include "number_checks.hpp"
#include "perf_engine.hpp"
#include "plain_loops.hpp"
#include "progress.hpp"
#include "table_files.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

struct perf_options : machine_choice {
  std::string collective = "all_reduce";
  std::string root;
  std::string destinations;
  std::string planners = "exact";
  std::string plan;
  std::string algorithms;
  std::string begin;
  std::string end;
  table_files files;
  std::string type = "float";
  std::string op = "sum";
  int factor = 4;
  int rank_count = 0;
  int iterations = 0;
  int warm_up = 2;
  double shaped = 0;
  bool in_place = false;
  bool plain_loops = false;
};

/// One of the tables that are measured and compared.
struct contender {
  std::string name;
  tuning_table algorithms;
  double predicted = 0;  ///< bytes per second by the links; 0: not known
};

constexpr std::size_t kibi = 1024;

std::vector<std::string> split_list(std::string const& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) result.push_back(part);
  return result;
}

contender contend(topology const& machine, plan const& planned, perf_options const& options) {
  contender result;
  result.name = planned.planner;
  double const scale = options.shaped > 0 ? options.shaped : 1;
  auto plan = make_schedule(machine, planned);
  if (plan.trees.empty()) {
    throw input_error(std::string(to_text(planned.collective)) +
                      ": one rank has nothing to send, expected at least two");
  }
  for (auto& rate : plan.link_bytes_per_second) rate *= scale;
  validate(plan);
  if (options.shaped > 0) {
    result.predicted = predicted_bytes_per_second(plan, planned.collective);
  }
  result.algorithms = only_algorithm(planned.collective, result.name, std::move(plan));
  return result;
}

/// Returns the plans for a machine by each requested planner, or from a file.
std::vector<contender> plan_contenders(perf_options const& options, collective kind) {
  auto const place = read_allocation(options, kind);
  std::vector<contender> result;
  if (!options.plan.empty()) {
    auto planned = read_plan_file(options.plan);
    if (planned.collective != kind) {
      throw input_error(options.plan + ": a plan for " + std::string(to_text(planned.collective)) +
                        ", expected one for " + std::string(to_text(kind)));
    }
    auto const report = check_plan(place.whole, planned);
    if (!report) throw input_error(options.plan + ": " + *report.fault);
    result.push_back(contend(place.machine, planned, options));
    return result;
  }
  plan_request request;
  request.collective = kind;
  if (!options.root.empty() && options.root != "best") {
    request.root = read_ids("--root", options.root).at(0);
  }
  if (!options.destinations.empty()) request.destinations = read_ids("--to", options.destinations);
  for (auto const& name : split_list(options.planners)) {
    request.planner = name;
    auto const planned = checked_plan(place, request).plan;
    if (!request.root && !planned.trees.empty() && has_root(kind)) {
      auto const& first = planned.trees.front();  // the other planners use the same
      request.root = kind == collective::gather ? first.members.back() : first.root;
    }
    result.push_back(contend(place.machine, planned, options));
  }
  return result;
}

/// Returns the table for a collective in a file.
contender stored_contender(std::string const& file, collective kind) {
  std::string found;
  for (auto& table : read_tuning_file(file)) {
    if (table.collective == kind) return {"tuning", std::move(table)};
    found += (found.empty() ? "" : ", ") + std::string(to_text(table.collective));
  }
  throw input_error(file + ": algorithms of " + (found.empty() ? "nothing" : found) +
                    ", expected some of " + std::string(to_text(kind)));
}

/// Returns the table for the memory of this machine, which joins every pair of ranks equally well.
contender memory_contender(perf_options const& options, collective kind) {
  int const ranks = options.rank_count > 0
                        ? options.rank_count
                        : static_cast<int>(std::max(2U, std::thread::hardware_concurrency()));
  int const root =
      options.root.empty() || options.root == "best" ? 0 : read_ids("--root", options.root).at(0);
  if (root >= ranks) {
    throw input_error("--root " + options.root + ": expected one of the ranks 0 to " +
                      std::to_string(ranks - 1));
  }
  if (kind == collective::permute) {
    auto const to = read_ids("--to", options.destinations);
    if (to.size() != static_cast<std::size_t>(ranks)) {
      throw input_error("--to: found " + std::to_string(to.size()) + " ranks, expected " +
                        std::to_string(ranks));
    }
    return {"direct", only_algorithm(kind, "direct", permute_schedule(to))};
  }
  // As for calls without a schedule: a table of BLINK_TUNING, else the default of threads.
  detail::tuned_ranks const threads{ranks, direct_transport::name};
  auto const tables = detail::tables_of_environment(threads);
  if (auto const* const table = detail::table_for(tables, threads, kind, root)) {
    return {"tuning", *table};
  }
  return {"default", default_tuning(kind, ranks, root, {true, true})};
}

/// Options for shaped links.
///
/// Chunks cost scheduling on a machine with fewer cores than ranks. An idle rank must leave the
/// cores to other ranks. It sleeps at once, because a rank that yields runs after all else on the
/// machine.
communicator_options shaped_options() {
  communicator_options result;
  result.costs.chunk_seconds = 1e-4;
  result.window = 8;
  result.slot_bytes = 128 * kibi;
  result.waits.spins = 2;
  result.waits.yields = 0;
  result.waits.sleep = std::chrono::microseconds(30);
  return result;
}

void print_head(perf_options const& options, bool names, bool predicts) {
  auto const group = [](char const* where) { std::printf(" %47s", where); };
  std::printf("#");
  if (names) std::printf(" %11s", "");
  std::printf(" %11s %12s %7s %6s %5s", "", "", "", "", "");
  group("out-of-place");
  if (options.in_place) group("in-place");
  std::printf("\n#");
  if (names) std::printf(" %11s", "planner");
  std::printf(" %11s %12s %7s %6s %5s", "size", "count", "type", "redop", "root");
  for (int side = 0; side < (options.in_place ? 2 : 1); ++side) {
    std::printf(" %10s %10s %9s %8s %6s", "time", "least", "algbw", "busbw", "#wrong");
  }
  if (predicts) std::printf(" %9s %7s", "predicted", "reached");
  if (options.plain_loops) std::printf(" %10s %7s", "loops", "speedup");
  std::printf("\n#");
  if (names) std::printf(" %11s", "");
  std::printf(" %11s %12s %7s %6s %5s", "(B)", "(elements)", "", "", "");
  for (int side = 0; side < (options.in_place ? 2 : 1); ++side) {
    std::printf(" %10s %10s %9s %8s %6s", "(us)", "(us)", "(GB/s)", "(GB/s)", "");
  }
  if (predicts) std::printf(" %9s %7s", "(GB/s)", "");
  if (options.plain_loops) std::printf(" %10s %7s", "(us)", "");
  std::printf("\n");
}

void print_side(perf_result const& side) {
  std::printf(" %10.2f %10.2f %9.4f %8.4f %6llu", side.seconds * 1e6, side.least_seconds * 1e6,
              side.algbw * 1e-9, side.busbw * 1e-9, static_cast<unsigned long long>(side.wrong));
}

nlohmann::ordered_json side_json(perf_result const& side) {
  return {{"microseconds", side.seconds * 1e6},
          {"least_microseconds", side.least_seconds * 1e6},
          {"algbw", side.algbw * 1e-9},
          {"busbw", side.busbw * 1e-9},
          {"wrong", side.wrong}};
}

/// Returns the median time of plain loops, by plain or streaming stores, whichever is faster.
double seconds_of_plain_loops(perf_request request) {
  request.in_place = false;
  double result = 0;
  for (auto const stores : {store::plain, store::streams}) {
    request.by_plain_loops = stores;
    double const seconds = measure(request).seconds;
    if (result == 0 || seconds < result) result = seconds;
  }
  return result;
}

void run_perf(perf_options const& options) {
  record_calls_as_environment_says();
  auto const kind = read_collective(options.collective);
  bool const is_shaped = options.shaped > 0;
  if (options.machine.empty()) {
    for (auto const& [given, name] :
         {std::pair{!options.plan.empty(), "--plan"}, std::pair{!options.ranks.empty(), "--ranks"},
          std::pair{is_shaped, "--shaped"}}) {
      if (given) throw input_error(std::string(name) + ": found no MACHINE, expected one");
    }
  } else if (options.rank_count > 0) {
    throw input_error("-g: found with a MACHINE, expected --ranks");
  }
  if (options.plain_loops && (!options.machine.empty() || !has_plain_loops(kind))) {
    throw input_error("--plain-loops: found with " +
                      (options.machine.empty() ? options.collective : "a MACHINE") +
                      ", expected a collective in this memory that combines or moves blocks");
  }
  auto begin = read_bytes("-b", options.begin.empty() ? (is_shaped ? "1M" : "1K") : options.begin);
  auto end = read_bytes("-e", options.end.empty() ? (is_shaped ? "16M" : "64M") : options.end);
  if (begin == 0) throw input_error("-b " + options.begin + ": expected at least 1 byte");
  if (begin > end)
    throw input_error("-b " + options.begin + ": expected at most -e " + options.end);
  if (!moves_data(kind)) begin = end = 1;  // there is one size, 0 bytes
  std::vector<contender> contenders;
  if (options.machine.empty()) {
    contenders.push_back(memory_contender(options, kind));
  } else {
    contenders = plan_contenders(options, kind);
  }
  if (!options.algorithms.empty()) {
    auto stored = stored_contender(options.algorithms, kind);
    int const ranks = contenders[0].algorithms.algorithms[0].source.rank_count;
    int const its_ranks = stored.algorithms.algorithms[0].source.rank_count;
    if (its_ranks != ranks) {
      throw input_error(options.algorithms + ": algorithms for " + std::to_string(its_ranks) +
                        " ranks, expected " + std::to_string(ranks));
    }
    contenders.push_back(std::move(stored));
  }
  bool const names = contenders.size() > 1;
  bool const reduces = has_reduce_phase(kind) && moves_data(kind);

  perf_request request;
  request.type = options.type;
  request.op = options.op;
  request.iterations = options.iterations > 0 ? options.iterations : (is_shaped ? 5 : 20);
  request.warm_up = options.warm_up;
  request.is_shaped = is_shaped;
  if (is_shaped) request.options = shaped_options();
  int const all_ranks = contenders[0].algorithms.algorithms[0].source.rank_count;
  auto const cores = std::max(1U, std::thread::hardware_concurrency());
  request.binds = !is_shaped;

  std::string where;
  if (is_shaped) {
    where =
        ", links of " + options.machine + " times " + nlohmann::ordered_json(options.shaped).dump();
  } else if (!options.machine.empty()) {
    where = ", plans of " + options.machine + " at the speed of this memory";
  }
  if (!contenders[0].algorithms.algorithms[0].source.shares.empty()) {
    where += ", blocks in proportion to the plan's shares";
  }
  std::printf("# blink perf: %s, %d ranks as threads%s\n", std::string(to_text(kind)).c_str(),
              contenders[0].algorithms.algorithms[0].source.rank_count, where.c_str());
  std::printf("# median and least of %d calls after %d, inputs fresh, every element checked\n",
              request.iterations, request.warm_up);
  if (!is_shaped && static_cast<unsigned>(all_ranks) <= cores) {
    std::printf("# each rank is bound to %s\n", static_cast<unsigned>(all_ranks) == cores
                                                    ? "a core of its own"
                                                    : "cores of its own");
  } else {
    std::printf("# %d ranks share %u cores\n", all_ranks, cores);
  }
  if (options.plain_loops) {
    std::printf(
        "# loops: plain loops over all inputs and outputs between two barriers, by plain or\n"
        "# streaming stores, whichever is faster; speedup: their time divided by blink's\n");
  }
  print_head(options, names, is_shaped);

  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::uint64_t wrong = 0;
  auto const factor = static_cast<std::size_t>(options.factor);
  machine_load const load;
  double const used_before = machine_load::own_seconds();
  std::size_t sizes = 0;
  for (std::size_t bytes = begin; bytes <= end; bytes *= factor) ++sizes;
  progress bar("measuring", sizes * contenders.size());
  for (std::size_t bytes = begin; bytes <= end; bytes *= factor) {
    double first_algbw = 0;
    for (auto const& one : contenders) {
      bar.name("measuring " + std::to_string(bytes) + " bytes, " + one.name);
      request.algorithms = one.algorithms;
      request.bytes = moves_data(kind) ? bytes : 0;
      request.in_place = false;
      auto const out_of_place = measure(request);
      std::optional<perf_result> in_place;
      if (options.in_place) {
        request.in_place = true;
        in_place = measure(request);
      }
      bar.step();
      bar.clear();
      int const root = has_root(kind) ? root_of(one.algorithms.algorithms[0].source, kind) : -1;
      std::printf(" ");
      if (names) std::printf(" %11s", one.name.c_str());
      std::printf(" %11zu %12zu %7s %6s %5d", out_of_place.bytes, out_of_place.count,
                  options.type.c_str(), reduces ? options.op.c_str() : "none", root);
      print_side(out_of_place);
      if (in_place) print_side(*in_place);
      double const reached = one.predicted > 0 ? out_of_place.algbw / one.predicted : 0;
      if (is_shaped) std::printf(" %9.4f %6.1f%%", one.predicted * 1e-9, 100 * reached);
      double const loops = options.plain_loops ? seconds_of_plain_loops(request) : 0;
      if (options.plain_loops) {
        std::printf(" %10.2f %7.2f", loops * 1e6, loops / out_of_place.seconds);
      }
      if (first_algbw == 0) {
        first_algbw = out_of_place.algbw;
      } else if (out_of_place.algbw > 0) {
        std::printf("  %s is %.2f times as fast", contenders[0].name.c_str(),
                    first_algbw / out_of_place.algbw);
      }
      std::printf("\n");
      std::fflush(stdout);
      nlohmann::ordered_json row{{"planner", one.name},
                                 {"collective", to_text(kind)},
                                 {"ranks", one.algorithms.algorithms[0].source.rank_count},
                                 {"bytes", out_of_place.bytes},
                                 {"count", out_of_place.count},
                                 {"type", options.type},
                                 {"op", reduces ? options.op : "none"},
                                 {"root", root},
                                 {"out_of_place", side_json(out_of_place)}};
      if (in_place) row["in_place"] = side_json(*in_place);
      if (is_shaped) {
        row["scale"] = options.shaped;
        row["predicted_algbw"] = one.predicted * 1e-9;
        row["reached"] = reached;
      }
      if (options.plain_loops) row["plain_loops_microseconds"] = loops * 1e6;
      rows.push_back(std::move(row));
      wrong += out_of_place.wrong + (in_place ? in_place->wrong : 0);
    }
  }
  double const others = load.cores_of_others(machine_load::own_seconds() - used_before);
  bool const is_busy = machine_load::is_busy(all_ranks, others);
  if (is_busy) {
    std::printf(
        "# other programs used %.1f of %u cores: times are longer than on an idle machine\n",
        others, cores);
  }
  write_table_files(options.files, nlohmann::ordered_json{{"blink_perf", 1},
                                                          {"unit", "GB/s"},
                                                          {"is_busy", is_busy},
                                                          {"cores_of_others", others},
                                                          {"rows", rows}});
  if (wrong > 0) {
    std::fprintf(stderr, "blink: %llu wrong elements\n", static_cast<unsigned long long>(wrong));
    throw CLI::RuntimeError(1);
  }
}

}  // namespace

void add_perf_command(CLI::App& app) {
  auto options = std::make_shared<perf_options>();
  auto* command = app.add_subcommand(
      "perf",
      "Measure a collective among threads of this machine, every element checked against a serial\n"
      "loop. Without a MACHINE the ranks use this machine's memory at full speed. With one they\n"
      "follow its plan; --shaped makes every link as slow as the machine's, scaled.");
  add_machine_options(*command, *options, "of MACHINE that take part");
  command
      ->add_option("--collective,-c", options->collective,
                   "broadcast, reduce, all_reduce, all_gather, reduce_scatter, gather, scatter,\n"
                   "all_to_all, send_to_next, permute (with --to) or barrier")
      ->capture_default_str();
  command
      ->add_option("-g", options->rank_count,
                   "ranks without a MACHINE; default: one for each core, at least 2")
      ->check(CLI::Range(1, 256));
  command->add_option("--root", options->root,
                      "root of a broadcast, reduce, gather or scatter: an id of MACHINE or best,\n"
                      "else a rank");
  command->add_option("--to", options->destinations,
                      "permute: where each rank sends, by id or rank, such as 1,0,3,2");
  command->add_option("--planner,-p", options->planners, "planners to compare, such as exact,ring")
      ->capture_default_str();
  command->add_option("--links", options->links, "kind of link to plan on, all, or auto")
      ->capture_default_str();
  command->add_option("--plan", options->plan, "run this plan file instead of planning");
  command->add_option("--tuning", options->algorithms,
                      "also run the table of this file, such as `blink tune` writes");
  command
      ->add_option("--shaped", options->shaped,
                   "shape the links: their rates times this, such as 0.0005; slow enough for\n"
                   "all ranks to share the cores of this machine")
      ->check(positive_number());
  command->add_option("-b,--begin", options->begin, "smallest size in bytes, such as 8 or 4K");
  command->add_option("-e,--end", options->end, "largest size");
  command->add_option("-f,--factor", options->factor, "factor from size to size")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str();
  command
      ->add_option("-n,--iterations", options->iterations,
                   "measured calls for each size; default 20, shaped 5")
      ->check(CLI::Range(1, 1000000));
  command->add_option("-w,--warm-up", options->warm_up, "calls before the measured ones")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command->add_option("-d,--type", options->type, "int8, uint8, int32, int64, float or double")
      ->check(CLI::IsMember(perf_types))
      ->capture_default_str();
  command->add_option("-o,--op", options->op, "sum, prod, min, max or avg")
      ->check(CLI::IsMember(perf_ops))
      ->capture_default_str();
  command->add_flag("--in-place", options->in_place, "also with the output in the input's place");
  command->add_flag("--plain-loops", options->plain_loops,
                    "also time plain loops over all inputs and outputs, without a MACHINE");
  add_table_files(*command, options->files);
  command->callback([options] { run_perf(*options); });
}

}  // namespace blink::tools
