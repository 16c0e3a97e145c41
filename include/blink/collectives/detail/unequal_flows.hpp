// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/any_call.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/block.hpp>
#include <blink/schedule/chunking.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The segments that one rank sends and receives, by rank.
struct flow_sizes {
  std::vector<block> sends;
  std::vector<block> receives;
  /// Further values on which both ends must agree, by rank; empty: none.
  std::vector<std::uint64_t> sent_as;
  std::vector<std::uint64_t> received_as;
};

/// Sends every rank the sizes of all ranks, so that forwarding ranks know what passes. Compares
/// what senders and receivers expect. It is not movable.
///
/// Moves: from each rank to each other rank, 5 numbers of 8 bytes for every rank.
template <communicator Comm>
class flow_agreement {
 public:
  /// name: of the call, for messages
  flow_agreement(Comm& comm, prepared_schedule& prepared, std::string_view name,
                 flow_sizes const& own)
      : name_(name),
        ranks_(static_cast<std::size_t>(comm.rank_count())),
        memory_(prepared.call_memory()),
        rows_(reinterpret_cast<numbers*>(memory_.at_least(2 * ranks_ * ranks_ * sizeof(numbers)))),
        all_(rows_ + ranks_ * ranks_),
        call_(comm, prepared, collective::all_to_all, rows_, all_, call_size{ranks_},
              no_reducer{}) {
    expects(comm.group().size() == 1,
            "blocks for each pair of ranks: the communicator's group has several threads, expected "
            "one");
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      receive_begins_.push_back(own.receives[peer].begin);
      for (std::size_t row = 0; row < ranks_; ++row) {
        std::construct_at(
            rows_ + row * ranks_ + peer,
            numbers{own.sends[peer].begin, own.sends[peer].count,
                    own.sent_as.empty() ? 0 : own.sent_as[peer], own.receives[peer].count,
                    own.received_as.empty() ? 0 : own.received_as[peer]});
      }
    }
  }

  [[nodiscard]] any_call& call() { return call_; }

  /// Returns the segments by sender and receiver, at sender * ranks + receiver.
  ///
  /// Each has its begin at the sender. If this rank is the receiver, it also has its begin here.
  ///
  /// Pre:    the call has ended.
  /// Throws: precondition_error, on all ranks alike, if the sizes of a sender are not those of its
  ///         receiver; the next call may follow.
  [[nodiscard]] std::vector<block_range> blocks(int rank) const {
    std::vector<block_range> result(ranks_ * ranks_);
    for (std::size_t from = 0; from < ranks_; ++from) {
      for (std::size_t to = 0; to < ranks_; ++to) {
        auto const& sent = all_[from * ranks_ + to];
        auto const& received = all_[to * ranks_ + from];
        auto const pair = [&] {
          return std::string(name_) + ": rank " + std::to_string(from) + " sends rank " +
                 std::to_string(to) + " ";
        };
        if (sent.send_count != received.receive_count) {
          throw precondition_error(pair() + std::to_string(sent.send_count) + ", which expects " +
                                   std::to_string(received.receive_count));
        }
        if (sent.sent_as != received.received_as) {
          throw precondition_error(
              pair() +
              "other pieces, or of other types, of the same total size, expected equal lists");
        }
        result[from * ranks_ + to] = {static_cast<std::size_t>(sent.send_begin), 0,
                                      static_cast<std::size_t>(sent.send_count)};
      }
    }
    for (std::size_t from = 0; from < ranks_; ++from) {
      result[from * ranks_ + static_cast<std::size_t>(rank)].output_begin = receive_begins_[from];
    }
    return result;
  }

 private:
  struct numbers {
    std::uint64_t send_begin, send_count, sent_as, receive_count, received_as;
  };

  std::string_view name_;
  std::size_t ranks_;
  scratch memory_;
  numbers* rows_;  // this rank's row, once for each rank
  numbers* all_;   // a row of each rank
  std::vector<std::size_t> receive_begins_;
  call_of<collective_call<scheduled_chunks, Comm, numbers, no_reducer>> call_;
};

/// A call that moves a segment between each pair of ranks, after all ranks have agreed on sizes.
template <chunking Chunks, communicator Comm, class T>
class flow_call : public staged_call {
 public:
  flow_call(Comm& comm, prepared_schedule& prepared, std::string_view name, flow_sizes const& own)
      : me_(comm), plan_(prepared), agreement_(comm, prepared, name, own) {}

 private:
  /// Returns the buffers to send and receive. Called before data moves, after ranks have agreed on
  /// sizes.
  [[nodiscard]] virtual call_buffers<T> buffers() = 0;
  /// Called after the data has moved.
  virtual void end() {}

  [[nodiscard]] any_call* next(std::size_t ended) final {
    if (ended == 0) return &agreement_.call();
    if (ended == 1) {
      blocks_ = agreement_.blocks(me_.rank());
      call_size size;
      for (auto const& one : blocks_) size.count += one.count;
      if (size.count == 0) return nullptr;  // on all ranks
      size.blocks = blocks_.data();
      auto const at = buffers();
      return &moving_.emplace(me_, plan_, collective::all_to_all, at.input, at.output, size,
                              no_reducer{});
    }
    end();
    return nullptr;
  }

  Comm& me_;
  prepared_schedule& plan_;
  flow_agreement<Comm> agreement_;
  std::vector<block_range> blocks_;
  std::optional<call_of<collective_call<Chunks, Comm, T, no_reducer>>> moving_;
};

}}}  // namespace blink::BLINK_ABI::detail
