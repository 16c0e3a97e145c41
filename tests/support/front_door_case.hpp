// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/all_to_all_v.hpp>
#include <blink/collectives/exchange.hpp>
#include <blink/schedule/block.hpp>

#include <array>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

namespace blink_test {

/// Calls every collective without a schedule, on containers and on pointers, and compares the
/// results with a loop. All ranks call it together. Returns the faults; empty if nothing is wrong.
///
/// count: elements of one segment
template <class Comm>
std::string calls_without_a_schedule(Comm& comm, std::size_t count) {
  auto const ranks = static_cast<std::size_t>(comm.rank_count());
  auto const rank = static_cast<std::size_t>(comm.rank());
  auto const value = [count](std::size_t of, std::size_t at) {
    return static_cast<int>((of + 1) * 1000 + at % (count + 1) % 97);
  };
  auto const filled = [&](std::size_t size) {
    std::vector<int> result(size);
    for (std::size_t k = 0; k < size; ++k) result[k] = value(rank, k);
    return result;
  };
  auto const sum_at = [&](std::size_t at) {
    int result = 0;
    for (std::size_t of = 0; of < ranks; ++of) result += value(of, at);
    return result;
  };
  std::string wrong;
  auto const expect = [&](bool is_right, char const* what) {
    if (!is_right) wrong += std::string(what) + "; ";
  };
  auto const all = [](auto const& elements, auto const& is_right) {
    for (std::size_t k = 0; k < elements.size(); ++k) {
      if (!is_right(k, elements[k])) return false;
    }
    return true;
  };

  auto data = filled(count);
  blink::all_reduce(comm, data);
  expect(all(data, [&](std::size_t k, int x) { return x == sum_at(k); }), "all_reduce in place");
  auto const in = filled(count);
  std::vector<int> out(count, -1);
  blink::all_reduce(comm, in, out, blink::max{});
  expect(all(out, [&](std::size_t k, int x) { return x == value(ranks - 1, k); }), "all_reduce");
  blink::all_reduce(comm, in.data(), out.data(), count);
  expect(all(out, [&](std::size_t k, int x) { return x == sum_at(k); }), "all_reduce of pointers");

  int const root = comm.rank_count() - 1;
  bool const is_root = comm.rank() == root;
  data = filled(count);
  blink::broadcast(comm, data, root);
  expect(all(data, [&](std::size_t k, int x) { return x == value(ranks - 1, k); }), "broadcast");
  std::array<int, 3> few{comm.rank(), 7, 8};
  blink::broadcast(comm, few, 0);
  expect(few[0] == 0, "broadcast of an array");

  std::vector<int> at_root(is_root ? count : 0, -1);
  blink::reduce(comm, in, at_root, root);
  expect(all(at_root, [&](std::size_t k, int x) { return x == sum_at(k); }), "reduce");
  data = filled(count);
  blink::reduce(comm, data, root);
  expect(
      all(data, [&](std::size_t k, int x) { return x == (is_root ? sum_at(k) : value(rank, k)); }),
      "reduce in place");

  std::vector<int> segments(count * ranks, -1);
  blink::all_gather(comm, in, segments);
  auto const of_all = [&](std::size_t k, int x) { return x == value(k / count, k % count); };
  expect(all(segments, of_all), "all_gather");
  std::vector<int> gathered(is_root ? count * ranks : 0, -1);
  blink::gather(comm, in, gathered, root);
  expect(all(gathered, of_all), "gather");

  auto const large = filled(count * ranks);
  blink::reduce_scatter(comm, large, out);
  expect(all(out, [&](std::size_t k, int x) { return x == sum_at(rank * count + k); }),
         "reduce_scatter");
  blink::scatter(comm, is_root ? large : std::vector<int>{}, out, root);
  expect(all(out, [&](std::size_t k, int x) { return x == value(ranks - 1, rank * count + k); }),
         "scatter");
  blink::all_to_all(comm, large, segments);
  expect(all(segments,
             [&](std::size_t k, int x) { return x == value(k / count, rank * count + k % count); }),
         "all_to_all");
  // Segments of unequal sizes: rank r has r + 1 elements.
  std::vector<std::size_t> sizes(ranks);
  std::iota(sizes.begin(), sizes.end(), std::size_t{1});
  auto const blocks = blink::consecutive_blocks(sizes);
  std::vector<int> const own(sizes[rank], comm.rank());
  std::vector<int> joined(blocks.back().begin + blocks.back().count, -1);
  blink::all_gather_v(comm, own.data(), joined.data(), blocks);
  expect(joined.back() == root && joined.front() == 0, "all_gather_v");
  std::vector<int> shares(sizes[rank], -1);
  blink::reduce_scatter_v(comm, joined.data(), shares.data(), blocks);
  expect(shares[0] == comm.rank() * comm.rank_count(), "reduce_scatter_v");
  std::vector<int> dealt(ranks * sizes[rank], -1);
  blink::all_to_all_v(comm, joined.data(), blocks, dealt.data(),
                      blink::consecutive_blocks(std::vector<std::size_t>(ranks, sizes[rank])));
  expect(dealt.back() == comm.rank(), "all_to_all_v");
  blink::transfers list;
  int const mine = comm.rank();
  int theirs = -1;
  list.send((comm.rank() + 1) % comm.rank_count(), &mine, 1);
  list.receive((comm.rank() + comm.rank_count() - 1) % comm.rank_count(), &theirs, 1);
  blink::exchange(comm, list);
  expect((theirs + 1) % comm.rank_count() == comm.rank(), "exchange");
  blink::barrier(comm);
  return wrong;
}

}  // namespace blink_test
