// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <concepts>
#include <cstddef>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// Return values of NCCL's functions, as far as they matter here.
inline constexpr int nccl_success = 0;
inline constexpr int nccl_in_progress = 7;  ///< of communicators that do not block

/// The functions of NCCL that blink uses, or of a stand-in with its rules: point-to-point calls in
/// groups, and error reports. `nccl_library` (nccl.cuh) is NCCL itself.
///
/// Semantics beyond the syntax, which are those of NCCL:
/// - Functions return the result code of NCCL's functions. Queries write the answer to their last
///   argument.
/// - Between `group_start` and `group_end`, sends and receives are only recorded. `group_end` puts
///   them into their streams as one operation for each communicator. The operation begins when the
///   stream reaches it and ends when all its transfers are done. They do not wait for each other. A
///   group may name several communicators.
/// - The k-th send from a rank to another matches the k-th receive there. They count in the order
///   of the groups, and within a group in the order in which they are recorded.
/// - `group_end` may block the host if a pair has not met before, until both ends are in a group
///   that joins them. It may also block until streams have room.
/// - `asynchronous_error` reports errors in streams so far, and is quick.
/// - `abort` ends all work of the communicator in streams and destroys the communicator.
template <class N>
concept nccl_calls =
    requires(N& nccl, typename N::communicator const of, typename N::stream on, void const* from,
             void* to, std::size_t bytes, int peer, int& answer) {
      { nccl.group_start() } -> std::same_as<int>;
      { nccl.group_end() } -> std::same_as<int>;
      { nccl.send(from, bytes, peer, of, on) } -> std::same_as<int>;
      { nccl.receive(to, bytes, peer, of, on) } -> std::same_as<int>;
      { nccl.rank(of, answer) } -> std::same_as<int>;
      { nccl.rank_count(of, answer) } -> std::same_as<int>;
      { nccl.device(of, answer) } -> std::same_as<int>;
      { nccl.asynchronous_error(of, answer) } -> std::same_as<int>;
      { nccl.abort(of) } -> std::same_as<int>;
      { nccl.text_of(peer) } -> std::same_as<std::string>;
      { nccl.last_error(of) } -> std::same_as<std::string>;
    };
static_assert(!nccl_calls<int>);

/// Thrown if NCCL refuses a call.
struct nccl_error : device_error {
  nccl_error(std::string const& text, int its_rank, int its_code)
      : device_error(text), rank(its_rank), code(its_code) {}

  int rank;  ///< the rank whose call it was
  int code;  ///< the result code of NCCL
};

}}  // namespace blink::BLINK_ABI
