"""`make test` ends with a list of its slowest tests, of ctest and pytest together."""

import pathlib

import slowest_tests

CTEST = """<testsuite name="Linux"><testcase name="gfile_leak" classname="gfile_leak" time="7.5" status="run"/>
<testcase name="base_test" classname="base_test" time="0.01" status="run"/></testsuite>"""
PYTEST = """<testsuites><testsuite name="pytest"><testcase classname="tests.house.test_style" name="test_a[b]" time="9.25"/>
<testcase classname="tests.house.test_style" name="test_c" time="1"/></testsuite></testsuites>"""


def test_reports_of_both_are_one_list(tmp_path):
    (tmp_path / "ctest.xml").write_text(CTEST)
    (tmp_path / "pytest.xml").write_text(PYTEST)
    reports = [tmp_path / name for name in ("ctest.xml", "pytest.xml", "absent.xml")]
    assert slowest_tests.slowest(reports, 3) == [
        (9.25, "tests/house/test_style::test_a[b]"),
        (7.5, "gfile_leak"),
        (1.0, "tests/house/test_style::test_c"),
    ]


def test_the_script_of_the_tests_prints_the_list():
    """It cannot wait for its own run."""
    script = (pathlib.Path(slowest_tests.__file__).parent / "test.sh").read_text()
    assert script.index("pytest -q") < script.index('tools/slowest_tests.py "${reports[@]}"')
