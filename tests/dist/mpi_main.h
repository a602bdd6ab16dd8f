// The bootstrap that all tests of a program under mpirun share.
#pragma once
#include "weft/dist/start/bootstrap.h"

namespace weft::test {

Bootstrap& TheBootstrap();

}  // namespace weft::test
