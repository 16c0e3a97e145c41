// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/detail/msccl_names.hpp>
#include <blink/interop/step_program.hpp>
#include <blink/topology/readers/detail/xml_element.hpp>

#include <pugixml.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads `<algo>`. Numbers must fit into the runtimes' tables; `check_program` checks the rest of
/// the program.
class msccl_reader {
 public:
  [[nodiscard]] step_program read(xml_element const& algo) {
    algo.check_attributes();
    step_program program;
    program.name = algo.text("name");
    program.protocol = algo.has("proto") ? algo.text("proto") : "Simple";
    if (program.protocol != "Simple" && program.protocol != "LL" && program.protocol != "LL128") {
      algo.fail("proto=" + in_quotes(program.protocol) + ", expected Simple, LL or LL128");
    }
    program.collective_name = algo.required_text("coll");
    program.collective = collective_of_msccl(program.collective_name);
    if (!program.collective && std::find(msccl_other_names.begin(), msccl_other_names.end(),
                                         program.collective_name) == msccl_other_names.end()) {
      algo.fail("coll=" + in_quotes(program.collective_name) + ", expected " + known_names());
    }
    auto const in_place = algo.integer("inplace", 0, 1);
    auto const out_of_place = algo.integer("outofplace", 0, 1);
    program.runs_in_place = in_place.value_or(0) == 1;
    program.runs_out_of_place = out_of_place.value_or(program.runs_in_place ? 0 : 1) == 1;
    program.least_bytes = algo.integer("minBytes", 0, most_bytes).value_or(0);
    program.most_bytes = algo.integer("maxBytes", 0, most_bytes).value_or(0);
    read_ranks(algo, program);
    int channels = 0;
    int chunks = 0;
    for (auto const& rank : program.ranks) {
      chunks = std::max({chunks, rank.input_chunks, rank.output_chunks});
      for (auto const& block : rank.blocks) channels = std::max(channels, block.channel + 1);
    }
    program.channel_count =
        static_cast<int>(algo.integer("nchannels", 0, most_channels).value_or(channels));
    program.chunk_count =
        static_cast<int>(algo.integer("nchunksperloop", 1, most_chunks).value_or(chunks));
    return program;
  }

 private:
  // Wider than the limits of any runtime, which apply to writers; narrow enough to be harmless.
  static constexpr std::int64_t most_bytes = std::int64_t{1} << 60;
  static constexpr std::int64_t most_chunks = 32767;  // 16 bits in the runtimes
  static constexpr std::int64_t most_channels = 1024;
  static constexpr std::int64_t most_ranks = 65536;
  static constexpr std::int64_t most_blocks = 65536;
  static constexpr std::int64_t most_steps = 65536;

  [[nodiscard]] static std::string known_names() {
    std::string result;
    for (auto const& each : msccl_names) result += std::string(each.azure) + ", ";
    for (auto const name : msccl_other_names) result += std::string(name) + ", ";
    return "one of " + result.substr(0, result.size() - 2);
  }

  /// The children by their ids, which are 0 to n-1 in any order.
  [[nodiscard]] static std::vector<xml_element> by_id(xml_element const& parent, char const* name,
                                                      char const* also, std::int64_t most) {
    std::vector<std::pair<std::int64_t, xml_element>> found;
    for (auto const child : parent.node().children()) {
      xml_element const element(parent.from(), child);
      if (child.type() != pugi::node_element) parent.fail("text between tags, expected elements");
      if (element.name() == also) continue;
      if (element.name() != name) {
        element.fail("unknown element, expected <" + std::string(name) + "> in <" +
                     std::string(parent.name()) + ">");
      }
      element.check_attributes();
      found.emplace_back(element.required_integer("id", 0, most - 1), element);
    }
    std::sort(found.begin(), found.end(),
              [](auto const& a, auto const& b) { return a.first < b.first; });
    std::vector<xml_element> result;
    for (auto const& [id, element] : found) {
      auto const expected = std::ssize(result);
      if (id != expected) {
        element.fail("id=" + std::to_string(id) + (id < expected ? " stands twice" : "") +
                     ", expected ids from 0 on without gaps, next " + std::to_string(expected));
      }
      result.push_back(element);
    }
    return result;
  }

