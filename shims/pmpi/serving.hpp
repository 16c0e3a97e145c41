// SPDX-License-Identifier: Apache-2.0
#pragma once

// The three ways in which a program makes a collective call: it waits for its end, it starts it, or
// it makes a persistent one. The calls themselves are in
// reducing_calls.hpp, copying_calls.hpp and unequal_calls.hpp.

#include <blink/core/error.hpp>

#include "communicators.hpp"
#include "error_codes.hpp"
#include "fortran.hpp"
#include "library_functions.hpp"
#include "pending_calls.hpp"
#include <mpi.h>

#include <concepts>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <tuple>

namespace blink_pmpi {

/// A collective call of MPI with its arguments. It can be copied byte by byte.
///
/// - `name` is the call, for reports.
/// - `is_taken(here)` is true if blink serves it. Equal on all ranks.
/// - `run(here, code)` serves it. Returns false on all ranks if the arguments of one have errors
///   that the MPI library must report.
/// - `library` are the MPI library's functions, which take `arguments()`.
/// - `for_each_type(keep)`, if there, calls `keep(type)` for each datatype of the program.
template <class C>
concept collective_of_mpi = requires(C const& call, attached& here, int& code) {
  { C::name } -> std::convertible_to<entry>;
  { call.comm } -> std::convertible_to<MPI_Comm>;
  { call.is_taken(here) } -> std::same_as<bool>;
  { call.run(here, code) } -> std::same_as<bool>;
  { std::apply(C::library.call, call.arguments()) } -> std::same_as<int>;
};

template <collective_of_mpi Call>
int by_library(Call const& call) {
  return std::apply(Call::library.call, call.arguments());
}
template <collective_of_mpi Call>
int start_by_library(Call const& call, MPI_Request* request) {
  return std::apply([&](auto... all) { return Call::library.start(all..., request); },
                    call.arguments());
}

/// Runs `work()`, which returns an error code of MPI. Turns exceptions into such codes.
template <class Work>
int code_of(entry what, Work const& work) {
  try {
    return work();
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "blink: MPI_%s: %s\n", entry_names[static_cast<std::size_t>(what)],
                 problem.what());
    bool const is_argument = dynamic_cast<blink::precondition_error const*>(&problem) != nullptr;
    return code_of_error(is_argument ? MPI_ERR_BUFFER : MPI_ERR_OTHER, problem.what());
  }
}
/// Reports an error of a call as the MPI library would. Returns the code.
inline int reported(MPI_Comm comm, int code) {
  if (code != MPI_SUCCESS) PMPI_Comm_call_errhandler(comm, code);
  return code;
}
/// True if a call on the communicator goes to the MPI library, which also reports the error of a
/// null one.
inline bool is_for_library(MPI_Comm comm) {
  return inside::is_inside() || comm == MPI_COMM_NULL || comm == freeing::present();
}

/// Serves a call whose end the program waits for.
template <collective_of_mpi Call>
int serve(Call const& call) {
  if (is_for_library(call.comm)) return by_library(call);
  auto& started = pending_calls::the();
  started.finish(call.comm);  // they come first, on all ranks
  {
    inside const guard;
    bool is_served = true;
    int const code = code_of(Call::name, [&] {
      int result = MPI_SUCCESS;
      auto* const here = shim::the().find(call.comm);
      is_served = here != nullptr && call.is_taken(*here) && call.run(*here, result);
      shim::the().count(Call::name, is_served);
      return result;
    });
    if (is_served) return reported(call.comm, code);
  }
  started.finish();  // they do not move while the library waits
  return by_library(call);
}

/// See `pending_call`. Runs on a stack of its own.
template <class Call>
int run_started(Call const& call, bool is_taken) {
  return code_of(Call::name, [&] {
    int code = MPI_SUCCESS;
    auto* const here = shim::the().find(call.comm);
    bool const is_served = here != nullptr && (is_taken || call.is_taken(*here));
    shim::the().count(Call::name, is_served);
    if (is_served) {
      if (call.run(*here, code)) return code;
      throw blink::precondition_error(
          "a rank has negative counts, no datatype, or elements above 2 GiB");
    }
    MPI_Request request = MPI_REQUEST_NULL;
    Call other = call;
    other.comm = shim::the().duplicate_of(call.comm);
    code = start_by_library(other, &request);
    return code == MPI_SUCCESS ? await(request) : code;
  });
}

/// Finds out who serves a call that is about to be started.
///
/// Returns: false if the library serves it, on all ranks; else it goes through `run_started`
/// is_taken: set to true if blink serves it; else that turns out later
template <collective_of_mpi Call>
bool is_started_here(Call const& call, bool& is_taken) {
  shim::the().note_start();
  auto const known = shim::the().find_known(call.comm);
  if (!known.has_value()) return shim::can_begin_in_started_calls;
  if (shim::the().began_in_started_call(call.comm, *known)) return true;
  is_taken = *known != nullptr && call.is_taken(**known);
  return is_taken;
}

/// Starts a call.
template <collective_of_mpi Call>
int start(Call const& call, MPI_Request* request) {
  if (is_for_library(call.comm) || request == nullptr || !sees_fortran()) {
    return start_by_library(call, request);
  }
  inside const guard;
  bool is_taken = false;
  if (!is_started_here(call, is_taken)) {
    shim::the().count(Call::name, false);
    return start_by_library(call, request);
  }
  auto& made = pending_calls::the().make(call);
  *request = made.handle();
  pending_calls::the().start(made, is_taken);
  return MPI_SUCCESS;
}

#if MPI_VERSION >= 4
/// Makes a persistent call. All ranks do so together.
template <collective_of_mpi Call>
int make(Call const& call, MPI_Info info, MPI_Request* request) {
  auto const make_by_library = [&] {
    return std::apply([&](auto... all) { return Call::library.make(all..., info, request); },
                      call.arguments());
  };
  if (is_for_library(call.comm) || request == nullptr || !sees_fortran()) {
    return make_by_library();
  }
  pending_calls::the().finish(call.comm);
  {
    inside const guard;
    auto* const here = shim::the().find(call.comm);
    if (here != nullptr && call.is_taken(*here)) {
      // Ranks may start persistent calls in different orders, so each has its own communicator.
      Call own = call;
      own.comm = shim::duplicate(call.comm);
      if (own.comm != MPI_COMM_NULL && shim::the().find(own.comm) != nullptr) {
        *request = pending_calls::the().make(own, call.comm).handle();
        return MPI_SUCCESS;
      }
      if (own.comm != MPI_COMM_NULL) PMPI_Comm_free(&own.comm);
    }
  }
  return make_by_library();
}
#endif

}  // namespace blink_pmpi
