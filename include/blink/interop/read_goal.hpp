// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/interop/detail/message_text.hpp>
#include <blink/interop/detail/token_scanner.hpp>
#include <blink/interop/message_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads a schedule line by line.
class goal_reader {
 public:
  goal_reader(std::string_view text, std::string const& file) : text_(text), file_(&file) {}

  [[nodiscard]] message_program read() {
    while (!text_.empty()) {
      auto const end = std::min(text_.find('\n'), text_.size());
      auto line = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      ++line_;
      read_line(line);
    }
    finish();
    return std::move(program_);
  }

 private:
  static constexpr std::int64_t most_ranks = std::int64_t{1} << 20;
  static constexpr std::int64_t most_operations = std::int64_t{1} << 26;
  static constexpr std::int64_t most_bytes = std::int64_t{1} << 60;
  static constexpr std::int64_t most_tag = 0xfffffffe;  // 32 bits, less the one for any tag

  [[noreturn]] void fail(std::string const& what) const { fail_at(*file_, line_, what); }

  void read_line(std::string_view line) {
    token_scanner here(line, *file_ + ":" + std::to_string(line_));
    while (!here.is_at_end()) {
      if (in_comment_) {
        auto const end = here.rest().find("*/");
        if (end == std::string_view::npos) return;
        here.skip(end + 2);
        in_comment_ = false;
      } else if (here.take_sign("//")) {
        read_comment(here);
        return;
      } else if (here.take_sign("/*")) {
        in_comment_ = true;
      } else {
        read_statement(here);
      }
    }
  }

  void read_statement(token_scanner& here) {
    if (here.take_word("num_ranks")) {
      if (!program_.ranks.empty()) fail("num_ranks stands twice, expected it once");
      auto const count = here.number(most_ranks, "a number of ranks");
      if (count == 0) fail("num_ranks 0, expected a rank at least");
      program_.ranks.resize(static_cast<std::size_t>(count));
      is_read_.resize(program_.ranks.size());
    } else if (here.take_word("rank")) {
      open_rank(here);
    } else if (here.take_sign("}")) {
      if (rank_ < 0) fail("'}' outside of a rank, expected 'rank'");
      require_no_data();
      rank_ = -1;
    } else if (rank_ < 0) {
      here.fail(program_.ranks.empty() ? "num_ranks" : "rank, or a comment");
    } else {
      read_operation(here);
      here.require_end();
    }
  }

  void open_rank(token_scanner& here) {
    if (rank_ >= 0) fail("rank inside of rank " + std::to_string(rank_) + ", expected '}' before");
    if (program_.ranks.empty()) fail("rank before num_ranks, expected num_ranks first");
    rank_ = static_cast<int>(here.number(std::ssize(program_.ranks) - 1, "a rank"));
    here.require_sign("{");
    auto const r = static_cast<std::size_t>(rank_);
    if (is_read_[r]) fail("rank " + std::to_string(rank_) + " stands twice, expected it once");
    is_read_[r] = true;
    labels_.clear();
  }

  void read_operation(token_scanner& here) {
    if (is_action(here)) return read_action(here, {});
    auto const label = here.word("an operation, a label or '}'");
    if (here.take_sign(":")) return read_action(here, label);
    bool const waits_for_end = here.take_word("requires");
    if (!waits_for_end && !here.take_word("irequires")) here.fail("':', requires or irequires");
    require_no_data();
    int const later = labelled(label);
    int const earlier = labelled(here.word("a label"));
    auto& operation = operations()[static_cast<std::size_t>(later)];
    (waits_for_end ? operation.after : operation.after_start).push_back(earlier);
  }

  [[nodiscard]] static bool is_action(token_scanner const& here) {
    auto copy = here;
    return copy.take_word("send") || copy.take_word("recv") || copy.take_word("calc");
  }

  void read_action(token_scanner& here, std::string_view label) {
    program_operation operation;
    if (here.take_word("calc")) {
      operation.cost = here.number(most_bytes, "a time");
    } else {
      bool const is_send = here.take_word("send");
      if (!is_send && !here.take_word("recv")) here.fail("send, recv or calc");
      operation.kind = is_send ? message_kind::send : message_kind::receive;
      operation.bytes = here.number(most_bytes, "a number of bytes");
      here.require_word("b");
      here.require_word(is_send ? "to" : "from");
      if (here.rest().starts_with('-')) {
        here.fail("a rank: what a message from any rank matches depends on time");
      }
      operation.peer = static_cast<int>(here.number(std::ssize(program_.ranks) - 1, "a rank"));
      if (here.take_word("tag")) {
        if (here.rest().starts_with('-')) {
          here.fail("a tag: what a message with any tag matches depends on time");
        }
        operation.tag = here.number(most_tag, "a tag");
      }
    }
    if (here.take_word("cpu")) operation.processor = static_cast<int>(here.number(255, "a number"));
    if (operation.kind != message_kind::compute && here.take_word("nic")) {
      operation.interface = static_cast<int>(here.number(255, "a number"));
    }
    operation.data = std::exchange(data_, std::nullopt);
    if (std::ssize(operations()) >= most_operations) fail("too many operations");
    operation.label = label.empty() ? "line " + std::to_string(line_)
                                    : std::string(label) + ", line " + std::to_string(line_);
    if (!label.empty() && !labels_.emplace(label, static_cast<int>(operations().size())).second) {
      fail("label " + in_quotes(label) + " stands twice in its rank, expected another one");
    }
    operations().push_back(std::move(operation));
  }

