// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/running/call/messenger.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/transports/host/detail/message_pool.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <list>
#include <vector>

// The memory through which one rank sends messages to another: a stream of records without end. A
// small message is in its record, a large one in pieces of memory that records name. The sender
// takes all memory from its own pool, and uses it again once the receiver has consumed the records.
// So neither rank waits for the other as long as there is memory.
//
// Each record is complete before its stamp is published, in one step. So a sender may be killed at
// any instruction. Places are distances from `message_memory::base()`.

namespace blink { inline namespace BLINK_ABI { namespace detail {

enum class record_kind : std::uint32_t {
  whole,       ///< a message that is in the record
  piece,       ///< the first piece of a message, or the next one
  withdrawn,   ///< the sender gave up the message of which there were pieces
  next_block,  ///< the next record is at `place`
};

/// A line of a stream. Records begin at lines.
struct alignas(64) message_record {
  counter stamp;        ///< the number of the record in its stream, from 1 on
  std::uint64_t bytes;  ///< of the whole message
  std::uint64_t place;  ///< of a piece, or of the next block
  std::int32_t tag;
  record_kind kind;
  std::byte data[32];  ///< the begin of a whole message, which goes on in the next lines

  [[nodiscard]] std::byte* payload() { return reinterpret_cast<std::byte*>(this) + head_bytes; }
  static constexpr std::size_t head_bytes = 32;
  /// The most bytes of a message that is in its record.
  static constexpr std::size_t most_bytes = 2048;
  [[nodiscard]] static constexpr std::size_t lines(std::size_t bytes) {
    return (head_bytes + bytes + 63) / 64;
  }
};
static_assert(sizeof(message_record) == 64);

/// Bytes of the next piece of a message, of which `rest` bytes are left. Both ranks compute it.
[[nodiscard]] constexpr std::size_t bytes_of_piece(std::size_t rest) {
  return rest < message_pool::piece_bytes ? rest : message_pool::piece_bytes;
}

/// The two words of a stream besides its records. All bytes are 0 at first.
struct alignas(128) stream_head {
  std::atomic<std::uint64_t> first;         ///< place of the first record
  std::atomic<std::uint32_t> lacks_memory;  ///< 1 while the sender waits for the receiver
  alignas(128) counter consumed;            ///< number of the last record that was consumed
};

/// The words that one receiver shares with its senders. All bytes are 0 at first.
struct message_row {
  alignas(128) std::atomic<std::uint32_t> rings;  ///< changes when its threads must wake
  std::atomic<std::uint32_t> sleepers;            ///< threads that sleep, or are about to
  alignas(128) std::atomic<std::uint64_t> count;  ///< of its streams

  [[nodiscard]] static std::size_t bytes(int rank_count) {
    return sizeof(message_row) +
           sizeof(std::atomic<std::uint64_t>) * static_cast<std::size_t>(rank_count);
  }
  /// The place of the stream from this sender; 0: none.
  [[nodiscard]] std::atomic<std::uint64_t>& stream(int sender) {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(this + 1)[sender];
  }
  /// Wakes the threads of the rank after an event for it. See `doorbell::ring`.
  void ring() {
    if (sleepers.load(std::memory_order_relaxed) == 0) return;
    rings.fetch_add(1);
    wake(rings, std::numeric_limits<int>::max());
  }
};

/// The rows of all ranks, found when first used. Any thread may use it.
class message_rows {
 public:
  message_rows(message_memory& memory, int rank_count)
      : memory_(&memory), rows_(static_cast<std::size_t>(rank_count)) {}

  [[nodiscard]] int rank_count() const { return static_cast<int>(rows_.size()); }

  /// Throws: resource_error or std::bad_alloc if there is no memory.
  [[nodiscard]] message_row& of(int rank) {
    auto& known = rows_[static_cast<std::size_t>(rank)];
    auto* row = known.load(std::memory_order_acquire);
    if (row == nullptr) {
      row = reinterpret_cast<message_row*>(memory_->row(rank, message_row::bytes(rank_count())));
      known.store(row, std::memory_order_release);
    }
    return *row;
  }

 private:
  message_memory* memory_;
  std::vector<std::atomic<message_row*>> rows_;
};

/// The sender's end of a stream.
class message_writer {
 public:
  /// Pre: `head` is 0, and the receiver does not know it yet.
  ///
  /// Throws: resource_error if there is no memory for records.
  message_writer(message_pool& pool, stream_head& head, std::uintptr_t base)
      : pool_(&pool), head_(&head), base_(base) {
    if (!pool.take(blocks_, true)) pool.refuse();
    record(0).stamp = 0;
    head.first.store(place_of(blocks_.back().memory), std::memory_order_relaxed);
  }

  /// Appends a message that fits into a record. Returns false if there is no memory.
  [[nodiscard]] bool put_whole(int tag, void const* data, std::size_t bytes) {
    std::size_t const needed = message_record::lines(bytes);
    if (!make_room(needed)) return false;
    auto& at = record(line_);
    if (bytes > 0) std::memcpy(at.payload(), data, bytes);
    publish_record(record_kind::whole, tag, bytes, 0, needed);
    return true;
  }
  /// Appends the next piece of a message. Returns the number of its bytes; 0: there is no memory.
  ///
  /// data: the whole message, of which `done` bytes are in the stream
  [[nodiscard]] std::size_t put_piece(int tag, std::byte const* data, std::size_t bytes,
                                      std::size_t done) {
    reclaim();
    if (done == 0 && bytes > message_pool::piece_bytes) pool_->provide_turns();
    if (!make_room(1) || !pool_->take(pieces_, pieces_.size() < least_pieces)) return 0;
    auto& piece = pieces_.back();
    std::size_t const part = bytes_of_piece(bytes - done);
    std::memcpy(piece.memory, data + done, part);
    piece.until = records_ + 1;
    publish_record(record_kind::piece, tag, bytes, place_of(piece.memory), 1);
    return part;
  }
  /// Ends a message of which a part is in the stream. Needs no memory.
  void withdraw() { publish_record(record_kind::withdrawn, 0, 0, 0, 1); }

