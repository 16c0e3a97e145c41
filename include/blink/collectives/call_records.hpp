// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/call_event.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The records of calls that are written, and their files.
///
/// Records are appended to files, one line at a time. In a file name `%p` is the process id, `%h`
/// the name of the host and `%%` a percent sign.
struct record_options {
  enum class level : std::uint8_t { none, warn, info };
  level debug = level::none;  ///< warn: failed calls; info: all calls; one readable line each
  std::string debug_file{};   ///< empty: standard error
  std::string record_file{};  ///< a JSON object for each call; empty: none
  /// Events for chrome://tracing and Perfetto, which accept a file without the final `]`; empty:
  /// none.
  std::string trace_file{};

  [[nodiscard]] bool writes_nothing() const {
    return debug == level::none && record_file.empty() && trace_file.empty();
  }
};

namespace detail {

/// Returns the file name of this process for a pattern.
///
/// what:   the option or variable that holds the pattern, for the error
/// Throws: input_error for a `%` before any other letter, because processes would share a file.
[[nodiscard]] inline std::string record_file_name(std::string const& pattern, char const* what) {
  std::string name;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '%') {
      name += pattern[at];
      continue;
    }
    char const letter = ++at < pattern.size() ? pattern[at] : '\0';
    if (letter == 'p') {
      name += std::to_string(getpid());
    } else if (letter == 'h') {
      std::array<char, 256> host{};
      if (gethostname(host.data(), host.size() - 1) == 0) name += host.data();
    } else if (letter == '%') {
      name += '%';
    } else {
      throw input_error(std::string(what) + " is '" + pattern +
                        "', expected %p (the process), %h (the host) or %% (a percent sign) "
                        "where there is a %");
    }
  }
  return name;
}

}  // namespace detail

/// Reads BLINK_DEBUG (none, warn or info), BLINK_DEBUG_FILE, BLINK_RECORD_FILE and
/// BLINK_TRACE_FILE.
///
/// With BLINK_DEBUG_FILE alone the level is info.
///
/// Throws: input_error if a value is not one of these, or a file name is empty or has an unknown
///         `%`.
[[nodiscard]] inline record_options read_record_environment() {
  record_options result;
  char const* const debug = std::getenv("BLINK_DEBUG");
  if (debug != nullptr) {
    std::string_view const level = debug;
    if (level == "warn") {
      result.debug = record_options::level::warn;
    } else if (level == "info") {
      result.debug = record_options::level::info;
    } else if (level != "none") {
      throw input_error("BLINK_DEBUG is '" + std::string(level) + "', expected none, warn or info");
    }
  }
  for (auto const& [name, file] : {std::pair{"BLINK_DEBUG_FILE", &result.debug_file},
                                   std::pair{"BLINK_RECORD_FILE", &result.record_file},
                                   std::pair{"BLINK_TRACE_FILE", &result.trace_file}}) {
    char const* const text = std::getenv(name);
    if (text == nullptr) continue;
    if (*text == '\0') throw input_error(std::string(name) + " is empty, expected a file name");
    static_cast<void>(detail::record_file_name(text, name));
    *file = text;
  }
  bool const is_implied = debug == nullptr && !result.debug_file.empty();
  if (is_implied) result.debug = record_options::level::info;
  return result;
}

/// The sums of all calls of one collective.
struct stall_sum {
  std::uint64_t calls = 0;
  std::uint64_t failures = 0;
  double seconds = 0;
  double for_peers = 0;   ///< seconds that ranks waited for peers to enter
  double to_receive = 0;  ///< seconds that they waited for data
  double to_send = 0;     ///< seconds that they waited for credit
  double moving = 0;      ///< seconds that they combined and copied
  std::uint64_t sent_bytes = 0;
};

/// An observer that writes calls to files and sums up the times that ranks waited, by cause.
class call_records final : public call_observer {
 public:
  /// Throws: input_error if a file cannot be opened, or its name has an unknown `%`. A file that
  ///         cannot be written later is reported once on standard error, and then left alone.
  explicit call_records(record_options const& options = {})
      : options_(options),
        debug_(open(options.debug_file)),
        record_(open(options.record_file)),
        trace_(open(options.trace_file)) {
    // readers accept a file without the closing bracket
    if (trace_) write(trace_, "[\n");
  }

  call_records(call_records const&) = delete;
  call_records& operator=(call_records const&) = delete;
  ~call_records() override {
    call_observer* present = this;
    detail::present_observer.compare_exchange_strong(present, nullptr);
  }

