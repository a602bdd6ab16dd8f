# WEFT_CUDA: whether to build the CUDA library. By default it is built if there is a toolkit, except in sanitized builds.
find_program(WEFT_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(WEFT_NVCC AND NOT WEFT_SANITIZE)
  set(weft_cuda_default ON)
else()
  set(weft_cuda_default OFF)
endif()
option(WEFT_CUDA "Build the CUDA library" ${weft_cuda_default})
# The kernels require only compute capability 8.0.
set(WEFT_CUDA_ARCH "90a-real" CACHE STRING "CUDA_ARCHITECTURES of the CUDA library")
if(WEFT_CUDA)
  if(NOT WEFT_NVCC)
    message(FATAL_ERROR "WEFT_CUDA=ON needs nvcc, which was found neither on PATH nor in CUDA_HOME nor /usr/local/cuda; "
                        "install the CUDA toolkit or configure with -DWEFT_CUDA=OFF")
  endif()
  set(CMAKE_CUDA_COMPILER ${WEFT_NVCC} CACHE FILEPATH "nvcc")
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # each target sets its own
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  # This level is that of host code, which only launches kernels. -O3 would take up to a tenth of the time to compile a file.
  set(CMAKE_CUDA_FLAGS_RELEASE "-O1 -DNDEBUG" CACHE STRING "nvcc's flags in Release builds")
  enable_language(CUDA)
  # CMake before 3.26 may lack nvcc's flag for C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  find_package(CUDAToolkit REQUIRED)
endif()

# Programs find the library next to them, so the build folder and archives of launcher/bundle.sh can be moved.
# RPATH rather than RUNPATH, because it also applies when one library of the archive loads another.
set(CMAKE_BUILD_RPATH ${PROJECT_BINARY_DIR} "$ORIGIN" "$ORIGIN/../lib")
add_link_options(-Wl,--disable-new-dtags)
