# Every third-party library, found once. Debian's Gloo, oneDNN and OpenBLAS configs name fixed paths
# (or want OpenCL), so those are found by header and library.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(fmt REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)

find_package(MPI REQUIRED COMPONENTS C)
add_library(weft_mpi INTERFACE)
target_link_libraries(weft_mpi INTERFACE MPI::MPI_C)
# The C++ bindings of MPI are deprecated and would need libmpi_cxx.
target_compile_definitions(weft_mpi INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)

function(weft_find_library target header library)
  cmake_parse_arguments(ARG "" "" "SUFFIXES" ${ARGN})
  find_path(${target}_INCLUDE_DIR ${header} PATH_SUFFIXES ${ARG_SUFFIXES} REQUIRED)
  find_library(${target}_LIBRARY NAMES ${library} REQUIRED)
  add_library(${target} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${${target}_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${${target}_INCLUDE_DIR}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${${target}_INCLUDE_DIR}")
endfunction()
weft_find_library(weft_gloo gloo/config.h gloo)
weft_find_library(weft_dnnl oneapi/dnnl/dnnl.hpp dnnl)
weft_find_library(weft_openblas cblas.h openblas
  SUFFIXES x86_64-linux-gnu/openblas-pthread openblas-pthread x86_64-linux-gnu aarch64-linux-gnu/openblas-pthread)
