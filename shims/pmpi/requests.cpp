// SPDX-License-Identifier: Apache-2.0
// Calls that complete requests or wait for other ranks, while collectives are under way that the
// program has started: see pending_calls.hpp. Each call gives the started ones time. If there are
// none it goes straight to the library.

#include "pending_calls.hpp"
#include "serving.hpp"
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace {

using blink_pmpi::inside;
using blink_pmpi::pending_call;
using blink_pmpi::pending_calls;

pending_calls& started() {
  return pending_calls::the();
}
/// True if the program holds requests of blink.
bool are_held() {
  return started().are_held() && !inside::is_inside();
}
/// True if started calls must move while a call waits.
bool are_active() {
  return started().are_active() && !inside::is_inside();
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

/// Moves the started calls until `test(is_done)` sets `is_done` or fails. Returns its code.
template <class Test>
int wait_until(Test const& test) {
  int is_done = 0;
  int code = MPI_SUCCESS;
  started().progress_until([&] {
    code = test(&is_done);
    return is_done != 0 || code != MPI_SUCCESS;
  });
  return code;
}
/// Completes a request of the library while started calls go on.
int wait_for_library(int code, MPI_Request* request, MPI_Status* status) {
  if (code != MPI_SUCCESS) return code;
  return wait_until([&](int* is_done) { return PMPI_Test(request, is_done, status); });
}

/// Returns the code of a call that has made a communicator.
int with_early_begin(int code, MPI_Comm const* fresh) {
  if (code == MPI_SUCCESS) blink_pmpi::shim::the().begin_early(*fresh);
  return code;
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

int MPI_Send(void const* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  if (!are_active()) return PMPI_Send(data, count, type, peer, tag, comm);
  inside const guard;
  MPI_Request request = MPI_REQUEST_NULL;
  return wait_for_library(PMPI_Isend(data, count, type, peer, tag, comm, &request), &request,
                          MPI_STATUS_IGNORE);
}
int MPI_Ssend(void const* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  if (!are_active()) return PMPI_Ssend(data, count, type, peer, tag, comm);
  inside const guard;
  MPI_Request request = MPI_REQUEST_NULL;
  return wait_for_library(PMPI_Issend(data, count, type, peer, tag, comm, &request), &request,
                          MPI_STATUS_IGNORE);
}
int MPI_Rsend(void const* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm) {
  if (!are_active()) return PMPI_Rsend(data, count, type, peer, tag, comm);
  inside const guard;
  MPI_Request request = MPI_REQUEST_NULL;
  return wait_for_library(PMPI_Irsend(data, count, type, peer, tag, comm, &request), &request,
                          MPI_STATUS_IGNORE);
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

// All ranks of a communicator wait in these calls, and nothing else moves then.
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
