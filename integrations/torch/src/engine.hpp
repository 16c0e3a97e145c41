// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/transports/host/file_bootstrap.hpp>

#include "reductions.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Collectives over bytes, apart from PyTorch's types: what a group needs of a communicator of any
// kind. Each kind is compiled in a unit of its own.

namespace blink_torch {

/// Bytes of one rank.
struct segment {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// A communicator. One call at a time; only `abort`, `send` and `receive` may be
/// called meanwhile, by any thread.
///
/// Calls throw blink::error as those of blink do. Roots are ranks of the group.
class engine {
 public:
  virtual ~engine() = default;

  virtual void all_reduce(reduction how, void const* input, void* output, std::size_t count) = 0;
  virtual void reduce(reduction how, void const* input, void* output, std::size_t count,
                      int root) = 0;
  /// inputs: each rank's segment, of one size
  virtual void reduce_scatter(reduction how, std::vector<segment> const& inputs, void* output) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  virtual void all_gather(void const* input, std::vector<segment> const& outputs) = 0;
  /// At the root a segment for each rank; else none.
  virtual void gather(segment const& input, std::vector<segment> const& outputs, int root) = 0;
  virtual void scatter(std::vector<segment> const& inputs, segment const& output, int root) = 0;
  virtual void all_to_all(std::vector<segment> const& sends,
                          std::vector<segment> const& receives) = 0;
  virtual void barrier() = 0;

  /// A send or a receive that was started. It ends before its engine.
  class message {
   public:
    virtual ~message() = default;
    /// True if it has ended. Moves what can be moved.
    [[nodiscard]] virtual bool test() = 0;
    /// longest: without progress
    virtual void wait(std::chrono::milliseconds longest) = 0;
    /// Of a receive that has ended, the sender; else -1.
    [[nodiscard]] virtual int source() const = 0;
  };
  /// Sends and receives concern two ranks only. Any thread may call them, also beside other calls.
  [[nodiscard]] virtual std::unique_ptr<message> send(int peer, segment const& data, int tag) = 0;
  /// source: -1: any rank
  [[nodiscard]] virtual std::unique_ptr<message> receive(int source, segment const& data,
                                                         int tag) = 0;

  /// Of calls from now on.
  virtual void set_deadline(std::chrono::milliseconds deadline) = 0;
  /// Ends the present call, or the next one, and all later ones, on all ranks.
  virtual void abort(std::string const& why) = 0;
};

class store_bootstrap;

/// Makes the engine of processes of one host, which share memory. BLINK_ORDER in the environment is
/// obeyed, here and below.
///
/// Throws: what `blink::process_communicator` throws.
[[nodiscard]] std::unique_ptr<engine> make_process_engine(store_bootstrap& all,
                                                          std::chrono::milliseconds deadline);
[[nodiscard]] std::unique_ptr<engine> make_process_engine(blink::file_bootstrap& all,
                                                          std::chrono::milliseconds deadline);

/// Makes the engine of processes of any hosts, by UCX. BLINK_SHARED_MEMORY is obeyed, too.
///
/// Throws: what `blink::ucx_communicator` throws; resource_error if this library was built without
///         UCX.
[[nodiscard]] std::unique_ptr<engine> make_ucx_engine(store_bootstrap& all,
                                                      std::chrono::milliseconds deadline);

/// Makes the engine for the hosts of the processes: without UCX if they may all share memory.
/// Collective.
///
/// Throws: as the two functions above.
[[nodiscard]] std::unique_ptr<engine> make_engine(store_bootstrap& all,
                                                  std::chrono::milliseconds deadline);

}  // namespace blink_torch
