// SPDX-License-Identifier: Apache-2.0
#include "backend.hpp"

#include <blink/core/error.hpp>
#include <blink/running/call/messenger.hpp>

#include "failures.hpp"
#include "membership.hpp"
#include "message_work.hpp"
#include "sparse.hpp"
#include "store_bootstrap.hpp"
#include "tensors.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>
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

/// The rows of a tensor that go to each rank, or come from it.
[[nodiscard]] std::vector<segment> split_rows(flat_tensor const& all, at::Tensor const& tensor,
                                              std::vector<std::int64_t> const& split, int ranks,
                                              char const* which) {
  auto const n = static_cast<std::size_t>(ranks);
  auto const rows = tensor.dim() == 0 ? std::int64_t{1} : tensor.size(0);
  std::vector<segment> result;
  if (split.empty()) {
    TORCH_CHECK(rows % ranks == 0, "blink: all_to_all: ", rows, " rows of the ", which, " among ",
                ranks, " ranks, expected a multiple");
    for (std::size_t k = 0; k < n; ++k) result.push_back(all.part(k, n));
    return result;
  }
  TORCH_CHECK(split.size() == n, "blink: all_to_all: ", split.size(), " sizes of the ", which,
              "'s split, expected one for each of ", ranks, " ranks");
  auto const sum = std::accumulate(split.begin(), split.end(), std::int64_t{0});
  TORCH_CHECK(sum == rows && std::all_of(split.begin(), split.end(), [](auto n) { return n >= 0; }),
              "blink: all_to_all: the ", which, "'s split sums to ", sum, ", expected its ", rows,
              " rows");
  auto const row = rows == 0 ? 0 : all.bytes() / static_cast<std::size_t>(rows);
  auto* at = static_cast<std::byte*>(all.data());
  for (auto const count : split) {
    auto const bytes = static_cast<std::size_t>(count) * row;
    result.push_back({at, bytes});
    at += bytes;
  }
  return result;
}

}  // namespace

backend::backend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                 std::chrono::milliseconds deadline, std::string name, bool begins_empty)
    : group_base(rank, size),
      store_(std::move(store)),
      deadline_(deadline),
      name_(std::move(name)),
      handle_(new_handle()) {
  line_ = std::make_shared<call_line>();
  futures_ = std::make_shared<call_line>();
  if (begins_empty) return;
  try {
    store_bootstrap all(store_, rank, size, deadline);
    engine_options options;
    options.deadline = deadline;
    engine_ = make_process_engine(all, options);
  } catch (std::exception const& failure) {
    throw_failure("blink: rank " + std::to_string(rank) + " of " + std::to_string(size) +
                  ", a new group: " + failure.what());
  }
}

std::shared_ptr<engine> backend::present_engine() const {
  std::lock_guard<std::mutex> const lock(changing_);
  TORCH_CHECK(engine_ != nullptr, "blink: the group has no ranks, expected reconfigure() first");
  return engine_;
}

backend::~backend() {
  line_->close();
  futures_->close();
}

std::chrono::milliseconds backend::deadline_of(std::chrono::milliseconds asked) const {
  return asked > 0ms ? asked : deadline_;
}

void backend::expect_rank(std::int64_t rank, char const* of) const {
  TORCH_CHECK(rank >= 0 && rank < size_, "blink: ", of, ": rank ", rank, " of ", size_,
              " ranks, expected one of them");
}

char const* backend::title(char const* what) const {
  // A profiler reads titles after their group has ended.
  static std::mutex kept;
  static std::set<std::string> all;
  std::lock_guard<std::mutex> const lock(kept);
  return all.insert(name_ + ":" + what).first->c_str();
}

std::string backend::about(char const* name, std::uint64_t number) const {
  return "blink: rank " + std::to_string(rank_) + ", " + name + ", call " + std::to_string(number) +
         " of the group: ";
}

