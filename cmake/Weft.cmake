# The include folder and the warning and sanitizer flags of all of Weft's own targets.
add_library(weft_flags INTERFACE)
# Headers are included as weft/core/ir/node.h, both here and where Weft is installed.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/include/weft SYMBOLIC)
target_include_directories(weft_flags INTERFACE ${PROJECT_BINARY_DIR}/include)
# Errors contain source paths relative to the root of the project, so they do not depend on where it was built. ccache makes
# paths relative to the build folder.
file(RELATIVE_PATH weft_root ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
set(weft_prefixes -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${weft_root}/=
  -fmacro-prefix-map=${PROJECT_BINARY_DIR}/include/weft/=src/ -fmacro-prefix-map=include/weft/=src/)
list(JOIN weft_prefixes "," weft_host_prefixes)
set(weft_cxx_flags -Wall -Wextra -Wshadow -Wno-missing-field-initializers ${weft_prefixes}
  # GCC 12 wrongly warns of uninitialised storage inside absl::InlinedVector.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  # A Var is a handle, and its node outlives a temporary Var. GCC 13 and newer do not know that.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-dangling-reference>
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

# weft_precompile(target): with WEFT_PCH, precompiles the headers that most sources of a target include. ccache requires
# -fpch-preprocess. With it GCC 12 warns of array bounds inside Abseil's headers.
function(weft_precompile target)
  if(WEFT_PCH)
    target_precompile_headers(${target} PRIVATE <algorithm> <chrono> <filesystem> <functional> <map> <memory> <optional> <span>
      <string> <vector> <absl/container/flat_hash_map.h> <absl/container/inlined_vector.h> <absl/status/statusor.h> <fmt/format.h>)
    target_compile_options(${target} PRIVATE -fpch-preprocess $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>)
  endif()
endfunction()

# weft_reuse_precompiled(target...): with WEFT_PCH, lets targets with few sources use the precompiled headers of weft_train,
# whose flags they share. Programs must be compiled with -fPIC too, or GCC would reject the header.
function(weft_reuse_precompiled)
  if(WEFT_PCH)
    foreach(target ${ARGN})
      target_precompile_headers(${target} REUSE_FROM weft_train)
      target_compile_options(${target} PRIVATE -fpch-preprocess -fPIC $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>)
    endforeach()
  endif()
endfunction()

# weft_library(name DIRS dir... [LINK library...] [OMIT file...]): a library of all .cc files in these folders, except those
# in OMIT.
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

# weft_table(DIR MACRO FILE): generates FILE with MACRO(name) for each DIR/name.cc. So a new row of a table needs only a file.
function(weft_table dir macro file)
  file(GLOB rows CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/${dir} ${dir}/*.cc)
  list(TRANSFORM rows REPLACE "(.*)\\.cc" "${macro}(\\1)")
  list(JOIN rows "\n" table)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/generated/${file} CONTENT "${table}\n")
endfunction()

# weft_keep_modules(target): required for sanitized programs that run under MPI; see tests/keep_modules.cc.
function(weft_keep_modules target)
  if(WEFT_SANITIZE)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/keep_modules.cc)
    target_link_options(${target} PRIVATE -Wl,--export-dynamic-symbol=dlclose)
  endif()
endfunction()
