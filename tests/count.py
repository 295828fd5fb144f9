"""Counts the results of `meson test`: python3 tests/count.py BUILD_DIR STATUS_OF_MESON_TEST

A GoogleTest program counts one for each of its cases, any other test counts one. A program that failed without a
failing case (a crash, a timeout) counts as one failure. Prints the output of what failed, then "N passed, N failed"
as the last line. Exits 1 if anything failed, if meson failed for another reason, or if nothing ran.
"""
import json
import os
import re
import sys
import xml.etree.ElementTree as xml


def cases(path):
    """(passed, failed, skipped) of a GoogleTest report; nothing if there is none, or only half of one."""
    passed = failed = skipped = 0
    try:
        tree = xml.parse(path)
    except (OSError, xml.ParseError):
        return 0, 0, 0
    for case in tree.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.get("status") == "notrun":  # DISABLED_: for hours of one's own, not for every run
            continue
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main(build, status):
    passed = failed = skipped = 0
    log = os.path.join(build, "meson-logs", "testlog.json")
    lines = open(log, encoding="utf-8").read().splitlines() if os.path.exists(log) else []
    for line in lines:
        test = json.loads(line)
        name = test["name"].rsplit(" / ", 1)[-1].rsplit(":", 1)[-1]
        p, f, s = cases(os.path.join(build, name + ".xml"))
        if test["result"] == "SKIP":
            s = s or 1
        elif test["result"] not in ("OK", "EXPECTEDFAIL"):
            f = f or 1
        elif p + f + s == 0:
            p = 1
        passed, failed, skipped = passed + p, failed + f, skipped + s
        if f:
            print(f"---- {name}: {test['result']} ----")
            output = (test.get("stdout") or "").splitlines()
            noise = re.compile(r"\[ (RUN     |      OK|---------) |\[-+\]|Running main")
            print("\n".join([o for o in output if not noise.match(o)][-200:]))
            print("\n".join((test.get("stderr") or "").splitlines()[-100:]))
    if status != 0 and failed == 0:
        print(f"meson test ended with {status}; see {build}/meson-logs/test.txt")
        failed = 1
    if passed + failed == 0:
        print("No test ran.")
    if skipped:
        print(f"{skipped} skipped (each says why in {build}/meson-logs/testlog.txt)")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
