// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions that move and reduce elements, on `blink_nccl::chosen_platform`. Included by one
// source.

#include <blink/core/collective.hpp>

#include "dispatch.hpp"
#include "functions.hpp"

#include <cstddef>

namespace blink_nccl {

using blink::collective;
using shape = request<chosen_platform>::shape;

result ncclAllReduce(void const* input, void* output, std::size_t count, data_type type,
                     operation reduce, communicator* given, stream_handle stream) {
  call_arguments const what{
      "ncclAllReduce", collective::all_reduce, input, output, count, type, stream, 0, reduce};
  return collective_call<chosen_platform>(what, given, [&](auto const& there, auto* theirs) {
    return call_there(there.AllReduce, input, output, count, type, reduce, theirs, stream);
  });
}

result ncclReduce(void const* input, void* output, std::size_t count, data_type type,
                  operation reduce, int root, communicator* given, stream_handle stream) {
  call_arguments const what{
      "ncclReduce", collective::reduce, input, output, count, type, stream, root, reduce};
  return collective_call<chosen_platform>(what, given, [&](auto const& there, auto* theirs) {
    return call_there(there.Reduce, input, output, count, type, reduce, root, theirs, stream);
  });
}

result ncclReduceScatter(void const* input, void* output, std::size_t count, data_type type,
                         operation reduce, communicator* given, stream_handle stream) {
  call_arguments const what{"ncclReduceScatter",
                            collective::reduce_scatter,
                            input,
                            output,
                            count,
                            type,
                            stream,
                            0,
                            reduce};
  return collective_call<chosen_platform>(what, given, [&](auto const& there, auto* theirs) {
    return call_there(there.ReduceScatter, input, output, count, type, reduce, theirs, stream);
  });
}

result ncclBroadcast(void const* input, void* output, std::size_t count, data_type type, int root,
                     communicator* given, stream_handle stream) {
  call_arguments const what{
      "ncclBroadcast", collective::broadcast, input, output, count, type, stream, root};
  return collective_call<chosen_platform>(what, given, [&](auto const& there, auto* theirs) {
    return call_there(there.Broadcast, input, output, count, type, root, theirs, stream);
  });
}

result ncclBcast(void* data, std::size_t count, data_type type, int root, communicator* given,
                 stream_handle stream) {
  call_arguments const what{"ncclBcast", collective::broadcast, data, data, count, type, stream,
                            root};
  return collective_call<chosen_platform>(what, given, [&](auto const& there, auto* theirs) {
    return call_there(there.Bcast, data, count, type, root, theirs, stream);
  });
}

result ncclAllGather(void const* input, void* output, std::size_t count, data_type type,
                     communicator* given, stream_handle stream) {
  call_arguments const what{"ncclAllGather", collective::all_gather, input, output, count, type,
                            stream};
  return collective_call<chosen_platform>(what, given, [&](auto const& there, auto* theirs) {
    return call_there(there.AllGather, input, output, count, type, theirs, stream);
  });
}

result ncclAlltoAll(void const* input, void* output, std::size_t count, data_type type,
                    communicator* given, stream_handle stream) {
  call_arguments const what{"ncclAlltoAll", collective::all_to_all, input, output, count, type,
                            stream};
  return collective_call<chosen_platform>(what, given, [&](auto const& there, auto* theirs) {
    return call_there(there.AlltoAll, input, output, count, type, theirs, stream);
  });
}

result ncclGather(void const* input, void* output, std::size_t count, data_type type, int root,
                  communicator* given, stream_handle stream) {
  call_arguments const what{"ncclGather", collective::gather, input, output, count, type, stream,
                            root};
  return collective_call<chosen_platform>(what, given, [&](auto const& there, auto* theirs) {
    return call_there(there.Gather, input, output, count, type, root, theirs, stream);
  });
}

result ncclScatter(void const* input, void* output, std::size_t count, data_type type, int root,
                   communicator* given, stream_handle stream) {
  call_arguments const what{"ncclScatter", collective::scatter, input, output, count, type, stream,
                            root};
  return collective_call<chosen_platform>(what, given, [&](auto const& there, auto* theirs) {
    return call_there(there.Scatter, input, output, count, type, root, theirs, stream);
  });
}

result ncclSend(void const* input, std::size_t count, data_type type, int peer, communicator* given,
                stream_handle stream) {
  call_arguments const what{"ncclSend", collective::permute, input, nullptr, count, type, stream,
                            peer};
  return piece_call<chosen_platform>(
      what, shape::send, given, [&](auto const& there, auto* theirs) {
        return call_there(there.Send, input, count, type, peer, theirs, stream);
      });
}

result ncclRecv(void* output, std::size_t count, data_type type, int peer, communicator* given,
                stream_handle stream) {
  call_arguments const what{"ncclRecv", collective::permute, nullptr, output, count, type, stream,
                            peer};
  return piece_call<chosen_platform>(
      what, shape::receive, given, [&](auto const& there, auto* theirs) {
        return call_there(there.Recv, output, count, type, peer, theirs, stream);
      });
}

}  // namespace blink_nccl
