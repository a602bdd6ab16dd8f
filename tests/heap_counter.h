// Counts every heap allocation of a test binary by replacing its operator new. A test that uses it must link
// tests/heap_counter.cc.
#pragma once

namespace weft::test {

long HeapAllocations();  // the number so far, on all threads

}  // namespace weft::test
