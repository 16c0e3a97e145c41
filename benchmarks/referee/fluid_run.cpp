// SPDX-License-Identifier: Apache-2.0
#include "fluid_run.hpp"

#include <blink/core/error.hpp>
#include <blink/planning/plan/make_schedule.hpp>

#include <simgrid/s4u.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace blink_bench {
namespace {

namespace sg = simgrid::s4u;

/// SimGrid as a pure fluid model. docs/results/referee.md repeats the list.
constexpr char const* settings[] = {
    // A flow's rate follows from bandwidths alone, without the corrections for TCP of LV08.
    "--cfg=network/model:CM02",
    "--cfg=network/bandwidth-factor:1",
    "--cfg=network/latency-factor:1",
    // A flow takes nothing of the opposite direction for acknowledgements.
    "--cfg=network/crosstraffic:0",
    // No largest TCP window bounds the rate.
    "--cfg=network/TCP-gamma:0",
    // A flow's weight depends neither on its links' bandwidth nor on their latency.
    "--cfg=network/weight-S:0",
    // Chunks of a few microseconds are not rounded: the default is a nanosecond.
    "--cfg=surf/precision:1e-13",
    // Two actors for each tree edge, none with deep calls.
    "--cfg=contexts/stack-size:128",
    "--log=root.threshold:error",
};

/// One tree edge of a call while it runs.
struct tree_edge_run {
  sg::Host* from = nullptr;
  sg::Host* to = nullptr;
  sg::Mailbox* mailbox = nullptr;
  double latency = 0;
  std::size_t chunks = 0;
  double chunk_bytes = 0;
  std::vector<tree_edge_run*> inputs;       // edges whose chunks this one passes on
  std::vector<sg::SemaphorePtr> has_input;  // by input: chunks that have come
  std::vector<sg::SemaphorePtr> gave_back;  // by input: credits of the input that this edge returns
  std::vector<sg::SemaphorePtr> has_output;  // by output: where its input has come
  std::vector<sg::SemaphorePtr> has_credit;  // by output: credits that it returns to this edge
  std::vector<double> arrival;               // by chunk
};

/// The machine as SimGrid's platform, and the calls that run on it.
class fluid_platform {
 public:
  fluid_platform(blink::topology const& machine, blink::plan const& plan, double bytes_per_unit,
                 fluid_sharing sharing)
      : plan_(&plan), zone_(sg::create_full_zone("machine")) {
    for (auto const& l : machine.links) {
      if (!plan.links.empty() && blink::to_text(l.kind) != plan.links) continue;
      auto& joined = links_[{machine.nodes[static_cast<std::size_t>(l.tail)].id,
                             machine.nodes[static_cast<std::size_t>(l.head)].id}];
      joined.rate += machine.in_units(l.capacity).to_double() * bytes_per_unit;
      joined.latency = std::max(joined.latency, l.latency_seconds);
    }
    for (auto& [ends, link] : links_) {
      link.link = zone_->create_link(
          "from" + std::to_string(ends.first) + "to" + std::to_string(ends.second), link.rate);
      if (sharing == fluid_sharing::in_turn) link.link->set_concurrency_limit(1);
    }
    for (auto const& t : plan.trees) {
      for (auto const* phase : {&t.reduce, &t.broadcast}) {
        for (auto const& edge : *phase) add_route(edge.path);
      }
    }
    zone_->seal();
  }

  fluid_result run(fluid_call const& call, fluid_options const& options) {
    std::vector<std::unique_ptr<tree_edge_run>> edges;
    std::int64_t expected = 0;
    for (std::size_t t = 0; t < plan_->trees.size(); ++t) {
      auto const& tree = plan_->trees[t];
      double const bytes = call.bytes * blink::ratio(tree.weight, plan_->rate);
      auto const first = edges.size();
      add_tree(edges, tree, bytes, call.chunk_bytes[t]);
      for (auto i = first; i < edges.size(); ++i) {
        expected += static_cast<std::int64_t>(edges[i]->chunks);
      }
    }
    for (auto const& to : edges) {
      for (auto* from : to->inputs) connect(*from, *to, options.window);
    }
    double const start = sg::Engine::get_clock();
    fluid_result result;
    for (auto const& each : edges) {
      auto* const edge = each.get();
      sg::Actor::create("send", edge->from, [edge, start, &options] {
        sg::this_actor::sleep_until(start + options.start_seconds);
        send_chunks(*edge, options);
      });
      sg::Actor::create("receive", edge->to, [edge, &result] {
        receive_chunks(*edge);
        result.messages += static_cast<std::int64_t>(edge->chunks);
      });
    }
    sg::Engine::get_instance()->run();
    if (result.messages != expected) {
      throw std::runtime_error(std::to_string(result.messages) + " messages, expected " +
                               std::to_string(expected) + ": actors wait for each other");
    }
    double end = start + options.start_seconds;
    for (auto const& edge : edges) {
      for (double const arrival : edge->arrival) end = std::max(end, arrival);
    }
    result.seconds = end - start;
    return result;
  }

