// SPDX-License-Identifier: Apache-2.0
// Probes the ranks of an MPI job and prints their machine. Ranks of one host share memory, ranks of
// different hosts exchange messages.
//     mpicxx -std=c++20 -O2 -Iinclude -Itools tools/mpi/probe.cpp -pthread -o probe
// Options: --out FILE, --rankfile FILE, --machine FILE, --seconds S, --bytes N. The rankfile is for
// Open MPI: it gives the ranks the order of the best ring.

#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/readers/read_json.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include "probe_report.hpp"

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace {

/// By rank: the name of its host.
std::vector<std::string> names_of_hosts() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> own{};
  int length = 0, ranks = 0;
  MPI_Get_processor_name(own.data(), &length);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<char> all(own.size() * static_cast<std::size_t>(ranks));
  int const bytes = static_cast<int>(own.size());
  MPI_Allgather(own.data(), bytes, MPI_CHAR, all.data(), bytes, MPI_CHAR, MPI_COMM_WORLD);
  std::vector<std::string> result;
  for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
    result.emplace_back(all.data() + r * own.size());
  }
  return result;
}

/// The number that is the value of an option.
double number_of(std::string const& option, std::string const& text) {
  auto const value = blink::detail::read_decimal(text, 9);
  if (value && *value > 0) return value->to_double();
  throw blink::input_error(option + ": found " + blink::detail::in_quotes(text) +
                           ", expected a positive number");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    blink::mpi_communicator comm(MPI_COMM_WORLD);
    blink::tools::probe_request request;
    std::string out, rankfile;
    for (int k = 1; k < argc; ++k) {
      std::string const name = argv[k];
      if (++k == argc) throw blink::input_error(name + ": no value, expected one");
      if (name == "--out") {
        out = argv[k];
      } else if (name == "--rankfile") {
        rankfile = argv[k];
      } else if (name == "--machine") {
        request.described =
            blink::read_json(blink::detail::file_text(argv[k], "a machine file"), argv[k]);
        request.bytes_per_unit = blink::bytes_per_second(request.described->unit);
      } else if (name == "--seconds") {
        request.options.seconds = number_of(name, argv[k]);
      } else if (name == "--bytes") {
        request.options.bytes = static_cast<std::size_t>(number_of(name, argv[k]));
      } else {
        throw blink::input_error(name +
                                 ": expected --out, --rankfile, --machine, --seconds or --bytes, "
                                 "and a value");
      }
    }
    auto const found = blink::tools::run_probe(comm, request, "processes of MPI");
    if (comm.rank() == 0 && !out.empty()) {
      blink::detail::write_text(out, blink::write_json(found.machine));
      std::printf("\nmachine written to %s\n", out.c_str());
    }
    auto const names = names_of_hosts();
    if (comm.rank() == 0 && !rankfile.empty()) {
      blink::detail::write_text(rankfile,
                                blink::tools::probe_text::rankfile(found.ring.ranks, names));
      std::printf("\nrankfile written to %s\n", rankfile.c_str());
    }
  } catch (blink::error const& failure) {
    std::fprintf(stderr, "probe: %s\n", failure.what());
    status = 2;
  }
  MPI_Finalize();
  return status;
}
