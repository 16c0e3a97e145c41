// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/interop/detail/mscclpp_json_values.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/interop/step_program.hpp>
#include <blink/topology/readers/detail/json_text.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads plans of MSCCL++ 0.5 to 0.7. There a channel has a buffer at each end, and operations name
/// channels where present ones name remote buffers.
class mscclpp_earlier_reader : mscclpp_json_values {
 public:
  explicit mscclpp_earlier_reader(std::string const& file) : mscclpp_json_values(file) {}

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
  using channel_key = std::tuple<type, step_buffer, step_buffer>;  // local, remote
  using channel_lists = std::map<channel_key, std::vector<int>>;   // ids in the rank

  struct channel_use {
    mscclpp_channel channel;
    step_buffer local = step_buffer::input;
    mscclpp_place remote;
  };

  [[nodiscard]] mscclpp_rank read_rank(json_value const& gpu, std::size_t number_of) {
    auto const path = "rank " + std::to_string(number_of);
    require_kind(gpu, json_kind::object, path, "an object");
    require_id(gpu, path, number_of);
    mscclpp_rank rank;
    rank.input_chunks = number(gpu, path, "inputChunks", most_chunks);
    rank.output_chunks = number(gpu, path, "outputChunks", most_chunks);
    rank.scratch_chunks = number(gpu, path, "scratchChunks", most_chunks);
    channel_lists known;
    for (auto const& channel : list(gpu, path, "channels")) {
      auto const here = path + ", channel";
      require_kind(channel, json_kind::object, here, "an object");
      auto const of = some_channel_type(required(channel, here, "type"), here);
      if (of == type::multimem) {
        auto const where = buffer(channel, here, "buff");
        for (auto const& group : list(channel, here, "rankGroups")) {
          require_kind(group, json_kind::object, here, "an object");
          known[{of, where, where}].push_back(static_cast<int>(rank.groups.size()));
          rank.groups.push_back({where, numbers(group, here, "ranks", most_ranks),
                                 number(group, here, "size", most_chunks)});
        }
        continue;
      }
      auto& peers = of == type::memory ? rank.memory_peers : rank.port_peers;
      for (int const peer : numbers(channel, here, "connectedTo", most_ranks)) {
        known[{of, buffer(channel, here, "srcbuff"), buffer(channel, here, "dstbuff")}].push_back(
            static_cast<int>(peers.size()));
        peers.push_back(peer);
      }
    }
    for (auto const& block : list(gpu, path, "threadblocks")) {
      auto const here = path + ", block " + std::to_string(rank.blocks.size());
      require_kind(block, json_kind::object, here, "an object");
      require_id(block, here, rank.blocks.size());
      rank.blocks.push_back(read_block(block, here, rank, known));
    }
    return rank;
  }

  [[nodiscard]] mscclpp_block read_block(json_value const& block, std::string const& path,
                                         mscclpp_rank const& rank,
                                         channel_lists const& of_rank) const {
    channel_lists lists;
    for (auto const& channel : list(block, path, "channels")) {
      auto const here = path + ", channel";
      require_kind(channel, json_kind::object, here, "an object");
      channel_key const key{some_channel_type(required(channel, here, "ctype"), here),
                            buffer(channel, here, "src"), buffer(channel, here, "dst")};
      for (int const id : numbers(channel, here, "cids", most_blocks)) {
        lists[key].push_back(
            entry(at(of_rank, key), id, *channel.find("cids"), here, "channels of the rank"));
      }
    }
    mscclpp_block result;
    result.segments.emplace_back();
    auto& operations = result.segments.back().operations;
    for (auto const& op : list(block, path, "ops")) {
      auto const here = path + ", operation " + std::to_string(operations.size());
      require_kind(op, json_kind::object, here, "an object");
      operations.push_back(read_operation(op, here, rank, lists));
      check_scratch(op, here, operations.back());
    }
    return result;
  }

  [[nodiscard]] static std::vector<int> const& at(channel_lists const& lists,
                                                  channel_key const& key) {
    static std::vector<int> const none;
    auto const found = lists.find(key);
    return found == lists.end() ? none : found->second;
  }

  [[nodiscard]] mscclpp_kind kind_of(json_value const& op, std::string const& path) const {
    using kind = mscclpp_kind;
    constexpr std::array<std::pair<std::string_view, kind>, 21> names{
        {{"nop", kind::sync},
         {"barrier", kind::barrier},
         {"signal", kind::signal},
         {"wait", kind::wait},
         {"flush", kind::flush},
         {"put", kind::put},
         {"pws", kind::put_signal},
         {"pwsf", kind::put_signal_flush},
         {"get", kind::get},
         {"copy", kind::copy},
         {"re", kind::reduce},
         {"rs", kind::reduce_put},
         {"rrc", kind::read_reduce},
         {"rrcs", kind::read_reduce_put},
         {"ppkt", kind::put_packets},
         {"rppkt", kind::forward_packets},
         {"rspkt", kind::reduce_packets_put},
         {"cpkt", kind::unpack},
         {"tpkt", kind::pack},
         {"rpkt", kind::reduce_packets},
         {"glres", kind::group_reduce}}};
    auto const name = text(op, path, "name");
    std::string all;
    for (auto const& [known, kind_of_name] : names) {
      if (name == known) return kind_of_name;
      all += (all.empty() ? "" : ", ") + std::string(known);
    }
    fail(*op.find("name"), path, in_quotes(name), "one of " + all);
  }

