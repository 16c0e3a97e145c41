// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that move and reduce elements, make operations, and group calls, on
// `blink_nccl::chosen_platform`. Included by one source.

#include <blink/core/collective.hpp>

#include "configurations.hpp"
#include "dispatch.hpp"
#include "functions.hpp"

#include <cstddef>
#include <cstring>
#include <string>

namespace blink_nccl {

using blink::collective;
using shape = request<chosen_platform>::shape;

/// Makes a call by the library, or by the other one: by `plain` without a configuration, by
/// `configured` with one. Both take the buffers, count and type, then `further`.
template <class Plain, class Configured, class... Further>
result configured_call(call_arguments const& one, communicator* given,
                       collective_configuration const* config, Plain plain, Configured configured,
                       Further... further) {
  return collective_call<chosen_platform>(
      one, given, config, [&](other_library const& there, auto* theirs) {
        if (config == nullptr) {
          return call_there(there.*plain, one.input, one.output, one.count, one.type, further...,
                            theirs, one.stream);
        }
        return call_there(there.*configured, one.input, one.output, one.count, one.type, further...,
                          theirs, one.stream, config);
      });
}

inline result call_all_reduce(call_arguments const& one, communicator* given,
                              collective_configuration const* config = nullptr) {
  return configured_call(one, given, config, &other_library::AllReduce,
                         &other_library::AllReduceConfig, one.reduce);
}
result ncclAllReduce(void const* input, void* output, std::size_t count, data_type type,
                     operation reduce, communicator* given, stream_handle stream) {
  return call_all_reduce(
      {"ncclAllReduce", collective::all_reduce, input, output, count, type, stream, 0, reduce},
      given);
}
result ncclAllReduceConfig(void const* input, void* output, std::size_t count, data_type type,
                           operation reduce, communicator* given, stream_handle stream,
                           collective_configuration const* config) {
  return call_all_reduce({"ncclAllReduceConfig", collective::all_reduce, input, output, count, type,
                          stream, 0, reduce},
                         given, config);
}

inline result call_reduce(call_arguments const& one, communicator* given,
                          collective_configuration const* config = nullptr) {
  return configured_call(one, given, config, &other_library::Reduce, &other_library::ReduceConfig,
                         one.reduce, one.root);
}
result ncclReduce(void const* input, void* output, std::size_t count, data_type type,
                  operation reduce, int root, communicator* given, stream_handle stream) {
  return call_reduce(
      {"ncclReduce", collective::reduce, input, output, count, type, stream, root, reduce}, given);
}
result ncclReduceConfig(void const* input, void* output, std::size_t count, data_type type,
                        operation reduce, int root, communicator* given, stream_handle stream,
                        collective_configuration const* config) {
  return call_reduce(
      {"ncclReduceConfig", collective::reduce, input, output, count, type, stream, root, reduce},
      given, config);
}

inline result call_reduce_scatter(call_arguments const& one, communicator* given,
                                  collective_configuration const* config = nullptr) {
  return configured_call(one, given, config, &other_library::ReduceScatter,
                         &other_library::ReduceScatterConfig, one.reduce);
}
result ncclReduceScatter(void const* input, void* output, std::size_t count, data_type type,
                         operation reduce, communicator* given, stream_handle stream) {
  return call_reduce_scatter({"ncclReduceScatter", collective::reduce_scatter, input, output, count,
                              type, stream, 0, reduce},
                             given);
}
result ncclReduceScatterConfig(void const* input, void* output, std::size_t count, data_type type,
                               operation reduce, communicator* given, stream_handle stream,
                               collective_configuration const* config) {
  return call_reduce_scatter({"ncclReduceScatterConfig", collective::reduce_scatter, input, output,
                              count, type, stream, 0, reduce},
                             given, config);
}

inline result call_broadcast(call_arguments const& one, communicator* given,
                             collective_configuration const* config = nullptr) {
  return configured_call(one, given, config, &other_library::Broadcast,
                         &other_library::BroadcastConfig, one.root);
}
result ncclBroadcast(void const* input, void* output, std::size_t count, data_type type, int root,
                     communicator* given, stream_handle stream) {
  return call_broadcast(
      {"ncclBroadcast", collective::broadcast, input, output, count, type, stream, root}, given);
}
result ncclBroadcastConfig(void const* input, void* output, std::size_t count, data_type type,
                           int root, communicator* given, stream_handle stream,
                           collective_configuration const* config) {
  return call_broadcast(
      {"ncclBroadcastConfig", collective::broadcast, input, output, count, type, stream, root},
      given, config);
}

inline result call_all_gather(call_arguments const& one, communicator* given,
                              collective_configuration const* config = nullptr) {
  return configured_call(one, given, config, &other_library::AllGather,
                         &other_library::AllGatherConfig);
}
result ncclAllGather(void const* input, void* output, std::size_t count, data_type type,
                     communicator* given, stream_handle stream) {
  return call_all_gather(
      {"ncclAllGather", collective::all_gather, input, output, count, type, stream}, given);
}
result ncclAllGatherConfig(void const* input, void* output, std::size_t count, data_type type,
                           communicator* given, stream_handle stream,
                           collective_configuration const* config) {
  return call_all_gather(
      {"ncclAllGatherConfig", collective::all_gather, input, output, count, type, stream}, given,
      config);
}

inline result call_all_to_all(call_arguments const& one, communicator* given,
                              collective_configuration const* config = nullptr) {
  return configured_call(one, given, config, &other_library::AlltoAll,
                         &other_library::AlltoAllConfig);
}
result ncclAlltoAll(void const* input, void* output, std::size_t count, data_type type,
                    communicator* given, stream_handle stream) {
  return call_all_to_all(
      {"ncclAlltoAll", collective::all_to_all, input, output, count, type, stream}, given);
}
result ncclAlltoAllConfig(void const* input, void* output, std::size_t count, data_type type,
                          communicator* given, stream_handle stream,
                          collective_configuration const* config) {
  return call_all_to_all(
      {"ncclAlltoAllConfig", collective::all_to_all, input, output, count, type, stream}, given,
      config);
}

inline result call_gather(call_arguments const& one, communicator* given,
                          collective_configuration const* config = nullptr) {
  return configured_call(one, given, config, &other_library::Gather, &other_library::GatherConfig,
                         one.root);
}
result ncclGather(void const* input, void* output, std::size_t count, data_type type, int root,
                  communicator* given, stream_handle stream) {
  return call_gather({"ncclGather", collective::gather, input, output, count, type, stream, root},
                     given);
}
result ncclGatherConfig(void const* input, void* output, std::size_t count, data_type type,
                        int root, communicator* given, stream_handle stream,
                        collective_configuration const* config) {
  return call_gather(
      {"ncclGatherConfig", collective::gather, input, output, count, type, stream, root}, given,
      config);
}

inline result call_scatter(call_arguments const& one, communicator* given,
                           collective_configuration const* config = nullptr) {
  return configured_call(one, given, config, &other_library::Scatter, &other_library::ScatterConfig,
                         one.root);
}
result ncclScatter(void const* input, void* output, std::size_t count, data_type type, int root,
                   communicator* given, stream_handle stream) {
  return call_scatter(
      {"ncclScatter", collective::scatter, input, output, count, type, stream, root}, given);
}
result ncclScatterConfig(void const* input, void* output, std::size_t count, data_type type,
                         int root, communicator* given, stream_handle stream,
                         collective_configuration const* config) {
  return call_scatter(
      {"ncclScatterConfig", collective::scatter, input, output, count, type, stream, root}, given,
      config);
}

result ncclBcast(void* data, std::size_t count, data_type type, int root, communicator* given,
                 stream_handle stream) {
  call_arguments const what{"ncclBcast", collective::broadcast, data, data, count, type, stream,
                            root};
  return collective_call<chosen_platform>(
      what, given, nullptr,
      passed_on(&other_library::Bcast, data, count, type, root, given, stream));
}

result ncclSend(void const* input, std::size_t count, data_type type, int peer, communicator* given,
                stream_handle stream) {
  call_arguments const what{"ncclSend", collective::permute, input, nullptr, count, type, stream,
                            peer};
  return piece_call<chosen_platform>(
      what, shape::send, given,
      passed_on(&other_library::Send, input, count, type, peer, given, stream));
}

result ncclRecv(void* output, std::size_t count, data_type type, int peer, communicator* given,
                stream_handle stream) {
  call_arguments const what{"ncclRecv", collective::permute, nullptr, output, count, type, stream,
                            peer};
  return piece_call<chosen_platform>(
      what, shape::receive, given,
      passed_on(&other_library::Recv, output, count, type, peer, given, stream));
}

// --- operations ---

result ncclRedOpCreatePreMulSum(operation* where, void* factor, data_type type, residence place,
                                communicator* given) {
  using P = chosen_platform;
  auto const own = [&](handle<P>& mine, auto&) -> outcome {
    expect_result(where);
    expect_type(type);
    if (factor == nullptr) refuse_argument("the factor is null");
    given_factor made{.type = type};
    if (place == residence::host_immediate) {
      std::memcpy(made.value.data(), factor, bytes_of(type));
    } else if (place == residence::device) {
      made.at = factor;
    } else {
      refuse_argument("residence " + std::to_string(static_cast<int>(place)) + ", expected 0 or 1");
    }
    *where = mine.add_operation(made);
    return {};
  };
  return with_communicator<P>(
      "ncclRedOpCreatePreMulSum", given, own,
      passed_on(&other_library::RedOpCreatePreMulSum, where, factor, type, place, given));
}
result ncclRedOpDestroy(operation what, communicator* given) {
  using P = chosen_platform;
  return with_communicator<P>(
      "ncclRedOpDestroy", given,
      [&](handle<P>& mine, auto&) -> outcome {
        mine.factor_of(what).reset();
        return {};
      },
      passed_on(&other_library::RedOpDestroy, what, given));
}

// --- groups ---

result ncclGroupStart() {
  using P = chosen_platform;
  return guarded<P>("ncclGroupStart", []() -> outcome {
    group<P>::of_thread().start();
    return {};
  });
}
result ncclGroupEnd() {
  using P = chosen_platform;
  return guarded<P>("ncclGroupEnd", [] { return group<P>::of_thread().end(); });
}
/// Ends the group without its calls. No time is predicted, which NCCL's value for "unset" says.
result ncclGroupSimulateEnd(simulation_info* info) {
  using P = chosen_platform;
  return guarded<P>("ncclGroupSimulateEnd", [&]() -> outcome {
    expect_result(info);
    expect_structure("simulation info", *info);
    return group<P>::of_thread().simulate(*info);
  });
}

}  // namespace blink_nccl
