# libweft.so contains all libraries of src. `cmake --install` installs it with its headers and a package, with which
# find_package(weft) defines weft::weft. Programs of this tree link the static libraries instead.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(weft_parts weft_core weft_kernels_common weft_kernels_cpu weft_cuda_plan weft_dist weft_parallel weft_api weft_train)

configure_file(cmake/version.h.in ${PROJECT_BINARY_DIR}/generated/weft/version.h)
list(TRANSFORM weft_parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE weft_objects)
add_library(weft_shared SHARED ${weft_objects})
add_library(weft::weft ALIAS weft_shared)
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft EXPORT_NAME weft LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} INSTALL_RPATH "$ORIGIN")
# Weft's headers include headers of these libraries.
target_link_libraries(weft_shared PUBLIC absl::inlined_vector absl::flat_hash_map absl::function_ref absl::status absl::statusor
  absl::strings fmt::fmt)
foreach(part ${weft_parts})
  get_target_property(libraries ${part} LINK_LIBRARIES)
  list(FILTER libraries EXCLUDE REGEX "^weft_(flags|core|kernels|cuda_plan|dist|parallel|api|train)")
  target_link_libraries(weft_shared PRIVATE ${libraries})
endforeach()
target_compile_features(weft_shared INTERFACE cxx_std_20)
target_include_directories(weft_shared INTERFACE $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(TARGETS weft_shared EXPORT weftTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(WEFT_CUDA)
  install(TARGETS weft_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})  # libweft.so opens it from its own folder
endif()
set_target_properties(weft PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
install(TARGETS weft RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The headers for CUDA, Gloo and NCCL are private.
install(DIRECTORY src/core src/kernels src/dist src/parallel src/api src/train DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "cuda" EXCLUDE PATTERN "gloo" EXCLUDE PATTERN "nccl" EXCLUDE)
install(FILES src/api/umbrella/weft.h ${PROJECT_BINARY_DIR}/generated/weft/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft)
set(weft_package ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${weft_package})
configure_package_config_file(cmake/weftConfig.cmake.in ${PROJECT_BINARY_DIR}/weftConfig.cmake INSTALL_DESTINATION ${weft_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weftConfig.cmake ${PROJECT_BINARY_DIR}/weftConfigVersion.cmake DESTINATION ${weft_package})
