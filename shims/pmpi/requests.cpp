// SPDX-License-Identifier: Apache-2.0
// Calls that complete requests, those of blink and of the library: see pending_calls.hpp. If the
// program holds none of blink, they go straight to the library.

#include "pending_calls.hpp"
#include "serving.hpp"
#include "waiting.hpp"
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace {

using blink_pmpi::are_active;
using blink_pmpi::inside;
using blink_pmpi::pending_call;
using blink_pmpi::started;
using blink_pmpi::wait_for_library;
using blink_pmpi::wait_until;

/// True if the program holds requests of blink.
bool are_held() {
  return started().are_held() && !inside::is_inside();
}
/// Sets a status as that of a call that receives nothing.
void set_empty(MPI_Status* status) {
  MPI_Request none = MPI_REQUEST_NULL;
  if (status != MPI_STATUS_IGNORE) PMPI_Wait(&none, status);
}
/// Completes a call that has ended, for the program. Returns its error code.
int complete(pending_call& call, MPI_Request* request, MPI_Status* status) {
  set_empty(status);
  int const code = std::exchange(call.is_active, false) ? call.code : MPI_SUCCESS;
  auto const comm = call.named();
  if (!call.is_persistent()) {
    *request = MPI_REQUEST_NULL;
    started().release(call);
  }
  return blink_pmpi::reported(comm, code);
}
/// True if a call can be completed. Persistent calls that were not started can.
bool can_complete(pending_call const& call) {
  return !call.is_active || call.is_done;
}

/// Requests of both kinds.
class mixed_requests {
 public:
  mixed_requests(int count, MPI_Request* requests, MPI_Status* statuses)
      : requests_(requests), statuses_(statuses) {
    for (int k = 0; k < count; ++k) {
      auto* const own = started().find(requests[k]);
      ours_.push_back(own);
      theirs_.push_back(own == nullptr ? requests[k] : MPI_REQUEST_NULL);
    }
  }
  [[nodiscard]] int count() const { return static_cast<int>(theirs_.size()); }

  /// As MPI_Testall.
  int test_all(int* are_done) {
    *are_done = can_complete_ours() ? 1 : 0;
    if (*are_done == 0) return MPI_SUCCESS;
    int const code = test_theirs(are_done);
    return *are_done != 0 || code != MPI_SUCCESS ? complete_ours(code) : MPI_SUCCESS;
  }
  [[nodiscard]] bool can_complete_ours() const {
    return std::all_of(ours_.begin(), ours_.end(),
                       [](auto const* own) { return own == nullptr || can_complete(*own); });
  }
  /// Tests those of the library alone.
  int test_theirs(int* are_done) {
    int const code = PMPI_Testall(count(), theirs_.data(), are_done, statuses_);
    take_theirs();
    return code;
  }
  /// Completes blink's. Returns the code of all.
  ///
  /// code: that of the library's
  int complete_ours(int code) {
    bool const in_status = statuses_ != MPI_STATUSES_IGNORE;
    for (std::size_t k = 0; k < ours_.size(); ++k) {
      if (ours_[k] == nullptr) continue;
      int const own = complete(*ours_[k], &requests_[k], status(k));
      if (in_status) statuses_[k].MPI_ERROR = own;
      if (own != MPI_SUCCESS) code = in_status ? MPI_ERR_IN_STATUS : own;
    }
    return code;
  }
  /// As MPI_Testany.
  int test_any(int* index, int* is_done, MPI_Status* status) {
    bool any_waits = false;
    *is_done = 1;
    for (std::size_t k = 0; k < ours_.size(); ++k) {
      if (ours_[k] == nullptr || !ours_[k]->is_active) continue;
      any_waits = true;
      if (!ours_[k]->is_done) continue;
      *index = static_cast<int>(k);
      return complete(*ours_[k], &requests_[k], status);
    }
    int const code = PMPI_Testany(count(), theirs_.data(), index, is_done, status);
    take_theirs();
    if (any_waits && *is_done != 0 && *index == MPI_UNDEFINED) *is_done = 0;
    return code;
  }
  /// As MPI_Testsome.
  int test_some(int* count_done, int indices[]) {
    int done = 0;
    bool any_waits = false;
    int code = PMPI_Testsome(count(), theirs_.data(), &done, indices, statuses_);
    take_theirs();
    bool const none_theirs = done == MPI_UNDEFINED;
    if (none_theirs) done = 0;
    for (std::size_t k = 0; k < ours_.size(); ++k) {
      if (ours_[k] == nullptr || !ours_[k]->is_active) continue;
      any_waits = true;
      if (!ours_[k]->is_done) continue;
      auto const next = static_cast<std::size_t>(done++);
      indices[next] = static_cast<int>(k);
      int const own = complete(*ours_[k], &requests_[k], status(next));
      bool const in_status = statuses_ != MPI_STATUSES_IGNORE;
      if (in_status) statuses_[next].MPI_ERROR = own;
      if (own != MPI_SUCCESS) code = in_status ? MPI_ERR_IN_STATUS : own;
    }
    *count_done = none_theirs && !any_waits ? MPI_UNDEFINED : done;
    return code;
  }

 private:
  [[nodiscard]] MPI_Status* status(std::size_t k) const {
    return statuses_ == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses_[k];
  }
  void take_theirs() {
    for (std::size_t k = 0; k < ours_.size(); ++k) {
      if (ours_[k] == nullptr) requests_[k] = theirs_[k];
    }
  }

  MPI_Request* requests_;
  MPI_Status* statuses_;
  std::vector<pending_call*> ours_;  // null: the library's
  std::vector<MPI_Request> theirs_;
};

}  // namespace

