// SPDX-License-Identifier: Apache-2.0
#pragma once

// The measuring loop of all peers, for ranks that are threads or processes of a launcher. Ranks
// meet at a board in shared memory, so no peer pays for the measuring.
//
// A call is timed from the moment the last rank enters until the last one returns. Before each call
// every rank compares its previous output with the expected values and rewrites its input, outside
// of the time. Repeating a call on unchanged data in the caches would flatter sizes up to 512 KiB
// by a multiple.

#include "../bind_to_core.hpp"
#include "../ceiling.hpp"
#include "../median.hpp"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace blink_bench {

enum class operation {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  barrier
};
inline constexpr std::array<std::string_view, 7> operation_names{
    "all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"};

/// The operation with this name.
///
/// Throws: std::invalid_argument if there is none.
[[nodiscard]] inline operation operation_of(std::string_view text) {
  auto const* const name = std::find(operation_names.begin(), operation_names.end(), text);
  if (name == operation_names.end()) {
    throw std::invalid_argument("operation: found '" + std::string(text) +
                                "', expected one such as all_reduce");
  }
  return static_cast<operation>(name - operation_names.begin());
}

inline constexpr int most_ranks = 128;  // that a board has room for

/// `PROGRAM BOARD RANKS OPERATION FIRST_BYTES LAST_BYTES SECONDS`: see `scripts/bench_peers`.
struct peer_arguments {
  std::string board;
  int ranks = 0;
  operation what = operation::all_reduce;
  std::size_t first_bytes = 8;
  std::size_t last_bytes = 8;
  double seconds = 0.2;  ///< approximate time for each size
};

[[nodiscard]] inline peer_arguments read_arguments(int count, char** texts) {
  if (count != 7) throw std::invalid_argument("expected BOARD RANKS OPERATION FIRST LAST SECONDS");
  peer_arguments result;
  result.board = texts[1];
  result.ranks = std::atoi(texts[2]);
  if (result.ranks < 1 || result.ranks > most_ranks) {
    throw std::invalid_argument(std::string(texts[2]) + " ranks, expected 1 to " +
                                std::to_string(most_ranks));
  }
  result.what = operation_of(texts[3]);
  result.first_bytes = std::strtoull(texts[4], nullptr, 10);
  result.last_bytes = std::strtoull(texts[5], nullptr, 10);
  result.seconds = std::strtod(texts[6], nullptr);
  return result;
}

/// The place where ranks meet; all bits are zero at first.
struct peer_board {
  static constexpr int most_calls = 4000;
  counting_barrier barrier;
  bool goes_on[2];
  struct alignas(128) ball {
    std::atomic<std::uint64_t> throws;
  };
  ball balls[2];  // of ranks 0 and 1
  // Each rank's times are contiguous: a line that several ranks write would be fetched within the
  // measured time.
  struct alignas(128) rank_times {
    std::int64_t begin[most_calls];
    std::int64_t end[most_calls];
  };
  rank_times times[most_ranks];

  /// Time from the moment the last rank enters until the last one returns.
  [[nodiscard]] std::int64_t time_of(int call, int ranks) const {
    std::int64_t begin = times[0].begin[call];
    std::int64_t end = times[0].end[call];
    for (int rank = 1; rank < ranks; ++rank) {
      begin = std::max(begin, times[rank].begin[call]);
      end = std::max(end, times[rank].end[call]);
    }
    return end - begin;
  }
};

