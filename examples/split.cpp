// SPDX-License-Identifier: Apache-2.0 Rows and columns of a grid of ranks: each is a communicator
// with its own schedule.
#include <blink/collectives.hpp>
#include <blink/transports/host/split_communicator.hpp>

#include <cstdio>

int main() {
  constexpr int columns = 3;
  blink::thread_ranks grid(2 * columns);
  grid.run([&](auto& comm) {
    auto row = blink::split(comm, comm.rank() / columns, 0);
    auto column = blink::split(comm, comm.rank() % columns, 0);
    int const mine = comm.rank();
    int row_sum = 0;
    int column_sum = 0;
    blink::all_reduce(*row, blink::star_schedule(columns), &mine, &row_sum, 1, blink::sum{});
    blink::all_reduce(*column, blink::chain_schedule(2, 0), &mine, &column_sum, 1, blink::sum{});
    if (comm.rank() == 4)
      std::printf("row 3 + 4 + 5 = %d, column 1 + 4 = %d\n", row_sum, column_sum);
  });
}
