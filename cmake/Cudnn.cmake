# cuDNN's attention is a backend of the CUDA library if the headers of cuDNN 9 and of cudnn-frontend are found.
# launcher/setup.sh fetches the latter. Only the build needs the headers; libcudnn is opened at run time if it is installed.
# Defines weft_cudnn to link, and the sources that this build must omit: weft_cudnn_omits from the CUDA library, and
# weft_cudnn_plan_omits from its plans.
find_path(WEFT_CUDNN_FRONTEND_DIR cudnn_frontend.h HINTS ${PROJECT_SOURCE_DIR}/build/deps/cudnn-frontend/include
  DOC "Include folder of cudnn-frontend; OFF: without cuDNN's attention")
find_path(WEFT_CUDNN_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} DOC "Include folder of cuDNN")

# weft_read_version(VARIABLE FILE): sets VARIABLE to "9.19.0" from the macros of a version header of cuDNN or its frontend,
# or to "" if the file does not exist.
function(weft_read_version variable file)
  set(version "")
  if(EXISTS "${file}")
    foreach(part MAJOR_VERSION MINOR_VERSION PATCH_VERSION MAJOR MINOR PATCHLEVEL)
      file(STRINGS "${file}" line REGEX "^#define CUDNN_(FRONTEND_)?${part} +[0-9]+" LIMIT_COUNT 1)
      if(line MATCHES " ([0-9]+)")
        list(APPEND version ${CMAKE_MATCH_1})
      endif()
    endforeach()
    list(JOIN version "." version)
  endif()
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()
weft_read_version(weft_frontend_version "${WEFT_CUDNN_FRONTEND_DIR}/cudnn_frontend_version.h")
weft_read_version(weft_cudnn_version "${WEFT_CUDNN_DIR}/cudnn_version.h")

add_library(weft_cudnn INTERFACE)
if(EXISTS "${WEFT_CUDNN_FRONTEND_DIR}/cudnn_frontend.h" AND weft_cudnn_version VERSION_GREATER_EQUAL 9)
  target_include_directories(weft_cudnn SYSTEM INTERFACE ${WEFT_CUDNN_FRONTEND_DIR} ${WEFT_CUDNN_DIR})
  target_link_libraries(weft_cudnn INTERFACE ${CMAKE_DL_LIBS})
  set(weft_cudnn_omits sdpa_no_cudnn.cc)
  set(weft_cudnn_plan_omits without_cudnn.cc)
  message(STATUS "Attention on GPUs: cudnn (headers ${weft_cudnn_version}, frontend ${weft_frontend_version}), flash, plain")
else()
  set(weft_cudnn_omits sdpa_cudnn.cc)
  set(weft_cudnn_plan_omits with_cudnn.cc)
  set(weft_cudnn_lacks "cudnn.h of cuDNN 9 (WEFT_CUDNN_DIR)")
  if(NOT EXISTS "${WEFT_CUDNN_FRONTEND_DIR}/cudnn_frontend.h")
    set(weft_cudnn_lacks "cudnn_frontend.h, which launcher/setup.sh fetches (WEFT_CUDNN_FRONTEND_DIR)")
  endif()
  message(STATUS "Attention on GPUs: flash, plain; without cudnn, which is faster: no ${weft_cudnn_lacks}")
endif()
