// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/counted.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/schedule/tuning_table.hpp>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The name of a transport in tuning tables; empty if it has none.
template <class Transport>
[[nodiscard]] constexpr std::string_view name_of_transport() {
  if constexpr (requires { std::string_view(Transport::name); }) {
    return Transport::name;
  } else {
    return {};
  }
}

/// Returns the tables of the files that BLINK_TUNING names, separated by `:`; none if it is not
/// set.
///
/// Throws: input_error if a file cannot be read, or if no source of the program includes the
///         reader.
template <class = when_used>
[[nodiscard]] BLINK_COLD std::vector<tuning_table> tables_of_environment() {
  std::vector<tuning_table> result;
  char const* const list = std::getenv("BLINK_TUNING");
  std::string_view rest = list == nullptr ? "" : list;
  while (!rest.empty()) {
    std::string_view const file = rest.substr(0, rest.find(':'));
    rest.remove_prefix(file.size() < rest.size() ? file.size() + 1 : file.size());
    if (file.empty()) continue;
    if (present_tuning_file_reader == nullptr) {
      throw input_error(
          text_of({"BLINK_TUNING: ", file,
                   ": this program has no reader of tuning files, expected one of its "
                   "sources to include <blink/schedule/tuning_file.hpp>"}));
    }
    try {
      auto tables = present_tuning_file_reader(std::string(file));
      for (auto& table : tables) result.push_back(std::move(table));
    } catch (input_error const& problem) {
      throw input_error(text_of({"BLINK_TUNING: ", problem.what()}));
    }
  }
  return result;
}

/// One collective from one root: the ranges of its table, and the schedules that calls have needed
/// so far.
struct tuned_collective {
  tuning_range const* ranges = nullptr;
  std::size_t range_count = 0;
  prepared_schedule** prepared = nullptr;  ///< by algorithm; null: not needed so far
  collective kind = collective::broadcast;
  int root = 0;

  [[nodiscard]] tuning_range const& range_for(std::size_t bytes) const {
    std::size_t at = range_count - 1;
    while (ranges[at].from_bytes > bytes) --at;
    return ranges[at];
  }
};

/// The tuning tables of one communicator.
///
/// The first call of a collective takes the table that the program gave (`use`), else one of
/// BLINK_TUNING, else the default of its transport. A template, so that it is instantiated only
/// where communicators are made.
template <class = when_used>
class tuning_tables {
 public:
  /// Returns the table for a collective from a root.
  ///
  /// is_part: the communicator has some ranks of another one, so that no file knows its number of
  ///          ranks
  template <communicator Comm>
  [[nodiscard]] tuned_collective& tuned(Comm& comm, collective kind, int root, bool is_part) {
    for (auto const& known : made_) {
      if (known->view.kind == kind && known->view.root == root) return known->view;
    }
    if (!is_given_) {
      given_ = tables_of_environment();
      if (!given_.empty() && !is_part) expect_one_that_suits<Comm>(comm.rank_count());
      is_given_ = true;
    }
    using transport_type = typename Comm::transport_type;
    auto table = default_tuning(kind, comm.rank_count(), root,
                                {transport_type::reaches, shares_memory<transport_type>});
    for (auto const& each : given_) {
      if (each.collective == kind && root_of_table(each) == (has_root(kind) ? root : -1) &&
          suits<Comm>(each, comm.rank_count())) {
        table = each;
      }
    }
    auto& fresh = *made_.emplace_back(counted<made>::make());
    fresh.table = std::move(table);
    fresh.prepared.assign(fresh.table.algorithms.size(), nullptr);
    fresh.view = {fresh.table.ranges.data(), fresh.table.ranges.size(), fresh.prepared.data(), kind,
                  root};
    return fresh.view;
  }
  [[nodiscard]] schedule const& source_of(tuned_collective const& view,
                                          std::size_t algorithm) const {
    for (auto const& known : made_) {
      if (&known->view == &view) return known->table.algorithms[algorithm].source;
    }
    throw error("tuning: the table is of another communicator, expected one of this one");
  }

  /// See `with_tuning::use_tuning`.
  template <communicator Comm>
  void use(Comm const& comm, std::vector<tuning_table> tables) {
    for (std::size_t k = 0; k < tables.size(); ++k) {
      validate(tables[k]);
      auto const name = text_of({"use_tuning: the table of ", to_text(tables[k].collective)});
      if (!suits<Comm>(tables[k], comm.rank_count())) {
        throw precondition_error(text_of({name, " is for ", described(tables[k]), ", expected ",
                                          described<Comm>(comm.rank_count())}));
      }
      for (std::size_t other = 0; other < k; ++other) {
        if (tables[other].collective == tables[k].collective &&
            root_of_table(tables[other]) == root_of_table(tables[k])) {
          throw precondition_error(text_of({name, " comes twice, expected one for each root"}));
        }
      }
    }
    given_ = std::move(tables);
    is_given_ = true;
    made_.clear();
  }
  [[nodiscard]] std::vector<tuning_table> used() const {
    std::vector<tuning_table> result;
    for (auto const& each : made_) result.push_back(each->table);
    return result;
  }

 private:
  struct made {
    tuning_table table;
    std::vector<prepared_schedule*> prepared;
    tuned_collective view;
  };

