// SPDX-License-Identifier: Apache-2.0
#pragma once

// Unique ids of communicators that are being made: the process that made them, and their meeting.

#include <blink/transports/host/host_rendezvous.hpp>

#include "abi.hpp"
#include "errors.hpp"
#include "meeting.hpp"
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>

namespace blink_nccl {

/// The bytes that blink writes at the end of a unique id.
struct id_mark {
  char magic[8];
  std::uint64_t host;
  std::int64_t process;
  std::uint64_t random[2];
  char path[32];  ///< of the meeting's memory; null-terminated
};
static_assert(sizeof(id_mark) <= sizeof(unique_id));

/// The unique ids of this process; the caller holds the lock of the library.
class unique_ids {
 public:
  /// Makes a unique id with a meeting.
  ///
  /// from:   an id of the other library, which uses only its beginning
  /// Throws: resource_error if the memory of the meeting cannot be made.
  unique_id make(unique_id const& from = {}) {
    unique_id id = from;
    auto const place = std::make_shared<meeting>();
    id_mark mark{};
    std::copy(magic.begin(), magic.end(), mark.magic);
    mark.host = blink::host_id();
    mark.process = getpid();
    std::random_device random;
    for (auto& word : mark.random) word = std::uint64_t{random()} << 32 | random();
    auto const path = place->path();
    if (path.size() >= sizeof mark.path)
      refuse_usage("the unique id has no room for the path " + path);
    path.copy(mark.path, sizeof mark.path);
    std::memcpy(id.bytes + mark_begin, &mark, sizeof mark);
    place->set_id(id);
    places_[text_of(id)] = place;
    return remember(id);
  }
  /// Registers an id that another library has made.
  unique_id remember(unique_id const& id) {
    made_here_.insert(text_of(id));
    return id;
  }
  [[nodiscard]] bool knows(unique_id const& id) const { return made_here_.contains(text_of(id)); }

  /// Returns the meeting of the ranks of this id; null if only ranks of this process can have the
  /// id.
  ///
  /// Throws: refusal with the reason why this process cannot join; resource_error.
  [[nodiscard]] std::shared_ptr<meeting> place_of(unique_id const& id) const {
    if (auto const own = places_.find(text_of(id)); own != places_.end()) return own->second;
    auto const mark = mark_of(id);
    if (!mark && knows(id)) return nullptr;
    if (!mark) refuse_usage("the unique id was made by another library or never set");
    auto const begin = "the unique id was made by process " + std::to_string(mark->process);
    if (mark->host != blink::host_id()) {
      refuse_usage(begin + " of another host or of another container");
    }
    if (mark->process == getpid()) refuse_usage(begin + ", which is this one and did not make it");
    try {
      return std::make_shared<meeting>(mark->path, id);
    } catch (refusal const& problem) {
      refuse_usage(begin + ", whose ranks this process cannot join: " + problem.what());
    }
  }
  /// Closes a meeting whose communicator is made.
  void close(std::string const& id) { places_.erase(id); }

  /// True if blink may write its mark into the id.
  [[nodiscard]] static bool is_markable(unique_id const& id) {
    return std::all_of(id.bytes + mark_begin, id.bytes + sizeof id.bytes,
                       [](char byte) { return byte == 0; });
  }
  /// Returns the id as the other library has made it.
  [[nodiscard]] static unique_id without_mark(unique_id id) {
    if (mark_of(id)) std::memset(id.bytes + mark_begin, 0, sizeof(id_mark));
    return id;
  }
  /// True if this library has made the id, in any process.
  [[nodiscard]] static bool has_mark(unique_id const& id) { return mark_of(id).has_value(); }
  [[nodiscard]] static std::string text_of(unique_id const& id) {
    return {id.bytes, sizeof id.bytes};
  }

 private:
  static constexpr std::string_view magic{"blinkncc"};
  static constexpr std::size_t mark_begin = sizeof(unique_id) - sizeof(id_mark);

  [[nodiscard]] static std::optional<id_mark> mark_of(unique_id const& id) {
    id_mark mark{};
    std::memcpy(&mark, id.bytes + mark_begin, sizeof mark);
    if (!std::equal(magic.begin(), magic.end(), mark.magic)) return std::nullopt;
    mark.path[sizeof mark.path - 1] = '\0';
    return mark;
  }

  std::set<std::string> made_here_;
  std::map<std::string, std::shared_ptr<meeting>> places_;
};

}  // namespace blink_nccl
