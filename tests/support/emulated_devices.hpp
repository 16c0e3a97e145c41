// SPDX-License-Identifier: Apache-2.0
#pragma once

// Devices whose blocks are host threads, to test the host side of CUDA communicators. Streams run
// by themselves. A kernel waits until the device has room for all its blocks. Events and graphs
// obey CUDA's rules.

#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/transports/cuda/calls/device_order.hpp>
#include <blink/transports/cuda/kernels/copy_step.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include "support/emulated_block.hpp"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink_test {

class emulated_devices {
 public:
  struct options {
    int devices = 1;
    std::uint32_t room = 8192;                    ///< threads that a device runs at once
    std::uint32_t threads_each = 1;               ///< host threads for each block
    bool blocks_launches = false;                 ///< report that launches return when the kernel
                                                  ///< ends
    bool keeps_order = true;                      ///< keep communicators in order
    std::set<std::pair<int, int>> unreachable{};  ///< (device, peer)
    std::set<std::pair<int, int>> loses{};        ///< (device, peer): writes do not arrive
    int fails_launch_on = -1;                     ///< a device that refuses every launch
    bool shares_memory = false;                   ///< with other processes
  };
  /// The name by which another process maps memory.
  struct memory_name {
    std::array<char, 48> path{};  // ends with a 0
    std::size_t bytes = 0;
    int device = 0;
  };

  using stream = int;  ///< 0: the default stream of each device
  using event = int;

