// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/detail/stream_copy.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// What a sum is made of and where it goes, for sums that are written past the caches as they are made, to all places or
/// to some: up to `most` sources, up to `most` places.
///
/// Time: each source is read once, each place written once.
/// Why in one pass, a line at a time: by way of a block of 512 bytes an all-reduce of 32 MiB among two threads of an
/// AMD EPYC took 1.15 times as long (`peers_threads`, in turn, 2026-11-25).
/// Why what peers wrote is fetched ahead: without, 8 KiB took 2.6 us instead of 1.6 between cores that share no cache,
/// 64 KiB 5.0 instead of 4.2 (the same, by `star_schedule` alone).
template <class T>
class streamed_sum {
 public:
  static constexpr std::uint32_t most = 8;
  /// Elements that fill whole lines?
  static constexpr bool suits = sizeof(T) <= streamed_line && streamed_line % sizeof(T) == 0;

  /// Parts of so many bytes lie in memory, not in the cache of who wrote them.
  static constexpr std::size_t uncached_bytes = std::size_t{1} << 20;

  /// fetches: is it fetched ahead? Where a cache of another core holds it.
  void add_source(void const* first, bool fetches) {
    if (sources_ < most) {
      sources_at_[sources_] = static_cast<T const*>(first);
      if (fetches) fetched_[fetched_count_++] = sources_at_[sources_];
    }
    ++sources_;
  }
  /// streams: is it written past the caches?
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
  /// Can it be made so? There are several sources, not too many, a place past the caches, and all such places begin
  /// alike in their lines; others may begin anywhere.
  [[nodiscard]] bool fits() const {
    return fits_ && streamed_at_ != nullptr && sources_ >= 2 && sources_ <= most && places_ <= most;
  }

  /// Elements from `first` on; `finish_streaming` must follow before anybody is reported. A function of its own, whatever it is
  /// called from: inlined it took 1.1 to 1.2 times as long in some callers (all-reduce of 64 KiB, cores near each other).
  ///
  /// Pre:   fits(); a place may be a source, but not elsewhere overlap one.
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

  // What other cores have written and caches hold: a core by itself looks fewer lines ahead, and begins anew at each page.
  void fetch(std::size_t i) const {
    for (std::uint32_t k = 0; k < fetched_count_; ++k) __builtin_prefetch(fetched_[k] + i);
  }
  [[nodiscard]] bool begins_line(std::size_t i) const {
    return reinterpret_cast<std::uintptr_t>(streamed_at_ + i) % streamed_line == 0;
  }

  // Whole lines. Numbers of sources and places that compilers know make it few instructions for each, so that a core has
  // more lines on their way: all-reduce of 32 MiB between far cores 2.25 ms instead of 2.47 (`scripts/bench_peers`).
  template <std::uint32_t Sources, std::uint32_t Places, class Reducer>
  void make_lines(std::size_t begin, std::size_t end, Reducer const& reduce) const {
    constexpr std::size_t in_line = streamed_line / sizeof(T);
    constexpr std::size_t ahead = lines_ahead * in_line;
    streamed_sum const here = *this;  // no store reaches it: it need not be read again after each
    for (std::size_t k = begin; k < end && k < begin + ahead; k += in_line) here.fetch(k);
    for (std::size_t i = begin; i < end; i += in_line) {
      if (i + ahead < end) here.fetch(i + ahead);
      here.template make_some<in_line, Sources, Places>(i, reduce);
    }
  }
  // Of so many sources to so many places; 0: as many as there are.
  template <std::size_t Count, std::uint32_t Sources = 0, std::uint32_t Places = 0, class Reducer>
  void make_some(std::size_t at, Reducer const& reduce) const {
    std::uint32_t const sources = Sources == 0 ? sources_ : Sources;
    std::uint32_t const places = Places == 0 ? places_ : Places;
    alignas(streamed_line) std::byte bytes[Count * sizeof(T)];
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
  T* streamed_at_ = nullptr;  ///< the first place past the caches; null: there is none
  std::uint32_t sources_ = 0;
  std::uint32_t fetched_count_ = 0;
  std::uint32_t places_ = 0;
  bool fits_ = true;
};

}}}  // namespace blink::BLINK_ABI::detail