 private:
  struct joined_link {
    double rate = 0;  // of all parallel links
    double latency = 0;
    sg::Link* link = nullptr;
  };
  struct host_pair {
    sg::Host* from = nullptr;
    sg::Host* to = nullptr;
    double latency = 0;
  };

  // Two trees may join the same ranks by different paths, and SimGrid knows one route for a pair of
  // hosts. So each path has its own pair.
  void add_route(std::vector<int> const& path) {
    auto const [known, is_new] = routes_.try_emplace(path);
    if (!is_new) return;
    auto const name = "path" + std::to_string(routes_.size());
    auto& route = known->second;
    route.from = zone_->create_host(name + "from", 1e9);
    route.to = zone_->create_host(name + "to", 1e9);
    std::vector<sg::LinkInRoute> links;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      auto const link = links_.find({path[i], path[i + 1]});
      if (link == links_.end()) {
        throw std::runtime_error("no link " + std::to_string(path[i]) + " -> " +
                                 std::to_string(path[i + 1]) + " in the machine of the plan");
      }
      links.emplace_back(link->second.link);
      route.latency += link->second.latency;
    }
    zone_->add_route(route.from->get_netpoint(), route.to->get_netpoint(), nullptr, nullptr, links,
                     false);
  }

  // A reduce edge passes on the edges that end where it begins, and a broadcast edge the one that
  // ends there. At the root of an all-reduce, that is all reduce edges that end at the root.
  void add_tree(std::vector<std::unique_ptr<tree_edge_run>>& edges, blink::tree const& tree,
                double bytes, double chunk_bytes) {
    auto const chunks =
        static_cast<std::size_t>(std::max(1.0, std::ceil(bytes / chunk_bytes - 1e-9)));
    std::multimap<int, tree_edge_run*> up, down;  // by the node where they end
    auto const add = [&](blink::tree_edge const& edge, std::multimap<int, tree_edge_run*>& ends) {
      auto const& route = routes_.at(edge.path);
      auto& one = *edges.emplace_back(std::make_unique<tree_edge_run>());
      one.from = route.from;
      one.to = route.to;
      one.mailbox = sg::Mailbox::by_name("edge" + std::to_string(edges.size()));
      one.latency = route.latency;
      one.chunks = chunks;
      one.chunk_bytes = bytes / static_cast<double>(chunks);
      one.arrival.assign(chunks, 0);
      ends.emplace(edge.to, &one);
    };
    auto const first = edges.size();
    for (auto const& edge : tree.reduce) add(edge, up);
    for (auto const& edge : tree.broadcast) add(edge, down);
    auto const take_inputs = [](tree_edge_run& edge, std::multimap<int, tree_edge_run*> const& ends,
                                int node) {
      auto const [begin, end] = ends.equal_range(node);
      for (auto at = begin; at != end; ++at) edge.inputs.push_back(at->second);
    };
    std::size_t at = first;
    for (auto const& edge : tree.reduce) take_inputs(*edges[at++], up, edge.from);
    for (auto const& edge : tree.broadcast) {
      take_inputs(*edges[at++], edge.from == tree.root ? up : down, edge.from);
    }
  }

  static void connect(tree_edge_run& from, tree_edge_run& to, std::size_t window) {
    auto const has_come = sg::Semaphore::create(0);
    from.has_output.push_back(has_come);
    to.has_input.push_back(has_come);
    if (window == 0) return;
    auto const credits = sg::Semaphore::create(static_cast<unsigned>(window));
    from.has_credit.push_back(credits);
    to.gave_back.push_back(credits);
  }

  // SimGrid's `put` ends when the last byte has left the links. The latency follows, so that the
  // next chunk need not wait for it: it is no property of SimGrid's links, whose flows begin with
  // it and have weights by it.
  static void send_chunks(tree_edge_run& edge, fluid_options const& options) {
    for (std::size_t chunk = 0; chunk < edge.chunks; ++chunk) {
      for (auto const& input : edge.has_input) input->acquire();
      for (auto const& credit : edge.has_credit) credit->acquire();
      for (auto const* input : edge.inputs) sg::this_actor::sleep_until(input->arrival[chunk]);
      sg::this_actor::sleep_for(options.step_seconds);
      auto const message = edge.mailbox->put_init(&edge, 0);
      message->set_remaining(edge.chunk_bytes);  // any number of bytes, not a whole one
      message->wait();
      for (auto const& credit : edge.gave_back) credit->release();
    }
  }