  void read_ranks(xml_element const& algo, step_program& program) {
    auto const gpus = by_id(algo, "gpu", "", most_ranks);
    if (gpus.empty()) algo.fail("no <gpu>, expected one for each rank");
    auto const count = algo.integer("ngpus", 1, most_ranks);
    if (count && *count != std::ssize(gpus)) {
      algo.fail("ngpus=" + std::to_string(*count) + ", expected one for each of the " +
                std::to_string(gpus.size()) + " <gpu> elements");
    }
    for (auto const& gpu : gpus) program.ranks.push_back(read_rank(gpu));
  }

  [[nodiscard]] rank_program read_rank(xml_element const& gpu) const {
    rank_program rank;
    auto const chunks = [&](char const* name) {
      return static_cast<int>(gpu.integer(name, 0, most_chunks).value_or(0));
    };
    rank.input_chunks = chunks("i_chunks");
    rank.output_chunks = chunks("o_chunks");
    rank.scratch_chunks = chunks("s_chunks");
    for (auto const child : gpu.node().children("copy")) {
      xml_element const copy(gpu.from(), child);
      copy.check_attributes();
      rank.copies.emplace_back(static_cast<int>(copy.required_integer("i_off", 0, most_chunks)),
                               static_cast<int>(copy.required_integer("o_off", 0, most_chunks)));
    }
    std::vector<std::vector<bool>> says_awaited;
    for (auto const& tb : by_id(gpu, "tb", "copy", most_blocks)) {
      says_awaited.emplace_back();
      rank.blocks.push_back(read_block(tb, says_awaited.back()));
    }
    // In files without hasdep, the dependencies decide.
    for (auto const& block : std::vector(rank.blocks)) {
      for (auto const& step : block.steps) {
        auto const b = static_cast<std::size_t>(step.depends_block);
        auto const s = static_cast<std::size_t>(step.depends_step);
        if (step.depends_block >= 0 && b < rank.blocks.size() && step.depends_step >= 0 &&
            s < rank.blocks[b].steps.size() && !says_awaited[b][s]) {
          rank.blocks[b].steps[s].is_awaited = true;
        }
      }
    }
    return rank;
  }

  [[nodiscard]] program_block read_block(xml_element const& tb,
                                         std::vector<bool>& says_awaited) const {
    program_block block;
    block.send_peer = static_cast<int>(tb.required_integer("send", -1, most_ranks));
    block.receive_peer = static_cast<int>(tb.required_integer("recv", -1, most_ranks));
    block.channel = static_cast<int>(tb.integer("chan", -1, most_channels).value_or(0));
    // A block that only works on its own memory may have no channel in the file.
    if (block.send_peer < 0 && block.receive_peer < 0) block.channel = std::max(block.channel, 0);
    for (auto const child : tb.node().children()) {
      xml_element const element(tb.from(), child);
      if (child.type() != pugi::node_element) tb.fail("text between tags, expected elements");
      bool const is_short = element.name() == "op";
      if (!is_short && element.name() != "step") {
        element.fail("unknown element, expected <step> or <op> in <tb>");
      }
      element.check_attributes();
      auto const number = element.integer(is_short ? "step" : "s", 0, most_steps);
      if (number && *number != std::ssize(block.steps)) {
        element.fail("step number " + std::to_string(*number) + ", expected " +
                     std::to_string(block.steps.size()));
      }
      if (std::ssize(block.steps) >= most_steps) element.fail("too many steps");
      block.steps.push_back(read_step(element, is_short));
      says_awaited.push_back(element.has("hasdep"));
    }
    return block;
  }

