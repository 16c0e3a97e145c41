// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/running/call/messenger.hpp>
#include <blink/running/walk/detail/host_clock.hpp>
#include <blink/transports/host/detail/message_pool.hpp>
#include <blink/transports/host/detail/message_stream.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// One rank's sends. One thread at a time uses it, except for `has_waiting`.
class message_outbox {
 public:
  /// most_bytes:   of messages that no rank has received
  /// shares_cores: true if receivers may need the core of a sender that waits for them
  message_outbox(message_rows& rows, int rank, message_memory& memory, std::size_t most_bytes,
                 bool shares_cores)
      : rows_(&rows),
        own_(&rows.of(rank)),
        rank_(rank),
        base_(memory.base()),
        shares_cores_(shares_cores),
        pool_(memory, most_bytes),
        by_peer_(static_cast<std::size_t>(rows.rank_count())) {}
  message_outbox(message_outbox const&) = delete;
  message_outbox& operator=(message_outbox const&) = delete;
  ~message_outbox() {
    for (auto& to : streams_) to.writer.reclaim();  // the pool gives it back
  }

  /// Starts a send. Null: all of it is in the stream.
  ///
  /// Throws: resource_error if there is no memory for a stream.
  [[nodiscard]] listed_operation* start(int peer, int tag, std::byte const* data,
                                        std::size_t bytes) {
    auto& to = stream_to(peer);
    if (bytes <= message_record::most_bytes && to.waiting.empty() &&
        to.writer.put_whole(tag, data, bytes)) {
      to.row->ring();
      return nullptr;
    }
    auto& one = take_operation(unused_, to.waiting);
    one.is_send = true;
    one.peer = peer;
    one.tag = tag;
    one.data = const_cast<std::byte*>(data);
    one.bytes = bytes;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    move(to);
    if (!one.has_ended()) return &one;
    release(one);
    return nullptr;
  }
  /// True if sends have not ended.
  [[nodiscard]] bool has_waiting() const { return waiting_.load(std::memory_order_relaxed) != 0; }
  /// Moves what there is memory for.
  void move_all() {
    for (auto& to : streams_) {
      if (!to.waiting.empty()) move(to);
    }
  }
  /// Ends an operation. If a part of its message is in the stream, the receiver gets an error.
  void release(listed_operation& one) {
    if (one.has_ended()) {
      unused_.splice(unused_.begin(), ended_, one.self);
      return;
    }
    auto& to = stream_to(one.peer);
    if (one.moved > 0) {
      to.writer.withdraw();
      to.row->ring();
    }
    unused_.splice(unused_.begin(), to.waiting, one.self);
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    move(to);  // the next one, which did not end only because of this one
  }

  [[nodiscard]] message_pool const& pool() const { return pool_; }

 private:
  struct stream {
    message_writer writer;
    message_row* row;                   // of the receiver
    message_operations waiting;         // in the order of their starts
    std::uint64_t idle_at = no_record;  // the receiver did not move on from this record
  };
  static constexpr std::uint64_t no_record = ~std::uint64_t{0};
  // The longest time that a sender waits for a receiver with which it might share a cache.
  static constexpr std::uint64_t longest_lead = 50'000;  // nanoseconds

  [[nodiscard]] stream& stream_to(int peer) {
    auto*& known = by_peer_[static_cast<std::size_t>(peer)];
    if (known == nullptr) known = &connect(peer);
    return *known;
  }
  [[nodiscard]] BLINK_COLD stream& connect(int peer) {
    auto& row = rows_->of(peer);
    auto& head = fresh_head();
    auto& to =
        streams_.emplace_back(stream{message_writer(pool_, head, base_), &row, {}, no_record});
    row.stream(rank_).store(reinterpret_cast<std::uintptr_t>(&head) - base_,
                            std::memory_order_release);
    row.count.fetch_add(1, std::memory_order_release);
    return to;
  }
  [[nodiscard]] stream_head& fresh_head() {
    if (heads_left_ == 0) {
      if (!pool_.take(heads_, true)) pool_.refuse();
      heads_left_ = message_pool::piece_bytes / sizeof(stream_head);
    }
    auto* const head = heads_.back().memory + --heads_left_ * sizeof(stream_head);
    std::memset(head, 0, sizeof(stream_head));
    return *reinterpret_cast<stream_head*>(head);
  }

  void move(stream& to) {
    while (!to.waiting.empty()) {
      auto& one = to.waiting.front();
      if (!put(to, one)) {
        to.writer.set_lacks_memory(true);
        to.row->ring();
        return;
      }
      one.at = message_operation::state::done;
      ended_.splice(ended_.end(), to.waiting, one.self);
      waiting_.fetch_sub(1, std::memory_order_relaxed);
      own_->ring();  // another thread may wait for it
    }
    to.writer.set_lacks_memory(false);
  }
  // False: there is no memory for the rest of the message.
  [[nodiscard]] bool put(stream& to, listed_operation& one) {
    if (one.bytes <= message_record::most_bytes) {
      if (!to.writer.put_whole(one.tag, one.data, one.bytes)) return false;
      to.row->ring();
      return true;
    }
    while (one.moved < one.bytes) {
      let_receiver_follow(to);
      auto const part = to.writer.put_piece(one.tag, one.data, one.bytes, one.moved);
      if (part == 0) return false;
      one.moved += part;
      to.row->ring();
    }
    return true;
  }
  // Pieces that the receiver has just read are in a cache. So a sender that is far ahead waits for
  // a receiver that moves, instead of taking more memory.
  void let_receiver_follow(stream& to) {
    if (!to.writer.is_ahead() || to.writer.consumed() == to.idle_at) return;
    std::uint64_t since = host_nanoseconds();
    for (std::uint64_t seen = to.writer.consumed(); to.writer.is_ahead();) {
      std::uint64_t const time = host_nanoseconds();
      if (auto const now = to.writer.consumed(); now != seen) {
        seen = now;
        since = time;
      } else if (time - since > longest_lead) {
        to.idle_at = seen;
        return;
      }
      if (shares_cores_) yield_core();
    }
  }

  message_rows* rows_;
  message_row* own_;
  int rank_;
  std::uintptr_t base_;
  bool shares_cores_;
  message_pool pool_;
  message_pieces heads_;
  std::size_t heads_left_ = 0;  // in the last piece of `heads_`
  std::list<stream> streams_;
  std::vector<stream*> by_peer_;
  message_operations ended_;
  message_operations unused_;
  std::atomic<std::size_t> waiting_ = 0;  // sends that have not ended
};

}}}  // namespace blink::BLINK_ABI::detail
