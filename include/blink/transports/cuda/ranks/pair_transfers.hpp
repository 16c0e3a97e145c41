// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/cuda/p2p/device_pairs.hpp>
#include <blink/transports/cuda/p2p/pair_layout.hpp>
#include <blink/transports/cuda/ranks/user_kernels.hpp>
#include <blink/transports/cuda/runtime/copy_pieces.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Sends and receives between two ranks of a communicator of devices.
///
/// Ranks: derives from this, and has `launcher_` and `throw_if_failed()`
template <class Ranks, device_runtime Devices>
class pair_transfers : public user_kernels<Ranks, Devices> {
 public:
  using typename user_kernels<Ranks, Devices>::streams;

  /// Allocates connections for sends and receives between ranks of different processes. All
  /// processes call it together, once.
  ///
  /// Throws: precondition_error if there is only one process, or if the options differ;
  ///         resource_error if it needs more than the cap.
  void prepare_pairs(pair_options const& wanted = {}) {
    expects(this->others_ != nullptr && !pairs_,
            "prepare_pairs: called again or by a single process, expected one call by several "
            "processes");
    pairs_ = std::make_unique<device_pairs<Devices>>(this->driver_, this->where_, this->budget_,
                                                     this->options_, wanted, *this->others_);
  }
  /// Checks the peer of a send or receive.
  ///
  /// Throws: precondition_error if the peer is of this process or is not reached.
  void check_piece(device_piece const& one) const {
    expects(pairs_ != nullptr,
            "send_and_receive: no connections, expected an earlier call of prepare_pairs");
    pairs_->check(one);
  }
  /// Starts sends and receives between ranks of this process and ranks of other processes, all of
  /// them at once. The k-th send from one rank to another matches the k-th receive there, whatever
  /// calls they are in. Processes without a piece need not call. If the sizes of a pair differ, the
  /// call fails on both ranks. The caller has checked the buffers.
  ///
  /// on:     one stream for each device; used if the device has a piece
  /// Throws: precondition_error as `check_piece`; collective_error, device_error.
  void send_and_receive(std::vector<device_piece> const& pieces, streams const& on) {
    self().throw_if_failed();
    for (auto const& one : pieces) check_piece(one);
    expects(on.size() == this->where_.devices.size(),
            "send_and_receive: wrong number of streams, expected one for each device");
    pairs_->send_and_receive(self().launcher_, pieces, on);
  }

  /// Copies between ranks of this process, then starts the sends and receives; see `exchange`.
  ///
  /// on: one stream for each device, or none for the default ones
  void send_and_receive(std::vector<piece_copy> const& copies,
                        std::vector<device_piece> const& pieces, streams const& on) {
    self().throw_if_failed();
    for (auto const& one : pieces) check_piece(one);
    auto const& all = this->expect_streams(on);
    // The copies are part of the order of calls, so that no stream that waits for another call gets
    // between them.
    std::vector<bool> has_copies(all.size(), false);
    for (auto const& one : copies) {
      has_copies[this->where_.position_of(one.sender)] =
          has_copies[this->where_.position_of(one.receiver)] = true;
    }
    self().launcher_.run(
        all, [&](std::size_t k) { return has_copies[k]; },
        [&] { copy_pieces(this->driver_, this->where_, copies, all); }, [](std::size_t) {});
    if (!pieces.empty()) send_and_receive(pieces, all);
  }

 protected:
  using user_kernels<Ranks, Devices>::user_kernels;
  ~pair_transfers() = default;

  std::unique_ptr<device_pairs<Devices>> pairs_;  ///< null before `prepare_pairs`

 private:
  [[nodiscard]] Ranks& self() { return static_cast<Ranks&>(*this); }
};

}}  // namespace blink::BLINK_ABI