  [[nodiscard]] static program_step read_step(xml_element const& element, bool is_short) {
    program_step step;
    auto const type = element.required_text("type");
    auto const known = std::find(step_names.begin(), step_names.end(), type);
    if (known == step_names.end()) {
      std::string names;
      for (auto const name : step_names) names += (names.empty() ? "" : ", ") + std::string(name);
      element.fail("type=" + in_quotes(type) + ", expected one of " + names);
    }
    step.kind = static_cast<step_kind>(known - step_names.begin());
    step.count = static_cast<int>(element.integer("cnt", 0, most_chunks).value_or(1));
    step.depends_block = static_cast<int>(element.integer("depid", -1, most_blocks).value_or(-1));
    step.depends_step = static_cast<int>(element.integer("deps", -1, most_steps).value_or(-1));
    if (step.depends_block < 0) step.depends_step = -1;  // some writers leave a number there
    step.is_awaited = element.integer("hasdep", 0, 1).value_or(0) == 1;
    if (is_short) {
      if (step.kind == step_kind::copy || step.kind == step_kind::reduce) {
        element.fail("type=" + in_quotes(type) +
                     " needs two places, and <op> has one: expected <step> with srcbuf, srcoff, "
                     "dstbuf and dstoff");
      }
      auto const place = read_place(element, "buf", "off", step.kind != step_kind::nothing);
      if (reads_source(step.kind)) step.source = place;
      if (writes_destination(step.kind)) step.destination = place;
      return step;
    }
    auto const source = read_place(element, "srcbuf", "srcoff", reads_source(step.kind));
    auto const target = read_place(element, "dstbuf", "dstoff", writes_destination(step.kind));
    if (reads_source(step.kind)) step.source = source;
    if (writes_destination(step.kind)) step.destination = target;
    return step;
  }

  [[nodiscard]] static chunk_place read_place(xml_element const& element, char const* buffer,
                                              char const* offset, bool is_used) {
    chunk_place place;
    if (is_used) (void)element.required_text(buffer);
    auto const name = element.text(buffer);
    auto const found = buffer_of(name);
    if (!found && element.has(buffer)) {
      element.fail(std::string(buffer) + "=" + in_quotes(name) + ", expected i, o or s");
    }
    place.buffer = found.value_or(step_buffer::input);
    if (is_used) (void)element.required_text(offset);
    place.chunk = static_cast<int>(element.integer(offset, -1, most_chunks).value_or(-1));
    return place;
  }
};

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// Reads an algorithm file of MSCCL for Azure's executor, RCCL or microsoft/msccl. Such files come
/// from msccl-tools, TACCL and ForestColl.
///
/// Besides the format's core, the reader accepts
/// - attributes in any order, comments, and elements in any order of ids;
/// - `reduce_scatter`;
/// - `<copy>` before the steps;
/// - the shorter `<op step type buf off>`, whose one place is source and destination.
///
/// Absent attributes have defaults: proto Simple; outofplace the opposite of inplace; sizes without
/// limit; cnt 1; no dependency; hasdep as the dependencies say; nchannels and nchunksperloop as
/// large as the numbers in use. The collectives alltoallv, send, recv and custom are read without a
/// meaning.
///
/// Not in the umbrella header, because it needs pugixml.
///
/// file: the name that errors start with
/// Post:   structure and meaning are unchecked; call `check_program`.
/// Throws: input_error with file, line, element and the expected value.
[[nodiscard]] inline step_program read_msccl_xml(std::string_view text, std::string const& file) {
  detail::xml_source const from{text, file};
  pugi::xml_document document;
  auto const algo =
      detail::open_xml(from, document, "algo", "expected the element <algo> of an MSCCL algorithm");
  return detail::msccl_reader().read(algo);
}

/// Reads the file at `path`. Throws: input_error as `read_msccl_xml`, or if the file cannot be
/// read.
[[nodiscard]] inline step_program read_msccl_xml_file(std::string const& path) {
  return read_msccl_xml(detail::file_text(path, "an MSCCL program", input_limits{}.bytes), path);
}

}}  // namespace blink::BLINK_ABI
