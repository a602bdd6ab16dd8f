// The kernels that a captured graph launches. Two graphs that launch the same kernels on the same values do the same
// work.
//   const Launches launches = LaunchesOf(graph);
#pragma once
#include <cuda.h>

#include "../probe.h"

struct Launches {
  std::string kernels;  // joined by +
  std::string work;     // grids, clusters and arguments in bytes; empty where the driver does not report them
};

// Appends the bytes of a kernel's arguments. Returns whether there are any. Bytes between arguments are left out.
inline bool AppendArguments(const CUDA_KERNEL_NODE_PARAMS& kernel, std::string& work) {
  if (!kernel.kernelParams) return false;
  size_t count = 0, offset = 0, bytes = 0;
  const auto info = [&] {
    return kernel.func ? cuFuncGetParamInfo(kernel.func, count, &offset, &bytes)
                       : cuKernelGetParamInfo(kernel.kern, count, &offset, &bytes);
  };
  for (; info() == CUDA_SUCCESS; ++count) work.append(static_cast<const char*>(kernel.kernelParams[count]), bytes);
  return count > 0;
}

// Appends a kernel. Returns whether all of its work is known.
inline bool AppendKernel(CUgraphNode node, Launches& launches) {
  CUDA_KERNEL_NODE_PARAMS kernel{};
  if (cuGraphKernelNodeGetParams(node, &kernel) != CUDA_SUCCESS) return false;
  const char* name = "unknown";
  if ((kernel.func ? cuFuncGetName(&name, kernel.func) : cuKernelGetName(&name, kernel.kern)) != CUDA_SUCCESS)
    return false;
  launches.kernels += (launches.kernels.empty() ? "" : "+") + std::string(name);
  CUlaunchAttributeValue cluster{};
  if (cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &cluster) != CUDA_SUCCESS)
    return false;
  const unsigned sizes[] = {kernel.gridDimX,      kernel.gridDimY,     kernel.gridDimZ,       kernel.blockDimX,
                            kernel.blockDimY,     kernel.blockDimZ,    kernel.sharedMemBytes, cluster.clusterDim.x,
                            cluster.clusterDim.y, cluster.clusterDim.z};
  launches.work += name;
  launches.work.append(reinterpret_cast<const char*>(sizes), sizeof sizes);
  return AppendArguments(kernel, launches.work);
}

// Nodes that are no kernels count by their type.
inline Launches LaunchesOf(cudaGraph_t graph) {
  Launches launches;
  size_t count = 0;
  bool known = cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess;
  std::vector<cudaGraphNode_t> nodes(count);
  if (known && count) known = cudaGraphGetNodes(graph, nodes.data(), &count) == cudaSuccess;
  for (cudaGraphNode_t node : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    known = cuGraphNodeGetType(node, &type) == CUDA_SUCCESS && known;
    launches.work += std::to_string(int(type));
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) known = AppendKernel(node, launches) && known;
  }
  if (!known) launches.work.clear();
  return launches;
}
