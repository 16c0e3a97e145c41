// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/transports/cuda/device_runtime.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace blink::inline BLINK_ABI {

/// A driver whose memory other processes of the host may use: CUDA IPC, or a stand-in.
///
/// Semantics beyond the syntax:
/// - `export_memory(d, m)`: a name for `m`, which `allocate` returned, of use in other processes
///   until it is released. All of each piece of `sharing_granularity` bytes is laid open with it.
/// - `import_memory(d, name)`: where kernels on d find memory of another process, and `read` and
///   `write`, too; aligned as it is there. Throws device_error if d does not reach it.
/// - `close_memory(d, m)`: ends that. Memory is released only when all have closed it.
template <class D>
concept sharing_runtime =
    device_runtime<D> && std::is_trivially_copyable_v<typename D::memory_name> &&
    requires(D& driver, int device, void* memory, typename D::memory_name const& name) {
      { driver.sharing_granularity() } -> std::same_as<std::size_t>;
      { driver.export_memory(device, memory) } -> std::same_as<typename D::memory_name>;
      { driver.import_memory(device, name) } -> std::same_as<void*>;
      { driver.close_memory(device, memory) } -> std::same_as<void>;
    };
static_assert(!sharing_runtime<int>);

}  // namespace blink::inline BLINK_ABI
