// Runs tests under mpirun. The ranks run the same tests in step. A failure on one rank fails the test on all, and each
// rank prints its own failures.
#pragma once
#include <string>

#include "weft/dist/start/bootstrap.h"

namespace weft::test {

constexpr int kSkipped = 77;  // the exit code of tests that cannot run here

// The main function of a program of such tests. `lack_of` returns what the ranks lack for them, "" if nothing, the same
// on all ranks; then no test runs, and the exit code is kSkipped.
int RunUnderMpi(int argc, char** argv, std::string (*lack_of)(Bootstrap&) = nullptr);

Bootstrap& TheBootstrap();  // that all tests of the program share

}  // namespace weft::test
