// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/interop/detail/mscclpp_json_values.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/topology/readers/detail/json_text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads plans as MSCCL++ writes and runs them since 0.8.
class mscclpp_json_reader : mscclpp_json_values {
 public:
  explicit mscclpp_json_reader(std::string const& file) : mscclpp_json_values(file) {}

  [[nodiscard]] mscclpp_program read(json_value const& top) {
    auto program = read_top(top, true);
    program.in_place = truth(&required(top, "the plan", "inplace"), "inplace", false);
    require_kind(required(top, "the plan", "gpus"), json_kind::array, "gpus", "a list");
    auto const& gpus = list(top, "the plan", "gpus");
    if (gpus.empty()) fail(*top.find("gpus"), "gpus", "an empty list", "one entry for each rank");
    for (auto const& gpu : gpus) program.ranks.push_back(read_rank(gpu, program.ranks.size()));
    use_common_unit(program);
    return program;
  }

 private:
  /// The lists to which the operations of a block refer.
  struct block_lists {
    std::map<type, std::vector<int>> channels = {};                  // of the rank
    std::map<type, std::vector<mscclpp_place>> remote_buffers = {};  // their first chunks
  };
  struct remote_buffer {
    mscclpp_place place;
    std::vector<type> access;
  };

  [[nodiscard]] mscclpp_rank read_rank(json_value const& gpu, std::size_t number) {
    auto const path = "rank " + std::to_string(number);
    require_kind(gpu, json_kind::object, path, "an object");
    require_id(gpu, path, number);
    mscclpp_rank rank;
    rank.input_chunks = this->number(gpu, path, "input_chunks", most_chunks);
    rank.output_chunks = this->number(gpu, path, "output_chunks", most_chunks);
    rank.scratch_chunks = this->number(gpu, path, "scratch_chunks", most_chunks);
    for (auto const& channel : list(gpu, path, "channels")) read_channel(channel, path, rank);
    std::vector<remote_buffer> remote;
    for (auto const& each : list(gpu, path, "remote_buffers")) {
      auto const here = path + ", remote buffer " + std::to_string(remote.size());
      require_kind(each, json_kind::object, here, "an object");
      remote.push_back(
          {{this->number(each, here, "rank", most_ranks), buffer(each, here, "type")}, {}});
      for (auto const& name : list(each, here, "access_channel_types")) {
        remote.back().access.push_back(some_channel_type(name, here + ": access_channel_types"));
      }
    }
    std::vector<int> values;
    for (auto const& each : list(gpu, path, "semaphores")) {
      auto const here = path + ", semaphore " + std::to_string(values.size());
      require_kind(each, json_kind::object, here, "an object");
      values.push_back(this->number(each, here, "init_value", most_bytes));
    }
    rank.semaphores = static_cast<int>(values.size());
    if (std::any_of(values.begin(), values.end(), [](int value) { return value != 0; })) {
      rank.semaphore_values = values;
    }
    for (auto const& block : list(gpu, path, "threadblocks")) {
      auto const here = path + ", block " + std::to_string(rank.blocks.size());
      require_kind(block, json_kind::object, here, "an object");
      require_id(block, here, rank.blocks.size());
      rank.blocks.push_back(read_block(block, here, rank, remote));
    }
    return rank;
  }

  void read_channel(json_value const& channel, std::string const& path, mscclpp_rank& rank) const {
    require_kind(channel, json_kind::object, path + ", channel", "an object");
    auto const of = some_channel_type(required(channel, path + ", channel", "channel_type"),
                                      path + ", channel");
    if (of != type::multimem) {
      auto const peers = numbers(channel, path + ", channel", "connected_to", most_ranks);
      auto& all = of == type::memory ? rank.memory_peers : rank.port_peers;
      all.insert(all.end(), peers.begin(), peers.end());
      return;
    }
    bool const is_short = channel.find("buff") != nullptr;  // in files before 0.8
    auto const where = buffer(channel, path + ", channel", is_short ? "buff" : "buffer_type");
    for (auto const& group : list(channel, path + ", channel", "rank_groups")) {
      require_kind(group, json_kind::object, path + ", channel", "an object");
      rank.groups.push_back({where, numbers(group, path + ", channel", "ranks", most_ranks),
                             number(group, path + ", channel", "size", most_chunks)});
    }
  }

