// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/topology.hpp>

#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/property_map/property_map.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

// Makes `topology` a graph of Boost.Graph: VertexListGraph, EdgeListGraph and BidirectionalGraph.
// Vertices are positions in `nodes`. An edge is one link of `links`. `get(boost::edge_index, g)`
// maps it to its position, so that a vector with one value for each link becomes a property map:
//
//     boost::make_iterator_property_map(costs.begin(), get(boost::edge_index, machine))

namespace blink { inline namespace BLINK_ABI {

/// An edge descriptor of Boost.Graph. Parallel links have different descriptors. A descriptor is
/// valid until `topology::links` changes.
class link_edge {
 public:
  link_edge() = default;
  link_edge(struct link const& one) : link_(&one) {}  // NOLINT: `edges` gives links
  [[nodiscard]] struct link const& operator*() const { return *link_; }
  [[nodiscard]] struct link const* operator->() const { return link_; }
  friend bool operator==(link_edge const&, link_edge const&) = default;

  friend int source(link_edge const& edge, topology const&) { return edge->tail; }
  friend int target(link_edge const& edge, topology const&) { return edge->head; }

 private:
  struct link const* link_ = nullptr;
};

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

enum class link_end : std::uint8_t { tail, head };

/// Iterates over the links that have `vertex` at one end. The iterator visits every link of the
/// machine.
template <link_end End>
class link_iterator {
 public:
  using value_type = link_edge;
  using reference = link_edge;
  using pointer = void;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::input_iterator_tag;  // multi-pass, but it returns values

  link_iterator() = default;
  link_iterator(topology const& machine, int vertex, std::size_t position)
      : machine_(&machine), vertex_(vertex), position_(position) {
    skip();
  }
  link_edge operator*() const { return machine_->links[position_]; }
  link_iterator& operator++() {
    ++position_;
    skip();
    return *this;
  }
  link_iterator operator++(int) {
    auto const before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(link_iterator const& a, link_iterator const& b) {
    return a.position_ == b.position_;
  }

 private:
  void skip() {
    for (; position_ < machine_->links.size(); ++position_) {
      auto const& here = machine_->links[position_];
      if ((End == link_end::tail ? here.tail : here.head) == vertex_) return;
    }
  }

  topology const* machine_ = nullptr;
  int vertex_ = 0;
  std::size_t position_ = 0;
};

template <link_end End>
[[nodiscard]] std::pair<link_iterator<End>, link_iterator<End>> links_at(int vertex,
                                                                         topology const& machine) {
  return {link_iterator<End>(machine, vertex, 0),
          link_iterator<End>(machine, vertex, machine.links.size())};
}

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// The positions of all nodes.
[[nodiscard]] inline auto vertices(topology const& machine) {
  using iterator = boost::counting_iterator<int>;
  return std::pair(iterator(0), iterator(static_cast<int>(machine.nodes.size())));
}

/// The links from `vertex`. Time: O(E) for all of them.
[[nodiscard]] inline auto out_edges(int vertex, topology const& machine) {
  return detail::links_at<detail::link_end::tail>(vertex, machine);
}
/// The links to `vertex`. Time: O(E) for all of them.
[[nodiscard]] inline auto in_edges(int vertex, topology const& machine) {
  return detail::links_at<detail::link_end::head>(vertex, machine);
}
/// The number of links from `vertex`. Time: O(E).
[[nodiscard]] inline std::size_t out_degree(int vertex, topology const& machine) {
  auto const [first, last] = out_edges(vertex, machine);
  return static_cast<std::size_t>(std::distance(first, last));
}
/// The number of links to `vertex`. Time: O(E).
[[nodiscard]] inline std::size_t in_degree(int vertex, topology const& machine) {
  auto const [first, last] = in_edges(vertex, machine);
  return static_cast<std::size_t>(std::distance(first, last));
}
/// The number of links from and to `vertex`. Time: O(E).
[[nodiscard]] inline std::size_t degree(int vertex, topology const& machine) {
  return out_degree(vertex, machine) + in_degree(vertex, machine);
}

/// Positions of links, as a property map.
struct link_index_map {
  using key_type = link_edge;
  using value_type = std::size_t;
  using reference = std::size_t;
  using category = boost::readable_property_map_tag;
  struct link const* first = nullptr;

  friend std::size_t get(link_index_map const& map, link_edge const& edge) {
    return static_cast<std::size_t>(&*edge - map.first);
  }
};
/// The map from links to their positions.
[[nodiscard]] inline link_index_map get(boost::edge_index_t, topology const& machine) {
  return {machine.links.data()};
}
/// The map from nodes to their positions, which is the identity.
[[nodiscard]] inline boost::typed_identity_property_map<int> get(boost::vertex_index_t,
                                                                 topology const&) {
  return {};
}

}}  // namespace blink::BLINK_ABI

namespace boost {

template <>
struct graph_traits<blink::topology> {
  using vertex_descriptor = int;
  using edge_descriptor = blink::link_edge;
  using directed_category = boost::bidirectional_tag;
  using edge_parallel_category = boost::allow_parallel_edge_tag;
  struct traversal_category : boost::bidirectional_graph_tag,
                              boost::vertex_list_graph_tag,
                              boost::edge_list_graph_tag {};
  using vertex_iterator = boost::counting_iterator<int>;
  using edge_iterator = std::vector<struct blink::link>::const_iterator;
  using out_edge_iterator = blink::detail::link_iterator<blink::detail::link_end::tail>;
  using in_edge_iterator = blink::detail::link_iterator<blink::detail::link_end::head>;
  using adjacency_iterator = void;
  using vertices_size_type = std::size_t;
  using edges_size_type = std::size_t;
  using degree_size_type = std::size_t;
  static vertex_descriptor null_vertex() { return -1; }
};

template <>  // some algorithms use the traits of a const graph
struct graph_traits<blink::topology const> : graph_traits<blink::topology> {};

template <>
struct property_map<blink::topology, boost::vertex_index_t> {
  using type = boost::typed_identity_property_map<int>;
  using const_type = type;
};

template <>
struct property_map<blink::topology, boost::edge_index_t> {
  using type = blink::link_index_map;
  using const_type = type;
};

}  // namespace boost
