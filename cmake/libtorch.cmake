# libtorch: LibTorch's CPU half, from the torch package's folder. Its CUDA half (libtorch_cuda.so, 2 GB with what it
# needs) is loaded by runtime/device.cpp when a run asks for a GPU, so that a CPU run starts a second earlier.
if(NOT EXISTS ${INKLING_TORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no LibTorch in INKLING_TORCH='${INKLING_TORCH}': without it scripts/environment installs one")
endif()
file(STRINGS ${INKLING_TORCH}/version.py INKLING_TORCH_VERSION REGEX "^__version__")
string(REGEX REPLACE ".*'([0-9.]+).*" "\\1" INKLING_TORCH_VERSION "${INKLING_TORCH_VERSION}")
set(INKLING_TORCH_VERSION ${INKLING_TORCH_VERSION} PARENT_SCOPE)  # for cmake/install.cmake
add_library(libtorch INTERFACE)
target_include_directories(libtorch SYSTEM INTERFACE ${INKLING_TORCH}/include
                           ${INKLING_TORCH}/include/torch/csrc/api/include)
# at::parallel_for is inline code: it needs the compiler's OpenMP, and LibTorch's own libgomp to run on the same threads.
target_compile_options(libtorch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_libraries(libtorch INTERFACE ${INKLING_TORCH}/lib/libtorch_cpu.so ${INKLING_TORCH}/lib/libc10.so
                      ${INKLING_TORCH}/lib/libgomp.so.1)
target_link_options(libtorch INTERFACE -Wl,--unresolved-symbols=ignore-in-shared-libs)

# The headers of c10d's group over gloo include five of gloo's, which LibTorch does not bring. They name these types only
# to point to them, so it is enough that there are such names; gloo itself is in libtorch_cpu.so.
function(gloo_header name content)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/gloo_headers/gloo/${name} CONTENT "#pragma once\n${content}" @ONLY)
endfunction()
gloo_header(algorithm.h "")
gloo_header(common/error.h "")
gloo_header(transport/device.h "namespace gloo::transport {\nclass Device;\nclass UnboundBuffer;\n}\n")
gloo_header(context.h "#include <chrono>
namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}\n")
gloo_header(rendezvous/store.h "#include <chrono>
#include <string>
#include <vector>
namespace gloo::rendezvous {
class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};
}\n")
target_include_directories(libtorch SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/gloo_headers)
target_compile_definitions(libtorch INTERFACE USE_C10D_GLOO)
