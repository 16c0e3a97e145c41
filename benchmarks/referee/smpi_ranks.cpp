// SPDX-License-Identifier: Apache-2.0
// Collectives on a simulated machine: the algorithms that SMPI carries of an MPI library beside
// blink's trees over SMPI's messages.
//
//   usage: smpirun … libsmpi_ranks.so COLLECTIVE TUNING_FILE|default BYTES…
//
// The first rank prints a line for each size: bytes, simulated microseconds of SMPI's algorithm and
// of blink. Both results are checked. scripts/bench_smpi chooses machine, algorithms and sizes.
//
// SMPI (3.32) leaves these gaps, which are filled here and not in blink:
// - MPI_Comm_idup ends the program ("not yet implemented").
// - MPI_Is_thread_main is true for the first rank alone. All ranks are actors of one thread.
#include <mpi.h>

namespace {

/// Duplicates at once. The request completes when all ranks have come.
int duplicate_communicator(MPI_Comm of, MPI_Comm* result, MPI_Request* request) {
  int const code = MPI_Comm_dup(of, result);
  return code == MPI_SUCCESS ? MPI_Ibarrier(*result, request) : code;
}

int every_rank_is_main(int* is_main) {
  *is_main = 1;
  return MPI_SUCCESS;
}

}  // namespace

#define MPI_Comm_idup duplicate_communicator
#define MPI_Is_thread_main every_rank_is_main

#include <blink/collectives.hpp>
#include <blink/schedule/tuning_file.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

/// One rank's part of a collective, in both ways, and its expected result. Calls take input and
/// output.
struct measured_call {
  std::vector<float> input, output;
  std::function<void(float*, float*)> by_smpi, by_blink;
  std::function<float(std::size_t)> expected;  ///< by position in `output`
};

measured_call make_all_reduce(blink::mpi_communicator& comm, std::size_t elements) {
  auto const ranks = comm.rank_count();
  measured_call call;
  call.input.assign(elements, static_cast<float>(comm.rank() + 1));
  call.output.resize(elements);
  call.by_smpi = [elements](float* in, float* out) {
    MPI_Allreduce(in, out, static_cast<int>(elements), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  call.by_blink = [elements, &comm](float* in, float* out) {
    blink::all_reduce(comm, in, out, elements, blink::sum{});
  };
  call.expected = [ranks](std::size_t) { return static_cast<float>(ranks * (ranks + 1) / 2); };
  return call;
}

measured_call make_broadcast(blink::mpi_communicator& comm, std::size_t elements) {
  auto const expected = [](std::size_t i) { return static_cast<float>(i % 1000); };
  auto const fill = [elements, expected](float* data) {
    for (std::size_t i = 0; i < elements; ++i) data[i] = expected(i);
  };
  measured_call call;
  call.output.resize(elements);
  call.by_smpi = [&comm, elements, fill](float*, float* out) {
    if (comm.rank() == 0) fill(out);
    MPI_Bcast(out, static_cast<int>(elements), MPI_FLOAT, 0, MPI_COMM_WORLD);
  };
  call.by_blink = [&comm, elements, fill](float*, float* out) {
    if (comm.rank() == 0) fill(out);
    blink::broadcast(comm, out, elements, 0);
  };
  call.expected = expected;
  return call;
}

measured_call make_all_gather(blink::mpi_communicator& comm, std::size_t elements) {
  auto const ranks = static_cast<std::size_t>(comm.rank_count());
  auto const block = elements / ranks;
  measured_call call;
  call.input.assign(block, static_cast<float>(comm.rank()));
  call.output.resize(block * ranks);
  call.by_smpi = [block](float* in, float* out) {
    auto const count = static_cast<int>(block);
    MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
  };
  call.by_blink = [block, &comm](float* in, float* out) {
    blink::all_gather(comm, in, out, block);
  };
  call.expected = [block](std::size_t i) { return static_cast<float>(i / block); };
  return call;
}

measured_call make_call(std::string const& kind, blink::mpi_communicator& comm,
                        std::size_t elements) {
  if (kind == "all_reduce") return make_all_reduce(comm, elements);
  if (kind == "broadcast") return make_broadcast(comm, elements);
  if (kind == "all_gather") return make_all_gather(comm, elements);
  throw std::runtime_error("found " + kind + ", expected all_reduce, broadcast or all_gather");
}

/// The simulated seconds of the second of two calls, until the last rank returns.
double seconds_of(measured_call& call, std::function<void(float*, float*)> const& once) {
  double own = 0;
  for (int round = 0; round < 2; ++round) {
    std::fill(call.output.begin(), call.output.end(), -1.0F);
    MPI_Barrier(MPI_COMM_WORLD);
    double const start = MPI_Wtime();
    once(call.input.data(), call.output.data());
    own = MPI_Wtime() - start;
    for (std::size_t i = 0; i < call.output.size(); ++i) {
      if (call.output[i] != call.expected(i)) {
        throw std::runtime_error("a wrong result at element " + std::to_string(i));
      }
    }
  }
  double longest = 0;
  MPI_Allreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return longest;
}

void run(std::vector<std::string> const& arguments) {
  if (arguments.size() < 3) {
    throw std::runtime_error("usage: COLLECTIVE TUNING_FILE|default BYTES…");
  }
  auto options = blink::mpi_channel::default_options();
  options.waits.deadline =
      std::chrono::hours(4);  // simulations take longer than what they simulate
  std::optional<blink::mpi_communicator> made;
  if (arguments[1] == "default") {
    made.emplace(MPI_COMM_WORLD, options);
  } else {
    options.window = 8;
    options.slot_bytes = 1 << 18;
    constexpr std::size_t eager_limit = 2048;  // larger inputs take the plan's links
    made.emplace(MPI_COMM_WORLD, options, eager_limit);
    made->use_tuning({blink::read_tuning_file(arguments[1])});
  }
  auto& comm = *made;
  for (std::size_t k = 2; k < arguments.size(); ++k) {
    auto const bytes = std::strtoull(arguments[k].c_str(), nullptr, 10);
    auto call = make_call(arguments[0], comm, bytes / sizeof(float));
    double const by_smpi = seconds_of(call, call.by_smpi);
    double const by_blink = seconds_of(call, call.by_blink);
    if (comm.rank() == 0) {
      std::printf("%llu %.2f %.2f\n", bytes, by_smpi * 1e6, by_blink * 1e6);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int count, char** texts) {
  MPI_Init(&count, &texts);
  try {
    run({texts + 1, texts + count});
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "smpi_ranks: %s\n", problem.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
