// library_end HOW, run by library_end_test.sh: a program of the library whose ranks end in different ways.
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

#include "weft/api/umbrella/weft.h"

using namespace weft;

int Run(int argc, char** argv, const std::string& how) {
  Context context = Context::FromEnvironment(argc, argv);
  DeviceMesh mesh(context, {{"dp", -1}});
  EagerScope eager(mesh);
  DTensor a = Ones({4}, mesh, {Shard(0)});
  a.FullTensor();
  if ((how == "throw" || how == "caught") && mesh.rank() == 1) Fail("the odd rank gives up");
  if (how == "all throw") Fail("every rank gives up");
  if (how == "nested" && mesh.rank() == 1) try {
      Fail("the cause");
    } catch (const Error&) {
      std::throw_with_nested(std::runtime_error("the consequence"));
    }
  if (how == "thread" && mesh.rank() == 1) std::thread([] { throw 5; }).join();
  if (how == "leave" && mesh.rank() == 1) return 0;
  if (how == "late" && mesh.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(4));
  if (how != "late") a.FullTensor();
  return 0;
}

int main(int argc, char** argv) {
  std::string how = argc > 1 ? argv[1] : "";
  if (how != "caught") return Run(argc, argv, how);
  try {
    return Run(argc, argv, how);
  } catch (const Error& e) {
    std::printf("caught: %s\n", e.what());
    return 1;
  }
}
