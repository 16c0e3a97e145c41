// SPDX-License-Identifier: Apache-2.0
// All-reduces of threads over shaped links beside their simulation, on five machines. The links are
// as slow as those of the machine, scaled so that two cores keep up. Chunks and window are those of
// the runtime in both, and no number is fitted.
//
// `ratio` is the median of the measured times divided by the simulated time.

#include <blink/collectives.hpp>
#include <blink/simulation/simulate_call.hpp>
#include <blink/topology/built_in_machines.hpp>
#include <blink/transports/host/threads.hpp>

#include "../collectives/median.hpp"
#include "../training/contenders.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace blink_bench;

constexpr char const* usage =
    "Usage: shaped_bench [OPTIONS]\n"
    "  --calls N     of which the median counts; default 5\n"
    "  --seconds X   of 16 MiB at the plan's rate; default 2\n"
    "  --csv FILE    also write the rows to this file\n";

struct bench_options {
  int calls = 5;
  double seconds = 2;
  std::string csv;
};

constexpr std::size_t smallest_bytes = std::size_t{1} << 24;
constexpr double latency_seconds = 2e-4;  // from the end of sending a chunk to its use

/// Throws: std::runtime_error if the text is no number from `least` on.
double read_number(std::string_view name, std::string const& text, double least) {
  char* end = nullptr;
  double const value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && *end == '\0' && least <= value && value <= 1e6) return value;
  throw std::runtime_error(std::string(name) + " " + text + ": expected a number from " +
                           std::to_string(least) + " to 1e6");
}

bench_options read_options(std::vector<std::string_view> const& arguments) {
  bench_options result;
  for (std::size_t k = 0; k < arguments.size(); k += 2) {
    auto const name = arguments[k];
    if (k + 1 == arguments.size()) throw std::runtime_error(std::string(name) + ": no value");
    std::string const value(arguments[k + 1]);
    if (name == "--calls") {
      result.calls = static_cast<int>(read_number(name, value, 1));
    } else if (name == "--seconds") {
      result.seconds = read_number(name, value, 1e-3);
    } else if (name == "--csv") {
      result.csv = value;
    } else {
      throw std::runtime_error("found " + std::string(name) + ", expected an option\n" + usage);
    }
  }
  return result;
}

/// The machines and their exact plans.
std::vector<contender> all_contenders() {
  namespace planned_by = blink::planned_by;
  std::vector<contender> result{six_gpus().contenders.front(), two_servers().contenders.front()};
  result[0].name = "DGX-1V with GPUs 0 to 5";
  result[1].name = "two DGX-1V with 3 + 5 GPUs";
  for (auto const& [name, machine] :
       {std::pair("DGX-1P", "dgx1p"), std::pair("ring of 6", "ring:6"),
        std::pair("torus 2x4", "torus:2x4")}) {
    result.push_back(
        detail::plan_contender(name, *blink::make_built_in_machine(machine), planned_by::exact));
  }
  return result;
}

/// Ranks that are threads, of which those without work leave the cores to others at once.
blink::communicator_options options_of_ranks() {
  blink::communicator_options result;
  result.costs.chunk_seconds = woken_seconds;
  result.costs.latency_seconds = latency_seconds;
  result.window = chunks_in_flight;
  result.eager_payload = 0;
  result.waits.spins = 2;
  result.waits.yields = 0;
  result.waits.sleep = std::chrono::microseconds(100);
  return result;
}

