// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/connections/connection_layout.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/pipeline.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/host/schedule_store.hpp>
#include <blink/transports/messages/control_messages.hpp>
#include <blink/transports/messages/message_channel.hpp>
#include <blink/transports/messages/message_connections.hpp>
#include <blink/transports/messages/message_state.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The prepared schedules of a communicator over messages, each with its connections.
///
/// If all ranks share memory, that of schedules without calls is given back (`schedule_store`).
/// Otherwise schedules stay, because messages may be under way along their connections.
template <message_channel Channel>
class message_schedules {
 public:
  using connections = message_connections<Channel>;

  /// state: outlives this object
  explicit message_schedules(message_state<Channel>& state) : state_(&state) {}

  /// Called once, if all ranks share memory, before the first schedule.
  void share_all() {
    store_ = std::make_unique<schedule_store>(state_->here.segment(), key_of_schedules);
  }

  /// Returns the schedule if it is prepared; null: it is not. `stays`: see `schedule_store::find`.
  [[nodiscard]] prepared_schedule* find(schedule const& source, bool stays) {
    if (store_) return store_->find(source, stays);
    for (auto& known : all_) {
      if (known->schedule->source() == source) return known->schedule;
    }
    return nullptr;
  }
  /// Prepares a schedule that is not prepared.
  ///
  /// layout: without memory that ranks share
  /// Throws: precondition_error if the channel has no more tags; resource_error if the shared
  ///         memory is full.
  prepared_schedule& add(schedule const& source, connection_layout layout,
                         pipeline_costs const& costs, bool stays) {
    auto const& here = state_->here;
    if (here.count() > 0) layout.sharing_ranks = here.numbers();
    if (store_) return with_connections(store_->add(source, layout, costs, {}, stays), nullptr);
    if (here.count() > 0) {
      layout.ranks_share = here.segment().find_or_make(
          blink::hash(source, layout, costs), connection_tables::shared_bytes(source, layout));
    }
    auto own = std::make_unique<prepared_schedule>(source, layout, costs);
    int const tags = connections::tag_count(*own);
    int const largest = state_->channel.largest_tag();
    if (tags > largest - next_tag_) {
      throw precondition_error(communicator_text<Channel>(
          std::to_string(all_.size()) + " schedules are prepared and the library has tags up to " +
          std::to_string(largest) + " only"));
    }
    auto& result = *own;
    with_connections(result, std::move(own));
    next_tag_ += tags;
    return result;
  }

  /// Returns the connections of a schedule for the next call along it.
  ///
  /// Throws: precondition_error if another communicator has prepared it.
  [[nodiscard]] connections& use(prepared_schedule& prepared) {
    if (present_ == nullptr || present_->schedule != &prepared) {
      present_ = nullptr;
      for (auto& known : all_) {
        if (known->schedule == &prepared) present_ = known.get();
      }
      expects(present_ != nullptr, "schedule: prepared by another communicator");
    }
    if (store_) {
      store_->use(prepared);
      for (auto const* const gone : store_->dropped()) {
        std::erase_if(all_, [&](auto const& known) { return known->schedule == gone; });
      }
    }
    return present_->own_connections;
  }
  /// The connections of the present or the last call; null before the first one.
  [[nodiscard]] connections* present() const {
    return present_ == nullptr ? nullptr : &present_->own_connections;
  }

  /// True if this rank has no message in flight.
  [[nodiscard]] bool are_quiet() {
    bool result = true;
    for (auto& known : all_) result = known->own_connections.is_quiet() && result;
    return result;
  }
  /// Cancels receives of messages that will not arrive.
  void close() {
    for (auto& known : all_) known->own_connections.close();
  }
  /// Leaves everything as it is until the process ends, because a library may still write into it.
  void abandon() {
    for (auto& known : all_) static_cast<void>(known.release());
    static_cast<void>(store_.release());
  }

 private:
  struct entry {
    entry(message_state<Channel>& state, prepared_schedule& its_schedule, int first_tag)
        : schedule(&its_schedule),
          own_connections(state.channel, state.messages, its_schedule, first_tag, state.is_one_host,
                          state.here) {}
    std::unique_ptr<prepared_schedule> own;  // unless the store owns it
    prepared_schedule* schedule;
    connections own_connections;
  };
  static constexpr std::uint64_t key_of_schedules = 3;  // among the blocks of `host_ranks`

  prepared_schedule& with_connections(prepared_schedule& schedule,
                                      std::unique_ptr<prepared_schedule> own) {
    auto& fresh = *all_.emplace_back(std::make_unique<entry>(*state_, schedule, next_tag_));
    fresh.own = std::move(own);
    return schedule;
  }

  message_state<Channel>* state_;
  std::unique_ptr<schedule_store> store_;  // null if any data goes in messages
  std::vector<std::unique_ptr<entry>> all_;
  entry* present_ = nullptr;
  int next_tag_ = control_messages<Channel>::first_free_tag;
};

}}}  // namespace blink::BLINK_ABI::detail