/// Nanoseconds of a cache line from the core of rank 0 to that of rank 1. Cores of a virtual
/// machine may be near each other at one time and far apart at another. 0 if ranks share cores.
/// Collective over all ranks.
[[nodiscard]] inline double measure_hop(peer_board& board, int rank, int ranks, auto const& meet) {
  constexpr std::uint64_t trips = 1000;
  if (static_cast<unsigned>(ranks) > std::thread::hardware_concurrency()) return 0;
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    meet();
    if (rank > 1 || ranks < 2) continue;
    auto& mine = board.balls[rank].throws;
    auto const& other = board.balls[1 - rank].throws;
    std::uint64_t next = mine.load(std::memory_order_relaxed);
    auto const started = std::chrono::steady_clock::now();
    for (std::uint64_t const last = next + trips; next < last;) {
      // Rank 0 throws first, rank 1 throws back.
      if (rank == 0) mine.store(next + 1, std::memory_order_release);
      while (other.load(std::memory_order_acquire) <= next) {
      }
      ++next;
      if (rank == 1) mine.store(next, std::memory_order_release);
    }
    std::chrono::duration<double, std::nano> const took =
        std::chrono::steady_clock::now() - started;
    double const hop = took.count() / trips / 2;
    if (round == 0 || hop < best) best = hop;
  }
  return best;
}

