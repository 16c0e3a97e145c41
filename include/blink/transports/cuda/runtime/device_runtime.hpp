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

struct device_properties {
  std::string name;
  int multiprocessors = 0;
  bool launches_cooperatively = false;  ///< can a kernel's blocks be promised to run at once?
};

/// Where an address leads.
enum class memory_kind : std::uint8_t { ordinary, pinned_host, device, managed };
struct memory_place {
  memory_kind kind = memory_kind::ordinary;
  int device = -1;  ///< of `device` memory
};

/// Whether a stream is being recorded into a graph, and into which.
struct capture_state {
  std::uint64_t number = 0;  ///< 0: it is not
  friend bool operator==(capture_state const&, capture_state const&) = default;
};

/// What the host side of a communicator needs of a driver of devices: `cuda_devices`, or a stand-in
/// whose devices are threads of the host, for tests.
///
/// Semantics beyond the syntax, besides the functions of CUDA's runtime that the names point to:
/// - `write`, `read` and `clear` return when done, wait for nothing that runs on user's streams,
///   also not for kernels that wait for each other, and may be called while a stream is captured.
/// - `allocate` is aligned to 256 bytes; `allocate_pinned` is memory of the host that devices reach.
/// - `reach(d, p)`: kernels on d may read and write memory of p from now on; false: they cannot.
/// - `record` into a captured stream makes a point of that graph; `wait` there takes only such.
/// - `blocks_at_once`: how many blocks of a kernel run at once on a device that does nothing else.
///   A kernel is named by its types: `Transport`, protocol, elements, reducer.
/// - `launch_work` launches blocks that call `work(group, block)`; `work_blocks_at_once<Work>` is how many.
/// - `launch` is asynchronous in the order of the stream; it throws if not all blocks run at once. So is `launch_work`.
/// - `copy_between(d, to, s, from, …)`: from memory of s to memory of d, in a stream of s.
/// - `combine<T>(d, step, reduce, stream)` runs a `copy_step`.
/// - `let_end(d)` returns when kernels that have begun on d and were reported to abort have ended.
/// - `launches_block`: does `launch` return when the kernel ends?
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

/// A driver that says whether an event has happened, so that waits for it can have a limit.
///
/// Semantics beyond the syntax: an event that was never recorded has happened; `copy` also writes to memory of
/// `allocate_pinned`, and whoever observes there a `counter` that a stream copies gets its old value or its new one.
template <class D>
concept polled_runtime =
    device_runtime<D> && requires(D& driver, int device, typename D::event event) {
      { driver.is_reached(device, event) } -> std::same_as<bool>;
    };

/// A driver of devices refused something.
struct device_error : error {
  using error::error;
};

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

}}  // namespace blink::BLINK_ABI
