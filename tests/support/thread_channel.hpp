// SPDX-License-Identifier: Apache-2.0
#pragma once

// Messages between threads of one process: a model of `message_channel`, to copy for another
// library. `thread_network` also cuts connections, as a network does when a rank dies.

#include <blink/running/call/communicator_options.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace blink_test {

/// The ranks of one process and the connections between them.
class thread_network {
 public:
  /// ranks_of_host: consecutive ranks that share memory
  explicit thread_network(int ranks, int ranks_of_host = 1)
      : ranks_(ranks),
        ranks_of_host_(ranks_of_host),
        is_cut_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    whole_ = groups_.emplace_back(std::make_unique<group>(std::move(all))).get();
  }

  /// Ends the connection between two ranks. Their messages that wait for a receive of the peer, and
  /// still belong to the sender, are dropped.
  void cut(int a, int b) {
    std::lock_guard const lock(mutex_);
    is_cut_[place(a, b)] = is_cut_[place(b, a)] = true;
    for (auto& one : groups_) {
      for (std::size_t to = 0; to < one->members.size(); ++to) {
        int const receiver = one->members[to];
        if (receiver != a && receiver != b) continue;
        std::erase_if(one->boxes[to].arrived, [&](message const& waiting) {
          int const sender = one->members[static_cast<std::size_t>(waiting.from)];
          if (waiting.sending == nullptr || sender != a + b - receiver) return false;
          waiting.sending->is_over = true;
          return true;
        });
      }
    }
  }
  /// Ends all connections of a rank, as its death does.
  void cut_off(int rank) {
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer != rank) cut(rank, peer);
    }
  }

 private:
  friend class thread_channel;

  /// A send, or a receive that waits for its message.
  struct operation {
    void const* from = nullptr;
    void* to = nullptr;
    std::size_t bytes = 0;
    int peer = 0;  // receives: `any` takes messages of every rank
    int tag = 0;
    std::atomic<bool> is_over = false;
  };
  /// A message without a receive.
  struct message {
    int from = 0;
    int tag = 0;
    std::vector<std::byte> copy{};            // short messages
    std::shared_ptr<operation> sending = {};  // long ones, whose memory still belongs to the sender
  };
  struct box {
    std::deque<message> arrived;
    std::deque<std::shared_ptr<operation>> awaited;
  };
  /// The ranks of one channel. Messages of different groups do not meet.
  struct group {
    explicit group(std::vector<int> ranks)
        : members(std::move(ranks)), boxes(members.size()), parts_made(members.size()) {}
    std::vector<int> members;  // by rank in the group, the rank in the network
    std::vector<box> boxes;    // by rank in the group
    // Ranks make their parts in the same order. So the n-th part with the same members is the same.
    std::vector<std::map<std::vector<int>, std::size_t>> parts_made;  // by rank in the group
    std::map<std::vector<int>, std::vector<group*>> parts;
  };
  static constexpr int any = -1;

  [[nodiscard]] std::size_t place(int a, int b) const {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(ranks_) +
           static_cast<std::size_t>(b);
  }
  static void deliver(operation& receiving, void const* from, std::size_t bytes) {
    EXPECT_LE(bytes, receiving.bytes) << "a receive without room for its message";
    if (bytes > 0) std::memcpy(receiving.to, from, std::min(bytes, receiving.bytes));
    receiving.is_over = true;
  }

  int ranks_;
  int ranks_of_host_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<group>> groups_;
  group* whole_ = nullptr;                 // all ranks
  std::vector<std::atomic<bool>> is_cut_;  // by the two ranks
};

/// One rank's end of a `thread_network`.
class thread_channel {
 public:
  static constexpr char const* name = "messages of threads";
  static constexpr char const* communicator_name = "thread_communicator";
  static constexpr bool is_independent = true;
  [[nodiscard]] static blink::communicator_options default_options() { return {}; }

  class request {
   public:
    [[nodiscard]] bool is_pending() const { return what_ != nullptr; }

   private:
    friend class thread_channel;
    std::shared_ptr<thread_network::operation> what_;
  };

  /// Pre: the network outlives the channel.
  thread_channel(thread_network& network, int rank)
      : network_(&network), group_(network.whole_), rank_(rank) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rank_count() const { return static_cast<int>(group_->members.size()); }
  [[nodiscard]] int largest_tag() const { return 32767; }
  [[nodiscard]] bool is_intact() const { return true; }
  [[nodiscard]] std::string const& problem() const { return problem_; }

