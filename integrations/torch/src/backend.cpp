// SPDX-License-Identifier: Apache-2.0
#include "backend.hpp"

#include <blink/core/error.hpp>
#include <blink/running/call/messenger.hpp>

#include "failures.hpp"
#include "membership.hpp"
#include "message_work.hpp"
#include "monitored_barrier.hpp"
#include "python_lock.hpp"
#include "sparse.hpp"
#include "store_bootstrap.hpp"
#include "tensors.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

namespace blink_torch {
namespace {

using namespace std::chrono_literals;

/// Smaller lists of tensors are copied together, because each call takes some time.
constexpr std::size_t packs_below = std::size_t{1} << 20;

/// True unless PyTorch waits at once.
template <class Options>
[[nodiscard]] bool is_async(Options const& options) {
  if constexpr (requires { options.asyncOp; }) {
    return options.asyncOp;
  } else {
    return true;
  }
}

[[nodiscard]] std::vector<at::Tensor> joined(std::vector<std::vector<at::Tensor>> const& lists) {
  std::vector<at::Tensor> result;
  for (auto const& list : lists) result.insert(result.end(), list.begin(), list.end());
  return result;
}

}  // namespace

backend::backend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                 std::chrono::milliseconds deadline, std::string name, bool begins_empty)
    : group_base(rank, size),
      store_(std::move(store)),
      deadline_(deadline),
      name_(std::move(name)),
      line_(std::make_shared<call_line>()),
      futures_(std::make_shared<call_line>()),
      handle_(new_handle()) {
  if (begins_empty) return;
  try {
    store_bootstrap all(store_, rank, size, deadline);
    engine_ = make_engine(all, deadline);
  } catch (std::exception const& failure) {
    throw_failure("blink: rank " + std::to_string(rank) + " of " + std::to_string(size) +
                  ", a new group: " + failure.what());
  }
}

std::shared_ptr<engine> backend::present_engine() const {
  std::lock_guard<std::mutex> const lock(changing_);
  TORCH_CHECK(engine_ != nullptr, "blink: the group has ",
              has_ended_ ? "ended, expected calls before its end"
                         : "no ranks, expected reconfigure() first");
  return engine_;
}

backend::~backend() {
  without_python_lock const others_run;
  line_->close();
  futures_->close();
}

std::chrono::milliseconds backend::deadline_of(std::chrono::milliseconds asked) const {
  return asked > 0ms ? asked : deadline_;
}

int backend::rank_from(std::int64_t rank, char const* call) const {
  TORCH_CHECK(rank >= 0 && rank < size_, "blink: ", call, ": rank ", rank, " of ", size_,
              " ranks, expected one of them");
  return static_cast<int>(rank);
}

void backend::expect_parts(at::Tensor const& whole, at::Tensor const& part,
                           char const* call) const {
  TORCH_CHECK(whole.numel() == part.numel() * size_, "blink: ", call, ": a tensor of ",
              whole.numel(), " elements for all ranks and one of ", part.numel(),
              " for a rank, expected ", part.numel() * size_, " and ", part.numel());
}

void backend::expect_for_each_rank(std::size_t tensors, char const* call, char const* what) const {
  TORCH_CHECK(tensors == static_cast<std::size_t>(size_), "blink: ", call, ": ", tensors, " ", what,
              ", expected one for each of ", size_, " ranks");
}

backend::tensors backend::those_of_root(tensor_lists const& lists, int root, at::Tensor const& like,
                                        char const* call) const {
  if (root != rank_) {
    TORCH_CHECK(lists.empty() || (lists.size() == 1 && lists[0].empty()), "blink: ", call,
                ": a list of tensors at another rank than the root, expected none");
    return {};
  }
  expect_one(lists, call, "lists of tensors");
  expect_on_host(lists[0], call);
  expect_for_each_rank(lists[0].size(), call, "tensors at the root");
  for (auto const& each : lists[0]) expect_alike(like, each, call);
  return lists[0];
}

