// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/connections/memory_source.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <string>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Memory in which ranks pass messages.
class message_memory {
 public:
  /// The memory of one receiver's row: the same for all ranks, all 0 at first.
  ///
  /// Throws: resource_error or std::bad_alloc if there is none.
  [[nodiscard]] virtual std::byte* row(int receiver, std::size_t bytes) = 0;
  /// The source of this rank's messages, which peers read.
  [[nodiscard]] virtual memory_source of_messages() = 0;
  /// Ranks find memory by its distance from here.
  [[nodiscard]] virtual std::uintptr_t base() const { return 0; }
  /// True if peers may read messages after the messenger of their sender has ended.
  [[nodiscard]] virtual bool outlives_sender() const { return false; }

 protected:
  ~message_memory() = default;
};

/// Memory that was allocated at once, for several pieces.
struct message_slab {
  void* memory = nullptr;
  std::size_t bytes = 0;
  std::size_t used = 0;  ///< pieces in use
};

/// A piece of the memory of one rank's messages.
struct message_piece {
  std::byte* memory = nullptr;
  message_slab* slab = nullptr;
  std::uint64_t until = 0;  ///< in use until the receiver has consumed this record
};

/// Pieces in the order of their use. They move between lists without allocation.
using message_pieces = std::list<message_piece>;

/// The memory of one rank's messages, in pieces of one size. They are used in turn, because a core
/// that overwrites what another one has just read waits for that core's cache.
class message_pool {
 public:
  static constexpr std::size_t piece_bytes = 16384;

  /// most: the limit of the bytes of all pieces, unless they are forced
  message_pool(message_memory& memory, std::size_t most)
      : source_(memory.of_messages()), outlives_(memory.outlives_sender()), most_(most) {}
  message_pool(message_pool const&) = delete;
  message_pool& operator=(message_pool const&) = delete;
  ~message_pool() {
    for (auto const& slab : slabs_) {
      if (slab.used == 0 || !outlives_) source_.release(source_.owner, slab.memory, slab.bytes);
    }
  }

  /// Bytes of all pieces, in use or not.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The reason of the system's last refusal; empty: it did not refuse.
  [[nodiscard]] std::string const& refusal() const { return refusal_; }
  [[noreturn]] BLINK_COLD void refuse() const {
    throw resource_error("no memory for messages to another rank: " + refusal_);
  }

  /// Moves a piece to the end of `to`. Returns false if there is none.
  ///
  /// forced: true: the limit does not count
  [[nodiscard]] bool take(message_pieces& to, bool forced) {
    if (free_.empty() && !add_slab(next_pieces_, forced)) return false;
    ++free_.front().slab->used;
    to.splice(to.end(), free_, free_.begin());
    return true;
  }
  /// Takes the first piece of `from` back.
  void give_back(message_pieces& from) {
    auto& slab = *from.front().slab;
    free_.splice(free_.end(), from, from.begin());
    is_refused_ = false;
    if (--slab.used == 0 && free_.size() * piece_bytes >= most_idle + slab.bytes) remove(slab);
  }
  /// Provides enough pieces for long messages to use in turn, as far as the limit allows.
  void provide_turns() {
    if (bytes_ < bytes_in_turn) {
      static_cast<void>(add_slab((bytes_in_turn - bytes_) / piece_bytes, false));
    }
  }

 private:
  // More than the caches of a core hold.
  static constexpr std::size_t bytes_in_turn = std::size_t{1} << 21;
  static constexpr std::size_t most_idle = std::size_t{1} << 24;  // bytes that are not given back
  static constexpr std::size_t most_pieces = 256;                 // of a slab

  // Adds up to `count` pieces.
  [[nodiscard]] BLINK_COLD bool add_slab(std::size_t count, bool forced) {
    if (is_refused_) return false;
    while (count > 1 && bytes_ + count * piece_bytes > most_) count /= 2;
    if (bytes_ + count * piece_bytes > most_ && !forced) return false;
    for (; count > 0; count /= 2) {
      if (!allocate(count)) continue;
      // Doubled, so that few messages take little memory and many take few slabs.
      if (2 * count <= most_pieces) next_pieces_ = 2 * count;
      return true;
    }
    is_refused_ = true;  // until a piece comes back, because each attempt takes long
    return false;
  }
  [[nodiscard]] bool allocate(std::size_t count) {
    auto& slab = slabs_.emplace_back();
    try {
      slab.memory = source_.allocate(source_.owner, count * piece_bytes);
    } catch (std::exception const& refusal) {
      slabs_.pop_back();
      refusal_ = refusal.what();
      return false;
    }
    slab.bytes = count * piece_bytes;
    for (std::size_t k = count; k-- > 0;) {
      free_.push_front({static_cast<std::byte*>(slab.memory) + k * piece_bytes, &slab, 0});
    }
    bytes_ += slab.bytes;
    return true;
  }
  // Time: O(pieces that are not in use)
  BLINK_COLD void remove(message_slab& slab) {
    free_.remove_if([&](message_piece const& piece) { return piece.slab == &slab; });
    bytes_ -= slab.bytes;
    source_.release(source_.owner, slab.memory, slab.bytes);
    slabs_.remove_if([&](message_slab const& other) { return &other == &slab; });
  }

  memory_source source_;
  bool outlives_;
  std::size_t most_;
  std::size_t bytes_ = 0;
  std::list<message_slab> slabs_;
  message_pieces free_;
  std::size_t next_pieces_ = 8;  // of the next slab
  std::string refusal_;
  bool is_refused_ = false;
};

}}}  // namespace blink::BLINK_ABI::detail
