// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/mscclpp_program.hpp>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

// The data that each operation of an execution plan moves.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The places of an operation as letters: l inside the rank, r at a peer, g at a group. A capital
/// letter stands for packets. A star repeats the letter before it, any number of times.
struct mscclpp_form {
  std::string_view sources;
  std::string_view destinations;
  bool is_pairwise = false;  ///< each source to its destination; else the sum of all to all
};

/// The form of an operation; empty for operations that move no data.
///
/// Source: handlers of MSCCL++'s executor, versions 0.8 to 0.10.
[[nodiscard]] constexpr mscclpp_form form_of(mscclpp_kind kind, bool is_over_port) {
  switch (kind) {
    case mscclpp_kind::put:
    case mscclpp_kind::put_signal:
    case mscclpp_kind::put_signal_flush:
      return {"l*", "r*", true};
    case mscclpp_kind::get:
      return {"r*", "l*", true};
    case mscclpp_kind::copy:
      return {"l", "l"};
    case mscclpp_kind::reduce:
      return {"l*", "l"};
    case mscclpp_kind::reduce_put:
      return {"l*", "lr*"};
    case mscclpp_kind::read_reduce:
      return {"lr*", "l"};
    case mscclpp_kind::read_reduce_put:
      return {"lr*", "lr*"};
    case mscclpp_kind::put_packets:
      return {is_over_port ? "L*" : "l*", "R*", true};
    case mscclpp_kind::forward_packets:
      return {"L", "R*"};
    case mscclpp_kind::pack:
      return {"l", "L"};
    case mscclpp_kind::unpack:
      return {"L", "l"};
    case mscclpp_kind::reduce_packets:
      return {"lL*", "l"};
    case mscclpp_kind::reduce_packets_put:
      return {"lL*", "lR*"};
    case mscclpp_kind::reduce_packets_pack:
      return {"lL*", "lL"};
    case mscclpp_kind::reduce_packets_pack_put:
      return {"lL*", "lLR*"};
    case mscclpp_kind::group_reduce:
      return {"g", "g"};
    case mscclpp_kind::group_store:
      return {"l", "g"};
    case mscclpp_kind::group_store_packets:
      return {"L", "G"};
    default:
      return {};
  }
}

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
  auto const form = form_of(op.kind, is_over_port(op));
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
