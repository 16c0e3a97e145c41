// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/detail/program_clocks.hpp>
#include <blink/interop/detail/program_fault.hpp>
#include <blink/interop/detail/program_memory.hpp>
#include <blink/interop/mscclpp_kind.hpp>
#include <blink/interop/step_program.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// The cells of the memory of an execution plan's ranks, accesses to them, and the order that those
// need.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The assignment of elements to the threads of a block. Two operations of sums, or two of packets,
/// give equal elements of their places to the same thread, which sees its own stores.
enum class thread_lanes : std::uint8_t { sums, packets, other };
[[nodiscard]] constexpr thread_lanes lanes_of(mscclpp_kind kind) {
  auto const& row = traits_of(kind);
  for (auto const letters : {row.sources, row.destinations}) {
    if (std::any_of(letters.begin(), letters.end(), is_packets)) return thread_lanes::packets;
  }
  bool const is_of_group = kind == mscclpp_kind::group_reduce;
  return adds_up(kind) && !is_of_group ? thread_lanes::sums : thread_lanes::other;
}

/// An operation's access to a cell.
struct mscclpp_access {
  process_event event = {-1, 0};  ///< process -1: before the first call
  int block = -1;                 ///< of all blocks of all ranks; -1: the rank's user
  placed_operation const* op = nullptr;
  std::uint32_t phase = 0;  ///< of the block: grows when its threads wait for each other
  thread_lanes lanes = thread_lanes::other;
  int element = -1;  ///< cell within the operation's places
};

struct mscclpp_cell {
  chunk_value value;
  mscclpp_access written;
  std::vector<mscclpp_access> read;                  ///< after that write
  int packet_call = -1;                              ///< number in the packets here; -1: plain data
  std::shared_ptr<process_knowledge const> carried;  ///< by the packets
};

/// A process that accesses cells, with the knowledge that it has.
struct mscclpp_actor {
  mscclpp_access access;  ///< for the record
  program_place at;       ///< of the operation
  process_knowledge const* known = nullptr;
  bool has_threads = true;  ///< a block, whose threads see each other's stores only after a sync
  std::vector<std::shared_ptr<process_knowledge const>> carried = {};  ///< by packets it has read
};

/// A cell, and its name for errors.
struct named_cell {
  mscclpp_cell* cell = nullptr;
  step_buffer buffer = step_buffer::input;
  int rank = 0;
  int chunk = 0;
};

/// Reads and writes cells, and checks that every conflicting access before has an order.
class mscclpp_order {
 public:
  /// blocks: (rank, index) of every block of all ranks
  explicit mscclpp_order(std::vector<program_place> blocks) : blocks_(std::move(blocks)) {}

  /// Throws: program_fault
  chunk_value read(mscclpp_actor const& actor, named_cell const& from) const {
    auto& cell = *from.cell;
    if (cell.packet_call >= 0)
      fail(actor, from, "reads packets as data from " + name(actor.at.rank, from));
    if (!cell.value) {
      fail(actor, from, "reads " + name(actor.at.rank, from) + " before anything is written there");
    }
    require(actor, from, cell.written, true, "reads", "writes");
    record(cell, actor.access);
    return cell.value;
  }

  /// Reads packets that have arrived, and learns what they carry.
  ///
  /// from, second: the two cells of the packet
  /// has_waited:   the process has seen the packets' numbers; else it needs another order
  /// Throws:       program_fault
  chunk_value read_packets(mscclpp_actor& actor, named_cell const& from, named_cell const& second,
                           bool has_waited) const {
    for (auto const* half : {&from, &second}) {
      if (!has_waited) require(actor, *half, half->cell->written, true, "reads", "writes");
      record(*half->cell, actor.access);
    }
    actor.carried.push_back(from.cell->carried);
    return from.cell->value;
  }

  /// Throws: program_fault
  void write(mscclpp_actor const& actor, named_cell const& to, chunk_value value) const {
    overwrite(actor, to);
    to.cell->value = std::move(value);
    to.cell->packet_call = -1;
  }

