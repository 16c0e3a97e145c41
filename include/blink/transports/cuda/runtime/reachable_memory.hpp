// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>
#include <blink/transports/host/host_processes.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Memory on each device of a communicator that kernels of the other devices reach: by its address
/// within this process, by its exported name from other processes.
///
/// All processes destroy it together, and memory is released once no process has it open. That is
/// unknown if a process has died, does not arrive, or has streams that do not end. Then the memory
/// is kept until this process ends.
template <device_runtime Devices>
class reachable_memory {
 public:
  reachable_memory() = default;
  /// Called by all processes together.
  ///
  /// others: null if all devices are of this process
  /// use:    by device of this process
  /// what:   the name of the allocation, for errors
  /// Throws: on all processes if one of them may not or cannot allocate: resource_error or
  ///         device_error there, precondition_error on the others; collective_error if a process
  ///         does not arrive.
  reachable_memory(Devices& driver, rank_placement const& where, device_memory_budget& budget,
                   host_processes* others, std::vector<device_memory_use> use,
                   std::string const& what)
      : driver_(&driver), where_(&where), others_(others), what_(what) {
    agree(others, "allocation of " + what, [&] {
      for (std::size_t k = 0; k < use.size(); ++k) {
        if constexpr (sharing_runtime<Devices>) {
          if (others != nullptr) use[k].connections += rest_of_piece(use[k].total());
        }
        own_.emplace_back(driver, budget, where.devices[k], use[k], what);
      }
      if constexpr (sharing_runtime<Devices>) {
        for (std::size_t k = 0; others != nullptr && k < own_.size(); ++k) {
          names_[k] = driver.export_memory(where.devices[k], own_[k].get());
        }
      }
    });
    seen_.resize(where.devices.size(), std::vector<view>(where.places.size()));
    for (auto& of_device : seen_) {
      for (std::size_t k = 0; k < own_.size(); ++k) {
        of_device[static_cast<std::size_t>(where.first_place) + k].at = own_[k].get();
      }
    }
    if constexpr (sharing_runtime<Devices>) {
      if (others != nullptr) open_others();
    }
  }
  reachable_memory(reachable_memory&& other) noexcept { *this = std::move(other); }
  reachable_memory& operator=(reachable_memory&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(where_, other.where_);
    std::swap(others_, other.others_);
    std::swap(what_, other.what_);
    std::swap(own_, other.own_);
    std::swap(seen_, other.seen_);
    std::swap(names_, other.names_);
    std::swap(is_kept_, other.is_kept_);
    return *this;
  }
  /// Pre: no kernel of this process uses it, or it is kept.
  ~reachable_memory() {
    if (others_ == nullptr || own_.empty()) return;
    if constexpr (sharing_runtime<Devices>) {
      for (std::size_t k = 0; k < seen_.size() && !is_kept_; ++k) {
        for (std::size_t place = 0; place < where_->places.size(); ++place) {
          void* const memory = seen_[k][place].at;
          if (memory == nullptr || where_->is_here(where_->places[place])) continue;
          driver_->close_memory(where_->devices[k], memory);
        }
      }
    }
    try {
      others_->agree("release of " + what_, [&] {
        if (is_kept_) throw resource_error("kernels of a stream that does not end may use it");
      });
    } catch (error const&) {
      keep_for_ever();
    }
  }

  /// Never releases the memory, on any process, because kernels may still use it.
  void leak_memory() {
    is_kept_ = true;
    keep_for_ever();
  }

  /// The memory on a device of this process, by position in `rank_placement::devices`.
  [[nodiscard]] std::byte* own(std::size_t position) const { return own_[position].get(); }
  /// The address at which kernels of a device of this process find the memory of a place; null if
  /// they do not reach it.
  [[nodiscard]] std::byte* seen(std::size_t position, std::size_t place) const {
    return seen_[position][place].at;
  }
  /// The text of the driver's error if they do not reach it; empty otherwise.
  [[nodiscard]] std::string const& refusal(std::size_t position, std::size_t place) const {
    return seen_[position][place].refusal;
  }

 private:
  struct view {
    std::byte* at = nullptr;
    std::string refusal{};
  };
  template <class D>
  struct name_of {
    struct type {};
  };
  template <sharing_runtime D>
  struct name_of<D> {
    using type = typename D::memory_name;
  };
  using names = std::array<typename name_of<Devices>::type, device_call::most_ranks>;

  [[nodiscard]] std::size_t rest_of_piece(std::size_t bytes) const {
    std::size_t const piece = driver_->sharing_granularity();
    return (piece - bytes % piece) % piece;
  }

  void open_others() {
    std::vector<names> all;
    try {
      all = others_->gather("names of " + what_, names_);
    } catch (error const&) {  // other processes may have the memory open
      keep_for_ever();
      throw;
    }
    std::size_t number = 0;  // of the place within its process
    for (std::size_t place = 0; place < where_->places.size(); ++place) {
      int const owner = where_->places[place].process;
      number = place > 0 && where_->places[place - 1].process == owner ? number + 1 : 0;
      if (owner == where_->process) continue;
      for (std::size_t k = 0; k < seen_.size(); ++k) {
        try {
          seen_[k][place].at = static_cast<std::byte*>(driver_->import_memory(
              where_->devices[k], all[static_cast<std::size_t>(owner)][number]));
        } catch (device_error const& failure) {
          seen_[k][place].refusal = failure.what();
        }
      }
    }
  }
  void keep_for_ever() {
    for (auto& each : own_) each.keep_for_ever();
  }

  Devices* driver_ = nullptr;
  rank_placement const* where_ = nullptr;
  host_processes* others_ = nullptr;
  std::string what_;
  std::vector<device_allocation<Devices>> own_;  // by device of this process
  std::vector<std::vector<view>> seen_;          // by device of this process, by place
  names names_{};
  bool is_kept_ = false;
};

}}  // namespace blink::BLINK_ABI
