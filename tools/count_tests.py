"""Prints "passed failed skipped" of a JUnit file that CTest wrote. Usage: count_tests.py FILE"""
import sys
import xml.etree.ElementTree

passed = failed = skipped = 0
for case in xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
    if case.find("failure") is not None:
        failed += 1
    elif case.get("status") == "run":
        passed += 1
    elif case.get("status") == "disabled" or (
            case.find("skipped") is not None
            and case.find("skipped").get("message", "").startswith("SKIP_")):
        skipped += 1
    else:  # could not be run at all
        failed += 1
print(passed, failed, skipped)
