// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/detail/stream_copy.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The sources and destinations of a sum that is written past the caches as it is made, to all
/// destinations or to some. Up to `most` sources and `most` destinations.
///
/// It works in one pass, a cache line at a time, because a pass through a small block takes longer
/// for large sums. Lines that peers wrote are prefetched, because cores without a common cache wait
/// for them otherwise.
///
/// Time: each source is read once, each destination written once.
template <class T>
class streamed_sum {
 public:
  static constexpr std::uint32_t most = 8;
  /// True if elements fill whole lines.
  static constexpr bool suits = sizeof(T) <= streamed_line && streamed_line % sizeof(T) == 0;

  /// Parts of at least this size lie in memory, not in the cache of their writer.
  static constexpr std::size_t uncached_bytes = std::size_t{1} << 20;

  /// fetches: true to prefetch it, for a source that the cache of another core holds
  void add_source(void const* first, bool fetches) {
    if (sources_ < most) {
      sources_at_[sources_] = static_cast<T const*>(first);
      if (fetches) fetched_[fetched_count_++] = sources_at_[sources_];
    }
    ++sources_;
  }
  /// streams: true to write it past the caches
  void add_place(T* first, bool streams) {
    if (places_ < most) {
      places_at_[places_] = first;
      streams_to_[places_] = streams;
    }
    ++places_;
    if (!streams) return;
    if (streamed_at_ == nullptr) streamed_at_ = first;
    auto const at = reinterpret_cast<std::uintptr_t>(first);
    auto const of_first = reinterpret_cast<std::uintptr_t>(streamed_at_);
    fits_ = fits_ && at % sizeof(T) == 0 && (at - of_first) % streamed_line == 0;
  }
  /// True if the sum can be made. There are several sources, not too many, and a destination past
  /// the caches. All such destinations begin at the same offset in their lines; other destinations
  /// may begin anywhere.
  [[nodiscard]] bool fits() const {
    return fits_ && streamed_at_ != nullptr && sources_ >= 2 && sources_ <= most && places_ <= most;
  }

  /// Makes the elements from `first` on. `finish_streaming` must follow before the data is
  /// announced. It is not inlined, because that makes it slower in some callers.
  ///
  /// Pre:   fits(); a destination may be a source, but must not overlap one otherwise.
  /// Order: of the sources, as they were added
  template <class Reducer>
  [[gnu::noinline]] void make(std::size_t first, std::size_t count, Reducer const& reduce) const {
    constexpr std::size_t in_line = streamed_line / sizeof(T);
    std::size_t const end = first + count;
    std::size_t i = first;
    for (; i < end && !begins_line(i); ++i) make_some<1>(i, reduce);
    std::size_t const lines_end = i + (end - i) / in_line * in_line;
    if (sources_ == 2 && places_ == 2) {
      make_lines<2, 2>(i, lines_end, reduce);
    } else {
      make_lines<0, 0>(i, lines_end, reduce);
    }
    for (i = lines_end; i < end; ++i) make_some<1>(i, reduce);
  }

 private:
  static constexpr std::size_t lines_ahead = 16;

  // Prefetches lines that other cores have written and their caches hold. The hardware looks fewer
  // lines ahead, and starts again at each page.
  void fetch(std::size_t i) const {
    for (std::uint32_t k = 0; k < fetched_count_; ++k) __builtin_prefetch(fetched_[k] + i);
  }
  [[nodiscard]] bool begins_line(std::size_t i) const {
    return reinterpret_cast<std::uintptr_t>(streamed_at_ + i) % streamed_line == 0;
  }

  // Whole lines. With numbers of sources and destinations that the compiler knows, each line takes
  // few instructions, so that a core has more lines in flight.
  template <std::uint32_t Sources, std::uint32_t Places, class Reducer>
  void make_lines(std::size_t begin, std::size_t end, Reducer const& reduce) const {
    constexpr std::size_t in_line = streamed_line / sizeof(T);
    constexpr std::size_t ahead = lines_ahead * in_line;
    // a copy that no store reaches, so that it is not read again after each store
    streamed_sum const here = *this;
    for (std::size_t k = begin; k < end && k < begin + ahead; k += in_line) here.fetch(k);
    for (std::size_t i = begin; i < end; i += in_line) {
      if (i + ahead < end) here.fetch(i + ahead);
      here.template make_some<in_line, Sources, Places>(i, reduce);
    }
  }
  // Of so many sources to so many destinations; 0: as many as there are.
  template <std::size_t Count, std::uint32_t Sources = 0, std::uint32_t Places = 0, class Reducer>
  void make_some(std::size_t at, Reducer const& reduce) const {
    std::uint32_t const sources = Sources == 0 ? sources_ : Sources;
    std::uint32_t const places = Places == 0 ? places_ : Places;
    alignas(streamed_line) std::byte bytes[Count * sizeof(T)];
    if constexpr (std::is_empty_v<T>) std::memset(bytes, 0, sizeof bytes);  // objects write no byte
    T* const sum = reinterpret_cast<T*>(bytes);
    T const* const a = sources_at_[0] + at;
    T const* const b = sources_at_[1] + at;
    BLINK_INDEPENDENT
    for (std::size_t k = 0; k < Count; ++k) {
      ::new (static_cast<void*>(sum + k)) T(static_cast<T>(reduce(a[k], b[k])));
    }
    for (std::uint32_t source = 2; source < sources; ++source) {
      T const* const more = sources_at_[source] + at;
      BLINK_INDEPENDENT
      for (std::size_t k = 0; k < Count; ++k) {
        T const own = sum[k];  // a copy: the result takes its place
        ::new (static_cast<void*>(sum + k)) T(static_cast<T>(reduce(own, more[k])));
      }
    }
    for (std::uint32_t place = 0; place < places; ++place) {
      auto* const to = reinterpret_cast<std::byte*>(places_at_[place] + at);
      if constexpr (sizeof bytes == streamed_line) {
        if (streams_to_[place]) {
          stream_line(to, bytes);
          continue;
        }
      }
      std::memcpy(to, bytes, sizeof bytes);
    }
  }

  T const* sources_at_[most] = {};
  T const* fetched_[most] = {};
  T* places_at_[most] = {};
  bool streams_to_[most] = {};
  T* streamed_at_ = nullptr;  ///< the first destination past the caches; null: there is none
  std::uint32_t sources_ = 0;
  std::uint32_t fetched_count_ = 0;
  std::uint32_t places_ = 0;
  bool fits_ = true;
};

}}}  // namespace blink::BLINK_ABI::detail
