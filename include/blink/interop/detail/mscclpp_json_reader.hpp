// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/interop/detail/mscclpp_reader.hpp>
#include <blink/interop/mscclpp_kind.hpp>
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
class mscclpp_json_reader : mscclpp_reader {
 public:
  explicit mscclpp_json_reader(std::string const& file)
      : mscclpp_reader(file, {"input_chunks", "output_chunks", "scratch_chunks", "channel_type",
                              "connected_to", "rank_groups", "buffer_type", "num_threadblocks",
                              &mscclpp_traits::name}) {}

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

  [[nodiscard]] mscclpp_rank read_rank(json_value const& gpu, std::size_t rank_number) const {
    auto const path = "rank " + std::to_string(rank_number);
    auto rank = read_sizes(gpu, path, rank_number);
    for (auto const& channel : list(gpu, path, "channels")) {
      read_channels(channel, path + ", channel", rank);
    }
    std::vector<remote_buffer> remote;
    for (auto const& each : list(gpu, path, "remote_buffers")) {
      auto const here = path + ", remote buffer " + std::to_string(remote.size());
      remote.push_back({{number(each, here, "rank", most_ranks), buffer(each, here, "type")}, {}});
      for (auto const& name : list(each, here, "access_channel_types")) {
        remote.back().access.push_back(some_channel_type(name, here + ": access_channel_types"));
      }
    }
    for (auto const& each : list(gpu, path, "semaphores")) {
      auto const here = path + ", semaphore " + std::to_string(rank.semaphores++);
      rank.semaphore_values.push_back(number(each, here, "init_value", most_bytes));
    }
    auto& values = rank.semaphore_values;
    if (std::all_of(values.begin(), values.end(), [](int value) { return value == 0; })) {
      values.clear();
    }
    read_blocks(gpu, path, rank, [&](json_value const& block, std::string const& here) {
      return read_block(block, here, rank, remote);
    });
    return rank;
  }

  [[nodiscard]] mscclpp_block read_block(json_value const& block, std::string const& path,
                                         mscclpp_rank const& rank,
                                         std::vector<remote_buffer> const& remote) const {
    block_lists lists;
    for (auto const& channel : list(block, path, "channels")) {
      auto const of = some_channel_type(required(channel, path + ", channel", "channel_type"),
                                        path + ", channel");
      auto const known = rank.channel_count(of);
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
    mscclpp_segment result;
    auto const positive = [&](char const* key, std::int64_t most) {
      return static_cast<int>(integer(required(context, here, key), here + "." + key, 1, most));
    };
    result.loop_chunks = positive("num_chunks", most_chunks);
    result.unit_bytes = positive("unit_size", most_bytes);
    for (auto const& inner : list(op, path, "ops")) {
      auto const at = path + "." + std::to_string(result.operations.size());
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
    auto result = read_kind(op, path, ", pipeline");
    std::optional<type> over;
    if (auto const* name = op.find("channel_type")) {
      over = channel_type(*name, path + ": channel_type");
    }
    for (int const id : numbers(op, path, "channel_ids", most_blocks)) {
      auto const& ids = *op.find("channel_ids");
      if (!over) fail(ids, path + ": channel_ids", "no channel_type", "memory, port or switch");
      auto const& known = list_of(lists.channels, *over);
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
    if (auto const* group = op.find("tbg_info")) {
      result.slice = number(*group, path + ": tbg_info", "tb_id", most_blocks);
      result.slices = number(*group, path + ": tbg_info", "tbg_size", most_blocks);
    }
    if (auto const* reduce = op.find("reduce_op"); reduce != nullptr && reduce->text != "sum") {
      fail(*reduce, path + ": reduce_op", excerpt(*reduce), "sum, as the executor always adds up");
    }
    return result;
  }

  [[nodiscard]] std::vector<mscclpp_place> places(json_value const& op, std::string const& path,
                                                  std::string const& key, std::optional<type> over,
                                                  block_lists const& lists,
                                                  std::vector<int>& sizes) const {
    std::vector<mscclpp_place> result;
    for (auto const& each : list(op, path, key)) {
      auto const here = path + ": " + key + "[" + std::to_string(result.size()) + "]";
      mscclpp_place place;
      if (auto const* id = each.find("buffer_id")) {
        auto const& known = list_of(lists.remote_buffers, over.value_or(type::memory));
        place = entry(known, number(each, here, "buffer_id", most_blocks), *id, here,
                      "remote buffers of the block over channels of type " +
                          std::string(to_text(over.value_or(type::memory))));
      } else if (auto const* channel = each.find("switch_channel_id")) {
        place.group = entry(list_of(lists.channels, type::multimem),
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
