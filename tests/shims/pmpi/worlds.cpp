// SPDX-License-Identifier: Apache-2.0
// Ranks that may lack the preloaded library, and errors as texts. The argument is the case:
// "spawned", "programs" (each program of a launch), "errors" or "late"; a second one changes it.
// Ends with 1 if a result is wrong.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

int sum_of_ranks(MPI_Comm comm) {
  int rank = 0, ranks = 0, sum = -1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  return sum == ranks * (ranks - 1) / 2 ? 0 : 1;
}

// Parents start two children, with the library or without, and both call on all of them.
int spawned(char const* program, bool with_library) {
  MPI_Comm parent = MPI_COMM_NULL, other = MPI_COMM_NULL, all = MPI_COMM_NULL, half = MPI_COMM_NULL;
  MPI_Comm_get_parent(&parent);
  int wrong = 0;
  if (parent == MPI_COMM_NULL) {
    wrong += sum_of_ranks(MPI_COMM_WORLD);
    if (!with_library) unsetenv("LD_PRELOAD");
    std::string name = "spawned";
    char* arguments[] = {name.data(), nullptr};
    MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                   MPI_ERRCODES_IGNORE);
  } else {
    other = parent;
  }
  MPI_Intercomm_merge(other, parent != MPI_COMM_NULL ? 1 : 0, &all);
  wrong += sum_of_ranks(all);
  int rank = 0;
  MPI_Comm_rank(all, &rank);
  MPI_Comm_split(all, rank % 2, rank, &half);  // also with ranks of both
  wrong += sum_of_ranks(half);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, all);
  MPI_Comm_free(&half);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&other);
  return wrong;
}

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}
MPI_Comm copy_with_codes() {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  MPI_Barrier(copy);  // begins its blink communicator, also with Open MPI
  return copy;
}

// Ranks that call different things can read why: at once, or when they complete what they started.
int errors(bool starts) {
  MPI_Comm copy = copy_with_codes();
  int rank = 0;
  MPI_Comm_rank(copy, &rank);
  float data[4] = {};
  auto const type = rank == 0 ? MPI_FLOAT : MPI_INT;
  int code = MPI_SUCCESS;
  if (starts) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    MPI_Iallreduce(MPI_IN_PLACE, data, 2, type, MPI_SUM, copy, &requests[1]);
    // Then the error belongs to the world.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_free(&copy);
    if (MPI_Waitall(2, requests, statuses) == MPI_ERR_IN_STATUS) code = statuses[1].MPI_ERROR;
  } else {
    code = MPI_Allreduce(MPI_IN_PLACE, data, 2, type, MPI_SUM, copy);
  }
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  auto const text = text_of(code);
  bool const says_it = text.find("calls all_reduce, call 2, with types") != std::string::npos;
  if (!says_it || kind == MPI_SUCCESS) std::printf("rank %d: %d, %s\n", rank, kind, text.c_str());
  if (copy != MPI_COMM_NULL) MPI_Comm_free(&copy);
  return says_it && kind != MPI_SUCCESS ? 0 : 1;
}

// The others never start the call. The deadline also ends a loop of tests.
int late(bool tests) {
  MPI_Comm copy = copy_with_codes();
  int rank = 0, code = MPI_SUCCESS, is_done = 0;
  MPI_Comm_rank(copy, &rank);
  std::string text = "rank 1";
  if (rank == 0) {
    MPI_Request request = MPI_REQUEST_NULL;
    float in = 1, out = 0;
    MPI_Iallreduce(&in, &out, 1, MPI_FLOAT, MPI_SUM, copy, &request);
    while (tests && is_done == 0) code = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
    if (!tests) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    text = text_of(code);
    std::printf("%s\n", text.c_str());
  } else {
    MPI_Recv(&code, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  int ranks = 0, word = 0;
  MPI_Comm_size(copy, &ranks);
  for (int peer = 1; peer < ranks && rank == 0; ++peer)
    MPI_Send(&word, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
  MPI_Comm_free(&copy);
  return rank != 0 || (code != MPI_SUCCESS && text.find("rank 1") != std::string::npos) ? 0 : 1;
}

}  // namespace

int main(int count, char** texts) {
  MPI_Init(&count, &texts);
  std::string_view const what = count > 1 ? texts[1] : "";
  int wrong = 1;
  if (what == "spawned") wrong = spawned(texts[0], count > 2);
  if (what == "programs") wrong = sum_of_ranks(MPI_COMM_WORLD);
  if (what == "errors") wrong = errors(count > 2);
  if (what == "late") wrong = late(count > 2);
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
