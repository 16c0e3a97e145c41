// SPDX-License-Identifier: Apache-2.0
// One of three ranks that UCX joins, each on a host of its own. Host 2 loses its link while they
// call: both sides name the other, shrink, and go on. See partition.sh.
//
//   usage: PROGRAM FOLDER RANK
#include <blink/ucx.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

namespace {

bool sums_up(blink::ucx_communicator& comm) {
  std::vector<float> data(100'000, 1);
  blink::all_reduce(comm, data);
  auto const sum = static_cast<float>(comm.rank_count());
  return std::count(data.begin(), data.end(), sum) == static_cast<std::ptrdiff_t>(data.size());
}

bool goes_on_without_the_others(std::string const& folder, int rank) {
  constexpr int ranks = 3, cut_off = 2;
  constexpr std::chrono::seconds deadline{2}, longest{60};
  blink::file_bootstrap all(folder + "/job", rank, ranks);
  auto options = blink::message_options();
  options.shares_memory = false;  // the hosts are one system
  options.waits.deadline = deadline;
  blink::ucx_communicator comm(all, options);
  if (!sums_up(comm)) return false;
  std::ofstream(folder + "/runs." + std::to_string(rank));
  std::string text;
  auto begun = std::chrono::steady_clock::now();
  try {
    for (auto const end = begun + longest; begun < end; begun = std::chrono::steady_clock::now()) {
      if (!sums_up(comm)) return false;
    }
  } catch (blink::collective_error const& failure) {
    text = failure.what();
  }
  auto const took = std::chrono::steady_clock::now() - begun;
  auto smaller = comm.shrink();
  std::printf("rank %d, after %.1f s: %s; goes on with %d\n", rank,
              std::chrono::duration<double>(took).count(), text.c_str(), smaller.rank_count());
  std::fflush(stdout);
  auto const names = [&](int peer) {
    return text.find("rank " + std::to_string(peer)) != std::string::npos;
  };
  bool const is_named = rank == cut_off ? names(0) || names(1) : names(cut_off);
  return is_named && took < 2 * deadline && sums_up(smaller) &&
         smaller.rank_count() == (rank == cut_off ? 1 : ranks - 1);
}

}  // namespace

int main(int count, char** texts) {
  bool is_good = false;
  try {
    is_good = count == 3 && goes_on_without_the_others(texts[1], std::atoi(texts[2]));
  } catch (std::exception const& problem) {
    std::printf("rank %s: %s\n", count == 3 ? texts[2] : "?", problem.what());
  }
  std::fflush(stdout);
  std::_Exit(is_good ? 0 : 1);  // the end of a communicator waits for ranks that are cut off
}
