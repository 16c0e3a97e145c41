// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Runs execution plans of MSCCL++ from their JSON, as the executor reads it. Each 16 bytes are one
// number. Thread blocks and the proxy of each rank take turns at random. Ranks may be one launch
// apart.

namespace blink::test {

struct mscclpp_fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class mscclpp_runner {
 public:
  using json = nlohmann::json;
  using values = std::vector<std::uint64_t>;
  /// The expected result of a rank from all inputs.
  using goal = std::function<values(std::vector<values> const&, int rank)>;

  /// chunk_units: of 16 bytes each, in a chunk
  mscclpp_runner(std::string const& text, std::size_t chunk_units, bool in_place,
                 std::uint64_t seed)
      : plan_(json::parse(text)), chunk_(chunk_units), in_place_(in_place), random_(seed) {
    auto const& gpus = plan_.at("gpus");
    for (std::size_t r = 0; r < gpus.size(); ++r) {
      auto const& gpu = gpus[r];
      require(gpu.at("id") == r, "ranks are not in order");
      rank_state state;
      state.input = gpu.at("input_chunks").get<std::size_t>() * chunk_;
      state.output = gpu.at("output_chunks").get<std::size_t>() * chunk_;
      require(state.input > 0 && state.output > 0, "a buffer without chunks");
      auto const scratch = gpu.at("scratch_chunks").get<std::size_t>() * chunk_;
      state.memory = {values(state.input), values(state.output), values(scratch)};
      for (auto& buffer : state.memory) {
        for (auto& v : buffer) v = random_();
      }
      for (auto const& c : gpu.at("channels")) {
        for (auto const& peer : c.at("connected_to")) {
          auto& of = state.channels[c.at("channel_type")];
          require(peer != r && peer.get<std::size_t>() < gpus.size(), "a channel without a peer");
          of.push_back({peer, 0, 0, 0});
        }
      }
      for (auto& [type, of] : state.channels) {
        std::map<std::size_t, std::size_t> seen;
        for (auto& c : of) c.number = seen[c.peer]++;
      }
      state.semaphores.assign(gpu.at("semaphores").size(), 0);
      require(state.semaphores.size() <= 16, "too many semaphores");
      for (auto const& tb : gpu.at("threadblocks")) state.blocks.push_back(flatten(tb));
      ranks_.push_back(std::move(state));
    }
  }

  /// Runs several consecutive launches, every rank with a new input each time.
  ///
  /// Throws: mscclpp_fault.
  void run(goal const& wanted, int launches) {
    wanted_ = &wanted;
    launches_ = launches;
    inputs_.assign(static_cast<std::size_t>(launches), {});
    for (auto& of_launch : inputs_) {
      for (auto const& r : ranks_) {
        values input(r.input);
        for (auto& v : input) v = random_();
        of_launch.push_back(std::move(input));
      }
    }
    std::vector<std::pair<std::size_t, std::size_t>> actors;  // rank; block, or one more: proxy
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (std::size_t b = 0; b <= ranks_[r].blocks.size(); ++b) actors.emplace_back(r, b);
      actors.emplace_back(r, ranks_[r].blocks.size() + 1);  // starts and ends launches
    }
    for (bool moved = true; moved;) {
      moved = false;
      std::shuffle(actors.begin(), actors.end(), random_);
      for (auto const& [r, b] : actors) {
        for (auto burst = 1 + random_() % 6; burst > 0; --burst) {
          if (!act(r, b)) break;
          moved = true;
        }
      }
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      require(ranks_[r].launch == launches_, "rank " + std::to_string(r) + " waits without end");
      for (auto const& [type, of] : ranks_[r].channels) {
        for (auto const& c : of) require(c.arrived == c.consumed, "signals without a wait");
      }
      for (auto const s : ranks_[r].semaphores) require(s == 0, "a semaphore is not back at 0");
    }
  }

