# Warning, sanitizer and optimisation flags shared by all of Weft's own targets.
add_library(weft_flags INTERFACE)
# Headers are spelled weft/core/ir/node.h, here as where Weft is installed.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/include/weft SYMBOLIC)
target_include_directories(weft_flags INTERFACE ${PROJECT_BINARY_DIR}/include)
# Errors name sources from the root of the project, wherever it was built; ccache makes paths relative to the build.
file(RELATIVE_PATH weft_root ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
set(weft_prefixes -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${weft_root}/=
  -fmacro-prefix-map=${PROJECT_BINARY_DIR}/include/weft/=src/ -fmacro-prefix-map=include/weft/=src/)
list(JOIN weft_prefixes "," weft_host_prefixes)
set(weft_cxx_flags -Wall -Wextra -Wshadow -Wno-missing-field-initializers ${weft_prefixes}
  # GCC 12 sees uninitialised storage inside absl::InlinedVector where there is none.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<BOOL:${WEFT_WERROR}>:-Werror>)
set(weft_cuda_flags --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,${weft_host_prefixes}
  $<$<BOOL:${WEFT_WERROR}>:-Werror=all-warnings>)
target_compile_options(weft_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${weft_cxx_flags}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:${weft_cuda_flags}>")
if(WEFT_SANITIZE)
  target_compile_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(WEFT_SANITIZE_OMIT)
    target_compile_options(weft_flags INTERFACE -fno-sanitize=${WEFT_SANITIZE_OMIT})
  endif()
  target_link_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()

# With WEFT_PCH: what most sources of a target include, parsed once. -fpch-preprocess is what ccache asks for. GCC 12 then
# warns of bounds inside Abseil's headers that it otherwise keeps to itself.
function(weft_precompile target)
  if(WEFT_PCH)
    target_precompile_headers(${target} PRIVATE <algorithm> <chrono> <filesystem> <functional> <map> <memory> <optional> <span>
      <string> <vector> <absl/container/flat_hash_map.h> <absl/container/inlined_vector.h> <absl/status/statusor.h> <fmt/format.h>)
    target_compile_options(${target} PRIVATE -fpch-preprocess $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>)
  endif()
endfunction()

# The same for targets with few sources, whose flags are those of weft_train. Programs are compiled as it is: GCC takes no
# header that was precompiled for a library into one.
function(weft_reuse_precompiled)
  if(WEFT_PCH)
    foreach(target ${ARGN})
      target_precompile_headers(${target} REUSE_FROM weft_train)
      target_compile_options(${target} PRIVATE -fpch-preprocess -fPIC $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>)
    endforeach()
  endif()
endfunction()

# weft_library(name DIRS dir... [LINK library...] [OMIT file...]): one library per folder of the house.
function(weft_library name)
  cmake_parse_arguments(ARG "" "" "DIRS;LINK;OMIT" ${ARGN})
  set(sources)
  foreach(dir ${ARG_DIRS})
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*.cc)
    list(APPEND sources ${found})
  endforeach()
  foreach(file ${ARG_OMIT})
    list(FILTER sources EXCLUDE REGEX "/${file}$")
  endforeach()
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC weft_flags ${ARG_LINK})
    weft_precompile(${name})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE weft_flags ${ARG_LINK})
  endif()
endfunction()

# For sanitized programs that run under MPI: see tests/keep_modules.cc.
function(weft_keep_modules target)
  if(WEFT_SANITIZE)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/keep_modules.cc)
    target_link_options(${target} PRIVATE -Wl,--export-dynamic-symbol=dlclose)
  endif()
endfunction()
