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
//
// With --digits it trains a small network on images instead, up to a loss (train_digits.hpp). Ranks
// do the arithmetic before the clock of an iteration starts, and its time is stated as above. The
// losses must be those of one rank alone but for rounding. The images are scikit-learn's, which
// Debian's python3-sklearn has in its folder datasets/data:
//   zcat digits.csv.gz | training_bench --digits -

#include "csv_file.hpp"
#include "digits_table.hpp"
#include "replay.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <optional>
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
    "  --time X        everything takes X times as long; default 20, with --digits 4000\n"
    "  --csv FILE      also write the rows to this file\n"
    "of a replay:\n"
    "  --iterations N  of which the median counts; default 5\n"
    "  --data X        the replay moves 1/X of the bytes; default 500\n"
    "  --network NAME  only this network, such as VGG-16\n"
    "of a training:\n"
    "  --digits FILE   train on these images: 64 pixels and a label on each line; - is standard "
    "input\n"
    "  --hidden N      outputs of each of three layers; default 512\n"
    "  --loss X        train until the loss is less; default 0.05\n"
    "  --seed N        of the first weights and the order of the images; default 1\n";

struct bench_options {
  int images = 32;
  int iterations = 5;
  replay_scale scale;
  std::string network;
  std::string csv;
  std::string digits;  // a file
  digits_settings training;
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
  std::optional<double> time;
  std::size_t hidden = result.training.hidden.front();
  enum class mode { both, replay, training };
  struct option {
    mode used_in;
    std::function<void(std::string_view)> read;
  };
  auto const number = [](std::string_view name, auto& value, auto least, auto most) {
    return [=, &value](std::string_view text) { read_number(name, text, value, least, most); };
  };
  std::map<std::string_view, option> const options{
      {"--images", {mode::both, number("--images", result.images, 1, 1'000'000)}},
      {"--time",
       {mode::both, [&](auto text) { read_number("--time", text, time.emplace(), 0.01, 1e6); }}},
      {"--csv", {mode::both, [&](auto text) { result.csv = text; }}},
      {"--iterations", {mode::replay, number("--iterations", result.iterations, 1, 10'000)}},
      {"--data", {mode::replay, number("--data", result.scale.data, 1.0, 1e9)}},
      {"--network", {mode::replay, [&](auto text) { result.network = text; }}},
      {"--digits", {mode::training, [&](auto text) { result.digits = text; }}},
      {"--hidden",
       {mode::training, number("--hidden", hidden, std::size_t{1}, std::size_t{1} << 14)}},
      {"--loss", {mode::training, number("--loss", result.training.loss, 1e-4, 2.3)}},
      {"--seed", {mode::training, number("--seed", result.training.seed, 0U, 4'294'967'295U)}}};
  for (std::size_t k = 0; k < arguments.size(); k += 2) {
    auto const known = options.find(arguments[k]);
    if (known == options.end() || k + 1 == arguments.size()) {
      throw std::runtime_error("found " + std::string(arguments[k]) +
                               ", expected an option and its value\n" + usage);
    }
    known->second.read(arguments[k + 1]);
  }
  auto const wrong = result.digits.empty() ? mode::training : mode::replay;
  for (std::size_t k = 0; k < arguments.size(); k += 2) {
    if (options.at(arguments[k]).used_in != wrong) continue;
    throw std::runtime_error(
        std::string(arguments[k]) +
        (result.digits.empty() ? ": expected --digits FILE" : " with --digits") + ", see --help");
  }
  if (!result.digits.empty()) result.scale = {1, 4000};
  if (time) result.scale.time = *time;
  result.training.images = result.images;
  std::fill(result.training.hidden.begin(), result.training.hidden.end(), hidden);
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

std::string csv_row(training_machine const& machine, contender const& planned,
                    network const& trained, measured_row const& row) {
  std::ostringstream line;
  line << machine.name << ',' << trained.name << ',' << planned.name << ','
       << planned.planned.rate.to_double() << ',' << row.compute * 1e3 << ',' << row.measured * 1e3
       << ',' << row.predicted * 1e3 << '\n';
  return line.str();
}

std::string head_of(bench_options const& options) {
  double load[1] = {};
  (void)getloadavg(load, 1);
  std::ostringstream head;
  head << "# " << options.images << " images a rank, 1/" << options.scale.data << " of the bytes, "
       << options.scale.time << " times as long, ";
  if (options.digits.empty()) {
    head << "median of " << options.iterations;
  } else {
    head << "three layers of " << options.training.hidden.front() << " before the last one, loss "
         << options.training.loss << ", seed " << options.training.seed;
  }
  head << "; load " << std::round(10 * load[0]) / 10 << '\n';
  return head.str();
}

void run_replays(bench_options const& options, std::string const& head) {
  auto const networks = chosen_networks(options.network);
  csv_file csv(options.csv,
               head + "machine,network,trees,GB/s,compute ms,measured ms,predicted ms\n");
  std::fputs(head.c_str(), stdout);
  for (auto const& machine : training_machines()) {
    print_head(machine);
    for (auto const& trained : networks) {
      std::vector<measured_row> rows;
      for (auto const& planned : machine.contenders) {
        rows.push_back(measure(trained, planned, options));
        csv.add(csv_row(machine, planned, trained, rows.back()));
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
    auto const options = read_options({argv + 1, argv + argc});
    auto const head = head_of(options);
    if (options.digits.empty()) {
      run_replays(options, head);
    } else {
      run_digits(options.digits, options.csv, head, options.scale, options.training);
    }
    return 0;
  } catch (std::exception const& fault) {
    std::fprintf(stderr, "training_bench: %s\n", fault.what());
    return 1;
  }
}
