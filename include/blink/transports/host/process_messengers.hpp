// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/messenger.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/transports/host/detail/message_pool.hpp>
#include <blink/transports/host/host_messenger.hpp>
#include <blink/transports/host/shared_segment.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Memory that processes share and in which they pass messages. What a process has sent stays
/// readable when its communicator ends.
class process_message_memory final : public message_memory {
 public:
  /// segment: outlives this object
  /// key:     of the communicator in that memory
  /// member:  the number of this process, which no other process of the memory has
  process_message_memory(shared_segment const& segment, std::uint64_t key, int member)
      : segment_(&segment), key_(key), member_(static_cast<std::uint64_t>(member)) {}

  [[nodiscard]] std::byte* row(int receiver, std::size_t bytes) override {
    auto const key = key_of({row_key, key_, static_cast<std::uint64_t>(receiver)});
    return static_cast<std::byte*>(segment_->find_or_make(key, bytes));
  }
  [[nodiscard]] memory_source of_messages() override {
    return {this,
            [](void* own, std::size_t bytes) {
              return static_cast<process_message_memory*>(own)->allocate(bytes);
            },
            [](void* own, void* memory, std::size_t) noexcept {
              static_cast<process_message_memory*>(own)->release(memory);
            }};
  }
  [[nodiscard]] std::uintptr_t base() const override {
    return reinterpret_cast<std::uintptr_t>(segment_->begin());
  }
  [[nodiscard]] bool outlives_sender() const override { return true; }

 private:
  static constexpr std::uint64_t row_key = 0x3e55a6e0, slab_key = 0x3e55a6e1;

  [[nodiscard]] static std::uint64_t key_of(std::initializer_list<std::uint64_t> parts) {
    hash result;
    for (std::uint64_t const part : parts) result.add(part);
    return result.value();
  }
  [[nodiscard]] void* allocate(std::size_t bytes) {
    static std::atomic<std::uint64_t> allocations = 0;  // of all communicators of the process
    auto const key = key_of({slab_key, member_, ++allocations});
    keys_.reserve(keys_.size() + 1);
    void* const memory = segment_->hold(key, bytes);
    keys_.emplace_back(memory, key);
    return memory;
  }
  void release(void* memory) noexcept {
    for (auto& [known, key] : keys_) {
      if (known != memory) continue;
      segment_->let_go(key);
      std::swap(keys_.back().first, known);
      std::swap(keys_.back().second, key);
      keys_.pop_back();
      return;
    }
  }

  shared_segment const* segment_;
  std::uint64_t key_;
  std::uint64_t member_;
  std::vector<std::pair<void*, std::uint64_t>> keys_;  // of its memory
};

/// The messenger of a rank that is a process.
class process_messengers final : public messengers {
 public:
  /// state, options, memory: of the communicator; outlive this object
  /// key, member:            see `process_message_memory`
  process_messengers(shared_state& state, communicator_options const& options, int rank,
                     shared_segment const& memory, std::uint64_t key, int member)
      : memory_(memory, key, member), own_(state, options, rank, memory_) {}

  [[nodiscard]] messenger& of(int) override { return own_; }

 private:
  process_message_memory memory_;
  host_messenger own_;
};

}}}  // namespace blink::BLINK_ABI::detail