  void ended(call_event const& event) override {
    std::lock_guard const lock(mutex_);
    add(event);
    bool const reports = options_.debug == record_options::level::info ||
                         (options_.debug == record_options::level::warn && !event.is_ok);
    if (reports && options_.debug_file.empty()) std::fputs(line(event).c_str(), stderr);
    if (reports && debug_) write(debug_, line(event));
    if (record_) write(record_, json(event) + "\n");
    if (trace_) write(trace_, trace(event) + ",\n");
  }

  /// The sums of a collective.
  [[nodiscard]] stall_sum sum_of(collective kind) const {
    std::lock_guard const lock(mutex_);
    return sums_[static_cast<std::size_t>(kind)];
  }

  /// Returns a table of these sums, with times as shares of each collective's seconds. One line for
  /// each collective that was called.
  [[nodiscard]] std::string stall_report() const {
    std::lock_guard const lock(mutex_);
    std::string result =
        "collective          calls   seconds     peers   receive      send    moving\n";
    for (std::size_t kind = 0; kind < sums_.size(); ++kind) {
      auto const& sum = sums_[kind];
      if (sum.calls == 0) continue;
      std::array<char, 200> text{};
      auto const share = [&](double part) {
        return sum.seconds > 0 ? 100 * part / sum.seconds : 0;
      };
      std::snprintf(text.data(), text.size(), "%-16s %8llu %9.3g %8.1f%% %8.1f%% %8.1f%% %8.1f%%\n",
                    std::string(collective_names[kind]).c_str(),
                    static_cast<unsigned long long>(sum.calls), sum.seconds, share(sum.for_peers),
                    share(sum.to_receive), share(sum.to_send), share(sum.moving));
      result += text.data();
    }
    return result;
  }

  /// Returns one call as a JSON object without line breaks. Times are in microseconds.
  [[nodiscard]] static std::string json(call_event const& event) {
    return "{" + facts(event) + ",\"begin_us\":" + microseconds(event.begin) +
           ",\"us\":" + microseconds(event.nanoseconds()) + "}";
  }

  /// Returns one call as a complete event of the trace event format, with the rank as its thread.
  [[nodiscard]] static std::string trace(call_event const& event) {
    return "{\"name\":\"" + std::string(to_text(event.kind)) +
           "\",\"ph\":\"X\",\"pid\":" + std::to_string(getpid()) +
           ",\"tid\":" + std::to_string(event.rank) + ",\"ts\":" + microseconds(event.begin) +
           ",\"dur\":" + microseconds(event.nanoseconds()) + ",\"args\":{" + facts(event) + "}}";
  }

 private:
  struct close_file {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using file = std::unique_ptr<std::FILE, close_file>;

  static file open(std::string const& pattern) {
    if (pattern.empty()) return nullptr;
    auto const name = detail::record_file_name(pattern, "record_options: the name of a file");
    // A pipe without a reader would block the ranks.
    int const number =
        ::open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
    struct stat known{};
    bool const may_block = number >= 0 && fstat(number, &known) == 0 && !S_ISREG(known.st_mode) &&
                           !S_ISCHR(known.st_mode);
    file result(number < 0 ? nullptr : fdopen(number, "a"));
    if (!result) {
      throw input_error(name + ": cannot be opened for writing: " + std::strerror(errno));
    }
    if (may_block) throw input_error(name + ": is a pipe, expected a file, which blocks no rank");
    return result;
  }
  // Flushes each record, so that it is kept if the process ends early.
  static void write(file& to, std::string const& text) {
    if (std::fputs(text.c_str(), to.get()) >= 0 && std::fflush(to.get()) == 0) return;
    std::fprintf(stderr, "blink: records of calls cannot be written: %s\n", std::strerror(errno));
    to.reset();
  }

  void add(call_event const& event) {
    auto& sum = sums_[static_cast<std::size_t>(event.kind)];
    auto const seconds = [](std::uint64_t time) { return static_cast<double>(time) * 1e-9; };
    ++sum.calls;
    sum.failures += event.is_ok ? 0 : 1;
    sum.seconds += seconds(event.nanoseconds());
    sum.for_peers += seconds(event.waited_for_peers);
    sum.to_receive += seconds(event.waited_to_receive);
    sum.to_send += seconds(event.waited_to_send);
    sum.moving += seconds(event.nanoseconds()) - seconds(event.waited());
    sum.sent_bytes += event.sent_bytes;
  }

