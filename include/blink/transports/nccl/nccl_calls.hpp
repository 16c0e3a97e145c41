// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <concepts>
#include <cstddef>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// What functions of NCCL return, of the values that matter here.
inline constexpr int nccl_success = 0;
inline constexpr int nccl_in_progress = 7;  ///< of communicators that do not block

/// All that is used of NCCL, or of a stand-in with its rules: point-to-point calls in groups, and what tells of
/// errors. `nccl_library` (nccl.cuh) is NCCL itself.
///
/// Semantics beyond the syntax, those of NCCL:
/// - Functions return what NCCL's do; those that ask write the answer to their last argument.
/// - Between `group_start` and `group_end` sends and receives are only noted; `group_end` puts them into their
///   streams as one operation for each communicator, which begins when the stream has come to it and ends when
///   all of them are done. They do not wait for each other. A group may name several communicators.
/// - The k-th send from a rank to another is the k-th receive there, in the order of the groups and within them
///   in the order in which they are noted.
/// - `group_end` may wait on the host until both ends of a pair that has not met before are in a group that joins
///   them, and for room in streams.
/// - `asynchronous_error` tells what has gone wrong in streams so far, and is quick.
/// - After `abort` everything of the communicator in streams ends, and the communicator is gone.
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

/// NCCL refused a call.
struct nccl_error : device_error {
  nccl_error(std::string const& text, int its_rank, int its_code)
      : device_error(text), rank(its_rank), code(its_code) {}

  int rank;  ///< whose call it was
  int code;  ///< what NCCL returned
};

}}  // namespace blink::BLINK_ABI