char const* backend::title(std::string_view what) const {
  // Calls of several tensors have the titles of single ones, as gloo's.
  if (constexpr std::string_view end = "_coalesced"; what.ends_with(end)) {
    what.remove_suffix(end.size());
  }
  // A profiler reads titles after their group has ended.
  static std::mutex kept;
  static std::set<std::string> all;
  std::lock_guard<std::mutex> const lock(kept);
  return all.insert(name_ + ":" + std::string(what)).first->c_str();
}

std::string backend::about(char const* name, std::uint64_t number) const {
  return "blink: rank " + std::to_string(rank_) + ", " + name + ", call " + std::to_string(number) +
         " of the group: ";
}

work backend::start(request what, std::function<void(engine&)> run) {
  auto const deadline = deadline_of(what.deadline);
  std::unique_lock<std::mutex> lock(start_);
  auto const number = ++calls_;
  return start({rank_, what.kind, title(what.name), number, std::move(what.inputs),
                std::move(what.outputs), std::move(what.value), hooks_, entry()},
               what.is_async, lock,
               [this, run = std::move(run), deadline, name = what.name, number] {
                 try {
                   at::NoGradGuard const no_gradients;
                   auto const by = present_engine();
                   by->set_deadline(deadline);
                   run(*by);
                 } catch (blink::error const& failure) {
                   throw_failure(about(name, number) + failure.what());
                 }
               });
}

work backend::start(group_call::facts what, bool is_async, std::unique_lock<std::mutex>& lock,
                    std::function<void()> run) {
  auto call = c10::make_intrusive<group_call>(std::move(what), std::move(run), line_);
  line_->add(call, is_async);
  lock.unlock();
  if (!is_async) line_->wait_for(*call);
  return started(std::move(call));
}

flight_entry backend::entry() const {
#ifdef BLINK_TORCH_HAS_HOOKS
  return flight_entry::newest(name_, getGroupUid());
#else
  return {};
#endif
}

work backend::started(work call) {
#ifdef BLINK_TORCH_HAS_HOOKS
  coalesced_.add(call);
#endif
  return call;
}

std::uint64_t backend::getSequenceNumberForGroup() {
  std::lock_guard<std::mutex> const lock(start_);
  return calls_;
}

work backend::broadcast(tensors& data, c10d::BroadcastOptions const& options) {
  constexpr auto name = "broadcast";
  expect_one(data, name, "tensors");
  expect_on_host(data, name);
  auto const root = rank_from(options.rootRank, name);
  return start({c10d::OpType::BROADCAST, name, options.timeout, is_async(options), data, data},
               [one = flat_tensor(data[0]), root](engine& by) {
                 by.broadcast(one.data(), one.bytes(), root);
                 one.write_back();
               });
}

work backend::allreduce(tensors& data, c10d::AllreduceOptions const& options) {
  constexpr auto name = "all_reduce";
  expect_one(data, name, "tensors");
  if (data[0].is_sparse()) {
    auto const what = reduction_of(data[0], options.reduceOp, name);
    TORCH_CHECK(what.what == blink::operation::sum,
                "blink: all_reduce of sparse tensors: expected a sum");
    TORCH_CHECK(data[0].device().is_cpu(), "blink: all_reduce: a tensor on ",
                data[0].device().str(), ", expected tensors on the CPU");
    return start({c10d::OpType::ALLREDUCE, name, options.timeout, is_async(options), data, data},
                 [one = data[0], ranks = size_](engine& by) { sum_sparse(by, one, ranks); });
  }
  expect_on_host(data, name);
  auto const how = reduction_of(data[0], options.reduceOp, name);
  return start({c10d::OpType::ALLREDUCE, name, options.timeout, is_async(options), data, data},
               [one = flat_tensor(data[0]), how](engine& by) {
                 by.all_reduce(how, one.data(), one.data(), one.count());
                 one.write_back();
               });
}

