// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/channels/channel_call.hpp>
#include <blink/transports/cuda/channels/device_channels.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The numbers of blocks and threads of a user's kernel.
struct kernel_shape {
  std::uint32_t blocks = 1;  ///< of each rank; all of them run at once
  /// of a block; 0: the communicator's number, or the largest number for which all blocks run at
  /// once
  std::uint32_t threads = 0;
};

/// The blocks of all ranks of one device, each with the kernel of its rank; a runtime launches it.
template <class Kernel, class T, connection_protocol Protocol>
struct channel_work {
  static_assert(std::is_trivially_copyable_v<Kernel>, "blink: kernels must be trivially copyable");
  static constexpr std::size_t room = 4096 - sizeof(channel_table) - 2 * alignof(channel_table) -
                                      2 * alignof(Kernel);  // the rest of the argument limit
  static_assert(sizeof(Kernel) <= room,
                "blink: the kernel is too large: arguments of a kernel take at most 4 KiB");
  static constexpr std::size_t most_ranks = room / sizeof(Kernel) < device_call::most_ranks
                                                ? room / sizeof(Kernel)
                                                : device_call::most_ranks;

  channel_table table{};
  std::uint32_t blocks = 1;                                             ///< of each rank
  alignas(Kernel) std::byte kernels[most_ranks * sizeof(Kernel)] = {};  ///< by rank of the device

  template <thread_group Group>
  BLINK_HOST_DEVICE void operator()(Group const group, std::uint32_t block) const {
    std::uint32_t const number = block / blocks;
    auto const& kernel = *reinterpret_cast<Kernel const*>(kernels + number * sizeof(Kernel));
    kernel(group, rank_channels<T, Protocol>(table, number), block % blocks);
  }
};

/// Returns the call description that all processes compare when they launch such a kernel.
template <class Work, device_runtime Devices>
[[nodiscard]] call_description description_of_call(device_channels<Devices> const& channels,
                                                   kernel_shape const& shape) {
  // The number of the channels is hashed like a type, so that an error reports it.
  detail::hash types;
  types.add(detail::hash_of_types<Work>());
  types.add(channels.number());
  return {{.kind = collective_names.size(),  // no collective
           .schedule_hash = channels.prepared().hash(),
           .count = shape.blocks,
           .element_bytes = channels.elements().bytes,
           .types = types.value()},
          "channels " + std::to_string(channels.number()) + ", " +
              std::string(detail::names_of<Work>())};
}

/// A user's kernel that fits on all devices of a process.
template <device_runtime Devices, class Work>
class kernel_launch {
 public:
  /// kernels: by rank of this process
  /// Throws:  precondition_error if there is not one kernel for each rank, or if those of a
  ///          device's ranks do not fit into an argument; precondition_error if not all blocks run
  ///          at once; device_error.
  template <class Kernel>
  kernel_launch(Devices& driver, rank_placement const& where, device_options const& options,
                std::vector<Kernel> const& kernels, kernel_shape const& shape)
      : driver_(driver), where_(where), threads_(shape.threads) {
    if (kernels.size() != static_cast<std::size_t>(where.ranks_here)) {
      throw precondition_error("launch: " + std::to_string(kernels.size()) +
                               " kernels, expected one for each of " +
                               std::to_string(where.ranks_here) + " ranks of this process");
    }
    expects(shape.blocks >= 1, "kernel_shape: blocks out of range, expected >= 1");
    expects(shape.threads % 32 == 0 && shape.threads <= 512,
            "kernel_shape: threads out of range, expected a multiple of 32, at most 512");
    if (threads_ == 0) threads_ = options.threads;
    for (std::size_t k = 0; k < where.devices.size(); ++k) {
      auto const& ranks = where.here(k).ranks;
      if (ranks.size() > Work::most_ranks) {
        throw precondition_error("launch: the kernels of the " + std::to_string(ranks.size()) +
                                 " ranks of device " + std::to_string(where.devices[k]) + " have " +
                                 std::to_string(sizeof(Kernel)) + " bytes each, expected at most " +
                                 std::to_string(Work::most_ranks) + " ranks: arguments take 4 KiB");
      }
      auto& work = works_.emplace_back();
      work.blocks = shape.blocks;
      for (std::size_t number = 0; number < ranks.size(); ++number) {
        auto const& own = kernels[static_cast<std::size_t>(ranks[number] - where.first_rank)];
        std::memcpy(work.kernels + number * sizeof(Kernel), &own, sizeof(Kernel));
      }
    }
    choose_threads();
  }

  /// Puts the kernel of a device into its stream; `position` is in `rank_placement::devices`.
  void launch(std::size_t position, channel_table const& table, typename Devices::stream on) const {
    Work work = works_[position];
    work.table = table;
    auto const blocks = static_cast<std::uint32_t>(blocks_on(position));  // the constructor has
                                                                          // checked that they fit
    driver_.launch_work(where_.devices[position], blocks, threads_, work, on);
  }

 private:
  [[nodiscard]] std::uint64_t blocks_on(std::size_t position) const {
    return std::uint64_t{works_[position].blocks} * where_.here(position).ranks.size();
  }
  // All blocks run at once, because blocks wait for each other.
  void choose_threads() {
    std::vector<std::uint32_t> sizes{512, 256, 128};
    if (threads_ != 0) sizes = {threads_};
    for (std::size_t k = 0; k < works_.size();) {
      threads_ = sizes.front();
      int const device = where_.devices[k];
      auto const room = driver_.template work_blocks_at_once<Work>(device, threads_);
      if (blocks_on(k) <= room) {
        ++k;
      } else if (sizes.size() > 1) {
        sizes.erase(sizes.begin());  // smaller blocks also fit on the earlier devices
      } else {
        throw precondition_error(
            "launch: device " + std::to_string(device) + " runs " + std::to_string(room) +
            " blocks of " + std::to_string(threads_) +
            " threads of this kernel at once, expected " + std::to_string(blocks_on(k)) + ": " +
            std::to_string(works_[k].blocks) + " for each of its " +
            std::to_string(where_.here(k).ranks.size()) + " ranks (kernel_shape)");
      }
    }
  }

  Devices& driver_;
  rank_placement const& where_;
  std::uint32_t threads_;
  std::vector<Work> works_;  // by device of this process
};

}}  // namespace blink::BLINK_ABI
