// SPDX-License-Identifier: Apache-2.0
#pragma once

// Repeated asynchronous calls of every form that a queue takes, for any kind of ranks.

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/running/call/detail/communicator_buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace blink_test {

/// Returns the faults, or an empty text.
///
/// seed: of the order in which this rank waits; may differ by rank
template <class Comm>
std::string run_started_calls(Comm& comm, blink::progress how, std::uint64_t seed) {
  using blink::detail::communicator_buffer;
  std::mt19937_64 random(seed);
  int const n = comm.rank_count();
  auto const ranks = static_cast<std::size_t>(n);
  int const rank = comm.rank();
  auto const place = static_cast<std::size_t>(rank);
  auto& star = comm.prepare(blink::star_schedule(n));
  auto& flows = comm.prepare(blink::all_to_all_schedule(n));
  blink::call_queue queue(comm, how);

  // Rank r sends every rank the same r + 1 elements.
  std::vector<std::size_t> counts(ranks);
  std::iota(counts.begin(), counts.end(), std::size_t{1});
  auto const from = blink::consecutive_blocks(counts);
  auto own = communicator_buffer<int>(comm, place + 1);
  auto from_all = communicator_buffer<int>(comm, from.back().begin + from.back().count);
  std::vector<blink::block> const sends(ranks, {0, place + 1});
  auto flow = queue.make_all_to_all_v(flows, own.data(), sends, from_all.data(), from);

  // Two pieces for the next rank.
  int const last = (rank + n - 1) % n;
  auto out = communicator_buffer<int>(comm, 4);
  auto in = communicator_buffer<int>(comm, 4);
  blink::transfers list;
  list.send((rank + 1) % n, out.data(), 3);
  list.send((rank + 1) % n, out.data() + 3, 1);
  list.receive(last, in.data() + 1, 3);
  list.receive(last, in.data(), 1);
  auto ring = queue.make_exchange(flows, list);

  // Two calls that are packed together, and one that is not.
  auto small = communicator_buffer<int>(comm, 2), more = communicator_buffer<int>(comm, 3),
       large = communicator_buffer<int>(comm, 50);
  auto const part_of = [](auto& data) {
    return blink::buffer_part<int>{data.data(), data.data(), data.size()};
  };
  auto group = queue.make_grouped(star, blink::collective::all_reduce,
                                  std::vector{part_of(small), part_of(large), part_of(more)},
                                  blink::sum{}, 100);

  auto sparse = communicator_buffer<int>(comm, 1000);
  blink::block_mask mask(sparse.size(), 10);
  auto sparse_sum = queue.make_all_reduce_sparse(star, sparse.data(), mask, blink::sum{});

  auto dense = communicator_buffer<double>(comm, 3000);
  auto sum = queue.make(blink::collective::all_reduce, star, dense.data(), dense.data(),
                        dense.size(), blink::sum{});
  int* const nothing = nullptr;
  auto barrier = queue.make(blink::collective::barrier, star, nothing, nothing, 0);

  for (int round = 0; round < 5; ++round) {
    std::fill_n(own.data(), own.size(), 10 * rank + round);
    for (int k = 0; k < 4; ++k) out[static_cast<std::size_t>(k)] = 100 * rank + 10 * round + k;
    for (auto* const data : {&small, &more, &large}) {
      std::fill_n(data->data(), data->size(), round);
    }
    std::fill_n(sparse.data(), sparse.size(), 0);
    mask = blink::block_mask(sparse.size(), 10);
    std::size_t const block = 3 * place + static_cast<std::size_t>(round);
    sparse[10 * block] = sparse[999] = 1;
    mask.set(block);
    mask.set(99);
    std::fill_n(dense.data(), dense.size(), round);

    std::vector<blink::queued_call*> calls{&flow, &ring, &group, &sparse_sum, &barrier, &sum};
    for (auto* const call : calls) call->start();
    std::shuffle(calls.begin(), calls.end(), random);
    for (auto* const call : calls) {
      if (random() % 2 == 0) call->wait();
      while (!call->test()) std::this_thread::yield();
    }

    auto const wrong = [&](std::string const& what) {
      return what + " of rank " + std::to_string(rank) + ", round " + std::to_string(round);
    };
    for (int peer = 0; peer < n; ++peer) {
      auto const& [begin, count] = from[static_cast<std::size_t>(peer)];
      for (std::size_t k = begin; k < begin + count; ++k) {
        if (from_all[k] != 10 * peer + round) return wrong("all_to_all_v");
      }
    }
    for (std::size_t k = 0; k < 4; ++k) {
      int const sent = 100 * last + 10 * round + (static_cast<int>(k) + 3) % 4;
      if (in[k] != sent) return wrong("exchange");
    }
    for (auto* const data : {&small, &more, &large}) {
      if ((*data)[0] != n * round || (*data)[data->size() - 1] != n * round)
        return wrong("grouped");
    }
    if (mask.elements() != 10 * (ranks + 1) || sparse[10 * block] != 1 || sparse[999] != n ||
        std::accumulate(sparse.data(), sparse.data() + sparse.size(), 0) != 2 * n) {
      return wrong("all_reduce_sparse");
    }
    if (dense[0] != n * round || dense[2999] != n * round) return wrong("all_reduce");
  }
  return "";
}

}  // namespace blink_test