  static std::string microseconds(std::uint64_t nanoseconds) {
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%llu.%03llu",
                  static_cast<unsigned long long>(nanoseconds / 1000),
                  static_cast<unsigned long long>(nanoseconds % 1000));
    return text.data();
  }
  // Names of types from compilers hold no quotes or backslashes so far; they are escaped all the
  // same.
  static std::string quoted_text(std::string_view text) {
    std::string result = "\"";
    for (char const letter : text) {
      if (letter == '"' || letter == '\\') result += '\\';
      result += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
    }
    return result + "\"";
  }
  static std::string host_name() {
    std::array<char, 256> host{};
    return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
  }
  static std::string facts(call_event const& event) {
    std::string sent, links;
    for (std::size_t k = 0; k < event.peer_count; ++k) {
      auto const& to = event.to_peers[k];
      sent +=
          (k == 0 ? "[" : ",[") + std::to_string(to.peer) + "," + std::to_string(to.bytes) + "]";
    }
    for (std::size_t k = 0; k < event.link_count; ++k) {
      auto const& on = event.on_links[k];
      links += (k == 0 ? "[" : ",[") + std::to_string(on.link) + "," + quoted_text(on.name) + "," +
               std::to_string(on.bytes_per_second) + "," + std::to_string(on.bytes) + "]";
    }
    static std::string const host = quoted_text(host_name());
    std::array<char, 20> source{};
    std::snprintf(source.data(), source.size(), "%016llx",
                  static_cast<unsigned long long>(event.schedule_hash));
    return "\"collective\":\"" + std::string(to_text(event.kind)) +
           "\",\"rank\":" + std::to_string(event.rank) +
           ",\"ranks\":" + std::to_string(event.rank_count) + ",\"plan\":\"" + source.data() +
           "\",\"count\":" + std::to_string(event.count) +
           ",\"element_bytes\":" + std::to_string(event.element_bytes) +
           ",\"types\":" + quoted_text(event.types) +
           ",\"ok\":" + (event.is_ok ? "true" : "false") +
           ",\"way\":" + (event.is_sent_with_call ? "\"eager\"" : "\"trees\"") +
           ",\"sent_bytes\":" + std::to_string(event.sent_bytes) +
           ",\"received_bytes\":" + std::to_string(event.received_bytes) +
           ",\"waited_for_peers_us\":" + microseconds(event.waited_for_peers) +
           ",\"waited_to_receive_us\":" + microseconds(event.waited_to_receive) +
           ",\"waited_to_send_us\":" + microseconds(event.waited_to_send) + ",\"host\":" + host +
           ",\"core\":" + std::to_string(event.core) + ",\"to_peers\":[" + sent +
           "],\"on_links\":[" + links + "]";
  }
  static std::string line(call_event const& event) {
    return "blink: rank " + std::to_string(event.rank) + " of " + std::to_string(event.rank_count) +
           ", " + std::string(to_text(event.kind)) + " of " + std::to_string(event.count) +
           " elements of " + std::to_string(event.element_bytes) +
           " bytes: " + (event.is_ok ? "" : "failed after ") + microseconds(event.nanoseconds()) +
           " us, of which for peers " + microseconds(event.waited_for_peers) + ", to receive " +
           microseconds(event.waited_to_receive) + ", to send " +
           microseconds(event.waited_to_send) + "\n";
  }

  record_options options_;
  mutable std::mutex mutex_;
  file debug_, record_, trace_;
  std::array<stall_sum, collective_names.size()> sums_{};
};

/// Records the calls of this process as the environment asks, from the first call of this function
/// to the end of the process.
///
/// Does nothing if the environment asks for nothing, or from the second call on. Ranks that are
/// processes need no call of it: their first communicator records, unless the program has an
/// observer by then.
///
/// Throws: input_error if a variable is wrong or a file cannot be opened.
inline void record_calls_as_environment_says() {
  // Threads may call collectives until the process ends, so the observer stays.
  static call_records* const records = [] {
    auto const options = read_record_environment();
    if (options.writes_nothing()) return static_cast<call_records*>(nullptr);
    auto* const result = new call_records(options);
    observe_calls(result);
    return result;
  }();
  static_cast<void>(records);
}

namespace detail {

/// The same for the communicators of processes. Does nothing if there is an observer. A wrong
/// variable or file is printed, because a rank without records must not keep its peers waiting.
inline void record_calls_of_process() {
  static bool const is_first = [] {
    if (present_observer.load() != nullptr) return false;
    try {
      record_calls_as_environment_says();
    } catch (error const& problem) {
      std::fprintf(stderr, "blink: no records of calls: %s\n", problem.what());
    }
    return true;
  }();
  static_cast<void>(is_first);
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI
