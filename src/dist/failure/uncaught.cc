#include "weft/dist/failure/uncaught.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "weft/core/base/process_memory.h"
#include "weft/core/host/message.h"

namespace weft {
namespace {

std::atomic<FailureWatch*> current{nullptr};
std::terminate_handler previous = nullptr;

// Returns the text of the exception and of those nested in it, outermost first.
std::string TextOf(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& e) {
    std::string text = weft::TextOf(e);
    auto* nested = dynamic_cast<const std::nested_exception*>(&e);
    return nested && nested->nested_ptr() ? text + ": " + TextOf(nested->nested_ptr()) : text;
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

[[noreturn]] void OnTerminate() {
  std::exception_ptr exception = std::current_exception();
  if (!exception) {
    if (previous) previous();
    std::abort();
  }
  std::string text = TextOf(exception);
  if (FailureWatch* failures = current.load()) failures->Uncaught(text);
  std::fflush(stdout);
  PrintStderr("weft: {}\n", text);
  std::_Exit(1);
}

}  // namespace

void ReportUncaught() {
  if (std::get_terminate() != OnTerminate) previous = std::set_terminate(OnTerminate);
}

UncaughtReport::UncaughtReport(FailureWatch& failures) { current = &failures; }
UncaughtReport::~UncaughtReport() { current = nullptr; }

}  // namespace weft
