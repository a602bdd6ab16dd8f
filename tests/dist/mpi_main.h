// What tests under mpirun share: one bootstrap for the program.
#pragma once
#include "weft/dist/start/bootstrap.h"

namespace weft::test {

Bootstrap& TheBootstrap();

}  // namespace weft::test
