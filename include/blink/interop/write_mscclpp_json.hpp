// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/mscclpp_kind.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/interop/step_program.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

using mscclpp_json = nlohmann::ordered_json;

/// The positions of distinct values, in the order of their first use.
template <class T>
struct position_list {
  std::vector<T> values;
  int of(T const& value) {
    auto const at = std::find(values.begin(), values.end(), value) - values.begin();
    if (at == std::ssize(values)) values.push_back(value);
    return static_cast<int>(at);
  }
};

/// Writes the blocks of one rank. Operations number channels and remote buffers by the block's own
/// lists.
class mscclpp_rank_writer {
 public:
  explicit mscclpp_rank_writer(mscclpp_program const& program) : program_(&program) {}

  [[nodiscard]] mscclpp_json write(mscclpp_rank const& rank, std::size_t id) {
    auto blocks = mscclpp_json::array();
    for (auto const& block : rank.blocks) {
      blocks.push_back(write(block, blocks.size()));
    }
    auto channels = mscclpp_json::array();
    auto const connect = [&](type of, std::vector<int> const& peers) {
      if (peers.empty()) return;
      channels.push_back({{"channel_type", to_text(of)}, {"connected_to", peers}});
    };
    connect(type::memory, rank.memory_peers);
    connect(type::port, rank.port_peers);
    for (auto const& group : rank.groups) {
      channels.push_back({{"channel_type", to_text(type::multimem)},
                          {"buffer_type", letter_of(group.buffer)},
                          {"rank_groups", {{{"size", group.chunks}, {"ranks", group.ranks}}}}});
    }
    auto buffers = mscclpp_json::array();
    for (auto const& [over, place] : remote_.values) {
      buffers.push_back({{"rank", place.first},
                         {"type", letter_of(place.second)},
                         {"access_channel_types", {to_text(over)}}});
    }
    auto semaphores = mscclpp_json::array();
    for (int s = 0; s < rank.semaphores; ++s) {
      semaphores.push_back({{"init_value", rank.semaphore_value(s)}});
    }
    return {{"id", id},
            {"input_chunks", rank.input_chunks},
            {"output_chunks", rank.output_chunks},
            {"scratch_chunks", rank.scratch_chunks},
            {"threadblocks", std::move(blocks)},
            {"channels", std::move(channels)},
            {"remote_buffers", std::move(buffers)},
            {"semaphores", std::move(semaphores)}};
  }

 private:
  using type = mscclpp_channel_type;
  using buffer_key = std::pair<type, std::pair<int, step_buffer>>;

  [[nodiscard]] mscclpp_json write(mscclpp_block const& block, std::size_t id) {
    channels_.clear();
    buffers_.clear();
    auto operations = mscclpp_json::array();
    for (auto const& segment : block.segments) {
      auto inside = mscclpp_json::array();
      for (auto const& op : segment.operations) inside.push_back(write(op));
      if (segment.loop_chunks == 0) {
        for (auto& op : inside) operations.push_back(std::move(op));
      } else {
        operations.push_back(
            {{"name", "pipeline"},
             {"iter_context",
              {{"unit_size", program_->unit_of(segment)}, {"num_chunks", segment.loop_chunks}}},
             {"ops", std::move(inside)}});
      }
    }
    auto channels = mscclpp_json::array();
    for (auto const& [over, list] : channels_) {
      channels.push_back({{"channel_type", to_text(over)}, {"channel_ids", list.values}});
    }
    auto buffers = mscclpp_json::array();
    for (auto const& [over, list] : buffers_) {
      buffers.push_back(
          {{"access_channel_type", to_text(over)}, {"remote_buffer_ids", list.values}});
    }
    return {{"id", id},
            {"ops", std::move(operations)},
            {"channels", std::move(channels)},
            {"remote_buffer_refs", std::move(buffers)}};
  }

  /// The path of an operation; nothing if it stays inside the rank.
  [[nodiscard]] static std::optional<type> type_of(mscclpp_operation const& op) {
    if (!op.channels.empty()) return op.channels.front().type;
    for (auto const* list : {&op.sources, &op.destinations}) {
      for (auto const& place : *list) {
        if (place.group >= 0) return type::multimem;
        if (place.rank >= 0) return type::memory;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] mscclpp_json write(mscclpp_operation const& op) {
    mscclpp_json result{{"name", to_text(op.kind)}};
    auto const over = type_of(op);
    auto const places = [&](char const* key, std::vector<mscclpp_place> const& list) {
      if (list.empty()) return;
      auto& to = result[key] = mscclpp_json::array();
      for (auto const& place : list) {
        mscclpp_json one;
        if (place.group >= 0) {
          one["switch_channel_id"] = channels_[type::multimem].of(place.group);
        } else if (place.rank < 0) {
          one["type"] = letter_of(place.buffer);
        } else {
          int const known = remote_.of({*over, {place.rank, place.buffer}});
          one["buffer_id"] = buffers_[*over].of(known);
        }
        one["index"] = place.chunk;
        one["size"] = op.counts.empty() ? op.count : op.counts[to.size()];
        to.push_back(std::move(one));
      }
    };
    places("src_buff", op.sources);
    places("dst_buff", op.destinations);
    if (!op.channels.empty()) {
      auto& ids = result["channel_ids"] = mscclpp_json::array();
      for (auto const& c : op.channels) ids.push_back(channels_[*over].of(c.id));
    }
    if (over) result["channel_type"] = to_text(*over);
    if (!op.semaphores.empty()) result["semaphore_ids"] = op.semaphores;
    if (op.barrier >= 0) {
      result["barrier_id"] = op.barrier;
      result["num_threadblocks"] = op.barrier_blocks;
    }
    if (op.slices > 1) result["tbg_info"] = {{"tb_id", op.slice}, {"tbg_size", op.slices}};
    if (adds_up(op.kind)) result["reduce_op"] = "sum";
    return result;
  }

  mscclpp_program const* program_;
  position_list<buffer_key> remote_;
  std::map<type, position_list<int>> channels_;  // of the block
  std::map<type, position_list<int>> buffers_;   // the same
};

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// An execution plan as JSON for MSCCL++'s executor, as of MSCCL++ 0.9.
[[nodiscard]] inline std::string write_mscclpp_json(mscclpp_program const& program) {
  auto ranks = nlohmann::ordered_json::array();
  for (auto const& rank : program.ranks) {
    ranks.push_back(detail::mscclpp_rank_writer(program).write(rank, ranks.size()));
  }
  nlohmann::ordered_json const result{
      {"name", program.name},
      {"collective",
       program.collective ? mscclpp_name(*program.collective) : program.collective_name},
      {"protocol", program.has_packets ? "LL" : "Simple"},
      {"inplace", program.in_place},
      {"reuse_resources", program.shares_scratch},
      {"gpus", std::move(ranks)},
      {"num_threads_per_block", program.threads},
      {"use_double_scratch_buffer", program.doubles_scratch},
      {"buffer_alignment", program.alignment},
      {"min_message_size", program.least_bytes},
      {"max_message_size", program.most_bytes}};
  return result.dump(1) + "\n";
}

/// Writes the file. Throws: input_error if the file cannot be written.
inline void write_mscclpp_json_file(mscclpp_program const& program, std::string const& file) {
  detail::write_text(file, write_mscclpp_json(program));
}

}}  // namespace blink::BLINK_ABI