#if TORCH_VERSION_MAJOR >= 2
work backend::allreduce_sparse(tensors& data, c10d::AllreduceOptions const& options) {
  return allreduce(data, options);
}
#endif

work backend::allreduce_coalesced(tensors& data, c10d::AllreduceCoalescedOptions const& options) {
  constexpr auto name = "all_reduce_coalesced";
  TORCH_CHECK(!data.empty(), "blink: ", name, ": no tensors, expected one or more");
  expect_on_host(data, name);
  std::size_t bytes = 0;
  for (auto const& each : data) {
    expect_alike(data[0], each, name);
    bytes += static_cast<std::size_t>(each.numel()) * static_cast<std::size_t>(each.element_size());
  }
  auto const how = reduction_of(data[0], options.reduceOp, name);
  return start(
      {c10d::OpType::ALLREDUCE_COALESCED, name, options.timeout, is_async(options), data, data},
      [all = flat(data), how, packs = bytes < packs_below](engine& by) {
        if (!packs || all.size() == 1) {
          for (auto const& one : all) {
            by.all_reduce(how, one.data(), one.data(), one.count());
          }
        } else {
          std::vector<at::Tensor> rows;
          for (auto const& one : all) rows.push_back(one.memory().reshape({-1}));
          auto const row = at::cat(rows);
          by.all_reduce(how, row.data_ptr(), row.data_ptr(), static_cast<std::size_t>(row.numel()));
          auto const* from = static_cast<std::byte const*>(row.data_ptr());
          for (auto const& one : all) {
            if (one.bytes() > 0) std::memcpy(one.data(), from, one.bytes());
            from += one.bytes();
          }
        }
        write_back(all);
      });
}

work backend::reduce(tensors& data, c10d::ReduceOptions const& options) {
  constexpr auto name = "reduce";
  expect_one(data, name, "tensors");
  expect_on_host(data, name);
  auto const how = reduction_of(data[0], options.reduceOp, name);
  auto const root = rank_from(options.rootRank, name);
  return start({c10d::OpType::REDUCE, name, options.timeout, is_async(options), data, data},
               [one = flat_tensor(data[0]), how, root, is_root = root == rank_](engine& by) {
                 by.reduce(how, one.data(), is_root ? one.data() : nullptr, one.count(), root);
                 if (is_root) one.write_back();
               });
}

work backend::allgather(tensor_lists& outputs, tensors& inputs,
                        c10d::AllgatherOptions const& options) {
  constexpr auto name = "all_gather";
  expect_one(inputs, name, "inputs");
  expect_one(outputs, name, "lists of outputs");
  expect_on_host(inputs, name);
  expect_on_host(outputs[0], name);
  expect_for_each_rank(outputs[0].size(), name, "outputs");
  for (auto const& each : outputs[0]) expect_alike(inputs[0], each, name);
  auto const& own = outputs[0][static_cast<std::size_t>(rank_)];
  TORCH_CHECK(own.numel() == inputs[0].numel(), "blink: all_gather: an input of ",
              inputs[0].numel(), " elements and its output of ", own.numel(), ", expected as many");
  return start({c10d::OpType::ALLGATHER, name, options.timeout, is_async(options), inputs,
                outputs[0], at::IValue(outputs)},
               [in = flat_tensor(inputs[0]), out = flat(outputs[0])](engine& by) {
                 by.all_gather(in.data(), segments_of(out));
                 write_back(out);
               });
}

work backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                              c10d::AllgatherOptions const& options) {
  constexpr auto name = "all_gather_into_tensor";
  expect_on_host(input, name);
  expect_on_host(output, name);
  expect_alike(input, output, name);
  expect_parts(output, input, name);
  return start(
      {c10d::OpType::_ALLGATHER_BASE, name, options.timeout, is_async(options), {input}, {output}},
      [in = flat_tensor(input), out = flat_tensor(output), n = size_](engine& by) {
        by.all_gather(in.data(), out.parts(n));
        out.write_back();
      });
}

