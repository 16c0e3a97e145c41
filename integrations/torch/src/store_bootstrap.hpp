// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/error.hpp>
#include <blink/transports/host/host_rendezvous.hpp>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace blink_torch {

/// The bootstrap of a group of PyTorch: bytes by the group's key-value store.
class store_bootstrap {
 public:
  /// name:     of a meeting that no other has with this store
  /// deadline: of each `all_gather`
  store_bootstrap(c10::intrusive_ptr<c10d::Store> store, std::string const& name, int rank,
                  int size, std::chrono::milliseconds deadline)
      : store_(std::move(store)),
        rank_(rank),
        size_(size),
        deadline_(deadline),
        prefix_("blink/" + name + "/") {}
  /// The same for a group, which may be made again with the same store. Its ranks count how often.
  store_bootstrap(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                  std::chrono::milliseconds deadline)
      : store_bootstrap(store, std::to_string(store->add("blink/made/" + std::to_string(rank), 1)),
                        rank, size, deadline) {}

  [[nodiscard]] int process() const { return rank_; }
  [[nodiscard]] int process_count() const { return size_; }

  /// Throws: blink::error that names a rank that does not come, or says why the store fails.
  void all_gather(void const* own, void* all, std::size_t bytes) {
    auto const step = prefix_ + std::to_string(next_++) + "/";
    auto const* const first = static_cast<std::uint8_t const*>(own);
    auto* to = static_cast<std::uint8_t*>(all);
    set(step + std::to_string(rank_), {first, first + bytes});
    for (int peer = 0; peer < size_; ++peer, to += bytes) {
      auto const got = get(step + std::to_string(peer), peer);
      if (got.size() != bytes) {
        throw blink::resource_error("store: rank " + std::to_string(peer) + " gives " +
                                    std::to_string(got.size()) + " bytes, expected " +
                                    std::to_string(bytes) + ": another version of blink?");
      }
      std::memcpy(to, got.data(), bytes);
    }
  }

 private:
  void set(std::string const& key, std::vector<std::uint8_t> const& value) {
    try {
      store_->set(key, value);
    } catch (std::exception const& failure) {
      throw blink::resource_error(std::string("store: ") + failure.what());
    }
  }
  [[nodiscard]] std::vector<std::uint8_t> get(std::string const& key, int peer) {
    try {
      store_->wait({key}, deadline_);
      return store_->get(key);
    } catch (std::exception const& failure) {
      throw blink::resource_error("store: rank " + std::to_string(peer) +
                                  " has not made the group, or the store fails: " + failure.what());
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
  std::chrono::milliseconds deadline_;
  std::string prefix_;
  int next_ = 0;  // step
};
static_assert(blink::process_bootstrap<store_bootstrap>);

}  // namespace blink_torch
