// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The rule by which chunks in flight share a link.
enum class link_sharing : std::uint8_t {
  fifo,  ///< one after the other, in the order in which ranks hand them over
  fair,  ///< all at once, at max-min fair rates over the links of their routes
};

/// The name of a rule.
[[nodiscard]] constexpr char const* to_text(link_sharing sharing) {
  return sharing == link_sharing::fifo ? "fifo" : "fair";
}

/// A rank that works more slowly than the others, or begins later.
struct slow_rank {
  int rank = 0;             ///< node id
  double factor = 1;        ///< on the time of its steps and combinations, at least 1
  double late_seconds = 0;  ///< from the begin of the call; it begins nothing before
};

/// A change of a link's rate, in one direction. Later changes of a link replace earlier ones.
struct link_change {
  int from = 0;        ///< node id
  int to = 0;          ///< node id
  double seconds = 0;  ///< from the begin of the call, when the change takes place
  double factor = 1;   ///< on the rate that the machine states; 0: the link fails for good
};

/// Parameters of a simulated machine that its links do not give.
struct simulation_options {
  double start_seconds = 5e-6;  ///< spent once, before the first chunk
  double step_seconds = 2e-6;   ///< for each chunk and tree edge, before it enters the links
  double bytes_per_unit = 0;    ///< bytes per second of one capacity unit; 0: from its name
  std::size_t window = 4;       ///< chunks in flight on a tree edge; 0: any number
  std::int64_t most_messages = 50'000'000;  ///< largest number of chunks times tree edges
  link_sharing sharing = link_sharing::fifo;
  /// Bytes per second at which a rank combines a chunk of a child with its own data; 0: in no time.
  /// Switches combine in no time.
  double reduce_bytes_per_second = 0;
  bool combines_in_parallel = false;  ///< false: a rank combines one chunk after the other
  /// Steps, combinations and bytes on the links take up to this share longer, uniformly at random.
  double noise = 0;
  std::uint64_t seed = 1;  ///< of the noise
  std::vector<slow_rank> slow_ranks = {};
  std::vector<link_change> link_changes = {};
  bool records_events = false;  ///< true: the result lists crossings and combinations
};

/// One chunk on one link of a tree edge's route.
struct link_crossing {
  std::size_t tree = 0;    ///< position in `plan.trees`
  bool is_reduce = false;  ///< the edge leads towards the root
  std::size_t chunk = 0;   ///< of the tree, from 0
  int edge_from = 0;       ///< node ids of the tree edge
  int edge_to = 0;
  int link_from = 0;  ///< node ids of the link
  int link_to = 0;
  double begin = 0;  ///< seconds: the link begins to carry the chunk
  double end = 0;    ///< seconds: the link has carried all of it
  double bytes = 0;
  friend bool operator==(link_crossing const&, link_crossing const&) = default;
};

/// One chunk of a child that a rank combines with its own data.
struct rank_combination {
  std::size_t tree = 0;   ///< position in `plan.trees`
  std::size_t chunk = 0;  ///< of the tree, from 0
  int rank = 0;           ///< node id of the rank that combines
  int from = 0;           ///< node id of the child
  double begin = 0;       ///< seconds
  double end = 0;         ///< seconds
  friend bool operator==(rank_combination const&, rank_combination const&) = default;
};

/// The time of a simulated run, and the work of each link.
///
/// All times count from the begin of the call. So the first chunk moves after `start_seconds`.
struct simulation_result {
  double seconds = 0;                                  ///< until the last chunk has arrived
  std::int64_t messages = 0;                           ///< chunks times tree edges
  std::map<std::pair<int, int>, double> busy_seconds;  ///< of links, by the node ids (from, to)
  /// By node id, of the ends of tree edges: the last arrival or combination there, or the end of
  /// the last chunk that it handed over.
  std::map<int, double> end_seconds = {};
  std::vector<link_crossing> crossings = {};        ///< by `end`, if events are recorded
  std::vector<rank_combination> combinations = {};  ///< by `end`, if events are recorded
};

/// A chunk that never arrives, because a link of its route has failed for good.
struct link_failure : planning_error {
  using planning_error::planning_error;

  int from = 0;  ///< node ids of the link
  int to = 0;
  std::size_t tree = 0;   ///< position in `plan.trees`
  std::size_t chunk = 0;  ///< of the tree, from 0
  double seconds = 0;     ///< when the chunk is lost: from the begin of the call
};

}}  // namespace blink::BLINK_ABI
