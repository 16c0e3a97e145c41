// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10d_names.hpp"
#include "call_line.hpp"
#include "engine.hpp"
#include "group_hooks.hpp"
#include "joint_work.hpp"
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace blink_torch {

/// A process group of PyTorch whose collectives run on blink.
///
/// Tensors are in the memory of the host. Calls run in their order, one at a time; sends and
/// receives run beside them. An error names the rank, the call and its number in the group. After
/// it the group is over.
class backend final : public group_base {
 public:
  using tensors = std::vector<at::Tensor>;
  using tensor_lists = std::vector<tensors>;

  /// Collective over the ranks of the group, which find each other by the store.
  ///
  /// name: as profilers and PyTorch show it
  /// begins_empty: true for a group without ranks until `reconfigure`
  backend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
          std::chrono::milliseconds deadline, std::string name, bool begins_empty);
  ~backend() override;

  std::string const getBackendName() const override { return name_; }

  work broadcast(tensors& data, c10d::BroadcastOptions const& options) override;
  work allreduce(tensors& data, c10d::AllreduceOptions const& options) override;
  work allreduce_coalesced(tensors& data, c10d::AllreduceCoalescedOptions const& options) override;
  work reduce(tensors& data, c10d::ReduceOptions const& options) override;
  work allgather(tensor_lists& outputs, tensors& inputs,
                 c10d::AllgatherOptions const& options) override;
  work _allgather_base(at::Tensor& output, at::Tensor& input,
                       c10d::AllgatherOptions const& options) override;
  work allgather_coalesced(tensor_lists& outputs, tensors& inputs,
                           c10d::AllgatherOptions const& options) override;
  work gather(tensor_lists& outputs, tensors& inputs, c10d::GatherOptions const& options) override;
  work scatter(tensors& outputs, tensor_lists& inputs,
               c10d::ScatterOptions const& options) override;
  work reduce_scatter(tensors& outputs, tensor_lists& inputs,
                      c10d::ReduceScatterOptions const& options) override;
  work _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                            c10d::ReduceScatterOptions const& options) override;
  work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_split,
                     std::vector<std::int64_t>& input_split,
                     c10d::AllToAllOptions const& options) override;
  work alltoall(tensors& outputs, tensors& inputs, c10d::AllToAllOptions const& options) override;
  work send(tensors& data, int peer, int tag) override;
  work recv(tensors& data, int source, int tag) override;
  work recvAnysource(tensors& data, int tag) override;
  work barrier(c10d::BarrierOptions const& options) override;
  void monitoredBarrier(c10d::BarrierOptions const& options, bool waits_for_all) override;

  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override;

#if TORCH_VERSION_MAJOR >= 2
  work allreduce_sparse(tensors& data, c10d::AllreduceOptions const& options) override;
  work allgather_into_tensor_coalesced(tensors& outputs, tensors& inputs,
                                       c10d::AllgatherOptions const& options) override;
  work reduce_scatter_tensor_coalesced(tensors& outputs, tensors& inputs,
                                       c10d::ReduceScatterOptions const& options) override;
  void setTimeout(std::chrono::milliseconds deadline) override { deadline_ = deadline; }
  void abort() override;
  void shutdown() override;
#endif
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const override { return true; }
  c10d::ReconfigureHandle get_reconfigure_handle() const override { return handle_; }
  work reconfigure(c10d::ReconfigureOptions const& options) override;
#endif
#ifdef BLINK_TORCH_HAS_HOOKS
  c10::intrusive_ptr<Options> getBackendOptions() override;
  bool supportsAbortHooks() const override { return true; }
  void registerAbortHook(std::int64_t id, c10d::AbortHook hook) override;
  void unregisterAbortHook(std::int64_t id) override { hooks_->abort.remove(id); }
  bool supportsCompletionHooks() const override { return true; }
  void registerCompletionHook(std::int64_t id, c10d::CompletionHook hook) override;
  void unregisterCompletionHook(std::int64_t id) override { hooks_->completion.remove(id); }

  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override { coalesced_.begin(); }
  work endCoalescing() override { return coalesced_.end(rank_); }
#endif

 private:
  /// A collective as PyTorch asks for it.
  struct request {
    c10d::OpType kind{};
    char const* name = "";
    std::chrono::milliseconds deadline{};
    bool is_async = true;
    tensors inputs{};
    tensors outputs{};
    at::IValue value{};
  };
  work start(request what, std::function<void(engine&)> run);
  /// lock: holds `start_`, so that calls are numbered in the order of the line
  work start(group_call::facts what, bool is_async, std::unique_lock<std::mutex>& lock,
             std::function<void()> run);
  work start_message(
      c10d::OpType kind, char const* name, tensors const& data, int tag,
      std::function<std::unique_ptr<engine::message>(engine&, segment const&)> const& start);
  work one_by_one(tensors& outputs, tensors& inputs, char const* call,
                  std::function<work(at::Tensor&, at::Tensor&)> const& run);
  [[nodiscard]] std::chrono::milliseconds deadline_of(std::chrono::milliseconds asked) const;

  // Checks of arguments. They throw c10::Error.
  int rank_from(std::int64_t rank, char const* call) const;
  void expect_parts(at::Tensor const& whole, at::Tensor const& part, char const* call) const;
  void expect_for_each_rank(std::size_t tensors, char const* call, char const* what) const;
  /// A list of tensors that the root alone has, one for each rank; empty at other ranks.
  [[nodiscard]] tensors those_of_root(tensor_lists const& lists, int root, at::Tensor const& like,
                                      char const* call) const;

  /// The engine of the present ranks.
  ///
  /// Throws: c10::Error if there are none.
  [[nodiscard]] std::shared_ptr<engine> present_engine() const;
  /// The title of a call as profilers show it, such as blink:broadcast.
  [[nodiscard]] char const* title(std::string_view what) const;
  [[nodiscard]] std::string about(char const* name, std::uint64_t number) const;
  /// The entry of a call that begins, in PyTorch's flight recorder.
  [[nodiscard]] flight_entry entry() const;
  /// Adds a call to those that are coalesced, if any are.
  work started(work call);

  c10::intrusive_ptr<c10d::Store> store_;
  std::chrono::milliseconds deadline_;
  std::string name_;
  std::shared_ptr<engine> engine_;
  std::shared_ptr<call_line> line_;     // of collectives
  std::shared_ptr<call_line> futures_;  // of messages
  std::shared_ptr<group_hooks> hooks_ = std::make_shared<group_hooks>();
#ifdef BLINK_TORCH_HAS_HOOKS
  coalesced_calls coalesced_;
#endif
  std::string handle_;           // see `new_handle`
  bool has_ended_ = false;       // by `shutdown`
  mutable std::mutex changing_;  // the engine, rank, size and end
  std::mutex start_;
  std::uint64_t calls_ = 0;
  std::uint64_t barriers_ = 0;  // monitored ones
};

}  // namespace blink_torch