  /// Reads what blink adds; other comments have no meaning.
  void read_comment(token_scanner& here) {
    if (!here.take_word("blink")) return;
    require_no_data();
    if (here.take_word("program")) {
      here.require_sign(":");
      if (program_.has_data || rank_ >= 0)
        fail("blink program, expected it once, before all ranks");
      read_collective_text(here, program_);
    } else if (here.take_word("buffers")) {
      here.require_sign(":");
      if (rank_ < 0 || !operations().empty()) fail("blink buffers, expected it after rank N {");
      read_buffers_text(here, program_.ranks[static_cast<std::size_t>(rank_)]);
    } else if (here.take_word("data")) {
      here.require_sign(":");
      if (rank_ < 0) fail("blink data outside of a rank, expected it before an operation");
      if (!program_.has_data) fail("blink data without blink program, expected that first");
      data_ = read_move_text(here);
    } else {
      here.fail("program, buffers or data after blink");
    }
  }

  void finish() {
    if (in_comment_) fail("the file ends in a comment, expected '*/'");
    if (rank_ >= 0) fail("the file ends in rank " + std::to_string(rank_) + ", expected '}'");
    if (program_.ranks.empty()) fail("the file ends, expected num_ranks");
    auto const missing = std::find(is_read_.begin(), is_read_.end(), false);
    if (missing == is_read_.end()) return;
    fail("rank " + std::to_string(missing - is_read_.begin()) + " is missing, expected all " +
         std::to_string(is_read_.size()) + " ranks");
  }

  void require_no_data() const {
    if (data_) fail("blink data before no operation, expected send, recv or calc after it");
  }
  [[nodiscard]] int labelled(std::string_view label) const {
    auto const found = labels_.find(label);
    if (found != labels_.end()) return found->second;
    fail("label " + in_quotes(label) + " stands nowhere above, expected a label of this rank");
  }
  [[nodiscard]] std::vector<program_operation>& operations() {
    return program_.ranks[static_cast<std::size_t>(rank_)].operations;
  }

  std::string_view text_;
  std::string const* file_;
  int line_ = 0;
  bool in_comment_ = false;
  int rank_ = -1;  // that is open
  std::vector<bool> is_read_;
  std::map<std::string_view, int> labels_;  // of the open rank; in the text
  std::optional<data_move> data_;           // of the next operation
  message_program program_;
};

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// True if a text is a schedule in GOAL: its first word is num_ranks, or blink has written it.
[[nodiscard]] inline bool is_goal(std::string_view text) {
  while (!text.empty()) {
    if (text.starts_with("num_ranks") || text.starts_with("// blink program:")) return true;
    bool const is_blank = std::string_view(" \t\r\n").find(text[0]) != std::string_view::npos;
    auto const end = is_blank                 ? std::size_t{1}
                     : text.starts_with("//") ? text.find('\n')
                     : text.starts_with("/*") ? text.find("*/", 2)
                                              : std::string_view::npos;
    if (end == std::string_view::npos) return false;
    text.remove_prefix(text.starts_with("/*") ? end + 2 : end);
  }
  return false;
}

/// Reads a schedule in GOAL, as LogGOPSim and ATLAHS take it, of any author.
///
/// A line has at most one operation or dependency. Labels stand above the dependencies that name
/// them. Comments begin with // or are between /* and */. The places of data are known if blink
/// has written the file. Receives from any rank or with any tag are refused.
///
/// file:   the name that errors start with
/// Post:   the program is unchecked; call `check_message_program`.
/// Time:   O(length * log(labels)).
/// Throws: input_error with file, line and the expected text.
[[nodiscard]] inline message_program read_goal(std::string_view text, std::string const& file) {
  return detail::goal_reader(text, file).read();
}

/// Reads the file at `path`. Throws: input_error as `read_goal`, or if the file cannot be read.
[[nodiscard]] inline message_program read_goal_file(std::string const& path) {
  return read_goal(detail::file_text(path, "a schedule in GOAL"), path);
}

}}  // namespace blink::BLINK_ABI