 private:
  struct channel {
    std::size_t peer;
    std::size_t number;  // among those to this peer
    long arrived, consumed;
  };
  struct operation {
    json op;
    std::size_t first = 0;  // of the present loop
    std::size_t last = 0;   // of the present loop; after it: last + 1
    std::size_t units = 0;  // of an iteration; 0: no loop
    std::size_t total = 0;  // units of the loop
  };
  struct block_state {
    std::vector<operation> operations;
    std::map<std::string, std::vector<int>> channel_ids;
    std::map<std::string, std::vector<int>> buffer_ids;
    std::size_t at = 0;
    std::size_t offset = 0;
    bool has_unseen_wait = false;   // other threads do not yet know that the wait is over
    bool has_unseen_write = false;  // not all threads have written
    bool has_unseen_sum = false;
  };
  struct message {  // of the proxy
    bool is_signal;
    channel* over;
    std::string type;
    std::size_t peer = 0;
    std::size_t source_buffer = 0, source = 0, destination_buffer = 0, destination = 0, size = 0;
  };
  struct rank_state {
    std::size_t input = 0, output = 0;
    std::array<values, 3> memory;
    std::map<std::string, std::vector<channel>> channels;
    std::vector<long> semaphores;
    std::vector<block_state> blocks;
    std::deque<message> proxy;
    int launch = 0;
    bool runs = false;
  };

  static void require(bool holds, std::string const& what) {
    if (!holds) throw mscclpp_fault(what);
  }
  static std::size_t buffer_of(std::string const& name) {
    require(name == "i" || name == "o" || name == "s", "buffer " + name);
    return name == "i" ? 0 : name == "o" ? 1 : 2;
  }

  block_state flatten(json const& tb) {
    block_state block;
    for (auto const& op : tb.at("ops")) {
      auto const first = block.operations.size();
      if (op.at("name") != "pipeline") {
        block.operations.push_back({op, first, first, 0, 0});
        continue;
      }
      auto const unit = op.at("iter_context").at("unit_size").get<std::size_t>();
      require(unit % 16 == 0, "a unit that is no multiple of 16 bytes");
      auto const total = op.at("iter_context").at("num_chunks").get<std::size_t>() * chunk_;
      auto const count = op.at("ops").size();
      require(count > 0 && count <= 16, "operations in a loop");
      for (auto const& inner : op.at("ops")) {
        block.operations.push_back({inner, first, first + count - 1, unit / 16, total});
      }
    }
    std::size_t loops = 0;
    for (auto const& op : tb.at("ops")) loops += op.at("name") == "pipeline" ? 1U : 0U;
    require(block.operations.size() + loops <= 64, "operations in a block");
    for (auto const& c : tb.at("channels")) {
      block.channel_ids[c.at("channel_type")] = c.at("channel_ids").get<std::vector<int>>();
      require(c.at("channel_ids").size() <= 16, "channels of a block");
    }
    for (auto const& c : tb.at("remote_buffer_refs")) {
      block.buffer_ids[c.at("access_channel_type")] =
          c.at("remote_buffer_ids").get<std::vector<int>>();
      require(c.at("remote_buffer_ids").size() <= 16, "remote buffers of a block");
    }
    return block;
  }

  std::uint64_t& cell(std::size_t rank, std::size_t buffer, std::size_t index) {
    auto& r = ranks_[rank];
    require(index < r.memory[buffer].size(), "outside the buffer");
    if (in_place_ && buffer == 1 && r.input >= r.output) {
      return r.memory[0][index + (r.input > r.output ? rank * r.output : 0)];
    }
    if (in_place_ && buffer == 0 && r.input < r.output) return r.memory[1][index + rank * r.input];
    return r.memory[buffer][index];
  }

