// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/rational.hpp>
#include <blink/topology/rank_paths.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace blink::tools {

/// GPUs that share the link of a switch, which is narrower than their links together.
struct shared_link {
  std::size_t ranks = 0;     ///< below each of the switches
  std::size_t switches = 0;  ///< of which this is so
  link_kind kind = link_kind::unknown;
  rational rate;  ///< of the shared link, in the machine's unit
};

/// The limits of a machine, and what they allow.
struct machine_explanation {
  std::vector<std::vector<std::optional<rank_path>>> paths;  ///< empty for many ranks
  link_kind fastest = link_kind::unknown;
  std::size_t pairs = 0;
  std::size_t pairs_without_fastest = 0;
  std::vector<shared_link> shared;
  std::optional<rational> best;  ///< rate of the best all-reduce that was found, checked
  bool is_best_exact = false;    ///< `best` is at its bound
  std::string links;             ///< the kind of link that it uses alone; empty: all
  std::optional<rational> ring;  ///< rate of an all-reduce along one ring, each way
  std::string sentence;          ///< all of that in one sentence
};

/// The name of a kind of link as people write it.
[[nodiscard]] std::string proper_name(link_kind kind);

/// Finds out what matters. Planning takes a few seconds at most.
[[nodiscard]] machine_explanation explain(topology const& machine);

}  // namespace blink::tools