extern "C" {

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  if (!are_held()) return PMPI_Wait(request, status);
  inside const guard;
  auto* const own = started().find(*request);
  if (own == nullptr) return wait_for_library(MPI_SUCCESS, request, status);
  started().progress_until([&] { return can_complete(*own); });
  return complete(*own, request, status);
}
int MPI_Test(MPI_Request* request, int* is_done, MPI_Status* status) {
  if (!are_held()) return PMPI_Test(request, is_done, status);
  inside const guard;
  started().progress();
  auto* const own = started().find(*request);
  if (own == nullptr) return PMPI_Test(request, is_done, status);
  *is_done = can_complete(*own) ? 1 : 0;
  return *is_done != 0 ? complete(*own, request, status) : MPI_SUCCESS;
}
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  if (!are_held()) return PMPI_Waitall(count, requests, statuses);
  inside const guard;
  // The library's first, because they need its progress; blink's move meanwhile.
  mixed_requests all(count, requests, statuses);
  int const code = wait_until([&](int* are_done) { return all.test_theirs(are_done); });
  started().progress_until([&] { return all.can_complete_ours(); });
  return all.complete_ours(code);
}
int MPI_Testall(int count, MPI_Request requests[], int* are_done, MPI_Status statuses[]) {
  if (!are_held()) return PMPI_Testall(count, requests, are_done, statuses);
  inside const guard;
  started().progress();
  return mixed_requests(count, requests, statuses).test_all(are_done);
}
int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  if (!are_held()) return PMPI_Waitany(count, requests, index, status);
  inside const guard;
  mixed_requests all(count, requests, MPI_STATUSES_IGNORE);
  return wait_until([&](int* is_done) { return all.test_any(index, is_done, status); });
}
int MPI_Testany(int count, MPI_Request requests[], int* index, int* is_done, MPI_Status* status) {
  if (!are_held()) return PMPI_Testany(count, requests, index, is_done, status);
  inside const guard;
  started().progress();
  return mixed_requests(count, requests, MPI_STATUSES_IGNORE).test_any(index, is_done, status);
}
int MPI_Waitsome(int count, MPI_Request requests[], int* count_done, int indices[],
                 MPI_Status statuses[]) {
  if (!are_held()) return PMPI_Waitsome(count, requests, count_done, indices, statuses);
  inside const guard;
  mixed_requests all(count, requests, statuses);
  return wait_until([&](int* is_done) {
    int const code = all.test_some(count_done, indices);
    *is_done = *count_done != 0 ? 1 : 0;
    return code;
  });
}
int MPI_Testsome(int count, MPI_Request requests[], int* count_done, int indices[],
                 MPI_Status statuses[]) {
  if (!are_held()) return PMPI_Testsome(count, requests, count_done, indices, statuses);
  inside const guard;
  started().progress();
  return mixed_requests(count, requests, statuses).test_some(count_done, indices);
}
int MPI_Request_get_status(MPI_Request request, int* is_done, MPI_Status* status) {
  if (!are_held()) return PMPI_Request_get_status(request, is_done, status);
  inside const guard;
  started().progress();
  auto const* const own = started().find(request);
  if (own == nullptr) return PMPI_Request_get_status(request, is_done, status);
  *is_done = can_complete(*own) ? 1 : 0;
  if (*is_done != 0) set_empty(status);
  return MPI_SUCCESS;
}
int MPI_Request_free(MPI_Request* request) {
  auto* const own = are_held() ? started().find(*request) : nullptr;
  if (own == nullptr) return PMPI_Request_free(request);
  // MPI allows it for no collective that is under way.
  if (own->is_active) return blink_pmpi::reported(own->named(), MPI_ERR_REQUEST);
  started().release(*own);
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}
int MPI_Cancel(MPI_Request* request) {
  auto* const own = are_held() ? started().find(*request) : nullptr;
  if (own == nullptr) return PMPI_Cancel(request);
  return blink_pmpi::reported(own->named(), MPI_ERR_REQUEST);  // no collective can be cancelled
}
int MPI_Start(MPI_Request* request) {
  auto* const own = are_held() ? started().find(*request) : nullptr;
  if (own == nullptr) return PMPI_Start(request);
  if (own->is_active || !own->is_persistent()) {
    return blink_pmpi::reported(own->named(), MPI_ERR_REQUEST);
  }
  started().start(*own, true);
  return MPI_SUCCESS;
}
int MPI_Startall(int count, MPI_Request requests[]) {
  if (!are_held()) return PMPI_Startall(count, requests);
  int code = MPI_SUCCESS;
  for (int k = 0; k < count && code == MPI_SUCCESS; ++k) code = MPI_Start(&requests[k]);
  return code;
}

int MPI_Op_free(MPI_Op* op) {
  if (!are_active() || op == nullptr || !started().free_later(*op)) return PMPI_Op_free(op);
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

}  // extern "C"
