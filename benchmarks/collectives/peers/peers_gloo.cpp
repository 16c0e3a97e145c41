// SPDX-License-Identifier: Apache-2.0
// Gloo over its TCP transport, the only packaged one for hosts. Its ranks are threads here, and
// communicate over the loopback device as processes would.

#include "peer_loop.hpp"
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include <exception>
#include <memory>
#include <thread>

namespace {

using blink_bench::operation;
using blink_bench::peer_call;

class gloo_peer {
 public:
  gloo_peer(gloo::rendezvous::Store& store, int rank, int ranks) {
    auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
    auto const made = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
    made->connectFullMesh(store, device);
    context_ = made;
  }

  void prepare(int, peer_call const&) {}
  void idle() { std::this_thread::yield(); }

  void run(int rank, peer_call const& call) {
    void (*const add)(void*, void const*, void const*, std::size_t) = &gloo::sum<float>;
    switch (call.what) {
      case operation::all_reduce: {
        gloo::AllreduceOptions options(context_);
        options.setInput(call.input, call.count);
        options.setOutput(call.output, call.count);
        options.setReduceFunction(add);
        return gloo::allreduce(options);
      }
      case operation::broadcast: {
        gloo::BroadcastOptions options(context_);
        if (rank == 0) options.setInput(call.input, call.count);
        options.setOutput(call.output, call.count);
        options.setRoot(0);
        return gloo::broadcast(options);
      }
      case operation::reduce: {
        gloo::ReduceOptions options(context_);
        options.setInput(call.input, call.count);
        options.setOutput(call.output, call.count);
        options.setRoot(0);
        options.setReduceFunction(add);
        return gloo::reduce(options);
      }
      case operation::all_gather: {
        gloo::AllgatherOptions options(context_);
        options.setInput(call.input, call.block);
        options.setOutput(call.output, call.count);
        return gloo::allgather(options);
      }
      case operation::all_to_all: {
        gloo::AlltoallOptions options(context_);
        options.setInput(call.input, call.count);
        options.setOutput(call.output, call.count);
        return gloo::alltoall(options);
      }
      case operation::barrier: {
        gloo::BarrierOptions options(context_);
        return gloo::barrier(options);
      }
      case operation::reduce_scatter:
        break;
    }
    throw std::runtime_error("Gloo has no such collective for separate inputs and outputs");
  }

 private:
  std::shared_ptr<gloo::Context> context_;
};

}  // namespace

int main(int count, char** texts) {
  try {
    auto const given = blink_bench::read_arguments(count, texts);
    if (given.what == operation::reduce_scatter) return 0;
    auto& board = blink_bench::map_board(given.board);
    gloo::rendezvous::HashStore store;
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < given.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        gloo_peer peer(store, rank, given.ranks);
        blink_bench::measure(board, given, rank, "Gloo", peer);
      });
    }
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "%s: %s\n", texts[0], problem.what());
    return 1;
  }
}