  /// Throws: program_fault
  void write_packets(mscclpp_actor const& actor, named_cell const& to, named_cell const& second,
                     chunk_value value, int call,
                     std::shared_ptr<process_knowledge const> const& carried) const {
    for (auto const* half : {&to, &second}) {
      if (half->cell->packet_call == call) {
        if (*half->cell->value == *value) continue;  // a group's store to the place it came from
        fail(actor, to,
             "writes packets to " + name(actor.at.rank, to) + " a second time in one call");
      }
      overwrite(actor, *half);
      half->cell->packet_call = call;
      half->cell->value = value;
      half->cell->carried = carried;
    }
  }

  /// Checks that all accesses to a cell of a rank's user are over.
  ///
  /// known:  by the rank
  /// Throws: program_fault
  void check_over(named_cell const& cell, process_knowledge const& known) const {
    auto const require_over = [&](mscclpp_access const& access, bool is_known, char const* does) {
      if (access.block < 0 || is_known) return;
      auto at = place_of(access);
      at.chunk = cell.chunk;
      throw program_fault(at, std::string(does) + " " + name(at.rank, cell) + outside);
    };
    auto const& written = cell.cell->written;
    require_over(written, written.block < 0 || known.sees(written.event), "writes");
    for (auto const& access : cell.cell->read) {
      require_over(access, access.block < 0 || known.is_over(access.event), "reads");
    }
  }

  /// "rank 3, block 1, operation 4".
  [[nodiscard]] program_place place_of(mscclpp_access const& access) const {
    auto const& block = blocks_[static_cast<std::size_t>(access.block)];
    return access.op->at(block.rank, block.block);
  }

 private:
  static constexpr char const* outside = ", whose call may not have begun or may have ended";

  /// "scratch" at the rank that is named already, else "scratch of rank 3".
  [[nodiscard]] static std::string name(int rank, named_cell const& cell) {
    return std::string(to_text(cell.buffer)) +
           (cell.rank == rank ? "" : " of rank " + std::to_string(cell.rank));
  }
  [[noreturn]] static void fail(mscclpp_actor const& actor, named_cell const& cell,
                                std::string const& what) {
    auto at = actor.at;
    at.chunk = cell.chunk;
    throw program_fault(at, what);
  }

  static void record(mscclpp_cell& cell, mscclpp_access const& access) {
    // Of accesses by one block, those of an earlier phase are over.
    std::erase_if(cell.read, [&](mscclpp_access const& other) {
      return other.event.process == access.event.process &&
             (other.phase != access.phase ||
              (other.lanes == access.lanes && other.element == access.element));
    });
    cell.read.push_back(access);
  }

  void overwrite(mscclpp_actor const& actor, named_cell const& to) const {
    auto& cell = *to.cell;
    bool const needs_visible = cell.packet_call < 0;  // packets that were read have been written
    require(actor, to, cell.written, needs_visible, "writes", "writes too");
    for (auto const& access : cell.read) require(actor, to, access, false, "writes", "reads");
    cell.written = actor.access;
    cell.read.clear();
    cell.carried.reset();
  }

  void require(mscclpp_actor const& actor, named_cell const& cell, mscclpp_access const& before,
               bool needs_visible, std::string const& does, std::string const& did) const {
    if (before.event.process < 0 || before.event == actor.access.event) return;
    auto const what = does + " " + name(actor.at.rank, cell);
    if (before.event.process == actor.access.event.process) {
      if (!actor.has_threads || before.phase != actor.access.phase) return;
      bool const is_same_thread = before.lanes == actor.access.lanes &&
                                  before.lanes != thread_lanes::other &&
                                  before.element == actor.access.element;
      if (is_same_thread) return;
      auto const at = before.op->at(-1, -1);
      fail(actor, cell,
           what + ", which " + in_words(at) + " " + did +
               ", before the block's threads have waited for each other (nop)");
    }
    if (needs_visible ? actor.known->sees(before.event) : is_over(actor, before.event)) return;
    if (before.block < 0) fail(actor, cell, what + outside);
    auto at = place_of(before);
    if (at.rank == actor.at.rank) at.rank = -1;
    fail(actor, cell, what + ", which " + in_words(at) + " " + did + ", without waiting for it");
  }

  [[nodiscard]] static bool is_over(mscclpp_actor const& actor, process_event const& event) {
    return actor.known->is_over(event) ||
           std::any_of(actor.carried.begin(), actor.carried.end(),
                       [&](auto const& each) { return each && each->is_over(event); });
  }

  std::vector<program_place> blocks_;
};

}}}  // namespace blink::BLINK_ABI::detail