template <class Run>
work backend::start(request what, Run run) {
  std::unique_lock<std::mutex> lock(start_);
  auto const number = ++calls_;
  group_call::facts facts;
  facts.rank = rank_;
  facts.kind = what.kind;
  facts.title = title(what.title);
  facts.sequence_number = number;
  facts.deadline = deadline_of(what.deadline);
  facts.inputs = std::move(what.inputs);
  facts.outputs = std::move(what.outputs);
  facts.value = std::move(what.value);
  auto const deadline = facts.deadline;
  auto call = c10::make_intrusive<group_call>(
      std::move(facts),
      [this, run = std::move(run), deadline, name = what.name, number]() mutable {
        try {
          at::NoGradGuard const no_gradients;
          auto const by = present_engine();
          by->set_deadline(deadline);
          run(*by);
        } catch (blink::error const& failure) {
          throw_failure(about(name, number) + failure.what());
        }
      },
      line_);
  if (what.is_async) {
    line_->add(call);
  } else {
    lock.unlock();
    line_->run(call);
  }
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
  expect_rank(options.rootRank, "broadcast from");
  auto const root = static_cast<int>(options.rootRank);
  return start(
      {c10d::OpType::BROADCAST, name, "broadcast", options.timeout, is_async(options), data, data},
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
    return start({c10d::OpType::ALLREDUCE, name, "all_reduce_sparse", options.timeout,
                  is_async(options), data, data},
                 [one = data[0], ranks = size_](engine& by) { sum_sparse(by, one, ranks); });
  }
  expect_on_host(data, name);
  auto const how = reduction_of(data[0], options.reduceOp, name);
  return start(
      {c10d::OpType::ALLREDUCE, name, "all_reduce", options.timeout, is_async(options), data, data},
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
  return start({c10d::OpType::ALLREDUCE_COALESCED, name, "all_reduce_coalesced", options.timeout,
                is_async(options), data, data},
               [all = flat(data), how, packs = bytes < packs_below](engine& by) {
                 if (!packs || all.size() == 1) {
                   for (auto const& one : all) {
                     by.all_reduce(how, one.data(), one.data(), one.count());
                   }
                 } else {
                   std::vector<at::Tensor> rows;
                   for (auto const& one : all) rows.push_back(one.memory().reshape({-1}));
                   auto const row = at::cat(rows);
                   by.all_reduce(how, row.data_ptr(), row.data_ptr(),
                                 static_cast<std::size_t>(row.numel()));
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
  expect_rank(options.rootRank, "reduce to");
  auto const how = reduction_of(data[0], options.reduceOp, name);
  auto const root = static_cast<int>(options.rootRank);
  return start(
      {c10d::OpType::REDUCE, name, "reduce", options.timeout, is_async(options), data, data},
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
  auto const n = static_cast<std::size_t>(size_);
  TORCH_CHECK(outputs[0].size() == n, "blink: all_gather: ", outputs[0].size(),
              " outputs, expected one for each of ", size_, " ranks");
  for (auto const& each : outputs[0]) expect_alike(inputs[0], each, name);
  auto const& own = outputs[0][static_cast<std::size_t>(rank_)];
  TORCH_CHECK(own.numel() == inputs[0].numel(), "blink: all_gather: an input of ",
              inputs[0].numel(), " elements and its output of ", own.numel(), ", expected as many");
  return start({c10d::OpType::ALLGATHER, name, "all_gather", options.timeout, is_async(options),
                inputs, outputs[0], at::IValue(outputs)},
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
  TORCH_CHECK(output.numel() == input.numel() * size_, "blink: ", name, ": an input of ",
              input.numel(), " elements and an output of ", output.numel(), ", expected ",
              input.numel() * size_);
  return start(
      {c10d::OpType::_ALLGATHER_BASE,
       name,
       "all_gather_into_tensor",
       options.timeout,
       is_async(options),
       {input},
       {output}},
      [in = flat_tensor(input), out = flat_tensor(output), n = size_](engine& by) {
        std::vector<segment> parts;
        for (int k = 0; k < n; ++k) {
          parts.push_back(out.part(static_cast<std::size_t>(k), static_cast<std::size_t>(n)));
        }
        by.all_gather(in.data(), parts);
        out.write_back();
      });
}

work backend::allgather_coalesced(tensor_lists& outputs, tensors& inputs,
                                  c10d::AllgatherOptions const& options) {
  constexpr auto name = "all_gather_coalesced";
  auto const n = static_cast<std::size_t>(size_);
  TORCH_CHECK(outputs.size() == n, "blink: ", name, ": ", outputs.size(),
              " lists of outputs, expected one for each of ", size_, " ranks");
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
  return start({c10d::OpType::ALLGATHER_COALESCED, name, "all_gather_coalesced", options.timeout,
                is_async(options), inputs, joined(outputs), at::IValue(outputs)},
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
  expect_rank(options.rootRank, "gather to");
  auto const root = static_cast<int>(options.rootRank);
  tensors to;
  if (root == rank_) {
    expect_one(outputs, name, "lists of outputs");
    to = outputs[0];
    TORCH_CHECK(to.size() == static_cast<std::size_t>(size_), "blink: gather: ", to.size(),
                " outputs at the root, expected one for each of ", size_, " ranks");
    expect_on_host(to, name);
    for (auto const& each : to) expect_alike(inputs[0], each, name);
  } else {
    TORCH_CHECK(outputs.empty() || (outputs.size() == 1 && outputs[0].empty()),
                "blink: gather: outputs at another rank than the root, expected none");
  }
  return start({c10d::OpType::GATHER, name, "gather", options.timeout, is_async(options), inputs,
                to, at::IValue(tensor_lists{to})},
               [in = flat_tensor(inputs[0]), out = flat(to), root](engine& by) {
                 by.gather(in.bytes_here(), segments_of(out), root);
                 write_back(out);
               });
}

work backend::scatter(tensors& outputs, tensor_lists& inputs, c10d::ScatterOptions const& options) {
  constexpr auto name = "scatter";
  expect_one(outputs, name, "outputs");
  expect_on_host(outputs, name);
  expect_rank(options.rootRank, "scatter from");
  auto const root = static_cast<int>(options.rootRank);
  tensors from;
  if (root == rank_) {
    expect_one(inputs, name, "lists of inputs");
    from = inputs[0];
    TORCH_CHECK(from.size() == static_cast<std::size_t>(size_), "blink: scatter: ", from.size(),
                " inputs at the root, expected one for each of ", size_, " ranks");
    expect_on_host(from, name);
    for (auto const& each : from) expect_alike(outputs[0], each, name);
  } else {
    TORCH_CHECK(inputs.empty() || (inputs.size() == 1 && inputs[0].empty()),
                "blink: scatter: inputs at another rank than the root, expected none");
  }
  return start(
      {c10d::OpType::SCATTER, name, "scatter", options.timeout, is_async(options), from, outputs},
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
  TORCH_CHECK(inputs[0].size() == static_cast<std::size_t>(size_),
              "blink: reduce_scatter: ", inputs[0].size(), " inputs, expected one for each of ",
              size_, " ranks");
  for (auto const& each : inputs[0]) {
    expect_alike(outputs[0], each, name);
    TORCH_CHECK(each.numel() == outputs[0].numel(), "blink: reduce_scatter: an input of ",
                each.numel(), " elements, expected ", outputs[0].numel());
  }
  auto const how = reduction_of(outputs[0], options.reduceOp, name);
  return start({c10d::OpType::REDUCE_SCATTER, name, "reduce_scatter", options.timeout,
                is_async(options), inputs[0], outputs},
               [in = flat(inputs[0]), out = flat_tensor(outputs[0]), how](engine& by) {
                 std::vector<void*> from;
                 for (auto const& each : in) from.push_back(each.data());
                 by.reduce_scatter(how, from, out.data(), out.count());
                 out.write_back();
               });
}

work backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   c10d::ReduceScatterOptions const& options) {
  constexpr auto name = "reduce_scatter_tensor";
  expect_on_host(input, name);
  expect_on_host(output, name);
  expect_alike(input, output, name);
  TORCH_CHECK(input.numel() == output.numel() * size_, "blink: ", name, ": an input of ",
              input.numel(), " elements and an output of ", output.numel(),
              ", expected an input "
              "of ",
              output.numel() * size_);
  auto const how = reduction_of(output, options.reduceOp, name);
  return start(
      {c10d::OpType::_REDUCE_SCATTER_BASE,
       name,
       "reduce_scatter_tensor",
       options.timeout,
       is_async(options),
       {input},
       {output}},
      [in = flat_tensor(input), out = flat_tensor(output), how, n = size_](engine& by) {
        std::vector<void*> from;
        for (int k = 0; k < n; ++k) {
          from.push_back(in.part(static_cast<std::size_t>(k), static_cast<std::size_t>(n)).data);
        }
        by.reduce_scatter(how, from, out.data(), out.count());
        out.write_back();
      });
}

#if TORCH_VERSION_MAJOR >= 2
work backend::allgather_into_tensor_coalesced(tensors& outputs, tensors& inputs,
                                              c10d::AllgatherOptions const& options) {
  TORCH_CHECK(outputs.size() == inputs.size() && !inputs.empty(),
              "blink: all_gather_into_tensor_coalesced: ", outputs.size(), " outputs for ",
              inputs.size(), " inputs, expected as many, and one or more");
  work last;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    last = _allgather_base(outputs[k], inputs[k], options);
  }
  return last;  // calls end in their order
}

work backend::reduce_scatter_tensor_coalesced(tensors& outputs, tensors& inputs,
                                              c10d::ReduceScatterOptions const& options) {
  TORCH_CHECK(outputs.size() == inputs.size() && !inputs.empty(),
              "blink: reduce_scatter_tensor_coalesced: ", outputs.size(), " outputs for ",
              inputs.size(), " inputs, expected as many, and one or more");
  work last;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    last = _reduce_scatter_base(outputs[k], inputs[k], options);
  }
  return last;
}

void backend::abort() {
  present_engine()->abort("the program aborts the group");
}

void backend::shutdown() {
  line_->close();
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
  std::lock_guard<std::mutex> const lock(start_);
  group_call::facts facts;
  facts.rank = rank_;
  facts.kind = c10d::OpType::UNKNOWN;
  facts.title = title("reconfigure");
  facts.deadline = deadline;
  auto call = c10::make_intrusive<group_call>(
      std::move(facts),
      [this, handles = std::move(handles), deadline, number = options.uuid] {
        try {
          std::shared_ptr<engine> by = meet(handles, handle_, number, {deadline});
          std::lock_guard<std::mutex> const change(changing_);
          engine_ = std::move(by);
          size_ = static_cast<int>(handles.size());
          rank_ = static_cast<int>(std::find(handles.begin(), handles.end(), handle_) -
                                   handles.begin());
        } catch (blink::error const& failure) {
          throw_failure("blink: reconfigure: " + std::string(failure.what()));
        }
      },
      line_);
  calls_ = 0;
  line_->add(call);
  return call;
}
#endif

work backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<std::int64_t>& output_split,
                            std::vector<std::int64_t>& input_split,
                            c10d::AllToAllOptions const& options) {
  constexpr auto name = "all_to_all_single";
  expect_on_host(input, name);
  expect_on_host(output, name);
  expect_alike(input, output, name);
  flat_tensor const in(input), out(output);
  auto sends = split_rows(in, input, input_split, size_, "input");
  auto receives = split_rows(out, output, output_split, size_, "output");
  return start({c10d::OpType::ALLTOALL_BASE,
                name,
                "all_to_all",
                options.timeout,
                is_async(options),
                {input},
                {output}},
               [in, out, sends = std::move(sends), receives = std::move(receives)](engine& by) {
                 by.all_to_all(sends, receives);
                 out.write_back();
               });
}

work backend::alltoall(tensors& outputs, tensors& inputs, c10d::AllToAllOptions const& options) {
  constexpr auto name = "all_to_all";
  expect_on_host(inputs, name);
  expect_on_host(outputs, name);
  auto const n = static_cast<std::size_t>(size_);
  TORCH_CHECK(inputs.size() == n && outputs.size() == n, "blink: all_to_all: ", inputs.size(),
              " inputs and ", outputs.size(), " outputs, expected one for each of ", size_,
              " ranks");
  return start({c10d::OpType::ALLTOALL, name, "all_to_all", options.timeout, is_async(options),
                inputs, outputs},
               [in = flat(inputs), out = flat(outputs)](engine& by) {
                 by.all_to_all(segments_of(in), segments_of(out));
                 write_back(out);
               });
}

work backend::barrier(c10d::BarrierOptions const& options) {
  return start({c10d::OpType::BARRIER, "barrier", "barrier", options.timeout, is_async(options)},
               [](engine& by) { by.barrier(); });
}

template <class Start>
work backend::start_message(c10d::OpType kind, char const* name, char const* title,
                            tensors const& data, int tag, Start const& start) {
  expect_one(data, name, "tensors");
  expect_on_host(data, name);
  TORCH_CHECK(tag >= 0, "blink: ", name, ": the tag is ", tag, ", expected at least 0");
  flat_tensor one(data[0]);
  message_work::facts facts;
  facts.rank = rank_;
  facts.kind = kind;
  facts.title = this->title(title);
  facts.about =
      "blink: rank " + std::to_string(rank_) + ", " + name + ", tag " + std::to_string(tag) + ": ";
  facts.deadline = deadline_;
  facts.user = data[0];
  try {
    auto by = present_engine();
    auto started = start(*by, one.bytes_here());
    return c10::make_intrusive<message_work>(std::move(facts), std::move(by), futures_,
                                             std::move(one), std::move(started));
  } catch (blink::error const& failure) {
    throw_failure(facts.about + failure.what());
  }
}

work backend::send(tensors& data, int peer, int tag) {
  expect_rank(peer, "send to");
  return start_message(c10d::OpType::SEND, "send", "send", data, tag,
                       [&](engine& by, segment const& bytes) { return by.send(peer, bytes, tag); });
}

work backend::recv(tensors& data, int source, int tag) {
  expect_rank(source, "recv from");
  return start_message(
      c10d::OpType::RECV, "recv", "recv", data, tag,
      [&](engine& by, segment const& bytes) { return by.receive(source, bytes, tag); });
}

work backend::recvAnysource(tensors& data, int tag) {
  return start_message(
      c10d::OpType::RECVANYSOURCE, "recv from any rank", "recvAnySource", data, tag,
      [&](engine& by, segment const& bytes) { return by.receive(blink::any_source, bytes, tag); });
}

void backend::monitoredBarrier(c10d::BarrierOptions const& options, bool waits_for_all) {
  // Programs look for some of these words, which are gloo's.
  auto const name = "blink/monitored_barrier/" + std::to_string(barriers_++) + "/";
  auto const deadline = options.timeout == 0ms ? 0ms : deadline_of(options.timeout);
  auto const end = std::chrono::steady_clock::now() + deadline;
  auto const in_time = " in " + std::to_string(deadline.count()) + " ms";
  std::vector<std::uint8_t> const mark{1};
  if (rank_ != 0) {
    store_->set(name + std::to_string(rank_), mark);
    auto const reached = "blink: Rank " + std::to_string(rank_) +
                         " successfully reached monitoredBarrier, but received errors while "
                         "waiting for send/recv from rank 0";
    try {
      store_->wait({name + "end"}, deadline + 1s);
    } catch (std::exception const&) {
      throw_failure(reached + ": it has not ended the barrier" + in_time);
    }
    auto const text = store_->get(name + "end");
    if (text.size() > 1) throw_failure(reached + ": " + std::string(text.begin(), text.end()));
    return;
  }
  if (deadline == 0ms) throw_failure("blink: Rank 0 timed out in monitoredBarrier" + in_time);
  std::string missing;
  for (int peer = 1; peer < size_; ++peer) {
    auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    try {
      store_->wait({name + std::to_string(peer)}, std::max(left, std::chrono::milliseconds(1)));
    } catch (std::exception const&) {
      missing += (missing.empty() ? "" : ", ") + std::to_string(peer);
      if (!waits_for_all) break;
    }
  }
  if (missing.empty()) return store_->set(name + "end", mark);
  auto const text =
      (waits_for_all ? "Ranks " : "Rank ") + missing + " failed to pass monitoredBarrier" + in_time;
  store_->set(name + "end", std::vector<std::uint8_t>(text.begin(), text.end()));
  throw_failure("blink: " + text);
}

}  // namespace blink_torch
