// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/detail/mscclpp_earlier_reader.hpp>
#include <blink/interop/detail/mscclpp_json_reader.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/topology/readers/detail/json_keys.hpp>
#include <blink/topology/readers/detail/json_text.hpp>

#include <string>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// True if a text is a JSON object with the keys of an execution plan of MSCCL++.
[[nodiscard]] inline bool is_mscclpp_plan(std::string_view text) {
  auto const begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos &&
         detail::has_json_keys(text.substr(begin), {"name", "protocol", "gpus"});
}

/// Reads an execution plan of MSCCL++, from its language, from blink, or from any other author.
///
/// The reader accepts what the executors of MSCCL++ 0.8 to 0.10 run, and the earlier form of
/// MSCCL++ 0.5 to 0.7 ("inputChunks", "o_cids"). Keys may have any order, and keys that the
/// executors do not read are left out. Absent lists are empty; absent sizes and options have the
/// executor's values. An unknown collective is read without a meaning.
///
/// file:   the name that errors start with
/// Post:   places and meaning are unchecked; call `check_mscclpp_program`.
/// Throws: input_error with file, line, rank, block, operation, and the expected value: for
///         malformed JSON, for operations that the executor does not know, and for sizes that it
///         would not heed.
[[nodiscard]] inline mscclpp_program read_mscclpp_json(std::string_view text,
                                                       std::string const& file) {
  auto const top = detail::json_builder(text, file, input_limits{}).parse();
  if (top.kind != detail::json_kind::object) {
    detail::fail_at(file, top.line, "expected an object, an execution plan of MSCCL++");
  }
  if (detail::mscclpp_earlier_reader::is_earlier(top)) {
    return detail::mscclpp_earlier_reader(file).read(top);
  }
  return detail::mscclpp_json_reader(file).read(top);
}

/// Reads the file at `path`. Throws: input_error as `read_mscclpp_json`, or if the file cannot be
/// read.
[[nodiscard]] inline mscclpp_program read_mscclpp_json_file(std::string const& path) {
  return read_mscclpp_json(
      detail::file_text(path, "an execution plan of MSCCL++", input_limits{}.bytes), path);
}

}}  // namespace blink::BLINK_ABI
