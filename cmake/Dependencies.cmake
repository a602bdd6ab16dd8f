# Finds every third-party library once. The CMake configs of Debian's Gloo, oneDNN and OpenBLAS contain fixed paths or
# require OpenCL, so these libraries are found by header and library file.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(fmt REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

find_package(MPI REQUIRED COMPONENTS C)
add_library(weft_mpi INTERFACE)
target_link_libraries(weft_mpi INTERFACE MPI::MPI_C)
# The C++ bindings of MPI are deprecated and would require libmpi_cxx.
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
weft_find_library(weft_pcre2 pcre2.h pcre2-8)
weft_find_library(weft_zlib zlib.h z)
weft_find_library(weft_zstd zstd.h zstd)
weft_find_library(weft_isal isa-l/crc.h isal)

# Sentencepiece is optional, for tokenizer sentencepiece. Without it, a source that reports what is missing replaces it.
# Defines weft_sentencepiece to link, and weft_sentencepiece_omits, the source that this build must omit.
option(WEFT_SENTENCEPIECE "Use the sentencepiece library if it is found" ON)
find_path(WEFT_SENTENCEPIECE_DIR sentencepiece_trainer.h DOC "Include folder of sentencepiece")
find_library(WEFT_SENTENCEPIECE_LIBRARY sentencepiece)
find_library(WEFT_SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
add_library(weft_sentencepiece INTERFACE)
if(WEFT_SENTENCEPIECE AND WEFT_SENTENCEPIECE_DIR AND WEFT_SENTENCEPIECE_LIBRARY AND WEFT_SENTENCEPIECE_TRAIN_LIBRARY)
  target_include_directories(weft_sentencepiece SYSTEM INTERFACE ${WEFT_SENTENCEPIECE_DIR})
  target_link_libraries(weft_sentencepiece INTERFACE ${WEFT_SENTENCEPIECE_LIBRARY} ${WEFT_SENTENCEPIECE_TRAIN_LIBRARY})
  set(weft_sentencepiece_omits no_sentencepiece.cc)
else()
  message(STATUS "Tokenizer sentencepiece is left out: no sentencepiece_trainer.h or no library (Debian: libsentencepiece-dev)")
  set(weft_sentencepiece_omits sentencepiece_library.cc)
endif()

weft_find_library(weft_gloo gloo/config.h gloo)
weft_find_library(weft_dnnl oneapi/dnnl/dnnl.hpp dnnl)
weft_find_library(weft_openblas cblas.h openblas
  SUFFIXES x86_64-linux-gnu/openblas-pthread openblas-pthread x86_64-linux-gnu aarch64-linux-gnu/openblas-pthread)
