"""Prints FILE:LINE NAME of each function that ran, from the export of llvm-cov; closures and getters are left out."""
import json
import re
import subprocess
import sys

export, sources, demangler = sys.argv[1:]
ran = {}
for function in json.load(open(export))["data"][0]["functions"]:
    if function["count"] > 0:
        ran[function["name"].split(":")[-1]] = (function["filenames"][0], function["regions"][0][0])
names = subprocess.run(
    [demangler, "--compact", "--simplified"], input="\n".join(ran), capture_output=True, text=True, check=True
).stdout.splitlines()
hidden = re.compile(r"closure #|\.(getter|modify|read)\b|getter :|default argument|variable initialization|implicit closure|autoclosure")
seen = set()
for (file, line), name in zip(ran.values(), names):
    if not hidden.search(name) and file.startswith(sources):
        seen.add(f"{file[len(sources):]}:{line:04} {name}")
print("\n".join(sorted(seen)))
