// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/interop/step_program.hpp>
#include <blink/topology/readers/detail/json_checks.hpp>
#include <blink/topology/readers/detail/json_text.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Values that all versions of MSCCL++'s execution plans share.
class mscclpp_json_values : protected json_checks {
 protected:
  using type = mscclpp_channel_type;

  explicit mscclpp_json_values(std::string const& file) : json_checks(file) {}

  // Wider than the executor's limits, narrow enough to be harmless.
  static constexpr std::int64_t most_ranks = 65536;
  static constexpr std::int64_t most_blocks = 65536;
  static constexpr std::int64_t most_chunks = std::int64_t{1} << 20;
  static constexpr std::int64_t most_bytes = std::int64_t{1} << 30;

  [[nodiscard]] int number(json_value const& object, std::string const& path,
                           std::string const& key, std::int64_t most) const {
    return static_cast<int>(integer(required(object, path, key), path + ": " + key, 0, most));
  }
  [[nodiscard]] std::string text(json_value const& object, std::string const& path,
                                 std::string const& key) const {
    auto const& value = required(object, path, key);
    require_kind(value, json_kind::string, path + ": " + key, "text");
    return value.text;
  }
  [[nodiscard]] bool truth(json_value const* value, std::string const& key, bool absent) const {
    if (value == nullptr) return absent;
    require_kind(*value, json_kind::boolean, key, "true or false");
    return value->text == "true";
  }
  /// The items of a list; none if the key is absent.
  [[nodiscard]] std::vector<json_value> const& list(json_value const& object,
                                                    std::string const& path,
                                                    std::string const& key) const {
    static std::vector<json_value> const none;
    require_kind(object, json_kind::object, path, "an object");
    auto const* found = object.find(key);
    if (found == nullptr) return none;
    require_kind(*found, json_kind::array, path + ": " + key, "a list");
    return found->items;
  }
  [[nodiscard]] std::vector<int> numbers(json_value const& object, std::string const& path,
                                         std::string const& key, std::int64_t most) const {
    std::vector<int> result;
    for (auto const& each : list(object, path, key)) {
      result.push_back(static_cast<int>(integer(each, path + ": " + key, 0, most)));
    }
    return result;
  }
  [[nodiscard]] step_buffer buffer(json_value const& object, std::string const& path,
                                   std::string const& key) const {
    auto const name = text(object, path, key);
    if (name == "i") return step_buffer::input;
    if (name == "o") return step_buffer::output;
    if (name == "s") return step_buffer::scratch;
    fail(*object.find(key), path + ": " + key, in_quotes(name), "i, o or s");
  }
  /// A path by its present or earlier name; nothing for "none".
  [[nodiscard]] std::optional<type> channel_type(json_value const& value,
                                                 std::string const& path) const {
    require_kind(value, json_kind::string, path, "memory, port, switch or none");
    auto const& name = value.text;
    if (name == "memory" || name == "sm") return type::memory;
    if (name == "port" || name == "proxy") return type::port;
    if (name == "switch" || name == "nvls") return type::multimem;
    if (name == "none") return std::nullopt;
    fail(value, path, in_quotes(name), "memory, port, switch or none");
  }
  /// The same where "none" has no meaning.
  [[nodiscard]] type some_channel_type(json_value const& value, std::string const& path) const {
    auto const found = channel_type(value, path);
    if (!found) fail(value, path, "'none'", "memory, port or switch");
    return *found;
  }

  /// An entry of a list, or an error that names both.
  template <class T>
  [[nodiscard]] T const& entry(std::vector<T> const& values, int at, json_value const& value,
                               std::string const& path, std::string const& what) const {
    if (static_cast<std::size_t>(at) >= values.size()) {
      fail(value, path, std::to_string(at),
           "one of the " + std::to_string(values.size()) + " " + what);
    }
    return values[static_cast<std::size_t>(at)];
  }

  /// Checks that ids count from 0 in the order of the list.
  void require_id(json_value const& object, std::string const& path, std::size_t expected) const {
    auto const& id = required(object, path, "id");
    if (integer(id, path + ": id", 0, most_ranks) == static_cast<std::int64_t>(expected)) return;
    fail(id, path + ": id", excerpt(id), std::to_string(expected) + ", the position in the list");
  }

  /// Reads what stands outside of "gpus".
  [[nodiscard]] mscclpp_program read_top(json_value const& top, bool needs_collective) const {
    mscclpp_program program;
    program.name = text(top, "the plan", "name");
    if (needs_collective || top.find("collective") != nullptr) {
      program.collective_name = text(top, "the plan", "collective");
    }
    program.collective = collective_of(program.collective_name);
    if (program.collective) program.collective_name.clear();
    auto const protocol = text(top, "the plan", "protocol");
    if (protocol != "Simple" && protocol != "LL") {
      fail(*top.find("protocol"), "protocol", in_quotes(protocol), "Simple or LL");
    }
    program.has_packets = protocol == "LL";
    program.shares_scratch = truth(top.find("reuse_resources"), "reuse_resources", false);
    program.doubles_scratch =
        truth(top.find("use_double_scratch_buffer"), "use_double_scratch_buffer", false);
    auto const least_one = [&](char const* key, int absent) {
      auto const* value = top.find(key);
      return value == nullptr ? absent : static_cast<int>(integer(*value, key, 1, most_bytes));
    };
    program.alignment = least_one("buffer_alignment", program.alignment);
    program.threads = least_one("num_threads_per_block", program.threads);
    program.least_bytes = size(top.find("min_message_size"), "min_message_size", 0);
    program.most_bytes = size(top.find("max_message_size"), "max_message_size", program.most_bytes);
    return program;
  }

 private:
  [[nodiscard]] static std::optional<collective> collective_of(std::string_view name) {
    for (auto const kind :
         {collective::all_reduce, collective::all_gather, collective::reduce_scatter,
          collective::all_to_all, collective::broadcast, collective::reduce}) {
      std::string plain(to_text(kind));
      std::erase(plain, '_');
      if (name == plain) return kind;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::uint64_t size(json_value const* value, std::string const& key,
                                   std::uint64_t absent) const {
    if (value == nullptr) return absent;
    std::uint64_t result = 0;
    auto const* const end = value->text.data() + value->text.size();
    auto const read = std::from_chars(value->text.data(), end, result);
    if (value->kind != json_kind::number || read.ec != std::errc() || read.ptr != end) {
      fail(*value, key, excerpt(*value), "a number of bytes");
    }
    return result;
  }
};

}}}  // namespace blink::BLINK_ABI::detail
