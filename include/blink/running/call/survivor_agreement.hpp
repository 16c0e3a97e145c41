// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/collective_error.hpp>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A message's kind in the agreement on the ranks that remain, see `survivor_agreement`.
enum class survivor_word : std::int64_t { asks, proposes, accepts, refuses, withdraws, decides };
/// A message of the agreement.
struct survivor_note {
  survivor_word word = survivor_word::asks;
  int from = -1;
  std::int64_t attempt = 0;    ///< the proposer's count; answers repeat it
  std::vector<int> members{};  ///< of a proposal or a decision, by rising rank
};

/// Messages between ranks without shared memory after a failure.
///
/// Semantics beyond the syntax: messages from one rank to another arrive in order or not at all.
/// `next_word` returns each message once. `is_gone` is true for a rank that sends nothing more,
/// once all that it sent has been received.
template <class W>
concept survivor_words = requires(W& words, int peer, survivor_note const& said) {
  { words.rank() } -> std::same_as<int>;
  { words.rank_count() } -> std::same_as<int>;
  { words.say(peer, said) } -> std::same_as<void>;
  { words.next_word() } -> std::same_as<std::optional<survivor_note>>;
  { words.is_gone(peer) } -> std::same_as<bool>;
};
BLINK_MODELS(!survivor_words<int>);

/// Agreement on the ranks that remain after a failure, by messages alone. Some ranks may never
/// answer.
///
/// Every remaining rank asks all other ranks, and waits until all of them also ask or have left, at
/// most for the deadline. Then the lowest asking rank proposes the ranks that ask. Each rank
/// accepts one proposal at a time. When all members have accepted, the proposer decides and
/// notifies all ranks.
///
/// The proposer withdraws a proposal that a rank refuses because it accepted another one, or that
/// is unanswered for three quarters of a deadline. That frees the ranks that accepted it, and the
/// proposer tries again. A proposer that receives the proposal of a lower rank withdraws and
/// accepts it.
///
/// So no rank is in two groups, even if ranks are late, are stopped or die. Two simultaneous
/// proposers agree. A proposer that hangs before it proposes is replaced. If it hangs later, after
/// it has notified some ranks or none, there is no group. A rank that gives up while a decision is
/// on its way may be in a group that continues without it.
///
/// Use:   `begin`, then `advance` until it is true, then `group`. Use it once for a set of failed
///        ranks, because acceptances are never forgotten. The caller supplies the time.
/// Moves: some messages from each rank to each other rank.
template <survivor_words Words>
class survivor_agreement {
 public:
  using nanoseconds = std::chrono::nanoseconds;

  /// longest: the deadline; a rank that does not ask until then is left out
  survivor_agreement(Words& words, nanoseconds longest)
      : words_(words),
        longest_(std::min(longest, nanoseconds::max() / 8)),
        asks_(static_cast<std::size_t>(words.rank_count())),
        accepts_(asks_.size()),
        heard_at_(asks_.size()) {}

  /// Asks all other ranks.
  void begin(nanoseconds now) {
    begun_ = now;
    auto const rank = static_cast<std::size_t>(words_.rank());
    asks_[rank] = true;
    heard_at_[rank] = now;
    say_to_all({survivor_word::asks, words_.rank()});
  }

  /// Receives all messages, and advances. Returns true once the agreement has ended, at most three
  /// deadlines after its begin.
  [[nodiscard]] bool advance(nanoseconds now) {
    while (auto const word = words_.next_word()) hear(*word, now);
    if (stance_ == stance::free && was_left_out_) stance_ = stance::ended;
    if (stance_ == stance::accepts && words_.is_gone(accepted_)) be_free(now);
    if (stance_ == stance::proposes) mind_members(now);
    if (stance_ == stance::free) mind_proposers(now);
    if (stance_ != stance::ended && now >= begun_ + 3 * longest_) give_up(now);
    return stance_ == stance::ended;
  }

  /// The ranks that remain, by rising rank, the same on each of them. Pre: it has ended.
  ///
  /// Throws: collective_error if the other ranks continued without this rank, or did not agree in
  ///         time.
  [[nodiscard]] std::vector<int> group() const {
    if (!group_.empty()) return group_;
    throw collective_error(
        "rank " + std::to_string(words_.rank()) + ", shrink: " +
            (was_left_out_
                 ? "the other ranks continued without this rank, expected it before the deadline"
                 : "the ranks that remain did not agree in time, expected an agreement"),
        words_.rank(), -1, -1, -1);
  }

 private:
  enum class stance : std::uint8_t { free, proposes, accepts, ended };

  // --- messages of other ranks ---

  void hear(survivor_note const& word, nanoseconds now) {
    auto const from = static_cast<std::size_t>(word.from);
    heard_at_[from] = now;
    bool const is_of_mine = stance_ == stance::proposes && word.attempt == attempt_;
    switch (word.word) {
      case survivor_word::asks:
        asks_[from] = true;
        return;
      case survivor_word::proposes:
        asks_[from] = true;
        return answer(word, now);
      case survivor_word::accepts:
        if (!is_of_mine) return;
        accepts_[from] = true;
        if (all_accept()) decide();
        return;
      case survivor_word::refuses:
        if (is_of_mine) withdraw(now);
        return;
      case survivor_word::withdraws:
        if (stance_ == stance::accepts && word.from == accepted_) be_free(now);
        return;
      case survivor_word::decides: {
        auto const& members = word.members;
        if (std::find(members.begin(), members.end(), words_.rank()) != members.end()) {
          group_ = members;  // the proposal that it has accepted
          stance_ = stance::ended;
          return;
        }
        // A rank that proposes, or that has accepted another group, may still be in that group.
        was_left_out_ = true;
        for (int const member : members) asks_[static_cast<std::size_t>(member)] = false;
        return;
      }
    }
  }
  void answer(survivor_note const& proposal, nanoseconds now) {
    if (stance_ == stance::proposes && proposal.from < words_.rank()) withdraw(now);
    bool const is_free = stance_ == stance::free && !was_left_out_;
    if (is_free) {
      stance_ = stance::accepts;
      accepted_ = proposal.from;
      accepted_attempt_ = proposal.attempt;
    }
    words_.say(proposal.from, {is_free ? survivor_word::accepts : survivor_word::refuses,
                               words_.rank(), proposal.attempt});
  }

  // --- actions of this rank ---

  void give_up(nanoseconds now) {
    if (stance_ == stance::proposes) withdraw(now);
    if (stance_ == stance::accepts) {
      words_.say(accepted_, {survivor_word::refuses, words_.rank(), accepted_attempt_});
    }
    stance_ = stance::ended;
  }

  // While the rank is free: it proposes when it is its turn.
  void mind_proposers(nanoseconds now) {
    if (now < free_from_) return;
    if (!all_have_spoken() && now < begun_ + longest_) return;
    for (int peer = 0; peer < words_.rank(); ++peer) {
      auto const at = static_cast<std::size_t>(peer);
      if (!is_left(peer)) continue;
      // A lower rank proposes after one deadline, or soon after a still lower rank did not, unless
      // it was stopped meanwhile.
      if (now < heard_at_[at] + longest_ + longest_ / 2 || now < next_turn_ends_) return;
      asks_[at] = false;
      next_turn_ends_ = now + longest_ / 2;
    }
    propose(now);
  }
  void propose(nanoseconds now) {
    stance_ = stance::proposes;
    ++attempt_;
    proposed_at_ = now;
    members_.clear();
    for (int peer = 0; peer < words_.rank_count(); ++peer) {
      if (is_left(peer)) members_.push_back(peer);
    }
    accepts_.assign(accepts_.size(), false);
    accepts_[static_cast<std::size_t>(words_.rank())] = true;
    say_to_members({survivor_word::proposes, words_.rank(), attempt_, members_});
    if (all_accept()) decide();  // the rank is alone
  }
  // Withdraws if a member has left or does not answer.
  void mind_members(nanoseconds now) {
    bool const is_late = now >= proposed_at_ + longest_ * 3 / 4;
    bool all_are_left = true;
    for (int const peer : members_) {
      auto const at = static_cast<std::size_t>(peer);
      if (is_late && !accepts_[at]) asks_[at] = false;
      all_are_left = all_are_left && is_left(peer);
    }
    if (!all_are_left) withdraw(now);
  }
  void withdraw(nanoseconds now) {
    say_to_members({survivor_word::withdraws, words_.rank(), attempt_});
    be_free(now);
    // The pause doubles each time, because messages of other ranks may be on their way.
    constexpr std::int64_t most_doublings = 8;
    nanoseconds const pause =
        std::chrono::milliseconds(1) * (std::int64_t{1} << std::min(attempt_, most_doublings));
    free_from_ = now + std::min(pause, longest_ / 16);
  }
  void be_free(nanoseconds now) {
    stance_ = stance::free;
    free_from_ = now;
    accepted_ = -1;
  }
  void decide() {
    group_ = members_;
    stance_ = stance::ended;
    say_to_all({survivor_word::decides, words_.rank(), attempt_, members_});
  }

  [[nodiscard]] bool is_left(int peer) const {
    return asks_[static_cast<std::size_t>(peer)] && !words_.is_gone(peer);
  }
  [[nodiscard]] bool all_have_spoken() const {
    for (int peer = 0; peer < words_.rank_count(); ++peer) {
      if (!asks_[static_cast<std::size_t>(peer)] && !words_.is_gone(peer)) return false;
    }
    return true;
  }
  [[nodiscard]] bool all_accept() const {
    return std::all_of(members_.begin(), members_.end(),
                       [&](int peer) { return accepts_[static_cast<std::size_t>(peer)]; });
  }
  void say_to_members(survivor_note const& said) {
    for (int const peer : members_) {
      if (peer != words_.rank()) words_.say(peer, said);
    }
  }
  void say_to_all(survivor_note const& said) {
    for (int peer = 0; peer < words_.rank_count(); ++peer) {
      if (peer != words_.rank()) words_.say(peer, said);
    }
  }

  Words& words_;
  nanoseconds longest_;
  std::vector<bool> asks_;             // by rank; false for ranks that were left out
  std::vector<bool> accepts_;          // by rank: this rank's present proposal
  std::vector<nanoseconds> heard_at_;  // by rank: time of its last message
  nanoseconds begun_{};
  nanoseconds free_from_{};       // no proposal before
  nanoseconds next_turn_ends_{};  // of the rank that proposes in place of a silent rank
  nanoseconds proposed_at_{};     // the present proposal
  std::vector<int> members_;      // of the present proposal
  std::int64_t attempt_ = 0;
  int accepted_ = -1;  // the proposer that this rank has accepted
  std::int64_t accepted_attempt_ = 0;
  stance stance_ = stance::free;
  bool was_left_out_ = false;  // of a group that continued
  std::vector<int> group_;     // empty: none
};

}}  // namespace blink::BLINK_ABI