  static void receive_chunks(tree_edge_run& edge) {
    for (std::size_t chunk = 0; chunk < edge.chunks; ++chunk) {
      static_cast<void>(edge.mailbox->get<tree_edge_run>());
      edge.arrival[chunk] = sg::Engine::get_clock() + edge.latency;
      for (auto const& output : edge.has_output) output->release();
    }
  }

  blink::plan const* plan_;
  sg::NetZone* zone_;
  std::map<std::pair<int, int>, joined_link> links_;  // by node ids (from, to)
  std::map<std::vector<int>, host_pair> routes_;      // by node ids
};

/// A pipe between a process and its child.
class result_pipe {
 public:
  result_pipe() {
    if (::pipe(ends_) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  }
  ~result_pipe() { close_both(); }
  result_pipe(result_pipe const&) = delete;
  result_pipe& operator=(result_pipe const&) = delete;

  void write(char kind, std::string const& text) const {
    auto const all = kind + text;
    for (std::size_t at = 0; at < all.size();) {
      auto const written = ::write(ends_[1], all.data() + at, all.size() - at);
      if (written < 0 && errno != EINTR) return;
      if (written > 0) at += static_cast<std::size_t>(written);
    }
  }
  /// Everything that the child has written.
  [[nodiscard]] std::string read() {
    ::close(std::exchange(ends_[1], -1));
    std::string result;
    char part[4096];
    while (true) {
      auto const got = ::read(ends_[0], part, sizeof part);
      if (got == 0 || (got < 0 && errno != EINTR)) return result;
      if (got > 0) result.append(part, static_cast<std::size_t>(got));
    }
  }

 private:
  void close_both() {
    for (int& end : ends_) {
      if (end >= 0) ::close(std::exchange(end, -1));
    }
  }
  int ends_[2] = {-1, -1};
};

constexpr char results_follow = 'r';
constexpr char fault_follows = 'f';

/// The child's work: its results, or what went wrong, into the pipe.
void simulate_into(result_pipe const& pipe, blink::topology const& machine, blink::plan const& plan,
                   std::vector<fluid_call> const& calls, fluid_options const& options,
                   double bytes_per_unit) {
  std::vector<std::string> texts{"referee"};
  texts.insert(texts.end(), std::begin(settings), std::end(settings));
  std::vector<char*> arguments;
  for (auto& text : texts) arguments.push_back(text.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  try {
    sg::Engine const engine(&count, arguments.data());
    fluid_platform platform(machine, plan, bytes_per_unit, options.sharing);
    std::string packed;
    for (auto const& call : calls) {
      auto const result = platform.run(call, options);
      packed.append(reinterpret_cast<char const*>(&result), sizeof result);
    }
    pipe.write(results_follow, packed);
  } catch (std::exception const& fault) {
    pipe.write(fault_follows, fault.what());
  }
}

}  // namespace

std::vector<fluid_result> run_fluid(blink::topology const& machine, blink::plan const& plan,
                                    std::vector<fluid_call> const& calls,
                                    fluid_options const& options) {
  for (auto const& call : calls) {
    blink::expects(call.bytes >= 0, "run_fluid: a negative number of bytes, expected 0 or more");
    blink::expects(call.chunk_bytes.size() == plan.trees.size(),
                   "run_fluid: the number of chunk sizes differs, expected one for each tree");
    for (double const chunk : call.chunk_bytes) {
      blink::expects(chunk > 0, "run_fluid: a chunk size of 0 or less, expected a positive number");
    }
  }
  double const unit =
      options.bytes_per_unit > 0 ? options.bytes_per_unit : blink::bytes_per_second(machine.unit);
  std::fflush(nullptr);  // or the child would write what is buffered again
  result_pipe pipe;
  auto const child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    simulate_into(pipe, machine, plan, calls, options, unit);
    ::_exit(0);  // the parent's objects are not this process's to destroy
  }
  auto const text = pipe.read();
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::vector<fluid_result> results(calls.size());
  auto const size = calls.size() * sizeof(fluid_result);
  if (status == 0 && text.size() == 1 + size && text[0] == results_follow) {
    std::memcpy(results.data(), text.data() + 1, size);
    return results;
  }
  throw std::runtime_error("SimGrid: " + (!text.empty() && text[0] == fault_follows
                                              ? text.substr(1)
                                              : "the process ended with status " +
                                                    std::to_string(status) + " without a result"));
}

}  // namespace blink_bench
