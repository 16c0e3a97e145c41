// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/walk/stall.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The state of a peer, as far as a rank that gave up waiting knows it.
struct peer_status {
  enum class place : std::uint8_t {
    inside,        ///< has entered the call
    earlier_call,  ///< is held up in an earlier call
    no_call,       ///< has not entered it, and nothing is known to hold it up
    lost,          ///< died or left without its part
  };
  place at = place::inside;
  std::string how;         ///< of `no_call` and `lost`, in words: "has not entered call 3"
  std::string does;        ///< in words, for the last rank of a chain of waits: "makes no progress"
  bool is_silent = false;  ///< gives no sign although it has not done its part
  reported_stall waits{};  ///< the rank for which it waits; not reported: none, or it is silent
  /// the time of its wait, if known. In a circle of waits the last one to begin is the cause.
  std::uint64_t waited_nanoseconds = UINT64_MAX;
};

/// The peers of a rank that gave up waiting.
///
/// Semantics beyond the syntax: `ranks()` are those whose entry into the call matters, in the order
/// in which causes are looked for. `name` is the text for a rank.
template <class P>
concept stalled_peers = requires(P const& peers, int peer) {
  { peers.ranks() } -> std::convertible_to<std::vector<int>>;
  { peers.status(peer) } -> std::same_as<peer_status>;
  { peers.name(peer) } -> std::same_as<std::string>;
};
BLINK_MODELS(!stalled_peers<int>);

namespace detail {

/// Ranks that wait for each other in a row.
struct wait_chain {
  std::vector<int> ranks;  ///< each waits for the next one
  bool has_end = false;    ///< true if the last rank waits for no other, as far as is known
  std::string text;  ///< as "rank 1 to send it, which waits for rank 2, tree 0, chunk 3 to take it"
};

/// Follows the ranks that wait for each other, from `first` on, for which `rank` waits. The text
/// names the first few and the last.
template <stalled_peers Peers>
[[nodiscard]] BLINK_COLD wait_chain chain_of_waits(stall at, int rank, int first,
                                                   Peers const& peers) {
  constexpr std::size_t most_reported = 4;  // ranks of a long chain, and its last one
  wait_chain chain;
  std::string last;
  at.peer = first;
  auto const has_met = [&chain](int peer) {
    for (int const met : chain.ranks) {
      if (met == peer) return true;
    }
    return false;
  };
  while (at.peer >= 0 && at.peer != rank && !has_met(at.peer)) {
    std::size_t const step = chain.ranks.size();
    std::string const chunk = step == 0 || at.tree < 0
                                  ? std::string()
                                  : text_of({", tree ", at.tree, ", chunk ", at.chunk});
    std::string const part =
        text_of({step == 0 ? "" : ", which waits for ", peers.name(at.peer), chunk,
                 at.tree < 0 ? " to come"
                 : at.sends  ? " to take it"
                             : " to send it"});
    if (step < most_reported) chain.text += part;
    last = step < most_reported ? "" : text_of({step == most_reported ? "" : ", …", part});
    chain.ranks.push_back(at.peer);
    auto const next = peers.status(at.peer).waits;
    chain.has_end = !next.is_reported;
    if (!next.is_reported) break;
    at = next.where;
  }
  chain.text += last;
  return chain;
}

}  // namespace detail

/// Returns the error of a rank that gave up waiting: the cause as far as it is known, and the chain
/// of waiting ranks that leads to it.
///
/// The cause is the first of these:
/// - a rank that is lost;
/// - a rank that has not entered the call, although no earlier call holds it up;
/// - the rank at the end of the chain of waits, also in earlier calls;
/// - a silent rank;
/// - in a circle of waits the rank that began to wait last.
///
/// where:   the stall of `rank`
/// seconds: for which it has waited
template <stalled_peers Peers>
[[nodiscard]] BLINK_COLD collective_error describe_stall(stall const& where, int rank,
                                                         double seconds, Peers const& peers) {
  using detail::text_of;
  using detail::text_piece;
  using place = peer_status::place;
  auto const hundredths = static_cast<std::uint64_t>(seconds * 100 + 0.5);
  auto const waited =
      text_of({" (waited ", hundredths / 100, ".", hundredths / 10 % 10, hundredths % 10, " s)"});
  auto const error = [&](int peer, std::initializer_list<text_piece> what) {
    auto const chunk =
        where.peer < 0
            ? std::string()
            : text_of({", tree ", where.tree, ", chunk ", where.chunk, " of ", where.chunks});
    return collective_error(
        text_of({"rank ", rank, ", ", to_text(where.kind), chunk, ": ", text_of(what)}), rank, peer,
        where.tree, where.chunk);
  };
  std::vector<int> const ranks = peers.ranks();
  std::vector<peer_status> known;
  for (int const peer : ranks) {
    known.push_back(peers.status(peer));
    if (known.back().at == place::lost) {
      return error(peer, {peers.name(peer), " ", known.back().how});
    }
  }
  int first = where.peer;
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    if (known[k].at == place::no_call) {
      return error(ranks[k], {peers.name(ranks[k]), " ", known[k].how, waited});
    }
    if (first < 0 && known[k].at == place::earlier_call) first = ranks[k];
  }
  auto const chain = detail::chain_of_waits(where, rank, first, peers);
  if (chain.has_end) {
    int const last = chain.ranks.back();
    return error(last, {"waits for ", chain.text, ", which ", peers.status(last).does, waited});
  }
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    if (ranks[k] != rank && known[k].is_silent) {
      return error(ranks[k], {peers.name(ranks[k]), " ", known[k].does, waited});
    }
  }
  if (chain.ranks.empty()) return error(where.peer, {"no progress", waited});
  int latest = -1;
  std::uint64_t shortest = UINT64_MAX;
  for (int const peer : chain.ranks) {
    auto const own = peers.status(peer).waited_nanoseconds;
    if (own < shortest) latest = peer;
    shortest = own < shortest ? own : shortest;
  }
  if (latest < 0) return error(where.peer, {"waits for ", chain.text, waited});
  return error(latest,
               {"waits for ", chain.text, "; ", peers.name(latest), " has entered last", waited});
}

}}  // namespace blink::BLINK_ABI
