// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/mscclpp_kind.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/interop/step_program.hpp>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

// The data that each operation of an execution plan moves.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The letter for a place at a position of a list; nothing if the list has no such place.
[[nodiscard]] constexpr std::optional<char> letter_at(std::string_view letters,
                                                      std::size_t position) {
  bool const repeats = letters.ends_with('*');
  std::size_t const single = repeats ? letters.size() - 1 : letters.size();
  if (position < single) return letters[position];
  if (repeats) return letters[single - 1];
  return std::nullopt;
}
/// The number of places that a list has at least.
[[nodiscard]] constexpr std::size_t least_places(std::string_view letters) {
  return letters.ends_with('*') && letters.size() > 2 ? letters.size() - 2 : 1;
}
/// True if the letter stands for packets.
[[nodiscard]] constexpr bool is_packets(char letter) {
  return letter >= 'A' && letter <= 'Z';
}

[[nodiscard]] inline bool is_over_port(mscclpp_operation const& op) {
  return !op.channels.empty() && op.channels.front().type == mscclpp_channel_type::port;
}

/// The traits of an operation's kind. Ports put packets as they are.
[[nodiscard]] inline mscclpp_traits form_of(mscclpp_operation const& op) {
  auto form = traits_of(op.kind);
  if (op.kind == mscclpp_kind::put_packets && is_over_port(op)) form.sources = "L*";
  return form;
}

/// The ranks and the buffer that a place means.
struct place_owners {
  std::vector<int> ranks;
  step_buffer buffer = step_buffer::input;
};
/// here: the rank whose operation it is
/// Pre:  the rank has the place's group, if the place names one.
[[nodiscard]] inline place_owners owners_of(mscclpp_program const& program, int here,
                                            mscclpp_place const& place) {
  if (place.group < 0) return {{place.rank >= 0 ? place.rank : here}, place.buffer};
  auto const& group =
      program.ranks[static_cast<std::size_t>(here)].groups[static_cast<std::size_t>(place.group)];
  return {group.ranks, group.buffer};
}

/// A place of an operation, and whether packets are there.
struct mscclpp_end {
  mscclpp_place place;
  bool is_packets = false;
};

/// The sum of some places, written to others.
struct mscclpp_move {
  std::vector<mscclpp_end> sources;
  std::vector<mscclpp_end> destinations;
  int count = 0;  ///< chunks at each place
};

/// The moves of an operation, in the order of its pairs of places.
/// Pre: the places have the operation's form.
[[nodiscard]] inline std::vector<mscclpp_move> moves_of(mscclpp_operation const& op) {
  auto const form = form_of(op);
  if (form.destinations.empty()) return {};
  auto const end_at = [](std::vector<mscclpp_place> const& places, std::string_view letters,
                         std::size_t i) {
    return mscclpp_end{places[i], is_packets(*letter_at(letters, i))};
  };
  // Packets are forwarded to several peers by moves of their own, as ports need.
  bool const has_one_source = op.sources.size() == 1;
  if (form.is_pairwise || (has_one_source && is_over_port(op))) {
    std::vector<mscclpp_move> result;
    for (std::size_t i = 0; i < op.destinations.size(); ++i) {
      result.push_back({{end_at(op.sources, form.sources, form.is_pairwise ? i : 0)},
                        {end_at(op.destinations, form.destinations, i)},
                        op.counts.empty() ? op.count : op.counts[i]});
    }
    return result;
  }
  mscclpp_move whole{{}, {}, op.count};
  for (std::size_t i = 0; i < op.sources.size(); ++i) {
    whole.sources.push_back(end_at(op.sources, form.sources, i));
  }
  for (std::size_t i = 0; i < op.destinations.size(); ++i) {
    whole.destinations.push_back(end_at(op.destinations, form.destinations, i));
  }
  return {whole};
}

/// An operation of a block with its position in the file's list.
struct placed_operation {
  mscclpp_operation const* op = nullptr;
  mscclpp_segment const* loop = nullptr;  ///< null: none
  int operation = 0;
  int inner = -1;  ///< in the loop; -1: in none
  [[nodiscard]] program_place at(int rank, int block, int chunk = -1) const {
    return {rank, block, -1, chunk, operation, inner};
  }
};

/// All operations of a block in their order.
[[nodiscard]] inline std::vector<placed_operation> operations_of(mscclpp_block const& block) {
  std::vector<placed_operation> result;
  int position = 0;
  for (auto const& segment : block.segments) {
    bool const is_loop = segment.loop_chunks > 0;
    int inner = 0;
    for (auto const& op : segment.operations) {
      if (is_loop) {
        result.push_back({&op, &segment, position, inner++});
      } else {
        result.push_back({&op, nullptr, position++, -1});
      }
    }
    if (is_loop) ++position;
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