  void send(void const* from, std::size_t bytes, int peer, int tag, request& operation) {
    std::lock_guard const lock(network_->mutex_);
    auto& here = begin(operation);
    here->is_over = true;
    if (is_lost(peer)) return;
    auto& to = group_->boxes[static_cast<std::size_t>(peer)];
    auto const match = std::find_if(to.awaited.begin(), to.awaited.end(), [&](auto const& waiting) {
      return waiting->tag == tag && (waiting->peer == rank_ || waiting->peer == network_->any);
    });
    if (match != to.awaited.end()) {
      network_->deliver(**match, from, bytes);
      to.awaited.erase(match);
      return;
    }
    auto& fresh = to.arrived.emplace_back(thread_network::message{rank_, tag});
    if (bytes <= eager_size) {
      auto const* const first = static_cast<std::byte const*>(from);
      fresh.copy.assign(first, first + bytes);
      return;
    }
    here->from = from;
    here->bytes = bytes;
    here->is_over = false;
    fresh.sending = here;
  }
  void receive(void* to, std::size_t bytes, int peer, int tag, request& operation) {
    std::lock_guard const lock(network_->mutex_);
    auto& here = begin(operation);
    here->to = to;
    here->bytes = bytes;
    here->peer = peer;
    here->tag = tag;
    auto const match = std::find_if(own().arrived.begin(), own().arrived.end(), [&](auto& one) {
      return one.tag == tag && (peer == one.from || peer == network_->any);
    });
    if (match == own().arrived.end()) {
      own().awaited.push_back(here);
      return;
    }
    if (match->sending != nullptr) {
      network_->deliver(*here, match->sending->from, match->sending->bytes);
      match->sending->is_over = true;
    } else {
      network_->deliver(*here, match->copy.data(), match->copy.size());
    }
    own().arrived.erase(match);
  }
  void receive_from_any(void* to, std::size_t bytes, int tag, request& operation) {
    receive(to, bytes, network_->any, tag, operation);
  }
  [[nodiscard]] bool is_done(request& operation) {
    if (operation.what_ != nullptr && operation.what_->is_over) operation.what_.reset();
    return operation.what_ == nullptr;
  }
  void cancel(request& operation) {
    if (!operation.is_pending()) return;
    std::lock_guard const lock(network_->mutex_);
    if (std::erase(own().awaited, operation.what_) > 0) operation.what_->is_over = true;
  }
  void drop_unmatched(int kept) {
    std::lock_guard const lock(network_->mutex_);
    std::erase_if(own().arrived, [&](auto const& one) {
      if (one.tag == kept) return false;
      if (one.sending != nullptr) one.sending->is_over = true;
      return true;
    });
  }

  [[nodiscard]] thread_channel duplicate() {
    std::vector<int> all(group_->members.size());
    std::iota(all.begin(), all.end(), 0);
    return among(all);
  }
  [[nodiscard]] thread_channel among(std::vector<int> const& members) {
    std::lock_guard const lock(network_->mutex_);
    auto const turn = group_->parts_made[static_cast<std::size_t>(rank_)][members]++;
    auto& parts = group_->parts[members];
    if (turn == parts.size()) {
      std::vector<int> ranks;
      for (int const member : members) {
        ranks.push_back(group_->members[static_cast<std::size_t>(member)]);
      }
      auto& fresh = network_->groups_.emplace_back();
      fresh = std::make_unique<thread_network::group>(std::move(ranks));
      parts.push_back(fresh.get());
    }
    thread_channel result = *this;
    result.group_ = parts[turn];
    result.rank_ =
        static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
    return result;
  }
  [[nodiscard]] std::uint64_t host() const {
    return 1 + static_cast<std::uint64_t>(in_network(rank_) / network_->ranks_of_host_);
  }
  [[nodiscard]] std::size_t eager_bytes() const { return eager_size; }

  [[nodiscard]] bool is_lost(int peer) const {
    return network_->is_cut_[network_->place(in_network(rank_), in_network(peer))];
  }
  void abandon(int peer) { network_->cut(in_network(rank_), in_network(peer)); }

 private:
  static constexpr std::size_t eager_size = 1000;  // longer messages wait for their receive

  [[nodiscard]] static std::shared_ptr<thread_network::operation>& begin(request& operation) {
    operation.what_ = std::make_shared<thread_network::operation>();
    return operation.what_;
  }
  [[nodiscard]] thread_network::box& own() {
    return group_->boxes[static_cast<std::size_t>(rank_)];
  }
  [[nodiscard]] int in_network(int rank) const {
    return group_->members[static_cast<std::size_t>(rank)];
  }

  thread_network* network_;
  thread_network::group* group_;
  int rank_;
  std::string problem_;
};
static_assert(blink::message_channel<thread_channel>);
static_assert(blink::loss_tolerant_channel<thread_channel>);
static_assert(blink::independent_channel<thread_channel>);
static_assert(!blink::library_channel<thread_channel>);

}  // namespace blink_test
