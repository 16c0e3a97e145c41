// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/detail/mscclpp_reader.hpp>
#include <blink/interop/mscclpp_kind.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/interop/step_program.hpp>
#include <blink/topology/readers/detail/json_text.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads plans of MSCCL++ 0.5 to 0.7. There a channel has a buffer at each end, and operations name
/// channels where present ones name remote buffers.
class mscclpp_earlier_reader : mscclpp_reader {
 public:
  explicit mscclpp_earlier_reader(std::string const& file)
      : mscclpp_reader(file,
                       {"inputChunks", "outputChunks", "scratchChunks", "type", "connectedTo",
                        "rankGroups", "buff", "nthread_blocks", &mscclpp_traits::earlier_name}) {}

  /// True if the first rank has keys of these versions.
  [[nodiscard]] static bool is_earlier(json_value const& top) {
    auto const* gpus = top.find("gpus");
    return gpus != nullptr && gpus->kind == json_kind::array && !gpus->items.empty() &&
           gpus->items.front().find("inputChunks") != nullptr;
  }

  /// Pre: is_earlier(top).
  [[nodiscard]] mscclpp_program read(json_value const& top) {
    auto program = read_top(top, false);
    // Packets have two halves of scratch memory for calls in turn.
    program.doubles_scratch = has_packets_ = program.has_packets;
    for (auto const& gpu : list(top, "the plan", "gpus")) {
      program.ranks.push_back(read_rank(gpu, program.ranks.size()));
    }
    bool const has_one_buffer = std::all_of(
        program.ranks.begin(), program.ranks.end(),
        [](mscclpp_rank const& rank) { return rank.input_chunks == 0 || rank.output_chunks == 0; });
    program.in_place = truth(top.find("inplace"), "inplace", has_one_buffer);
    return program;
  }

 private:
  /// Channels of one type between buffers of these kinds have numbers of their own.
  struct channel_key {
    type over = type::memory;
    step_buffer local = step_buffer::input;
    step_buffer remote = step_buffer::input;
    friend auto operator<=>(channel_key const&, channel_key const&) = default;
    friend bool operator==(channel_key const&, channel_key const&) = default;  // nvcc warns without
  };
  using channel_lists = std::map<channel_key, std::vector<int>>;  // ids in the rank

  struct channel_use {
    mscclpp_channel channel;
    step_buffer local = step_buffer::input;
    mscclpp_place remote;
  };

  [[nodiscard]] mscclpp_rank read_rank(json_value const& gpu, std::size_t rank_number) const {
    auto const path = "rank " + std::to_string(rank_number);
    auto rank = read_sizes(gpu, path, rank_number);
    channel_lists known;
    for (auto const& channel : list(gpu, path, "channels")) {
      auto const here = path + ", channel";
      auto [of, id] = read_channels(channel, here, rank);
      bool const is_group = of == type::multimem;  // with one buffer at all its ranks
      for (; static_cast<std::size_t>(id) < rank.channel_count(of); ++id) {
        known[{of, buffer(channel, here, is_group ? "buff" : "srcbuff"),
               buffer(channel, here, is_group ? "buff" : "dstbuff")}]
            .push_back(id);
      }
    }
    read_blocks(gpu, path, rank, [&](json_value const& block, std::string const& here) {
      return read_block(block, here, rank, known);
    });
    return rank;
  }

  [[nodiscard]] mscclpp_block read_block(json_value const& block, std::string const& path,
                                         mscclpp_rank const& rank,
                                         channel_lists const& of_rank) const {
    channel_lists lists;
    for (auto const& channel : list(block, path, "channels")) {
      auto const here = path + ", channel";
      channel_key const key{some_channel_type(required(channel, here, "ctype"), here),
                            buffer(channel, here, "src"), buffer(channel, here, "dst")};
      for (int const id : numbers(channel, here, "cids", most_blocks)) {
        lists[key].push_back(
            entry(list_of(of_rank, key), id, *channel.find("cids"), here, "channels of the rank"));
      }
    }
    mscclpp_block result;
    result.segments.emplace_back();
    auto& operations = result.segments.back().operations;
    for (auto const& op : list(block, path, "ops")) {
      auto const here = path + ", operation " + std::to_string(operations.size());
      operations.push_back(read_operation(op, here, rank, lists));
      check_scratch(op, here, operations.back());
    }
    return result;
  }