  [[nodiscard]] mscclpp_block read_block(json_value const& block, std::string const& path,
                                         mscclpp_rank const& rank,
                                         std::vector<remote_buffer> const& remote) const {
    block_lists lists;
    for (auto const& channel : list(block, path, "channels")) {
      require_kind(channel, json_kind::object, path + ", channel", "an object");
      auto const of = some_channel_type(required(channel, path + ", channel", "channel_type"),
                                        path + ", channel");
      auto const known = of == type::memory ? rank.memory_peers.size()
                         : of == type::port ? rank.port_peers.size()
                                            : rank.groups.size();
      for (int const id : numbers(channel, path + ", channel", "channel_ids", most_blocks)) {
        if (static_cast<std::size_t>(id) >= known) {
          fail(*channel.find("channel_ids"), path + ": channel_ids", std::to_string(id),
               "one of the rank's " + std::to_string(known) + " " + std::string(to_text(of)) +
                   " channels");
        }
        lists.channels[of].push_back(id);
      }
    }
    for (auto const& reference : list(block, path, "remote_buffer_refs")) {
      auto const here = path + ", remote_buffer_refs";
      require_kind(reference, json_kind::object, here, "an object");
      auto const of = some_channel_type(required(reference, here, "access_channel_type"), here);
      for (int const id : numbers(reference, here, "remote_buffer_ids", most_blocks)) {
        auto const& ids = *reference.find("remote_buffer_ids");
        auto const& found = entry(remote, id, ids, here, "remote buffers of the rank");
        if (std::find(found.access.begin(), found.access.end(), of) == found.access.end()) {
          fail(ids, here, std::to_string(id),
               "a remote buffer with access over " + std::string(to_text(of)) + " channels");
        }
        lists.remote_buffers[of].push_back(found.place);
      }
    }
    mscclpp_block result;
    int position = 0;
    for (auto const& op : list(block, path, "ops")) {
      auto const here = path + ", operation " + std::to_string(position++);
      require_kind(op, json_kind::object, here, "an object");
      if (text(op, here, "name") == "pipeline") {
        result.segments.push_back(read_loop(op, here, lists));
        continue;
      }
      bool const follows = !result.segments.empty() && result.segments.back().loop_chunks == 0;
      if (!follows) result.segments.emplace_back();
      result.segments.back().operations.push_back(read_operation(op, here, lists));
    }
    return result;
  }

  [[nodiscard]] mscclpp_segment read_loop(json_value const& op, std::string const& path,
                                          block_lists const& lists) const {
    auto const& context = required(op, path, "iter_context");
    auto const here = path + ": iter_context";
    require_kind(context, json_kind::object, here, "an object");
    mscclpp_segment result;
    auto const positive = [&](char const* key, std::int64_t most) {
      return static_cast<int>(integer(required(context, here, key), here + "." + key, 1, most));
    };
    result.loop_chunks = positive("num_chunks", most_chunks);
    result.unit_bytes = positive("unit_size", most_bytes);
    for (auto const& inner : list(op, path, "ops")) {
      auto const at = path + "." + std::to_string(result.operations.size());
      require_kind(inner, json_kind::object, at, "an object");
      if (text(inner, at, "name") == "pipeline") {
        fail(inner, at, "a pipeline in a pipeline", "an operation that moves data or waits");
      }
      result.operations.push_back(read_operation(inner, at, lists));
    }
    if (result.operations.empty()) fail(op, path, "a pipeline without ops", "ops");
    return result;
  }

