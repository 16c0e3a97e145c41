// SPDX-License-Identifier: Apache-2.0
#pragma once

// The object that a program's `ncclComm_t` points to.

#include "abi.hpp"
#include "derived_ids.hpp"
#include "errors.hpp"
#include "premultiplied_sum.hpp"
#include "request.hpp"
#include "team.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink_nccl {

struct communicator {};

/// One rank's part of a communicator; guarded by the lock of the library.
template <platform P>
struct handle : communicator {
  int rank = 0;
  int rank_count = 0;
  int device = 0;
  bool blocks = true;  ///< true if calls return after all ranks have made them
  bool is_finalized = false;
  bool is_revoked = false;                             ///< by this rank
  bool is_suspended = false;                           ///< by this rank
  std::shared_ptr<team<P>> all{};                      ///< null until all ranks have joined
  communicator* forwarded = nullptr;                   ///< of the other library, instead of a team
  std::shared_ptr<batch<P>> latest{};                  ///< of a communicator that does not block
  outcome trouble{};                                   ///< of its construction
  std::vector<std::optional<given_factor>> factors{};  ///< of operations that the program made
  std::vector<void*> registered{};
  /// The numbers of communicators that this rank has made from this one, by kind and by the ranks
  /// that took no part.
  std::map<std::pair<derivation::kind, std::uint64_t>, std::uint64_t> derived{};
  std::string reported{};  ///< the text that `ncclGetLastError` returned

  /// Throws: refusal unless communicators can be made from this one.
  void expect_complete() const {
    if (is_finalized) refuse_usage("the communicator was finalized, expected no more calls");
    if (is_suspended) refuse_usage("the communicator is suspended, expected ncclCommResume first");
    if (trouble.code != result::success) throw refusal(trouble.code, trouble.text);
    if (all == nullptr) refuse_argument("the communicator is not complete yet");
  }
  /// Throws: refusal unless the communicator takes calls.
  void expect_usable() const {
    expect_complete();
    if (is_revoked) {
      refuse_usage(
          "the communicator was revoked, expected ncclCommShrink, ncclCommSplit or "
          "ncclCommDestroy");
    }
  }
  /// The next communicator of this kind, the same on all ranks that take part in it.
  [[nodiscard]] derivation next(derivation::kind what, std::uint64_t excluded = 0) const {
    auto const found = derived.find({what, excluded});
    return {what, excluded, found == derived.end() ? 0 : found->second};
  }
  void count(derivation const& made) { ++derived[{made.what, made.excluded}]; }

  /// Adds an operation with this factor, and returns its number.
  [[nodiscard]] operation add_operation(given_factor const& factor) {
    auto place = std::find(factors.begin(), factors.end(), std::nullopt);
    if (place == factors.end()) place = factors.emplace(factors.end());
    *place = factor;
    return static_cast<operation>(operation_count + (place - factors.begin()));
  }
  /// Throws: refusal if there is no such operation.
  [[nodiscard]] std::optional<given_factor>& factor_of(operation what) {
    auto const number = static_cast<std::size_t>(static_cast<int>(what) - operation_count);
    if (!is_own(what) || number >= factors.size() || !factors[number]) {
      refuse_argument("operation " + std::to_string(static_cast<int>(what)) +
                      " does not exist, expected one of this communicator");
    }
    return factors[number];
  }
};

}  // namespace blink_nccl