  [[nodiscard]] mscclpp_operation read_operation(json_value const& op, std::string const& path,
                                                 mscclpp_rank const& rank,
                                                 channel_lists const& lists) const {
    auto result = read_kind(op, path);
    if (moves_data(result.kind)) result.count = number(op, path, "cnt", most_chunks);
    if (result.kind == mscclpp_kind::group_reduce) {
      result.sources = {group_place(op, path, "i_cids", "srcbuff", "srcoff", lists)};
      result.destinations = {group_place(op, path, "o_cids", "dstbuff", "dstoff", lists)};
      return result;
    }
    auto const incoming = uses(op, path, "i_cids", "i_buff", rank, lists);
    auto const outgoing = uses(op, path, "o_cids", "o_buff", rank, lists);
    for (auto const* list_of_uses : {&incoming, &outgoing}) {
      for (auto const& use : *list_of_uses) result.channels.push_back(use.channel);
    }
    if (!moves_data(result.kind) && result.kind != mscclpp_kind::flush) return result;
    // The place inside the rank comes first, then lists, then peers.
    if (op.find("srcoff") != nullptr) {
      result.sources.push_back(local_place(op, path, "srcbuff", "srcoff"));
    }
    if (op.find("dstoff") != nullptr) {
      result.destinations.push_back(local_place(op, path, "dstbuff", "dstoff"));
    }
    add_places(op, path, "srcs", result.sources);
    add_places(op, path, "dsts", result.destinations);
    for (auto const& use : incoming) result.sources.push_back(use.remote);
    for (auto const& use : outgoing) result.destinations.push_back(use.remote);
    check_buffers(op, path, result, outgoing);
    return result;
  }

  [[nodiscard]] mscclpp_place local_place(json_value const& object, std::string const& path,
                                          char const* where, char const* offset) const {
    return {-1, buffer(object, path, where), number(object, path, offset, most_chunks)};
  }
  void add_places(json_value const& op, std::string const& path, char const* key,
                  std::vector<mscclpp_place>& to) const {
    for (auto const& each : list(op, path, key)) {
      auto const here = path + ": " + key;
      to.push_back(local_place(each, here, "buff", "off"));
    }
  }
  [[nodiscard]] mscclpp_place group_place(json_value const& op, std::string const& path,
                                          char const* ids, char const* where, char const* offset,
                                          channel_lists const& lists) const {
    auto const of = buffer(op, path, where);
    auto const& all = list(op, path, ids);
    if (all.size() != 1)
      fail(op, path + ": " + ids, "a list of " + std::to_string(all.size()), "1 channel");
    int const id = number(all.front(), path + ": " + ids, "id", most_blocks);
    mscclpp_place result{-1, of, number(op, path, offset, most_chunks)};
    result.buffer = step_buffer::input;  // a group names its buffer
    result.group = entry(list_of(lists, {type::multimem, of, of}), id, all.front(),
                         path + ": " + ids, "switch channels of the block");
    return result;
  }

  [[nodiscard]] std::vector<channel_use> uses(json_value const& op, std::string const& path,
                                              char const* ids, char const* buffers,
                                              mscclpp_rank const& rank,
                                              channel_lists const& lists) const {
    std::vector<channel_use> result;
    auto const& all = list(op, path, ids);
    if (all.empty()) return result;
    auto const of = some_channel_type(required(op, path, "ctype"), path + ": ctype");
    auto const& ends = required(op, path, buffers);
    auto const here = path + ": " + buffers;
    channel_key const key{of, buffer(ends, here, "src"), buffer(ends, here, "dst")};
    auto const& peers = rank.peers(of);
    for (auto const& each : all) {
      auto const at_id = path + ": " + ids;
      int const id = entry(list_of(lists, key), number(each, at_id, "id", most_blocks), each, at_id,
                           "channels of the block between these buffers");
      if (of == type::multimem) fail(each, at_id, "a switch channel", "memory or port channels");
      result.push_back({{of, id},
                        key.local,
                        {peers[static_cast<std::size_t>(id)], key.remote,
                         number(each, at_id, "off", most_chunks)}});
    }
    return result;
  }

  /// Checks that puts take their sources from the channels' buffers.
  void check_buffers(json_value const& op, std::string const& path, mscclpp_operation& result,
                     std::vector<channel_use> const& outgoing) const {
    auto const form = form_of(result);
    if (result.kind == mscclpp_kind::forward_packets) {
      auto& all = result.sources;
      if (std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) != all.end()) {
        fail(op, path + ": srcs", "several places", "one place, forwarded over all channels");
      }
      if (!all.empty()) all.resize(1);
    }
    if (!form.is_pairwise) return;
    for (std::size_t i = 0; i < std::min(outgoing.size(), result.sources.size()); ++i) {
      if (result.sources[i].buffer == outgoing[i].local) continue;
      fail(op, path + ": srcs", std::string(to_text(result.sources[i].buffer)) + " memory",
           "the channel's, " + std::string(to_text(outgoing[i].local)));
    }
  }

  /// Checks that scratch memory holds either packets or plain data, as their places differ.
  void check_scratch(json_value const& op, std::string const& path,
                     mscclpp_operation const& result) const {
    auto const check = [&](std::vector<mscclpp_place> const& places, std::string_view letters) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        auto const letter = letter_at(letters, i);
        if (!letter) return;
        if (is_packets(*letter) && !has_packets_) {
          fail(op, path, "packets with protocol Simple", "protocol LL");
        }
        bool const is_scratch = places[i].group < 0 && places[i].buffer == step_buffer::scratch;
        if (is_scratch && !is_packets(*letter) && has_packets_) {
          fail(op, path, "data in scratch memory", "packets there with protocol LL");
        }
      }
    };
    auto const form = form_of(result);
    check(result.sources, form.sources);
    check(result.destinations, form.destinations);
  }

  bool has_packets_ = false;
};

}}}  // namespace blink::BLINK_ABI::detail
