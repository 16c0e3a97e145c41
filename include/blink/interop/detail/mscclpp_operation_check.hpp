// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/check_program_structure.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/mscclpp_kind.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Checks one operation of an execution plan: its channels, places, parts and numbers.
class mscclpp_operation_check {
 public:
  /// Pre: `at` names a rank of the program.
  mscclpp_operation_check(mscclpp_program const& program, placed_operation const& each,
                          program_place const& at)
      : program_(&program),
        rank_(&program.ranks[static_cast<std::size_t>(at.rank)]),
        op_(each.op),
        loop_(each.loop),
        at_(at) {}

  /// Throws: program_fault for the first fault.
  void check() const {
    check_numbers();
    check_channels();
    auto const form = form_of(*op_);
    if (form.destinations.empty()) return;
    check_list(op_->sources, form.sources, "source");
    check_list(op_->destinations, form.destinations, "destination");
    auto const pairs = op_->destinations.size();
    if (form.is_pairwise && op_->sources.size() != pairs) {
      fail("of " + std::to_string(op_->sources.size()) + " sources to " + std::to_string(pairs) +
           " destinations, expected pairs");
    }
    if (!op_->counts.empty() && (!form.is_pairwise || op_->counts.size() != pairs)) {
      fail("with different numbers of chunks, expected one number");
    }
    check_put_channels();
    check_executor();
  }

 private:
  using kind = mscclpp_kind;
  using channel_type = mscclpp_channel_type;

  [[noreturn]] void fail(std::string const& what) const {
    throw program_fault(at_, "'" + std::string(to_text(op_->kind)) + "' " + what);
  }
  /// "3 of 2" for a number that is not below `count`.
  void require_below(int number, std::size_t count, std::string const& what) const {
    if (number >= 0 && static_cast<std::size_t>(number) < count) return;
    fail("uses " + what + " " + std::to_string(number) + " of " + std::to_string(count));
  }

  template <class T>
  [[nodiscard]] static bool has_twice(std::vector<T> values) {
    std::sort(values.begin(), values.end());
    return std::adjacent_find(values.begin(), values.end()) != values.end();
  }

  void check_numbers() const {
    if (loop_ != nullptr) {
      int const unit = program_->unit_of(*loop_);
      if (unit < 1 || unit % 16 != 0) {
        fail("in a loop with units of " + std::to_string(unit) +
             " bytes, expected a multiple of 16");
      }
    }
    if (op_->slices < 1 || op_->slice < 0 || op_->slice >= op_->slices) {
      fail("of part " + std::to_string(op_->slice) + " of " + std::to_string(op_->slices));
    }
    if (op_->kind == kind::barrier && (op_->barrier < 0 || op_->barrier_blocks < 1)) {
      fail("without a barrier and blocks");
    }
    for (int const s : op_->semaphores) {
      require_below(s, static_cast<std::size_t>(std::max(0, rank_->semaphores)), "semaphore");
    }
    // Two threads would wait for the same counter in an order that depends on timing.
    if (waits(op_->kind) && has_twice(op_->channels))
      fail("for one channel twice, expected each once");
    if (op_->kind == kind::acquire && has_twice(op_->semaphores)) {
      fail("of one semaphore twice, expected each once");
    }
  }

  void check_channels() const {
    bool const counts = (waits(op_->kind) || signals(op_->kind)) && !moves_data(op_->kind);
    auto const type = op_->channels.empty() ? channel_type::memory : op_->channels.front().type;
    for (auto const& channel : op_->channels) {
      if (channel.type != type) fail("over channels of two types");
      require_below(channel.id, rank_->channel_count(type),
                    std::string(to_text(type)) + " channel");
    }
    bool const needs_ports = op_->kind == kind::flush || is_signal_put();
    if ((counts || needs_ports) && op_->channels.empty()) fail("without a channel");
    if (needs_ports && type != channel_type::port) {
      fail("over " + std::string(to_text(type)) +
           " channels, expected port channels: the executor " +
           (is_signal_put() ? "does not signal" : "does not flush") + " over others");
    }
    if ((counts || is_put()) && type == channel_type::multimem) {
      fail("over switch channels, expected memory or port channels");
    }
    if (type == channel_type::port && !counts && !needs_ports && !is_put()) {
      fail("over port channels, expected memory channels");
    }
  }
  [[nodiscard]] bool is_signal_put() const { return signals(op_->kind) && moves_data(op_->kind); }
  [[nodiscard]] bool is_put() const {
    return op_->kind == kind::put || op_->kind == kind::put_packets ||
           op_->kind == kind::forward_packets || is_signal_put();
  }