work backend::allgather_coalesced(tensor_lists& outputs, tensors& inputs,
                                  c10d::AllgatherOptions const& options) {
  constexpr auto name = "all_gather_coalesced";
  expect_for_each_rank(outputs.size(), name, "lists of outputs");
  expect_on_host(inputs, name);
  std::vector<std::vector<flat_tensor>> by_input(inputs.size());
  for (auto const& list : outputs) {
    expect_on_host(list, name);
    TORCH_CHECK(list.size() == inputs.size(), "blink: ", name, ": ", list.size(), " outputs for ",
                inputs.size(), " inputs, expected as many");
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      expect_alike(inputs[k], list[k], name);
      TORCH_CHECK(list[k].numel() == inputs[k].numel(), "blink: ", name, ": an output of ",
                  list[k].numel(), " elements, expected ", inputs[k].numel());
      by_input[k].emplace_back(list[k]);
    }
  }
  return start({c10d::OpType::ALLGATHER_COALESCED, name, options.timeout, is_async(options), inputs,
                joined(outputs), at::IValue(outputs)},
               [in = flat(inputs), out = std::move(by_input)](engine& by) {
                 for (std::size_t k = 0; k < in.size(); ++k) {
                   by.all_gather(in[k].data(), segments_of(out[k]));
                   write_back(out[k]);
                 }
               });
}

work backend::gather(tensor_lists& outputs, tensors& inputs, c10d::GatherOptions const& options) {
  constexpr auto name = "gather";
  expect_one(inputs, name, "inputs");
  expect_on_host(inputs, name);
  auto const root = rank_from(options.rootRank, name);
  auto const to = those_of_root(outputs, root, inputs[0], name);
  return start({c10d::OpType::GATHER, name, options.timeout, is_async(options), inputs, to,
                at::IValue(tensor_lists{to})},
               [in = flat_tensor(inputs[0]), out = flat(to), root](engine& by) {
                 by.gather(in.bytes_here(), segments_of(out), root);
                 write_back(out);
               });
}

work backend::scatter(tensors& outputs, tensor_lists& inputs, c10d::ScatterOptions const& options) {
  constexpr auto name = "scatter";
  expect_one(outputs, name, "outputs");
  expect_on_host(outputs, name);
  auto const root = rank_from(options.rootRank, name);
  auto const from = those_of_root(inputs, root, outputs[0], name);
  return start({c10d::OpType::SCATTER, name, options.timeout, is_async(options), from, outputs},
               [in = flat(from), out = flat_tensor(outputs[0]), root](engine& by) {
                 by.scatter(segments_of(in), out.bytes_here(), root);
                 out.write_back();
               });
}

work backend::reduce_scatter(tensors& outputs, tensor_lists& inputs,
                             c10d::ReduceScatterOptions const& options) {
  constexpr auto name = "reduce_scatter";
  expect_one(outputs, name, "outputs");
  expect_one(inputs, name, "lists of inputs");
  expect_on_host(outputs, name);
  expect_on_host(inputs[0], name);
  expect_for_each_rank(inputs[0].size(), name, "inputs");
  for (auto const& each : inputs[0]) {
    expect_alike(outputs[0], each, name);
    TORCH_CHECK(each.numel() == outputs[0].numel(), "blink: reduce_scatter: an input of ",
                each.numel(), " elements, expected ", outputs[0].numel());
  }
  auto const how = reduction_of(outputs[0], options.reduceOp, name);
  return start(
      {c10d::OpType::REDUCE_SCATTER, name, options.timeout, is_async(options), inputs[0], outputs},
      [in = flat(inputs[0]), out = flat_tensor(outputs[0]), how](engine& by) {
        by.reduce_scatter(how, segments_of(in), out.data());
        out.write_back();
      });
}

work backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   c10d::ReduceScatterOptions const& options) {
  constexpr auto name = "reduce_scatter_tensor";
  expect_on_host(input, name);
  expect_on_host(output, name);
  expect_alike(input, output, name);
  expect_parts(input, output, name);
  auto const how = reduction_of(output, options.reduceOp, name);
  return start({c10d::OpType::_REDUCE_SCATTER_BASE,
                name,
                options.timeout,
                is_async(options),
                {input},
                {output}},
               [in = flat_tensor(input), out = flat_tensor(output), how, n = size_](engine& by) {
                 by.reduce_scatter(how, in.parts(n), out.data());
                 out.write_back();
               });
}

#if TORCH_VERSION_MAJOR >= 2
// Calls end in their order, and after a failure all fail: the last one stands for all.
work backend::one_by_one(tensors& outputs, tensors& inputs, char const* call,
                         std::function<work(at::Tensor&, at::Tensor&)> const& run) {
  TORCH_CHECK(outputs.size() == inputs.size() && !inputs.empty(), "blink: ", call, ": ",
              outputs.size(), " outputs for ", inputs.size(),
              " inputs, expected as many, and one or more");
  work last;
  for (std::size_t k = 0; k < inputs.size(); ++k) last = run(outputs[k], inputs[k]);
  return last;
}

work backend::allgather_into_tensor_coalesced(tensors& outputs, tensors& inputs,
                                              c10d::AllgatherOptions const& options) {
  return one_by_one(outputs, inputs, "all_gather_into_tensor_coalesced",
                    [&](at::Tensor& output, at::Tensor& input) {
                      return _allgather_base(output, input, options);
                    });
}

work backend::reduce_scatter_tensor_coalesced(tensors& outputs, tensors& inputs,
                                              c10d::ReduceScatterOptions const& options) {
  return one_by_one(outputs, inputs, "reduce_scatter_tensor_coalesced",
                    [&](at::Tensor& output, at::Tensor& input) {
                      return _reduce_scatter_base(output, input, options);
                    });
}

void backend::abort() {
  std::lock_guard<std::mutex> const lock(changing_);
  if (engine_ != nullptr) engine_->abort("the program aborts the group");
}

// Objects of the program may keep the group until the process ends, and peers may still be in the
// last call. So the engine ends here.
void backend::shutdown() {
  without_python_lock const others_run;
  line_->close();
  std::shared_ptr<engine> ends;  // without the lock
  std::lock_guard<std::mutex> const lock(changing_);
  has_ended_ = true;
  ends.swap(engine_);
}
#endif

#ifdef BLINK_TORCH_HAS_HOOKS
c10::intrusive_ptr<backend::Options> backend::getBackendOptions() {
  return c10::make_intrusive<Options>(name_, deadline_);
}

void backend::registerAbortHook(std::int64_t id, c10d::AbortHook hook) {
  hooks_->abort.add(id, std::move(hook));
}

void backend::registerCompletionHook(std::int64_t id, c10d::CompletionHook hook) {
  hooks_->completion.add(id, std::move(hook));
}
#endif

#ifdef C10D_BACKEND_HAS_RECONFIGURE
work backend::reconfigure(c10d::ReconfigureOptions const& options) {
  std::vector<std::string> handles;
  if (auto const* const ordered = std::get_if<1>(&options.handles)) {
    handles = *ordered;
  } else {
    auto const& any_order = std::get<0>(options.handles);
    handles.assign(any_order.begin(), any_order.end());
    std::sort(handles.begin(), handles.end());
  }
  auto const deadline = deadline_of(options.timeout.value_or(0ms));
  std::unique_lock<std::mutex> lock(start_);
  calls_ = 0;
  return start({rank_, c10d::OpType::UNKNOWN, title("reconfigure")}, true, lock,
               [this, handles = std::move(handles), deadline, number = options.uuid] {
                 try {
                   auto by = meet(handles, handle_, number, store_, deadline);
                   std::lock_guard<std::mutex> const change(changing_);
                   engine_ = std::move(by);
                   size_ = static_cast<int>(handles.size());
                   rank_ = static_cast<int>(std::find(handles.begin(), handles.end(), handle_) -
                                            handles.begin());
                 } catch (blink::error const& failure) {
                   throw_failure("blink: reconfigure: " + std::string(failure.what()));
                 }
               });
}
#endif

work backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<std::int64_t>& output_split,
                            std::vector<std::int64_t>& input_split,
                            c10d::AllToAllOptions const& options) {
  constexpr auto name = "all_to_all";
  expect_on_host(input, name);
  expect_on_host(output, name);
  expect_alike(input, output, name);
  flat_tensor const in(input), out(output);
  auto sends = split_rows(in, input, input_split, size_, "input");
  auto receives = split_rows(out, output, output_split, size_, "output");
  return start(
      {c10d::OpType::ALLTOALL_BASE, name, options.timeout, is_async(options), {input}, {output}},
      [in, out, sends = std::move(sends), receives = std::move(receives)](engine& by) {
        by.all_to_all(sends, receives);
        out.write_back();
      });
}

work backend::alltoall(tensors& outputs, tensors& inputs, c10d::AllToAllOptions const& options) {
  constexpr auto name = "all_to_all";
  expect_on_host(inputs, name);
  expect_on_host(outputs, name);
  expect_for_each_rank(inputs.size(), name, "inputs");
  expect_for_each_rank(outputs.size(), name, "outputs");
  return start({c10d::OpType::ALLTOALL, name, options.timeout, is_async(options), inputs, outputs},
               [in = flat(inputs), out = flat(outputs)](engine& by) {
                 by.all_to_all(segments_of(in), segments_of(out));
                 write_back(out);
               });
}

work backend::barrier(c10d::BarrierOptions const& options) {
  return start({c10d::OpType::BARRIER, "barrier", options.timeout, is_async(options)},
               [](engine& by) { by.barrier(); });
}

work backend::start_message(
    c10d::OpType kind, char const* name, tensors const& data, int tag,
    std::function<std::unique_ptr<engine::message>(engine&, segment const&)> const& start) {
  expect_one(data, name, "tensors");
  expect_on_host(data, name);
  TORCH_CHECK(tag >= 0, "blink: ", name, ": the tag is ", tag, ", expected at least 0");
  flat_tensor one(data[0]);
  auto const about =
      "blink: rank " + std::to_string(rank_) + ", " + name + ", tag " + std::to_string(tag) + ": ";
  try {
    auto by = present_engine();
    auto message = start(*by, one.bytes_here());
    entry().mark_started();
    return started(c10::make_intrusive<message_work>(
        message_work::facts{rank_, kind, title(name), about, deadline_, data[0], hooks_},
        std::move(by), futures_, std::move(one), std::move(message)));
  } catch (blink::error const& failure) {
    if (ends_group(failure)) hooks_->failed();
    throw_failure(about + failure.what());
  }
}

work backend::send(tensors& data, int peer, int tag) {
  rank_from(peer, "send");
  return start_message(c10d::OpType::SEND, "send", data, tag,
                       [&](engine& by, segment const& bytes) { return by.send(peer, bytes, tag); });
}

work backend::recv(tensors& data, int source, int tag) {
  rank_from(source, "recv");
  return start_message(
      c10d::OpType::RECV, "recv", data, tag,
      [&](engine& by, segment const& bytes) { return by.receive(source, bytes, tag); });
}

work backend::recvAnysource(tensors& data, int tag) {
  return start_message(
      c10d::OpType::RECVANYSOURCE, "recvAnySource", data, tag,
      [&](engine& by, segment const& bytes) { return by.receive(blink::any_source, bytes, tag); });
}

void backend::monitoredBarrier(c10d::BarrierOptions const& options, bool waits_for_all) {
  monitored_barrier(*store_, rank_, size_, barriers_++,
                    options.timeout == 0ms ? 0ms : deadline_of(options.timeout), waits_for_all);
}

}  // namespace blink_torch
