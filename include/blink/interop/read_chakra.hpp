// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/detail/chakra_reader.hpp>
#include <blink/interop/detail/protobuf_fields.hpp>
#include <blink/interop/message_program.hpp>
#include <blink/interop/write_chakra.hpp>

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The prefix and the rank of a trace's file; nothing for other names.
[[nodiscard]] inline std::optional<std::pair<std::string, std::size_t>> chakra_parts(
    std::string const& path) {
  constexpr std::string_view ending = ".et";
  if (!path.ends_with(ending)) return std::nullopt;
  auto const stem = path.substr(0, path.size() - ending.size());
  auto const dot = stem.rfind('.');
  if (dot == std::string::npos) return std::nullopt;
  std::size_t rank = 0;
  auto const* const end = stem.data() + stem.size();
  auto const [stop, failure] = std::from_chars(stem.data() + dot + 1, end, rank);
  auto prefix = stem.substr(0, dot);
  if (failure != std::errc{} || stop != end || chakra_file_name(prefix, rank) != path) {
    return std::nullopt;
  }
  return std::pair(std::move(prefix), rank);
}

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// True if bytes may be a file of a trace: a message whose first field is the version or an
/// attribute.
[[nodiscard]] inline bool is_chakra(std::string_view bytes) {
  detail::protobuf_reader messages(bytes);
  auto const metadata = messages.sized();
  if (!metadata || metadata->empty()) return false;
  for (detail::protobuf_reader fields(*metadata); !fields.is_at_end();) {
    auto const field = fields.field();
    if (!field || field->type != detail::protobuf_type::bytes || field->number > 2) return false;
    if (field->number == 1) continue;
    for (detail::protobuf_reader parts(field->bytes); !parts.is_at_end();) {
      if (!parts.field()) return false;
    }
  }
  return true;
}

/// Reads the files of all ranks of a Chakra execution trace: one collective algorithm of any
/// author, as ASTRA-sim reads custom collectives.
///
/// Of the dependencies, those of data count, as in ASTRA-sim. Nodes that are neither sends nor
/// receives are computations; collectives are refused. The places of data are known if blink has
/// written the files.
///
/// files:  by rank
/// Post:   the program is unchecked; call `check_message_program`.
/// Time:   O(length * log(nodes)).
/// Throws: input_error with file, node and the expected value.
[[nodiscard]] inline message_program read_chakra(std::vector<chakra_file> const& files) {
  message_program result;
  std::vector<rank_messages> ranks;
  for (auto const& file : files) {
    auto& rank = ranks.emplace_back();
    detail::chakra_reader(file, static_cast<int>(ranks.size()) - 1).read(result, rank);
  }
  result.ranks = std::move(ranks);
  return result;
}

/// Reads PREFIX.0.et, PREFIX.1.et, and so on, as far as there are files.
///
/// path:   one of the files
/// Throws: input_error as `read_chakra`, or if a file cannot be read, or for another name.
[[nodiscard]] inline message_program read_chakra_files(std::string const& path) {
  auto const parts = detail::chakra_parts(path);
  if (!parts) {
    throw input_error(path + ": a file of a Chakra trace, expected a name such as PREFIX.0.et, " +
                      "beside the files of the other ranks");
  }
  std::vector<chakra_file> files;
  for (std::size_t rank = 0;; ++rank) {
    auto name = chakra_file_name(parts->first, rank);
    std::error_code fault;
    if (rank > parts->second && !std::filesystem::exists(name, fault)) break;
    auto bytes = detail::file_text(name, "the trace of rank " + std::to_string(rank));
    files.push_back({std::move(name), std::move(bytes)});
  }
  return read_chakra(files);
}

}}  // namespace blink::BLINK_ABI
