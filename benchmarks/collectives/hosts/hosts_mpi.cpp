// SPDX-License-Identifier: Apache-2.0
// All-reduce among hosts: an MPI library's own beside blink's trees over the same library's
// messages.
//
//   usage: hosts_NAME TUNING_FILE|default|zero_copy CALLS BYTES…   under the library's launcher
//
// With "default" the communicator has default options and uses its default table; with "zero_copy"
// too, but messages leave from buffers and arrive in them.
//
// The first rank prints a line for each size. It has the bytes, the median microseconds of the
// library and of blink, and the ratio of both.
#include <blink/collectives.hpp>
#include <blink/schedule/tuning_file.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// The median over calls of the time of the slowest rank.
double median_of_longest(std::vector<double> own) {
  std::vector<double> longest(own.size());
  MPI_Allreduce(own.data(), longest.data(), static_cast<int>(own.size()), MPI_DOUBLE, MPI_MAX,
                MPI_COMM_WORLD);
  std::sort(longest.begin(), longest.end());
  return longest[longest.size() / 2];
}

template <class Call>
double measure(int calls, std::vector<float>& input, std::vector<float> const& output, int ranks,
               Call const& call) {
  using clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  for (int round = -1; round < calls; ++round) {
    std::fill(input.begin(), input.end(), static_cast<float>(round + 2));
    MPI_Barrier(MPI_COMM_WORLD);
    auto const start = clock::now();
    call();
    if (round >= 0) {
      seconds.push_back(std::chrono::duration<double>(clock::now() - start).count());
    }
    auto const expected = static_cast<float>(ranks * (round + 2));
    if (std::count(output.begin(), output.end(), expected) !=
        static_cast<std::ptrdiff_t>(output.size())) {
      throw std::runtime_error("a wrong sum");
    }
  }
  return median_of_longest(std::move(seconds));
}

void run(int count, char** texts) {
  if (count < 4) throw std::runtime_error("usage: TUNING_FILE|default|zero_copy CALLS BYTES…");
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int const calls = std::max(1, std::atoi(texts[2]));
  std::optional<blink::mpi_communicator> made;
  std::string_view const way = texts[1];
  if (way == "default") {
    made.emplace(MPI_COMM_WORLD);
  } else if (way == "zero_copy") {
    made.emplace(MPI_COMM_WORLD, blink::mpi_channel::default_options(), blink::default_eager_limit,
                 blink::usual_zero_copy_threshold);
  } else {
    blink::communicator_options options;
    options.costs.chunk_seconds = 5e-5;  // a message over TCP, and its credit
    options.window = 8;
    options.slot_bytes = 1 << 15;              // the eager limit of libraries over TCP
    constexpr std::size_t eager_limit = 2048;  // larger inputs take the plan's links
    made.emplace(MPI_COMM_WORLD, options, eager_limit);
    made->use_tuning({blink::read_tuning_file(texts[1])});
  }
  auto& comm = *made;
  for (int k = 3; k < count; ++k) {
    std::size_t const elements = std::strtoull(texts[k], nullptr, 10) / sizeof(float);
    std::vector<float> input(elements), output(elements);
    double const library = measure(calls, input, output, ranks, [&] {
      MPI_Allreduce(input.data(), output.data(), static_cast<int>(elements), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    });
    std::fill(output.begin(), output.end(), 0.0F);
    double const blinks = measure(calls, input, output, ranks, [&] {
      blink::all_reduce(comm, input.data(), output.data(), elements, blink::sum{});
    });
    if (rank == 0) {
      std::printf("%zu %.1f %.1f %.2f\n", elements * sizeof(float), library * 1e6, blinks * 1e6,
                  library / blinks);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int count, char** texts) {
  MPI_Init(&count, &texts);
  int status = 0;
  try {
    run(count, texts);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "%s: %s\n", texts[0], problem.what());
    status = 1;
  }
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return status;
}
