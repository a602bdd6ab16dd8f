// Counts every heap allocation of a test binary, by replacing its operator new: link tests/heap_counter.cc.
#pragma once

namespace weft::test {

long HeapAllocations();  // so far, on all threads, without those that are counted apart

// From now on counts apart what is allocated inside a call into a shared library or on a thread of its own: where a
// frame of the stack lies in it. Sound for a library that never calls back. What it makes on order (a frame lies in its
// function `maker`, a mangled name) counts as its caller's. `name` is a part of the library's file name; false when
// library or function are not there.
bool CountApart(const char* name, const char* maker);
long HeapAllocationsApart();  // so far

}  // namespace weft::test
