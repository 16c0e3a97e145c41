// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/text.hpp>
#include <blink/reducers/element_type.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// The numbers by which ranks compare a call before data moves. They mean the same in every
/// process: schedules and types are given by their hashes.
struct call_parameters {
  std::uint64_t kind = 0;           ///< of `collective`
  std::uint64_t schedule_hash = 0;  ///< `prepared_schedule::hash`
  std::uint64_t count = 0;
  std::uint64_t element_bytes = 0;
  std::uint64_t types = 0;   ///< hash of the names of element, reducer and chunking
  std::uint64_t blocks = 0;  ///< hash of the sizes of unequal segments, or of the parts of a group
  std::uint64_t state = 0;   ///< hash of the state of the reducer that is equal on all ranks
  std::int64_t root = -1;    ///< of the schedule for this collective; -1: none

  /// The call id. Equal parameters give equal ids. Different parameters give different ids, except
  /// for collisions of 64 bits. The root is not part of it.
  [[nodiscard]] std::uint64_t hash() const {
    // A sum of products with odd numbers, which do not wait for each other: every call computes
    // one.
    return kind * 0x9e3779b97f4a7c15u + schedule_hash * 0xbf58476d1ce4e5b9u +
           count * 0x94d049bb133111ebu + element_bytes * 0xd6e8feb86659fd93u +
           types * 0xa0761d6478bd642fu + blocks * 0xe7037ed1a0b428dbu + state * 0x8ebc6af09c88c6e3u;
  }
};

/// The parameters of a call with the names of its types, for messages. Plain bytes.
struct call_description : call_parameters {
  using name_text = std::array<char, 152>;
  name_text type_names{};  ///< the first characters of the names; 0 behind the last one

  call_description() = default;
  call_description(call_parameters const& parameters, name_text const& names)
      : call_parameters(parameters), type_names(names) {}
  call_description(call_parameters const& parameters, std::string_view names)
      : call_description(parameters, beginning_of(names)) {}

  [[nodiscard]] static constexpr name_text beginning_of(std::string_view names) {
    name_text result{};
    names.copy(result.data(), result.size() - 1);
    return result;
  }

  /// Returns in words what differs from the call of `peer`.
  ///
  /// who: the callers, "rank" or "process"
  template <class = when_used>
  [[nodiscard]] BLINK_COLD std::string difference(call_description const& other, int peer,
                                                  std::string_view who = "rank") const {
    using detail::text_of;
    std::string const name = text_of({who, " ", peer});
    auto const text = [&](detail::text_piece what, detail::text_piece mine,
                          detail::text_piece theirs) {
      return text_of({what, " ", mine, ", ", name, " has ", theirs});
    };
    if (kind != other.kind) return text("operation", operation(), other.operation());
    auto const mine = detail::reduction_name(state);
    auto const theirs = detail::reduction_name(other.state);
    if (mine != theirs && !mine.empty() && !theirs.empty()) return text("reduction", mine, theirs);
    std::string result;
    if (count != other.count) {
      result = text(blocks == 0 ? "count" : "elements of all blocks or parts", count, other.count);
    }
    if (element_bytes != other.element_bytes || types != other.types) {
      if (!result.empty()) result += "; ";
      result +=
          names() == other.names()
              ? text_of({"another reducer than ", name, ", of the same name, or another order",
                         " in its communicator_options: ", names()})
              : text("types", names(), other.names());
    }
    if (!result.empty()) return result;
    if (root != other.root) return text("root", root, other.root);
    if (state != other.state) {
      return text_of({"another state of the reducer than ", name, ": ", names()});
    }
    if (blocks != other.blocks) {
      return text_of({"other sizes of blocks than ", name, ", or of grouped parts"});
    }
    return text_of({"another schedule, or other options of the communicator, than ", name});
  }

  /// The name of the collective. Calls of other kinds have their name in `type_names`.
  template <class = when_used>
  [[nodiscard]] BLINK_COLD std::string operation() const {
    if (kind < collective_names.size()) return std::string(to_text(static_cast<collective>(kind)));
    auto const own = names();
    return own.empty() ? detail::text_of({"operation ", kind}) : own;
  }

  /// Returns the call in words, as "all_reduce, count 7, float, blink::sum".
  template <class = when_used>
  [[nodiscard]] BLINK_COLD std::string in_words() const {
    auto const chosen = detail::reduction_name(state);
    return detail::text_of(
        {operation(), ", count ", count, ", ", chosen.empty() ? names() : chosen});
  }

 private:
  template <class = when_used>
  [[nodiscard]] BLINK_COLD std::string names() const {  // text of another process may lack its end
    std::string_view const all(type_names.data(), type_names.size());
    return std::string(all.substr(0, all.find('\0')));
  }
};
static_assert(std::is_trivially_copyable_v<call_description>);

/// The call that a rank enters.
struct call_record {
  call_parameters parameters;
  void const* input = nullptr;  ///< valid in the process of the rank
  void* output = nullptr;
  /// true if ranks may read whole inputs of peers; see `eager_communicator`
  bool may_be_eager = false;
  call_description::name_text const* type_names = nullptr;  ///< null: none

  [[nodiscard]] collective kind() const { return static_cast<collective>(parameters.kind); }
  /// Returns the description of the call, to keep or to send to peers. Repeated calls need it once.
  [[nodiscard]] call_description call_id() const {
    return {parameters, type_names != nullptr ? *type_names : call_description::name_text{}};
  }
};

}}  // namespace blink::BLINK_ABI
