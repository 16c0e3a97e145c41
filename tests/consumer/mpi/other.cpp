// SPDX-License-Identifier: Apache-2.0
#include <blink/collectives.hpp>
#include <blink/transports/host/split_communicator.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

int ranks_of_half(blink::mpi_communicator& all) {
  auto half = blink::split(all, all.rank() % 2, 0);
  int const one = 1;
  int sum = 0;
  blink::all_reduce(*half, blink::star_schedule(half->rank_count()), &one, &sum, 1, blink::sum{});
  return sum;
}
