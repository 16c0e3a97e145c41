// SPDX-License-Identifier: Apache-2.0
// Nonblocking and persistent collectives through blink: see blink_pmpi.cpp and pending_calls.hpp.

#include "copying_calls.hpp"
#include "reducing_calls.hpp"
#include "serving.hpp"
#include "unequal_calls.hpp"
#include <mpi.h>

using namespace blink_pmpi;

extern "C" {

int MPI_Ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request* request) {
  return start(bcast_call{buffer, count, type, root, comm}, request);
}
int MPI_Iallgather(void const* input, int input_count, MPI_Datatype input_type, void* output,
                   int output_count, MPI_Datatype output_type, MPI_Comm comm,
                   MPI_Request* request) {
  return start(
      allgather_call{input, input_count, input_type, output, output_count, output_type, comm},
      request);
}
int MPI_Iallgatherv(void const* input, int input_count, MPI_Datatype input_type, void* output,
                    int const counts[], int const displacements[], MPI_Datatype output_type,
                    MPI_Comm comm, MPI_Request* request) {
  return start(allgatherv_call{input, input_count, input_type, output, counts, displacements,
                               output_type, comm},
               request);
}
int MPI_Igather(void const* input, int input_count, MPI_Datatype input_type, void* output,
                int output_count, MPI_Datatype output_type, int root, MPI_Comm comm,
                MPI_Request* request) {
  return start(
      gather_call{input, input_count, input_type, output, output_count, output_type, root, comm},
      request);
}
int MPI_Igatherv(void const* input, int input_count, MPI_Datatype input_type, void* output,
                 int const counts[], int const displacements[], MPI_Datatype output_type, int root,
                 MPI_Comm comm, MPI_Request* request) {
  return start(gatherv_call{input, input_count, input_type, output, counts, displacements,
                            output_type, root, comm},
               request);
}
int MPI_Iscatter(void const* input, int input_count, MPI_Datatype input_type, void* output,
                 int output_count, MPI_Datatype output_type, int root, MPI_Comm comm,
                 MPI_Request* request) {
  return start(
      scatter_call{input, input_count, input_type, output, output_count, output_type, root, comm},
      request);
}
int MPI_Iscatterv(void const* input, int const counts[], int const displacements[],
                  MPI_Datatype input_type, void* output, int output_count, MPI_Datatype output_type,
                  int root, MPI_Comm comm, MPI_Request* request) {
  return start(scatterv_call{input, counts, displacements, input_type, output, output_count,
                             output_type, root, comm},
               request);
}
int MPI_Ialltoall(void const* input, int input_count, MPI_Datatype input_type, void* output,
                  int output_count, MPI_Datatype output_type, MPI_Comm comm, MPI_Request* request) {
  return start(
      alltoall_call{input, input_count, input_type, output, output_count, output_type, comm},
      request);
}
int MPI_Ialltoallv(void const* input, int const input_counts[], int const input_displacements[],
                   MPI_Datatype input_type, void* output, int const output_counts[],
                   int const output_displacements[], MPI_Datatype output_type, MPI_Comm comm,
                   MPI_Request* request) {
  return start(alltoallv_call{input, input_counts, input_displacements, input_type, output,
                              output_counts, output_displacements, output_type, comm},
               request);
}
int MPI_Iallreduce(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request* request) {
  return start(allreduce_call{input, output, count, type, op, comm}, request);
}
int MPI_Ireduce(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm, MPI_Request* request) {
  return start(reduce_call{input, output, count, type, op, root, comm}, request);
}
int MPI_Ireduce_scatter_block(void const* input, void* output, int count, MPI_Datatype type,
                              MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return start(reduce_scatter_block_call{input, output, count, type, op, comm}, request);
}
int MPI_Ireduce_scatter(void const* input, void* output, int const counts[], MPI_Datatype type,
                        MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return start(reduce_scatter_call{input, output, counts, type, op, comm}, request);
}
int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  return start(barrier_call{comm}, request);
}