/// The seconds of each all-reduce, from a begin that all ranks share to the end of the last rank.
///
/// Throws: what the calls throw; std::runtime_error for a wrong sum.
std::vector<double> measured_seconds(blink::schedule const& source, std::size_t count, int calls) {
  using clock = std::chrono::steady_clock;
  blink::shaped_thread_ranks ranks(source.rank_count, options_of_ranks());
  auto& prepared = ranks.prepare(source);
  clock::time_point begin;
  std::vector<clock::time_point> ends(static_cast<std::size_t>(source.rank_count));
  std::vector<double> seconds;
  ranks.run([&](auto& comm) {
    std::vector<float> const in(count, static_cast<float>(comm.rank() + 1));
    std::vector<float> out(count);
    for (int call = -1; call < calls; ++call) {  // the first is not counted
      blink::barrier(comm);
      if (comm.rank() == 0) begin = clock::now() + std::chrono::milliseconds(20);
      blink::barrier(comm);
      std::this_thread::sleep_until(begin);
      blink::all_reduce(comm, prepared, in.data(), out.data(), count, blink::sum{});
      ends[static_cast<std::size_t>(comm.rank())] = clock::now();
      blink::barrier(comm);
      if (comm.rank() == 0 && call >= 0) {
        auto const last = *std::ranges::max_element(ends);
        seconds.push_back(std::chrono::duration<double>(last - begin).count());
      }
      auto const expected =
          static_cast<float>(comm.rank_count()) * static_cast<float>(comm.rank_count() + 1) / 2;
      if (std::ranges::count(out, expected) != std::ssize(out)) {
        throw std::runtime_error("rank " + std::to_string(comm.rank()) + " has a wrong sum");
      }
    }
  });
  return seconds;
}

void run(bench_options const& options, std::ostream& csv) {
  double load[1] = {};
  (void)getloadavg(load, 1);
  std::ostringstream head;
  head << "# 16 MiB in " << options.seconds << " s at the plan's rate, " << options.calls
       << " calls; load " << std::round(10 * load[0]) / 10 << '\n';
  std::fputs(head.str().c_str(), stdout);
  csv << head.str()
      << "machine,ranks,trees,bytes,messages,simulated s,median s,least s,most s,ratio\n";
  std::printf("%-28s %5s %5s %6s %9s %12s %10s %18s %6s\n", "machine", "ranks", "trees", "MiB",
              "messages", "simulated s", "measured s", "least to most", "ratio");
  for (auto const& each : all_contenders()) {
    blink::simulation_options simulated;
    simulated.start_seconds = 0;
    simulated.step_seconds = 0;
    simulated.bytes_per_unit =
        static_cast<double>(smallest_bytes) / options.seconds / each.planned.rate.to_double();
    auto const source = blink::make_schedule(each.machine, each.planned, simulated.bytes_per_unit);
    auto const machine = with_latency(each.machine, latency_seconds);
    for (auto const bytes : {smallest_bytes, 2 * smallest_bytes}) {
      blink::simulated_call call;
      call.count = bytes / sizeof(float);
      call.layout =
          blink::connection_layout_of<blink::shaped_transport>(options_of_ranks(), source);
      call.costs = options_of_ranks().costs;
      auto const expected = blink::simulate_call(machine, each.planned, call, simulated);
      auto const seconds = measured_seconds(source, call.count, options.calls);
      auto const [least, most] = std::ranges::minmax(seconds);
      double const middle = median(seconds);
      std::printf("%-28s %5d %5zu %6zu %9lld %12.3f %10.3f %8.3f to %6.3f %6.3f\n",
                  each.name.c_str(), source.rank_count, each.planned.trees.size(), bytes >> 20,
                  static_cast<long long>(expected.messages), expected.seconds, middle, least, most,
                  middle / expected.seconds);
      std::fflush(stdout);
      csv << each.name << ',' << source.rank_count << ',' << each.planned.trees.size() << ','
          << bytes << ',' << expected.messages << ',' << expected.seconds << ',' << middle << ','
          << least << ',' << most << ',' << middle / expected.seconds << '\n';
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    auto const options = read_options({arguments + 1, arguments + count});
    std::ostringstream csv;
    run(options, csv);
    if (options.csv.empty()) return 0;
    std::ofstream file(options.csv);
    file << csv.str() << std::flush;
    if (!file) throw std::runtime_error("--csv " + options.csv + ": the file cannot be written");
    return 0;
  } catch (std::exception const& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    return 2;
  }
}
