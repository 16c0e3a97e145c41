// SPDX-License-Identifier: Apache-2.0
// Rows and columns of a grid of ranks: each is a world of its own, with a plan of its own.
#include <blink/collectives.hpp>
#include <blink/transports/host/split.hpp>

#include <cstdio>

int main() {
  constexpr int columns = 3;
  blink::thread_world grid(2 * columns);
  grid.run([&](auto& me) {
    auto row = blink::split(me, me.rank() / columns, 0);
    auto column = blink::split(me, me.rank() % columns, 0);
    int const mine = me.rank();
    int row_sum = 0;
    int column_sum = 0;
    blink::all_reduce(*row, blink::star_schedule(columns), &mine, &row_sum, 1, blink::sum{});
    blink::all_reduce(*column, blink::chain_schedule(2, 0), &mine, &column_sum, 1, blink::sum{});
    if (me.rank() == 4) std::printf("row 3 + 4 + 5 = %d, column 1 + 4 = %d\n", row_sum, column_sum);
  });
}
