// SPDX-License-Identifier: Apache-2.0
// Alternates collectives of an MPI library and blink's over its point-to-point messages, call by
// call. So both meet the same distance of cores. usage: mpirun -n 2 mpi_in_turn_NAME [in_place |
// OPERATION] [BYTES…]
//
// A call is timed from the entry of the last rank to the return of the last one, on one host.
// Inputs are rewritten before every call, and results checked. Prints medians in microseconds, and
// the median of the ratios of neighbouring calls.

#include <blink/collectives.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include "blink_peer.hpp"
#include "library_peer.hpp"
#include "peer_loop.hpp"
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

using blink_bench::nanoseconds;
using blink_bench::operation;

/// Times of calls in nanoseconds; on rank 0.
class call_times {
 public:
  template <class Call>
  void add(Call const& call) {
    MPI_Barrier(MPI_COMM_WORLD);
    std::int64_t const begin = nanoseconds();
    call();
    own_.push_back(begin);
    own_.push_back(nanoseconds());
  }
  [[nodiscard]] std::vector<double> of_all() const {
    std::vector<std::int64_t> last(own_.size());
    MPI_Reduce(own_.data(), last.data(), static_cast<int>(own_.size()), MPI_INT64_T, MPI_MAX, 0,
               MPI_COMM_WORLD);
    std::vector<double> result;
    for (std::size_t k = 0; k < last.size(); k += 2) {
      result.push_back(static_cast<double>(last[k + 1] - last[k]));
    }
    return result;
  }

 private:
  std::vector<std::int64_t> own_;  // begin and end of each
};

/// in_place: only for an all-reduce
void compare(blink::mpi_communicator& comm, operation what, bool in_place, std::size_t bytes) {
  auto call = blink_bench::call_of(what, bytes, comm.rank_count());
  std::vector<float> output(blink_bench::output_count(call));
  std::vector<float> input_of_its_own(in_place ? 0 : blink_bench::input_count(call));
  auto& input = in_place ? output : input_of_its_own;
  call.input = input.data();
  call.output = output.data();
  auto& prepared = comm.prepare(
      blink::default_algorithms(blink_bench::kind_of(what), comm.rank_count()).front().source);
  blink_bench::library_peer library(MPI_COMM_WORLD);
  call_times of_library, ours;
  std::int64_t round = 0;
  auto const measure = [&](call_times& times, auto const& run) {
    ++round;
    for (std::size_t k = 0; k < input.size(); ++k) {
      input[k] = blink_bench::contribution(comm.rank(), round, k);
    }
    times.add(run);
    if (blink_bench::count_wrong(call, comm.rank(), comm.rank_count(), round) == 0) return;
    std::fprintf(stderr, "%zu bytes, rank %d: wrong elements\n", bytes, comm.rank());
    MPI_Abort(MPI_COMM_WORLD, 1);
  };
  auto const calls = std::clamp<std::size_t>((std::size_t{1} << 26) / bytes, 20, 20000);
  for (std::size_t k = 0; k < calls; ++k) {
    measure(of_library, [&] {
      if (!in_place) return library.run(comm.rank(), call);
      MPI_Allreduce(MPI_IN_PLACE, output.data(), static_cast<int>(call.count), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    });
    measure(ours, [&] { blink_bench::run_blink(comm, prepared, call); });
  }
  auto const theirs = of_library.of_all();
  auto const blinks = ours.of_all();
  if (comm.rank() != 0) return;
  std::vector<double> ratios;
  for (std::size_t k = 0; k < theirs.size(); ++k) ratios.push_back(blinks[k] / theirs[k]);
  std::printf("| %zu | %.2f | %.2f | %.2f |\n", bytes, blink_bench::median(theirs) * 1e-3,
              blink_bench::median(blinks) * 1e-3, blink_bench::median(ratios));
}

[[nodiscard]] bool is_operation(std::string_view text) {
  auto const& names = blink_bench::operation_names;
  return std::find(names.begin(), names.end(), text) != names.end();
}

}  // namespace

int main(int count, char** texts) {
  MPI_Init(&count, &texts);
  {
    blink::mpi_communicator comm(MPI_COMM_WORLD);
    blink_bench::bind_to_core(comm.rank());
    std::vector<std::size_t> sizes;
    auto what = operation::all_reduce;
    bool in_place = false;
    for (int k = 1; k < count; ++k) {
      std::string_view const text = texts[k];
      if (auto const bytes = std::strtoull(texts[k], nullptr, 10); bytes > 0) {
        sizes.push_back(bytes);
      } else if (k == 1 && text == "in_place") {
        in_place = true;
      } else if (k == 1 && is_operation(text)) {
        what = blink_bench::operation_of(text);
      } else {
        std::fprintf(stderr, "%s: found '%s', expected [in_place | OPERATION] [BYTES...]\n",
                     texts[0], texts[k]);
        MPI_Abort(MPI_COMM_WORLD, 2);
      }
    }
    if (what == operation::barrier) sizes.assign(1, sizeof(float));
    if (sizes.empty()) {
      sizes = {8, 64, 1024, 4096, 8192, 16384, 65536, 1 << 19, 1 << 20, 1 << 22, 1 << 25};
    }
    if (comm.rank() == 0) {
      std::printf("| bytes | " BLINK_MPI_NAME " | blink | ratio |\n| --- | --- | --- | --- |\n");
    }
    for (std::size_t const bytes : sizes) compare(comm, what, in_place, bytes);
  }
  MPI_Finalize();
  return 0;
}
