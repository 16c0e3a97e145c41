// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/detail/measure_rates.hpp>
#include <blink/topology/detail/message_pattern.hpp>
#include <blink/topology/measured_rates.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_handles.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The way of a message between devices.
enum class device_route : std::uint8_t {
  peer,  ///< copies of the driver: into the memory of the peer, where that is allowed
  host   ///< into pinned memory of the host, and from there
};

/// Options of `probe_devices`.
struct device_probe_options {
  std::size_t bytes = std::size_t{32} << 20;  ///< of a large message
  double seconds = 10;                        ///< for all: then remaining patterns are left out
  int calls = 5;                              ///< of each pattern; the fastest counts
};

namespace detail {

/// Measures patterns of copies between devices: a `pattern_meter`. Each device is a rank.
template <polled_runtime Devices>
class device_meter {
 public:
  device_meter(Devices& driver, std::vector<int> devices, device_route route,
               device_probe_options const& options)
      : driver_(driver), devices_(std::move(devices)), route_(route), options_(options) {
    for (int const device : devices_) {
      ends_.emplace_back(driver, device, options.bytes);
      if (route == device_route::host) pinned_.emplace_back(driver, options.bytes);
      driver.clear(device, ends_.back().source.get(), options.bytes);
    }
    for (std::size_t from = 0; from < devices_.size() && route == device_route::peer; ++from) {
      for (std::size_t to = 0; to < devices_.size(); ++to) {
        if (from != to) static_cast<void>(driver.reach(devices_[from], devices_[to]));
      }
    }
  }

