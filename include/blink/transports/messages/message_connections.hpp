// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/running/walk/zero_copy.hpp>
#include <blink/transports/messages/connection_state.hpp>
#include <blink/transports/messages/control_messages.hpp>
#include <blink/transports/messages/message_channel.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The connections of one rank along one schedule that carry messages, with credits. The receiver
/// of a connection posts a receive for every slot before the sender may use it. So no message
/// through slots is unexpected, and memory stays bounded.
///
/// With zero copy, messages leave from and arrive in the caller's buffers. They have a separate
/// tag, because receives into slots wait for messages of later calls. At most a window of them is
/// in flight, and the library may have to keep them until their turn
/// (`message_connection_state::is_its_turn`). Without a buffer at the receiver they arrive in
/// separate slots, because the other slots belong to those receives. Within one host there is one
/// such slot, so that it stays in caches.
///
/// A credit is a message in the other direction with the receiver's progress. It is sent once for
/// each consumed half window. A peer that has entered a later call has consumed all messages of the
/// calls before, so calls of few chunks need no credit.
template <message_channel Channel>
class message_connections {
 public:
  /// The number of tags from `first_tag` on: data, credits and zero copy, for each phase of each
  /// tree.
  [[nodiscard]] static int tag_count(prepared_schedule const& prepared) {
    return tags_of_tree * static_cast<int>(prepared.source().trees.size());
  }

  /// is_one_host: true if all ranks are on one host, where the library copies sent data when the
  ///              receive is posted
  /// here:        the ranks that share memory, which each other's calls concern in any schedule
  message_connections(Channel& channel, control_messages<Channel>& messages,
                      prepared_schedule& prepared, int first_tag, bool is_one_host,
                      detail::host_ranks const& here)
      : channel_(&channel), messages_(&messages), plan_(&prepared), first_tag_(first_tag) {
    auto const& tables = prepared.tables();
    window_ = tables.layout().window;
    landing_window_ = is_one_host ? 1 : window_;
    slot_bytes_ = tables.layout().slot_bytes;
    batch_ = std::max<std::uint64_t>(1, window_ / 2);
    of_connection_.assign(tables.connection_count(), nullptr);
    auto const [ends, count] = tables.ends(channel.rank());
    ends_.reserve(count);  // they keep their addresses
    for (std::size_t k = 0; k < count; ++k) {
      auto const& from = ends[k];
      if (!is_known(from.peer)) neighbours_.push_back(from.peer);
      if (tables.connections()[from.connection].posted != nullptr) continue;  // it has slots
      auto const& place = tables.places()[from.connection];
      auto& end = ends_.emplace_back();
      end.table = &from;
      end.place = &place;
      end.slots = tables.connections()[from.connection].slots;
      end.tag = first_tag + tags_of_tree * static_cast<int>(place.tree) + (place.is_reduce ? 0 : 1);
      end.requests.resize(window_);
      end.credits.resize(from.sends ? 1 : 2 * window_);
      if (!from.sends) end.landings.resize(window_);
      of_connection_[from.connection] = &end;
    }
    for (int peer = 0; peer < channel.rank_count(); ++peer) {
      if (here.has(peer) && peer != channel.rank() && !is_known(peer)) neighbours_.push_back(peer);
    }
    for (auto& end : ends_) {
      for (auto& other : ends_) end.match(other);
    }
    constexpr int few = 16;
    if (channel.rank_count() <= few) {  // then every rank learns the call of every other rank
      neighbours_.clear();
      for (int peer = 0; peer < channel.rank_count(); ++peer) {
        if (peer != channel.rank()) neighbours_.push_back(peer);
      }
    }
  }
  message_connections(message_connections const&) = delete;
  message_connections& operator=(message_connections const&) = delete;