  [[nodiscard]] static int root_of_table(tuning_table const& table) {
    if (!has_root(table.collective)) return -1;
    return root_of(table.algorithms.front().source, table.collective);
  }
  template <class Comm>
  [[nodiscard]] static bool suits(tuning_table const& table, int rank_count) {
    constexpr auto own = name_of_transport<typename Comm::transport_type>();
    bool const is_over_it = table.transport.empty() || own.empty() || table.transport == own;
    return is_over_it && table.algorithms.front().source.rank_count == rank_count;
  }
  template <class Comm>
  [[nodiscard]] static std::string described(int rank_count) {
    constexpr auto own = name_of_transport<typename Comm::transport_type>();
    return text_of({rank_count, " ranks", own.empty() ? "" : " over ", own});
  }
  [[nodiscard]] static std::string described(tuning_table const& table) {
    return text_of({table.algorithms.front().source.rank_count, " ranks",
                    table.transport.empty() ? "" : " over ", std::string_view(table.transport)});
  }
  template <class Comm>
  void expect_one_that_suits(int rank_count) const {
    for (auto const& each : given_) {
      if (suits<Comm>(each, rank_count)) return;
    }
    throw input_error(text_of({"BLINK_TUNING: its first table is for ", described(given_.front()),
                               ", expected one for ", described<Comm>(rank_count)}));
  }

  std::vector<tuning_table> given_;
  std::vector<counted<made>> made_;
  bool is_given_ = false;
};

/// The tuning of one communicator: the schedules of calls that name none.
class tuning_store {
 public:
  /// The schedule of a call; none if `make` has to prepare it first.
  [[nodiscard]] chosen_schedule find(collective kind, std::size_t bytes, int root) const {
    auto const* const latest = latest_[static_cast<std::size_t>(kind)];
    if (latest == nullptr || latest->root != root) return {};
    auto const& range = latest->range_for(bytes);
    return {latest->prepared[range.algorithm], range.chunk_bytes};
  }

  /// Prepares the schedule of a call.
  ///
  /// Throws: precondition_error if `root` is no rank, or for a permutation, which has no default;
  ///         input_error if the tables of BLINK_TUNING are wrong; what `prepare` throws.
  template <communicator Comm>
  [[nodiscard]] BLINK_COLD chosen_schedule make(Comm& comm, collective kind, std::size_t bytes,
                                                int root) {
    auto& of = tables<>().tuned(comm, kind, root, is_part_);
    latest_[static_cast<std::size_t>(kind)] = &of;
    auto const& range = of.range_for(bytes);
    auto*& prepared = of.prepared[range.algorithm];
    if (prepared == nullptr) prepared = &comm.prepare(tables<>().source_of(of, range.algorithm));
    return {prepared, range.chunk_bytes};
  }
  template <communicator Comm>
  BLINK_COLD void use(Comm const& comm, std::vector<tuning_table> given) {
    tables<>().use(comm, std::move(given));
    latest_ = {};
  }
  /// Accepts tables of BLINK_TUNING for other numbers of ranks, for a communicator of some ranks of
  /// another one.
  void allow_other_rank_counts() { is_part_ = true; }

  /// The tables that calls have used so far, including defaults.
  template <class = when_used>
  [[nodiscard]] std::vector<tuning_table> used() {
    return tables<>().used();
  }

 private:
  template <class = when_used>
  [[nodiscard]] tuning_tables<>& tables() {
    if (!has_tables_) tables_ = counted<tuning_tables<>>::make();
    has_tables_ = true;
    return *tables_;
  }

  counted<tuning_tables<>> tables_;
  std::array<tuned_collective*, collective_names.size()> latest_{};
  bool has_tables_ = false;
  bool is_part_ = false;
};

/// A communicator whose calls need no schedule.
template <class S>
concept tuned_communicator = communicator<S> && requires(S& comm) {
  { comm.tuning() } -> std::same_as<tuning_store&>;
};

}  // namespace detail

/// Base of communicators whose calls need no schedule.
///
/// Comm: the communicator, which derives from this
template <class Comm>
class with_tuning {
 public:
  /// Uses these tables from the next call on. They come from `tune` or `read_tuning_file`.
  ///
  /// Collectives and roots without a table keep their default. All ranks give equal tables.
  ///
  /// Throws: precondition_error if a table is not valid, or is for another number of ranks or
  ///         another transport.
  template <class = when_used>
  void use_tuning(std::vector<tuning_table> tables) {
    tuning_.use(static_cast<Comm&>(*this), std::move(tables));
  }
  /// Measures algorithms, uses the tables from then on, and returns them. All ranks call it
  /// together.
  ///
  /// Needs `blink/collectives/tune.hpp`, which documents the `options`.
  template <class... Options>
  std::vector<tuning_table> tune(Options const&... options) {
    auto tables = tune_all(static_cast<Comm&>(*this), options...);
    tuning_.use(static_cast<Comm&>(*this), tables);
    return tables;
  }
  /// Internal: the tuning of calls without a schedule.
  [[nodiscard]] detail::tuning_store& tuning() { return tuning_; }

 private:
  detail::tuning_store tuning_;
};

}}  // namespace blink::BLINK_ABI
