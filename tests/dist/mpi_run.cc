#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "mpi_run.h"

namespace weft::test {
namespace {

Bootstrap* the_bootstrap = nullptr;

class Report : public testing::EmptyTestEventListener {
 public:
  explicit Report(Bootstrap& bootstrap) : bootstrap_(bootstrap) {}
  bool failed() const { return failed_; }

 private:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (bootstrap_.rank() == 0 || !result.failed()) return;  // rank 0 has the default printer
    std::printf("[rank %d] %s:%d: %s\n", bootstrap_.rank(), result.file_name() ? result.file_name() : "?",
                result.line_number(), result.message());
    std::fflush(stdout);
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    auto all = bootstrap_.AllGather(info.result()->Failed() ? "1" : "0");
    for (int r = 0; r < bootstrap_.world_size(); r++) {
      if (all[size_t(r)] != "1") continue;
      if (bootstrap_.rank() == 0 && r != 0)
        std::printf("%s.%s failed on rank %d\n", info.test_suite_name(), info.name(), r);
      failed_ = true;
    }
  }

  Bootstrap& bootstrap_;
  bool failed_ = false;
};

}  // namespace

Bootstrap& TheBootstrap() { return *the_bootstrap; }

int RunUnderMpi(int argc, char** argv, std::string (*lack_of)(Bootstrap&)) {
  auto bootstrap = Bootstrap::FromEnvironment(&argc, &argv);
  the_bootstrap = bootstrap.get();
  testing::InitGoogleTest(&argc, argv);
  if (std::string lack = lack_of ? lack_of(*bootstrap) : ""; !lack.empty()) {
    if (bootstrap->rank() == 0) std::printf("skipped: %s\n", lack.c_str());
    return kSkipped;
  }
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (bootstrap->rank() != 0) delete listeners.Release(listeners.default_result_printer());
  auto* report = new Report(*bootstrap);
  listeners.Append(report);
  int rc = RUN_ALL_TESTS();
  return rc || report->failed() ? 1 : 0;
}

}  // namespace weft::test
