// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/messenger.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/transports/host/detail/message_stream.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <new>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// One rank's receives, and the messages that no receive has asked for so far. One thread at a time
/// uses it.
///
/// A message that comes before its receive waits in the sender's memory. It is copied into the
/// receiver's memory if the sender lacks memory, or if the receiver looks for a later one.
class message_inbox {
 public:
  message_inbox(message_rows& rows, int rank, std::uintptr_t base)
      : rows_(&rows),
        own_(&rows.of(rank)),
        base_(base),
        by_source_(static_cast<std::size_t>(rows.rank_count())) {}
  message_inbox(message_inbox const&) = delete;
  message_inbox& operator=(message_inbox const&) = delete;

  [[nodiscard]] listed_operation& start(int source, int tag, std::byte* data, std::size_t bytes) {
    auto& one = take_operation(unused_, posted_);
    one.peer = source;
    one.tag = tag;
    one.data = data;
    one.bytes = bytes;
    take_kept(one);
    return one;
  }
  /// Moves what has come of the messages that the receive may get, up to some number of records:
  /// a sender may add to them without end.
  ///
  /// Time:   O(posted receives) for a message, and its copy.
  /// Throws: resource_error if there is no memory for a message that no receive has asked for.
  void move(listed_operation const& one) {
    using state = message_operation::state;
    if (one.at == state::waiting && one.peer == any_source) {
      find_streams();
      for (std::size_t k = 0; k < streams_.size() && one.at == state::waiting; ++k) {
        take_some(streams_.front(), [&] { return one.at == state::waiting; });
        streams_.splice(streams_.end(), streams_, streams_.begin());  // so that all get their turn
      }
    }
    int const source = one.at == state::waiting ? one.peer : one.got.source;
    auto* const from = source == any_source ? nullptr : stream_of(source);
    if (from != nullptr) take_some(*from, [&] { return !one.has_ended(); });
  }
  /// Takes in messages of senders that lack memory.
  void help_senders() {
    find_streams();
    for (auto& from : streams_) take_some(from, [&] { return from.reader.sender_lacks_memory(); });
  }
  /// Ends an operation; what comes of its message is dropped.
  void release(listed_operation& one) {
    using state = message_operation::state;
    if (one.at == state::matched) stream_of(one.got.source)->receive = nullptr;
    auto& holder = one.at == state::waiting ? posted_ : matched_;
    unused_.splice(unused_.begin(), holder, one.self);
  }

  /// The messages that no receive has asked for: their number, and the first one.
  struct kept_messages {
    std::size_t count = 0;
    received_message first{};
  };
  [[nodiscard]] kept_messages kept() const {
    if (kept_.empty()) return {};
    return {kept_.size(), kept_.front().what};
  }

 private:
  struct kept_message {
    received_message what{};
    std::size_t arrived = 0;  // bytes
    memory_block memory;
    std::list<kept_message>::iterator self;
  };

  // The stream of one sender, and the message of which the next piece comes.
  struct stream {
    stream(message_reader const& its_reader, int its_source)
        : reader(its_reader), source(its_source) {}

    message_reader reader;
    int source;
    bool is_inside = false;               // a message
    listed_operation* receive = nullptr;  // which gets it, …
    kept_message* kept = nullptr;         // … or its copy. Neither: it is dropped.
    std::size_t bytes = 0;
    std::size_t arrived = 0;
  };

  static constexpr std::size_t most_reused = std::size_t{1} << 16;  // bytes of a kept message

  // --- streams ---

  [[nodiscard]] stream* stream_of(int source) {
    auto*& known = by_source_[static_cast<std::size_t>(source)];
    if (known == nullptr) {
      auto const place = own_->stream(source).load(std::memory_order_acquire);
      if (place == 0) return nullptr;
      auto& head = *reinterpret_cast<stream_head*>(base_ + place);
      known = &streams_.emplace_back(message_reader(head, base_), source);
    }
    return known;
  }
  // Finds the streams of all senders.
  void find_streams() {
    auto const count = own_->count.load(std::memory_order_acquire);
    if (count == found_) return;
    for (int source = 0; source < rows_->rank_count(); ++source) {
      static_cast<void>(stream_of(source));
    }
    found_ = count;
  }

  template <class Wanted>
  void take_some(stream& from, Wanted const& is_wanted) {
    constexpr int most = 256;
    for (int k = 0; k < most && is_wanted() && take_next(from); ++k) {
    }
  }
  bool take_next(stream& from) {
    auto* const record = from.reader.next();
    if (record == nullptr) return false;
    if (record->kind == record_kind::withdrawn) {
      end_withdrawn(from);
    } else {
      if (!from.is_inside) begin(from, *record);
      bool const is_whole = record->kind == record_kind::whole;
      std::size_t const rest = from.bytes - from.arrived;
      move_bytes(from, is_whole ? record->payload() : from.reader.memory_at(record->place),
                 is_whole ? rest : bytes_of_piece(rest));
    }
    from.reader.consume();
    if (from.reader.sender_lacks_memory()) rows_->of(from.source).ring();
    return true;
  }

