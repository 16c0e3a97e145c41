// SPDX-License-Identifier: Apache-2.0
// Each side of blink compiles after macros of other libraries, and leaves them as they were.

#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define slots
#define signals public
#define emit
#define foreach(x, y) for (x : y)
#define check(x) (x)
#define verify(x) (x)
#define require(x) (x)
#define wait(x) (x)
#define A 1
#define I 2
#define K 3
#define N 100
#define P 7
#define T double
#define count 5
#define none 6
#define rank 7
#define root 8
#define size 9
#define Value int
#define Bool int
#define None 0L
#define Status int
#define Success 0
#define Always 2
#define True 1
#define False 0

#include <blink/collectives.hpp>
#include <blink/planning.hpp>
#include <blink/reducers.hpp>
#ifdef BLINK_WITH_MPI
#include <blink/mpi.hpp>
#endif

static_assert(min(3, N) == 3 && max(count, root) == 8 && None == 0 && True + False == 1);
static_assert(sizeof(T) == sizeof(double) && rank == 7 && size == 9 && A + I + K + P == 13);
slots emit static_assert(check(none) == 6 && wait(Always) == 2 && Success == 0);
