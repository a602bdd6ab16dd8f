# Warning, sanitizer and optimisation flags shared by all of Weft's own targets.
add_library(weft_flags INTERFACE)
target_include_directories(weft_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(weft_flags INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers
  # GCC 12 sees uninitialised storage inside absl::InlinedVector where there is none.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<BOOL:${WEFT_WERROR}>:-Werror>)
if(WEFT_SANITIZE)
  target_compile_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()

# weft_library(name DIRS dir... [LINK library...]): one library per folder of the house.
function(weft_library name)
  cmake_parse_arguments(ARG "" "" "DIRS;LINK" ${ARGN})
  set(sources)
  foreach(dir ${ARG_DIRS})
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*.cc)
    list(APPEND sources ${found})
  endforeach()
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC weft_flags ${ARG_LINK})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE weft_flags ${ARG_LINK})
  endif()
endfunction()