  [[nodiscard]] mscclpp_operation read_operation(json_value const& op, std::string const& path,
                                                 block_lists const& lists) const {
    mscclpp_operation result;
    result.kind = kind_of(op, path);
    std::optional<type> over;
    if (auto const* name = op.find("channel_type")) {
      over = channel_type(*name, path + ": channel_type");
    }
    for (int const id : numbers(op, path, "channel_ids", most_blocks)) {
      auto const& ids = *op.find("channel_ids");
      if (!over) fail(ids, path + ": channel_ids", "no channel_type", "memory, port or switch");
      auto const& known = of_type(lists.channels, *over);
      result.channels.push_back(
          {*over, entry(known, id, ids, path + ": channel_ids",
                        "channels of type " + std::string(to_text(*over)) + " of the block")});
    }
    std::vector<int> sizes;
    result.sources = places(op, path, "src_buff", over, lists, sizes);
    auto const of_sources = sizes;
    sizes.clear();
    result.destinations = places(op, path, "dst_buff", over, lists, sizes);
    set_counts(op, path, of_sources, sizes, result);
    result.semaphores = numbers(op, path, "semaphore_ids", most_blocks);
    if (result.kind == mscclpp_kind::barrier) {
      result.barrier = number(op, path, "barrier_id", most_blocks);
      result.barrier_blocks = number(op, path, "num_threadblocks", most_blocks);
    }
    if (auto const* group = op.find("tbg_info")) {
      require_kind(*group, json_kind::object, path + ": tbg_info", "an object");
      result.slice = number(*group, path + ": tbg_info", "tb_id", most_blocks);
      result.slices = number(*group, path + ": tbg_info", "tbg_size", most_blocks);
    }
    if (auto const* reduce = op.find("reduce_op"); reduce != nullptr && reduce->text != "sum") {
      fail(*reduce, path + ": reduce_op", excerpt(*reduce), "sum, as the executor always adds up");
    }
    return result;
  }

  [[nodiscard]] mscclpp_kind kind_of(json_value const& op, std::string const& path) const {
    auto const name = text(op, path, "name");
    auto const known = std::find(mscclpp_names.begin(), mscclpp_names.end(), name);
    if (known == mscclpp_names.end()) {
      std::string all;
      for (auto const each : mscclpp_names) all += std::string(each) + ", ";
      fail(*op.find("name"), path, in_quotes(name), "one of " + all + "pipeline");
    }
    return static_cast<mscclpp_kind>(known - mscclpp_names.begin());
  }

  template <class T>
  [[nodiscard]] static std::vector<T> const& of_type(std::map<type, std::vector<T>> const& lists,
                                                     type of) {
    static std::vector<T> const none;
    auto const found = lists.find(of);
    return found == lists.end() ? none : found->second;
  }

  [[nodiscard]] std::vector<mscclpp_place> places(json_value const& op, std::string const& path,
                                                  std::string const& key, std::optional<type> over,
                                                  block_lists const& lists,
                                                  std::vector<int>& sizes) const {
    std::vector<mscclpp_place> result;
    for (auto const& each : list(op, path, key)) {
      auto const here = path + ": " + key + "[" + std::to_string(result.size()) + "]";
      require_kind(each, json_kind::object, here, "an object");
      mscclpp_place place;
      if (auto const* id = each.find("buffer_id")) {
        auto const& known = of_type(lists.remote_buffers, over.value_or(type::memory));
        place = entry(known, number(each, here, "buffer_id", most_blocks), *id, here,
                      "remote buffers of the block over channels of type " +
                          std::string(to_text(over.value_or(type::memory))));
      } else if (auto const* channel = each.find("switch_channel_id")) {
        place.group = entry(of_type(lists.channels, type::multimem),
                            number(each, here, "switch_channel_id", most_blocks), *channel, here,
                            "switch channels of the block");
      } else {
        place.buffer = buffer(each, here, "type");
      }
      place.chunk = number(each, here, "index", most_chunks);
      sizes.push_back(number(each, here, "size", most_chunks));
      result.push_back(place);
    }
    return result;
  }

  /// Pairs of places may have sizes of their own; for sums, the executor takes the first size.
  void set_counts(json_value const& op, std::string const& path, std::vector<int> const& sources,
                  std::vector<int> const& destinations, mscclpp_operation& result) const {
    auto all = sources;
    all.insert(all.end(), destinations.begin(), destinations.end());
    auto const other = std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>());
    if (other == all.end()) {
      if (!all.empty()) result.count = all.front();
      return;
    }
    if (sources != destinations) {
      fail(op, path + ": size",
           std::to_string(*other) + " and " + std::to_string(*std::next(other)) + " chunks",
           "one number of chunks at all places");
    }
    result.counts = sources;
  }

  /// Makes the unit of the first loop the program's.
  static void use_common_unit(mscclpp_program& program) {
    bool is_first = true;
    for (auto& rank : program.ranks) {
      for (auto& block : rank.blocks) {
        for (auto& segment : block.segments) {
          if (segment.loop_chunks == 0) continue;
          if (std::exchange(is_first, false)) program.unit_bytes = segment.unit_bytes;
          if (segment.unit_bytes == program.unit_bytes) segment.unit_bytes = 0;
        }
      }
    }
  }
};

}}}  // namespace blink::BLINK_ABI::detail