  [[nodiscard]] prepared_schedule const& prepared() const { return *plan_; }
  [[nodiscard]] int first_tag() const { return first_tag_; }
  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }
  /// The ranks to which this rank announces its calls.
  [[nodiscard]] std::vector<int> const& neighbours() const { return neighbours_; }

  /// Starts a call. Called before the first message of the call.
  void begin_call() {
    to_land_.clear();
    for (auto& end : ends_) {
      // Messages of the call before that arrived in a buffer have used no slots.
      if (end.lands && !end.table->sends) end.skipped += end.table->first - end.call_first;
      end.call_first = end.table->first;
      end.run = {};
      end.lands = false;
      if (end.table->sends) {
        read_credits(end);
      } else if (!end.is_open) {
        for (std::uint64_t message = 0; message < window_; ++message) await(end, message);
      }
      if (!end.is_open && end.table->sends) await_credit(end);
      end.is_open = true;
    }
  }

  [[nodiscard]] bool has_credit(std::uint32_t connection, std::uint64_t message) {
    auto& end = *of_connection_[connection];
    if (message >= end.consumed + window_) {
      if (end.call_first > end.consumed && messages_->is_present(end.table->peer)) {
        end.consumed = end.call_first;
      } else {
        read_credits(end);
      }
      if (message >= end.consumed + window_) return false;
    }
    return channel_->is_done(end.requests[message % window_]);
  }
  /// Returns the memory of a message: at the sender to write to, at the receiver to read from.
  [[nodiscard]] std::byte* place(std::uint32_t connection, std::uint64_t message) const {
    auto const& end = *of_connection_[connection];
    if (end.lands && !end.table->sends) return landing_place(end, message);
    return end.run.first == nullptr ? slot(end, message) : end.run.place(message);
  }
  void post(std::uint32_t connection, std::uint64_t message, std::size_t bytes) {
    auto& end = *of_connection_[connection];
    channel_->send(place(connection, message), bytes, end.table->peer,
                   end.lands ? end.tag + landing_tag : end.tag, end.requests[message % window_]);
    end.posted = message + 1;
  }
  [[nodiscard]] bool has_arrived(std::uint32_t connection, std::uint64_t message) {
    auto& end = *of_connection_[connection];
    if (message < end.arrived) return true;
    give_credit(end);  // a credit that could not be sent before
    if (end.lands) {
      await_first_landings();
      await_landings(end);  // receives whose turn it was not
    }
    // Messages match in the order in which they were sent.
    std::uint64_t const awaited = end.lands ? end.landing : end.consumed + window_;
    while (message >= end.arrived && end.arrived < awaited &&
           channel_->is_done(request_of(end, end.arrived))) {
      ++end.arrived;
    }
    return message < end.arrived;
  }
  void consume(std::uint32_t connection, std::uint64_t message) {
    auto& end = *of_connection_[connection];
    for (; end.consumed <= message; ++end.consumed) {
      if (!end.lands) await(end, end.consumed + window_);
    }
    if (end.lands) await_landings(end);
    give_credit(end);
  }
  [[nodiscard]] bool consumed(std::uint32_t connection, std::uint64_t message) {
    auto& end = *of_connection_[connection];
    if (message >= end.consumed) read_credits(end);
    return message < end.consumed;
  }

  /// To be called after `begin_call`; see `zero_copy_transport`.
  void send_in_place(std::uint32_t connection, chunk_run const& run, bool lands) {
    auto& end = *of_connection_[connection];
    end.run = run;
    end.lands = lands;
  }
  void receive_in_place(std::uint32_t connection, chunk_run const& run, bool is_input) {
    auto& end = *of_connection_[connection];
    end.run = run;
    end.lands = true;
    end.lands_in_input = is_input && end.up != nullptr;
    end.landing = run.message;
    if (run.first == nullptr && end.landing_slots.size() == 0) {
      end.landing_slots = {memory_source{}, landing_window_ * slot_bytes_};
    }
    to_land_.push_back(&end);
    if (end.first_come.empty() && end.first_go.empty()) await_landings(end);
  }
  [[nodiscard]] bool has_left(std::uint32_t connection, std::uint64_t message) {
    auto& end = *of_connection_[connection];
    if (end.posted <= message) return false;
    // Messages before the last window are complete, because later ones reuse their requests.
    return are_done(end.requests);
  }
  /// Takes the buffers of zero copy back after a failure. Messages that peers still send to a
  /// buffer arrive in slots, so that no peer waits for this rank.
  ///
  /// longest: ranks that live answer sooner. The connections to others end, if the channel can do
  ///          that
  void take_buffers_back(std::chrono::nanoseconds longest) {
    auto const end = std::chrono::steady_clock::now() + longest;
    while (channel_->is_intact() && !has_buffers_back() && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    if constexpr (loss_tolerant_channel<Channel>) {
      for (auto& one : ends_) {
        if (is_lent(one)) channel_->abandon(one.table->peer);
      }
      static_cast<void>(has_buffers_back());
    }
  }

  /// True if all data of this rank have left. Its peers need them to end the call.
  [[nodiscard]] bool has_sent() {
    bool result = true;
    for (auto& end : ends_) {
      if (end.table->sends) result = are_done(end.requests) && result;
    }
    return result;
  }
  /// True if this rank has no message in flight.
  [[nodiscard]] bool is_quiet() {
    bool result = true;
    for (auto& end : ends_) {
      if (end.table->sends) {
        result = are_done(end.requests) && result;
      } else {
        for (auto& sent : end.credits) result = channel_->is_done(sent.operation) && result;
      }
    }
    return result;
  }
  /// Cancels receives of messages that will not arrive.
  void close() {
    for (auto& end : ends_) {
      if (!end.is_open) continue;
      if (end.table->sends) {
        detail::take_back(*channel_, end.credits[0].operation);
      } else {
        for (auto& operation : end.requests) detail::take_back(*channel_, operation);
        for (auto& operation : end.landings) detail::take_back(*channel_, operation);
      }
    }
  }

 private:
  using connection_state = message_connection_state<Channel>;
  using request = typename Channel::request;

  static constexpr int tags_of_tree = 6;
  static constexpr int credit_tags = 2;  // from the tag of a connection to that of its credits
  static constexpr int landing_tag = 4;  // and to that of its zero copy messages

  [[nodiscard]] static bool is_lent(connection_state const& end) {
    return end.table->sends ? end.run.first != nullptr : end.lands;
  }
  [[nodiscard]] bool has_buffers_back() {
    bool result = true;
    for (auto& end : ends_) {
      if (!is_lent(end)) continue;
      bool const is_free = end.table->sends ? are_done(end.requests) : is_taken_back(end);
      if (is_free) {
        end.run = {};
        end.lands = false;
      }
      result = is_free && result;
    }
    return result;
  }
  [[nodiscard]] bool is_known(int peer) const {
    return std::find(neighbours_.begin(), neighbours_.end(), peer) != neighbours_.end();
  }
  [[nodiscard]] std::byte* slot(connection_state const& end, std::uint64_t message) const {
    return end.slots + (message - end.skipped) % window_ * slot_bytes_;
  }
  [[nodiscard]] std::byte* landing_place(connection_state const& end, std::uint64_t message) const {
    if (end.run.first != nullptr) return end.run.place(message);
    return end.landing_slots.data() + message % landing_window_ * slot_bytes_;
  }
  [[nodiscard]] request& request_of(connection_state& end, std::uint64_t message) {
    return end.lands ? end.landings[message % window_]
                     : end.requests[(message - end.skipped) % window_];
  }
  [[nodiscard]] bool are_done(std::vector<request>& requests) {
    bool result = true;
    for (auto& operation : requests) result = channel_->is_done(operation) && result;
    return result;
  }
  void await(connection_state& end, std::uint64_t message) {
    channel_->receive(slot(end, message), slot_bytes_, end.table->peer, end.tag,
                      request_of(end, message));
  }
  // Posts the first zero copy receives of all connections without any. A task tests only one of its
  // connections at a time.
  void await_first_landings() {
    std::erase_if(to_land_, [&](connection_state* end) {
      await_landings(*end);
      return end->landing > end->run.message;
    });
  }
  // Posts the receives of messages that may arrive before this rank has consumed more, at most a
  // window. After a long wait it ignores turns, so that the tasks' own waits show the stall.
  void await_landings(connection_state& end) {
    auto const& run = end.run;
    auto const last = run.message + run.chunks();
    auto const window = run.first == nullptr ? landing_window_ : window_;
    for (; end.landing < std::min(last, end.consumed + window); ++end.landing) {
      auto const index = end.landing - run.message;
      if (!end.is_its_turn(index + 1) && !messages_->waits_long()) return;
      if (end.lands_in_input && !has_left_input(*end.up, end.up->call_first + index)) return;
      auto const before = index * run.chunk;
      channel_->receive(landing_place(end, end.landing), std::min(run.chunk, run.bytes - before),
                        end.table->peer, end.tag + landing_tag, request_of(end, end.landing));
    }
  }
  [[nodiscard]] bool has_left_input(connection_state& up, std::uint64_t message) {
    if (up.posted <= message) return false;
    bool const is_later = up.posted > message + window_;  // its request belongs to a later message
    return up.run.first == nullptr || is_later || channel_->is_done(up.requests[message % window_]);
  }
  // Cancels zero copy receives. Then posts a window of them into slots, where the remaining
  // messages arrive.
  [[nodiscard]] bool is_taken_back(connection_state& end) {
    if (!std::exchange(end.is_withdrawn, true)) {
      for (auto& operation : end.requests) channel_->cancel(operation);
      for (auto& operation : end.landings) channel_->cancel(operation);
    }
    bool const are_free = are_done(end.requests) && are_done(end.landings);
    for (std::size_t k = 0; are_free && k < end.landings.size(); ++k) {
      channel_->receive(end.slots + k * slot_bytes_, slot_bytes_, end.table->peer,
                        end.tag + landing_tag, end.landings[k]);
    }
    return are_free;
  }
  void await_credit(connection_state& end) {
    auto& next = end.credits[0];
    channel_->receive(&next.consumed, sizeof(next.consumed), end.table->peer, end.tag + credit_tags,
                      next.operation);
  }
  void read_credits(connection_state& end) {
    auto& next = end.credits[0];
    while (next.operation.is_pending() && channel_->is_done(next.operation)) {
      end.consumed = std::max(end.consumed, next.consumed);
      await_credit(end);
    }
  }
  void give_credit(connection_state& end) {
    // Credits cover this call only, because entering it has reported the messages consumed in
    // earlier calls.
    if (end.credited < end.call_first) end.credited = end.call_first;
    if (end.consumed < end.credited + batch_) return;
    auto& next = end.credits[end.credits_sent % end.credits.size()];
    if (!channel_->is_done(next.operation)) return;
    end.credited = next.consumed = end.consumed;
    ++end.credits_sent;
    channel_->send(&next.consumed, sizeof(next.consumed), end.table->peer, end.tag + credit_tags,
                   next.operation);
  }

  Channel* channel_;
  control_messages<Channel>* messages_;
  prepared_schedule* plan_;
  int first_tag_;
  std::uint64_t window_ = 0;
  std::uint64_t landing_window_ = 0;  // slots of zero copy: fewer stay in caches
  std::uint64_t batch_ = 1;
  std::size_t slot_bytes_ = 0;
  std::vector<connection_state> ends_;
  std::vector<connection_state*> of_connection_;
  std::vector<connection_state*> to_land_;  // receivers of zero copy without a posted receive
  std::vector<int> neighbours_;
};

}}  // namespace blink::BLINK_ABI
