// SPDX-License-Identifier: Apache-2.0
// Runs the collectives of an unmodified MPI program through blink:
//
//   mpirun -n 4 env LD_PRELOAD=$PWD/libblink_pmpi.so ./program
//
// Every MPI library has each call under two names, MPI_X for programs and PMPI_X for tools. So a
// library that is loaded first can intercept MPI_X. This library passes the calls that it does not
// serve to PMPI_X.
//
// The decision is the same on every rank. It depends on values that MPI requires to be equal on all
// ranks: the communicator, the operation, element type and count of reductions, the bytes of a
// copy. It also depends on the agreement at a communicator's first use. Where only some ranks know
// the sizes, the ranks exchange them first.
//
// This file has the calls that wait for their end; started_calls.cpp has those that do not, and
// requests.cpp those that complete them. large_counts.cpp has their forms with counts of 64 bits,
// waiting_calls.cpp other calls that wait for ranks.
//
//   BLINK_SHARED_MEMORY=0    Ranks of one host do not share memory, but send MPI messages.
//   BLINK_ORDER=ranks        Reductions combine along one tree of the ranks, with the same bits for
//                            any length and on any hosts. As the info key blink_order, which
//                            MPI_Comm_set_info and MPI_Comm_dup_with_info take.
//   BLINK_PMPI_LEAST=BYTES   Shorter messages go to the MPI library; 0 if unset.
//   BLINK_PMPI_ALL_PROGRAMS=1  Each program of a launch has this library loaded (Open MPI).
//   BLINK_PMPI_REPORT=1      At the end, rank 0 reports how many calls took which path.
//   BLINK_DEADLINE=SECONDS   A call that waits this long fails. If unset: a day.

#include "communicators.hpp"
#include "copying_calls.hpp"
#include "pending_calls.hpp"
#include "reducing_calls.hpp"
#include "serving.hpp"
#include "unequal_calls.hpp"
#include "user_data.hpp"
#include <mpi.h>

using namespace blink_pmpi;

extern "C" {

int MPI_Init(int* count, char*** texts) {
  int const code = PMPI_Init(count, texts);
  if (code == MPI_SUCCESS) shim::the().begin();
  return code;
}

int MPI_Init_thread(int* count, char*** texts, int wanted, int* level) {
  int const code = PMPI_Init_thread(count, texts, wanted, level);
  if (code == MPI_SUCCESS) shim::the().begin();
  return code;
}

int MPI_Comm_free(MPI_Comm* comm) {
  if (comm != nullptr) pending_calls::the().finish_for_good(*comm);
  freeing const guard(comm == nullptr ? MPI_COMM_NULL : *comm);
  return PMPI_Comm_free(comm);
}

int MPI_Comm_disconnect(MPI_Comm* comm) {
  if (comm != nullptr) pending_calls::the().finish_for_good(*comm);
  freeing const guard(comm == nullptr ? MPI_COMM_NULL : *comm);
  return PMPI_Comm_disconnect(comm);
}

int MPI_Comm_set_info(MPI_Comm comm, MPI_Info info) {
  pending_calls::the().finish();
  int const code = PMPI_Comm_set_info(comm, info);
  if (code != MPI_SUCCESS) return code;
  return reported(comm, shim::the().take_hints(comm, info));
}

int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* copy) {
  pending_calls::the().finish();
  int code = PMPI_Comm_dup_with_info(comm, info, copy);
  if (code != MPI_SUCCESS) return code;
  code = shim::the().take_hints(*copy, info);
  if (code == MPI_SUCCESS) shim::the().begin_early(*copy);
  return reported(comm, code);
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return serve(bcast_call{buffer, count, type, root, comm});
}
int MPI_Allgather(void const* input, int input_count, MPI_Datatype input_type, void* output,
                  int output_count, MPI_Datatype output_type, MPI_Comm comm) {
  return serve(
      allgather_call{input, input_count, input_type, output, output_count, output_type, comm});
}
int MPI_Allgatherv(void const* input, int input_count, MPI_Datatype input_type, void* output,
                   int const counts[], int const displacements[], MPI_Datatype output_type,
                   MPI_Comm comm) {
  return serve(allgatherv_call{input, input_count, input_type, output, counts, displacements,
                               output_type, comm});
}
int MPI_Gather(void const* input, int input_count, MPI_Datatype input_type, void* output,
               int output_count, MPI_Datatype output_type, int root, MPI_Comm comm) {
  return serve(
      gather_call{input, input_count, input_type, output, output_count, output_type, root, comm});
}
int MPI_Gatherv(void const* input, int input_count, MPI_Datatype input_type, void* output,
                int const counts[], int const displacements[], MPI_Datatype output_type, int root,
                MPI_Comm comm) {
  return serve(gatherv_call{input, input_count, input_type, output, counts, displacements,
                            output_type, root, comm});
}
int MPI_Scatter(void const* input, int input_count, MPI_Datatype input_type, void* output,
                int output_count, MPI_Datatype output_type, int root, MPI_Comm comm) {
  return serve(
      scatter_call{input, input_count, input_type, output, output_count, output_type, root, comm});
}
int MPI_Scatterv(void const* input, int const counts[], int const displacements[],
                 MPI_Datatype input_type, void* output, int output_count, MPI_Datatype output_type,
                 int root, MPI_Comm comm) {
  return serve(scatterv_call{input, counts, displacements, input_type, output, output_count,
                             output_type, root, comm});
}
int MPI_Alltoall(void const* input, int input_count, MPI_Datatype input_type, void* output,
                 int output_count, MPI_Datatype output_type, MPI_Comm comm) {
  return serve(
      alltoall_call{input, input_count, input_type, output, output_count, output_type, comm});
}
int MPI_Alltoallv(void const* input, int const input_counts[], int const input_displacements[],
                  MPI_Datatype input_type, void* output, int const output_counts[],
                  int const output_displacements[], MPI_Datatype output_type, MPI_Comm comm) {
  return serve(alltoallv_call{input, input_counts, input_displacements, input_type, output,
                              output_counts, output_displacements, output_type, comm});
}
int MPI_Allreduce(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  return serve(allreduce_call{input, output, count, type, op, comm});
}
int MPI_Reduce(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm) {
  return serve(reduce_call{input, output, count, type, op, root, comm});
}
int MPI_Reduce_scatter_block(void const* input, void* output, int count, MPI_Datatype type,
                             MPI_Op op, MPI_Comm comm) {
  return serve(reduce_scatter_block_call{input, output, count, type, op, comm});
}
int MPI_Reduce_scatter(void const* input, void* output, int const counts[], MPI_Datatype type,
                       MPI_Op op, MPI_Comm comm) {
  return serve(reduce_scatter_call{input, output, counts, type, op, comm});
}
int MPI_Barrier(MPI_Comm comm) {
  return serve(barrier_call{comm});
}

}  // extern "C"
