// SPDX-License-Identifier: Apache-2.0
// Alternates the ceiling of this memory and blink among two threads, call by call. So both meet the
// same distance of cores and the same load of caches. usage: threads_in_turn [OPERATION…]
//
// Each call finds the caches as the call before left them. So each variant of the ceiling, and
// blink, is called twice in a row, and the second call counts. Inputs are rewritten before every
// call, and results checked. Times are taken as for the peers (`measure`). Prints medians in
// microseconds, of the best variant for the ceiling, by the time of a cache line from one core to
// the other.

#include <blink/collectives.hpp>

#include "blink_peer.hpp"
#include "ceiling_peer.hpp"
#include "peer_loop.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using blink_bench::ceiling_peer;
using blink_bench::ceiling_way;
using blink_bench::operation;
using blink_bench::peer_call;

constexpr int ranks = 2;
constexpr double most_near_hop = 100;  // nanoseconds

/// Nanoseconds of calls, of the three variants of the ceiling and of blink.
using call_times = std::array<std::vector<double>, 4>;

void print(operation what, std::size_t bytes, char const* cores, call_times const& times) {
  if (times[0].size() < 5) return;
  double const ceiling = std::min({blink_bench::median(times[0]), blink_bench::median(times[1]),
                                   blink_bench::median(times[2])});
  double const ours = blink_bench::median(times[3]);
  std::printf("| %s, %s | %zu | %zu | %.1f | %.1f | %.2f |\n",
              blink_bench::operation_names[static_cast<std::size_t>(what)].data(), cores, bytes,
              times[0].size(), ceiling * 1e-3, ours * 1e-3, ours / ceiling);
  std::fflush(stdout);
}

class comparison {
 public:
  comparison(blink_bench::peer_board& board, operation what) : board_(board), what_(what) {}

  /// Measures one size; called on each rank.
  template <class Comm>
  void measure(Comm& comm, std::size_t bytes) {
    auto call = blink_bench::call_of(what_, bytes, ranks);
    blink_bench::page_buffer const input(blink_bench::input_count(call));
    blink_bench::page_buffer const output(blink_bench::output_count(call));
    call.input = input.data();
    call.output = output.data();
    int const rank = comm.rank();
    blink_bench::blink_peer ours(comm);
    ours.prepare(rank, call);
    for (auto& way : ways_) way.prepare(rank, call);
    meet();
    call_times near, far;
    auto const rounds = std::clamp<std::size_t>((std::size_t{1} << 30) / bytes, 20, 300);
    for (std::size_t round = 0; round < rounds; ++round) {
      double const hop = blink_bench::measure_hop(board_, rank, ranks, [&] { meet(); });
      auto& times = hop < most_near_hop ? near : far;
      for (std::size_t k = 0; k < ways_.size(); ++k) add(times[k], rank, call, ways_[k]);
      add(times[3], rank, call, ours);
    }
    if (rank != 0) return;
    print(what_, bytes, "near", near);
    print(what_, bytes, "far", far);
  }

 private:
  void meet() { board_.barrier.wait(ranks); }

  template <class Peer>
  void add(std::vector<double>& times, int rank, peer_call const& call, Peer& peer) {
    for (int place = 0; place < 2; ++place) {
      for (std::size_t k = 0; k < blink_bench::input_count(call); ++k) {
        call.input[k] = blink_bench::contribution(rank, place, k);
      }
      meet();
      auto& own = board_.times[rank];
      own.begin[place] = blink_bench::nanoseconds();
      peer.run(rank, call);
      own.end[place] = blink_bench::nanoseconds();
      if (blink_bench::count_wrong(call, rank, ranks, place) > 0) {
        std::fprintf(stderr, "threads_in_turn: %zu elements, rank %d: wrong results\n", call.count,
                     rank);
        std::abort();
      }
      meet();
    }
    if (rank == 0) times.push_back(static_cast<double>(board_.time_of(1, ranks)));
  }

  blink_bench::peer_board& board_;
  operation what_;
  std::array<ceiling_peer<ranks>, 3> ways_{ceiling_peer<ranks>(ceiling_way::slices),
                                           ceiling_peer<ranks>(ceiling_way::streaming_slices),
                                           ceiling_peer<ranks>(ceiling_way::whole)};
};

[[nodiscard]] std::vector<operation> read_operations(int count, char** texts) {
  std::vector<operation> result;
  for (int k = 1; k < count; ++k) {
    result.push_back(blink_bench::operation_of(texts[k]));
    if (result.back() != operation::barrier) continue;
    throw std::invalid_argument("barrier: has no sizes, expected another operation");
  }
  if (count > 1) return result;
  for (auto const& name : blink_bench::operation_names) {
    auto const what = blink_bench::operation_of(name);
    if (what != operation::barrier) result.push_back(what);
  }
  return result;
}

}  // namespace

int main(int count, char** texts) {
  try {
    auto const operations = read_operations(count, texts);
    auto const board = std::make_unique<blink_bench::peer_board>();
    std::printf(
        "| | bytes | calls | ceiling | blink | ratio |\n| --- | --- | --- | --- | --- | --- |\n");
    for (operation const what : operations) {
      comparison all(*board, what);
      blink::thread_ranks threads(ranks);
      threads.run([&](auto& comm) {
        blink_bench::bind_to_core(comm.rank());
        for (std::size_t const bytes :
             {std::size_t{1} << 16, std::size_t{1} << 19, std::size_t{1} << 20,
              std::size_t{1} << 22, std::size_t{1} << 25}) {
          all.measure(comm, bytes);
        }
      });
    }
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "%s: %s\n", texts[0], problem.what());
    return 1;
  }
}
