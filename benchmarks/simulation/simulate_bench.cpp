// SPDX-License-Identifier: Apache-2.0
// The processor time of the simulation over the number of ranks: an all-reduce of 64 MiB along the
// exact plan, with eight chunks for each tree. Under both rules of sharing links.
//
// usage: simulate_bench [FILE]
//
// FILE gets the rows as CSV. `ns/message` is processor time for a chunk on a tree edge.

#include <blink/planning/make_plan.hpp>
#include <blink/simulation/simulate.hpp>
#include <blink/topology/built_in_machines.hpp>

#include <cstddef>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// More trees that do not keep in step take long at fair rates.
constexpr std::size_t most_fair_trees = 512;

double processor_seconds() {
  std::timespec now{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) {
    throw std::runtime_error("simulate_bench: the clock of processor time cannot be read");
  }
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void run(std::ostream& csv) {
  constexpr double bytes = 64 * 1024 * 1024;
  csv << "machine,ranks,trees,messages,sharing,simulated us,processor s,ns/message\n";
  std::printf("%-14s %6s %6s %10s %-5s %12s %12s %11s\n", "machine", "ranks", "trees", "messages",
              "links", "simulated us", "processor s", "ns/message");
  for (char const* const name :
       {"dgx_h100:1", "dgx_h100:2", "dgx_h100:4", "dgx_h100:8", "dgx_h100:16", "dgx_h100:32",
        "dgx_h100:64", "torus:4x4", "torus:8x8", "torus:16x16"}) {
    auto const machine = *blink::make_built_in_machine(name);
    double const unit = machine.unit == "GB/s" ? 0 : 25e9;
    auto const plan = blink::make_plan(machine, {blink::collective::all_reduce, {}, "exact"});
    std::vector<double> chunks;
    for (auto const& t : plan.trees) chunks.push_back(bytes / 8 * ratio(t.weight, plan.rate));
    for (auto const sharing : {blink::link_sharing::fifo, blink::link_sharing::fair}) {
      if (sharing == blink::link_sharing::fair && plan.trees.size() > most_fair_trees) continue;
      blink::simulation_options options;
      options.bytes_per_unit = unit;
      options.sharing = sharing;
      double const begin = processor_seconds();
      auto const result = blink::simulate(machine, plan, bytes, chunks, options);
      double const seconds = processor_seconds() - begin;
      double const each = 1e9 * seconds / static_cast<double>(result.messages);
      std::printf("%-14s %6zu %6zu %10lld %-5s %12.1f %12.3f %11.0f\n", name, plan.ranks.size(),
                  plan.trees.size(), static_cast<long long>(result.messages), to_text(sharing),
                  result.seconds * 1e6, seconds, each);
      std::fflush(stdout);
      csv << name << ',' << plan.ranks.size() << ',' << plan.trees.size() << ',' << result.messages
          << ',' << to_text(sharing) << ',' << result.seconds * 1e6 << ',' << seconds << ',' << each
          << '\n';
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count > 2) throw std::runtime_error("usage: simulate_bench [FILE]");
    std::ostringstream csv;
    run(csv);
    if (count < 2) return 0;
    std::ofstream file(arguments[1]);
    file << csv.str() << std::flush;
    if (!file) throw std::runtime_error(std::string(arguments[1]) + ": cannot be written");
    return 0;
  } catch (std::exception const& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    return 2;
  }
}
