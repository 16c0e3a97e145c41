// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/interop/mscclpp_kind.hpp>
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

/// The names that a form of execution plans has for what all forms say.
struct mscclpp_keys {
  // of a rank
  char const* input_chunks;
  char const* output_chunks;
  char const* scratch_chunks;
  // of a rank's channels
  char const* channel_type;
  char const* peers;
  char const* groups;
  char const* group_buffer;
  // of operations
  char const* barrier_blocks;
  std::string_view mscclpp_traits::* name;
};

/// The base of the readers of execution plans: values and objects that all forms share.
class mscclpp_reader : protected json_checks {
 protected:
  using type = mscclpp_channel_type;

  mscclpp_reader(std::string const& file, mscclpp_keys const& keys)
      : json_checks(file), keys_(keys) {}

  // Wider than the executor's limits, narrow enough to be harmless.
  static constexpr std::int64_t most_ranks = 65536;
  static constexpr std::int64_t most_blocks = 65536;
  static constexpr std::int64_t most_chunks = std::int64_t{1} << 20;
  static constexpr std::int64_t most_bytes = std::int64_t{1} << 30;

  /// The value of a key that an object must have.
  [[nodiscard]] json_value const& required(json_value const& object, std::string const& path,
                                           std::string const& key) const {
    require_kind(object, json_kind::object, path, "an object");
    return json_checks::required(object, path, key);
  }
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
    auto const found = buffer_of(name);
    if (!found) fail(*object.find(key), path + ": " + key, in_quotes(name), "i, o or s");
    return *found;
  }
  /// A path by its present or earlier name; nothing for "none".
  [[nodiscard]] std::optional<type> channel_type(json_value const& value,
                                                 std::string const& path) const {
    require_kind(value, json_kind::string, path, "memory, port, switch or none");
    auto const& name = value.text;
    if (name == to_text(type::memory) || name == "sm") return type::memory;
    if (name == to_text(type::port) || name == "proxy") return type::port;
    if (name == to_text(type::multimem) || name == "nvls") return type::multimem;
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
  /// An entry of a map of lists; an empty list if there is none.
  template <class Lists>
  [[nodiscard]] static typename Lists::mapped_type const& list_of(
      Lists const& lists, typename Lists::key_type const& key) {
    static typename Lists::mapped_type const none;
    auto const found = lists.find(key);
    return found == lists.end() ? none : found->second;
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

  /// Reads the sizes of a rank's buffers.
  [[nodiscard]] mscclpp_rank read_sizes(json_value const& gpu, std::string const& path,
                                        std::size_t rank_number) const {
    require_id(gpu, path, rank_number);
    mscclpp_rank rank;
    rank.input_chunks = number(gpu, path, keys_.input_chunks, most_chunks);
    rank.output_chunks = number(gpu, path, keys_.output_chunks, most_chunks);
    rank.scratch_chunks = number(gpu, path, keys_.scratch_chunks, most_chunks);
    return rank;
  }
  /// Adds the channels of an entry in a rank's list of them. Returns the first, where more follow.
  mscclpp_channel read_channels(json_value const& channel, std::string const& path,
                                mscclpp_rank& rank) const {
    auto const of = some_channel_type(required(channel, path, keys_.channel_type), path);
    mscclpp_channel const first{of, static_cast<int>(rank.channel_count(of))};
    if (of != type::multimem) {
      auto const more = numbers(channel, path, keys_.peers, most_ranks);
      auto& peers = rank.peers(of);
      peers.insert(peers.end(), more.begin(), more.end());
      return first;
    }
    bool const is_short = channel.find("buff") != nullptr;  // in all files before 0.8
    auto const where = buffer(channel, path, is_short ? "buff" : keys_.group_buffer);
    for (auto const& group : list(channel, path, keys_.groups)) {
      rank.groups.push_back({where, numbers(group, path, "ranks", most_ranks),
                             number(group, path, "size", most_chunks)});
    }
    return first;
  }
  /// Adds a rank's blocks.
  ///
  /// read: called with each block and its path, returns it
  template <class Read>
  void read_blocks(json_value const& gpu, std::string const& path, mscclpp_rank& rank,
                   Read const& read) const {
    for (auto const& block : list(gpu, path, "threadblocks")) {
      auto const here = path + ", block " + std::to_string(rank.blocks.size());
      require_id(block, here, rank.blocks.size());
      rank.blocks.push_back(read(block, here));
    }
  }
  /// Reads the kind of an operation, and the barrier of one.
  ///
  /// other: more names for an error to list
  [[nodiscard]] mscclpp_operation read_kind(json_value const& op, std::string const& path,
                                            std::string const& other = "") const {
    auto const name = text(op, path, "name");
    std::string all;
    for (auto const& row : mscclpp_kinds) {
      auto const known = row.*keys_.name;
      if (known.empty()) continue;
      if (name != known) {
        all += (all.empty() ? "" : ", ") + std::string(known);
        continue;
      }
      mscclpp_operation result{row.kind};
      if (row.kind == mscclpp_kind::barrier) {
        result.barrier = number(op, path, "barrier_id", most_blocks);
        result.barrier_blocks = number(op, path, keys_.barrier_blocks, most_blocks);
      }
      return result;
    }
    fail(*op.find("name"), path, in_quotes(name), "one of " + all + other);
  }

 private:
  [[nodiscard]] static std::optional<collective> collective_of(std::string_view name) {
    for (auto const kind :
         {collective::all_reduce, collective::all_gather, collective::reduce_scatter,
          collective::all_to_all, collective::broadcast, collective::reduce}) {
      if (name == mscclpp_name(kind)) return kind;
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

  mscclpp_keys keys_;
};

}}}  // namespace blink::BLINK_ABI::detail
