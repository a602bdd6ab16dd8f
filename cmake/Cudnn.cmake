# cuDNN's attention, a backend of the CUDA library where there are cuDNN's headers and those of cudnn-frontend (say, from the
# Python wheel nvidia-cudnn-frontend). To build only: libcudnn is opened at run time, where it is.
# Defines weft_cudnn to link, and weft_cudnn_omits: the source that this build has no use for.
find_program(WEFT_PYTHON python3)
if(WEFT_PYTHON AND NOT WEFT_CUDNN_FRONTEND_DIR)
  execute_process(COMMAND ${WEFT_PYTHON} -c "import sysconfig; print(sysconfig.get_path('purelib') + '/include')"
    OUTPUT_VARIABLE weft_wheels OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_path(WEFT_CUDNN_FRONTEND_DIR cudnn_frontend.h HINTS ${weft_wheels}
  DOC "Include folder of cudnn-frontend; OFF: without cuDNN's attention")
find_path(WEFT_CUDNN_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} DOC "Include folder of cuDNN")

add_library(weft_cudnn INTERFACE)
if(EXISTS "${WEFT_CUDNN_FRONTEND_DIR}/cudnn_frontend.h" AND EXISTS "${WEFT_CUDNN_DIR}/cudnn.h")
  target_include_directories(weft_cudnn SYSTEM INTERFACE ${WEFT_CUDNN_FRONTEND_DIR} ${WEFT_CUDNN_DIR})
  target_link_libraries(weft_cudnn INTERFACE ${CMAKE_DL_LIBS})
  set(weft_cudnn_omits sdpa_no_cudnn.cc)
else()
  message(STATUS "Attention on CUDA goes without cuDNN: no cudnn_frontend.h or no cudnn.h (WEFT_CUDNN_FRONTEND_DIR, WEFT_CUDNN_DIR)")
  set(weft_cudnn_omits sdpa_cudnn.cc)
endif()
