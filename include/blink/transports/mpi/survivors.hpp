// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/collective_error.hpp>
#include <blink/config.hpp>
#include <blink/transports/mpi/notices.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace blink::inline BLINK_ABI {

/// How ranks of an MPI communicator agree who goes on after a failure, by notes alone: some may never answer.
///
/// Every rank that goes on asks all others, and waits until all of them ask too or have left, at most for
/// the deadline. Then the lowest rank that asks proposes those that do; each of them accepts one
/// proposal, the first that it hears; when all have accepted it the proposer decides and tells everyone.
/// So no rank is in two groups, whoever is late, stopped or dies in between; then there may be none, and
/// all are told so.
///
/// Moves: some notes from each rank to each other.
class survivor_agreement {
 public:
  /// longest: a rank that does not ask until then is left out
  survivor_agreement(mpi_notices& notices, std::chrono::nanoseconds longest)
      : notices_(notices),
        longest_(longest),
        asks_(static_cast<std::size_t>(notices.rank_count())),
        accepts_(asks_.size()) {}

  /// The ranks that go on, by rising rank: the same on each of them.
  ///
  /// Time:   at most three times the deadline; at once if all others ask or have left.
  /// Throws: collective_error if the others went on without this rank, or did not agree in time.
  [[nodiscard]] std::vector<int> settle() {
    int const rank = notices_.rank();
    notices_.fail(
        {notices_.who() + " shrinks the session to the ranks that are left", rank, -1, -1, -1});
    asks_[static_cast<std::size_t>(rank)] = true;
    for (int peer = 0; peer < notices_.rank_count(); ++peer) say(peer, survivor_word::asks, {});
    listen([&] { return accepted_ >= 0 || decision_ || all_have_spoken(); }, longest_);
    auto const first = std::find(asks_.begin(), asks_.end(), true) - asks_.begin();
    if (accepted_ < 0 && !decision_ && first == rank) propose();
    // The proposer may have begun to wait as late as this rank ended to.
    listen([&] { return decision_.has_value(); }, 2 * longest_);
    if (!decision_) {
      if (has_proposed()) decide({});
      throw failed("the ranks that are left did not agree in time");
    }
    if (decision_->empty()) throw failed("the ranks that are left did not agree");
    if (std::find(decision_->begin(), decision_->end(), rank) == decision_->end()) {
      throw failed("the others went on without this rank, it came too late");
    }
    return *decision_;
  }

 private:
  [[nodiscard]] collective_error failed(std::string const& what) const {
    return {notices_.who() + ", shrink: " + what, notices_.rank(), -1, -1, -1};
  }
  void say(int peer, survivor_word word, std::vector<int> const& members) {
    if (peer != notices_.rank()) notices_.say(peer, {word, notices_.rank(), members});
  }
  [[nodiscard]] bool all_have_spoken() const {
    for (int peer = 0; peer < notices_.rank_count(); ++peer) {
      if (!asks_[static_cast<std::size_t>(peer)] && !notices_.is_gone(peer)) return false;
    }
    return true;
  }
  [[nodiscard]] bool has_proposed() const { return !proposal_.empty(); }

  template <class Ends>
  void listen(Ends const& ends, std::chrono::nanoseconds longest) {
    auto const last = std::chrono::steady_clock::now() + longest;
    for (;;) {
      notices_.look();
      while (auto const word = notices_.next_word()) hear(*word);
      if (ends() || std::chrono::steady_clock::now() > last) return;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  void hear(survivor_note const& word) {
    auto const from = static_cast<std::size_t>(word.from);
    switch (word.word) {
      case survivor_word::asks:
        asks_[from] = true;
        return;
      case survivor_word::proposes: {
        bool const is_first = accepted_ < 0 && !has_proposed() && !decision_;
        if (is_first) accepted_ = word.from;
        return say(word.from, is_first ? survivor_word::accepts : survivor_word::refuses, {});
      }
      case survivor_word::accepts:
        accepts_[from] = true;
        if (has_proposed() && !decision_ && all_accept()) decide(proposal_);
        return;
      case survivor_word::refuses:
        if (has_proposed() && !decision_) decide({});
        return;
      case survivor_word::decides: {
        // Of groups that others have made without this rank one is as good as the other.
        bool const is_ours = word.from == accepted_;
        bool const leaves_out = !word.members.empty() && accepted_ < 0 && !has_proposed();
        if (!decision_ && (is_ours || leaves_out)) decision_ = word.members;
        return;
      }
    }
  }
  void propose() {
    for (std::size_t peer = 0; peer < asks_.size(); ++peer) {
      if (asks_[peer] && !notices_.is_gone(static_cast<int>(peer))) {
        proposal_.push_back(static_cast<int>(peer));
      }
    }
    accepts_[static_cast<std::size_t>(notices_.rank())] = true;
    for (int const peer : proposal_) say(peer, survivor_word::proposes, proposal_);
    if (all_accept()) decide(proposal_);  // it is alone
  }
  [[nodiscard]] bool all_accept() const {
    return std::all_of(proposal_.begin(), proposal_.end(),
                       [&](int peer) { return accepts_[static_cast<std::size_t>(peer)]; });
  }
  // Empty: nobody goes on, as far as this proposal is concerned.
  void decide(std::vector<int> const& members) {
    decision_ = members;
    for (int peer = 0; peer < notices_.rank_count(); ++peer) {
      say(peer, survivor_word::decides, members);
    }
  }

  mpi_notices& notices_;
  std::chrono::nanoseconds longest_;
  std::vector<bool> asks_;     // by rank
  std::vector<bool> accepts_;  // this rank's proposal
  std::vector<int> proposal_;
  int accepted_ = -1;  // whose proposal this rank has accepted
  std::optional<std::vector<int>> decision_;
};

}  // namespace blink::inline BLINK_ABI