  [[nodiscard]] pattern_seconds measure(message_pattern const& pattern) {
    pattern_seconds best;
    for (int call = 0; call <= options_.calls; ++call) {  // the first one makes connections
      auto const now = pattern.is_small ? exchange_small(pattern) : copy_large(pattern);
      if (call > 0 && (call == 1 || now.all < best.all)) best = now;
    }
    return best;
  }
  [[nodiscard]] double bytes() const { return static_cast<double>(options_.bytes); }
  [[nodiscard]] bool has_time(double share) const {
    return seconds_since(begin_) < share * options_.seconds;
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t small_bytes = 4;
  static constexpr double least_seconds = 1e-9;

  /// The memory, streams and events of a device for one message out and one in.
  struct device_end {
    device_allocation<Devices> source, target;
    device_stream<Devices> out, in;
    device_event<Devices> sent, arrived;

    device_end(Devices& driver, int device, std::size_t bytes)
        : source(driver, device, bytes),
          target(driver, device, bytes),
          out(driver, device),
          in(driver, device),
          sent(driver, device),
          arrived(driver, device) {}
  };

  [[nodiscard]] static double seconds_since(clock::time_point begin) {
    return std::chrono::duration<double>(clock::now() - begin).count();
  }
  /// Starts a message. Pieces let both halves of the way through the host work at once.
  void start(std::size_t from, std::size_t to, std::size_t bytes) {
    auto& own = ends_[from];
    auto& peer = ends_[to];
    int const here = devices_[from], there = devices_[to];
    if (route_ == device_route::peer) {
      driver_.copy_between(there, peer.target.get(), here, own.source.get(), bytes, own.out.get());
      driver_.record(here, own.sent.get(), own.out.get());
      driver_.wait(there, peer.in.get(), own.sent.get());
    } else {
      auto const piece = std::max<std::size_t>(std::size_t{1} << 20, (bytes + 31) / 32);
      auto* const between = pinned_[from].get();
      for (std::size_t at = 0; at < bytes; at += piece) {
        auto const count = std::min(piece, bytes - at);
        driver_.copy(here, between + at, own.source.get() + at, count, own.out.get());
        driver_.record(here, own.sent.get(), own.out.get());
        driver_.wait(there, peer.in.get(), own.sent.get());
        driver_.copy(there, peer.target.get() + at, between + at, count, peer.in.get());
      }
    }
    driver_.record(there, peer.arrived.get(), peer.in.get());
  }

  /// All messages at once. The time of each counts from its own start.
  [[nodiscard]] pattern_seconds copy_large(message_pattern const& pattern) {
    std::vector<std::size_t> open;
    std::vector<clock::time_point> begins(pattern.to.size());
    for (std::size_t from = 0; from < pattern.to.size(); ++from) {
      if (pattern.to[from] < 0) continue;
      begins[from] = clock::now();
      start(from, static_cast<std::size_t>(pattern.to[from]), options_.bytes);
      open.push_back(from);
    }
    pattern_seconds result{least_seconds, std::vector<double>(pattern.to.size(), 0)};
    while (!open.empty()) {
      std::erase_if(open, [&](std::size_t from) {
        auto const to = static_cast<std::size_t>(pattern.to[from]);
        if (!driver_.is_reached(devices_[to], ends_[to].arrived.get())) return false;
        result.of[from] = std::max(least_seconds, seconds_since(begins[from]));
        result.all = std::max(result.all, result.of[from]);
        return true;
      });
      std::this_thread::yield();
    }
    return result;
  }

  /// A message of each pair and its answer, one pair after the other, because the host starts them.
  [[nodiscard]] pattern_seconds exchange_small(message_pattern const& pattern) {
    pattern_seconds result{least_seconds, std::vector<double>(pattern.to.size(), 0)};
    auto const bytes = std::min(small_bytes, options_.bytes);
    for (std::size_t a = 0; a < pattern.to.size(); ++a) {
      if (pattern.to[a] < 0) continue;
      auto const b = static_cast<std::size_t>(pattern.to[a]);
      if (pattern.to[b] == static_cast<int>(a) && b < a) {
        result.of[a] = result.of[b];
        continue;
      }
      auto const begin = clock::now();
      start(a, b, bytes);
      driver_.wait(devices_[b], ends_[b].out.get(), ends_[b].arrived.get());
      start(b, a, bytes);
      while (!driver_.is_reached(devices_[a], ends_[a].arrived.get())) std::this_thread::yield();
      result.of[a] = std::max(least_seconds, seconds_since(begin));
      result.all = std::max(result.all, result.of[a]);
    }
    return result;
  }

  Devices& driver_;
  std::vector<int> devices_;
  device_route route_;
  device_probe_options options_;
  std::vector<device_end> ends_;                    // by rank
  std::vector<pinned_allocation<Devices>> pinned_;  // by sender
  clock::time_point begin_ = clock::now();
};

}  // namespace detail

/// Measures what devices move between each other: start-ups of pairs, pairs alone, all devices in
/// pairs at once, and sets of devices that share links. Each device counts as a host of one rank.
/// So `levels` has the devices that share an uplink, such as that of a PCIe switch.
///
/// devices: without duplicates
/// Time:    about `options.seconds`, and one pattern more. Of at most 32 devices, each pair is
///          measured alone.
/// Memory:  two buffers of `bytes` on each device, and one of the host for each (`host`).
/// Throws:  precondition_error for options out of range or no device; device_error.
template <polled_runtime Devices>
[[nodiscard]] measured_rates probe_devices(Devices& driver, std::vector<int> const& devices,
                                           device_route route,
                                           device_probe_options const& options = {}) {
  expects(!devices.empty() && options.bytes > 0 && options.seconds > 0 && options.calls > 0,
          "probe_devices: no device, or options not all positive, expected more than 0");
  constexpr std::size_t most_with_all_pairs = 32;
  std::vector<int> hosts(devices.size());
  std::iota(hosts.begin(), hosts.end(), 0);
  detail::device_meter<Devices> meter(driver, devices, route, options);
  return detail::rate_measurer(meter, std::move(hosts), most_with_all_pairs).measure();
}

}}  // namespace blink::BLINK_ABI
