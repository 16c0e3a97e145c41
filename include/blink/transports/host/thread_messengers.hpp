// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/messenger.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/transports/host/detail/message_pool.hpp>
#include <blink/transports/host/host_messenger.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <cstddef>
#include <cstring>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Memory of this process in which ranks pass messages. Any thread may use it.
class thread_message_memory final : public message_memory {
 public:
  explicit thread_message_memory(int rank_count) : rows_(static_cast<std::size_t>(rank_count)) {}

  [[nodiscard]] std::byte* row(int receiver, std::size_t bytes) override {
    host_mutex::hold const held(mutex_);
    auto& one = rows_[static_cast<std::size_t>(receiver)];
    if (one.data() == nullptr) {
      one = memory_block(memory_source{}, bytes);
      std::memset(one.data(), 0, bytes);
    }
    return one.data();
  }
  [[nodiscard]] memory_source of_messages() override { return {}; }

 private:
  host_mutex mutex_;
  std::vector<memory_block> rows_;
};

/// The messengers of ranks that are threads, each made when first used.
class thread_messengers final : public messengers {
 public:
  /// state, options: outlive this object
  thread_messengers(shared_state& state, communicator_options const& options)
      : state_(&state),
        options_(&options),
        memory_(state.rank_count()),
        made_(static_cast<std::size_t>(state.rank_count())) {}

  [[nodiscard]] messenger& of(int rank) override {
    return made_[static_cast<std::size_t>(rank)].get(
        [&] { return new host_messenger(*state_, *options_, rank, memory_); });
  }

 private:
  shared_state* state_;
  communicator_options const* options_;
  thread_message_memory memory_;
  std::vector<made_when_used<host_messenger>> made_;  // by rank
};

}}}  // namespace blink::BLINK_ABI::detail
