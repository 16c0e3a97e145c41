// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arguments of one call of one rank, and the batch of calls that a rank makes together.

#include <blink/core/collective.hpp>
#include <blink/transports/cuda/runtime/device_handles.hpp>

#include "abi.hpp"
#include "element_types.hpp"
#include "errors.hpp"
#include "platform.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink_nccl {

template <platform P>
class team;

/// The functions through which a rank of a split gets its communicator. They are called with the
/// lock of the library.
template <platform P>
struct parting {
  /// The query for the state of the new communicator: the outcome, or nothing while it is being
  /// made. The argument is false if the communicator is no longer wanted. The owner calls it until
  /// it returns an outcome, and destroys it without the lock.
  using question = std::function<std::optional<outcome>(bool)>;

  std::function<void(std::shared_ptr<team<P>>, int)> deliver{};  ///< the communicator is ready:
                                                                 ///< team, rank in it
  std::function<unique_id()> make_id{};
  /// Set if ranks of other processes join: (id, rank, number of ranks).
  std::function<question(unique_id const&, int, int)> join{};
};

/// A rank's request to its communicator. Requests of all ranks are answered together. A send or a
/// receive is answered together with its counterpart.
template <platform P>
struct request {
  enum class shape { collective, send, receive, split };

  char const* name = "";  ///< of the called function
  shape what = shape::collective;
  blink::collective kind = blink::collective::permute;
  void const* input = nullptr;
  void* output = nullptr;  ///< also of a receive
  std::size_t count = 0;
  data_type type = data_type::int8;
  operation reduce = operation::sum;
  std::optional<given_factor> factor{};  ///< of a pre-multiplied sum
  int root = 0;                          ///< or the peer of a send or receive
  stream_t<P> stream{};
  int color = no_color;  ///< of a split
  int key = 0;
  parting<P> part{};  ///< of a split
  bool is_done = false;

  [[nodiscard]] bool is_of_two() const { return what == shape::send || what == shape::receive; }
  /// Throws: refusal if the size exceeds the address space.
  [[nodiscard]] std::size_t bytes() const {
    if (count > std::numeric_limits<std::size_t>::max() / 2 / bytes_of(type)) {
      refuse_argument(std::string(name) + ": count " + std::to_string(count) + " of " +
                      to_text(type) + " exceeds the address space");
    }
    return count * bytes_of(type);
  }
};

/// Returns the arguments, besides the function and the count, that must be equal on all ranks.
template <platform P>
[[nodiscard]] std::string details_of(request<P> const& one) {
  std::string text = to_text(one.type);
  if (blink::has_reduce_phase(one.kind)) text += ", " + to_text(one.reduce);
  if (one.is_of_two()) return text + ", peer " + std::to_string(one.root);
  if (one.root != 0) text += ", root " + std::to_string(one.root);
  return text;
}
template <platform P>
[[nodiscard]] std::string to_text(request<P> const& one) {
  if (one.what == request<P>::shape::split) return one.name;
  return std::string(one.name) + " of " + std::to_string(one.count) + " " + details_of(one);
}

/// True if these are parts of one call.
template <platform P>
[[nodiscard]] bool agree(request<P> const& a, request<P> const& b) {
  if (a.what != b.what) return false;
  if (a.what == request<P>::shape::split) return true;
  bool const is_same_operation = a.reduce == b.reduce || (is_own(a.reduce) && is_own(b.reduce));
  return a.kind == b.kind && a.count == b.count && a.type == b.type && is_same_operation &&
         a.root == b.root;
}

/// The calls that a rank has made together: one call, or those of a group. Its sends and receives
/// wait for nothing else in the batch.
template <platform P>
struct batch {
  std::vector<request<P>> open;
  /// Points in streams from which the batch's sends and receives may run, by device and stream.
  /// They are earlier than all of these.
  std::map<std::pair<int, stream_t<P>>, blink::device_event<typename P::devices_type>> starts{};
  outcome ending{};  ///< of the first call that failed
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  bool is_over = false;

  void end(outcome const& how) {
    if (ending.code == result::success) ending = how;
  }
};

}  // namespace blink_nccl
