// Counts every heap allocation of a test binary by replacing its operator new. A test that uses it must link
// tests/heap_counter.cc.
#pragma once

namespace weft::test {

long HeapAllocations();  // the number so far, on all threads
// The most bytes in use since RestartHeapPeak, beyond those in use then.
void RestartHeapPeak();
long HeapPeak();

}  // namespace weft::test
