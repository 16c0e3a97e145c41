// SPDX-License-Identifier: Apache-2.0
// Collectives of MPI 4 with counts of 64 bits: see blink_pmpi.cpp. Counts above 2^31 go to the
// library, as their bytes do. So do lists of such counts.

#include <mpi.h>

#include <limits>
#include <type_traits>

#if MPI_VERSION >= 4

namespace {

template <class T>
constexpr bool is_count = std::is_same_v<T, MPI_Count> && !std::is_same_v<T, int>;

/// Calls `own`, the form with counts that are ints, or else the library's.
template <class Own, class Library, class... Arguments>
int with_int_counts(Own own, Library library, Arguments... arguments) {
  auto const fits = [](auto argument) {
    if constexpr (is_count<decltype(argument)>) {
      return 0 <= argument && argument <= std::numeric_limits<int>::max();
    } else {
      return true;
    }
  };
  auto const narrow = [](auto argument) {
    if constexpr (is_count<decltype(argument)>) {
      return static_cast<int>(argument);
    } else {
      return argument;
    }
  };
  return (fits(arguments) && ...) ? own(narrow(arguments)...) : library(arguments...);
}

// Counts that a call ignores may have any value. Such a value must not send one rank to the library
// and the others to blink.

/// The count of a buffer; 0 if it is MPI_IN_PLACE, which has none.
MPI_Count count_of(void const* buffer, MPI_Count count) {
  return buffer == MPI_IN_PLACE ? 0 : count;
}
/// A count that only the root gives; 0 on other ranks if it is none that an int holds.
MPI_Count count_at_root(MPI_Count count, int root, MPI_Comm comm) {
  if (0 <= count && count <= std::numeric_limits<int>::max()) return count;
  int rank = -1;
  bool const is_root =
      root == MPI_ROOT || (PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS && rank == root);
  return is_root ? count : 0;
}

}  // namespace

// C gives each collective three functions, which differ in their names and last arguments: it waits
// for its end, it is started, or it is made for many starts.
#define BLINK_PMPI_ALL(...) __VA_ARGS__
#define BLINK_PMPI_LARGE(NAME, STARTED, PARAMETERS, ...)                                     \
  int MPI_##NAME##_c(BLINK_PMPI_ALL PARAMETERS, MPI_Comm comm) {                             \
    return with_int_counts(MPI_##NAME, PMPI_##NAME##_c, __VA_ARGS__, comm);                  \
  }                                                                                          \
  int MPI_##STARTED##_c(BLINK_PMPI_ALL PARAMETERS, MPI_Comm comm, MPI_Request* request) {    \
    return with_int_counts(MPI_##STARTED, PMPI_##STARTED##_c, __VA_ARGS__, comm, request);   \
  }                                                                                          \
  int MPI_##NAME##_init_c(BLINK_PMPI_ALL PARAMETERS, MPI_Comm comm, MPI_Info info,           \
                          MPI_Request* request) {                                            \
    return with_int_counts(MPI_##NAME##_init, PMPI_##NAME##_init_c, __VA_ARGS__, comm, info, \
                           request);                                                         \
  }

extern "C" {

BLINK_PMPI_LARGE(Bcast, Ibcast, (void* buffer, MPI_Count count, MPI_Datatype type, int root),
                 buffer, count, type, root)
BLINK_PMPI_LARGE(Allgather, Iallgather,
                 (void const* input, MPI_Count input_count, MPI_Datatype input_type, void* output,
                  MPI_Count output_count, MPI_Datatype output_type),
                 input, count_of(input, input_count), input_type, output, output_count, output_type)
BLINK_PMPI_LARGE(Alltoall, Ialltoall,
                 (void const* input, MPI_Count input_count, MPI_Datatype input_type, void* output,
                  MPI_Count output_count, MPI_Datatype output_type),
                 input, count_of(input, input_count), input_type, output, output_count, output_type)
BLINK_PMPI_LARGE(Gather, Igather,
                 (void const* input, MPI_Count input_count, MPI_Datatype input_type, void* output,
                  MPI_Count output_count, MPI_Datatype output_type, int root),
                 input, count_of(input, input_count), input_type, output,
                 count_at_root(output_count, root, comm), output_type, root)
BLINK_PMPI_LARGE(Scatter, Iscatter,
                 (void const* input, MPI_Count input_count, MPI_Datatype input_type, void* output,
                  MPI_Count output_count, MPI_Datatype output_type, int root),
                 input, count_at_root(input_count, root, comm), input_type, output,
                 count_of(output, output_count), output_type, root)
BLINK_PMPI_LARGE(Allreduce, Iallreduce,
                 (void const* input, void* output, MPI_Count count, MPI_Datatype type, MPI_Op op),
                 input, output, count, type, op)
BLINK_PMPI_LARGE(Reduce, Ireduce,
                 (void const* input, void* output, MPI_Count count, MPI_Datatype type, MPI_Op op,
                  int root),
                 input, output, count, type, op, root)
BLINK_PMPI_LARGE(Reduce_scatter_block, Ireduce_scatter_block,
                 (void const* input, void* output, MPI_Count count, MPI_Datatype type, MPI_Op op),
                 input, output, count, type, op)

}  // extern "C"

#endif
