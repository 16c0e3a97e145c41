// SPDX-License-Identifier: Apache-2.0
#pragma once

// The common part of all functions: exceptions become codes, and calls on communicators of the
// other library are forwarded.

#include <blink/core/collective.hpp>

#include "abi.hpp"
#include "configurations.hpp"
#include "element_types.hpp"
#include "errors.hpp"
#include "fallback.hpp"
#include "group.hpp"
#include "handle.hpp"
#include "library.hpp"
#include "platform.hpp"
#include "request.hpp"

#include <cstddef>
#include <cstdio>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace blink_nccl {

/// Runs `body`, which returns an `outcome`, and returns its code.
template <platform P, class Body>
result guarded(char const* name, Body const& body) {
  outcome how;
  try {
    how = body();
  } catch (...) {
    how = current_outcome();
  }
  if (is_well(how)) return how.code;
  last_error() = std::string(name) + ": " + how.text;
  if (reports_errors()) std::fprintf(stderr, "blink: %s\n", last_error().c_str());
  group<P>::of_thread().note(how);
  return how.code;
}

/// Runs `own(handle, lock)` for a communicator of this library, or `there(library, communicator)`
/// for one of the other library. Both return an `outcome`.
template <platform P, class Own, class There>
result with_communicator(char const* name, communicator* given, Own const& own,
                         There const& there) {
  return guarded<P>(name, [&]() -> outcome {
    auto& home = library<P>::the();
    auto held = home.lock();
    auto& mine = home.find(given);
    if (mine.forwarded == nullptr) return own(mine, held);
    auto* const theirs = mine.forwarded;
    held.unlock();
    return there(*fallback(), theirs);
  });
}

/// The answer to a call that this library does not support.
struct unsupported {
  result code;
  char const* text;
};
/// Refuses a call, or passes it on to the other library: if the communicator among the arguments is
/// of that library, or if none is among them and there is that library.
template <platform P, class... Parameters, class... Arguments>
result only_there(char const* name, unsupported const& why,
                  result (*other_library::*function)(Parameters...), Arguments... arguments) {
  auto const there = passed_on(function, arguments...);
  outcome const refused{why.code, why.text};
  if constexpr ((std::is_same_v<Arguments, communicator*> || ...)) {
    auto* const given = std::get<communicator*>(std::tuple(arguments...));
    return with_communicator<P>(name, given, [&](handle<P>&, auto&) { return refused; }, there);
  } else {
    return guarded<P>(
        name, [&] { return fallback() == nullptr ? refused : there(*fallback(), nullptr); });
  }
}

inline void expect_type(data_type type) {
  if (!is_type(type)) {
    refuse_argument("element " + to_text(type) + ", expected 0 to " +
                    std::to_string(data_type_count - 1));
  }
}
inline void expect_rank(char const* what, int rank, int rank_count) {
  if (rank < 0 || rank >= rank_count) {
    refuse_argument(std::string(what) + " " + std::to_string(rank) + " of " +
                    std::to_string(rank_count) + " ranks");
  }
}
template <class T>
void expect_result(T const* where) {
  if (where == nullptr) refuse_argument("the pointer to the result is null");
}

/// The arguments of a call that moves or reduces elements.
struct call_arguments {
  char const* name;
  blink::collective kind;
  void const* input;
  void* output;
  std::size_t count;
  data_type type;
  stream_handle stream;
  int root = 0;  ///< for sends and receives: the peer
  operation reduce = operation::sum;
};

/// Returns a request with the arguments that all kinds of requests have.
///
/// root_is: the meaning of `root`: "root" or "peer"
/// Throws:  refusal if the type, the root or the size is invalid.
template <platform P>
[[nodiscard]] request<P> request_of(call_arguments const& what, char const* root_is,
                                    handle<P> const& mine) {
  expect_type(what.type);
  expect_rank(root_is, what.root, mine.rank_count);
  request<P> one;
  one.name = what.name;
  one.kind = what.kind;
  one.input = what.input;
  one.output = what.output;
  one.count = what.count;
  one.type = what.type;
  one.root = what.root;
  one.reduce = what.reduce;
  one.stream = P::stream_of(what.stream);
  (void)one.bytes();  // throws if it is too large
  return one;
}

template <platform P, class There>
result collective_call(call_arguments const& what, communicator* given,
                       collective_configuration const* config, There const& there) {
  auto const own = [&](handle<P>& mine, auto& held) -> outcome {
    expect_covered(config);
    auto one = request_of(what, "root", mine);
    if (static_cast<int>(what.reduce) < 0) {
      refuse_argument(to_text(what.reduce) + ", expected >= 0");
    }
    if (is_own(what.reduce)) {
      one.factor = *mine.factor_of(what.reduce);
      if (one.factor->type != what.type) {
        refuse_argument("the operation is for " + to_text(one.factor->type) +
                        ", the elements are " + to_text(what.type));
      }
    }
    return group<P>::of_thread().add(mine, std::move(one), held);
  };
  return with_communicator<P>(what.name, given, own, there);
}

/// Queues a send or a receive.
template <platform P, class There>
result piece_call(call_arguments const& what, typename request<P>::shape shape, communicator* given,
                  There const& there) {
  auto const own = [&](handle<P>& mine, auto& held) -> outcome {
    auto one = request_of(what, "peer", mine);
    one.what = shape;
    return group<P>::of_thread().add(mine, std::move(one), held);
  };
  return with_communicator<P>(what.name, given, own, there);
}

}  // namespace blink_nccl