  explicit emulated_devices(options what) : options_(std::move(what)) {}
  emulated_devices(emulated_devices const&) = delete;
  emulated_devices& operator=(emulated_devices const&) = delete;
  ~emulated_devices() {
    {
      std::lock_guard const lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    for (auto& [where, own] : queues_) {  // each looks at the map
      if (own.runner.joinable()) own.runner.join();
    }
    for (auto const& [address, block] : memory_) {  // memory that may still be in use
      if (block.file >= 0) unmap(address, block);
    }
  }

  /// Releases kept memory, as the end of a process does.
  ///
  /// Pre:    the memory is not in use.
  void release_kept_memory() {
    while (!memory_.empty()) release(0, const_cast<void*>(memory_.begin()->first));
    while (!pinned_.empty()) release_pinned(const_cast<void*>(pinned_.begin()->first));
  }

  // Operations of tests on streams.
  stream make_stream() { return ++last_stream_; }
  /// Records work for the stream from now on. Streams that begin together belong to one graph.
  void begin_capture(std::vector<stream> const& together) {
    ++last_capture_;
    for (stream const one : together) captures_[one] = last_capture_;
    graphs_[last_capture_];
  }
  std::uint64_t end_capture(std::vector<stream> const& together) {
    std::uint64_t const number = captures_[together[0]];
    std::erase_if(captures_, [&](auto const& each) { return each.second == number; });
    return number;
  }
  /// Replays a graph.
  ///
  /// Pre:    the graph is not running.
  void replay(std::uint64_t graph) {
    {
      std::lock_guard const lock(mutex_);
      for (auto const& point : points_of_[graph]) point->is_reached = false;
    }
    for (auto const& [where, work] : graphs_[graph]) push(where.first, where.second, work);
  }
  /// Blocks a stream until `release_stream`.
  void hold_stream(int device, stream on) {
    std::lock_guard const lock(mutex_);
    held_.insert({device, on});
  }
  void release_stream(int device, stream on) {
    {
      std::lock_guard const lock(mutex_);
      held_.erase({device, on});
    }
    changed_.notify_all();
  }
  /// Waits until a kernel has started on the device.
  void wait_for_kernel(int device) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return used_[device] > 0; });
  }
  [[nodiscard]] std::size_t allocated_bytes() const {
    std::size_t sum = 0;
    for (auto const& [address, block] : memory_) sum += block.bytes;
    return sum;
  }
  [[nodiscard]] int copies() const { return copies_; }
  [[nodiscard]] int combines() const { return combines_; }
  /// Launched kernels of each protocol.
  [[nodiscard]] int chunk_launches() const { return chunk_launches_; }
  [[nodiscard]] int packet_launches() const { return packet_launches_; }

  /// Adds another library's work to a stream: `what` also runs when a graph is replayed.
  void run_in_stream(int device, stream on, std::function<void()> what) {
    put(device, on, std::move(what));
  }

  // The interface of a driver.
  blink::device_order<emulated_devices>& order() {
    if (!options_.keeps_order) disordered_.emplace_back(std::make_unique<order_type>());
    return options_.keeps_order ? order_ : *disordered_.back();
  }
  int device_count() { return options_.devices; }
  blink::device_properties properties(int) { return {"emulated", 1, true}; }
  bool launches_block() { return options_.blocks_launches; }
  bool reach(int device, int peer) { return !options_.unreachable.contains({device, peer}); }
  void* allocate(int device, std::size_t bytes) {
    memory_block block{device, bytes};
    void* memory = nullptr;
    if (options_.shares_memory) {
      block.file = memfd_create("device", MFD_CLOEXEC);
      if (block.file < 0 || ftruncate(block.file, static_cast<off_t>(whole(bytes))) != 0) {
        throw blink::device_error("no memory");
      }
      memory = map(block.file, bytes);
    } else {
      memory = ::operator new(bytes, std::align_val_t(256));
    }
    memory_[memory] = block;
    return memory;
  }
  void release(int, void* memory) {
    auto const block = memory_.at(memory);
    memory_.erase(memory);
    if (block.file < 0) {
      ::operator delete(memory, std::align_val_t(256));
    } else {
      if (openings(memory, block.bytes).load() != 0) ++released_while_open_;
      unmap(memory, block);
    }
  }
  std::size_t sharing_granularity() { return 4096; }
  memory_name export_memory(int device, void* memory) {
    auto const& block = memory_.at(memory);
    if (block.file < 0) throw blink::device_error("memory that is not shared");
    memory_name name;
    name.bytes = block.bytes;
    name.device = device;
    auto const path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(block.file);
    path.copy(name.path.data(), name.path.size() - 1);
    return name;
  }
  void* import_memory(int device, memory_name const& name) {
    if (!reach(device, name.device)) throw blink::device_error("peer access is refused");
    int const file = ::open(name.path.data(), O_RDWR | O_CLOEXEC);
    if (file < 0) throw blink::device_error("no memory of this name");
    void* const memory = map(file, name.bytes);
    ::close(file);
    imported_[memory] = name.bytes;
    ++openings(memory, name.bytes);
    return memory;
  }
  void close_memory(int, void* memory) {
    std::size_t const bytes = imported_.at(memory);
    --openings(memory, bytes);
    munmap(memory, whole(bytes));
    imported_.erase(memory);
  }
  [[nodiscard]] std::size_t imports() const { return imported_.size(); }
  /// Number of releases of memory that another process still had open.
  [[nodiscard]] int released_while_open() const { return released_while_open_; }
  void* allocate_pinned(std::size_t bytes) {
    void* const memory = ::operator new(bytes, std::align_val_t(256));
    pinned_[memory] = bytes;
    return memory;
  }
  void release_pinned(void* memory) {
    pinned_.erase(memory);
    ::operator delete(memory, std::align_val_t(256));
  }
  blink::memory_place place_of(void const* data) {
    if (is_pinned(data)) return {blink::memory_kind::pinned_host, -1};
    auto const* const at = static_cast<std::byte const*>(data);
    for (auto const& [address, block] : memory_) {
      auto const* const first = static_cast<std::byte const*>(address);
      if (at >= first && at < first + block.bytes) {
        return {blink::memory_kind::device, block.device};
      }
    }
    return {};
  }
  void write(int, void* to, void const* from, std::size_t bytes) {
    if (bytes == sizeof(blink::counter)) {  // kernels may read it meanwhile
      blink::counter value = 0;
      std::memcpy(&value, from, bytes);
      blink::publish(*static_cast<blink::counter*>(to), value);
    } else {
      std::memcpy(to, from, bytes);
    }
  }
  void read(int, void* to, void const* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void clear(int, void* memory, std::size_t bytes) { std::memset(memory, 0, bytes); }
  void copy(int device, void* to, void const* from, std::size_t bytes, stream on) {
    if (bytes == sizeof(blink::counter) && is_pinned(to)) {  // the host may read it meanwhile
      put(device, on, [=] {
        blink::publish(*static_cast<blink::counter*>(to),
                       *static_cast<blink::counter const*>(from));
      });
      return;
    }
    put(device, on, [=] { std::memcpy(to, from, bytes); });
  }
  stream make_stream(int) { return make_stream(); }
  void destroy_stream(stream) {}
  void copy_between(int to_device, void* to, int from_device, void const* from, std::size_t bytes,
                    stream on) {
    ++copies_;
    if (options_.loses.contains({from_device, to_device})) return;
    put(from_device, on, [=] { std::memcpy(to, from, bytes); });
  }
  template <class T, class Reducer>
  void combine(int device, blink::copy_step const& step, Reducer const& reduce, stream on) {
    ++combines_;
    auto* const to = step.out.at;
    if (to != nullptr && options_.loses.contains({device, place_of(to).device})) return;
    put(device, on, [this, step, reduce] {
      run_blocks(1, [&](emulated_block const& group, std::uint32_t) {
        blink::run_step<T>(group, step, reduce);
      });
    });
  }
  event make_event(int) { return ++last_event_; }
  void destroy(event) {}
  void record(int device, event which, stream on) {
    auto const point = std::make_shared<point_of_stream>();
    point->capture = capture(on).number;
    {
      std::lock_guard const lock(mutex_);
      points_[which] = point;
    }
    if (point->capture != 0) points_of_[point->capture].push_back(point);
    put(device, on, [this, point] {
      std::lock_guard const lock(mutex_);
      point->is_reached = true;
      changed_.notify_all();
    });
  }
  void wait(int device, stream on, event which) {
    auto const point = point_of(which);
    if (point == nullptr) return;
    // A stream that waits for a point of a graph is recorded into that graph from then on.
    if (point->capture != 0 && capture(on).number == 0) captures_[on] = point->capture;
    if (point->capture != capture(on).number) {
      throw blink::device_error("a stream waits for a point outside of its graph");
    }
    put(device, on, [this, point] {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return point->is_reached || is_over_; });
    });
  }
  bool is_reached(int, event which) {
    auto const point = point_of(which);
    std::lock_guard const lock(mutex_);
    return point == nullptr || point->is_reached;
  }
  blink::capture_state capture(stream on) {
    auto const found = captures_.find(on);
    return {found == captures_.end() ? 0 : found->second};
  }
  void synchronize(int device, stream on) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_idle(device, on); });
  }
  void synchronize(int device) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      for (auto const& [where, queue] : queues_) {
        if (where.first == device && !is_idle(device, where.second)) return false;
      }
      return true;
    });
  }
  void let_end(int device) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return used_[device] == 0; });
  }
  template <class Transport, class Protocol, class T, class Reducer>
  std::uint32_t blocks_at_once(int, std::uint32_t threads) {
    return options_.room / threads;
  }
  template <class Work>
  std::uint32_t work_blocks_at_once(int, std::uint32_t threads) {
    return options_.room / threads;
  }
  template <class Transport, class Protocol, class T, class Reducer>
  void launch(int device, std::uint32_t blocks, std::uint32_t threads,
              blink::device_call const& call, Reducer const& reduce, stream on) {
    launch_work(
        device, blocks, threads,
        [call, reduce](emulated_block const& group, std::uint32_t block) {
          blink::run_block<Transport, T, Protocol>(group, call, block, reduce);
        },
        on);
    ++(std::is_same_v<Protocol, blink::small_packets> ? packet_launches_ : chunk_launches_);
  }
  template <class Work>
  void launch_work(int device, std::uint32_t blocks, std::uint32_t threads, Work const& work,
                   stream on) {
    if (blocks * threads > options_.room) throw blink::device_error("too many blocks at once");
    if (device == options_.fails_launch_on) throw blink::device_error("launch failed");
    put(device, on, [this, device, blocks, threads, work] {
      take_room(device, blocks * threads);
      run_blocks(blocks, work);
      give_room(device, blocks * threads);
    });
  }

 private:
  using job = std::function<void()>;
  using place = std::pair<int, stream>;
  using order_type = blink::device_order<emulated_devices>;
  struct memory_block {
    int device;
    std::size_t bytes;
    int file = -1;  // of memory that other processes may map
  };
  struct point_of_stream {
    std::uint64_t capture = 0;
    bool is_reached = false;
  };
  struct job_queue {
    std::deque<job> waiting;
    bool is_running = false;
    std::jthread runner;
  };

  /// Runs `work(group, block)` on all threads of all blocks.
  template <class Work>
  void run_blocks(std::uint32_t blocks, Work const& work) const {
    if (blocks * options_.threads_each == 1) {
      emulated_team team(1);
      return work(emulated_block(team, 0), 0);
    }
    std::vector<std::unique_ptr<emulated_team>> teams;
    std::vector<std::jthread> running;  // destroyed first
    for (std::uint32_t block = 0; block < blocks; ++block) {
      auto& team = *teams.emplace_back(std::make_unique<emulated_team>(options_.threads_each));
      for (std::uint32_t thread = 0; thread < options_.threads_each; ++thread) {
        running.emplace_back(
            [&work, &team, block, thread] { work(emulated_block(team, thread), block); });
      }
    }
  }
  [[nodiscard]] std::shared_ptr<point_of_stream> point_of(event which) {
    std::lock_guard const lock(mutex_);
    auto const found = points_.find(which);
    return found == points_.end() ? nullptr : found->second;
  }

  // Size with a trailer that counts the places where shared memory is open.
  static std::size_t whole(std::size_t bytes) { return (bytes + 63) / 64 * 64 + 64; }
  static std::atomic<int>& openings(void* memory, std::size_t bytes) {
    return *reinterpret_cast<std::atomic<int>*>(static_cast<std::byte*>(memory) + whole(bytes) -
                                                64);
  }
  static void* map(int file, std::size_t bytes) {
    void* const memory = mmap(nullptr, whole(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) throw blink::device_error("mmap");
    return memory;
  }
  static void unmap(void const* memory, memory_block const& block) {
    munmap(const_cast<void*>(memory), whole(block.bytes));
    ::close(block.file);
  }

  [[nodiscard]] bool is_pinned(void const* data) const {
    auto const behind = pinned_.upper_bound(data);
    if (behind == pinned_.begin()) return false;
    auto const& [first, bytes] = *std::prev(behind);
    return data < static_cast<std::byte const*>(first) + bytes;
  }
  void put(int device, stream on, job what) {
    if (auto const now = capture(on); now.number != 0) {
      graphs_[now.number].emplace_back(place{device, on}, std::move(what));
    } else {
      push(device, on, std::move(what));
    }
  }
  void push(int device, stream on, job what) {
    {
      std::lock_guard const lock(mutex_);
      auto& own = queues_[{device, on}];
      own.waiting.push_back(std::move(what));
      if (!own.runner.joinable())
        own.runner = std::jthread([this, device, on] { run(device, on); });
    }
    changed_.notify_all();
  }
  void run(int device, stream on) {
    for (;;) {
      job next;
      {
        std::unique_lock lock(mutex_);
        auto& own = queues_[{device, on}];
        own.is_running = false;
        changed_.notify_all();
        changed_.wait(lock, [&] {
          return is_over_ || (!own.waiting.empty() && !held_.contains({device, on}));
        });
        if (is_over_) return;
        next = std::move(own.waiting.front());
        own.waiting.pop_front();
        own.is_running = true;
      }
      next();
    }
  }
  [[nodiscard]] bool is_idle(int device, stream on) {
    auto& own = queues_[{device, on}];
    return own.waiting.empty() && !own.is_running;
  }
  void take_room(int device, std::uint32_t threads) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_over_ || used_[device] + threads <= options_.room; });
    used_[device] += threads;
    changed_.notify_all();
  }
  void give_room(int device, std::uint32_t threads) {
    {
      std::lock_guard const lock(mutex_);
      used_[device] -= threads;
    }
    changed_.notify_all();
  }

  options options_;
  order_type order_;
  std::vector<std::unique_ptr<order_type>> disordered_;
  std::map<void const*, memory_block> memory_;
  std::map<void const*, std::size_t> imported_;  // bytes of other processes
  std::map<void const*, std::size_t> pinned_;    // bytes
  std::map<event, std::shared_ptr<point_of_stream>> points_;
  std::map<stream, std::uint64_t> captures_;
  std::map<std::uint64_t, std::vector<std::pair<place, job>>> graphs_;
  stream last_stream_ = 0;
  std::atomic<event> last_event_ = 0;
  int released_while_open_ = 0;
  std::uint64_t last_capture_ = 0;
  int copies_ = 0, combines_ = 0, chunk_launches_ = 0, packet_launches_ = 0;
  std::map<std::uint64_t, std::vector<std::shared_ptr<point_of_stream>>> points_of_;  // by graph
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::set<place> held_;
  std::map<int, std::uint32_t> used_;  // running threads, by device
  std::map<place, job_queue> queues_;  // declared last, so that its threads end first
};
static_assert(blink::sharing_runtime<emulated_devices> && blink::polled_runtime<emulated_devices>);

}  // namespace blink_test
