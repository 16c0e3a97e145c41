// SPDX-License-Identifier: Apache-2.0
// Calls that wait for other ranks while collectives are under way that the program has started: see
// pending_calls.hpp. Sends and receives give those time. Calls in which all ranks of a communicator
// wait let them end first, because nothing else moves then.

#include "communicators.hpp"
#include "waiting.hpp"
#include <mpi.h>

#include <cstddef>
#include <vector>

namespace {

using blink_pmpi::are_active;
using blink_pmpi::inside;
using blink_pmpi::started;
using blink_pmpi::wait_for_library;
using blink_pmpi::wait_until;

/// Sends by `call`, or by `start` while collectives are under way.
template <class Call, class Start, class... Arguments>
int call_or_start(Call call, Start start, Arguments... all) {
  if (!are_active()) return call(all...);
  inside const guard;
  MPI_Request request = MPI_REQUEST_NULL;
  return wait_for_library(start(all..., &request), &request, MPI_STATUS_IGNORE);
}

template <class Data>
struct message {
  Data data;
  int count;
  MPI_Datatype type;
  int peer;
  int tag;
};
int send_and_receive(message<void const*> const& out, message<void*> const& in, MPI_Comm comm,
                     MPI_Status* status) {
  MPI_Request receive = MPI_REQUEST_NULL, send = MPI_REQUEST_NULL;
  int code = PMPI_Irecv(in.data, in.count, in.type, in.peer, in.tag, comm, &receive);
  if (code != MPI_SUCCESS) return code;
  code = PMPI_Isend(out.data, out.count, out.type, out.peer, out.tag, comm, &send);
  if (code != MPI_SUCCESS) return code;
  int const sent = wait_for_library(MPI_SUCCESS, &send, MPI_STATUS_IGNORE);
  int const received = wait_for_library(MPI_SUCCESS, &receive, status);
  return received != MPI_SUCCESS ? received : sent;
}

/// Returns the code of a call that has made a communicator.
int with_early_begin(int code, MPI_Comm const* fresh) {
  if (code == MPI_SUCCESS) blink_pmpi::shim::the().begin_early(*fresh);
  return code;
}

}  // namespace

