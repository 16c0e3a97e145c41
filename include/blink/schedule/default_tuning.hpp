// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/schedule/host_schedules.hpp>
#include <blink/schedule/tuning_table.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// True if there are several hosts, and several ranks on one of them.
template <class = when_used>
[[nodiscard]] bool share_hosts(std::vector<std::uint64_t> const& hosts) {
  std::size_t const count = hosts_of_ranks(hosts).ranks.size();
  return count > 1 && count < hosts.size();
}

/// Algorithms that carry data from host to host once. The first one suits large buffers.
template <class = when_used>
[[nodiscard]] std::vector<algorithm> host_algorithms(collective kind, int root,
                                                     std::vector<std::uint64_t> const& hosts) {
  switch (kind) {
    case collective::broadcast:
    case collective::reduce:
      return {{"host chain", host_tree_schedule(hosts, root, way_through_hosts::chain)},
              {"host binomial", host_tree_schedule(hosts, root, way_through_hosts::binomial)}};
    case collective::all_reduce:
      return {{"hosts", hosts_schedule(hosts)},
              {"host binomial", host_tree_schedule(hosts, root, way_through_hosts::binomial)}};
    case collective::all_gather:
    case collective::reduce_scatter:
      return {{"hosts", hosts_schedule(hosts)}};
    case collective::barrier:
      return {{"host binomial", host_tree_schedule(hosts, 0, way_through_hosts::binomial)}};
    default:
      return {};
  }
}

}  // namespace detail

/// Returns algorithms for a collective that need no plan, for `tune` to choose from. They suit
/// machines where every pair of ranks is joined equally well, as in one memory, or every pair of
/// hosts. The first one suits large buffers.
///
/// root:   of a broadcast, reduce, gather or scatter
/// hosts:  by rank, a number that is equal for ranks of one host; empty: all are on one host
/// Throws: precondition_error if `root` is no rank, or for a permute, whose receivers only the
///         caller knows.
template <class = when_used>
[[nodiscard]] std::vector<algorithm> default_algorithms(
    collective kind, int rank_count, int root = 0, std::vector<std::uint64_t> const& hosts = {}) {
  expects(0 <= root && root < rank_count,
          "default_algorithms: the root is no rank, expected 0 <= root < rank_count");
  expects(kind != collective::permute,
          "default_algorithms: a permute has receivers of its own, expected another collective");
  if (detail::share_hosts(hosts)) {
    auto result = detail::host_algorithms(kind, root, hosts);
    for (auto& other : default_algorithms(kind, rank_count, root)) {
      result.push_back(std::move(other));
    }
    return result;
  }
  switch (kind) {
    case collective::broadcast:
    case collective::reduce: {
      std::vector<algorithm> result{{"flat", flat_schedule(rank_count, root)},
                                    {"binomial", binomial_schedule(rank_count, root)},
                                    {"chain", chain_schedule(rank_count, root)}};
      if (kind == collective::reduce) {
        result.push_back({"shared", shared_reduce_schedule(rank_count, root)});
      }
      return result;
    }
    case collective::all_reduce:
      return {{"star", star_schedule(rank_count)},
              {"one-shot", one_shot_schedule(rank_count)},
              {"flat", flat_schedule(rank_count, root)},
              {"binomial", binomial_schedule(rank_count, root)},
              {"ring", ring_schedule(rank_count)}};
    case collective::all_gather:
    case collective::reduce_scatter:
      return {{"star", star_schedule(rank_count)}, {"ring", ring_schedule(rank_count)}};
    case collective::gather:
      return {{"direct", gather_schedule(rank_count, root)}};
    case collective::scatter:
      return {{"direct", scatter_schedule(rank_count, root)}};
    case collective::all_to_all:
      return {{"direct", all_to_all_schedule(rank_count)}};
    case collective::send_to_next:
      return {{"direct", send_to_next_schedule(rank_count)}};
    default:
      return {{"binomial", binomial_schedule(rank_count, 0)}};
  }
}

/// The member of `default_algorithms` that suits without a measurement: the first, or a binomial
/// tree if a root would serve more than seven peers.
///
/// Throws: as `default_algorithms`.
template <class = when_used>
[[nodiscard]] schedule default_schedule(collective kind, int rank_count, int root = 0) {
  constexpr int few = 8;
  auto const algorithms = default_algorithms(kind, rank_count, root);
  return algorithms[has_one_root(kind) && rank_count > few ? 1 : 0].source;
}

/// The properties of a transport that decide which algorithm is the fastest.
struct transport_traits {
  bool reaches = false;        ///< ranks read and write each other's buffers
  bool shares_memory = false;  ///< slots lie in memory that both ranks of a connection reach
  /// by rank, a number that is equal for ranks of one host; empty: all are on one host
  std::vector<std::uint64_t> hosts{};
};

/// Returns the table of a communicator whose program measured nothing. It suits every size if every
/// pair of ranks is joined equally well. Inputs up to the eager limit do not use it, because they
/// travel with the call.
///
/// root:   of a broadcast, reduce, gather or scatter
/// Throws: as `default_algorithms`.
template <class = when_used>
[[nodiscard]] tuning_table default_tuning(collective kind, int rank_count, int root,
                                          transport_traits const& over) {
  constexpr int few = 8;    // ranks that one root serves
  constexpr int many = 32;  // too many for each to exchange small messages with all others
  constexpr std::size_t kib = 1024;
  tuning_table result;
  result.collective = kind;
  result.algorithms = default_algorithms(kind, rank_count, root, over.hosts);
  auto const from = [&](std::size_t bytes, char const* name, std::size_t chunk_bytes = 0) {
    for (std::size_t k = 0; k < result.algorithms.size(); ++k) {
      if (result.algorithms[k].name == name) result.ranges.push_back({bytes, k, chunk_bytes});
    }
  };
  if (detail::share_hosts(over.hosts)) {
    std::size_t const hosts = detail::hosts_of_ranks(over.hosts).ranks.size();
    // A chain sends once from each host, but takes more steps. `tune` finds where it pays.
    bool const has_chain = kind == collective::broadcast || kind == collective::reduce;
    std::size_t const least = has_chain                                        ? 8192 * kib
                              : kind == collective::all_reduce && hosts > many ? hosts * kib
                                                                               : 0;
    if (least > 0) from(0, "host binomial");
    result.ranges.push_back({least, 0, 0});
    return result;
  }
  switch (kind) {
    case collective::broadcast:
      from(0, rank_count > few ? "binomial" : "flat");
      // The root writes once for all ranks that share memory with it.
      if (rank_count > few && over.shares_memory && !over.reaches) from(64 * kib, "flat");
      break;
    case collective::reduce:
      if (!over.reaches && !over.shares_memory) {
        from(0, rank_count > few ? "binomial" : "flat");
        break;
      }
      from(0, rank_count > few ? "binomial" : "shared");
      if (rank_count > few) from(64 * kib, "shared");
      if (rank_count == 2) {
        from(1024 * kib, "flat");
        from(8192 * kib, "shared");
      }
      break;
    case collective::all_reduce: {
      std::size_t const least = rank_count > many ? static_cast<std::size_t>(rank_count) * kib : 0;
      if (least > 0) from(0, "binomial");  // log n steps of the buffer; a star has 2 n messages
      from(least, "star");
      if (over.reaches && least < 512 * kib) {
        from(512 * kib, "star", 48 * kib);
        from(8192 * kib, "star");
      }
      break;
    }
    default:
      result.ranges.push_back({0, 0, 0});
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
