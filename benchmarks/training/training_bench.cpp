// SPDX-License-Identifier: Apache-2.0
// Iterations of data-parallel training, replayed over shaped links: gradients of known networks in
// the buckets of PyTorch's DistributedDataParallel, averaged while the backward pass goes on. The
// planned trees, the best ring and the PCIe ring run over the links of the same machine.
//
// Ranks are threads. Computation is imitated by waiting for the times of a V100 (networks.hpp), and
// links are as slow as those of the machine, scaled (`replay_scale`). All times that are printed
// are divided by the scale's `time` again, so they are those of the machine.
//
// `waits` is the part of an iteration in which a rank only communicates, and `of ring` the part of
// the time with the best ring. `predicted` is the time by the simulation of the plan and the same
// overlap, without a fitted number. `ratio` is the measured time divided by it.

#include "replay.hpp"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using namespace blink_bench;

constexpr char const* usage =
    "Usage: training_bench [OPTIONS]\n"
    "  --images N      images of each rank in an iteration; default 32\n"
    "  --iterations N  of which the median counts; default 5\n"
    "  --data X        the replay moves 1/X of the bytes; default 500\n"
    "  --time X        the replay takes X times as long; default 20\n"
    "  --network NAME  only this network, such as VGG-16\n"
    "  --csv FILE      also write the rows to this file\n";

struct bench_options {
  int images = 32;
  int iterations = 5;
  replay_scale scale;
  std::string network;
  std::string csv;
};

/// Throws: std::runtime_error if the text is no number from `least` to `most`.
template <class Number>
void read_number(std::string_view name, std::string_view text, Number& value, Number least,
                 Number most) {
  auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool const is_whole = fault == std::errc{} && end == text.data() + text.size();
  if (is_whole && least <= value && value <= most) return;
  std::ostringstream message;
  message << name << ' ' << text << ": expected a number from " << least << " to " << most;
  throw std::runtime_error(message.str());
}

bench_options read_options(std::vector<std::string_view> const& arguments) {
  bench_options result;
  std::map<std::string_view, std::function<void(std::string_view)>> const readers{
      {"--images", [&](auto text) { read_number("--images", text, result.images, 1, 1'000'000); }},
      {"--iterations",
       [&](auto text) { read_number("--iterations", text, result.iterations, 1, 10'000); }},
      {"--data", [&](auto text) { read_number("--data", text, result.scale.data, 1.0, 1e9); }},
      {"--time", [&](auto text) { read_number("--time", text, result.scale.time, 0.01, 1e4); }},
      {"--network", [&](auto text) { result.network = text; }},
      {"--csv", [&](auto text) { result.csv = text; }}};
  for (std::size_t k = 0; k < arguments.size(); k += 2) {
    auto const reader = readers.find(arguments[k]);
    if (reader == readers.end() || k + 1 == arguments.size()) {
      throw std::runtime_error("found " + std::string(arguments[k]) +
                               ", expected an option and its value\n" + usage);
    }
    reader->second(arguments[k + 1]);
  }
  return result;
}

/// The networks to replay.
///
/// Throws: std::runtime_error if there is none of this name.
std::vector<network> chosen_networks(std::string const& name) {
  std::vector<network> result;
  for (auto& each : all_networks()) {
    if (name.empty() || each.name == name) result.push_back(std::move(each));
  }
  if (!result.empty()) return result;
  throw std::runtime_error("--network " + name +
                           ": expected AlexNet, ResNet-18, ResNet-50 or VGG-16");
}

/// One row of the table: a network trained with a contender's trees. Seconds of the machine.
struct measured_row {
  double compute = 0;
  double measured = 0;
  double predicted = 0;
};

measured_row measure(network const& trained, contender const& planned,
                     bench_options const& options) {
  step_costs const costs;
  auto const replayed = make_iteration(trained, options.images);
  auto const chunk_bytes = chunks_of(planned, options.scale, costs);
  simulated_all_reduce simulated(planned, options.scale, costs, chunk_bytes);
  measured_row result{replayed.compute_seconds, 0, 0};
  result.predicted = overlapped_seconds(
      replayed, [&](std::size_t parameters) { return simulated(parameters) / options.scale.time; });
  auto const trees = replayed_schedule(planned, options.scale, chunk_bytes);
  result.measured =
      replay(trees, replayed, options.iterations, options.scale, costs) / options.scale.time;
  return result;
}

void print_head(training_machine const& machine) {
  std::printf("\n%s\n%-10s %-12s %8s %10s %11s %6s %8s %12s %6s\n", machine.name.c_str(), "network",
              "trees", "GB/s", "compute ms", "measured ms", "waits", "of ring", "predicted ms",
              "ratio");
}

void print_row(training_machine const& machine, std::size_t k, network const& trained,
               std::vector<measured_row> const& rows) {
  auto const& row = rows[k];
  auto const& planned = machine.contenders[k];
  std::printf("%-10s %-12s %8.2f %10.2f %11.2f %5.1f%% %7.1f%% %12.2f %6.3f\n",
              trained.name.c_str(), planned.name.c_str(), planned.planned.rate.to_double(),
              row.compute * 1e3, row.measured * 1e3, 100 * (1 - row.compute / row.measured),
              100 * row.measured / rows[ring_position].measured, row.predicted * 1e3,
              row.measured / row.predicted);
  std::fflush(stdout);
}

/// The rows as a file, if one is wanted.
class csv_file {
 public:
  csv_file(std::string name, std::string const& head) : name_(std::move(name)) {
    if (name_.empty()) return;
    file_.open(name_);
    file_ << head << "machine,network,trees,GB/s,compute ms,measured ms,predicted ms\n";
    expect_written();
  }
  void add(training_machine const& machine, contender const& planned, network const& trained,
           measured_row const& row) {
    if (name_.empty()) return;
    file_ << machine.name << ',' << trained.name << ',' << planned.name << ','
          << planned.planned.rate.to_double() << ',' << row.compute * 1e3 << ','
          << row.measured * 1e3 << ',' << row.predicted * 1e3 << std::endl;
    expect_written();
  }

 private:
  void expect_written() const {
    if (!file_) throw std::runtime_error("--csv " + name_ + ": the file cannot be written");
  }

  std::string name_;
  std::ofstream file_;
};

std::string head_of(bench_options const& options) {
  double load[1] = {};
  (void)getloadavg(load, 1);
  std::ostringstream head;
  head << "# " << options.images << " images a rank, 1/" << options.scale.data << " of the bytes, "
       << options.scale.time << " times as long, median of " << options.iterations << "; load "
       << std::round(10 * load[0]) / 10 << '\n';
  return head.str();
}

void run_bench(bench_options const& options) {
  auto const networks = chosen_networks(options.network);
  auto const head = head_of(options);
  csv_file csv(options.csv, head);
  std::fputs(head.c_str(), stdout);
  for (auto const& machine : training_machines()) {
    print_head(machine);
    for (auto const& trained : networks) {
      std::vector<measured_row> rows;
      for (auto const& planned : machine.contenders) {
        rows.push_back(measure(trained, planned, options));
        csv.add(machine, planned, trained, rows.back());
      }
      for (std::size_t k = 0; k < rows.size(); ++k) print_row(machine, k, trained, rows);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::string_view(argv[1]) == "--help") {
      std::fputs(usage, stdout);
      return 0;
    }
    run_bench(read_options({argv + 1, argv + argc}));
    return 0;
  } catch (std::exception const& fault) {
    std::fprintf(stderr, "training_bench: %s\n", fault.what());
    return 1;
  }
}
