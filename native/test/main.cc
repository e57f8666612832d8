#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <ostream>

namespace {

/// Says why a test case is left out of this build: its description.
struct SkipReasons : doctest::IReporter {
  explicit SkipReasons(const doctest::ContextOptions& options) : out(*options.cout) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData& test) override {
    if (!test.m_skip) return;
    out << "skipped: " << test.m_name << ": " << (test.m_description ? test.m_description : "")
        << '\n';
  }
  std::ostream& out;
};

DOCTEST_REGISTER_LISTENER("skip_reasons", 1, SkipReasons);

}  // namespace