extern "C" {

int MPI_Send(void const* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return call_or_start(PMPI_Send, PMPI_Isend, data, count, type, peer, tag, comm);
}
int MPI_Ssend(void const* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return call_or_start(PMPI_Ssend, PMPI_Issend, data, count, type, peer, tag, comm);
}
int MPI_Rsend(void const* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  return call_or_start(PMPI_Rsend, PMPI_Irsend, data, count, type, peer, tag, comm);
}
int MPI_Recv(void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
             MPI_Status* status) {
  if (!are_active()) return PMPI_Recv(data, count, type, peer, tag, comm, status);
  inside const guard;
  MPI_Request request = MPI_REQUEST_NULL;
  return wait_for_library(PMPI_Irecv(data, count, type, peer, tag, comm, &request), &request,
                          status);
}
int MPI_Sendrecv(void const* out, int out_count, MPI_Datatype out_type, int to, int out_tag,
                 void* in, int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                 MPI_Status* status) {
  if (!are_active()) {
    return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag,
                         comm, status);
  }
  inside const guard;
  return send_and_receive({out, out_count, out_type, to, out_tag},
                          {in, in_count, in_type, from, in_tag}, comm, status);
}
int MPI_Sendrecv_replace(void* data, int count, MPI_Datatype type, int to, int out_tag, int from,
                         int in_tag, MPI_Comm comm, MPI_Status* status) {
  if (!are_active()) {
    return PMPI_Sendrecv_replace(data, count, type, to, out_tag, from, in_tag, comm, status);
  }
  inside const guard;
  int size = 0, bytes = 0;
  int code = PMPI_Pack_size(count, type, comm, &size);
  std::vector<char> copy(static_cast<std::size_t>(size));
  if (code == MPI_SUCCESS) code = PMPI_Pack(data, count, type, copy.data(), size, &bytes, comm);
  if (code != MPI_SUCCESS) return code;
  return send_and_receive({copy.data(), bytes, MPI_PACKED, to, out_tag},
                          {data, count, type, from, in_tag}, comm, status);
}
int MPI_Probe(int peer, int tag, MPI_Comm comm, MPI_Status* status) {
  if (!are_active()) return PMPI_Probe(peer, tag, comm, status);
  inside const guard;
  return wait_until([&](int* is_there) { return PMPI_Iprobe(peer, tag, comm, is_there, status); });
}
int MPI_Mprobe(int peer, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  if (!are_active()) return PMPI_Mprobe(peer, tag, comm, message, status);
  inside const guard;
  return wait_until(
      [&](int* is_there) { return PMPI_Improbe(peer, tag, comm, is_there, message, status); });
}
int MPI_Mrecv(void* data, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status) {
  if (!are_active()) return PMPI_Mrecv(data, count, type, message, status);
  inside const guard;
  MPI_Request request = MPI_REQUEST_NULL;
  return wait_for_library(PMPI_Imrecv(data, count, type, message, &request), &request, status);
}
int MPI_Iprobe(int peer, int tag, MPI_Comm comm, int* is_there, MPI_Status* status) {
  if (are_active()) {
    inside const guard;
    started().progress();
  }
  return PMPI_Iprobe(peer, tag, comm, is_there, status);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  started().finish();
  return with_early_begin(PMPI_Comm_dup(comm, copy), copy);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  started().finish();
  return with_early_begin(PMPI_Comm_split(comm, color, key, part), part);
}
int MPI_Comm_split_type(MPI_Comm comm, int kind, int key, MPI_Info info, MPI_Comm* part) {
  started().finish();
  return with_early_begin(PMPI_Comm_split_type(comm, kind, key, info, part), part);
}
int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* part) {
  started().finish();
  return with_early_begin(PMPI_Comm_create(comm, group, part), part);
}
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* part) {
  started().finish();
  return with_early_begin(PMPI_Comm_create_group(comm, group, tag, part), part);
}
int MPI_Cart_create(MPI_Comm comm, int count, int const sizes[], int const are_periodic[],
                    int may_reorder, MPI_Comm* grid) {
  started().finish();
  return with_early_begin(PMPI_Cart_create(comm, count, sizes, are_periodic, may_reorder, grid),
                          grid);
}
int MPI_Cart_sub(MPI_Comm comm, int const stay[], MPI_Comm* part) {
  started().finish();
  return with_early_begin(PMPI_Cart_sub(comm, stay, part), part);
}
int MPI_Intercomm_create(MPI_Comm comm, int leader, MPI_Comm both, int other, int tag,
                         MPI_Comm* result) {
  started().finish();
  return PMPI_Intercomm_create(comm, leader, both, other, tag, result);
}
int MPI_Intercomm_merge(MPI_Comm comm, int is_high, MPI_Comm* all) {
  started().finish();
  return with_early_begin(PMPI_Intercomm_merge(comm, is_high, all), all);
}

int MPI_Scan(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
             MPI_Comm comm) {
  started().finish();
  return PMPI_Scan(input, output, count, type, op, comm);
}
int MPI_Exscan(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
               MPI_Comm comm) {
  started().finish();
  return PMPI_Exscan(input, output, count, type, op, comm);
}
int MPI_Alltoallw(void const* input, int const input_counts[], int const input_places[],
                  MPI_Datatype const input_types[], void* output, int const output_counts[],
                  int const output_places[], MPI_Datatype const output_types[], MPI_Comm comm) {
  started().finish();
  return PMPI_Alltoallw(input, input_counts, input_places, input_types, output, output_counts,
                        output_places, output_types, comm);
}

}  // extern "C"