#if MPI_VERSION >= 4
int MPI_Bcast_init(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm,
                   MPI_Info info, MPI_Request* request) {
  return make(bcast_call{buffer, count, type, root, comm}, info, request);
}
int MPI_Allgather_init(void const* input, int input_count, MPI_Datatype input_type, void* output,
                       int output_count, MPI_Datatype output_type, MPI_Comm comm, MPI_Info info,
                       MPI_Request* request) {
  return make(
      allgather_call{input, input_count, input_type, output, output_count, output_type, comm}, info,
      request);
}
int MPI_Allgatherv_init(void const* input, int input_count, MPI_Datatype input_type, void* output,
                        int const counts[], int const displacements[], MPI_Datatype output_type,
                        MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return make(allgatherv_call{input, input_count, input_type, output, counts, displacements,
                              output_type, comm},
              info, request);
}
int MPI_Gather_init(void const* input, int input_count, MPI_Datatype input_type, void* output,
                    int output_count, MPI_Datatype output_type, int root, MPI_Comm comm,
                    MPI_Info info, MPI_Request* request) {
  return make(
      gather_call{input, input_count, input_type, output, output_count, output_type, root, comm},
      info, request);
}
int MPI_Gatherv_init(void const* input, int input_count, MPI_Datatype input_type, void* output,
                     int const counts[], int const displacements[], MPI_Datatype output_type,
                     int root, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return make(gatherv_call{input, input_count, input_type, output, counts, displacements,
                           output_type, root, comm},
              info, request);
}
int MPI_Scatter_init(void const* input, int input_count, MPI_Datatype input_type, void* output,
                     int output_count, MPI_Datatype output_type, int root, MPI_Comm comm,
                     MPI_Info info, MPI_Request* request) {
  return make(
      scatter_call{input, input_count, input_type, output, output_count, output_type, root, comm},
      info, request);
}
int MPI_Scatterv_init(void const* input, int const counts[], int const displacements[],
                      MPI_Datatype input_type, void* output, int output_count,
                      MPI_Datatype output_type, int root, MPI_Comm comm, MPI_Info info,
                      MPI_Request* request) {
  return make(scatterv_call{input, counts, displacements, input_type, output, output_count,
                            output_type, root, comm},
              info, request);
}
int MPI_Alltoall_init(void const* input, int input_count, MPI_Datatype input_type, void* output,
                      int output_count, MPI_Datatype output_type, MPI_Comm comm, MPI_Info info,
                      MPI_Request* request) {
  return make(
      alltoall_call{input, input_count, input_type, output, output_count, output_type, comm}, info,
      request);
}
int MPI_Alltoallv_init(void const* input, int const input_counts[], int const input_displacements[],
                       MPI_Datatype input_type, void* output, int const output_counts[],
                       int const output_displacements[], MPI_Datatype output_type, MPI_Comm comm,
                       MPI_Info info, MPI_Request* request) {
  return make(alltoallv_call{input, input_counts, input_displacements, input_type, output,
                             output_counts, output_displacements, output_type, comm},
              info, request);
}
int MPI_Allreduce_init(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return make(allreduce_call{input, output, count, type, op, comm}, info, request);
}
int MPI_Reduce_init(void const* input, void* output, int count, MPI_Datatype type, MPI_Op op,
                    int root, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return make(reduce_call{input, output, count, type, op, root, comm}, info, request);
}
int MPI_Reduce_scatter_block_init(void const* input, void* output, int count, MPI_Datatype type,
                                  MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return make(reduce_scatter_block_call{input, output, count, type, op, comm}, info, request);
}
int MPI_Reduce_scatter_init(void const* input, void* output, int const counts[], MPI_Datatype type,
                            MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return make(reduce_scatter_call{input, output, counts, type, op, comm}, info, request);
}
int MPI_Barrier_init(MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return make(barrier_call{comm}, info, request);
}
#endif

}  // extern "C"
