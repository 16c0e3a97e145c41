! SPDX-License-Identifier: Apache-2.0
! Collectives of a Fortran program, by both modules of MPI. Prints its results, so that two runs can
! be compared.
module by_old_module
contains
  subroutine old_calls(rank, ranks)
    use mpi
    integer, intent(in) :: rank, ranks
    real(8) :: in(1000), out(1000), row(1000)
    real(8), allocatable :: all(:)
    integer :: code, k, request, status(MPI_STATUS_SIZE), word
    allocate(all(1000 * ranks))
    in = [(dble(mod(k * (rank + 3), 17)), k = 1, 1000)]
    call MPI_Allreduce(in, out, 1000, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
    print '(a,i0,a,f0.1)', 'rank ', rank, ', allreduce: ', sum(out)
    call MPI_Allreduce(MPI_IN_PLACE, out, 1000, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, code)
    print '(a,i0,a,f0.1)', 'rank ', rank, ', in place: ', sum(out)
    row = in
    call MPI_Bcast(row, 1000, MPI_DOUBLE_PRECISION, ranks - 1, MPI_COMM_WORLD, code)
    print '(a,i0,a,f0.1)', 'rank ', rank, ', bcast: ', sum(row)
    call MPI_Allgather(in, 1000, MPI_DOUBLE_PRECISION, all, 1000, MPI_DOUBLE_PRECISION, &
                       MPI_COMM_WORLD, code)
    print '(a,i0,a,f0.1)', 'rank ', rank, ', allgather: ', sum(all)
    out = 0
    call MPI_Reduce(in, out, 1000, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, code)
    print '(a,i0,a,f0.1)', 'rank ', rank, ', reduce: ', sum(out)
    call MPI_Iallreduce(in, out, 1000, MPI_DOUBLE_PRECISION, MPI_MIN, MPI_COMM_WORLD, request, code)
    word = rank
    call MPI_Sendrecv_replace(word, 1, MPI_INTEGER, mod(rank + 1, ranks), 1, &
                              mod(rank + ranks - 1, ranks), 1, MPI_COMM_WORLD, status, code)
    call MPI_Wait(request, status, code)
    print '(a,i0,a,f0.1,a,l1,a,i0)', 'rank ', rank, ', started: ', sum(out), ' ', &
        request == MPI_REQUEST_NULL, ' ', word
    call MPI_Barrier(MPI_COMM_WORLD, code)
  end subroutine
end module

program fortran
  use mpi_f08
  use by_old_module
  implicit none
  integer :: rank, ranks, k
  integer :: in(50), out(50), both(50)
  type(MPI_Request) :: requests(2)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call old_calls(rank, ranks)
  in = [(k * (rank + 1), k = 1, 50)]
  call MPI_Allreduce(in, out, 50, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  print '(a,i0,a,i0)', 'rank ', rank, ', allreduce of mpi_f08: ', sum(out)
  call MPI_Iallreduce(in, out, 50, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, requests(1))
  call MPI_Ireduce_scatter_block(in, both, 50 / ranks, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
                                 requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  print '(a,i0,a,i0,a,i0)', 'rank ', rank, ', started by mpi_f08: ', sum(out), ' ', &
      sum(both(1:50 / ranks))
  call MPI_Finalize()
end program
