// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/tree_parts.hpp>
#include <blink/running/walk/packet.hpp>
#include <blink/running/walk/tree_share.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/proportional_split.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/channels/channel_call.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The collective that kernels call, its largest count, and the number of simultaneous calls.
struct channel_options {
  collective kind = collective::all_reduce;
  /// elements of a call: of the buffer, or of one segment if the collective has segments
  std::size_t most_count = 0;
  std::uint32_t channels = 1;  ///< calls that may run at the same time
};

/// The elements of calls.
struct channel_elements {
  std::size_t bytes = 1;  ///< of an element
  bool has_packets = false;
};

/// The layout of a schedule for calls from kernels with any count up to a largest one: everything
/// that does not depend on the count.
class channel_layout {
 public:
  /// Throws: precondition_error if `source` is no schedule or does not carry the collective, and
  ///         for options that are out of range.
  channel_layout(schedule const& source, channel_options const& wanted,
                 channel_elements const& elements, device_options const& options)
      : plan_((check(source, wanted), source)), wanted_(wanted) {
    connections_.window = options.window;
    connections_.has_packets = elements.has_packets;
    connections_.slot_bytes = elements.has_packets ? options.packet_slot_bytes : options.slot_bytes;
    if (elements.has_packets) {
      connections_.window = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(options.window, packets_of::most_window));
    }
    if (elements.bytes > connections_.slot_bytes) {
      throw precondition_error("prepare_channels: elements have " + std::to_string(elements.bytes) +
                               " bytes, expected at most those of a slot, " +
                               std::to_string(connections_.slot_bytes));
    }
    make_trees(tree_parts(source, {wanted.kind}, connections_, options.costs), elements);
    if (elements.has_packets) expect_fit(elements);
    if (!elements.has_packets) connections_.slot_bytes = needed_slot_bytes(elements);
  }

  /// The options that the channels were made with.
  [[nodiscard]] channel_options const& options() const { return wanted_; }
  /// The parameters of the trees, by tree of the schedule.
  [[nodiscard]] std::vector<channel_tree> const& trees() const { return trees_; }
  /// Bytes of a slot for data.
  [[nodiscard]] std::size_t slot_bytes() const { return connections_.slot_bytes; }
  /// The layout with room for the word that `sized_peer_transport` announces.
  [[nodiscard]] connection_layout connections() const {
    connection_layout result = connections_;
    if (!result.has_packets) result.slot_bytes += sizeof(std::uint64_t);
    return result;
  }
  /// True if the schedule keeps the order of ranks, so that reducers need not be commutative.
  [[nodiscard]] bool keeps_order() const { return reduces_in_order(plan_); }
  /// Returns the schedule with its trees repeated for each channel, channel by channel. The tasks
  /// of each rank then have the same order.
  [[nodiscard]] schedule repeated() const {
    schedule result = plan_;
    for (std::uint32_t channel = 1; channel < wanted_.channels; ++channel) {
      result.trees.insert(result.trees.end(), plan_.trees.begin(), plan_.trees.end());
    }
    return result;
  }

  /// Returns the reason for a refused call, in words.
  [[nodiscard]] std::string describe(channel_state const& state) const {
    switch (state.refusal) {
      case channel_refusal::count:
        return "count " + std::to_string(state.count) + ", expected at most " +
               std::to_string(wanted_.most_count) + " (channel_options::most_count)";
      case channel_refusal::in_place:
        return "the output is the input, expected another place: the input is sent while other "
               "ranks write "
               "there";
      case channel_refusal::order:
        return "the reducer is not commutative and the schedule changes the order of ranks, "
               "expected a "
               "schedule that keeps it";
      case channel_refusal::element:
        return "the data that the reducer sends is larger than " +
               (connections_.has_packets
                    ? "an element, and goes by packets"
                    : "the " + std::to_string(connections_.slot_bytes) +
                          " bytes of a slot: the largest chunk, at least 4096 bytes if "
                          "device_options::slot_bytes allows");
      case channel_refusal::reducer:
        return "no reducer, expected one for a collective that combines elements";
      case channel_refusal::none:
        break;
    }
    return "";
  }

 private:
  // far below the limit of 64 bits
  static constexpr std::size_t most_elements = std::size_t{1} << 40;

  static void check(schedule const& source, channel_options const& wanted) {
    validate(source);
    validate_for(source, wanted.kind);
    expects(wanted.channels >= 1, "channel_options: channels out of range, expected >= 1");
    expects(wanted.most_count <= most_elements,
            "channel_options: most_count out of range, expected <= 2^40");
    for (auto const rank : ranks_without_trees(source)) {
      if (wanted.most_count == 0 || !blink::has_equal_roots(source, wanted.kind)) break;
      throw precondition_error("prepare_channels: rank " + std::to_string(rank) +
                               " roots no tree, expected one: calls have blocks of one size");
    }
    constexpr auto most = std::numeric_limits<std::uint32_t>::max();
    if (source.trees.size() > most / 2 / wanted.channels) {
      throw precondition_error("channel_options: " + std::to_string(wanted.channels) +
                               " channels of " + std::to_string(source.trees.size()) +
                               " trees, expected fewer");
    }
  }

  void make_trees(tree_parts const& parts, channel_elements const& elements) {
    element_sizes const sizes{elements.bytes, elements.bytes};
    for (std::size_t index = 0; index < plan_.trees.size(); ++index) {
      auto& made = trees_.emplace_back();
      made.share = in_lowest_terms(parts.share_of(index, wanted_.kind));
      // Reducers that promise an order may have periods of more elements than a slot.
      std::uint64_t const slots = made.share.total / made.share.heaviest + 1;
      std::uint64_t const most =
          std::max({std::uint64_t{1}, std::uint64_t{wanted_.most_count},
                    slots > most_elements ? ~std::uint64_t{0} : slots * connections_.slot_bytes});
      if (made.share.total > (std::uint64_t{1} << 63) / most) {
        throw precondition_error("prepare_channels: weights of trees sum to " +
                                 std::to_string(made.share.total) +
                                 ", expected less for counts of " + std::to_string(most));
      }
      auto const at = block_position_of(plan_.trees[index], wanted_.kind);
      made.input_block = at.input;
      made.output_block = at.output;
      tree_task largest;
      take_part(largest, made.share, wanted_.most_count, sizes);
      made.chunk_bytes =
          std::clamp(parts.scheduled_bytes(index, wanted_.kind, largest.count * elements.bytes),
                     elements.bytes, std::max(elements.bytes, connections_.slot_bytes));
    }
  }
  // Returns the same share in smaller numbers, because kernels compute with 64 bits.
  [[nodiscard]] static tree_share in_lowest_terms(tree_share share) {
    auto const common =
        std::gcd(std::gcd(share.before, share.weight), std::gcd(share.total, share.heaviest));
    return {share.before / common, share.weight / common, share.total / common,
            share.heaviest / common};
  }
  [[nodiscard]] std::size_t needed_slot_bytes(channel_elements const& elements) const {
    constexpr std::size_t least = 4096;  // data that reducers send may be larger than elements
    std::size_t needed = std::max(least, elements.bytes);
    for (auto const& tree : trees_) needed = std::max(needed, tree.chunk_bytes);
    // alignment of the announced word and of accesses to the next slot
    constexpr std::size_t word = 16;
    return (std::min(connections_.slot_bytes, needed) + word - 1) / word * word;
  }
  // The tasks of a channel are walked one after the other, so the messages of each task have to fit
  // into its window.
  void expect_fit(channel_elements const& elements) const {
    constexpr std::size_t rounding = 2 * part_alignment_bytes;  // of parts to lines
    element_sizes const sizes{elements.bytes, elements.bytes};
    std::size_t const slot = slot_room{connections_.slot_bytes, true}.bytes(sizes);
    std::size_t const unit = packets_of::most_unit_bytes;  // for any data that the reducer sends
    std::size_t const room = slot < unit ? 0 : connections_.window * (slot - unit);
    for (std::size_t index = 0; index < trees_.size(); ++index) {
      auto const& share = trees_[index].share;
      std::size_t const part =
          (wanted_.most_count * share.weight / share.total + 1) * elements.bytes + rounding;
      if (part <= room || wanted_.most_count == 0) continue;
      throw precondition_error("prepare_channels: tree " + std::to_string(index) +
                               " carries up to " + std::to_string(part) +
                               " bytes as packets, expected at most the " + std::to_string(room) +
                               " of its window (device_options::packet_slot_bytes)");
    }
  }

  schedule plan_;
  channel_options wanted_;
  connection_layout connections_;
  std::vector<channel_tree> trees_;
};

}}  // namespace blink::BLINK_ABI
