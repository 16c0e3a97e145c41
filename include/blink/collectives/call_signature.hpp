// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/detail/fingerprint.hpp>
#include <blink/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace blink::inline BLINK_ABI {

/// What all ranks must agree about before data moves. Plain bytes that mean the same in every
/// process: schedules and types go by their fingerprints.
struct call_signature {
  std::uint64_t kind = 0;  ///< of `collective`
  std::uint64_t plan = 0;  ///< `prepared_schedule::fingerprint`
  std::uint64_t count = 0;
  std::uint64_t element_bytes = 0;
  std::uint64_t types = 0;             ///< of the names of element, reducer and chunking
  std::uint64_t blocks = 0;            ///< of the sizes of blocks, if they are not equal
  std::uint64_t state = 0;             ///< that the reducer says ranks have in common
  std::int64_t root = -1;              ///< that the schedule has for this collective; -1: none
  std::array<char, 152> type_names{};  ///< how they begin, for messages

  call_signature() = default;
  call_signature(collective its_kind, std::uint64_t its_plan, std::uint64_t its_count,
                 std::uint64_t its_element_bytes, std::string_view names,
                 std::uint64_t names_fingerprint, std::uint64_t blocks_fingerprint = 0,
                 int its_root = -1, std::uint64_t its_state = 0)
      : kind(static_cast<std::uint64_t>(its_kind)),
        plan(its_plan),
        count(its_count),
        element_bytes(its_element_bytes),
        types(names_fingerprint),
        blocks(blocks_fingerprint),
        state(its_state),
        root(its_root) {
    std::size_t const length =
        names.size() < type_names.size() ? names.size() : type_names.size() - 1;
    names.copy(type_names.data(), length);
  }

  /// Calls agree if and only if these are equal.
  [[nodiscard]] std::uint64_t fingerprint() const {
    detail::fingerprint all;
    for (std::uint64_t const part : {kind, plan, count, element_bytes, types, blocks, state})
      all.add(part);
    return all.value();
  }

  /// What differs from what `peer` calls, in words.
  ///
  /// who: what calls: "rank" or "process"
  [[nodiscard]] BLINK_COLD std::string difference(call_signature const& other, int peer,
                                                  std::string const& who = "rank") const {
    std::string const name = who + " " + std::to_string(peer);
    auto const text = [&](std::string const& what, std::string const& mine,
                          std::string const& theirs) {
      return what + " " + mine + ", " + name + " has " + theirs;
    };
    if (kind != other.kind) return text("operation", operation(), other.operation());
    std::string result;
    if (count != other.count) {
      result = text(blocks == 0 ? "count" : "elements of all blocks", std::to_string(count),
                    std::to_string(other.count));
    }
    if (element_bytes != other.element_bytes || types != other.types) {
      if (!result.empty()) result += "; ";
      result += names() == other.names()
                    ? "another reducer than " + name + ", of the same name: " + names()
                    : text("types", names(), other.names());
    }
    if (!result.empty()) return result;
    if (root != other.root) return text("root", std::to_string(root), std::to_string(other.root));
    if (state != other.state) return "another state of the reducer than " + name + ": " + names();
    if (blocks != other.blocks) return "other sizes of blocks than " + name;
    return "another schedule, or other options of the world, than " + name;
  }

  /// The collective's name. Other kinds of calls, of whoever compares them, have theirs in `type_names`.
  [[nodiscard]] BLINK_COLD std::string operation() const {
    if (kind < collective_names.size()) return std::string(to_text(static_cast<collective>(kind)));
    auto const own = names();
    return own.empty() ? "operation " + std::to_string(kind) : own;
  }

  /// "all_reduce, count 7, float, blink::sum".
  [[nodiscard]] BLINK_COLD std::string in_words() const {
    return operation() + ", count " + std::to_string(count) + ", " + names();
  }

 private:
  [[nodiscard]] BLINK_COLD std::string names()
      const {  // comes from another process: may lack its end
    std::string_view const all(type_names.data(), type_names.size());
    return std::string(all.substr(0, all.find('\0')));
  }
};
static_assert(std::is_trivially_copyable_v<call_signature>);

/// What a rank says when it enters a call.
struct call_record {
  call_signature signature;
  void const* input = nullptr;  ///< of meaning in the process of the rank
  void* output = nullptr;
  bool may_show = false;  ///< may ranks see the whole inputs of others? see `showing_session`
};

}  // namespace blink::inline BLINK_ABI