  /// Checks that each put has a channel to the rank of its destination. Over memory, files may
  /// leave the channels out.
  void check_put_channels() const {
    if (!is_put() || op_->channels.empty()) return;
    if (op_->channels.size() != op_->destinations.size()) {
      fail("over " + std::to_string(op_->channels.size()) + " channels to " +
           std::to_string(op_->destinations.size()) + " destinations");
    }
    auto const& peers = rank_->peers(op_->channels.front().type);
    for (std::size_t i = 0; i < op_->channels.size(); ++i) {
      int const peer = peers[static_cast<std::size_t>(op_->channels[i].id)];
      if (peer == op_->destinations[i].rank) continue;
      fail("to rank " + std::to_string(op_->destinations[i].rank) + " over a channel to rank " +
           std::to_string(peer));
    }
  }

  void check_list(std::vector<mscclpp_place> const& places, std::string_view letters,
                  std::string const& what) const {
    if (places.size() < least_places(letters)) {
      fail("with " + std::to_string(places.size()) + " " + what + "s, expected " +
           std::to_string(least_places(letters)) + " at least");
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      auto const letter = letter_at(letters, i);
      if (!letter) {
        fail("with " + std::to_string(places.size()) + " " + what + "s, expected " +
             std::to_string(i));
      }
      char const where = places[i].group >= 0 ? 'g' : places[i].rank >= 0 ? 'r' : 'l';
      char const wanted = is_packets(*letter) ? static_cast<char>(*letter - 'A' + 'a') : *letter;
      if (where != wanted) {
        fail("with " + what + " " + std::to_string(i) + " " + in_words(where) + ", expected it " +
             in_words(wanted));
      }
      int const count =
          op_->counts.empty() ? op_->count : op_->counts[std::min(i, op_->counts.size() - 1)];
      check_place(places[i], count, is_packets(*letter));
    }
  }
  [[nodiscard]] static std::string in_words(char letter) {
    return letter == 'g' ? "at a switch" : letter == 'r' ? "at a peer" : "inside the rank";
  }

  /// Checks that the place is within the buffers of all its ranks.
  void check_place(mscclpp_place const& place, int count, bool has_packets) const {
    if (count < 1) fail("of " + std::to_string(count) + " chunks, expected 1 at least");
    if (place.group >= 0) require_below(place.group, rank_->groups.size(), "switch channel");
    auto const [ranks, buffer] = owners_of(*program_, at_.rank, place);
    if (has_packets && buffer != step_buffer::scratch) {
      fail("with packets in the " + std::string(to_text(buffer)) + ", expected them in scratch");
    }
    for (int const r : ranks) check_range(r, {buffer, place.chunk}, count, has_packets);
    if (place.rank == at_.rank) fail("at its own rank as a peer");
    bool const is_remote = place.rank >= 0 || place.group >= 0;
    if (program_->doubles_scratch && is_remote && !has_packets && buffer == step_buffer::scratch) {
      fail(
          "at other ranks' scratch without packets, where calls use two halves in turn: the "
          "executor takes the first half in every call");
    }
  }
  void check_range(int r, chunk_place const& place, int count, bool has_packets) const {
    require_below(r, program_->ranks.size(), "rank");
    auto const& rank = program_->ranks[static_cast<std::size_t>(r)];
    int size = declared_chunks(rank, place.buffer);
    if (has_packets && !program_->has_packets) size /= 2;
    require_within(at_, place, count, size, r == at_.rank ? "" : " at rank " + std::to_string(r));
  }

  /// Checks what the executor assumes without a test.
  void check_executor() const {
    bool const is_pair_put = op_->kind == kind::put || op_->kind == kind::put_packets;
    for (std::size_t i = 0; i < op_->sources.size(); ++i) {
      if (is_pair_put && !is_over_port(*op_) && op_->sources[i].buffer != op_->sources[0].buffer) {
        fail("from two buffers, expected one: the executor takes all from the first");
      }
      if (op_->kind == kind::get && op_->sources[i].chunk != op_->destinations[i].chunk) {
        fail("from chunk " + std::to_string(op_->sources[i].chunk) + " to chunk " +
             std::to_string(op_->destinations[i].chunk) +
             ", expected equal ones: executors of MSCCL++ 0.8 to 0.10 exchange the two");
      }
    }
  }

  mscclpp_program const* program_;
  mscclpp_rank const* rank_;
  mscclpp_operation const* op_;
  mscclpp_segment const* loop_;
  program_place at_;
};

}}}  // namespace blink::BLINK_ABI::detail