/// Maps the board from a file of its size, which the launching script made.
[[nodiscard]] inline peer_board& map_board(std::string const& path) {
  int const file = ::open(path.c_str(), O_RDWR);
  if (file < 0 || ::ftruncate(file, sizeof(peer_board)) != 0) {
    throw std::runtime_error("cannot open the board " + path);
  }
  void* const memory =
      ::mmap(nullptr, sizeof(peer_board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot map the board " + path);
  return *static_cast<peer_board*>(memory);
}

/// The call that a rank passes to its peer.
struct peer_call {
  operation what = operation::all_reduce;
  float* input = nullptr;
  float* output = nullptr;
  std::size_t count = 0;  ///< elements of the whole buffer; ranks * block for operations with
                          ///< blocks
  std::size_t block = 0;  ///< elements of one rank's block
};

/// A call on `bytes` bytes in all, still without buffers.
[[nodiscard]] inline peer_call call_of(operation what, std::size_t bytes, int rank_count) {
  auto const ranks = static_cast<std::size_t>(rank_count);
  peer_call call;
  call.what = what;
  call.block = std::max<std::size_t>(1, bytes / sizeof(float) / ranks);
  bool const has_blocks = what == operation::all_gather || what == operation::reduce_scatter ||
                          what == operation::all_to_all;
  call.count = has_blocks ? call.block * ranks : bytes / sizeof(float);
  return call;
}

[[nodiscard]] inline std::size_t input_count(peer_call const& call) {
  return call.what == operation::all_gather ? call.block : call.count;
}
[[nodiscard]] inline std::size_t output_count(peer_call const& call) {
  return call.what == operation::reduce_scatter ? call.block : call.count;
}

/// Element k of the input of a rank: small, so that sums are exact.
[[nodiscard]] inline float contribution(int rank, std::int64_t round, std::size_t k) {
  return static_cast<float>((k + static_cast<std::size_t>(rank * 7 + round * 3)) & 63);
}

/// The number of wrong elements in the output.
[[nodiscard]] inline std::size_t count_wrong(peer_call const& call, int rank, int ranks,
                                             std::int64_t round) {
  bool const sums = call.what == operation::all_reduce || call.what == operation::reduce ||
                    call.what == operation::reduce_scatter;
  if (call.what == operation::reduce && rank != 0) return 0;
  if (call.what == operation::barrier) return 0;
  std::size_t const shift =
      call.what == operation::reduce_scatter ? call.block * static_cast<std::size_t>(rank) : 0;
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < output_count(call); ++k) {
    float expected = 0;
    if (sums) {
      for (int peer = 0; peer < ranks; ++peer) expected += contribution(peer, round, shift + k);
    } else if (call.what == operation::all_gather) {
      expected = contribution(static_cast<int>(k / call.block), round, k % call.block);
    } else if (call.what == operation::all_to_all) {
      expected = contribution(static_cast<int>(k / call.block), round,
                              call.block * static_cast<std::size_t>(rank) + k % call.block);
    } else {
      expected = contribution(0, round, k);
    }
    wrong += call.output[k] == expected ? 0 : 1;
  }
  return wrong;
}

/// The next size: 8, 64, 1 Ki, 8 Ki, 64 Ki, …, 256 Mi.
[[nodiscard]] inline std::size_t size_after(std::size_t bytes) {
  return bytes * (bytes == 64 ? 16 : 8);
}

[[nodiscard]] inline std::int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Runs all sizes on one rank; rank 0 prints one line of JSON for each.
///
/// A peer has these members:
/// - `prepare(rank, call)`, called once for each size by every rank;
/// - `run(rank, call)`;
/// - `idle()`, which lets time pass while ranks wait for each other between calls;
/// - `make_buffer(count)`, optional, for special buffers.
template <class Peer>
void measure(peer_board& board, peer_arguments const& given, int rank, std::string const& name,
             Peer& peer) {
  bind_to_core(rank);
  for (std::size_t bytes = given.first_bytes; bytes <= given.last_bytes;
       bytes = size_after(bytes)) {
    if (given.what == operation::barrier && bytes > given.first_bytes) break;
    auto call = call_of(given.what, bytes, given.ranks);
    auto const make_buffer = [&](std::size_t count) {
      if constexpr (requires { peer.make_buffer(count); }) {
        return peer.make_buffer(count);
      } else {
        return page_buffer(count);
      }
    };
    auto const input = make_buffer(input_count(call));
    auto const output = make_buffer(output_count(call));
    call.input = input.data();
    call.output = output.data();
    peer.prepare(rank, call);
    auto const meet = [&] { board.barrier.wait(given.ranks, [&] { peer.idle(); }); };
    double const hop_before = measure_hop(board, rank, given.ranks, meet);
    meet();
    std::int64_t const started = nanoseconds();
    int calls = 0;
    for (;; ++calls) {
      for (std::size_t k = 0; k < input_count(call); ++k) {
        call.input[k] = contribution(rank, calls, k);
      }
      if (rank == 0) {
        bool const has_time =
            static_cast<double>(nanoseconds() - started) < given.seconds * 1e9 || calls < 5;
        board.goes_on[calls % 2] = has_time && calls < peer_board::most_calls;
      }
      meet();
      if (!board.goes_on[calls % 2]) break;
      auto& own = board.times[rank];
      own.begin[calls] = nanoseconds();
      peer.run(rank, call);
      own.end[calls] = nanoseconds();
      if (auto const wrong = count_wrong(call, rank, given.ranks, calls); wrong > 0) {
        std::fprintf(stderr, "%s: %s of %zu bytes, rank %d: %zu wrong elements\n", name.c_str(),
                     operation_names[static_cast<std::size_t>(given.what)].data(), bytes, rank,
                     wrong);
        std::abort();
      }
    }
    double const hop_after = measure_hop(board, rank, given.ranks, meet);
    meet();
    if (rank == 0) {
      std::vector<std::int64_t> times;
      for (int k = 2; k < calls; ++k) {  // the first two warm up
        times.push_back(board.time_of(k, given.ranks));
      }
      std::printf(
          R"({"peer": "%s", "operation": "%s", "ranks": %d, "bytes": %zu, "calls": %zu, "us": %.3f, "hops": [%.0f, %.0f]})"
          "\n",
          name.c_str(), operation_names[static_cast<std::size_t>(given.what)].data(), given.ranks,
          bytes, times.size(), static_cast<double>(median(times)) * 1e-3, hop_before, hop_after);
      std::fflush(stdout);
    }
    meet();
  }
}

/// Calls `measure_all(one)` with arguments of one size each, so that all variants of a program are
/// measured in turn for each size. The distance of a shared machine's cores changes within seconds.
template <class MeasureAll>
void for_each_size(peer_arguments const& given, MeasureAll const& measure_all) {
  std::size_t const last = given.what == operation::barrier ? given.first_bytes : given.last_bytes;
  for (std::size_t bytes = given.first_bytes; bytes <= last; bytes = size_after(bytes)) {
    peer_arguments one = given;
    one.first_bytes = one.last_bytes = bytes;
    measure_all(one);
  }
}

}  // namespace blink_bench
