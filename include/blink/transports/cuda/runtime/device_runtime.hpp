// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// The properties of a device that a communicator needs.
struct device_properties {
  std::string name;
  int multiprocessors = 0;
  /// true if all blocks of a kernel can be guaranteed to run at once
  bool launches_cooperatively = false;
};

/// The kind of memory that an address is in.
enum class memory_kind : std::uint8_t { ordinary, pinned_host, device, managed };
/// The memory that an address is in.
struct memory_place {
  memory_kind kind = memory_kind::ordinary;
  int device = -1;  ///< the device whose memory it is; -1 unless `kind` is `device`
};

/// The graph that a stream is being captured into, if there is one.
struct capture_state {
  std::uint64_t number = 0;  ///< of the graph; 0: the stream is not captured
  friend bool operator==(capture_state const&, capture_state const&) = default;
};

/// The part of a driver of devices that the host side of a communicator uses. Models are
/// `cuda_devices` and, for tests, a stand-in whose devices are threads of the host.
///
/// Semantics beyond the syntax, besides those of the functions of CUDA's runtime with the same
/// names:
/// - `write`, `read` and `clear` return when they are done. They do not wait for work in the user's
///   streams, such as kernels that wait for each other. They may be called while a stream is
///   captured.
/// - `allocate` is aligned to 256 bytes. `allocate_pinned` returns memory of the host that devices
///   reach.
/// - `reach(d, p)`: kernels on d may read and write memory of p from now on. Returns false if they
///   cannot.
/// - `record` into a captured stream makes a point of that graph. `wait` in a captured stream takes
///   only such points.
/// - `blocks_at_once`: the number of blocks of a kernel that run at once on an idle device. A
///   kernel is named by its types: `Transport`, protocol, elements, reducer.
/// - `launch_work` launches blocks that call `work(group, block)`. `work_blocks_at_once<Work>` is
///   the number of them that run at once.
/// - `launch` and `launch_work` are asynchronous, in the order of the stream. They throw if not all
///   blocks run at once.
/// - `copy_between(d, to, s, from, …)` copies from memory of s to memory of d, in a stream of s.
/// - `combine<T>(d, step, reduce, stream)` runs a `copy_step`.
/// - `let_end(d)` returns when kernels on d that have begun and whose abort flag is set have ended.
/// - `launches_block`: true if `launch` returns only when the kernel has ended.
/// - Functions throw `device_error` if the driver refuses.
template <class D>
concept device_runtime =
    requires(D& driver, int device, std::size_t bytes, void* memory, void const* data,
             typename D::stream stream, typename D::event event) {
      { driver.device_count() } -> std::same_as<int>;
      { driver.properties(device) } -> std::same_as<device_properties>;
      { driver.launches_block() } -> std::same_as<bool>;
      { driver.reach(device, device) } -> std::same_as<bool>;
      { driver.allocate(device, bytes) } -> std::same_as<void*>;
      { driver.release(device, memory) } -> std::same_as<void>;
      { driver.allocate_pinned(bytes) } -> std::same_as<void*>;
      { driver.release_pinned(memory) } -> std::same_as<void>;
      { driver.place_of(data) } -> std::same_as<memory_place>;
      { driver.write(device, memory, data, bytes) } -> std::same_as<void>;
      { driver.read(device, memory, data, bytes) } -> std::same_as<void>;
      { driver.clear(device, memory, bytes) } -> std::same_as<void>;
      { driver.copy(device, memory, data, bytes, stream) } -> std::same_as<void>;
      { driver.copy_between(device, memory, device, data, bytes, stream) } -> std::same_as<void>;
      { driver.make_stream(device) } -> std::same_as<typename D::stream>;
      { driver.destroy_stream(stream) } -> std::same_as<void>;
      { driver.make_event(device) } -> std::same_as<typename D::event>;
      { driver.destroy(event) } -> std::same_as<void>;
      { driver.record(device, event, stream) } -> std::same_as<void>;
      { driver.wait(device, stream, event) } -> std::same_as<void>;
      { driver.capture(stream) } -> std::same_as<capture_state>;
      { driver.synchronize(device, stream) } -> std::same_as<void>;
      { driver.synchronize(device) } -> std::same_as<void>;
      { driver.let_end(device) } -> std::same_as<void>;
    };
static_assert(!device_runtime<int>);

/// A driver that reports if an event has happened, so that waits for it can have a limit.
///
/// Semantics beyond the syntax:
/// - An event that was never recorded has happened.
/// - `copy` also writes to memory of `allocate_pinned`. A host thread that observes a `counter`
///   there during the copy reads its old value or its new one.
template <class D>
concept polled_runtime =
    device_runtime<D> && requires(D& driver, int device, typename D::event event) {
      { driver.is_reached(device, event) } -> std::same_as<bool>;
    };

/// Thrown if a driver of devices refuses a call.
struct device_error : error {
  using error::error;
};

/// A driver whose memory other processes of the host may use: CUDA IPC, or a stand-in.
///
/// Semantics beyond the syntax:
/// - `export_memory(d, m)`: a name for `m`, which `allocate` returned. Other processes may use the
///   name until `m` is released. Memory is shared in whole pieces of `sharing_granularity` bytes.
/// - `import_memory(d, name)`: the address at which kernels on d, and `read` and `write`, find
///   memory of another process. It has the alignment of the original. Throws device_error if d does
///   not reach the memory.
/// - `close_memory(d, m)` ends the use of imported memory. Memory is released only after all
///   processes have closed it.
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

}}  // namespace blink::BLINK_ABI