  /// True if so much is on its way that the next piece had better wait for the receiver.
  [[nodiscard]] bool is_ahead() {
    reclaim();
    return pieces_.size() >= pieces_ahead;
  }
  [[nodiscard]] std::uint64_t consumed() const { return observe(head_->consumed); }
  void set_lacks_memory(bool lacks) {
    head_->lacks_memory.store(lacks ? 1 : 0, std::memory_order_relaxed);
  }
  /// Takes back the memory that the receiver has consumed.
  void reclaim() {
    auto const until = consumed();
    while (!pieces_.empty() && pieces_.front().until <= until) pool_->give_back(pieces_);
    while (blocks_.size() > 1 && blocks_.front().until <= until) pool_->give_back(blocks_);
  }

 private:
  static constexpr std::size_t lines = message_pool::piece_bytes / sizeof(message_record);
  static constexpr std::size_t usable_lines = lines - 2;  // then `withdrawn` and `next_block`
  static constexpr std::size_t least_pieces = 16;         // that a stream has whatever the limit is
  static constexpr std::size_t pieces_ahead = 64;         // 1 MiB stays in a core's cache

  [[nodiscard]] message_record& record(std::size_t line) {
    return reinterpret_cast<message_record*>(blocks_.back().memory)[line];
  }
  [[nodiscard]] std::uint64_t place_of(std::byte const* memory) const {
    return reinterpret_cast<std::uintptr_t>(memory) - base_;
  }

  [[nodiscard]] bool make_room(std::size_t needed) {
    if (line_ + needed <= usable_lines) return true;
    reclaim();
    auto& full = blocks_.back();
    message_record& last = record(line_);
    if (!pool_->take(blocks_, blocks_.size() < 2)) return false;
    record(0).stamp = 0;
    last.kind = record_kind::next_block;
    last.place = place_of(blocks_.back().memory);
    full.until = ++records_;
    publish(last.stamp, records_);
    line_ = 0;
    return true;
  }
  // The line behind the record must not look like the next one, before the receiver reads it.
  void publish_record(record_kind kind, int tag, std::size_t bytes, std::uint64_t place,
                      std::size_t its_lines) {
    auto& at = record(line_);
    at.bytes = bytes;
    at.place = place;
    at.tag = tag;
    at.kind = kind;
    record(line_ + its_lines).stamp = 0;
    publish(at.stamp, ++records_);
    line_ += its_lines;
  }

  message_pool* pool_;
  stream_head* head_;
  std::uintptr_t base_;
  message_pieces blocks_;      // of records; the last one is being written
  message_pieces pieces_;      // of messages
  std::size_t line_ = 0;       // of the next record
  std::uint64_t records_ = 0;  // that are published
};

/// The receiver's end of a stream.
class message_reader {
 public:
  message_reader(stream_head& head, std::uintptr_t base)
      : head_(&head),
        base_(base),
        at_(reinterpret_cast<message_record*>(base_ + head.first.load(std::memory_order_relaxed))) {
  }

  /// The next record; null: there is none yet. The result is valid until `consume`.
  [[nodiscard]] message_record* next() {
    while (observe(at_->stamp) == consumed_ + 1) {
      if (at_->kind != record_kind::next_block) return at_;
      advance(reinterpret_cast<message_record*>(base_ + at_->place));
    }
    return nullptr;
  }
  /// Lets the sender use the memory of the next record again.
  void consume() {
    std::size_t const lines =
        at_->kind == record_kind::whole ? message_record::lines(at_->bytes) : 1;
    advance(at_ + lines);
  }
  [[nodiscard]] std::byte const* memory_at(std::uint64_t place) const {
    return reinterpret_cast<std::byte const*>(base_ + place);
  }
  [[nodiscard]] bool sender_lacks_memory() const {
    return head_->lacks_memory.load(std::memory_order_relaxed) != 0;
  }

 private:
  void advance(message_record* next) {
    at_ = next;
    publish(head_->consumed, ++consumed_);
  }

  stream_head* head_;
  std::uintptr_t base_;
  message_record* at_;
  std::uint64_t consumed_ = 0;
};

/// An operation in one of the lists of a rank. It moves between them without allocation.
struct listed_operation : message_operation {
  std::list<listed_operation>::iterator self;
};
using message_operations = std::list<listed_operation>;

/// Appends an operation as it is at first to `to`, from the unused ones if there are some.
[[nodiscard]] inline listed_operation& take_operation(message_operations& unused,
                                                      message_operations& to) {
  if (unused.empty()) unused.emplace_back();
  auto const one = unused.begin();
  to.splice(to.end(), unused, one);
  *one = {};
  one->self = one;
  return *one;
}

}}}  // namespace blink::BLINK_ABI::detail
