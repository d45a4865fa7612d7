// Graphs: nodes in the order of their recording, which a launch queues as one piece of work.
#include <algorithm>

#include "runtime.h"

namespace software_gpu {
namespace {

Graph& graph_of(cudaGraph_t graph) { return *reinterpret_cast<Graph*>(graph); }

// What is instantiated is the graph as it is then.
std::map<cudaGraphExec_t, std::unique_ptr<Graph>>& executables() {
  static auto& all = *new std::map<cudaGraphExec_t, std::unique_ptr<Graph>>;
  return all;
}

cudaError_t instantiate(cudaGraphExec_t* out, cudaGraph_t graph) {
  return call("cudaGraphInstantiate", [&] {
    if (const cudaError_t refused = refuse_unsafe()) return refused;
    auto made = std::make_unique<Graph>(graph_of(graph));
    *out = reinterpret_cast<cudaGraphExec_t>(made.get());
    executables()[*out] = std::move(made);
    return cudaSuccess;
  });
}

cudaError_t launch_graph(const Graph& graph, Stream* stream) {
  Task task;
  task.work = {.kind = "graph", .run = [nodes = graph.nodes] {
                 for (const auto& node : nodes) perform(*node);
               }};
  for (const auto& node : graph.nodes) {
    task.guards.insert(task.guards.end(), node->guards.begin(), node->guards.end());
  }
  if (const cudaError_t error = submit(stream, std::move(task))) return error;
  ++totals().graph_launches;
  for (const auto& node : graph.nodes) {
    if (node->kernel == nullptr) continue;
    ++node->kernel->replayed;
    ++totals().replayed;
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace software_gpu

using namespace software_gpu;

extern "C" {

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  return instantiate(out, graph);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  return instantiate(out, graph);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call("cudaGraphLaunch", [&] {
    const auto found = executables().find(executable);
    return found == executables().end() ? cudaErrorInvalidValue : launch_graph(*found->second, find_stream(stream));
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call("cudaGraphExecDestroy", [&] {
    if (const cudaError_t refused = refuse_unsafe()) return refused;
    return executables().erase(executable) == 1 ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call("cudaGraphDestroy", [&] {
    const std::unique_ptr<Graph> owned(&graph_of(graph));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* out, std::size_t* count) {
  return call("cudaGraphGetNodes", [&] {
    const auto& nodes = graph_of(graph).nodes;
    if (out != nullptr) {
      for (std::size_t i = 0; i < std::min(*count, nodes.size()); ++i) {
        out[i] = reinterpret_cast<cudaGraphNode_t>(const_cast<Task*>(nodes[i].get()));
      }
    }
    *count = nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t, cudaGraphNode_t*, cudaGraphEdgeData*, std::size_t* count) {
  *count = 0;
  return cudaSuccess;
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t, const char*, unsigned) { return cudaSuccess; }

}  // extern "C"
