// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/detail/host_threads.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

namespace blink::tools {

/// The use of this machine's cores by other programs, since the object was made.
class machine_load {
 public:
  /// Seconds that this process has used cores so far.
  [[nodiscard]] static double own_seconds() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    auto const seconds = [](timeval const& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
  }
  /// The mean number of cores that others used.
  ///
  /// ours: seconds that the measuring processes used since then
  [[nodiscard]] double cores_of_others(double ours) const {
    double const elapsed =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    double const others = (busy_seconds() - busy_ - ours) / elapsed;
    return others > 0 ? others : 0;
  }
  /// True if so many ranks did not have the cores for themselves.
  [[nodiscard]] static bool is_busy(int ranks, double cores_of_others) {
    constexpr double least = 0.15;  // the system's own work; less is within the noise of its clock
    return cores_of_others > least && ranks + cores_of_others > blink::detail::core_count() + least;
  }

 private:
  // Of all cores together.
  static double busy_seconds() {
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> const file(std::fopen("/proc/stat", "r"),
                                                               std::fclose);
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupt = 0, soft = 0;
    if (!file || std::fscanf(file.get(), "cpu %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system,
                             &idle, &waiting, &interrupt, &soft) != 7) {
      return 0;
    }
    return (user + nice + system + interrupt + soft) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  double busy_ = busy_seconds();
};

}  // namespace blink::tools
