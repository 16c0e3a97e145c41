// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/survivor_agreement.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A message between ranks outside of calls. Plain bytes with the same layout in every process.
struct control_message {
  enum kind_of_message : std::int64_t { failure, goodbye, question, answer, survivors };

  std::int64_t kind = failure;
  std::int64_t rank = -1;
  std::int64_t peer = -1;
  std::int64_t tree = -1;
  std::int64_t chunk = -1;  ///< survivors: the attempt
  std::int64_t flag = 0;    ///< failure: 1 if ranks disagree; answer: 1 if the rank waits to send;
                            ///< survivors: the word
  std::uint64_t call = 0;
  std::uint64_t nanoseconds = 0;
  std::array<char, 960> text{};  ///< survivors: one bit for each member

  control_message() = default;
  control_message(kind_of_message its_kind, std::uint64_t its_call,
                  collective_error const& reported)
      : kind(its_kind),
        rank(reported.rank),
        peer(reported.peer),
        tree(reported.tree),
        chunk(reported.chunk),
        flag(reported.disagrees ? 1 : 0),
        call(its_call) {
    std::string_view const words = reported.what();
    words.substr(0, text.size() - 1).copy(text.data(), text.size() - 1);
  }
  /// Throws: error if `text` has no bit for a member; its text begins with `communicator_name`.
  control_message(survivor_note const& said, char const* communicator_name)
      : kind(survivors),
        rank(said.from),
        chunk(said.attempt),
        flag(static_cast<std::int64_t>(said.word)) {
    for (int const member : said.members) {
      auto const at = static_cast<std::size_t>(member);
      if (at / 8 >= text.size()) {
        throw error(std::string(communicator_name) + ": shrink() with rank " +
                    std::to_string(member) + ", expected at most " +
                    std::to_string(8 * text.size()) + " ranks");
      }
      text[at / 8] = static_cast<char>(text[at / 8] | 1 << at % 8);
    }
  }

  [[nodiscard]] collective_error as_failure() const {
    std::string_view const all(text.data(), text.size());
    return {std::string(all.substr(0, all.find('\0'))),
            static_cast<int>(rank),
            static_cast<int>(peer),
            static_cast<int>(tree),
            chunk,
            flag != 0};
  }
  [[nodiscard]] survivor_note as_survivor_note(int rank_count) const {
    survivor_note result{static_cast<survivor_word>(flag), static_cast<int>(rank), chunk, {}};
    for (int member = 0; member < rank_count; ++member) {
      auto const at = static_cast<std::size_t>(member);
      if (at / 8 < text.size() && (text[at / 8] >> at % 8 & 1) != 0) {
        result.members.push_back(member);
      }
    }
    return result;
  }
};

}}}  // namespace blink::BLINK_ABI::detail