  [[nodiscard]] mscclpp_operation read_operation(json_value const& op, std::string const& path,
                                                 mscclpp_rank const& rank,
                                                 channel_lists const& lists) const {
    using kind = mscclpp_kind;
    mscclpp_operation result;
    result.kind = kind_of(op, path);
    if (result.kind == kind::barrier) {
      result.barrier = number(op, path, "barrier_id", most_blocks);
      result.barrier_blocks = number(op, path, "nthread_blocks", most_blocks);
    }
    bool const has_data = !form_of(result.kind, false).destinations.empty();
    if (has_data) result.count = number(op, path, "cnt", most_chunks);
    if (result.kind == kind::group_reduce) {
      result.sources = {group_place(op, path, "i_cids", "srcbuff", "srcoff", lists)};
      result.destinations = {group_place(op, path, "o_cids", "dstbuff", "dstoff", lists)};
      return result;
    }
    auto const incoming = uses(op, path, "i_cids", "i_buff", rank, lists);
    auto const outgoing = uses(op, path, "o_cids", "o_buff", rank, lists);
    for (auto const* list_of_uses : {&incoming, &outgoing}) {
      for (auto const& use : *list_of_uses) result.channels.push_back(use.channel);
    }
    if (result.kind == kind::sync || result.kind == kind::barrier || result.kind == kind::wait ||
        result.kind == kind::signal) {
      return result;
    }
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
      require_kind(each, json_kind::object, here, "an object");
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
    require_kind(all.front(), json_kind::object, path + ": " + ids, "an object");
    int const id = number(all.front(), path + ": " + ids, "id", most_blocks);
    mscclpp_place result{-1, of, number(op, path, offset, most_chunks)};
    result.buffer = step_buffer::input;  // a group names its buffer
    result.group = entry(at(lists, {type::multimem, of, of}), id, all.front(), path + ": " + ids,
                         "switch channels of the block");
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
    require_kind(ends, json_kind::object, here, "an object");
    channel_key const key{of, buffer(ends, here, "src"), buffer(ends, here, "dst")};
    auto const& peers = of == type::memory ? rank.memory_peers : rank.port_peers;
    for (auto const& each : all) {
      auto const at_id = path + ": " + ids;
      require_kind(each, json_kind::object, at_id, "an object");
      int const id = entry(at(lists, key), number(each, at_id, "id", most_blocks), each, at_id,
                           "channels of the block between these buffers");
      if (of == type::multimem) fail(each, at_id, "a switch channel", "memory or port channels");
      result.push_back({{of, id},
                        std::get<1>(key),
                        {peers[static_cast<std::size_t>(id)], std::get<2>(key),
                         number(each, at_id, "off", most_chunks)}});
    }
    return result;
  }

  /// Checks that puts take their sources from the channels' buffers.
  void check_buffers(json_value const& op, std::string const& path, mscclpp_operation& result,
                     std::vector<channel_use> const& outgoing) const {
    auto const form = form_of(result.kind, is_over_port(result));
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
    for (auto const& move : moves_if_formed(result)) {
      for (auto const* ends : {&move.sources, &move.destinations}) {
        for (auto const& end : *ends) {
          bool const is_scratch = end.place.group < 0 && end.place.buffer == step_buffer::scratch;
          if (end.is_packets && !has_packets_) {
            fail(op, path, "packets with protocol Simple", "protocol LL");
          }
          if (is_scratch && !end.is_packets && has_packets_) {
            fail(op, path, "data in scratch memory", "packets there with protocol LL");
          }
        }
      }
    }
  }
  [[nodiscard]] static std::vector<mscclpp_move> moves_if_formed(mscclpp_operation const& op) {
    auto const form = form_of(op.kind, is_over_port(op));
    if (form.destinations.empty() || op.sources.empty() || op.destinations.empty()) return {};
    bool const is_formed = letter_at(form.sources, op.sources.size() - 1).has_value() &&
                           letter_at(form.destinations, op.destinations.size() - 1).has_value() &&
                           (!form.is_pairwise || op.sources.size() == op.destinations.size());
    return is_formed ? moves_of(op) : std::vector<mscclpp_move>{};
  }

  bool has_packets_ = false;
};

}}}  // namespace blink::BLINK_ABI::detail
