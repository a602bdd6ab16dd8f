// Counts every heap allocation of a test binary, by replacing its operator new: link tests/heap_counter.cc.
#pragma once

namespace weft::test {

long HeapAllocations();  // so far, on all threads

}  // namespace weft::test
