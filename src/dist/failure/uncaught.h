// UncaughtReport: an exception that a program does not catch ends its job with one line, "weft: rank 1: <what>", and
// exit code 1.
//
// Without it every rank that has such an exception prints "terminate called", and MPI's trace of the stack into the
// lines of the others.
#pragma once
#include "weft/dist/failure/failure_watch.h"

namespace weft {

// Sets the terminate handler of this process. A handler that the program sets later replaces it. A termination without
// an exception goes to the handler that was set before.
void ReportUncaught();

// While it lives, the handler also ends the other ranks of the job. There is one per process.
class UncaughtReport {
 public:
  explicit UncaughtReport(FailureWatch& failures);  // must outlive this object
  ~UncaughtReport();
  UncaughtReport(const UncaughtReport&) = delete;
  UncaughtReport& operator=(const UncaughtReport&) = delete;
};

}  // namespace weft