  // --- messages ---

  // Finds the receive of a message of which the first bytes have come, or memory to keep it.
  void begin(stream& from, message_record const& record) {
    received_message const found{from.source, record.tag, record.bytes};
    auto* const receive = first_match(found);
    if (receive == nullptr) {
      from.kept = &keep(found);
      from.receive = nullptr;
    } else {
      from.kept = nullptr;
      from.receive = set_matched(*receive, found) ? receive : nullptr;
    }
    from.is_inside = true;
    from.bytes = record.bytes;
    from.arrived = 0;
  }
  void move_bytes(stream& to, std::byte const* data, std::size_t bytes) {
    auto* const memory = to.receive != nullptr ? to.receive->data
                         : to.kept != nullptr  ? to.kept->memory.data()
                                               : nullptr;
    if (memory != nullptr && bytes > 0) std::memcpy(memory + to.arrived, data, bytes);
    to.arrived += bytes;
    to.is_inside = to.arrived < to.bytes;
    if (to.kept != nullptr) to.kept->arrived = to.arrived;
    if (to.receive == nullptr) return;
    to.receive->moved = to.arrived;
    if (!to.is_inside) end(*to.receive, message_operation::state::done);
  }
  void end_withdrawn(stream& from) {
    if (from.receive != nullptr) end(*from.receive, message_operation::state::withdrawn);
    if (from.kept != nullptr) forget(from.kept->self);
    from.is_inside = false;
  }

  [[nodiscard]] static bool match(message_operation const& one, received_message const& message) {
    return (one.peer == message.source || one.peer == any_source) &&
           (one.tag == message.tag || one.tag == any_tag);
  }
  [[nodiscard]] listed_operation* first_match(received_message const& message) {
    for (auto& one : posted_) {
      if (match(one, message)) return &one;
    }
    return nullptr;
  }
  // False: the message is longer than the buffer.
  [[nodiscard]] bool set_matched(listed_operation& one, received_message const& message) {
    one.got = message;
    matched_.splice(matched_.end(), posted_, one.self);
    bool const fits = message.bytes <= one.bytes;
    if (fits) {
      one.at = message_operation::state::matched;
    } else {
      end(one, message_operation::state::too_long);
    }
    return fits;
  }
  void end(listed_operation& one, message_operation::state how) {
    one.at = how;
    own_->ring();  // another thread may wait for it
  }

  // --- messages before their receive ---

  // Gives a receive the first message that has waited for it.
  void take_kept(listed_operation& one) {
    for (auto found = kept_.begin(); found != kept_.end(); ++found) {
      if (!match(one, found->what)) continue;
      bool const fits = set_matched(one, found->what);
      if (fits && found->arrived > 0) {
        std::memcpy(one.data, found->memory.data(), found->arrived);
      }
      if (fits) one.moved = found->arrived;
      if (auto& from = *stream_of(found->what.source); from.kept == &*found && from.is_inside) {
        from.receive = fits ? &one : nullptr;
        from.kept = nullptr;
      } else if (fits) {
        end(one, message_operation::state::done);
      }
      forget(found);
      return;
    }
  }
  [[nodiscard]] kept_message& keep(received_message const& message) {
    if (unused_kept_.empty()) unused_kept_.emplace_back();
    auto const fresh = unused_kept_.begin();
    if (fresh->memory.size() < message.bytes) {
      try {
        fresh->memory = memory_block(memory_source{}, message.bytes);
      } catch (std::bad_alloc const&) {
        throw resource_error(
            text_of({"no memory for a message of ", message.bytes, " bytes from rank ",
                     message.source, " that no receive has asked for so far"}));
      }
    }
    fresh->what = message;
    fresh->arrived = 0;
    fresh->self = fresh;
    kept_.splice(kept_.end(), unused_kept_, fresh);
    return *fresh;
  }
  void forget(std::list<kept_message>::iterator one) {
    if (one->memory.size() > most_reused) one->memory = {};
    unused_kept_.splice(unused_kept_.begin(), kept_, one);
  }

  message_rows* rows_;
  message_row* own_;
  std::uintptr_t base_;
  std::list<stream> streams_;
  std::vector<stream*> by_source_;
  std::uint64_t found_ = 0;     // streams when all were looked for
  message_operations posted_;   // without a message, in the order of their starts
  message_operations matched_;  // or ended
  message_operations unused_;
  std::list<kept_message> kept_;  // in the order of their arrival
  std::list<kept_message> unused_kept_;
};

}}}  // namespace blink::BLINK_ABI::detail