  /// Starts or ends a launch of a rank.
  bool turn(std::size_t rank) {
    auto& r = ranks_[rank];
    if (!r.runs) {
      if (r.launch == launches_) return false;
      auto const& input = inputs_[static_cast<std::size_t>(r.launch)][rank];
      for (std::size_t i = 0; i < input.size(); ++i) cell(rank, 0, i) = input[i];
      for (auto& block : r.blocks) {
        block.at = block.offset = 0;
        block.has_unseen_wait = block.has_unseen_write = block.has_unseen_sum = false;
      }
      return r.runs = true;
    }
    for (auto const& block : r.blocks) {
      if (block.at < block.operations.size()) return false;
    }
    auto const expected =
        (*wanted_)(inputs_[static_cast<std::size_t>(r.launch)], static_cast<int>(rank));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      require(cell(rank, 1, i) == expected[i], "rank " + std::to_string(rank) +
                                                   " has a wrong result in launch " +
                                                   std::to_string(r.launch));
    }
    // The user may change the memory again.
    for (auto buffer : {0U, 1U}) {
      for (std::size_t i = 0; i < (buffer == 0 ? r.input : r.output); ++i) {
        cell(rank, buffer, i) = random_();
      }
    }
    ++r.launch;
    r.runs = false;
    return true;
  }

  bool act(std::size_t rank, std::size_t actor) {
    auto& r = ranks_[rank];
    if (actor == r.blocks.size() + 1) return turn(rank);
    if (actor == r.blocks.size()) return deliver(rank);
    if (!r.runs) return false;
    auto& block = r.blocks[actor];
    if (block.at == block.operations.size()) return false;
    auto const& o = block.operations[block.at];
    if (!execute(rank, block, o)) return false;
    if (o.units > 0 && block.at == o.last) {
      block.offset += o.units;
      if (block.offset < o.total) {
        block.at = o.first;
        return true;
      }
      block.offset = 0;
    }
    ++block.at;
    return true;
  }

  bool deliver(std::size_t rank) {
    auto& r = ranks_[rank];
    if (r.proxy.empty()) return false;
    auto const m = r.proxy.front();
    r.proxy.pop_front();
    if (m.is_signal) {
      raise(rank, m.type, *m.over);
      return true;
    }
    require(r.runs, "a port reads memory after the launch has ended");
    write(rank, m.peer, [&] {
      for (std::size_t i = 0; i < m.size; ++i) {
        cell(m.peer, m.destination_buffer, m.destination + i) =
            cell(rank, m.source_buffer, m.source + i);
      }
    });
    return true;
  }

  void write(std::size_t rank, std::size_t peer, std::function<void()> const& action) {
    require(ranks_[peer].runs && ranks_[peer].launch == ranks_[rank].launch,
            "rank " + std::to_string(rank) + " writes at rank " + std::to_string(peer) +
                ", which is not in the same launch");
    action();
  }

  void raise(std::size_t rank, std::string const& type, channel const& c) {
    for (auto& other : ranks_[c.peer].channels[type]) {
      if (other.peer == rank && other.number == c.number) {
        ++other.arrived;
        return;
      }
    }
    throw mscclpp_fault("a channel without another end");
  }

  channel& channel_at(std::size_t rank, block_state& block, std::string const& type, int local) {
    auto const id = block.channel_ids[type].at(static_cast<std::size_t>(local));
    return ranks_[rank].channels[type].at(static_cast<std::size_t>(id));
  }

  bool execute(std::size_t rank, block_state& block, operation const& o) {
    auto& r = ranks_[rank];
    auto const& op = o.op;
    std::string const name = op.at("name");
    std::string const type = op.value("channel_type", "none");
    auto const ids = op.value("channel_ids", std::vector<int>{});
    auto const semaphores = op.value("semaphore_ids", std::vector<int>{});
    require(ids.size() <= 8 && semaphores.size() <= 16, "channels of an operation");
    if (name == "nop") {
      block.has_unseen_wait = block.has_unseen_write = block.has_unseen_sum = false;
    } else if (name == "wait") {
      for (int const id : ids) {
        auto const& c = channel_at(rank, block, type, id);
        if (c.arrived <= c.consumed) return false;
      }
      for (int const id : ids) ++channel_at(rank, block, type, id).consumed;
      block.has_unseen_wait = true;
    } else if (name == "sem_acquire") {
      for (int const id : semaphores) {
        if (r.semaphores.at(static_cast<std::size_t>(id)) == 0) return false;
      }
      for (int const id : semaphores) --r.semaphores[static_cast<std::size_t>(id)];
      block.has_unseen_wait = true;
    } else if (name == "sem_release") {
      require(!block.has_unseen_write, "a release before all threads have written");
      for (int const id : semaphores) ++r.semaphores.at(static_cast<std::size_t>(id));
    } else if (name == "signal") {
      require(!block.has_unseen_write, "a signal before all threads have written");
      for (int const id : ids) {
        auto& c = channel_at(rank, block, type, id);
        if (type == "port") {
          r.proxy.push_back({true, &c, type});
        } else {
          raise(rank, type, c);
        }
      }
    } else {
      require(!block.has_unseen_wait, name + " before all threads know of the signal");
      move(rank, block, o, name, type, ids);
    }
    return true;
  }

  void move(std::size_t rank, block_state& block, operation const& o, std::string const& name,
            std::string const& type, std::vector<int> const& ids) {
    auto const& sources = o.op.at("src_buff");
    auto const& destinations = o.op.at("dst_buff");
    require(sources.size() <= 8 && destinations.size() <= 8, "places of an operation");
    auto const size_of = [&](json const& place) {
      auto const all = place.at("size").get<std::size_t>() * chunk_;
      if (o.units == 0) return all;
      require(block.offset < all, "a loop that is longer than its chunks");
      return std::min(all - block.offset, o.units);
    };
    auto const first_of = [&](json const& place) {
      return place.at("index").get<std::size_t>() * chunk_ + block.offset;
    };
    if (name == "copy" || name == "re") {
      require(destinations.size() == 1 && (name == "re" || sources.size() == 1), "places");
      require(name == "re" || !block.has_unseen_sum, "a copy before all threads have added up");
      auto const to = buffer_of(destinations[0].at("type"));
      for (std::size_t i = 0; i < size_of(sources[0]); ++i) {
        std::uint64_t sum = 0;
        for (auto const& s : sources) sum += cell(rank, buffer_of(s.at("type")), first_of(s) + i);
        cell(rank, to, first_of(destinations[0]) + i) = sum;
      }
      block.has_unseen_sum = true;
    } else if (name == "put") {
      require(!block.has_unseen_sum, "a put before all threads have added up");
      require(sources.size() == destinations.size(), "a put of different lengths");
      require(type == "memory" || ids.size() == destinations.size(), "a put without channels");
      for (std::size_t k = 0; k < destinations.size(); ++k) {
        auto const& d = destinations[k];
        require(sources[k].at("type") == sources[0].at("type"), "a put from two buffers");
        auto const local = d.at("buffer_id").get<std::size_t>();
        auto const id = block.buffer_ids[type].at(local);
        auto const& remote =
            plan_.at("gpus")[rank].at("remote_buffers").at(static_cast<std::size_t>(id));
        require(remote.at("access_channel_types")[0] == type, "a buffer of another channel type");
        message m{false, nullptr, type, remote.at("rank")};
        m.source_buffer = buffer_of(sources[k].at("type"));
        m.source = first_of(sources[k]);
        m.destination_buffer = buffer_of(remote.at("type"));
        m.destination = first_of(d);
        m.size = size_of(d);
        if (type == "port") {
          require(channel_at(rank, block, type, ids[k]).peer == m.peer, "a put to another peer");
          ranks_[rank].proxy.push_back(m);
          continue;
        }
        write(rank, m.peer, [&] {
          for (std::size_t i = 0; i < m.size; ++i) {
            cell(m.peer, m.destination_buffer, m.destination + i) =
                cell(rank, m.source_buffer, m.source + i);
          }
        });
      }
    } else {
      throw mscclpp_fault("unknown operation " + name);
    }
    block.has_unseen_write = true;
  }

  json plan_;
  std::size_t chunk_;
  bool in_place_;
  std::mt19937_64 random_;
  std::vector<rank_state> ranks_;
  std::vector<std::vector<values>> inputs_;  // by launch and rank
  goal const* wanted_ = nullptr;
  int launches_ = 0;
};

}  // namespace blink::test
