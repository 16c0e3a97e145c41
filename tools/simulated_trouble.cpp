// SPDX-License-Identifier: Apache-2.0
#include "simulated_trouble.hpp"

#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>

#include "number_checks.hpp"
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

namespace blink::tools {
namespace {

/// Reads parts of an option's text from the left.
class option_parts {
 public:
  /// form: the expected text, such as "RANK:FACTOR"
  option_parts(char const* option, std::string const& text, char const* form)
      : option_(option), text_(text), form_(form), rest_(text) {}

  /// Reads a number and the character behind it; 0 for the end of the text.
  template <class Number>
  [[nodiscard]] Number next(char behind) {
    Number value{};
    auto const [end, fault] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    bool const ends_well =
        behind == '\0' ? rest_.empty() : !rest_.empty() && rest_.front() == behind;
    if (fault != std::errc{} || !ends_well) {
      throw input_error(std::string(option_) + ": found " + detail::in_quotes(text_) +
                        ", expected " + form_);
    }
    if (!rest_.empty()) rest_.remove_prefix(1);
    return value;
  }

 private:
  char const* option_;
  std::string const& text_;
  char const* form_;
  std::string_view rest_;
};

/// The entry of a rank, which is made if there is none.
slow_rank& entry_of(std::vector<slow_rank>& all, int rank) {
  auto const found = std::ranges::find(all, rank, &slow_rank::rank);
  return found != all.end() ? *found : all.emplace_back(slow_rank{rank});
}

std::string how_many(std::size_t count, char const* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

void trouble_options::apply(simulation_options& simulated) const {
  simulated.sharing =
      sharing == to_text(link_sharing::fair) ? link_sharing::fair : link_sharing::fifo;
  simulated.reduce_bytes_per_second = reduce_rate * 1e9;
  simulated.combines_in_parallel = combines_in_parallel;
  if (!noise.empty()) {
    option_parts parts("--noise", noise, "SEED:SHARE, such as 1:0.1");
    simulated.seed = parts.next<std::uint64_t>(':');
    simulated.noise = parts.next<double>('\0');
  }
  auto const set = [&](char const* option, char const* form, std::vector<std::string> const& texts,
                       double slow_rank::* field, double scale) {
    std::vector<int> seen;
    for (auto const& text : texts) {
      option_parts parts(option, text, form);
      int const rank = parts.next<int>(':');
      if (std::ranges::count(seen, rank) != 0) {
        throw input_error(std::string(option) + ": rank " + std::to_string(rank) +
                          " twice, expected once");
      }
      seen.push_back(rank);
      entry_of(simulated.slow_ranks, rank).*field = parts.next<double>('\0') * scale;
    }
  };
  set("--slow-rank", "RANK:FACTOR, such as 3:2", slow_ranks, &slow_rank::factor, 1);
  set("--late-rank", "RANK:US, such as 3:100", late_ranks, &slow_rank::late_seconds, 1e-6);
  for (auto const& text : degraded) {
    option_parts parts("--degrade", text, "FROM-TO@US:FACTOR, such as 0-1@50:0.5");
    link_change change;
    change.from = parts.next<int>('-');
    change.to = parts.next<int>('@');
    change.seconds = parts.next<double>(':') * 1e-6;
    change.factor = parts.next<double>('\0');
    simulated.link_changes.push_back(change);
  }
}

std::string trouble_options::in_words() const {
  std::string text;
  auto const add = [&](bool is_there, std::string const& what) {
    if (is_there) text += (text.empty() ? "" : ", ") + what;
  };
  add(sharing != to_text(link_sharing::fifo), "links shared at fair rates");
  add(reduce_rate > 0, std::string("ranks combine ") +
                           (combines_in_parallel ? "in parallel" : "one chunk after the other"));
  add(!noise.empty(), "noise " + detail::printable(noise));
  add(!slow_ranks.empty(), how_many(slow_ranks.size(), "slow rank"));
  add(!late_ranks.empty(), how_many(late_ranks.size(), "late rank"));
  add(!degraded.empty(), how_many(degraded.size(), "change") + " of links");
  return text;
}

void add_trouble_options(CLI::App& command, trouble_options& options) {
  command
      .add_option("--sharing", options.sharing,
                  "how chunks share a link: fifo, one after the other, or fair, at max-min fair "
                  "rates")
      ->check(CLI::IsMember({to_text(link_sharing::fifo), to_text(link_sharing::fair)}))
      ->capture_default_str();
  auto* const rate = command
                         .add_option("--reduce-rate", options.reduce_rate,
                                     "GB/s at which a rank combines what it receives; default: in "
                                     "no time")
                         ->check(positive_number());
  command
      .add_flag("--reduce-in-parallel", options.combines_in_parallel,
                "a rank combines the chunks of different tree edges at the same time")
      ->needs(rate);
  command.add_option("--noise", options.noise,
                     "SEED:SHARE: steps, combinations and bytes on links take up to this share\n"
                     "longer, at random by the seed");
  command.add_option("--slow-rank", options.slow_ranks,
                     "RANK:FACTOR: steps and combinations of this rank take so many times as long");
  command.add_option("--late-rank", options.late_ranks,
                     "RANK:US: this rank begins so many microseconds after the begin of the call");
  command.add_option("--degrade", options.degraded,
                     "FROM-TO@US:FACTOR: the factor on a link's rate, in one direction, from a\n"
                     "time on; 0: the link fails for good");
}

}  // namespace blink::tools
