// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The process and the device of each rank, equal for all schedules of a communicator. Ranks are
/// numbered process by process. Each process has its own numbers for its devices.
struct rank_placement {
  /// A device of one of the processes, with the ranks on it.
  struct place {
    int process = 0;
    int device = 0;
    std::vector<int> ranks;
  };

  int process = 0;  ///< the process of the caller
  int process_count = 1;
  /// process by process, within a process in the order of their first rank
  std::vector<place> places;
  std::vector<int> place_of;   ///< by rank: position in `places`
  std::vector<int> device_of;  ///< by rank
  std::vector<int> devices;    ///< of this process, without duplicates: a part of `places`
  int first_place = 0;         ///< position in `places` of the first device of this process
  int first_rank = 0;          ///< the first rank of this process
  /// The number of ranks of this process.
  int ranks_here = 0;

  /// by_process: the devices of the ranks of each process
  /// own:        the number of the calling process
  rank_placement(std::vector<std::vector<int>> const& by_process, int own)
      : process(own), process_count(static_cast<int>(by_process.size())) {
    for (int owner = 0; owner < process_count; ++owner) {
      auto const& ranks = by_process[static_cast<std::size_t>(owner)];
      std::size_t const first = places.size();
      if (owner == own) {
        first_place = static_cast<int>(first);
        first_rank = static_cast<int>(device_of.size());
        ranks_here = static_cast<int>(ranks.size());
      }
      for (int const device : ranks) {
        std::size_t at = first;
        while (at < places.size() && places[at].device != device) ++at;
        if (at == places.size()) {
          places.push_back({owner, device, {}});
          if (owner == own) devices.push_back(device);
        }
        places[at].ranks.push_back(static_cast<int>(device_of.size()));
        place_of.push_back(static_cast<int>(at));
        device_of.push_back(device);
      }
    }
  }
  /// All ranks are of this process.
  explicit rank_placement(std::vector<int> const& by_rank) : rank_placement({by_rank}, 0) {}

  /// A device of this process, by position in `devices`.
  [[nodiscard]] place const& here(std::size_t position) const {
    return places[static_cast<std::size_t>(first_place) + position];
  }
  /// The device of a rank.
  [[nodiscard]] place const& of_rank(int rank) const {
    return places[static_cast<std::size_t>(place_of[static_cast<std::size_t>(rank)])];
  }
  /// True if a device belongs to this process.
  [[nodiscard]] bool is_here(place const& which) const { return which.process == process; }
  /// The position in `devices` of the device of a rank of this process.
  [[nodiscard]] std::size_t position_of(int rank) const {
    return static_cast<std::size_t>(place_of[static_cast<std::size_t>(rank)] - first_place);
  }

  /// Returns "rank 2 (device 1)", or "rank 2 (process 1, device 1)" if there are several processes.
  [[nodiscard]] std::string name(int rank) const {
    auto const& where = of_rank(rank);
    std::string const owner =
        process_count == 1 ? "" : "process " + std::to_string(where.process) + ", ";
    return "rank " + std::to_string(rank) + " (" + owner + "device " +
           std::to_string(where.device) + ")";
  }
};

}}  // namespace blink::BLINK_ABI
