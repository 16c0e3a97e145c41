// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/host/host_rendezvous.hpp>
#include <blink/transports/mpi/channel.hpp>

#include <cstddef>

namespace blink { inline namespace BLINK_ABI {

/// A bootstrap over an MPI communicator, for processes of one host. MPI's own errors and waits
/// apply.
class mpi_bootstrap {
 public:
  /// Pre:    MPI is initialised, and stays so while this object is used.
  explicit mpi_bootstrap(MPI_Comm all) : all_(all) {
    MPI_Comm_rank(all, &process_);
    MPI_Comm_size(all, &count_);
  }
  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int process_count() const { return count_; }
  /// Gathers `bytes` bytes of each process into `all`, by process. Collective.
  ///
  /// Throws: error if the MPI library fails and returns.
  void all_gather(void const* own, void* all, std::size_t bytes) {
    int const code = MPI_Allgather(own, static_cast<int>(bytes), MPI_BYTE, all,
                                   static_cast<int>(bytes), MPI_BYTE, all_);
    if (code != MPI_SUCCESS) throw error("MPI_Allgather: " + mpi_error_text(code));
  }

 private:
  MPI_Comm all_;
  int process_ = 0;
  int count_ = 1;
};
static_assert(process_bootstrap<mpi_bootstrap>);

}}  // namespace blink::BLINK_ABI
